"""Executables as files: one file holds the object code, the runtime program and its constants.

    0   8   magic
    8   8   size of the file
    16  32  SHA-256 of all that follows
    48  8   size of the header
    56      header: JSON (see `_header`), then blobs, each at a multiple of 64 bytes

Loading maps the file and uses constants where they lie. Nothing is compiled or parsed but the header.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.runtime import aot_codec
from xyla.runtime.custom_calls import find
from xyla.runtime.dynamic import DynamicExecutable, Interface
from xyla.runtime.engine_native import support_sources
from xyla.runtime.executable import Devices, Executable, Stats
from xyla.runtime.llvm_compile import Host, host
from xyla.runtime.objects import compile_images, default_store
from xyla.runtime.program import CustomCallStep, Program, all_steps
from xyla.support.status import Status, XylaError, unimplemented
from xyla.support.version import __version__

MAGIC = b"XYLAaot\x01"
_HEAD = struct.Struct("<8sQ32sQ")
_CHECKED_FROM = 48
_ALIGN = 64
# Of the object code's and the program's form: raise it when either changes without the version.
FORMAT = 3

Bytes = npt.NDArray[np.uint8]


def save(executable: Executable, path: str | os.PathLike[str]) -> None:
    """Writes an executable to a file, in place of what was there.

    Raises UNIMPLEMENTED when the program holds what a file cannot: a function of this process without a name.
    """
    if executable.saved is not None:
        _write(Path(path), bytes(executable.saved))
        return
    program = executable.program
    _check_calls(program)
    if len(executable.sources) != len(program.kernel_names):
        raise XylaError(Status.FAILED_PRECONDITION, f"{program.name} was made without the text of its kernels")
    sources = {s.symbol: s for s in (*executable.sources, *support_sources())}
    images = compile_images(list(sources.values()))
    parts, constants = aot_codec.encode(program)
    blobs = [*(image for _, image in images), *(c.tobytes() for c in constants)]
    header = _header(parts, list(sources), [len(b) for b in blobs], len(images), executable)
    _write(Path(path), _assemble(json.dumps(header).encode(), blobs))


def _check_calls(program: Program) -> None:
    for step in all_steps(program):
        if isinstance(step, CustomCallStep) and find(step.target) is None:
            raise unimplemented(
                f"{step.name}: {step.target!r} is a function of this process alone: a file cannot hold it",
                hint="register it by name with xyla.register_custom_call",
            )


def _header(
    parts: Any, symbols: list[str], sizes: list[int], num_images: int, executable: Executable
) -> dict[str, Any]:
    here = host()
    interface = executable.interface if isinstance(executable, DynamicExecutable) else None
    return {
        "format": FORMAT,
        "version": __version__,
        "triple": here.triple,
        "cpu": here.cpu,
        "features": here.features,
        "symbols": symbols,
        "sizes": sizes,
        "images": num_images,
        "program": parts,
        "interface": None if interface is None else [interface.arguments, interface.results],
        "devices": asdict(executable.devices),
        "stats": asdict(executable.stats),
    }


def _assemble(header: bytes, blobs: Sequence[bytes]) -> bytes:
    out = bytearray(_HEAD.size)
    out += header
    for blob in blobs:
        out += bytes(-len(out) % _ALIGN)
        out += blob
    _HEAD.pack_into(out, 0, MAGIC, len(out), bytes(32), len(header))
    digest = hashlib.sha256(memoryview(out)[_CHECKED_FROM:]).digest()
    _HEAD.pack_into(out, 0, MAGIC, len(out), digest, len(header))
    return bytes(out)


def _write(path: Path, contents: bytes) -> None:
    """Under another name first: a process that has mapped the old file keeps it."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=".xyla-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(contents)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:  # Ctrl-C too: nothing half-written stays
            os.unlink(temporary)
            raise
    except OSError as error:
        raise XylaError(Status.FAILED_PRECONDITION, f"cannot write {path}: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def load(path: str | os.PathLike[str], prepare: Callable[[Program], None] | None = None) -> Executable:
    """An executable from a file that `save` wrote. prepare: called with the program before its calls are looked up.

    Raises NOT_FOUND for no file, INVALID_ARGUMENT for another kind of file, DATA_LOSS for a damaged one, and
    FAILED_PRECONDITION for one that another version of xyla wrote, or for another CPU.
    """
    name = os.fspath(path)
    contents = _mapped(Path(path))
    header, end = _checked_header(contents, name)
    _check_origin(header, host(), name)
    try:
        return _built(header, _blobs(contents, end, header["sizes"]), contents, prepare)
    except _NONSENSE as error:
        raise XylaError(Status.DATA_LOSS, f"{name}: its header makes no sense ({error})") from None


# What a header raises that is well formed and yet not what `save` wrote.
_NONSENSE = (
    KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, RecursionError, RuntimeError,
    AssertionError,
)  # fmt: skip


def _built(
    header: dict[str, Any], blobs: list[Bytes], contents: memoryview, prepare: Callable[[Program], None] | None
) -> Executable:
    images = [b.tobytes() for b in blobs[: header["images"]]]
    program = aot_codec.decode(header["program"], blobs[header["images"] :])
    stats = Stats(**header["stats"])
    stats.handlers = [(a, b) for a, b in stats.handlers]
    symbols = [str(s) for s in header["symbols"]]
    wanted = [symbols.index(s) for s in program.kernel_names]
    if prepare is not None:
        prepare(program)
    store = default_store()
    kernels = store.adopt(images, symbols)
    addresses, interface = [kernels[i].address for i in wanted], header["interface"]
    if interface is None:
        loaded = Executable(program, addresses, stats, keep_alive=store)
    else:
        loaded = DynamicExecutable(program, addresses, stats, keep_alive=store)
        loaded.interface = Interface(*map(_tuples, interface))
    loaded.devices = Devices(**header["devices"])
    loaded.saved = contents
    return loaded


def _tuples(value: Any) -> Any:
    """Lists as tuples, all the way in."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def is_saved(head: bytes) -> bool:
    """Whether a file that starts like this is a saved executable (damaged or not)."""
    return head[: len(MAGIC) - 1] == MAGIC[:-1]


def _mapped(path: Path) -> memoryview:
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ))
    except FileNotFoundError:
        raise XylaError(Status.NOT_FOUND, f"{path}: no such file") from None
    except OSError as error:
        raise XylaError(Status.FAILED_PRECONDITION, f"cannot read {path}: {error.strerror or error}") from error


def _checked_header(contents: memoryview, name: str) -> tuple[dict[str, Any], int]:
    """(the header, where it ends) of a file whose every byte is as it was written."""
    if len(contents) < _HEAD.size or contents[: len(MAGIC)] != MAGIC:
        raise XylaError(Status.INVALID_ARGUMENT, f"{name}: not an executable that xyla saved")
    _, size, digest, length = _HEAD.unpack_from(contents)
    if size != len(contents):
        raise XylaError(
            Status.DATA_LOSS, f"{name}: {len(contents)} bytes, {size} were written: the file is cut or damaged"
        )
    if hashlib.sha256(contents[_CHECKED_FROM:]).digest() != digest:
        raise XylaError(Status.DATA_LOSS, f"{name}: damaged: its checksum is not that of its contents")
    end = _HEAD.size + length
    try:
        header = json.loads(bytes(contents[_HEAD.size : end]))
    except (ValueError, RecursionError) as error:
        raise XylaError(Status.DATA_LOSS, f"{name}: its header makes no sense ({error})") from None
    if not isinstance(header, dict):
        raise XylaError(Status.DATA_LOSS, f"{name}: its header makes no sense")
    return header, end


def _check_origin(header: dict[str, Any], here: Host, name: str) -> None:
    """Code for another machine, or by another version, is refused."""
    written = (header.get("version"), header.get("format"))
    if written != (__version__, FORMAT):
        raise _refused(f"{name}: written by xyla {written[0]} (format {written[1]}), this is {__version__} ({FORMAT})")
    if (header.get("triple"), header.get("cpu")) != (here.triple, here.cpu):
        raise _refused(
            f"{name}: compiled for {header.get('triple')} {header.get('cpu')}, this is {here.triple} {here.cpu}"
        )
    missing = sorted(_enabled(str(header.get("features"))) - _enabled(here.features))
    if missing:
        raise _refused(f"{name}: compiled for a CPU with {', '.join(missing)}, which this one lacks")


def _refused(message: str) -> XylaError:
    return XylaError(Status.FAILED_PRECONDITION, message, hint="compile it again here")


def _enabled(features: str) -> set[str]:
    return {f[1:] for f in features.split(",") if f.startswith("+")}


def _blobs(contents: memoryview, end: int, sizes: Sequence[int]) -> list[Bytes]:
    """The blobs behind the header, without copying them."""
    whole = np.frombuffer(contents, np.uint8)
    found, at = [], end
    for size in sizes:
        at += -at % _ALIGN
        if not 0 <= size <= len(whole) - at:
            raise ValueError("a part lies outside the file")
        found.append(whole[at : at + size])
        at += size
    return found
