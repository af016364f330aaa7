"""Unrolling of short loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.analysis.while_loops import Induction, find_induction, is_canonical
from xyla.hlo import ops, rewriter
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.passes.inlining import copy_body, drop_if_dead
from xyla.passes.loops import element, is_alive, loops_of
from xyla.passes.trip_counts import TripCounts
from xyla.passes.tuple_simplifier import RULES
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import effectful, erase_dead, run_rules


@register
@dataclass(frozen=True, slots=True)
class WhileLoopUnroller(Pass):
    """Writes out a loop that runs a known, small number of times.

        while((0, x)), body = {(i, v) -> (i + 1, v * i)}, 2 trips      ==>      x * 0 * 1

    Trip counts are those of the counter, or found by running it. unroll_factor: -1 unrolls fully; k makes one iteration
    of each k, where k divides the trip count. Limits: trip count, instructions of the body, and their product, over all
    loops of the module. Loops with effects or control dependencies stay: their order would be lost.
    """

    name: ClassVar[str] = "while-loop-unroller"
    unroll_factor: int = -1
    trip_limit: int = 64
    body_limit: int = 800
    growth_limit: int = 10000
    # Unrolling by a factor would go on for ever.
    idempotent: ClassVar[bool] = False

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Inner loops first. Linear in the size of the result."""
        room = self.growth_limit
        touched: dict[Computation, None] = {}
        known = TripCounts()
        for loop in loops_of(module):
            trips = known.of(loop) if is_alive(loop) else None
            if trips is None or not self._wanted(loop, trips, room):
                continue
            if not ctx.permit("unroll-loop", loop):
                break
            copies = trips if self.unroll_factor == -1 else self.unroll_factor
            room -= copies * len(loop.called[1].instructions)
            if self.unroll_factor == -1:
                touched[loop.parent] = None
                _unroll(loop, trips, ctx)
            else:
                touched[_unroll_by(loop, self.unroll_factor)] = None
        run_rules(module, ctx, RULES, [c for c in touched if module.computations.get(c.name) is c])
        return bool(touched)

    def _wanted(self, loop: Instruction, trips: int, room: int) -> bool:
        if loop.control_predecessors or loop.control_successors or not is_canonical(loop):
            return False
        size = len(loop.called[1].instructions)
        factor = self.unroll_factor
        if factor != -1 and (factor < 2 or trips % factor or trips == factor):
            return False
        copies = trips if factor == -1 else factor
        if trips > self.trip_limit or size > self.body_limit or copies * size > room:
            return False
        return not any(effectful(c) for c in loop.called)


def _unroll(loop: Instruction, trips: int, ctx: PassContext) -> None:
    cond, body = loop.called
    induction = find_induction(loop)
    comp, count = loop.parent, len(loop.shape.tuple_shapes)
    state = [element(loop.operands[0], i) for i in range(count)]
    tuples: list[Instruction] = []
    for trip in range(trips):
        if induction is not None:
            state[induction.index] = _counter(loop, induction, trip)
        whole = rewriter.create(comp, ops.TUPLE, state, shape=loop.shape)
        root, _ = copy_body(body, comp, [whole])
        state = [element(root, i) for i in range(count)]
        tuples += [whole, root]
    result = rewriter.create(comp, ops.TUPLE, state, shape=loop.shape, like=loop)
    ctx.record(result)
    init = loop.operands[0]
    rewriter.replace_uses(loop, result)
    rewriter.erase(loop)
    erase_dead([*tuples, init])
    drop_if_dead(cond)
    drop_if_dead(body)


def _counter(loop: Instruction, induction: Induction, trip: int) -> Instruction:
    shape = loop.shape.tuple_shapes[induction.index]
    literal = Literal.scalar(induction.init + trip * induction.step, shape.element_type)
    return rewriter.create(loop.parent, ops.CONSTANT, (), ops.ConstantAttrs(literal), shape=shape, like=loop)


def _unroll_by(loop: Instruction, factor: int) -> Computation:
    cond, body = loop.called
    new = loop.module.add_computation(body.name)
    new.execution_thread = body.execution_thread
    param = body.parameters[0]
    state = new.add(ops.PARAMETER, (), ops.ParameterAttrs(0), shape=param.shape, name=param.name)
    for _ in range(factor):
        state, _ = copy_body(body, new, [state])
    new.set_root(state)
    rewriter.set_called(loop, [cond, new])
    # What was known of the trip count no longer holds.
    loop.backend_config = ""
    drop_if_dead(body)
    return new
