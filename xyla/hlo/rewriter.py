"""The one API for changing a module: keeps users, callers, names, metadata and revisions right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as replace_fields
from typing import Any

from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import NO_ATTRS, Attrs, OpDef
from xyla.hlo.shape import Shape
from xyla.support.status import internal


def create(
    comp: Computation,
    op: OpDef[Any],
    operands: Sequence[Instruction] = (),
    attrs: Attrs = NO_ATTRS,
    *,
    called: Sequence[Computation] = (),
    shape: Shape | None = None,
    name: str = "",
    like: Instruction | None = None,
) -> Instruction:
    """Appends a new instruction; with `like` it inherits metadata, sharding and frontend attributes."""
    inst = comp.add(op, operands, attrs, called=called, shape=shape, name=name)
    if like is not None:
        copy_annotations(like, inst)
    return inst


def copy_annotations(source: Instruction, target: Instruction) -> None:
    """Copies what describes an instruction without defining it (metadata, sharding, frontend attributes)."""
    target.metadata = source.metadata
    target.sharding = source.sharding
    target.frontend_attributes = source.frontend_attributes
    target.span = source.span


def set_operand(inst: Instruction, index: int, new: Instruction) -> None:
    """Makes `new` operand `index` of `inst`."""
    old = inst.operands[index]
    if old is new:
        return
    _drop_use(old, inst)
    new.users[inst] = new.users.get(inst, 0) + 1
    inst.operands = (*inst.operands[:index], new, *inst.operands[index + 1 :])
    inst.parent.revision += 1


def set_operands(inst: Instruction, operands: Iterable[Instruction]) -> None:
    """Replaces all operands (the count may change for variadic ops)."""
    for o in inst.operands:
        _drop_use(o, inst)
    inst.operands = tuple(operands)
    for o in inst.operands:
        o.users[inst] = o.users.get(inst, 0) + 1
    inst.parent.revision += 1


def set_attrs(inst: Instruction, attrs: Attrs) -> None:
    """Replaces the attribute record."""
    inst.attrs = attrs
    inst.parent.revision += 1


def set_shape(inst: Instruction, shape: Shape) -> None:
    """Replaces the shape (layout assignment, tuple narrowing)."""
    inst.shape = shape
    inst.parent.revision += 1


def set_called(inst: Instruction, called: Sequence[Computation]) -> None:
    """Replaces the called computations."""
    for c in inst.called:
        _drop_caller(c, inst)
    inst.called = tuple(called)
    for c in inst.called:
        c.callers[inst] = c.callers.get(inst, 0) + 1
    inst.parent.revision += 1


def rename(inst: Instruction, name: str) -> None:
    """Gives an instruction another name, which must be free in its computation."""
    inst.parent.rename(inst, name)
    inst.parent.revision += 1


def replace_uses(old: Instruction, new: Instruction, where: Callable[[Instruction], bool] | None = None) -> None:
    """Makes every user of `old` (those `where` accepts) use `new`; the root moves too when `where` is None."""
    if old is new:
        return
    for user in [u for u in old.users if where is None or where(u)]:
        uses = old.users.pop(user)
        operands = user.operands
        for _ in range(uses):  # a user may have very many operands: they are copied as a whole
            at = operands.index(old)
            operands = (*operands[:at], new, *operands[at + 1 :])
        user.operands = operands
        new.users[user] = new.users.get(user, 0) + uses
    if where is None and old.is_root:
        old.parent.set_root(new)
    old.parent.revision += 1


def move_control_dependencies(old: Instruction, new: Instruction) -> None:
    """Makes `new` run where `old` had to."""
    if old is new:
        return
    for p in old.control_predecessors:
        remove_control_dependency(p, old)
        if p is not new:
            add_control_dependency(p, new)
    for s in old.control_successors:
        remove_control_dependency(old, s)
        if s is not new:
            add_control_dependency(new, s)


def replace(old: Instruction, new: Instruction) -> None:
    """Replaces `old` by `new` everywhere, moves control dependencies, and erases `old`."""
    if new.metadata is None:
        new.metadata = old.metadata
    move_control_dependencies(old, new)
    replace_uses(old, new)
    erase(old)


def replace_with(
    old: Instruction, op: OpDef[Any], operands: Sequence[Instruction], attrs: Attrs = NO_ATTRS, **options: Any
) -> Instruction:
    """Creates an instruction in `old`'s place and returns it."""
    new = create(old.parent, op, operands, attrs, like=old, **options)
    replace(old, new)
    return new


def erase(inst: Instruction) -> None:
    """Removes an instruction that has no users and is not the root. Raises INTERNAL otherwise."""
    if inst.users or inst.is_root:
        raise internal(f"cannot erase %{inst.name}: it is still used")
    comp = inst.parent
    for o in inst.operands:
        _drop_use(o, inst)
    for c in inst.called:
        _drop_caller(c, inst)
    for p in inst.control_predecessors:
        remove_control_dependency(p, inst)
    for s in inst.control_successors:
        remove_control_dependency(inst, s)
    del comp.instructions[inst]
    comp.forget_name(inst)
    if inst in comp.parameters:
        comp.parameters.remove(inst)
    comp.revision += 1


def add_control_dependency(first: Instruction, then: Instruction) -> None:
    """`then` must run after `first`."""
    if first not in then.control_predecessors:
        then.control_predecessors = (*then.control_predecessors, first)
        first.control_successors = (*first.control_successors, then)
        then.parent.revision += 1


def remove_control_dependency(first: Instruction, then: Instruction) -> None:
    """Undoes `add_control_dependency`."""
    then.control_predecessors = tuple(p for p in then.control_predecessors if p is not first)
    first.control_successors = tuple(s for s in first.control_successors if s is not then)
    then.parent.revision += 1


def clone_instruction(
    inst: Instruction,
    comp: Computation,
    operands: Sequence[Instruction],
    *,
    called: Sequence[Computation] | None = None,
    shape: Shape | None = None,
    name: str = "",
) -> Instruction:
    """A copy of `inst` in `comp` over other operands, annotations included."""
    new = comp.add(
        inst.op,
        operands,
        inst.attrs,
        called=inst.called if called is None else called,
        shape=shape or inst.shape,
        name=name or inst.name,
    )
    copy_annotations(inst, new)
    new.backend_config, new.statistics, new.origin = inst.backend_config, inst.statistics, inst.origin
    return new


def clone_computation(
    comp: Computation,
    module: Module | None = None,
    *,
    name: str = "",
    called: Mapping[Computation, Computation] | None = None,
) -> Computation:
    """A copy of `comp` (in `module`, default its own); called computations are mapped through `called`."""
    new = (module or comp.module).add_computation(name or comp.name)
    called = called or {}
    made: dict[Instruction, Instruction] = {}
    for inst in comp.post_order():
        operands = [made[o] for o in inst.operands]
        copy = clone_instruction(inst, new, operands, called=[called.get(c, c) for c in inst.called])
        for p in inst.control_predecessors:
            add_control_dependency(made[p], copy)
        made[inst] = copy
    new.set_root(made[comp.root])
    new.execution_thread = comp.execution_thread
    return new


def clone_module(module: Module) -> Module:
    """A deep copy that shares only immutable values."""
    from copy import copy

    new = Module(module.name)
    new.config = copy(module.config)
    new.stack_frames = copy(module.stack_frames)
    new.proto_extra = module.proto_extra
    made: dict[Computation, Computation] = {}
    for comp in module.computation_post_order():
        made[comp] = clone_computation(comp, new, called=made)
    # Keep the original storage order of computations: it is what prints.
    new.computations = {c.name: made[c] for c in module.computations.values()}
    if module.entry_or_none is not None:
        new.set_entry(made[module.entry])
    return new


def remove_parameters(comp: Computation, dead: Sequence[Instruction]) -> None:
    """Removes parameters that nothing uses, with the operands that callers pass for them; the others move up.

    For computations whose callers pass an operand a parameter (calls, fusions). Raises INTERNAL for a used parameter.
    """
    gone = {p.attrs.number for p in dead}
    for inst in dead:
        erase(inst)
    for number, inst in enumerate(comp.parameters):
        set_attrs(inst, replace_fields(inst.attrs, number=number))
    for caller in comp.callers:
        set_operands(caller, [o for i, o in enumerate(caller.operands) if i not in gone])


def remove_computation(comp: Computation) -> None:
    """Removes a computation that nothing calls. Raises INTERNAL otherwise."""
    if comp.callers or comp.is_entry:
        raise internal(f"cannot remove computation {comp.name!r}: it is still called")
    for inst in comp.instructions:
        for c in inst.called:
            _drop_caller(c, inst)
    del comp.module.computations[comp.name]


def reorder(comp: Computation, order: Sequence[Instruction]) -> None:
    """Stores the computation's instructions in `order`: a permutation of them, operands before users."""
    assert len(order) == len(comp.instructions), comp.name
    if list(order) != list(comp.instructions):
        comp.instructions = dict.fromkeys(order)
        comp.revision += 1


def restore_order(comp: Computation) -> None:
    """Stores operands before users again, moving as little as possible: a scheduled module must be in order."""
    reorder(comp, comp.post_order())


def _drop_use(operand: Instruction, user: Instruction) -> None:
    uses = operand.users[user] - 1
    if uses:
        operand.users[user] = uses
    else:
        del operand.users[user]


def _drop_caller(comp: Computation, inst: Instruction) -> None:
    calls = comp.callers[inst] - 1
    if calls:
        comp.callers[inst] = calls
    else:
        del comp.callers[inst]
