"""ragged-dot as a plain dot over all groups, and masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander, Val
from xyla.passes.index_vectors import signed
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.status import unimplemented


@register
@dataclass(frozen=True, slots=True)
class RaggedDotRewriter(Expander):
    """Turns ragged-dot into a dot with every group, whose results are then selected by row.

    What is outside a group is left out by select, not multiplied by zero, so infinities of one group do not reach
    another. Costs as many products as there are groups, as XLA's expansion does.

        ROOT r = bf16[64,8] ragged-dot(bf16[64,9] x, bf16[2,9,8] w, s64[2] sizes), lhs_ragged_dims={0}, ...
          ==>  d = bf16[64,2,8] dot(x, w)
               ROOT r = bf16[64,8] reduce(select(row in group, d, -0)), dimensions={1}
    """

    name: ClassVar[str] = "ragged-dot-rewriter"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.RAGGED_DOT: rewrite_ragged_dot}


def rewrite_ragged_dot(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """ragged-dot(x, w, sizes) = select(in group, dot(x, w)), by the mode of its ragged dimension."""
    a = inst.attrs
    ragged = a.lhs_ragged_dims[0]
    sizes = inst.operands[2].shape
    if any(o.shape.is_dynamic for o in inst.operands):
        raise unimplemented("ragged-dot-rewriter: dynamic shapes", span=inst.span)
    if sizes.rank not in (1, len(a.lhs_batch_dims) + 1) or (ragged in a.lhs_batch_dims and sizes.rank > 1):
        raise unimplemented(f"ragged-dot-rewriter: group sizes {sizes}", span=inst.span)
    rw.permit()
    b = Builder(rw)
    if ragged in a.lhs_batch_dims:
        return _ragged_batch(b, inst).inst
    return (_ragged_contracting if ragged in a.lhs_contracting_dims else _ragged_rows)(b, inst).inst


def _dot_attrs(inst: Instruction) -> ops.DotAttrs:
    a = inst.attrs
    return ops.DotAttrs(
        a.lhs_batch_dims, a.lhs_contracting_dims, a.rhs_batch_dims, a.rhs_contracting_dims, a.operand_precision
    )


def _bounds(b: Builder, inst: Instruction) -> tuple[Val, Val]:
    """(starts, ends) of the groups, of the shape of the sizes."""
    sizes = signed(b.val(inst.operands[2]))
    rank, count = len(sizes.dims), sizes.dims[-1]
    dims = (*sizes.dims, count)
    upto = b.iota(sizes.et, dims, rank).le(b.iota(sizes.et, dims, rank - 1))
    spread = sizes.broadcast(dims, [*range(rank - 1), rank])
    ends = b.reduce(b.select(upto, spread, 0), 0, [rank])
    return ends - sizes, ends


def _total(ends: Val) -> Val:
    """The end of the last group."""
    last = len(ends.dims) - 1
    return ends.slice_dim(last, ends.dims[-1] - 1, ends.dims[-1]).reshape(*ends.dims[:-1])


def _ragged_batch(b: Builder, inst: Instruction) -> Val:
    """A plain dot; batches past the last group give 0."""
    out = b.apply(ops.DOT, *b.vals(inst.operands[:2]), attrs=_dot_attrs(inst), shape=inst.shape.without_layout())
    _, ends = _bounds(b, inst)
    at = inst.attrs.lhs_batch_dims.index(inst.attrs.lhs_ragged_dims[0])
    return b.select(b.iota(ends.et, out.dims, at).lt(_total(ends)), out, 0)


def _inside(b: Builder, bounds: tuple[Val, Val], dims: tuple[int, ...], element: int, places: list[int]) -> Val:
    """pred[dims]: starts <= position along `element` < ends; the bounds' dimensions lie at `places`."""
    starts, ends = (v.broadcast(dims, places) for v in bounds)
    position = b.iota(starts.et, dims, element)
    return position.ge(starts) & position.lt(ends)


def _ragged_rows(b: Builder, inst: Instruction) -> Val:
    """Every row meets every group; its own group's result is kept."""
    a = inst.attrs
    x, y = b.vals(inst.operands[:2])
    batch = len(a.lhs_batch_dims)
    free_x = [d for d in range(len(x.dims)) if d not in a.lhs_batch_dims and d not in a.lhs_contracting_dims]
    free_y = [d for d in range(len(y.dims)) if d not in a.rhs_batch_dims and d not in a.rhs_contracting_dims]
    row = batch + free_x.index(a.lhs_ragged_dims[0])
    group = batch + len(free_x) + free_y.index(a.rhs_group_dims[0])
    dims = (*(x.dims[d] for d in (*a.lhs_batch_dims, *free_x)), *(y.dims[d] for d in free_y))
    every = b.apply(ops.DOT, x, y, attrs=_dot_attrs(inst), shape=inst.shape.with_dims(dims))
    bounds = _bounds(b, inst)
    each_batch = list(range(batch)) if len(bounds[0].dims) > 1 else []
    # Adding -0 leaves every float alone, its sign too.
    neutral = -0.0 if every.et.is_float else complex(-0.0, -0.0) if every.et.is_complex else 0
    kept = b.select(_inside(b, bounds, dims, row, [*each_batch, group]), every, neutral)
    found = b.reduce(kept, neutral, [group])
    total = _total(bounds[1]).broadcast(found.dims, each_batch)
    return b.select(b.iota(total.et, found.dims, row).lt(total), found, 0)


def _ragged_contracting(b: Builder, inst: Instruction) -> Val:
    """A leading group dimension: each group sums its own part, the rest being zero on both sides."""
    a = inst.attrs
    bounds = _bounds(b, inst)
    count = bounds[0].dims[-1]
    at = a.lhs_contracting_dims.index(a.lhs_ragged_dims[0])

    def grouped(x: Val, contracting: tuple[int, ...], batch: tuple[int, ...]) -> Val:
        dims = (count, *x.dims)
        each_batch = [d + 1 for d in batch] if len(bounds[0].dims) > 1 else []
        own = _inside(b, bounds, dims, contracting[at] + 1, [0] if not each_batch else [*each_batch, 0])
        return b.select(own, x.broadcast(dims, range(1, len(dims))), 0)

    x, y = b.vals(inst.operands[:2])
    x = grouped(x, a.lhs_contracting_dims, a.lhs_batch_dims)
    y = grouped(y, a.rhs_contracting_dims, a.rhs_batch_dims)

    def moved(dims: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(d + 1 for d in dims)

    attrs = ops.DotAttrs(
        (0, *moved(a.lhs_batch_dims)),
        moved(a.lhs_contracting_dims),
        (0, *moved(a.rhs_batch_dims)),
        moved(a.rhs_contracting_dims),
        a.operand_precision,
    )
    return b.apply(ops.DOT, x, y, attrs=attrs, shape=inst.shape.without_layout())
