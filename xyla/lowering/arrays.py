"""How the arrays of HLO lie in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.runtime.program import ArrayType


def retiles(inst: Instruction) -> bool:
    """Whether a bitcast reinterprets tiled memory as an array of other dims (size-1 dimensions aside)."""
    shapes = (inst.operands[0].shape, inst.shape)
    tiled = any(s.layout is not None and s.layout.tiles for s in shapes)
    return tiled and [d for d in shapes[0].dims if d != 1] != [d for d in shapes[1].dims if d != 1]


def array_type(shape: Shape) -> ArrayType:
    """How an array of this shape lies in memory. Tiles are left out: they change no value, and the host needs none."""
    size = shape.element_type.itemsize
    return ArrayType(shape.element_type.np, shape.dims, tuple(s * size for s in shape.strides()))


def row_major(literal: Literal) -> Literal:
    """The literal as kernels want their constant arguments: without a layout."""
    return literal if literal.shape.layout is None else literal.with_shape(literal.shape.without_layout())


def physical_bytes(literal: Literal) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A literal's bytes in its layout's order, 64-byte aligned."""
    shape = literal.shape
    array = literal.array
    if shape.layout is not None:
        array = array.transpose(shape.layout.minor_to_major[::-1])
    raw = np.empty(shape.num_bytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    data = raw[start : start + shape.num_bytes]
    data.view(shape.element_type.np).reshape(array.shape)[...] = array
    return data
