"""Long prefix reductions in two levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.attr_types import Window, WindowDim
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.algebraic_simplifier.common import is_identity
from xyla.passes.building import Builder, Expander, Val
from xyla.passmgr.base import register
from xyla.passmgr.context import Fp
from xyla.passmgr.rules import Rewrite, Rule, fp_allows, splat_value

VALUE_CHANGING = {
    "split_cumulative_window": (Fp.DEFAULT, "a prefix sum or product is made of those of tiles: another association"),
    "split_associative_scan": (Fp.DEFAULT, "a prefix sum or product is made of those of tiles: another association"),
}

_REDUCERS = (ops.ADD, ops.MULTIPLY, ops.MAXIMUM, ops.MINIMUM, ops.AND, ops.OR, ops.XOR)


@register
@dataclass(frozen=True, slots=True)
class ReduceWindowRewriter(Expander):
    """Splits a long prefix reduction into prefix reductions of tiles and one over the tiles' totals.

    Such a reduction is a reduce-window as long as a dimension and padded on one side (inclusive or exclusive, from
    either end), or an associative scan whose carry is its output. It costs n * base_length operations instead of n * n.
    The combiner is add, multiply, maximum, minimum, and, or, xor; the initial value is its neutral element (it is used
    once per tile). Sums are reassociated, as the ops allow. Source: XLA's ReduceWindowRewriter, which also rewrites
    windows with other initial values, and rank 1 as rank 2 for targets that want that.

        ROOT s = f32[4096] reduce-window(x, 0), window={size=4096 pad=4095_0}, to_apply=add
          ==>  t = f32[32,128] reduce-window(reshape(x), 0), window={size=1x128 pad=0_0x127_0}, to_apply=add
               p = prefix sums of t[:, 127]; ROOT r = reshape(t + broadcast(p))
    """

    name: ClassVar[str] = "reduce-window-rewriter"
    base_length: int = 128

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The ops and their rules."""
        base = max(self.base_length, 2)

        def split_cumulative_window(inst: Instruction, rw: Rewrite) -> Instruction | None:
            """prefixes(x) = prefixes(tiles) combined with the exclusive prefixes of the tiles' totals."""
            return _cumulative_window(inst, rw, base)

        def split_associative_scan(inst: Instruction, rw: Rewrite) -> Instruction | None:
            """scan(x, neutral) by (x, c) -> (op(x, c), op(x, c)) = (prefixes(x), the last of them)."""
            return _associative_scan(inst, rw, base)

        return {ops.REDUCE_WINDOW: split_cumulative_window, ops.SCAN: split_associative_scan}


def _cumulative_window(inst: Instruction, rw: Rewrite, base: int) -> Instruction | None:
    if len(inst.operands) != 2 or inst.shape.is_dynamic or inst.shape.is_tuple:
        return None
    x, init = inst.operands
    op, found = _reducer(inst.called[0], inst.called[0].root), _cumulative_dim(inst)
    if op is None or found is None or x.shape.dims[found[0]] <= base or not _is_neutral(op, init):
        return None
    if any(s.element_type is not inst.shape.element_type for s in (x.shape, init.shape)):
        return None
    if not _may_reassociate(op, x, rw):
        return None
    rw.permit()
    b = Builder(rw)
    start, where = b.val(init), found[:2]
    result = _prefixes(b, op, inst.called[0], b.val(x), start, where, base)
    return (_exclusive(b, result, start, where) if found[2] else result).inst


def _associative_scan(inst: Instruction, rw: Rewrite, base: int) -> Instruction | None:
    a = inst.attrs
    if not a.is_associative or a.is_reverse or a.num_carries != 1 or len(inst.operands) != 2:
        return None
    x, init = inst.operands
    root = inst.called[0].root
    if inst.shape.is_dynamic or x.shape.dims[a.dimension] == 0 or root.op is not ops.TUPLE:
        return None
    # One output, which is also the carry.
    same = len(root.operands) == 2 and root.operands[0] is root.operands[1]
    op = _reducer(inst.called[0], root.operands[0]) if same else None
    value, et = splat_value(init), x.shape.element_type
    if op is None or value is None or not _is_neutral(op, init) or init.shape.element_type is not et:
        return None
    if not _may_reassociate(op, x, rw):
        return None
    rw.permit()
    b = Builder(rw)
    comp = b.scalar_computation(op, et)
    y = _prefixes(b, op, comp, b.val(x), b.scalar(value, et), (a.dimension, False), base)
    n = y.dims[a.dimension]
    return b.tuple([y, y.slice_dim(a.dimension, n - 1, n).reshape(*init.shape.dims)]).inst


def _may_reassociate(op: OpDef[Any], x: Instruction, rw: Rewrite) -> bool:
    """Whether the mode allows another association, or none can be told from another."""
    rounds = op in (ops.ADD, ops.MULTIPLY) and (x.shape.element_type.is_float or x.shape.element_type.is_complex)
    return not rounds or fp_allows(rw.fp, VALUE_CHANGING[rw.rule][0])


def _cumulative_dim(inst: Instruction) -> tuple[int, bool, bool] | None:
    """(dimension, reverse, exclusive) of a reduce-window that accumulates along one dimension; else None."""
    window = inst.attrs.window.dims
    wide = [d for d, w in enumerate(window) if replace(w, reversal=False) != WindowDim(1)]
    if len(wide) != 1:
        return None
    w, n = window[wide[0]], inst.operands[0].shape.dims[wide[0]]
    if replace(w, pad_low=0, pad_high=0) != WindowDim(n):
        return None
    forms = {(n - 1, 0): (False, False), (0, n - 1): (True, False), (n, -1): (False, True), (-1, n): (True, True)}
    form = forms.get((w.pad_low, w.pad_high))
    return None if form is None else (wide[0], *form)


def _reducer(comp: Computation, inst: Instruction) -> OpDef[Any] | None:
    """The associative and commutative op that `inst` applies to both parameters of `comp`, in one element type."""
    if inst.op not in _REDUCERS or len(comp.parameters) != 2 or set(inst.operands) != set(comp.parameters):
        return None
    same = all(p.shape.without_layout() is inst.shape.without_layout() for p in comp.parameters)
    return inst.op if same else None


def _is_neutral(op: OpDef[Any], value: Instruction) -> bool:
    """Whether a reduction that starts with `value` may meet it again without a change.

    +0 will do for a float sum, although it is not the identity: what has met it once cannot be -0.
    """
    return (op is ops.ADD and splat_value(value) == 0) or is_identity(op, value)


def _prefixes(
    b: Builder, op: OpDef[Any], comp: Computation, x: Val, init: Val, where: tuple[int, bool], base: int
) -> Val:
    """Inclusive prefixes by tiles; levels are added until the tiles' totals fit one tile."""
    dim, reverse = where
    levels: list[tuple[Val, int]] = []
    while x.dims[dim] > base:
        size = x.dims[dim]
        tiles = -(-size // base)
        fill = tiles * base - size
        padded = _pad_dim(b, x, init, dim, (fill, 0) if reverse else (0, fill))
        split = padded.reshape(*x.dims[:dim], tiles, base, *x.dims[dim + 1 :])
        inner = _scan_once(b, comp, split, init, dim + 1, reverse)
        levels.append((inner, size))
        last = 0 if reverse else base - 1
        x = inner.slice_dim(dim + 1, last, last + 1).reshape(*x.dims[:dim], tiles, *x.dims[dim + 1 :])
    x = _scan_once(b, comp, x, init, dim, reverse)
    for inner, size in reversed(levels):
        x = _combine(b, op, inner, _exclusive(b, x, init, where), where, size)
    return x


def _pad_dim(b: Builder, x: Val, init: Val, dim: int, amount: tuple[int, int]) -> Val:
    return b.pad(x, init, [amount if d == dim else (0, 0) for d in range(len(x.dims))])


def _scan_once(b: Builder, comp: Computation, x: Val, init: Val, dim: int, reverse: bool) -> Val:
    size = x.dims[dim]
    low, high = (0, size - 1) if reverse else (size - 1, 0)
    dims = [WindowDim(size, pad_low=low, pad_high=high) if d == dim else WindowDim(1) for d in range(len(x.dims))]
    attrs = ops.WindowAttrs(Window(tuple(dims)))
    return b.apply(ops.REDUCE_WINDOW, x, init, attrs=attrs, called=[comp])


def _exclusive(b: Builder, x: Val, init: Val, where: tuple[int, bool]) -> Val:
    """What comes before (in a reverse scan: behind) each tile."""
    dim, reverse = where
    size = x.dims[dim]
    kept = x.slice_dim(dim, 1, size) if reverse else x.slice_dim(dim, 0, size - 1)
    return _pad_dim(b, kept, init, dim, (0, 1) if reverse else (1, 0))


def _combine(b: Builder, op: OpDef[Any], inner: Val, before: Val, where: tuple[int, bool], size: int) -> Val:
    dim, reverse = where
    places: Sequence[int] = [d if d <= dim else d + 1 for d in range(len(before.dims))]
    spread = before.broadcast(inner.dims, places)
    both = b.binary(op, spread, inner)
    whole = inner.dims[dim] * inner.dims[dim + 1]
    flat = both.reshape(*inner.dims[:dim], whole, *inner.dims[dim + 2 :])
    return flat.slice_dim(dim, whole - size, whole) if reverse else flat.slice_dim(dim, 0, size)
