"""What only one branch of a conditional reads, computed in that branch (part of conditional-code-motion)."""

from __future__ import annotations

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import Trait
from xyla.passes.inlining import own, sweep
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import erase_dead


def sink_operands(inst: Instruction, ctx: PassContext) -> bool:
    """conditional(p, (f(x)), ...), a -> g(a.0)      ==>      conditional(p, (x), ...), a -> g(f(a.0)).

    For element-wise work on the operand of one branch that nothing else reads: it is done only when the branch runs.
    """
    if inst.control_predecessors or inst.control_successors or inst.sharding:
        return False
    changed = False
    for number in range(1, len(inst.operands)):
        changed |= _sink(inst, number, ctx)
    return changed


def _sink(inst: Instruction, number: int, ctx: PassContext) -> bool:
    packed, param = inst.operands[number], inst.called[number - 1].parameters[0]
    if list(packed.users.values()) != [1] or packed.is_root:
        return False
    if packed.op is ops.TUPLE:
        if packed.control_predecessors or packed.control_successors:
            return False
        if param.is_root or any(u.op is not ops.GET_TUPLE_ELEMENT for u in param.users):
            return False
    elif not param.users and not param.is_root:
        return False
    moved = _only_for(packed if packed.op is ops.TUPLE else inst, [packed])
    if not moved or not ctx.permit("sink-into-branch", moved[0]):
        return False
    own(inst)
    if packed.op is not ops.TUPLE:
        packed = _wrap(inst, number)
    _move(inst, number, packed, moved)
    ctx.record(inst)
    return True


def _only_for(reader: Instruction, start: list[Instruction]) -> list[Instruction]:
    """Element-wise instructions of which only `reader` reads what they make, users before operands."""
    inside, left = {reader}, {reader: 0}
    found: list[Instruction] = []
    work = list(dict.fromkeys(reader.operands if reader.op is ops.TUPLE else start))
    while work:
        inst = work.pop()
        left[inst] = left.get(inst, len(inst.users)) - 1
        if left[inst] or inst in inside or not _moves(inst):
            continue
        inside.add(inst)
        found.append(inst)
        work.extend(dict.fromkeys(inst.operands))
    return found


def _moves(inst: Instruction) -> bool:
    if not inst.op.has(Trait.ELEMENTWISE) or inst.is_root or inst.shape.is_dynamic or not inst.operands:
        return False
    return not inst.called and not inst.control_predecessors and not inst.control_successors


def _wrap(inst: Instruction, number: int) -> Instruction:
    """Passes the operand of a branch in a tuple of one element; returns the tuple."""
    branch = inst.called[number - 1]
    param, value = branch.parameters[0], inst.operands[number]
    packed = rewriter.create(inst.parent, ops.TUPLE, [value])
    rewriter.set_operand(inst, number, packed)
    readers = list(param.users)
    element = rewriter.create(branch, ops.GET_TUPLE_ELEMENT, [param], ops.IndexAttrs(0), shape=param.shape)
    rewriter.replace_uses(param, element, where=lambda user: user in readers)
    if param.is_root:
        branch.set_root(element)
    rewriter.set_shape(param, packed.shape)
    return packed


def _move(inst: Instruction, number: int, packed: Instruction, moved: list[Instruction]) -> None:
    branch = inst.called[number - 1]
    param, elements = branch.parameters[0], packed.operands
    inside = set(moved)
    needed = [o for m in reversed(moved) for o in m.operands if o not in inside and o.op is not ops.CONSTANT]
    kept = list(dict.fromkeys([*(e for e in elements if e not in inside), *needed]))
    at = {value: i for i, value in enumerate(kept)}
    new = rewriter.create(inst.parent, ops.TUPLE, kept, like=packed)
    new.sharding = ""
    readers = list(param.users)
    rewriter.set_operand(inst, number, new)
    rewriter.set_shape(param, new.shape)
    param.sharding = ""
    made: dict[Instruction, Instruction] = {}
    for old in reversed(moved):
        operands = [made[o] if o in made else _inside(o, param, at, made) for o in old.operands]
        made[old] = rewriter.clone_instruction(old, branch, operands)
    for reader in readers:
        value = elements[reader.attrs.index]
        if value in made and value in inside:
            rewriter.replace_uses(reader, made[value])
        else:
            rewriter.set_attrs(reader, ops.IndexAttrs(at[value]))
    sweep(branch)
    erase_dead([packed])


def _inside(
    value: Instruction, param: Instruction, at: dict[Instruction, int], made: dict[Instruction, Instruction]
) -> Instruction:
    """A value of the caller in the branch: a constant again, or an element of the parameter."""
    if value.op is ops.CONSTANT:
        made[value] = rewriter.clone_instruction(value, param.parent, ())
    else:
        attrs = ops.IndexAttrs(at[value])
        made[value] = rewriter.create(param.parent, ops.GET_TUPLE_ELEMENT, [param], attrs, shape=value.shape)
    return made[value]
