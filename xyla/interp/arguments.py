"""Arguments of a program: from what a caller passes to values of the parameters' shapes, and results back to arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xyla.hlo.module import Instruction, Module
from xyla.hlo.shape import Shape
from xyla.interp.table import TOKEN, Array, Value
from xyla.support.dtypes import ElementType
from xyla.support.status import internal, invalid


def bind_arguments(module: Module, args: Sequence[Any], devices: int = 1) -> list[list[Value]]:
    """Parameter values for each of `devices` devices; see `bind_leaves`."""
    bound = bind_leaves(module, args, devices)
    return [[_assemble(p.shape, values) for p in module.entry.parameters] for values in map(iter, bound)]


def bind_leaves(module: Module, args: Sequence[Any], devices: int = 1) -> list[list[Array]]:
    """One array a parameter leaf, in order, for each of `devices` devices.

    With several devices every array has a leading device dimension, or none when each device gets the same value.
    Raises INVALID_ARGUMENT naming the parameter.
    """
    leaves = [(p, index, s) for p in module.entry.parameters for index, s in p.shape.leaves() if not s.is_token]
    if len(args) != len(leaves):
        raise invalid(f"the program takes {len(leaves)} arguments, {len(args)} given")
    bound: list[list[Array]] = []
    for (param, index, shape), arg in zip(leaves, args, strict=True):
        bound.append(_per_device(param, index, shape, arg, devices))
    return [[values[d] for values in bound] for d in range(devices)]


def _assemble(shape: Shape, values: Iterator[Value]) -> Value:
    if shape.is_tuple:
        return tuple(_assemble(s, values) for s in shape.tuple_shapes)
    return TOKEN if shape.is_token else next(values)


def _per_device(param: Instruction, index: tuple[int, ...], shape: Shape, arg: Any, devices: int) -> list[Array]:
    name = f"argument {param.attrs.number} (%{param.name}{''.join(f'[{i}]' for i in index)})"
    array = _typed(np.asarray(arg), shape.element_type, name)
    if devices > 1 and array.ndim == shape.rank + 1 and array.shape[0] == devices:
        return [_checked(array[d], shape, name) for d in range(devices)]
    return [_checked(array, shape, name)] * devices


def _typed(array: Array, et: ElementType, name: str) -> Array:
    if array.dtype == et.np:
        return array
    if array.dtype.kind == "V" and array.dtype.itemsize == et.itemsize and array.dtype.names is None:
        return array.view(et.np)  # np.load gives ml_dtypes arrays as raw bytes
    if et.is_integer and et.bits < 8 and array.dtype in (np.dtype(np.int8), np.dtype(np.uint8)):
        return array.astype(et.np)
    raise invalid(f"{name} has dtype {array.dtype}, the parameter is {et}")


def _checked(array: Array, shape: Shape, name: str) -> Array:
    if array.shape == shape.dims:
        return array
    fits = len(array.shape) == shape.rank and all(
        a == d or (shape.is_dynamic_dim(i) and a <= d)
        for i, (a, d) in enumerate(zip(array.shape, shape.dims, strict=True))
    )
    if not fits:
        raise invalid(f"{name} has shape {list(array.shape)}, the parameter is {shape.to_string(layouts=False)}")
    return array


def flatten(value: Value, shape: Shape) -> list[Array]:
    """The arrays of a result, tuples flattened in order, tokens left out; each in its element type's storage dtype."""
    out = []
    for index, leaf in shape.leaves():
        if not leaf.is_array:
            continue
        item = value
        for i in index:
            if not isinstance(item, tuple) or i >= len(item):
                raise internal(f"the result is not the tuple that the program says: {shape}")
            item = item[i]
        out.append(_exact(item, leaf))
    return out


def _exact(item: Value, leaf: Shape) -> Array:
    array = np.asarray(item)
    if array.dtype != leaf.element_type.np:
        raise internal(f"the evaluator made {array.dtype} where the program says {leaf}")
    return array
