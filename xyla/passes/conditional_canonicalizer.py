"""Conditionals in one plain form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.shape import Shape
from xyla.passes.inlining import own
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext


@register
@dataclass(frozen=True, slots=True)
class ConditionalCanonicalizer(Pass):
    """Makes every branch take a tuple and return a tuple.

    c = s32[] conditional(p, x, y), ...
    ==>  t = (s32[]) conditional(p, tuple(x), tuple(y)), ...; c = get-tuple-element(t), index=0
    """

    name: ClassVar[str] = "conditional-canonicalizer"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size."""
        changed = False
        for comp in module.computation_post_order():
            for inst in [i for i in comp.post_order() if i.op is ops.CONDITIONAL]:
                changed |= _tuple_arguments(inst, ctx) | _tuple_result(inst, ctx)
        return changed


def _tuple_arguments(inst: Instruction, ctx: PassContext) -> bool:
    plain = [k for k, a in enumerate(inst.operands[1:]) if not a.shape.is_tuple]
    if not plain or not ctx.permit("tuple-branch-arguments", inst):
        return False
    own(inst)
    for k in plain:
        argument = inst.operands[1 + k]
        rewriter.set_operand(inst, 1 + k, rewriter.create(inst.parent, ops.TUPLE, [argument]))
        _take_tuple(inst.called[k], argument.shape)
    ctx.record(inst)
    return True


def _take_tuple(branch: Computation, shape: Shape) -> None:
    (param,) = branch.parameters
    users = list(param.users)
    was_root = param.is_root
    attrs = ops.IndexAttrs(0)
    reader = rewriter.create(branch, ops.GET_TUPLE_ELEMENT, [param], attrs, shape=param.shape, like=param)
    rewriter.set_shape(param, Shape.tuple_of([shape]))
    param.sharding = param.origin = ""
    rewriter.replace_uses(param, reader, where=lambda u: u in users)
    if was_root:
        branch.set_root(reader)


def _tuple_result(inst: Instruction, ctx: PassContext) -> bool:
    if inst.shape.is_tuple or not ctx.permit("tuple-branch-results", inst):
        return False
    own(inst)
    for branch in inst.called:
        branch.set_root(rewriter.create(branch, ops.TUPLE, [branch.root]))
    old = inst.shape
    users = list(inst.users)
    was_root = inst.is_root
    reader = rewriter.create(inst.parent, ops.GET_TUPLE_ELEMENT, [inst], ops.IndexAttrs(0), shape=old, like=inst)
    rewriter.set_shape(inst, Shape.tuple_of([old]))
    inst.sharding = inst.origin = ""
    rewriter.replace_uses(inst, reader, where=lambda u: u in users)
    if was_root:
        inst.parent.set_root(reader)
    ctx.record(inst)
    return True
