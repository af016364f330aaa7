"""Dead code elimination."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.passes.dead_signature import remove_dead_entry_parameters, remove_dead_outputs, remove_dead_parameters
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import has_effect


@register
@dataclass(frozen=True, slots=True)
class Dce(Pass):
    """Removes instructions whose value nothing needs, computations that nothing calls, and unused parts of signatures.

    Parameters of the entry and of loops stay, as do instructions with side effects and everything those need; calls
    and fusions lose the parameters that their callee does not use, and fusions the results that nobody takes.

        a = f32[4] add(x, y)                         (gone: unused)
        ROOT b = f32[4] multiply(x, y)      ==>      ROOT b = f32[4] multiply(x, y)

    remove_dead_parameters_from_entry_computation: the entry loses its unused parameters too, and its callers must know.
    """

    name: ClassVar[str] = "dce"
    remove_dead_parameters_from_entry_computation: bool = False

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size, and in that of callers whose operands die with a callee's parameters."""
        changed = False
        # Callers first: erasing a call may leave its callee dead as a whole.
        work = deque(reversed(module.computation_post_order()))
        queued = set(work)
        while work and not ctx.control.stopped:
            comp = work.popleft()
            queued.discard(comp)
            if not comp.callers and not comp.is_entry:
                continue
            changed |= _remove_dead_instructions(comp, ctx)
            for fusion in [i for i in comp.instructions if i.op is ops.FUSION]:
                if remove_dead_outputs(fusion, ctx):
                    changed = True
                    _again(fusion.called[0], work, queued)
            for caller in remove_dead_parameters(comp, ctx):
                changed = True
                _again(caller.parent, work, queued)
        if self.remove_dead_parameters_from_entry_computation:
            changed |= remove_dead_entry_parameters(module, ctx)
        return _remove_dead_computations(module, ctx) or changed


def _again(comp: Computation, work: deque[Computation], queued: set[Computation]) -> None:
    if comp not in queued:
        queued.add(comp)
        work.append(comp)


def _remove_dead_instructions(comp: Computation, ctx: PassContext) -> bool:
    # Whatever is dead is needed, in the end, by something dead that nothing needs.
    if all(i.users or i.control_successors or _stays(i) for i in comp.instructions):
        return False
    live = _live(comp)
    changed = False
    # Users before operands, so that each is unused when its turn comes.
    for inst in reversed(comp.post_order()):
        if inst in live:
            continue
        if not ctx.permit("remove-dead-instruction", inst):
            return changed
        rewriter.erase(inst)
        changed = True
    return changed


def _stays(inst: Instruction) -> bool:
    return inst.is_root or inst.op is ops.PARAMETER or has_effect(inst)


def _live(comp: Computation) -> set[Instruction]:
    """What the root and the instructions with effects need, through operands and control predecessors."""
    stack = [i for i in comp.instructions if _stays(i)]
    live = set(stack)
    while stack:
        inst = stack.pop()
        for need in (*inst.operands, *inst.control_predecessors):
            if need not in live:
                live.add(need)
                stack.append(need)
    return live


def _remove_dead_computations(module: Module, ctx: PassContext) -> bool:
    changed = False
    for comp in reversed(module.computation_post_order()):
        if comp.callers or comp.is_entry:
            continue
        if not ctx.permit("remove-dead-computation", comp.root):
            return changed
        rewriter.remove_computation(comp)
        changed = True
    return changed
