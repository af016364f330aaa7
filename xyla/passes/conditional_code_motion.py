"""What all branches of a conditional end with, done after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.passes.inlining import own, sweep
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext


@register
@dataclass(frozen=True, slots=True)
class ConditionalCodeMotion(Pass):
    """Moves the element-wise op of one operand that ends every branch out of the conditional.

        c = conditional(p, x, y), f = {a -> tuple(convert(a + 1))}, g = {b -> tuple(convert(b * 2))}
        ==>  d = conditional(p, x, y), f = {a -> tuple(a + 1)}, g = {b -> tuple(b * 2)}; convert(gte(d, 0))

    There it meets the conditional's users. Conditionals used as a whole tuple, and those with control dependencies,
    stay as they are.
    """

    name: ClassVar[str] = "conditional-code-motion"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Inner conditionals first; an op leaves each conditional once. Linear."""
        changed = False
        for comp in module.computation_post_order():
            for inst in [i for i in comp.post_order() if i.op is ops.CONDITIONAL]:
                while _move_out(inst, ctx):
                    changed = True
        return changed


def _move_out(inst: Instruction, ctx: PassContext) -> bool:
    indices = _movable(inst)
    if not indices or not ctx.permit("move-out-of-branches", inst):
        return False
    own(inst)
    moved = {i: inst.called[0].root.operands[i] for i in indices}
    shapes = list(inst.shape.tuple_shapes)
    for branch in inst.called:
        values = [o.operands[0] if i in moved else o for i, o in enumerate(branch.root.operands)]
        root = rewriter.create(branch, ops.TUPLE, values, like=branch.root)
        root.sharding = ""
        branch.set_root(root)
        shapes = [v.shape for v in values]
    made = {i: (op.op, op.attrs, op.shape, op.metadata) for i, op in moved.items()}
    for branch in inst.called:
        sweep(branch)
    readers = [u for u in inst.users if u.attrs.index in made]
    rewriter.set_shape(inst, Shape.tuple_of(shapes))
    inst.sharding = inst.origin = ""
    for reader in readers:
        op, attrs, shape, metadata = made[reader.attrs.index]
        users = list(reader.users)
        rewriter.set_shape(reader, shapes[reader.attrs.index])
        reader.sharding = ""
        new = rewriter.create(inst.parent, op, [reader], attrs, shape=shape)
        new.metadata = metadata
        rewriter.replace_uses(reader, new, where=lambda u, users=users: u in users)  # type: ignore[misc]
        if reader.is_root:
            inst.parent.set_root(new)
        ctx.record(new)
    return True


def _movable(inst: Instruction) -> list[int]:
    """Result elements that every branch ends by the same op of one operand of the same shape."""
    if inst.control_predecessors or inst.control_successors or inst.is_root or not inst.shape.is_tuple:
        return []
    if any(u.op is not ops.GET_TUPLE_ELEMENT for u in inst.users) or any(
        c.root.op is not ops.TUPLE for c in inst.called
    ):
        return []
    read = {u.attrs.index for u in inst.users}
    columns = list(zip(*(c.root.operands for c in inst.called), strict=True))
    return [i for i, ends in enumerate(columns) if i in read and _alike(ends)]


def _alike(ends: tuple[Instruction, ...]) -> bool:
    first = ends[0]
    if not first.op.has(Trait.ELEMENTWISE) or len(first.operands) != 1 or first.is_root:
        return False
    return all(
        e.op is first.op
        and e.attrs == first.attrs
        and e.shape is first.shape
        and e.operands[0].shape is first.operands[0].shape
        and e.users == {e.parent.root: 1}
        and not e.control_predecessors
        and not e.control_successors
        for e in ends
    )
