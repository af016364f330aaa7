"""The pass: which rules are tried at which op, under which options."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import OpDef, Trait
from xyla.hlo.shape import Layout, Shape
from xyla.passes.algebraic_simplifier import (
    rules_arithmetic,
    rules_collectives,
    rules_compare,
    rules_convert,
    rules_convolution,
    rules_dot,
    rules_dot_order,
    rules_elementwise,
    rules_indexing,
    rules_minmax,
    rules_misc,
    rules_movement,
    rules_products,
    rules_reduce,
    rules_reduce_window,
    rules_slice,
    rules_views,
)
from xyla.passes.algebraic_simplifier.refusals import log_refusals
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import Fp, PassContext
from xyla.passmgr.marks import fp_allows, mark_of
from xyla.passmgr.rules import Rewrite, Rule, RuleTable, run_rules

FAMILIES = (
    rules_misc, rules_arithmetic, rules_products, rules_minmax, rules_compare, rules_elementwise, rules_convert,
    rules_views, rules_movement, rules_slice, rules_indexing, rules_reduce, rules_reduce_window, rules_dot,
    rules_dot_order, rules_convolution, rules_collectives,
)  # fmt: skip
# What sees its operands' layouts even where those are a choice: a value of another layout must not take their place.
_READ_LAYOUTS = (ops.BITCAST, ops.CUSTOM_CALL)
# Rounds of the whole work-list; each further one only finds what lies more than two levels above a change.
_ROUNDS = 10


@register
@dataclass(frozen=True, slots=True)
class AlgebraicSimplifier(Pass):
    """Replaces instructions by cheaper ones that compute the same value.

    Integers wrap; floating-point rules hold for NaN, infinities and signed zeros, or are marked with the mode that
    allows them (docs/floating-point.md).

        z = f32[] constant(1)
        b = f32[4] broadcast(z)
        m = f32[4] multiply(x, b)            ==>      ROOT n = f32[4] negate(x)
        ROOT n = f32[4] negate(m)

    layout_sensitive: layouts are part of a value; a rewrite never changes the layout of a result.
    The other options switch groups of rules; their names and defaults are XLA's, where it has them.
    """

    name: ClassVar[str] = "algsimp"

    layout_sensitive: bool = False
    replace_transpose_with_bitcast: bool = True
    enable_dot_strength_reduction: bool = True
    enable_dot_to_multiply_rewrite: bool = True
    enable_conv_simplification: bool = True
    enable_conv_operand_swap: bool = True
    enable_conv_to_dot: bool = False
    enable_scalar_multiply_reduction: bool = False
    enable_window_reduce_to_reduce_replacement: bool = True
    enable_unconditional_reduce_of_concat_replacement: bool = True
    enable_broadcast_degenerate_dimension: bool = True
    enable_hoist_transpose_of_reshape: bool = True
    enable_sink_broadcast: bool = True
    enable_remove_no_op_reduce_precision: bool = False
    use_associative_reordering: bool = True
    use_convert_constant_folding: bool = True
    disable_dynamic_slice_to_slice_conversion: bool = False
    supports_non_canonical_dots: bool = True
    enable_move_dot_param_to_rhs: bool = False
    enable_small_gather_to_select: bool = True
    fold_transpose_into_scatter: bool = False

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Near linear: a work-list, run again over the computations that changed until a round finds nothing."""
        table = rules(self, ctx.fp)
        changed = False
        pending = self._computations(module)
        seen: dict[Computation, tuple[int, ...]] = {}
        for _ in range(_ROUNDS):
            seen |= {comp: _revision(comp) for comp in pending}
            if not run_rules(module, ctx, table, pending):
                break
            rules_collectives.erase_replaced(module)
            changed = True
            pending = [c for c in self._computations(module) if seen.get(c) != _revision(c)]
        if ctx.control.log is not None and not ctx.control.stopped:
            names = [c.name for c in self._computations(module)]
            log_refusals(module, ctx, rules(self, ctx.fp, refused=True), names)
        return changed

    def _computations(self, module: Module) -> Sequence[Computation]:
        """All but the bodies of fusions and asynchronous starts, whose form a target has settled."""
        settled = {
            c
            for inst in module.instructions()
            if inst.op is ops.FUSION or inst.op.has(Trait.ASYNC_START)
            for c in inst.called
        }
        return [c for c in module.computation_post_order() if c not in settled]


def _revision(comp: Computation) -> tuple[int, ...]:
    """Changes when the computation does, or one that it calls: rules look into reducers."""
    called = dict.fromkeys(c for inst in comp.instructions if inst.called for c in inst.called)
    return (comp.revision, *(c.revision for c in called))


@functools.lru_cache(maxsize=64)
def rules(options: AlgebraicSimplifier, fp: Fp, *, refused: bool = False) -> RuleTable:
    """The rules by root op under these options and this floating-point mode, in the order they are tried.

    refused: those that only the mode forbids, instead.
    """
    table: dict[OpDef[Any], tuple[Rule, ...]] = {}
    for family in FAMILIES:
        for op, candidates in family.TABLE.items():
            wanted = [r for r in candidates if _allowed(r, fp) is not refused and _enabled(r, options)]
            chosen = tuple(_bound(r, options.layout_sensitive) for r in wanted)
            if chosen:
                table[op] = table.get(op, ()) + chosen
    return table


def _allowed(rule: Rule, fp: Fp) -> bool:
    mark = mark_of(rule)
    return mark is None or fp_allows(fp, mark.least)


def _enabled(rule: Rule, options: AlgebraicSimplifier) -> bool:
    only = getattr(rule, "only", None)
    if only is not None and (only == "physical") != options.layout_sensitive:
        return False
    return all(_gate(options, gate) for gate in getattr(rule, "gates", ()))


def _gate(options: AlgebraicSimplifier, gate: str) -> bool:
    """An option; one that XLA spells as a negative is named with a leading `!`."""
    return not getattr(options, gate[1:]) if gate.startswith("!") else bool(getattr(options, gate))


def _bound(rule: Rule, layout_sensitive: bool) -> Rule:
    """The rule with the checks that all share: static shapes before, the same shape after."""
    any_shape = bool(getattr(rule, "dynamic", False))

    @functools.wraps(rule)
    def bound(inst: Instruction, rw: Rewrite) -> Instruction | None:
        if not any_shape and rw.is_dynamic:
            return None
        new = rule(inst, rw)
        if new is None or new is inst:
            return None
        return new if _settle(inst, new, rw, layout_sensitive) else None

    return bound


def _settle(inst: Instruction, new: Instruction, rw: Rewrite, layout_sensitive: bool) -> bool:
    """Gives `new` the sharding and, where layouts matter, the layout of `inst`. False when it cannot stand for it."""
    fresh = new in rw.made
    if not fresh and inst.sharding and new.sharding != inst.sharding:
        return False
    if inst.shape is not new.shape:
        if not inst.shape.compatible(new.shape):
            return False
        if fresh and inst.shape.is_array:
            rewriter.set_shape(new, inst.shape)
        elif _relaid(inst, new) and (layout_sensitive or any(u.op in _READ_LAYOUTS for u in inst.users)):
            return False
    if fresh:
        new.sharding = inst.sharding
    if layout_sensitive:
        _lay_out(inst, rw.made)
    return True


def _relaid(inst: Instruction, new: Instruction) -> bool:
    return inst.shape.with_default_layouts() is not new.shape.with_default_layouts()


def _lay_out(inst: Instruction, made: Sequence[Instruction]) -> None:
    """Layouts for what was built without one: the result's where the dims are its own, else row-major."""
    for new in made:
        shape = new.shape
        if not shape.is_array or shape.layout is not None:
            continue
        rewriter.set_shape(new, shape.with_layout(_layout_for(shape, inst.shape)))


def _layout_for(shape: Shape, result: Shape) -> Layout:
    if result.is_array and result.layout is not None and shape.dims == result.dims and not result.layout.tiles:
        return result.layout
    return Layout.default(shape.rank)
