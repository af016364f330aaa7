"""Signatures of custom calls: which attributes a call takes, of which types, and which arguments.

A signature is written with Python's own types: `{"axis": int, "mode": Mode, "dims": tuple[int, ...]}`. An enum travels
as its number, or by its name; a record is a frozen dataclass (or a nested mapping) and travels as a dictionary.
`Signature.decode` checks what a step holds and gives the function what it asked for.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from xyla.runtime.program import ArrayType, Attribute, Deferred
from xyla.support.diagnostics import did_you_mean
from xyla.support.status import XylaError, invalid


class Kind(Enum):
    """What an attribute holds."""

    BOOL = "bool"
    I32 = "i32"
    I64 = "i64"
    F32 = "f32"
    F64 = "f64"
    STRING = "string"
    BYTES = "bytes"
    I64S = "integers"
    LIST = "list"
    ANY = "anything"
    ENUM = "enum"
    RECORD = "record"
    TYPE = "array type"


_BITS = {Kind.I32: 32, Kind.I64: 64}
REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class AttributeType:
    """The type of one attribute.

    element: of a list. enum: the class of an enum. fields, record: of a record, and the dataclass to make of it (None:
    a dictionary). default: what an absent attribute is (REQUIRED: an error).
    """

    kind: Kind
    element: AttributeType | None = None
    enum: type[Enum] | None = None
    fields: Mapping[str, AttributeType] = field(default_factory=dict)
    record: type[Any] | None = None
    default: Any = REQUIRED

    def decode(self, value: Attribute, where: str) -> Any:
        """The value as the function gets it. Raises INVALID_ARGUMENT naming `where` and both types."""
        match self.kind:
            case Kind.BOOL if isinstance(value, bool | int) and value in (0, 1):
                return bool(value)
            case Kind.I32 | Kind.I64 if isinstance(value, int) and not isinstance(value, bool):
                return self._integer(value, where)
            case Kind.F32 | Kind.F64 if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
            case Kind.STRING if isinstance(value, str | Deferred):
                return value.text if isinstance(value, Deferred) else value
            case Kind.BYTES if isinstance(value, bytes | str):
                return value.encode() if isinstance(value, str) else value
            case Kind.I64S if isinstance(value, tuple) and all(isinstance(v, int) for v in value):
                return tuple(int(v) for v in value if isinstance(v, int))
            case Kind.LIST if isinstance(value, tuple) and self.element is not None:
                return tuple(self.element.decode(v, f"{where}[{i}]") for i, v in enumerate(value))
            case Kind.ENUM if isinstance(value, int | str) and self.enum is not None:
                return _enumerator(self.enum, value, where)
            case Kind.RECORD if isinstance(value, Mapping):
                decoded = decode_all(self.fields, value, where)
                return self.record(**decoded) if self.record is not None else decoded
            case Kind.ANY:
                return value
            case Kind.TYPE if isinstance(value, ArrayType):
                return value
        raise invalid(f"{where} is {_shown(value)}, expected {self}")

    def _integer(self, value: int, where: str) -> int:
        bits = _BITS[self.kind]
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise invalid(f"{where} is {value}, which does not fit {self}")
        return value

    def __str__(self) -> str:
        if self.kind is Kind.ENUM and self.enum is not None:
            return f"one of {', '.join(m.name for m in self.enum)}"
        if self.kind is Kind.RECORD:
            return f"a record of {', '.join(self.fields)}"
        return str(self.kind.value)


def _shown(value: Attribute) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _enumerator(enum: type[Enum], value: int | str, where: str) -> Enum:
    for member in enum:
        if value in (member.name, member.value):
            return member
    near = did_you_mean(str(value), [m.name for m in enum])
    names = ", ".join(m.name for m in enum)
    raise invalid(f"{where} is {value!r}, expected one of {names}", hint=f"did you mean {near!r}?" if near else None)


def decode_all(wanted: Mapping[str, AttributeType], given: Mapping[str, Attribute], where: str) -> dict[str, Any]:
    """All attributes, defaults filled in. Raises INVALID_ARGUMENT for an unknown, a missing or a wrong one."""
    for name in given:
        if name not in wanted:
            near = did_you_mean(name, wanted)
            hint = f"did you mean {near!r}?" if near else None
            raise invalid(f"{where} has no attribute {name!r}: it takes {', '.join(wanted) or 'none'}", hint=hint)
    out: dict[str, Any] = {}
    for name, kind in wanted.items():
        if name in given:
            out[name] = kind.decode(given[name], f"{where}: attribute {name!r}")
        elif kind.default is REQUIRED:
            raise invalid(f"{where} lacks the attribute {name!r} ({kind})")
        else:
            out[name] = kind.default
    return out


_SCALARS: dict[object, Kind] = {
    bool: Kind.BOOL,
    int: Kind.I64,
    float: Kind.F64,
    str: Kind.STRING,
    bytes: Kind.BYTES,
    np.int32: Kind.I32,
    np.int64: Kind.I64,
    np.float32: Kind.F32,
    np.float64: Kind.F64,
    ArrayType: Kind.TYPE,
}


def attribute_type(wanted: Any, default: Any = REQUIRED) -> AttributeType:
    """The attribute type of a Python type, an enum, a dataclass or a mapping of such; itself when it is one.

    Raises INVALID_ARGUMENT for a type that attributes do not have.
    """
    if isinstance(wanted, AttributeType):
        return wanted if default is REQUIRED else dataclasses.replace(wanted, default=default)
    if wanted in _SCALARS if isinstance(wanted, type) else False:
        return AttributeType(_SCALARS[wanted], default=default)
    if isinstance(wanted, Mapping):
        return AttributeType(Kind.RECORD, fields=attribute_types(wanted), default=default)
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (tuple, list, Sequence) and arguments:
        element = attribute_type(arguments[0])
        kind = Kind.I64S if element.kind is Kind.I64 else Kind.LIST
        return AttributeType(kind, element=element, default=default)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return AttributeType(Kind.ENUM, enum=wanted, default=default)
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        return AttributeType(Kind.RECORD, fields=_fields(wanted), record=wanted, default=default)
    raise invalid(f"an attribute cannot be of type {_type_name(wanted)}")


def _type_name(wanted: Any) -> str:
    return str(getattr(wanted, "__name__", wanted))


def _fields(record: Any) -> dict[str, AttributeType]:
    hints = typing.get_type_hints(record)
    out: dict[str, AttributeType] = {}
    for f in dataclasses.fields(record):
        default = f.default
        if default is dataclasses.MISSING:
            default = f.default_factory() if f.default_factory is not dataclasses.MISSING else REQUIRED
        out[f.name] = attribute_type(hints[f.name], default)
    return out


def attribute_types(wanted: Mapping[str, Any]) -> dict[str, AttributeType]:
    """A schema of Python types; `(type, default)` makes an attribute optional."""
    out: dict[str, AttributeType] = {}
    for name, kind in wanted.items():
        optional = isinstance(kind, tuple) and len(kind) == 2
        out[name] = attribute_type(*kind) if optional else attribute_type(kind)
    return out


@dataclass(frozen=True, slots=True)
class Argument:
    """What one argument or result may be: its NumPy type and its rank, None for any."""

    name: str
    dtype: np.dtype[np.generic] | None = None
    rank: int | None = None

    def check(self, given: ArrayType, where: str) -> None:
        """Raises INVALID_ARGUMENT when an array of that type does not fit."""
        if self.dtype is not None and given.dtype != self.dtype:
            raise invalid(f"{where}: {self.name} is an array of {given.dtype}, expected {self.dtype}")
        if self.rank is not None and len(given.dims) != self.rank:
            raise invalid(f"{where}: {self.name} has {len(given.dims)} dimensions, expected {self.rank}")


@dataclass(frozen=True, slots=True)
class Signature:
    """What a call takes. attributes: by name, None for any; arguments, results: None for any number of any type."""

    attributes: Mapping[str, AttributeType] | None = None
    arguments: tuple[Argument, ...] | None = None
    results: tuple[Argument, ...] | None = None

    def decode(self, given: Mapping[str, Attribute], where: str) -> dict[str, Any]:
        """The attributes as the function gets them. Raises INVALID_ARGUMENT, see `decode_all`."""
        return dict(given) if self.attributes is None else decode_all(self.attributes, given, where)

    def check(self, inputs: Sequence[ArrayType], outputs: Sequence[ArrayType], where: str) -> None:
        """Raises INVALID_ARGUMENT when the arguments or the results are not what the call takes."""
        for wanted, given, what in ((self.arguments, inputs, "argument"), (self.results, outputs, "result")):
            if wanted is None:
                continue
            if len(wanted) != len(given):
                raise invalid(f"{where} takes {len(wanted)} {what}(s), {len(given)} given")
            for spec, array in zip(wanted, given, strict=True):
                spec.check(array, where)


ANY = Signature()


def in_call(error: Exception, where: str) -> XylaError:
    """What a failed call becomes: an error of the same status, or UNKNOWN, that says where and carries the text."""
    from xyla.support.status import Status

    if isinstance(error, XylaError):
        return XylaError(error.status, f"{where}: {error.message}", span=error.span, hint=error.hint)
    text = str(error) or type(error).__name__
    status = Status.RESOURCE_EXHAUSTED if isinstance(error, MemoryError) else Status.UNKNOWN
    return XylaError(status, f"{where}: {type(error).__name__}: {text}" if str(error) else f"{where}: {text}")
