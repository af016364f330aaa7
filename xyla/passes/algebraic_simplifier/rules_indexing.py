"""Gather, scatter and sort."""

from __future__ import annotations

from dataclasses import replace

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection, PaddingDim, SliceDim
from xyla.hlo.module import Instruction
from xyla.passes.algebraic_simplifier.common import (
    broadcast,
    concatenate,
    either_zero,
    is_integral,
    kept,
    pad,
    reducer,
    reshape,
    single_user,
    slice_of,
    transpose,
    when,
)
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, rule_table

# A gather from so few elements is cheaper as selects.
FEW = 4

# -- gather -------------------------------------------------------------------------------------------------------


def gather_of_one(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """gather(x, i) = broadcast(x), where x has one element: every index clamps to it."""
    x = inst.operands[0]
    if x.shape.num_elements != 1 or inst.shape.num_elements == 0:
        return None
    return broadcast(rw, reshape(rw, x, ()), (), inst.shape)


def gather_of_splat(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """gather(broadcast(s), i) = broadcast(s)."""
    x = inst.operands[0]
    if x.op is not ops.BROADCAST or not x.operands[0].shape.is_scalar:
        return None
    return broadcast(rw, x.operands[0], (), inst.shape)


def gather_empty(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """gather(x, i) = 0, where nothing is taken or x is empty."""
    x = inst.operands[0]
    if inst.shape.num_elements and x.shape.num_elements:
        return None
    return rw.splat(0, inst.shape)


@when("enable_small_gather_to_select")
def gather_of_few(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """gather(x, i) = select(i <= 0, x[0], select(i <= 1, x[1], ...)), for a vector x of up to four: no loads.

    The first and the last comparison stand for the clamping of i.
    """
    x, indices = inst.operands
    a = inst.attrs
    if x.shape.rank != 1 or not 1 < x.shape.dims[0] <= FEW or a.collapsed_slice_dims != (0,) or a.offset_dims:
        return None
    if not a.start_index_map or inst.shape.num_elements == 0:
        return None
    index = reshape(rw, indices, inst.shape.dims)
    parts = [broadcast(rw, _element(rw, x, k), (), inst.shape) for k in range(x.shape.dims[0])]
    result = parts[-1]
    for k in reversed(range(len(parts) - 1)):
        attrs = ops.CompareAttrs(ComparisonDirection.LE)
        at = rw.add(ops.COMPARE, [index, rw.splat(k, index.shape)], attrs)
        result = rw.add(ops.SELECT, [at, parts[k], result])
    return result


def _element(rw: Rewrite, x: Instruction, k: int) -> Instruction:
    return reshape(rw, slice_of(rw, x, [SliceDim(k, k + 1)]), ())


def _window_dims(inst: Instruction) -> list[int]:
    """The operand dimensions that appear in the result, in the order of offset_dims."""
    a = inst.attrs
    return kept(inst.operands[0].shape.rank, (*a.collapsed_slice_dims, *a.operand_batching_dims))


def gather_of_pad(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """gather(pad(x, v), i) = pad(gather(x, i), v), along dimensions that are taken whole."""
    x = inst.operands[0]
    if x.op is not ops.PAD or not single_user(x):
        return None
    base, value = x.operands
    padding = x.attrs.padding
    window = _window_dims(inst)
    sizes = list(inst.attrs.slice_sizes)
    edges = [PaddingDim(0, 0)] * inst.shape.rank
    for d, p in enumerate(padding):
        if p == PaddingDim(0, 0, 0):
            continue
        if d not in window or d in inst.attrs.start_index_map or sizes[d] != x.shape.dims[d]:
            return None
        sizes[d] = base.shape.dims[d]
        edges[inst.attrs.offset_dims[window.index(d)]] = p
    attrs = replace(inst.attrs, slice_sizes=tuple(sizes))
    return pad(rw, rw.add(ops.GATHER, [base, inst.operands[1]], attrs), value, edges)


def gather_of_reshaped_pad(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """gather(reshape(pad(x, v)), i) = gather(pad(reshape(x), v), i), the padded dimension passing through whole."""
    view = inst.operands[0]
    if view.op is not ops.RESHAPE or not single_user(view) or view.operands[0].op is not ops.PAD:
        return None
    padded = view.operands[0]
    changed = [d for d, p in enumerate(padded.attrs.padding) if p != PaddingDim(0, 0, 0)]
    if not single_user(padded) or len(changed) != 1:
        return None
    d = changed[0]
    to = _same_place(padded.shape.dims, view.shape.dims, d)
    if to is None or to in inst.attrs.start_index_map or inst.attrs.slice_sizes[to] != view.shape.dims[to]:
        return None
    base = padded.operands[0]
    dims = list(view.shape.dims)
    dims[to] = base.shape.dims[d]
    edges = [padded.attrs.padding[d] if i == to else PaddingDim(0, 0) for i in range(len(dims))]
    outer = pad(rw, reshape(rw, base, dims), padded.operands[1], edges)
    return rw.like([outer, inst.operands[1]])


def _same_place(before: tuple[int, ...], after: tuple[int, ...], dim: int) -> int | None:
    """The dimension of `after` that a reshape makes of dimension `dim`, unchanged; None when it is split or merged."""
    major = 1
    for n in before[:dim]:
        major *= n
    product = 1
    for i, n in enumerate(after):
        if product == major and n == before[dim]:
            return i
        product *= n
    return None


# -- scatter ------------------------------------------------------------------------------------------------------


@when("fold_transpose_into_scatter")
def transpose_of_scatter(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """transpose(scatter(x, i, u)) = scatter(transpose(x), i, u), the dimension numbers mapped."""
    x = inst.operands[0]
    if x.op is not ops.SCATTER or not single_user(x) or len(x.operands) != 3:
        return None
    a, perm = x.attrs, inst.attrs.dimensions
    at = {p: i for i, p in enumerate(perm)}
    inserted = tuple(sorted(at[d] for d in a.inserted_window_dims))
    batching = tuple(at[d] for d in a.input_batching_dims)
    window = kept(len(perm), (*a.inserted_window_dims, *a.input_batching_dims))
    new_window = kept(len(perm), (*inserted, *batching))
    moved = [window.index(perm[d]) for d in new_window]
    update_perm = list(range(x.operands[2].shape.rank))
    for i, w in enumerate(a.update_window_dims):
        update_perm[w] = a.update_window_dims[moved[i]]
    attrs = replace(
        a,
        inserted_window_dims=inserted,
        input_batching_dims=batching,
        scatter_dims_to_operand_dims=tuple(at[d] for d in a.scatter_dims_to_operand_dims),
    )
    if list(batching) != sorted(batching):
        return None
    operands = [transpose(rw, x.operands[0], perm), x.operands[1], transpose(rw, x.operands[2], update_perm)]
    return rw.add(ops.SCATTER, operands, attrs, called=x.called, shape=inst.shape.without_layout())


def _zero_scatter(x: Instruction) -> bool:
    """Whether x is a sum scattered into zeros, used once."""
    if x.op is not ops.SCATTER or not single_user(x) or len(x.operands) != 3:
        return False
    return either_zero(x.operands[0]) and reducer(x.called[0]) is ops.ADD


def _joined(a: Instruction, b: Instruction, rw: Rewrite) -> Instruction | None:
    """One scatter of both updates, concatenated along a dimension of the indices that is neither vector nor batch."""
    if a.attrs != b.attrs or (a.called[0] is not b.called[0] and reducer(b.called[0]) is not ops.ADD):
        return None
    (i0, i1), (u0, u1) = (a.operands[1], b.operands[1]), (a.operands[2], b.operands[2])
    attrs = a.attrs
    if i0.shape.rank != i1.shape.rank or i0.shape.element_type is not i1.shape.element_type:
        return None
    free = [d for d in range(i0.shape.rank) if d != attrs.index_vector_dim]
    scatter_dims = kept(u0.shape.rank, attrs.update_window_dims)
    for position, d in enumerate(free):
        if d in attrs.scatter_indices_batching_dims:
            continue
        to = scatter_dims[position]
        if _differ_only(i0, i1, d) and _differ_only(u0, u1, to):
            operands = [a.operands[0], concatenate(rw, [i0, i1], d), concatenate(rw, [u0, u1], to)]
            merged = replace(attrs, indices_are_sorted=False, unique_indices=False)
            return rw.add(ops.SCATTER, operands, merged, called=a.called)
    return None


def _differ_only(a: Instruction, b: Instruction, dim: int) -> bool:
    return all(x == y for d, (x, y) in enumerate(zip(a.shape.dims, b.shape.dims, strict=True)) if d != dim)


@value_changing(Fp.DEFAULT, "updates of two scattered sums are added in another order")
def add_of_scatters(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """scatter-add(0, i, u) + scatter-add(0, j, v) = scatter-add(0, [i, j], [u, v])."""
    x, y = inst.operands
    if x is y or not _zero_scatter(x) or not _zero_scatter(y):
        return None
    return _joined(x, y, rw)


def _sum_with_scatter(inst: Instruction, rw: Rewrite) -> Instruction | None:
    for outer, inner in (inst.operands, inst.operands[::-1]):
        if not _zero_scatter(outer) or inner.op is not ops.ADD or not single_user(inner):
            continue
        for rest, other in (inner.operands, inner.operands[::-1]):
            if _zero_scatter(other) and other is not outer:
                joined = _joined(other, outer, rw)
                if joined is not None:
                    return rw.binary(ops.ADD, rest, joined)
    return None


def add_of_scatters_through_sum(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(x + scatter-add(0, i, u)) + scatter-add(0, j, v) = x + scatter-add(0, [i, j], [u, v]), for integers."""
    return _sum_with_scatter(inst, rw) if is_integral(inst) else None


@value_changing(Fp.FAST, "a sum with two scattered sums is reassociated, which overflows elsewhere")
def add_of_scatters_through_sum_fast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(x + scatter-add(0, i, u)) + scatter-add(0, j, v) = x + scatter-add(0, [i, j], [u, v])."""
    return _sum_with_scatter(inst, rw)


def scatter_nothing(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """scatter(x, i, u) = x, where there are no updates."""
    if len(inst.operands) != 3 or (inst.operands[2].shape.num_elements and inst.operands[0].shape.num_elements):
        return None
    return inst.operands[0]


# -- sort ---------------------------------------------------------------------------------------------------------


def sort_of_one(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """sort(x) = x, along a dimension of size 0 or 1."""
    dims = inst.operands[0].shape.dims
    d = inst.attrs.dimension % len(dims) if dims else 0
    if dims and dims[d] > 1 and inst.operands[0].shape.num_elements:
        return None
    return inst.operands[0] if inst.shape.is_array else rw.add(ops.TUPLE, inst.operands)


TABLE = rule_table(
    (
        [ops.GATHER],
        (gather_empty, gather_of_one, gather_of_splat, gather_of_few, gather_of_pad, gather_of_reshaped_pad),
    ),
    ([ops.SCATTER], (scatter_nothing,)),
    ([ops.TRANSPOSE], (transpose_of_scatter,)),
    ([ops.ADD], (add_of_scatters, add_of_scatters_through_sum, add_of_scatters_through_sum_fast)),
    ([ops.SORT], (sort_of_one,)),
)
