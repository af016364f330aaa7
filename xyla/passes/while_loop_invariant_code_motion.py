"""Hoisting of what a loop computes alike each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.analysis.purity import Purity
from xyla.analysis.while_loops import find_induction, invariant_indices, is_canonical, reads_state
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Instruction, Module
from xyla.passes.inlining import own
from xyla.passes.loops import loops_of, resize, start_of
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import erase_dead

# Cheap to compute again, and often fused: hoisted only along with something that needs them.
_NOT_ALONE = frozenset({
    ops.CONSTANT, ops.BITCAST, ops.BROADCAST, ops.IOTA, ops.RESHAPE, ops.REVERSE, ops.SLICE, ops.TRANSPOSE, ops.TUPLE,
    ops.GET_TUPLE_ELEMENT,
})  # fmt: skip
# These must stay where they are, whatever their operands.
_STAYS = frozenset({ops.PARAMETER, ops.DOMAIN, ops.OPT_BARRIER, ops.AFTER_ALL, ops.ADD_DEPENDENCY, ops.CUSTOM_CALL})


@register
@dataclass(frozen=True, slots=True)
class WhileLoopInvariantCodeMotion(Pass):
    """Moves what depends only on unchanging state out of the loop, which then carries the result.

        body = {(i, x, k) -> (i + 1, x * exp(k), k)}
        ==>  e = exp(k), body = {(i, x, k, e) -> (i + 1, x * e, k, e)}

    Nothing with an effect moves. Constants move only with `hoist_constants`. A value more than `size_ratio` times as
    large as the operands it is made from stays, unless `hoist_size_inflating_ops`. What moves is computed even if the
    loop runs no time: no op fails, so nothing can be noticed.
    """

    name: ClassVar[str] = "while-loop-invariant-code-motion"
    hoist_constants: bool = False
    hoist_size_inflating_ops: bool = True
    size_ratio: float = 1.0

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Inner loops first, so that a value leaves as many loops as it can. Linear in each loop's size."""
        purity = Purity()
        changed = False
        for loop in loops_of(module):
            if is_canonical(loop) and not _kept(loop):
                changed |= self._hoist(loop, ctx, purity)
        return changed

    def _hoist(self, loop: Instruction, ctx: PassContext, purity: Purity) -> bool:
        invariant, wanted = self._plan(loop, purity)
        if not wanted or not ctx.permit("hoist-loop-invariants", loop):
            return False
        positions = {inst: k for k, inst in enumerate(loop.called[1].post_order())}
        own(loop)
        inside = loop.called[1].post_order()
        outside: dict[Instruction, Instruction] = {}
        for inst in invariant:
            index = reads_state(inst)
            if index is not None:
                outside[inst] = start_of(loop, index)
            else:
                operands = [outside[o] for o in inst.operands]
                outside[inst] = rewriter.clone_instruction(inst, loop.parent, operands)
        count = len(loop.shape.tuple_shapes)
        inner = [inside[positions[inst]] for inst in wanted]
        readers = resize(loop, range(count), [outside[inst] for inst in wanted])
        for old, reader in zip(inner, readers, strict=True):
            rewriter.replace_uses(old, reader)
            erase_dead([old])
        erase_dead(reversed(list(outside.values())))
        ctx.record(loop)
        return True

    def _plan(self, loop: Instruction, purity: Purity) -> tuple[list[Instruction], list[Instruction]]:
        """(what to compute outside, in order; those of it that the rest of the body uses). Both in body order."""
        body = loop.called[1]
        unchanged = set(invariant_indices(loop))
        invariant: dict[Instruction, None] = {}
        for inst in body.post_order():
            index = reads_state(inst)
            if index in unchanged if index is not None else self._movable(inst, invariant, purity):
                invariant[inst] = None
        wanted = [inst for inst in invariant if self._wanted(inst, invariant)]
        needed: set[Instruction] = set()
        stack = list(wanted)
        while stack:
            inst = stack.pop()
            if inst not in needed:
                needed.add(inst)
                stack.extend(inst.operands if reads_state(inst) is None else ())
        return [inst for inst in invariant if inst in needed], wanted

    def _movable(self, inst: Instruction, invariant: dict[Instruction, None], purity: Purity) -> bool:
        if (
            inst.op in _STAYS
            or inst.shape.is_token
            or inst.control_predecessors
            or inst.control_successors
            or inst.shape.is_dynamic
        ):
            return False
        if not all(o in invariant for o in inst.operands) or not purity.pure(inst):
            return False
        return self.hoist_size_inflating_ops or not self._inflates(inst)

    def _inflates(self, inst: Instruction) -> bool:
        if inst.op is ops.CONSTANT:
            return False
        return inst.shape.num_bytes > self.size_ratio * sum(o.shape.num_bytes for o in inst.operands)

    def _wanted(self, inst: Instruction, invariant: dict[Instruction, None]) -> bool:
        """Whether a value is carried in: something that stays uses it, and it was worth computing once."""
        if reads_state(inst) is not None or not any(u not in invariant for u in inst.users):
            return False
        if inst.op is ops.CONSTANT:
            return self.hoist_constants
        if inst.op in _NOT_ALONE or not inst.shape.is_array:
            return False
        return _depends_on_state(inst) or self.hoist_constants


def _kept(loop: Instruction) -> bool:
    """Whether nothing is gained (the loop runs at most once) or the program forbids it."""
    if ("_xla_disable_loop_instr_hoisting", "true") in [(k, v.strip('"')) for k, v in loop.frontend_attributes]:
        return True
    induction = find_induction(loop)
    return induction is not None and induction.trips <= 1


def _depends_on_state(inst: Instruction) -> bool:
    """Whether the value comes from loop state at all: what is made of constants alone is constant folding's."""
    seen = {inst}
    stack = [inst]
    while stack:
        top = stack.pop()
        if reads_state(top) is not None:
            return True
        for o in top.operands:
            if o not in seen:
                seen.add(o)
                stack.append(o)
    return False
