"""Copying a computation's body to where it is called: shared by the call inliner, loops and conditionals."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction
from xyla.passmgr.rules import has_effect


def copy_body(
    callee: Computation, into: Computation, args: Sequence[Instruction]
) -> tuple[Instruction, list[Instruction]]:
    """Copies `callee`'s instructions into `into`, parameter i becoming `args[i]` (a tuple's elements where it has one).

    Returns (what stands for the root, the copies in order). Linear in the callee's size.
    """
    made: dict[Instruction, Instruction] = {p: args[i] for i, p in enumerate(callee.parameters)}
    copies = []
    for inst in callee.post_order():
        if inst.op is ops.PARAMETER:
            continue
        if inst.op is ops.GET_TUPLE_ELEMENT and made[inst.operands[0]].op is ops.TUPLE and not _ordered(inst):
            made[inst] = made[inst.operands[0]].operands[inst.attrs.index]
            continue
        copy = rewriter.clone_instruction(inst, into, [made[o] for o in inst.operands])
        for before in inst.control_predecessors:
            if before.op is not ops.PARAMETER:
                rewriter.add_control_dependency(made[before], copy)
        made[inst] = copy
        copies.append(copy)
    return made[callee.root], copies


def _ordered(inst: Instruction) -> bool:
    return bool(inst.control_predecessors or inst.control_successors)


def inline(call: Instruction, callee: Computation, args: Sequence[Instruction]) -> list[Instruction]:
    """Replaces `call` by a copy of `callee`'s body over `args`; returns the copies.

    Control dependencies of the call carry over to all of the copies that could be noticed (those with effects), to
    those that need no other copy, and to the result.
    """
    root, copies = copy_body(callee, call.parent, args)
    _move_dependencies(call, root, copies)
    rewriter.replace_uses(call, root)
    rewriter.erase(call)
    return copies


def _move_dependencies(call: Instruction, root: Instruction, copies: list[Instruction]) -> None:
    if not (call.control_predecessors or call.control_successors):
        return
    if not copies:  # the result is an argument: only the order among the others is left
        for before in call.control_predecessors:
            for after in call.control_successors:
                rewriter.add_control_dependency(before, after)
    inside = set(copies)
    first = [c for c in copies if has_effect(c) or not any(o in inside for o in c.operands)]
    last = [c for c in copies if has_effect(c) or c is root] or [root]
    for before in call.control_predecessors:
        rewriter.remove_control_dependency(before, call)
        for inst in first:
            rewriter.add_control_dependency(before, inst)
    for after in call.control_successors:
        rewriter.remove_control_dependency(call, after)
        for inst in last:
            if inst is not after:
                rewriter.add_control_dependency(inst, after)


def own(inst: Instruction) -> None:
    """Gives `inst` private copies of the computations it shares with other callers, so that they may be changed."""
    fresh = [rewriter.clone_computation(c) if sum(c.callers.values()) > 1 else c for c in inst.called]
    if fresh != list(inst.called):
        old = list(inst.called)
        rewriter.set_called(inst, fresh)
        for comp in old:
            drop_if_dead(comp)


def drop_if_dead(comp: Computation) -> None:
    """Removes a computation that nothing calls any more, and the ones that only it called."""
    work = [comp]
    while work:
        dead = work.pop()
        if dead.callers or dead.is_entry or dead.module.computations.get(dead.name) is not dead:
            continue
        callees = list(dict.fromkeys(c for inst in dead.instructions for c in inst.called))
        rewriter.remove_computation(dead)
        work.extend(reversed(callees))


def sweep(comp: Computation) -> None:
    """Erases what neither the root, nor an effect, nor the signature needs. Linear."""
    stack = [i for i in comp.instructions if i.is_root or has_effect(i)]
    live = set(stack)
    while stack:
        inst = stack.pop()
        for need in (*inst.operands, *inst.control_predecessors):
            if need not in live:
                live.add(need)
                stack.append(need)
    for inst in reversed(comp.post_order()):
        if inst not in live:
            rewriter.erase(inst)
