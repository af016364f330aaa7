"""Maps as the element-wise ops they apply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, rule_table, run_rules


@register
@dataclass(frozen=True, slots=True)
class MapInline(Pass):
    """Applies a map's computation to whole arrays.

        map(x, y), to_apply={(a, b) -> a + b}      ==>      add(x, y)

    Maps of anything but element-wise ops stay.
    """

    name: ClassVar[str] = "map-inline"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the size of the result."""
        return run_rules(module, ctx, rule_table(([ops.MAP], [inline_map])))


def inline_map(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """map(x..., f) -> f(x...) with each of f's scalar ops on whole arrays."""
    body = inst.called[0]
    if inst.shape.is_dynamic or not inst.shape.is_array or not _elementwise(body):
        return None
    made: dict[Instruction, Instruction] = {}
    for step in body.post_order():
        shape = _spread(inst.shape, step.shape)
        if step.op is ops.PARAMETER:
            made[step] = inst.operands[step.attrs.number]
        elif step.op is ops.CONSTANT:
            made[step] = rw.constant(step.attrs.literal)
            if shape.rank:
                made[step] = rw.add(ops.BROADCAST, [made[step]], ops.DimensionsAttrs(()), shape=shape)
        else:
            made[step] = rw.add(step.op, [made[o] for o in step.operands], step.attrs, shape=shape)
    return made[body.root]


def _spread(whole: Shape, scalar: Shape) -> Shape:
    return whole.with_type(scalar.element_type)


def _elementwise(body: Computation) -> bool:
    return all(
        (i.op.has(Trait.ELEMENTWISE) or i.op in (ops.PARAMETER, ops.CONSTANT))
        and not i.called
        and i.shape.is_scalar
        and not i.control_predecessors
        for i in body.instructions
    )
