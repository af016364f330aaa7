"""The neutral element of a reduction's combiner."""

from __future__ import annotations

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Computation
from xyla.support.dtypes import PRED, ElementType


def neutral_element(comp: Computation) -> complex | None:
    """The value that a combiner of two scalars leaves every other value unchanged with; None when it is not known."""
    root = comp.root
    if len(comp.parameters) != 2 or set(root.operands) != set(comp.parameters):
        return None
    et = root.shape.element_type
    if any(p.shape.element_type is not et for p in comp.parameters):
        return None
    if root.op is ops.ADD:
        # Adding -0 keeps the sign of a zero.
        return -0.0 if et.is_float else 0
    if root.op is ops.MULTIPLY:
        return 1
    if root.op is ops.OR or root.op is ops.XOR:
        return 0
    if root.op is ops.AND:
        return 1 if et is PRED else -1 if et.is_signed else (1 << et.bits) - 1
    if root.op in (ops.MAXIMUM, ops.MINIMUM) and not et.is_complex:
        return _extreme(et, largest=root.op is ops.MINIMUM)
    return None


def _extreme(et: ElementType, *, largest: bool) -> complex:
    if et is PRED:
        return int(largest)
    if et.is_float:
        bound = np.asarray(np.inf if largest else -np.inf)
        with np.errstate(all="ignore"):
            stored = float(bound.astype(et.np))
        if np.isinf(stored):
            return stored
        import ml_dtypes

        info = ml_dtypes.finfo(et.np)  # type: ignore[no-untyped-call]
        return float(info.max if largest else info.min)
    if et.is_signed:
        return (1 << (et.bits - 1)) - 1 if largest else -(1 << (et.bits - 1))
    return (1 << et.bits) - 1 if largest else 0
