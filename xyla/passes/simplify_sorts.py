"""Simplification of sorts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.shape import Shape
from xyla.passes.inlining import own, sweep
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import effectful, erase_dead


@register
@dataclass(frozen=True, slots=True)
class SimplifySorts(Pass):
    """Drops operands of a sort whose sorted values nothing reads and by which nothing is compared.

        s = (f32[8], s32[8]) sort(keys, values)
        ROOT k = get-tuple-element(s), index=0      ==>      ROOT k = f32[8] sort(keys)

    A sort along a dimension of size 0 or 1 is its operands.
    """

    name: ClassVar[str] = "simplify-sorts"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size."""
        changed = False
        for comp in module.computation_post_order():
            for inst in [i for i in comp.post_order() if i.op is ops.SORT]:
                changed |= _remove_trivial(inst, ctx) or _drop_operands(inst, ctx)
        return changed


def _remove_trivial(inst: Instruction, ctx: PassContext) -> bool:
    if inst.operands[0].shape.dims[inst.attrs.dimension] > 1 or inst.shape.is_dynamic:
        return False
    if inst.control_predecessors or inst.control_successors or not ctx.permit("sort-of-one-element", inst):
        return False
    new = inst.operands[0]
    if len(inst.operands) > 1:
        new = rewriter.create(inst.parent, ops.TUPLE, inst.operands, shape=inst.shape, like=inst)
    ctx.record(new)
    rewriter.replace_uses(inst, new)
    rewriter.erase(inst)
    return True


def _drop_operands(inst: Instruction, ctx: PassContext) -> bool:
    if len(inst.operands) < 2 or inst.is_root or any(u.op is not ops.GET_TUPLE_ELEMENT for u in inst.users):
        return False
    comparator = inst.called[0]
    if effectful(comparator) or inst.control_predecessors or inst.control_successors:
        return False
    read = {u.attrs.index for u in inst.users if u.users or u.is_root}
    # Operand k is compared through parameters 2k and 2k + 1.
    read |= {p.attrs.number // 2 for p in _used_parameters(comparator)}
    if not read or len(read) == len(inst.operands) or not ctx.permit("unused-sort-operands", inst):
        return False
    own(inst)
    keep = sorted(read)
    _narrow_comparator(inst.called[0], keep)
    operands = [inst.operands[k] for k in keep]
    old = dict.fromkeys(inst.operands)
    shapes = [inst.shape.tuple_shapes[k] for k in keep]
    shape = shapes[0] if len(keep) == 1 else Shape.tuple_of(shapes)
    new = rewriter.create(inst.parent, ops.SORT, operands, inst.attrs, called=inst.called, shape=shape, like=inst)
    new.sharding = ""
    for user in list(inst.users):
        if user.attrs.index not in read:
            erase_dead([user])
        elif len(keep) == 1:
            rewriter.replace_uses(user, new)
            erase_dead([user])
        else:
            rewriter.set_operand(user, 0, new)
            rewriter.set_attrs(user, ops.IndexAttrs(keep.index(user.attrs.index)))
    ctx.record(new)
    # What had to follow one of its results follows the sort.
    rewriter.move_control_dependencies(inst, new)
    # Gone already if its last reader went as dead code.
    erase_dead([inst, *old])
    return True


def _used_parameters(comp: Computation) -> list[Instruction]:
    live = comp.reachable_from_root()
    return [p for p in comp.parameters if p in live]


def _narrow_comparator(comp: Computation, keep: list[int]) -> None:
    sweep(comp)
    kept = [comp.parameters[2 * k + side] for k in keep for side in (0, 1)]
    number = {p: i for i, p in enumerate(kept)}
    for param in list(comp.parameters):
        if param not in number:
            rewriter.erase(param)
    for param, i in number.items():
        rewriter.set_attrs(param, ops.ParameterAttrs(i, param.attrs.parameter_replication))
