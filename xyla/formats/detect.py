"""What a file holds, found from its content, and the reader for it. The readers are imported when needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

from xyla.support.diagnostics import did_you_mean
from xyla.support.status import Status, XylaError, invalid, unimplemented

if TYPE_CHECKING:
    from xyla.formats.stablehlo.program import StablehloProgram
    from xyla.hlo.module import Module

Loaded: TypeAlias = Union["Module", "StablehloProgram"]

KINDS = ("hlo", "stablehlo", "proto", "text-proto", "snapshot")
_BYTECODE_MAGIC = b"ML\xefR"
_BLANK = re.compile(r"(?:\s++|//[^\n]*+)*+")
_MLIR_START = re.compile(
    r'(?:#[\w.]+\s*=|![\w.]+\s*=|module\b\s*(?:@|attributes\b|\{)|(?:func\.)?func\b|"?builtin\.module|"func)'
)
_MLIR_INSIDE = re.compile(r'\b(?:func\.func|stablehlo\.|mhlo\.|chlo\.|sdy\.|return\b)|"func\.func"')
_PROTO_START = re.compile(
    r"(?:#[^\n]*+\s*+)*+(?:hlo|hlo_module|buffer_assignment|name|id|computations|entry_computation_(?:name|id)|"
    r"host_program_shape|arguments|result|execution_platform)\s*[:{<]"
)
_PROTO_INSIDE = re.compile(r"\w\s*:\s*[\"\d\-A-Z]")
# How a text starts; what starts so but is no UTF-8 is a damaged text, not a proto.
_TEXT_START = re.compile(rb"\s*(?://|/\*|HloModule\b|ENTRY\b|%|#|module\b|func\.|\"builtin)")
# Bytes that no text holds; deleting them is six times faster than searching for them.
_CONTROL = bytes([*range(9), *range(14, 32)])


def load_file(source: bytes | str | Path, name: str | None = None, kind: str | None = None) -> Loaded:
    """Reads a program from a path, or from the bytes of a file.

    `name` is what errors call it (default: the path). `kind` is one of KINDS, or None to find it from the content.
    Returns a Module, or a StablehloProgram for what HLO cannot express. Raises NOT_FOUND for an unreadable file,
    UNIMPLEMENTED for MLIR bytecode and INVALID_ARGUMENT, located, for a malformed program.
    """
    if isinstance(source, bytes):
        data, name = source, name or "<bytes>"
    else:
        name = name or str(source)
        data = _read(Path(source), name)
    data = data.removeprefix(b"\xef\xbb\xbf")  # the byte order mark that some editors write
    kind = detect(data, name) if kind is None else _checked(kind)
    if kind == "proto" or kind == "snapshot":
        from xyla.formats import hlo_proto

        return hlo_proto.load_bytes(data, name)
    if data.startswith(_BYTECODE_MAGIC):
        raise _bytecode(name)
    text = _decoded(data, name)
    if kind == "hlo":
        from xyla.formats import hlo_text

        return hlo_text.parse(text, name)
    if kind == "text-proto":
        from xyla.formats import hlo_proto

        return hlo_proto.load_text(text, name)
    from xyla.formats import stablehlo

    return stablehlo.load(text, name)


def detect(data: bytes, name: str) -> str:
    """The kind of a file's content, one of KINDS. Raises INVALID_ARGUMENT for an empty file and for a damaged text."""
    if not data.strip():
        raise invalid(f"{name} is empty")
    if data.startswith(_BYTECODE_MAGIC):
        raise _bytecode(name)
    if not _is_text(data):
        return "hlo" if _TEXT_START.match(data) and not _is_wire(data) else "proto"
    text = data.decode("utf-8")
    start = _BLANK.match(text)
    at = start.end() if start else 0
    if _MLIR_START.match(text, at) and _MLIR_INSIDE.search(text, at):
        return "stablehlo"
    if _PROTO_START.match(text, at) and _PROTO_INSIDE.search(text, at):
        return "text-proto"
    return "hlo"


def _is_wire(data: bytes) -> bool:
    """Whether the bytes divide into protobuf fields (lengths and numbers): a first field may look like white space."""
    at, end = 0, len(data)
    while at < end:
        kind = data[at] & 7
        if data[at] >> 3 == 0 or kind not in (0, 2):
            return False
        # A tag past 15 takes a second byte.
        at, _ = _varint(data, at)
        at, value = _varint(data, at)
        at += value if kind == 2 else 0
    return at == end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(the offset past it, the number); past the end where the data stops short."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return at, value
    return len(data) + 1, 0


def _is_text(data: bytes) -> bool:
    if len(data.translate(None, _CONTROL)) != len(data):
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _checked(kind: str) -> str:
    if kind in KINDS:
        return kind
    near = did_you_mean(kind, KINDS)
    raise invalid(f"unknown kind '{kind}'", hint=f"did you mean '{near}'?" if near else f"one of {', '.join(KINDS)}")


def _read(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise XylaError(Status.NOT_FOUND, f"cannot read {name}: {error.strerror or error}") from None


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise invalid(
            f"{name}:{line}: the text is not UTF-8 (byte {error.start} is 0x{data[error.start]:02x})"
        ) from None


def _bytecode(name: str) -> XylaError:
    return unimplemented(
        f"{name} is MLIR bytecode, which is not read yet",
        hint="convert it to text, for instance with stablehlo-translate",
    )
