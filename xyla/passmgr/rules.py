"""Peephole rules and the work-list that applies them.

A rule is a named function `rule(inst, rw) -> Instruction | None` whose docstring is the equation. It guards first,
then builds its result through `rw` (a `Rewrite`) or returns an existing instruction. `run_rules` replaces `inst` by
the result and visits again only what the change may have enabled: near linear in the module's size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xyla.hlo import ops, rewriter
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import NO_ATTRS, Attrs, OpDef, Trait
from xyla.hlo.shape import Shape
from xyla.passmgr.context import Fp, PassContext
from xyla.passmgr.marks import fp_allows, mark_of, value_changing
from xyla.support.dtypes import ElementType

__all__ = [
    "NotPermitted", "Rewrite", "Rule", "RuleTable", "effectful", "erase_dead", "fp_allows", "has_effect", "is_splat",
    "rule_table", "run_rules", "splat_value", "try_rules", "value_changing",
]  # fmt: skip


# Rewrites of one computation in one run, by its size: sound rule sets stay far below.
_LEAST_BUDGET, _REWRITES_EACH = 1_000, 50


class NotPermitted(Exception):
    """The rewrite limit is reached: the rule being tried must not change anything."""


class Rewrite:
    """One rule at one instruction. The first change asks for permission; past the limit the rule is abandoned."""

    __slots__ = ("_dynamic", "ctx", "inst", "made", "permitted", "rule")

    def __init__(self, ctx: PassContext, rule: str, inst: Instruction) -> None:
        self.ctx = ctx
        self.rule = rule
        self.inst = inst
        self.permitted = False
        self.made: list[Instruction] = []
        self._dynamic: bool | None = None

    @property
    def is_dynamic(self) -> bool:
        """Whether `inst` or an operand has a dynamic dimension; the same for every rule that is tried at it."""
        if self._dynamic is None:
            self._dynamic = bool(self.inst.shape.dynamic) or any(o.shape.dynamic for o in self.inst.operands)
        return self._dynamic

    @property
    def fp(self) -> Fp:
        """The floating-point mode."""
        return self.ctx.fp

    def permit(self) -> None:
        """Asks for permission once; raises NotPermitted past the limit."""
        if not self.permitted:
            if not self.ctx.permit(self.rule, self.inst):
                raise NotPermitted
            self.permitted = True

    def add(
        self,
        op: OpDef[Any],
        operands: Sequence[Instruction] = (),
        attrs: Attrs = NO_ATTRS,
        *,
        shape: Shape | None = None,
        called: Sequence[Computation] = (),
    ) -> Instruction:
        """A new instruction beside `inst`, with its metadata."""
        self.permit()
        new = rewriter.create(self.inst.parent, op, operands, attrs, shape=shape, called=called, like=self.inst)
        new.sharding = ""
        self.made.append(new)
        return new

    def constant(self, literal: Literal) -> Instruction:
        """A constant."""
        return self.add(ops.CONSTANT, (), ops.ConstantAttrs(literal), shape=literal.shape)

    def scalar(self, value: object, element_type: ElementType) -> Instruction:
        """A rank-0 constant."""
        return self.constant(Literal.scalar(value, element_type))

    def splat(self, value: object, shape: Shape) -> Instruction:
        """`value` in every element of `shape`: a scalar constant and, above rank 0, a broadcast."""
        scalar = self.scalar(value, shape.element_type)
        return scalar if shape.rank == 0 else self.add(ops.BROADCAST, [scalar], ops.DimensionsAttrs(()), shape=shape)

    def unary(self, op: OpDef[Any], x: Instruction) -> Instruction:
        """An element-wise op of one operand (math ops without a result accuracy)."""
        attrs = ops.UnaryMathAttrs() if op.attrs is ops.UnaryMathAttrs else NO_ATTRS
        return self.add(op, [x], attrs)

    def binary(self, op: OpDef[Any], x: Instruction, y: Instruction) -> Instruction:
        """An element-wise op of two operands."""
        return self.add(op, [x, y])

    def like(self, operands: Sequence[Instruction], *, shape: Shape | None = None) -> Instruction:
        """`inst`'s op and attributes over other operands."""
        self.permit()
        new = rewriter.clone_instruction(self.inst, self.inst.parent, operands, shape=shape)
        self.made.append(new)
        return new

    def abandon(self) -> None:
        """Removes what the rule has built so far (it turned out not to match); nothing has happened."""
        for new in reversed(self.made):
            rewriter.erase(new)
        self.made.clear()
        if self.permitted:
            self.ctx.retract(self.rule)
            self.permitted = False


Rule = Callable[[Instruction, Rewrite], Instruction | None]
RuleTable = dict[OpDef[Any], tuple[Rule, ...]]


def rule_table(*entries: tuple[Iterable[OpDef[Any]], Sequence[Rule]]) -> RuleTable:
    """Rules by root op, in the order they are tried; entries for the same op are joined."""
    table: dict[OpDef[Any], tuple[Rule, ...]] = {}
    for roots, rules in entries:
        for op in roots:
            table[op] = table.get(op, ()) + tuple(rules)
    return table


def run_rules(
    module: Module, ctx: PassContext, table: RuleTable, computations: Iterable[Computation] | None = None
) -> bool:
    """Applies the rules everywhere until none matches; returns whether anything changed.

    Rules that undo one another are stopped by a budget of rewrites, with a note in the context.
    """
    changed = False
    allowed = {op: _allowed(rules, ctx.fp) for op, rules in table.items()}
    for comp in list(computations if computations is not None else module.computations.values()):
        changed |= _run_computation(comp, ctx, allowed)
    return changed


def _allowed(rules: Sequence[Rule], fp: Fp) -> tuple[Rule, ...]:
    """The rules that this floating-point mode permits."""
    return tuple(r for r in rules if (mark := mark_of(r)) is None or fp_allows(fp, mark.least))


def _run_computation(comp: Computation, ctx: PassContext, table: RuleTable) -> bool:
    work = deque(i for i in comp.post_order() if i.op in table)
    queued = set(work)
    changed = False
    budget = _LEAST_BUDGET + _REWRITES_EACH * len(comp.instructions)
    while work and not ctx.control.stopped:
        inst = work.popleft()
        queued.discard(inst)
        if inst not in comp.instructions or (not inst.users and not inst.is_root and not has_effect(inst)):
            continue
        again = _try(inst, ctx, table[inst.op])
        if again is None:
            continue
        changed = True
        budget -= ctx.control.budgeted
        if budget <= 0:
            ctx.notes.append(f"{ctx.pass_name}: too many rewrites in %{comp.name}: the rules undo one another")
            break
        for other in again:
            if other.op in table and other not in queued and other in comp.instructions:
                queued.add(other)
                work.append(other)
    return changed


def try_rules(inst: Instruction, ctx: PassContext, rules: Sequence[Rule]) -> list[Instruction] | None:
    """Applies the first rule that matches; returns what to look at again, or None when none matched.

    Rules marked `value_changing` beyond the context's floating-point mode are passed over.
    """
    return _try(inst, ctx, _allowed(rules, ctx.fp))


def _try(inst: Instruction, ctx: PassContext, rules: Sequence[Rule]) -> list[Instruction] | None:
    rewrite = Rewrite(ctx, "", inst)
    for rule in rules:
        rewrite.rule = rule.__name__
        try:
            new = rule(inst, rewrite)
            if new is None or new is inst or (_ordered(inst) and new not in rewrite.made):
                if rewrite.made or rewrite.permitted:
                    rewrite.abandon()
                continue
            rewrite.permit()
        except NotPermitted:
            return None
        ctx.record(new)
        return _install(inst, new, rewrite.made)
    return None


def _ordered(inst: Instruction) -> bool:
    """Whether `inst` has a place in time: then a value that was there before must not take its place, for what has to
    run first may need that very value.
    """
    return bool(inst.control_predecessors or inst.control_successors)


def _install(inst: Instruction, new: Instruction, made: list[Instruction]) -> list[Instruction]:
    """Puts `new` in `inst`'s place and removes what became dead; returns the neighbourhood."""
    users = list(inst.users)
    operands = list(inst.operands)
    rewriter.move_control_dependencies(inst, new)
    rewriter.replace_uses(inst, new)
    touched = [*made, new, *users]
    for dead in erase_dead([inst]):
        touched.extend(dead)
    return [*touched, *(o for o in operands)]


def erase_dead(start: Iterable[Instruction]) -> list[tuple[Instruction, ...]]:
    """Erases unused instructions without effects, then their operands; returns the operands of each erased one.

    What has its place in the order of control stays, but for elements taken out of tuples.
    """
    work = deque(start)
    freed: list[tuple[Instruction, ...]] = []
    while work:
        inst = work.popleft()
        if inst not in inst.parent.instructions or inst.users or inst.is_root or has_effect(inst):
            continue
        if inst.control_predecessors or inst.control_successors:
            if inst.op is not ops.GET_TUPLE_ELEMENT:
                continue
            _step_out_of_order(inst)
        operands = inst.operands
        rewriter.erase(inst)
        freed.append(operands)
        work.extend(dict.fromkeys(operands))
    return freed


def _step_out_of_order(inst: Instruction) -> None:
    """What had to follow an instruction that does nothing has to follow what that followed."""
    for then in inst.control_successors:
        for first in dict.fromkeys([*inst.operands, *inst.control_predecessors]):
            rewriter.add_control_dependency(first, then)
        rewriter.remove_control_dependency(inst, then)
    for first in inst.control_predecessors:
        rewriter.remove_control_dependency(first, inst)


def has_effect(inst: Instruction) -> bool:
    """Whether an instruction must stay although nothing uses it. Source: HloInstruction::HasSideEffect.

    Parameters stay (they are the signature); collectives, feeds, sends and side-effecting custom calls stay; control
    flow and calls stay when something they call must, and what waits for started work when the start does.
    """
    if inst.op.has(Trait.ASYNC_DONE) or inst.op is ops.ASYNC_UPDATE:
        inst = _waited_for(inst)
    if inst.op is ops.PARAMETER or inst.op.has(Trait.SIDE_EFFECT) or inst.op.has(Trait.COLLECTIVE):
        return True
    if inst.op is ops.CUSTOM_CALL and inst.attrs.custom_call_has_side_effect:
        return True
    if not inst.called:
        return False
    return any(effectful(c) for c in inst.called)


def _waited_for(inst: Instruction) -> Instruction:
    """The start that a done or an update waits for; itself when that is further away than through updates."""
    start = inst
    while start.op is ops.ASYNC_UPDATE or start.op.has(Trait.ASYNC_DONE):
        start = start.operands[0]
    return start if start.op.has(Trait.ASYNC_START) else inst


def effectful(comp: Computation) -> bool:
    """Whether running a computation does anything beside returning a value. Iterative over the call graph."""
    seen, stack = {comp}, [comp]
    while stack:
        for inst in stack.pop().instructions:
            if inst.op is not ops.PARAMETER and not inst.called and has_effect(inst):
                return True
            if inst.op.has(Trait.COLLECTIVE) or inst.op.has(Trait.SIDE_EFFECT):
                return True
            for callee in inst.called:
                if callee not in seen:
                    seen.add(callee)
                    stack.append(callee)
    return False


# -- questions that rules ask ----------------------------------------------------------------------------------------


def splat_value(inst: Instruction) -> np.generic | None:
    """The value of a constant splat or a broadcast scalar constant; None otherwise (and for elided constants)."""
    if inst.op is ops.BROADCAST and inst.operands[0].op is ops.CONSTANT:
        inst = inst.operands[0]
    if inst.op is not ops.CONSTANT:
        return None
    literal: Literal = inst.attrs.literal
    if not literal.shape.is_array or literal.elided or not literal.is_splat:
        return None
    return literal.first


def is_splat(inst: Instruction, value: complex) -> bool:
    """Whether every element is `value`, bit for bit in the sense that -0.0 is not 0.0."""
    found = splat_value(inst)
    if found is None or not bool(found == value):
        return False
    return value != 0 or not bool(np.signbit(np.real(found))) or bool(np.signbit(np.real(value)))
