"""Rules of dot, ragged-dot, scaled-dot and convolution.

Source: XLA operation semantics, "DotGeneral", "RaggedDot", "Conv"; StableHLO convolution for group counts.
The element type is the more precise operand's: a caller that wants another accumulator type states the shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xyla.hlo.rules.common import (
    bare,
    braces,
    dims_of,
    flags,
    higher_precision,
    merge_dim,
    need_array,
    need_arrays,
    need_dims,
    wrong_operand,
)
from xyla.hlo.rules.reduction import check_window, windowed_dims
from xyla.hlo.shape import UNBOUNDED, Shape
from xyla.support.status import invalid

if TYPE_CHECKING:
    from xyla.hlo.attr_types import ConvDims, Sparsity
    from xyla.hlo.module import Computation
    from xyla.hlo.ops.compute import ConvolutionAttrs, DotAttrs, RaggedDotAttrs


def dot_shape(shapes: Sequence[Shape], attrs: DotAttrs, called: Sequence[Computation]) -> Shape:
    """dot: batch dimensions, then the free ones of lhs and of rhs."""
    lhs, rhs = need_array(shapes), need_array(shapes, 1)
    if len(shapes) != 2 + len(attrs.sparsity):
        raise invalid(f"{len(shapes)} operands, expected 2 and one for each sparsity")
    lb, lc, rb, rc = _dimension_numbers(attrs, lhs, rhs)
    if attrs.sparsity:
        lhs, rhs = _dense(lhs, rhs, attrs.sparsity)
    if lhs.dynamic or rhs.dynamic:
        _match_loosely(lhs, rhs, lb, rb, "batch")
        _match_loosely(lhs, rhs, lc, rc, "contracting")
    else:
        for left, right in (*zip(lb, rb, strict=True), *zip(lc, rc, strict=True)):
            if lhs.dims[left] != rhs.dims[right]:
                raise _mismatch(lhs, rhs, left, right, "batch" if left in lb else "contracting")
    used_l, used_r = {*lb, *lc}, {*rb, *rc}
    dims, dyn = dims_of(lhs, lb)
    left_dims, left_dyn = dims_of(lhs, (d for d in range(lhs.rank) if d not in used_l))
    right_dims, right_dyn = dims_of(rhs, (d for d in range(rhs.rank) if d not in used_r))
    et = higher_precision(lhs.element_type, rhs.element_type)
    return Shape.array(et, (*dims, *left_dims, *right_dims), None, (*dyn, *left_dyn, *right_dyn))


_Numbers = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _dimension_numbers(attrs: DotAttrs | RaggedDotAttrs, lhs: Shape, rhs: Shape) -> _Numbers:
    lb, lc = attrs.lhs_batch_dims, attrs.lhs_contracting_dims
    rb, rc = attrs.rhs_batch_dims, attrs.rhs_contracting_dims
    need_dims("lhs batch and contracting dims", (*lb, *lc), lhs.rank)
    need_dims("rhs batch and contracting dims", (*rb, *rc), rhs.rank)
    if len(lb) != len(rb):
        raise invalid(f"lhs_batch_dims {braces(lb)} and rhs_batch_dims {braces(rb)} differ in length")
    if len(lc) != len(rc):
        raise invalid(f"lhs_contracting_dims {braces(lc)} and rhs_contracting_dims {braces(rc)} differ in length")
    return lb, lc, rb, rc


def _mismatch(lhs: Shape, rhs: Shape, left: int, right: int, what: str) -> Exception:
    return invalid(
        f"{what} dimension {left} of operand 0, {bare(lhs)}, has size {lhs.dims[left]}; "
        f"dimension {right} of operand 1, {bare(rhs)}, has size {rhs.dims[right]}"
    )


def _match_loosely(lhs: Shape, rhs: Shape, left: tuple[int, ...], right: tuple[int, ...], what: str) -> None:
    for i, j in zip(left, right, strict=True):
        if merge_dim(lhs.dims[i], flags(lhs)[i], rhs.dims[j], flags(rhs)[j]) is None:
            raise _mismatch(lhs, rhs, i, j, what)


def _dense(lhs: Shape, rhs: Shape, sparsity: tuple[Sparsity, ...]) -> tuple[Shape, Shape]:
    """The operands with their sparse dimension at its dense size (n of every m elements are stored)."""
    sides = [lhs, rhs]
    for s in sparsity:
        shape = sides[s.index]
        need_dims("sparsity", (s.dimension,), shape.rank)
        dims = list(shape.dims)
        if not 0 < s.n <= s.m or dims[s.dimension] % s.n:
            raise invalid(f"sparsity {s.n}:{s.m} does not fit dimension {s.dimension} of {bare(shape)}")
        dims[s.dimension] = dims[s.dimension] // s.n * s.m
        sides[s.index] = shape.with_dims(dims)
    return sides[0], sides[1]


def scaled_dot_shape(shapes: Sequence[Shape], attrs: DotAttrs, called: Sequence[Computation]) -> Shape:
    """scaled-dot(lhs, rhs, lhs_scale, rhs_scale): dot's shape; a scale divides its operand's dims or is a scalar."""
    need_arrays(shapes)
    result = dot_shape(shapes[:2], attrs, called)
    for i in (0, 1):
        scale, operand = shapes[i + 2], shapes[i]
        if not scale.rank:
            continue
        if scale.rank != operand.rank or any(
            s <= 0 or d % s for s, d in zip(scale.dims, operand.dims, strict=True) if UNBOUNDED not in (s, d)
        ):
            raise wrong_operand(i + 2, scale, f"a scale whose dims divide those of {bare(operand)}")
    return result


def ragged_dot_shape(shapes: Sequence[Shape], attrs: RaggedDotAttrs, called: Sequence[Computation]) -> Shape:
    """ragged-dot(lhs, rhs, group_sizes): the ragged lhs dimension decides which of three results it is.

    Ragged free: batch, lhs free, rhs free (rhs group dimension dropped). Ragged contracting: a leading group
    dimension is added. Ragged batch: as dot.
    """
    lhs, rhs, groups = need_array(shapes), need_array(shapes, 1), need_array(shapes, 2)
    lb, lc, rb, rc = _dimension_numbers(attrs, lhs, rhs)
    if len(attrs.lhs_ragged_dims) != 1:
        raise invalid(f"lhs_ragged_dims {braces(attrs.lhs_ragged_dims)}, expected exactly one dimension")
    need_dims("lhs_ragged_dims", attrs.lhs_ragged_dims, lhs.rank)
    need_dims("rhs_group_dims", (*rb, *rc, *attrs.rhs_group_dims), rhs.rank)
    if not groups.rank or not groups.element_type.is_integer:
        raise wrong_operand(2, groups, "integer group sizes of rank 1 or more")
    _match_loosely(lhs, rhs, lb, rb, "batch")
    _match_loosely(lhs, rhs, lc, rc, "contracting")
    used_l, used_r = {*lb, *lc}, {*rb, *rc, *attrs.rhs_group_dims}
    ragged = attrs.lhs_ragged_dims[0]
    lead = [groups.dims[-1]] if ragged in lc else []
    if ragged not in used_l and len(attrs.rhs_group_dims) != 1:
        raise invalid(f"rhs_group_dims {braces(attrs.rhs_group_dims)}, expected exactly one dimension")
    if ragged in used_l and attrs.rhs_group_dims:
        raise invalid(f"rhs_group_dims {braces(attrs.rhs_group_dims)}, expected none")
    dims, dyn = dims_of(lhs, lb)
    left_dims, left_dyn = dims_of(lhs, (d for d in range(lhs.rank) if d not in used_l))
    right_dims, right_dyn = dims_of(rhs, (d for d in range(rhs.rank) if d not in used_r))
    et = higher_precision(lhs.element_type, rhs.element_type)
    flags_out = ([False] * len(lead)) + dyn + left_dyn + right_dyn
    return Shape.array(et, [*lead, *dims, *left_dims, *right_dims], None, flags_out)


def convolution_shape(shapes: Sequence[Shape], attrs: ConvolutionAttrs, called: Sequence[Computation]) -> Shape:
    """convolution: batch / batch groups, kernel output features, one element a window position."""
    lhs, rhs = need_array(shapes), need_array(shapes, 1)
    d = attrs.dim_labels
    _check_conv_dims(d, lhs, rhs)
    check_window(attrs.window, len(d.input_spatial))
    for i, k in enumerate(d.kernel_spatial):
        if attrs.window.dims[i].size != rhs.dims[k] and rhs.dims[k] != UNBOUNDED:
            raise invalid(
                f"window size of spatial dimension {i} is {attrs.window.dims[i].size}, the kernel's is {rhs.dims[k]}"
            )
    batch, features = _check_groups(attrs, lhs, rhs)
    spatial = windowed_dims(attrs.window, [lhs.dims[i] for i in d.input_spatial])
    dims, dyn = [0] * lhs.rank, [False] * lhs.rank
    dims[d.output_batch], dyn[d.output_batch] = batch, flags(lhs)[d.input_batch]
    dims[d.output_feature], dyn[d.output_feature] = features, flags(rhs)[d.kernel_output_feature]
    for out, source, size in zip(d.output_spatial, d.input_spatial, spatial, strict=True):
        dims[out], dyn[out] = size, flags(lhs)[source]
    et = higher_precision(lhs.element_type, rhs.element_type)
    return Shape.array(et, dims, None, dyn)


def _check_conv_dims(d: ConvDims, lhs: Shape, rhs: Shape) -> None:
    if lhs.rank != rhs.rank:
        raise wrong_operand(1, rhs, f"rank {lhs.rank}")
    spatial = (len(d.input_spatial), len(d.kernel_spatial), len(d.output_spatial))
    if len(set(spatial)) != 1 or lhs.rank != spatial[0] + 2:
        raise invalid(f"dim_labels name {spatial[0]} spatial dimensions, operand 0 is {bare(lhs)}")
    everything = list(range(lhs.rank))
    for what, dims in (
        ("input", (d.input_batch, d.input_feature, *d.input_spatial)),
        ("kernel", (d.kernel_input_feature, d.kernel_output_feature, *d.kernel_spatial)),
        ("output", (d.output_batch, d.output_feature, *d.output_spatial)),
    ):
        if sorted(dims) != everything:
            raise invalid(f"dim_labels do not name each {what} dimension once")


def _check_groups(attrs: ConvolutionAttrs, lhs: Shape, rhs: Shape) -> tuple[int, int]:
    """Checks the group counts; returns (output batch, output features)."""
    d, fg, bg = attrs.dim_labels, attrs.feature_group_count, attrs.batch_group_count
    if fg <= 0 or bg <= 0:
        raise invalid(f"feature_group_count {fg} and batch_group_count {bg} must be positive")
    if fg > 1 and bg > 1:
        raise invalid("feature_group_count and batch_group_count cannot both be greater than 1")
    batch, features = lhs.dims[d.input_batch], lhs.dims[d.input_feature]
    k_in, k_out = rhs.dims[d.kernel_input_feature], rhs.dims[d.kernel_output_feature]
    if UNBOUNDED not in (features, k_in) and features != k_in * fg:
        raise invalid(
            f"operand 0 has {features} input features, expected {k_in * fg} ({k_in} of the kernel times {fg} groups)"
        )
    if k_out != UNBOUNDED and k_out % max(fg, bg):
        raise invalid(f"{k_out} output features do not divide into {max(fg, bg)} groups")
    if batch != UNBOUNDED and batch % bg:
        raise invalid(f"input batch {batch} does not divide into {bg} groups")
    return (batch if batch == UNBOUNDED else batch // bg), k_out
