"""Dead code elimination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import has_effect


@register
@dataclass(frozen=True, slots=True)
class Dce(Pass):
    """Removes instructions whose value nothing needs, and computations that nothing calls.

    Parameters stay, as do instructions with side effects and everything those need.

        a = f32[4] add(x, y)                         (gone: unused)
        ROOT b = f32[4] multiply(x, y)      ==>      ROOT b = f32[4] multiply(x, y)
    """

    name: ClassVar[str] = "dce"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size."""
        changed = False
        # Callers first: erasing a call may leave its callee dead as a whole.
        for comp in reversed(module.computation_post_order()):
            changed |= _remove_dead_instructions(comp, ctx)
        return _remove_dead_computations(module, ctx) or changed


def _remove_dead_instructions(comp: Computation, ctx: PassContext) -> bool:
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


def _live(comp: Computation) -> set[Instruction]:
    """What the root and the instructions with effects need, through operands and control predecessors."""
    stack = [i for i in comp.instructions if i.is_root or i.op is ops.PARAMETER or has_effect(i)]
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
