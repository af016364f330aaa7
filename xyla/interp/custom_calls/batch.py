"""Shared by the LAPACK custom calls: choosing the routine by type, running it on each matrix of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.interp.table import Array, Value

LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
TYPES = "sdcz"


def lapack_names(*patterns: str) -> list[str]:
    """`?` in each pattern stands for s, d, c and z: "lapack_?potrf_ffi"."""
    return [p.replace("?", t) for p in patterns for t in (TYPES if "?" in p else " ")]


def routine(name: str, x: Array) -> Callable[..., Any]:
    """scipy's LAPACK function for the type of `x`: routine("getrf", f32 array) is sgetrf."""
    from scipy.linalg import lapack

    return getattr(lapack, LETTERS[x.dtype.char] + name)  # type: ignore[no-any-return]


def result_shapes(inst: Instruction) -> list[Shape]:
    """The shapes of a custom call's results."""
    return list(inst.shape.tuple_shapes) if inst.shape.is_tuple else [inst.shape]


def over_batch(
    inst: Instruction, fn: Callable[..., Sequence[Any]], operands: Sequence[Array], ranks: Sequence[int]
) -> Value:
    """Calls fn on the trailing `ranks[i]` dimensions of each operand, for every batch index; stacks its results.

    Results that XLA did not ask for (beyond the result shape) are dropped.
    """
    shapes = result_shapes(inst)
    arrays = [np.asarray(x) for x in operands]
    batch = arrays[0].shape[: arrays[0].ndim - ranks[0]]
    outs = [np.zeros(s.dims, s.element_type.np) for s in shapes]
    for index in np.ndindex(*batch):
        results = fn(*[a[index] for a in arrays])
        for out, value in zip(outs, results, strict=False):
            out[index] = value
    return tuple(outs) if inst.shape.is_tuple else outs[0]
