"""Removal of computations of nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, RuleTable, effectful, run_rules

_KEPT = frozenset({ops.PARAMETER, ops.CONSTANT, ops.TUPLE, ops.DOMAIN, ops.OPT_BARRIER})


@register
@dataclass(frozen=True, slots=True)
class ZeroSizedHloElimination(Pass):
    """Replaces arrays without elements by constants.

    a = f32[0,4] add(x, y)      ==>      a = f32[0,4] constant({})
    """

    name: ClassVar[str] = "zero-sized-hlo-elimination"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size."""
        table: RuleTable = {
            op: (zero_sized,) for op in dict.fromkeys(i.op for i in module.instructions()) if op not in _KEPT
        }
        return run_rules(module, ctx, table)


def zero_sized(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """An array of no elements -> the constant of its shape, unless computing it has an effect."""
    shape = inst.shape
    if not shape.is_array or shape.is_dynamic or shape.num_elements or inst.op.has(Trait.COLLECTIVE):
        return None
    if inst.op.has(Trait.SIDE_EFFECT) or any(effectful(c) for c in inst.called):
        return None
    if inst.op is ops.CUSTOM_CALL and inst.attrs.custom_call_has_side_effect:
        return None
    return rw.constant(Literal(shape, np.empty(shape.dims, shape.element_type.np)))
