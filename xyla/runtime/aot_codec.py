"""Programs as JSON values and back.

Each dataclass of `program` is a row of a table, [class, field, ...], which refers to earlier rows; equal records share
one. The fields come from the dataclasses themselves. Sequences of steps are numbered, so that nesting costs no Python
stack.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.runtime.program import (
    Allocation,
    AllocationKind,
    Argument,
    ArrayType,
    CallStep,
    CopyStep,
    CustomCallStep,
    Deferred,
    GemmCall,
    GemmStep,
    KernelStep,
    Output,
    Program,
    Slice,
    StepList,
    SwitchStep,
    WhileStep,
    all_steps,
    nested,
)
from xyla.support.dtypes import by_name, by_numpy
from xyla.support.status import internal

Bytes = npt.NDArray[np.uint8]
Json = Any
# Rows name their class by its place here: add at the end only.
_RECORDS: tuple[type[Any], ...] = (
    Slice, ArrayType, Allocation, Argument, Output, GemmCall,
    KernelStep, CopyStep, GemmStep, CustomCallStep, CallStep, WhileStep, SwitchStep,
)  # fmt: skip
# What a file cannot hold, or need not.
_LEFT_OUT = {CustomCallStep: {"prepared"}}
_FIELDS = {
    cls: tuple(f.name for f in fields(cls) if f.name not in _LEFT_OUT.get(cls, ())) for cls in _RECORDS
}  # fmt: skip
# The first element of a list says what it stands for; all else is itself.
_ROW, _LIST, _TUPLE, _MAP, _BYTES, _TEXT, _DTYPE, _KIND, _STEPS, _BLOB = range(10)


class _Encoder:
    def __init__(self) -> None:
        self.rows: list[Json] = []
        self.blobs: list[Bytes] = []
        self.numbers: dict[int, int] = {}  # of step lists, by id
        self._known: dict[tuple[Json, ...], int] = {}

    def value(self, value: Any) -> Json:
        """One value."""
        match value:
            case None | bool() | int() | float() | str():
                return value
            case tuple():
                return [_TUPLE, *map(self.value, value)]
            case list():
                return [_LIST, *map(self.value, value)]
            case Mapping():
                return [_MAP, *(self.value(part) for item in value.items() for part in item)]
            case bytes():
                return [_BYTES, value.hex()]
            case Deferred():
                return [_TEXT, value.text]
            case np.dtype():
                return [_DTYPE, by_numpy(value).name]
            case AllocationKind():
                return [_KIND, value.value]
            case StepList():
                return [_STEPS, self.numbers[id(value)]]
            case np.ndarray():
                self.blobs.append(value)
                return [_BLOB, len(self.blobs) - 1]
        return [_ROW, self._record(value)]

    def _record(self, record: Any) -> int:
        cls = type(record)
        if cls not in _FIELDS:
            raise internal(f"a program holds a {cls.__name__}, which files do not")
        row = [_RECORDS.index(cls), *(self.value(getattr(record, name)) for name in _FIELDS[cls])]
        key = _frozen(row)
        if key not in self._known:
            self._known[key] = len(self.rows)
            self.rows.append(row)
        return self._known[key]


def _frozen(value: Json) -> Any:
    """A hashable stand-in that tells 1, 1.0 and True apart."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else (type(value), value)


def encode(program: Program) -> tuple[Json, list[Bytes]]:
    """(a value that JSON can hold, the constants' bytes that it refers to by number)."""
    encoder = _Encoder()
    bodies = [program.body]
    known = {id(program.body)}
    for step in all_steps(program):
        for body in nested(step):
            if id(body) not in known:
                known.add(id(body))
                bodies.append(body)
    encoder.numbers = {id(body): i for i, body in enumerate(bodies)}
    parts = {
        "name": program.name,
        "allocations": encoder.value(program.allocations),
        "arguments": encoder.value(program.arguments),
        "outputs": encoder.value(program.outputs),
        "kernels": program.kernel_names,
        "bodies": [[body.name, encoder.value(body.steps)] for body in bodies],
    }
    return parts | {"rows": encoder.rows}, encoder.blobs


class _Decoder:
    def __init__(self, parts: Json, blobs: list[Bytes]) -> None:
        self._blobs = blobs
        self._rows: list[Any] = []
        self.bodies = [StepList(name) for name, _ in parts["bodies"]]
        self._makers: dict[int, Callable[[list[Json]], Any]] = {
            _ROW: lambda rest: self._rows[rest[0]],
            _LIST: lambda rest: [self.value(item) for item in rest],
            _TUPLE: lambda rest: tuple([self.value(item) for item in rest]),
            _MAP: self._mapping,
            _BYTES: lambda rest: bytes.fromhex(rest[0]),
            _TEXT: lambda rest: _text(rest[0]),
            _DTYPE: lambda rest: by_name(rest[0]).np,
            _KIND: lambda rest: AllocationKind(rest[0]),
            _STEPS: lambda rest: self.bodies[rest[0]],
            _BLOB: lambda rest: self._blobs[rest[0]],
        }
        for number, *values in parts["rows"]:
            cls = _RECORDS[number]
            self._rows.append(cls(**dict(zip(_FIELDS[cls], map(self.value, values), strict=True))))
        for body, (_, steps) in zip(self.bodies, parts["bodies"], strict=True):
            body.steps = self.value(steps)

    def value(self, value: Json) -> Any:
        """One value."""
        return self._makers[value[0]](value[1:]) if isinstance(value, list) else value

    def _mapping(self, rest: list[Json]) -> dict[Any, Any]:
        values = [self.value(item) for item in rest]
        return dict(zip(values[::2], values[1::2], strict=True))


def _text(text: str) -> Deferred:
    return Deferred(lambda: text)


def decode(parts: Json, blobs: list[Bytes]) -> Program:
    """The program. Raises KeyError, ValueError, TypeError or IndexError when the value is not one of `encode`'s."""
    decoder = _Decoder(parts, blobs)
    return Program(
        parts["name"],
        decoder.value(parts["allocations"]),
        decoder.value(parts["arguments"]),
        decoder.value(parts["outputs"]),
        decoder.bodies[0],
        parts["kernels"],
    )


def fingerprint(program: Program) -> str:
    """Hexadecimal text that differs whenever programs do what they do differently: steps, kernels, constants."""
    parts, constants = encode(program)
    digest = hashlib.sha256(json.dumps(parts).encode())
    for constant in constants:
        digest.update(constant.data)
    return digest.hexdigest()
