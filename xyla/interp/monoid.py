"""Recognising what a reducer computation is, so that NumPy's own reductions can do the work.

A *monoid* is one binary op on the two parameters. *Arg* reducers keep the larger (smaller) value with its index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef
from xyla.interp.extrema import MAXIMUM, MINIMUM, Extremum
from xyla.interp.numeric import accumulator, compute_dtype, narrow
from xyla.interp.table import Array
from xyla.support.dtypes import PRED, ElementType


@dataclass(frozen=True)
class Monoid:
    """A reducer known to NumPy: the ufunc (or what stands for it), and the dtype in which it accumulates."""

    ufunc: np.ufunc | Extremum
    element_type: ElementType
    dtype: np.dtype[Any]

    def widen(self, x: Array) -> Array:
        """Values in the accumulation dtype."""
        x = np.asarray(x)
        if x.dtype == self.dtype:
            return x
        if self.element_type.is_float and x.dtype.kind == "V":
            x = x.astype(np.float32)
        return x.astype(self.dtype)

    def narrow(self, x: Array) -> Array:
        """Rounded back to the element type."""
        return narrow(np.asarray(x), self.element_type)


_UFUNCS: dict[OpDef[Any], np.ufunc | Extremum] = {
    ops.ADD: np.add,
    ops.MULTIPLY: np.multiply,
    ops.MAXIMUM: MAXIMUM,
    ops.MINIMUM: MINIMUM,
    ops.AND: np.bitwise_and,
    ops.OR: np.bitwise_or,
    ops.XOR: np.bitwise_xor,
}
_PRED_UFUNCS: dict[OpDef[Any], np.ufunc] = {
    ops.ADD: np.logical_or,
    ops.MULTIPLY: np.logical_and,
    ops.MAXIMUM: np.logical_or,
    ops.MINIMUM: np.logical_and,
    ops.AND: np.logical_and,
    ops.OR: np.logical_or,
    ops.XOR: np.logical_xor,
}


def skip_calls(comp: Computation) -> Computation:
    """The computation behind wrappers that only call it with their own parameters in order."""
    while comp.root.op in (ops.CALL, ops.FUSION) and list(comp.root.operands) == comp.parameters:
        comp = comp.root.called[0]
    return comp


def monoid_of(comp: Computation) -> Monoid | None:
    """The monoid that a two-parameter reducer is, or None."""
    comp = skip_calls(comp)
    root, params = comp.root, comp.parameters
    if len(params) != 2 or len(root.operands) != 2 or set(root.operands) != set(params):
        return None
    et = root.shape.element_type
    if any(p.shape.element_type is not et for p in params):
        return None
    ufunc = (_PRED_UFUNCS if et is PRED else _UFUNCS).get(root.op)
    if ufunc is None:
        return None
    if root.op in (ops.ADD, ops.MULTIPLY):
        dtype = np.dtype(np.complex128) if et.is_complex else _sum_dtype(et)
    else:
        dtype = compute_dtype(et)
    return Monoid(ufunc, et, dtype)


def _sum_dtype(et: ElementType) -> np.dtype[Any]:
    wide = compute_dtype(et)
    return accumulator(et).np if et.is_float and et.bits >= 32 else wide


def returned_parameter(comp: Computation) -> int | None:
    """k when the computation just returns its parameter k."""
    root = skip_calls(comp).root
    return root.attrs.number if root.op is ops.PARAMETER else None


def is_leaf_of(inst: Instruction, number: int) -> bool:
    """Whether `inst` is parameter `number`."""
    return inst.op is ops.PARAMETER and inst.attrs.number == number


Reducer = Callable[..., Any]
