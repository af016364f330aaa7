"""Tuple simplification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, rule_table, run_rules


def element_of_tuple(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """get-tuple-element(tuple(..., x_i, ...), i) -> x_i."""
    source = inst.operands[0]
    if source.op is not ops.TUPLE:
        return None
    element = source.operands[inst.attrs.index]
    return element if element.shape.compatible(inst.shape) else None


def tuple_of_elements(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """tuple(gte(t, 0), ..., gte(t, n-1)) -> t, for all n elements of t in order."""
    if not inst.operands or inst.operands[0].op is not ops.GET_TUPLE_ELEMENT:
        return None
    whole = inst.operands[0].operands[0]
    if len(whole.shape.tuple_shapes) != len(inst.operands) or not whole.shape.compatible(inst.shape):
        return None
    for i, element in enumerate(inst.operands):
        if element.op is not ops.GET_TUPLE_ELEMENT or element.operands[0] is not whole or element.attrs.index != i:
            return None
    return whole


RULES = rule_table(([ops.GET_TUPLE_ELEMENT], [element_of_tuple]), ([ops.TUPLE], [tuple_of_elements]))


@register
@dataclass(frozen=True, slots=True)
class TupleSimplifier(Pass):
    """Takes tuples apart where they are built, and leaves alone those that are only taken apart and rebuilt.

        t = tuple(a, b)
        ROOT g = get-tuple-element(t), index=1      ==>      (b)

    exclude_entry_computation: leaves the entry as it is.
    """

    name: ClassVar[str] = "tuple-simplifier"
    exclude_entry_computation: bool = False

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size."""
        comps = module.computations.values()
        return run_rules(module, ctx, RULES, [c for c in comps if not (self.exclude_entry_computation and c.is_entry)])
