"""Dead loop state across computations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.analysis.while_loops import is_canonical, reads_state
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.passes.inlining import own, sweep
from xyla.passes.loop_liveness import live_indices
from xyla.passes.loops import is_alive, loops_of
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext


@register
@dataclass(frozen=True, slots=True)
class HloModuleDce(Pass):
    """Stops loops from computing state that nothing reads: the element is passed on unchanged.

        body = {(i, x) -> (i + 1, x * x)}, x never read      ==>      body = {(i, x) -> (i + 1, x)}

    The loop keeps its shape (`simplify-while-loops` narrows it). Elements that random numbers depend on are kept.
    """

    name: ClassVar[str] = "hlo-module-dce"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Outer loops first: what they no longer ask for is dead inside; again while something inside no longer reads
        what an outer loop carries for it. A round is linear.
        """
        changed = False
        while _round(module, ctx):
            changed = True
        return changed


def _round(module: Module, ctx: PassContext) -> bool:
    changed = False
    for loop in reversed(loops_of(module)):
        if is_alive(loop) and is_canonical(loop):
            changed |= _pass_on_dead(loop, ctx)
    return changed


def _pass_on_dead(loop: Instruction, ctx: PassContext) -> bool:
    root = loop.called[1].root
    live = live_indices(loop, _draws)
    dead = [i for i, value in enumerate(root.operands) if i not in live and reads_state(value) != i]
    if not dead or not ctx.permit("dead-loop-state", loop):
        return False
    own(loop)
    body = loop.called[1]
    operands = list(body.root.operands)
    for i in dead:
        attrs = ops.IndexAttrs(i)
        operands[i] = rewriter.create(body, ops.GET_TUPLE_ELEMENT, body.parameters, attrs, shape=operands[i].shape)
    rewriter.set_operands(body.root, operands)
    sweep(body)
    ctx.record(loop)
    return True


def _draws(inst: Instruction) -> bool:
    return inst.op.has(Trait.STATEFUL_RNG)
