"""What all branches of a conditional end with, done after it; what follows a conditional, done in its branches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.passes.branch_sinking import sink_operands
from xyla.passes.inlining import own, sweep
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import erase_dead


@register
@dataclass(frozen=True, slots=True)
class ConditionalCodeMotion(Pass):
    """Moves the element-wise op of one operand that ends every branch out of the conditional.

        c = conditional(p, x, y), f = {a -> tuple(convert(a + 1))}, g = {b -> tuple(convert(b * 2))}
        ==>  d = conditional(p, x, y), f = {a -> tuple(a + 1)}, g = {b -> tuple(b * 2)}; convert(gte(d, 0))

    There it meets the conditional's users. An element-wise op of several operands that reads nothing but results of one
    conditional, and is alone to read them, moves into every branch, where it meets what made them:

        power(c, c), c = conditional(p, x, y), f = {a -> a + 1}, ...      ==>      f = {a -> power(a + 1, a + 1)}, ...

    A copy moves in where it undoes the copy that a branch ends with. Element-wise work on the operand of one branch
    that nothing else reads moves into the branch, and is done only when that runs:

        conditional(p, (sin(x)), ...), f = {a -> a.0 * 2}     ==>     conditional(p, (x), ...), f = {a -> sin(a.0) * 2}

    Conditionals with control dependencies, and those whose tuple is used as a whole by more than the caller, stay.
    """

    name: ClassVar[str] = "conditional-code-motion"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Inner conditionals first; an op enters and leaves each conditional once. Linear."""
        changed = False
        for comp in module.computation_post_order():
            for inst in [i for i in comp.post_order() if i.op is ops.CONDITIONAL]:
                while _move_out(inst, ctx) or _move_in(inst, ctx) or sink_operands(inst, ctx):
                    changed = True
        return changed


def _move_out(inst: Instruction, ctx: PassContext) -> bool:
    indices = _movable(inst)
    if not indices or not ctx.permit("move-out-of-branches", inst):
        return False
    own(inst)
    if inst.is_root:
        _read_root(inst)
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
    if inst.control_predecessors or inst.control_successors or not inst.shape.is_tuple:
        return []
    if any(u.op is not ops.GET_TUPLE_ELEMENT for u in inst.users) or any(
        c.root.op is not ops.TUPLE for c in inst.called
    ):
        return []
    read = {u.attrs.index for u in inst.users}
    columns = list(zip(*(c.root.operands for c in inst.called), strict=True))
    return [i for i, ends in enumerate(columns) if (inst.is_root or i in read) and _alike(ends)]


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
        and e.parent.root not in e.operands[0].users
        and not e.control_predecessors
        and not e.control_successors
        for e in ends
    )


def _read_root(inst: Instruction) -> None:
    """Makes the caller return a tuple of the conditional's results, each read on its own."""
    comp, shape = inst.parent, inst.shape
    parts = []
    for i in range(len(shape.tuple_shapes)):
        parts.append(rewriter.create(comp, ops.GET_TUPLE_ELEMENT, [inst], ops.IndexAttrs(i)))
    comp.set_root(rewriter.create(comp, ops.TUPLE, parts, shape=shape))


def _move_in(inst: Instruction, ctx: PassContext) -> bool:
    user = _only_reader(inst)
    if user is None or not ctx.permit("move-into-branches", user):
        return False
    own(inst)
    index = user.operands[0].attrs.index if inst.shape.is_tuple else -1
    for branch in inst.called:
        values = [_result(branch.root, o) for o in user.operands]
        if user.op is ops.COPY and _undoes(user, values[0]):
            new = values[0].operands[0]
        else:
            new = rewriter.create(branch, user.op, values, user.attrs, shape=user.shape, like=user)
        if index >= 0:
            parts = list(branch.root.operands)
            parts[index] = new
            new = rewriter.create(branch, ops.TUPLE, parts)
        branch.set_root(new)
        sweep(branch)
    inst.sharding = inst.origin = ""
    if index < 0:
        rewriter.set_shape(inst, user.shape)
        rewriter.replace_uses(user, inst)
        rewriter.erase(user)
    else:
        shapes = list(inst.shape.tuple_shapes)
        shapes[index] = user.shape
        rewriter.set_shape(inst, Shape.tuple_of(shapes))
        rewriter.replace_with(user, ops.GET_TUPLE_ELEMENT, [inst], ops.IndexAttrs(index))
        erase_dead([u for u in inst.users if not u.users and not u.is_root])
    ctx.record(inst)
    return True


def _result(root: Instruction, read: Instruction) -> Instruction:
    """The branch's value for a result that the caller reads."""
    return root.operands[read.attrs.index] if read.op is ops.GET_TUPLE_ELEMENT else root


def _only_reader(inst: Instruction) -> Instruction | None:
    """An element-wise op of several operands, all of them results that nothing else reads."""
    if inst.control_predecessors or inst.control_successors or inst.is_root or inst.sharding:
        return None
    if inst.shape.is_array:
        users = list(inst.users)
        return users[0] if len(users) == 1 and _moves_in(users[0], inst) else None
    if any(u.op is not ops.GET_TUPLE_ELEMENT for u in inst.users):
        return None
    if any(c.root.op is not ops.TUPLE for c in inst.called):
        return None
    return next((user for read in inst.users for user in read.users if _alone(user, inst)), None)


def _alone(user: Instruction, inst: Instruction) -> bool:
    """Whether `user` may move in, and nothing else reads the result in whose place its own value is returned."""
    if not _moves_in(user, inst) or any(list(o.users) != [user] or o.is_root for o in user.operands):
        return False
    index = user.operands[0].attrs.index
    return all(read in user.operands for read in inst.users if read.attrs.index == index)


def _moves_in(user: Instruction, inst: Instruction) -> bool:
    if not (user.op.has(Trait.ELEMENTWISE) and len(user.operands) > 1) and not _meets_its_inverse(user, inst):
        return False
    if user.shape.is_dynamic or user.control_predecessors or user.control_successors:
        return False
    return all(o is inst or (o.op is ops.GET_TUPLE_ELEMENT and o.operands[0] is inst) for o in user.operands)


def _meets_its_inverse(user: Instruction, inst: Instruction) -> bool:
    """A copy of a result which one of the branches makes by a copy the other way."""
    if user.op is not ops.COPY or user.operands[0].op is not ops.GET_TUPLE_ELEMENT:
        return False
    index = user.operands[0].attrs.index
    return any(c.root.op is ops.TUPLE and _undoes(user, c.root.operands[index]) for c in inst.called)


def _undoes(copy: Instruction, end: Instruction) -> bool:
    """Whether `copy` of `end` is, layout included, what `end` is a copy of."""
    ordered = end.control_predecessors or end.control_successors
    return end.op is ops.COPY and not ordered and end.operands[0].shape is copy.shape
