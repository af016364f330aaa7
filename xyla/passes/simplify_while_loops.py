"""Simplification of while loops."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from xyla.analysis.while_loops import (
    decides,
    find_induction,
    initial_value,
    integer_constant,
    is_canonical,
    reads_state,
    state_elements,
)
from xyla.hlo import ops, rewriter
from xyla.hlo.attr_types import ComparisonDirection
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.passes.flatten_loop_state import flatten_state, transfers
from xyla.passes.induction_merging import merge_counters
from xyla.passes.inlining import copy_body, drop_if_dead, own
from xyla.passes.loop_liveness import live_indices
from xyla.passes.loops import is_alive, loops_of, resize, start_of
from xyla.passes.trip_counts import TripCounts
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import effectful, erase_dead
from xyla.support.dtypes import PRED


@register
@dataclass(frozen=True, slots=True)
class SimplifyWhileLoops(Pass):
    """Makes while loops carry less, and removes those that run never or once.

        w = while((i, x, k)), body={(i + 1, x * k, k)}      ==>      w = while((i, x)), body={(i + 1, x * c)}
        (k a scalar constant c; loop state that is dead, duplicated or constant goes)

    Nested tuples of state become flat. Counters that are linear in one another become one. Comparisons of the counter
    that its range decides become constants. Loops with control dependencies are left alone.
    """

    name: ClassVar[str] = "simplify-while-loops"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Inner loops first, then outer and later ones first, until nothing changes: what one loop no longer reads, an
        earlier one need not carry; what an earlier one no longer changes may be a constant in a later one. Each round
        is linear, and two or three are the rule.
        """
        changed, forward = False, True
        trips = TripCounts()
        while True:
            again = False
            loops = loops_of(module)
            for loop in loops if forward else reversed(loops):
                if is_alive(loop):
                    again |= _simplify(loop, ctx, trips)
            changed |= again
            if not again or ctx.control.stopped:
                return changed
            forward = not forward


def _simplify(loop: Instruction, ctx: PassContext, trips: TripCounts) -> bool:
    if loop.control_predecessors or loop.control_successors:
        return False
    flat = flatten_state(loop, ctx)
    changed, loop = flat is not loop, flat
    if not is_canonical(loop):
        return changed
    if _remove_loop(loop, ctx, trips):
        return True
    for step in (_propagate_constants, _remove_repeated, _remove_unused, _decide_comparisons, merge_counters):
        changed |= step(loop, ctx)
    return changed


def _remove_loop(loop: Instruction, ctx: PassContext, known: TripCounts) -> bool:
    """A loop that runs never is its initial state; one that runs once is its body."""
    cond, body = loop.called
    trips = known.of(loop)
    if trips is None or trips > 1 or effectful(cond) or transfers(loop):
        return False
    rule = "loop-runs-never" if trips == 0 else "loop-runs-once"
    if not ctx.permit(rule, loop):
        return False
    new = loop.operands[0] if trips == 0 else copy_body(body, loop.parent, [loop.operands[0]])[0]
    ctx.record(new)
    rewriter.replace_uses(loop, new)
    # Whatever had an effect has been copied.
    rewriter.erase(loop)
    drop_if_dead(cond)
    drop_if_dead(body)
    return True


def _propagate_constants(loop: Instruction, ctx: PassContext) -> bool:
    """State that starts as a constant and stays it is that constant: passed on (scalars), or set again by the body."""
    constants: dict[int, Literal] = {}
    for i, value in enumerate(loop.called[1].root.operands):
        literal = _constant_of(initial_value(loop, i))
        if literal is None:
            continue
        passed = reads_state(value) == i and literal.shape.is_scalar
        if passed or _constant_of(value) == literal:
            constants[i] = literal
    if not constants or not ctx.permit("constant-loop-state", loop):
        return False
    own(loop)
    for comp in loop.called:
        for i, readers in state_elements(comp).items():
            if i not in constants:
                continue
            inside = _constant(comp, constants[i], readers[0])
            for reader in readers:
                rewriter.replace_uses(reader, inside)
                erase_dead([reader])
            erase_dead([inside])
    count = len(loop.shape.tuple_shapes)
    outside = {i: start_of(loop, i) for i in constants}
    resize(loop, [i for i in range(count) if i not in constants], outside=outside)
    ctx.record(loop)
    return True


def _constant_of(inst: Instruction | None) -> Literal | None:
    if inst is None or inst.op is not ops.CONSTANT or not inst.shape.is_array:
        return None
    literal: Literal = inst.attrs.literal
    return None if literal.elided else literal


def _constant(comp: Computation, literal: Literal, like: Instruction) -> Instruction:
    attrs = ops.ConstantAttrs(literal)
    return rewriter.create(comp, ops.CONSTANT, (), attrs, shape=literal.shape, like=like)


def _remove_repeated(loop: Instruction, ctx: PassContext) -> bool:
    """Two state elements that start equal and are updated alike are one."""
    same = _repeated(loop)
    if not same or not ctx.permit("repeated-loop-state", loop):
        return False
    own(loop)
    for comp in loop.called:
        readers = state_elements(comp)
        for again, first in same.items():
            for reader in readers.get(again, ()):
                rewriter.set_attrs(reader, ops.IndexAttrs(first))
    # Every reader of a repeated element now reads the first one, outside as well.
    outside = {}
    for again, first in same.items():
        outside[again] = rewriter.create(loop.parent, ops.GET_TUPLE_ELEMENT, [loop], ops.IndexAttrs(first))
    resize(loop, [i for i in range(len(loop.shape.tuple_shapes)) if i not in same], outside=outside)
    erase_dead(outside.values())
    ctx.record(loop)
    return True


def _repeated(loop: Instruction) -> dict[int, int]:
    """{index: an earlier index with the same value at all times}: assumed equal, each pair stays so by its updates."""
    count = len(loop.shape.tuple_shapes)
    starts = [initial_value(loop, i) for i in range(count)]
    groups: dict[Hashable, int] = {}
    same: dict[int, int] = {}
    updates = loop.called[1].root.operands
    for i in range(count):
        start = starts[i]
        if start is None or not start.shape.is_array:
            continue
        key = (start, loop.shape.tuple_shapes[i], _update_key(updates[i], i))
        first = groups.setdefault(key, i)
        if first != i:
            same[i] = first
    return same


def _update_key(update: Instruction, index: int) -> Hashable:
    """Equal for updates that keep equal elements equal: passing on, the same value, the same write into the element."""
    if reads_state(update) == index:
        return "passed on"
    if update.op is ops.DYNAMIC_UPDATE_SLICE and reads_state(update.operands[0]) == index:
        return ("updated", update.operands[1:])
    return update


def _remove_unused(loop: Instruction, ctx: PassContext) -> bool:
    """State that neither the condition, nor the result, nor an effect depends on goes; what is passed on is known."""
    live = live_indices(loop)
    count = len(loop.shape.tuple_shapes)
    if len(live) == count or not ctx.permit("unused-loop-state", loop):
        return False
    own(loop)
    root = loop.called[1].root
    dropped = [i for i in range(count) if i not in live]
    outside = {i: start_of(loop, i) for i in dropped if reads_state(root.operands[i]) == i}
    resize(loop, sorted(live), outside=outside)
    erase_dead(outside.values())
    ctx.record(loop)
    return True


def _decide_comparisons(loop: Instruction, ctx: PassContext) -> bool:
    """compare(counter, constant) in the body that is the same for every value of the counter -> true or false."""
    induction = find_induction(loop)
    if induction is None or induction.trips == 0:
        return False
    values = range(induction.init, induction.last, induction.step) if induction.step else range(induction.init, 1)
    decided = []
    for reader in state_elements(loop.called[1]).get(induction.index, ()):
        for user in reader.users:
            if user.op is ops.COMPARE and user.users:
                answer = _answer(user, reader, values)
                if answer is not None:
                    decided.append((user, answer))
    if not decided or not ctx.permit("decided-comparison", loop):
        return False
    positions = {u: i for i, u in enumerate(loop.called[1].post_order())}
    own(loop)
    copies = loop.called[1].post_order()
    for user, answer in decided:
        compare = copies[positions[user]]
        new = _constant(compare.parent, Literal.scalar(answer, PRED), compare)
        rewriter.replace_uses(compare, new)
        erase_dead([compare])
        ctx.record(new)
    return True


def _answer(compare: Instruction, counter: Instruction, values: range) -> bool | None:
    left, right = compare.operands
    direction: ComparisonDirection = compare.attrs.direction
    bound = integer_constant(right) if left is counter else None
    if bound is None:
        return None
    return decides(values, bound, direction)
