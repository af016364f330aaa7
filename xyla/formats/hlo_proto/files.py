"""Bytes and text of protos: which message a file holds, and the protobuf library's errors as ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError, EncodeError, Message

from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.annotations import NAME_KEY
from xyla.formats.hlo_proto.literals import read_literal, write_literal
from xyla.formats.hlo_proto.reader import read_module
from xyla.formats.hlo_proto.writer import write_module
from xyla.hlo.literal import Literal
from xyla.hlo.module import Module
from xyla.support.diagnostics import Source, Span
from xyla.support.status import XylaError, invalid, unimplemented

M = TypeVar("M", bound=Message)
R = TypeVar("R")
_FIELD = re.compile(r"\s*(?:#[^\n]*\n\s*)*([A-Za-z_]\w*)")
_MODULE_ONLY = frozenset(f.name for f in pb.HloModuleProto.DESCRIPTOR.fields)
_SNAPSHOT_ONLY = frozenset(("hlo", "arguments", "result", "execution_platform"))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A module with the arguments it was run on and the result it gave (None when none was recorded)."""

    module: Module
    arguments: tuple[Literal, ...] = ()
    result: Literal | None = None
    platform: str = ""


def load_bytes(data: bytes, name: str) -> Module:
    """The module in an HloProto, HloModuleProto or HloSnapshot. Raises INVALID_ARGUMENT for anything else."""
    return _named(name, lambda: read_module(_any_proto(data)))


def load_snapshot(data: bytes, name: str = "<snapshot>") -> Snapshot:
    """A snapshot with its literals; the other messages give one without. Raises INVALID_ARGUMENT."""

    def read() -> Snapshot:
        snapshot = _parsed(pb.HloSnapshot, data)
        if snapshot is None or not snapshot.hlo.hlo_module.computations:
            return Snapshot(read_module(_any_proto(data)))
        result = read_literal(snapshot.result) if snapshot.HasField("result") else None
        arguments = tuple(map(read_literal, snapshot.arguments))
        return Snapshot(read_module(snapshot.hlo), arguments, result, snapshot.execution_platform)

    return _named(name, read)


def load_text(text: str, name: str) -> Module:
    """The module in the text format of any of the three messages. Raises a located INVALID_ARGUMENT."""
    return _named(name, lambda: read_module(_proto_of_text(text, name)))


def to_bytes(module: Module) -> bytes:
    """An HloProto, as XLA dumps to `.hlo.pb`. Raises UNIMPLEMENTED for what XLA's protos cannot hold."""
    return _serialized(write_module(module))


def to_text(module: Module) -> str:
    """An HloProto in protobuf's text format. Raises UNIMPLEMENTED for what XLA's protos cannot hold.

    XLA's text parser refuses unknown fields, so the two of ours that nearly every module has are left out: read back,
    layouts are spelt out and names are unique in the module.
    """
    proto = write_module(module)
    # A wire fault (nesting too deep) shows here as it would in the binary form.
    _serialized(proto)
    _strip_private(proto)
    return str(text_format.MessageToString(proto))


def _strip_private(proto: Message) -> None:
    """Removes LayoutProto.implied and kept instruction names everywhere."""
    stack: list[Any] = [proto]
    while stack:
        message = stack.pop()
        if isinstance(message, pb.LayoutProto):
            message.ClearField("implied")
        elif isinstance(message, pb.HloInstructionProto) and NAME_KEY in message.text_attributes:
            del message.text_attributes[NAME_KEY]
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE and not field.message_type.GetOptions().map_entry:
                stack.extend(value if isinstance(value, Sequence) else [value])


def snapshot_to_bytes(
    module: Module, arguments: Sequence[Literal] = (), result: Literal | None = None, platform: str = ""
) -> bytes:
    """An HloSnapshot. Raises UNIMPLEMENTED for what XLA's protos cannot hold."""
    snapshot = pb.HloSnapshot(hlo=write_module(module), execution_platform=platform)
    for literal in arguments:
        write_literal(literal, snapshot.arguments.add())
    if result is not None:
        write_literal(result, snapshot.result)
    return _serialized(snapshot)


def _serialized(proto: Message) -> bytes:
    try:
        return bytes(proto.SerializeToString(deterministic=True))
    except (EncodeError, ValueError) as error:
        raise unimplemented(f"protobuf cannot encode the module: {error}") from None


def _named(name: str, read: Callable[[], R]) -> R:
    try:
        return read()
    except XylaError as error:
        if error.span is not None:
            raise
        raise XylaError(error.status, f"{name}: {error.message}", hint=error.hint) from None


def _parsed(kind: type[M], data: bytes) -> M | None:
    try:
        return kind.FromString(data)
    except DecodeError:
        return None


def _any_proto(data: bytes) -> pb.HloProto:
    """The three messages share field numbers; only the right one yields computations."""
    proto = _parsed(pb.HloProto, data)
    if proto is not None and proto.hlo_module.computations:
        return proto
    module = _parsed(pb.HloModuleProto, data)
    if module is not None and module.computations:
        return pb.HloProto(hlo_module=module)
    snapshot = _parsed(pb.HloSnapshot, data)
    if snapshot is not None and snapshot.hlo.hlo_module.computations:
        return snapshot.hlo
    raise invalid("this is no HloProto, HloModuleProto or HloSnapshot with computations (damaged or cut short?)")


def _proto_of_text(text: str, name: str) -> pb.HloProto:
    match = _FIELD.match(text)
    first = match.group(1) if match else ""
    if first in _SNAPSHOT_ONLY:
        return _parse_text(text, name, pb.HloSnapshot()).hlo
    if first in _MODULE_ONLY:
        return pb.HloProto(hlo_module=_parse_text(text, name, pb.HloModuleProto()))
    return _parse_text(text, name, pb.HloProto())


def _parse_text(text: str, name: str, message: M) -> M:
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise _parse_error(error, text, name) from None
    except RecursionError:
        # The library's parser recurses over nested messages.
        raise invalid("the proto's messages nest too deeply") from None
    except (ValueError, OverflowError) as error:
        raise invalid(f"bad value: {error}") from None
    return message


def _parse_error(error: text_format.ParseError, text: str, name: str) -> XylaError:
    message = re.sub(r"^\d+:\d+ : ", "", str(error)).strip()
    line, column = error.GetLine(), error.GetColumn()
    if line is None:
        return invalid(f"{message[:300]}")
    source = Source(name, text)
    offset = _offset(text, line, column or 1)
    return invalid(message[:300], span=Span(source, offset, min(offset + 1, len(text))))


def _offset(text: str, line: int, column: int) -> int:
    at = 0
    for _ in range(line - 1):
        found = text.find("\n", at)
        if found < 0:
            break
        at = found + 1
    return min(at + column - 1, len(text))
