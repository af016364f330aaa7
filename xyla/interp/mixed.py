"""Mixed precision: element-wise ops whose float operands and result differ in width, as layout-level HLO allows.

They compute in the widest of the types and round once to the result's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef, Trait
from xyla.interp.numeric import convert
from xyla.interp.table import Array, Kernel
from xyla.support.dtypes import F32, ElementType

# Element-wise, but their operands and result need not have one type.
_OWN_TYPES: frozenset[OpDef[Any]] = frozenset(
    (
        ops.ABS, ops.BITCAST_CONVERT, ops.COMPLEX, ops.CONVERT, ops.IMAG, ops.IS_FINITE, ops.REAL,
        ops.REDUCE_PRECISION, ops.STOCHASTIC_CONVERT,
    )
)  # fmt: skip


def common_type(inst: Instruction) -> ElementType | None:
    """The type in which a mixed-precision instruction computes; None when nothing is mixed."""
    if not inst.op.has(Trait.ELEMENTWISE) or inst.op in _OWN_TYPES:
        return None
    operands = inst.operands[1:] if inst.op is ops.SELECT else inst.operands
    types = [o.shape.element_type for o in operands]
    if inst.op is not ops.COMPARE:
        types.append(inst.shape.element_type)
    if all(t is types[0] for t in types) or not all(t.is_float for t in types):
        return None
    bits = max(t.bits for t in types)
    widest = dict.fromkeys(t for t in types if t.bits == bits)
    return next(iter(widest)) if len(widest) == 1 else F32  # bf16 with f16, two kinds of fp8, ...


def adapted(inst: Instruction, kernel: Kernel) -> Kernel:
    """`kernel`, bound in the common type, between conversions of the operands and of the result."""
    common = common_type(inst)
    if common is None:
        return kernel
    result = inst.shape.element_type
    types = [o.shape.element_type for o in inst.operands]

    def mixed(*xs: Array) -> Array:
        wide = [convert(x, t, common) if t.is_float else x for x, t in zip(xs, types, strict=True)]
        out = kernel(*wide)
        return convert(np.asarray(out), common, result) if result.is_float else out

    return mixed
