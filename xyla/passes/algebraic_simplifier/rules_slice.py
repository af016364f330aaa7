"""Slices, dynamic slices and dynamic updates. Dynamic starts clamp: each one for itself, constant ones too."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.hlo import ops
from xyla.hlo.attr_types import PaddingDim, SliceDim
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.passes.algebraic_simplifier.common import (
    broadcast,
    concatenate,
    convert,
    integer,
    is_constant,
    kept,
    logical,
    pad,
    reshape,
    scalar_splat,
    single_user,
    slice_of,
    squeezed,
    transpose,
    when,
)
from xyla.passmgr.rules import Rewrite, rule_table


def _whole(size: int) -> SliceDim:
    return SliceDim(0, size)


# -- slice --------------------------------------------------------------------------------------------------------


def slice_all(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """slice(x) = x, where all is taken."""
    x = inst.operands[0]
    whole = all(
        s.start == 0 and s.stride == 1 and s.limit == d for s, d in zip(inst.attrs.slice, x.shape.dims, strict=True)
    )
    return x if whole else None


def slice_slice(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """slice(slice(x)) = slice(x), the ranges composed."""
    x = inst.operands[0]
    if x.op is not ops.SLICE or 0 in inst.shape.dims:
        return None
    ranges = [_composed(a, b) for a, b in zip(x.attrs.slice, inst.attrs.slice, strict=True)]
    return slice_of(rw, x.operands[0], ranges)


def _composed(inner: SliceDim, outer: SliceDim) -> SliceDim:
    stride = inner.stride * outer.stride
    start = inner.start + outer.start * inner.stride
    count = -(-(outer.limit - outer.start) // outer.stride)
    return SliceDim(start, start + (count - 1) * stride + 1, stride)


@logical
def slice_broadcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """slice(broadcast(x)) = broadcast(slice(x)), along x's own dimensions."""
    x = inst.operands[0]
    if x.op is not ops.BROADCAST:
        return None
    small = slice_of(rw, x.operands[0], [inst.attrs.slice[d] for d in x.attrs.dimensions])
    return broadcast(rw, small, x.attrs.dimensions, inst.shape)


def slice_pad(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """slice(pad(x, v)) = slice(x) inside x, broadcast(v) outside it; edges that are cut off are not padded."""
    x = inst.operands[0]
    if x.op is not ops.PAD or 0 in inst.shape.dims or any(p.low < 0 or p.high < 0 for p in x.attrs.padding):
        return None
    base = x.operands[0]
    inside = True
    ranges: list[SliceDim] = []
    for s, p, size in zip(inst.attrs.slice, x.attrs.padding, base.shape.dims, strict=True):
        extent = (size - 1) * (p.interior + 1) + 1 if size else 0
        last = s.start + (inst_count(s) - 1) * s.stride
        if last < p.low or s.start >= p.low + extent:
            return broadcast(rw, x.operands[1], (), inst.shape)
        inside = inside and p.interior == 0 and s.start >= p.low and last < p.low + size
        ranges.append(SliceDim(s.start - p.low, last + 1 - p.low, s.stride))
    return slice_of(rw, base, ranges) if inside else None


def inst_count(s: SliceDim) -> int:
    """How many elements a range takes."""
    return -(-(s.limit - s.start) // s.stride)


def slice_concatenate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """slice(concatenate(x, y, z)): of the operands it touches only, for stride 1."""
    x = inst.operands[0]
    if x.op is not ops.CONCATENATE or 0 in inst.shape.dims:
        return None
    dim = x.attrs.dimension
    cut = inst.attrs.slice[dim]
    touched: list[tuple[Instruction, int, int]] = []
    offset = 0
    for o in x.operands:
        size = o.shape.dims[dim]
        if offset < cut.limit and offset + size > cut.start and size:
            touched.append((o, max(cut.start - offset, 0), min(cut.limit - offset, size)))
        offset += size
    if len(touched) > 1 and (cut.stride != 1 or len(touched) == len(x.operands) or not single_user(x)):
        return None
    parts = [
        slice_of(rw, o, [SliceDim(a, b, cut.stride) if d == dim else s for d, s in enumerate(inst.attrs.slice)])
        for o, a, b in touched
    ]
    return concatenate(rw, parts, dim)


@logical
def slice_transpose(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """slice(transpose(x)) = transpose(slice(x)): moves fewer elements."""
    x = inst.operands[0]
    if x.op is not ops.TRANSPOSE or not single_user(x):
        return None
    perm = x.attrs.dimensions
    ranges = [SliceDim(0, 0)] * len(perm)
    for i, p in enumerate(perm):
        ranges[p] = inst.attrs.slice[i]
    return transpose(rw, slice_of(rw, x.operands[0], ranges), perm)


@logical
def slice_reshape(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """slice(reshape(x)) = reshape(slice(x)), where the reshape only adds or removes dimensions of size 1."""
    x = inst.operands[0]
    if x.op is not ops.RESHAPE or not single_user(x) or 0 in inst.shape.dims:
        return None
    base = x.operands[0]
    if squeezed(base.shape.dims) != squeezed(x.shape.dims) or base.shape.dynamic:
        return None
    cuts = iter([s for s, d in zip(inst.attrs.slice, x.shape.dims, strict=True) if d != 1])
    ranges = [_whole(1) if d == 1 else next(cuts) for d in base.shape.dims]
    return reshape(rw, slice_of(rw, base, ranges), inst.shape.dims)


@logical
def slice_reverse(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """slice(reverse(x)) = reverse(slice(x)), the ranges mirrored."""
    x = inst.operands[0]
    if x.op is not ops.REVERSE or not single_user(x) or 0 in inst.shape.dims:
        return None
    ranges = list(inst.attrs.slice)
    for d in x.attrs.dimensions:
        s, size = ranges[d], x.shape.dims[d]
        last = s.start + (inst_count(s) - 1) * s.stride
        ranges[d] = SliceDim(size - 1 - last, size - s.start, s.stride)
    return rw.add(ops.REVERSE, [slice_of(rw, x.operands[0], ranges)], x.attrs)


def slice_dot(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """slice(dot(x, y)) = dot(slice(x), slice(y)), where nothing else uses the dot: fewer products."""
    x = inst.operands[0]
    if x.op is not ops.DOT or not single_user(x) or x.attrs.sparsity or 0 in inst.shape.dims:
        return None
    a = x.attrs
    sides = [(x.operands[0], a.lhs_batch_dims, a.lhs_contracting_dims)]
    sides.append((x.operands[1], a.rhs_batch_dims, a.rhs_contracting_dims))
    cuts = list(inst.attrs.slice)
    position = len(a.lhs_batch_dims)
    sliced = []
    for operand, batch, contracting in sides:
        ranges = [_whole(d) for d in operand.shape.dims]
        for i, d in enumerate(batch):
            ranges[d] = cuts[i]
        for d in kept(operand.shape.rank, (*batch, *contracting)):
            ranges[d] = cuts[position]
            position += 1
        sliced.append(slice_of(rw, operand, ranges))
    return rw.add(ops.DOT, sliced, a, shape=inst.shape.without_layout())


# -- dynamic-slice ------------------------------------------------------------------------------------------------


def dynamic_slice_all(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dynamic-slice(x) = x, where all is taken (every start clamps to 0)."""
    x = inst.operands[0]
    return x if x.shape.same_dims(inst.shape) else None


def _starts(inst: Instruction, first: int) -> Sequence[Instruction] | None:
    """The scalar start operands; None for the old form with one vector of starts."""
    starts = inst.operands[first:]
    return starts if len(starts) == inst.operands[0].shape.rank else None


@when("!disable_dynamic_slice_to_slice_conversion")
def dynamic_slice_constant(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dynamic-slice(x, constants) = slice(x), the starts clamped."""
    x, starts = inst.operands[0], _starts(inst, 1)
    if starts is None or not starts:
        return None
    ranges = []
    for s, size, count in zip(starts, x.shape.dims, inst.shape.dims, strict=True):
        value = 0 if size == count else integer(s)
        if value is None:
            return None
        start = min(max(value, 0), size - count)
        ranges.append(SliceDim(start, start + count))
    return slice_of(rw, x, ranges)


def _dynamic_slice(rw: Rewrite, x: Instruction, starts: Sequence[Instruction], sizes: Sequence[int]) -> Instruction:
    if tuple(sizes) == x.shape.dims:
        return x
    return rw.add(ops.DYNAMIC_SLICE, [x, *starts], ops.DynamicSliceAttrs(tuple(sizes)))


@logical
def dynamic_slice_broadcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dynamic-slice(broadcast(x)) = broadcast(dynamic-slice(x)), along x's own dimensions."""
    x, starts = inst.operands[0], _starts(inst, 1)
    if x.op is not ops.BROADCAST or starts is None:
        return None
    dims = x.attrs.dimensions
    small = _dynamic_slice(rw, x.operands[0], [starts[d] for d in dims], [inst.shape.dims[d] for d in dims])
    return broadcast(rw, small, dims, inst.shape)


@logical
def dynamic_slice_transpose(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dynamic-slice(transpose(x)) = transpose(dynamic-slice(x))."""
    x, starts = inst.operands[0], _starts(inst, 1)
    if x.op is not ops.TRANSPOSE or starts is None or not single_user(x):
        return None
    perm = x.attrs.dimensions
    at = {p: i for i, p in enumerate(perm)}
    order = [at[d] for d in range(len(perm))]
    small = _dynamic_slice(rw, x.operands[0], [starts[i] for i in order], [inst.shape.dims[i] for i in order])
    return transpose(rw, small, perm)


@logical
def dynamic_slice_reshape(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dynamic-slice(reshape(x)) = reshape(dynamic-slice(x)), where only dimensions of size 1 come or go."""
    x, starts = inst.operands[0], _starts(inst, 1)
    if x.op is not ops.RESHAPE or starts is None or not starts or not single_user(x):
        return None
    base = x.operands[0]
    if squeezed(base.shape.dims) != squeezed(x.shape.dims) or base.shape.dynamic or 0 in inst.shape.dims:
        return None
    own = iter([(s, n) for s, n, d in zip(starts, inst.shape.dims, x.shape.dims, strict=True) if d != 1])
    zero = None
    new_starts: list[Instruction] = []
    sizes: list[int] = []
    for d in base.shape.dims:
        if d == 1:
            zero = zero or rw.scalar(0, starts[0].shape.element_type)
            new_starts.append(zero)
            sizes.append(1)
        else:
            start, size = next(own)
            new_starts.append(start)
            sizes.append(size)
    return reshape(rw, _dynamic_slice(rw, base, new_starts, sizes), inst.shape.dims)


def dynamic_slice_of_update(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dynamic-slice(update(x, u, i), i) = u, for the window of u's own size: both clamp alike."""
    x = inst.operands[0]
    if x.op is not ops.DYNAMIC_UPDATE_SLICE or not x.operands[1].shape.same_dims(inst.shape):
        return None
    return x.operands[1] if x.operands[2:] == inst.operands[1:] else None


def _clamped(rw: Rewrite, start: Instruction, last: int) -> Instruction:
    """The start as dynamic-slice takes it: within 0 .. last."""
    et = start.shape.element_type
    if last == 0:
        return rw.scalar(0, et)
    return rw.add(ops.CLAMP, [rw.scalar(0, et), start, rw.scalar(last, et)])


def _fits(start: Instruction, last: int) -> bool:
    et = start.shape.element_type
    return last < 1 << (et.bits - (1 if et.is_signed else 0))


def dynamic_slice_slice(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dynamic-slice(slice(x), i) = dynamic-slice(x, clamp(i) + start): each clamps for itself; stride 1."""
    x, starts = inst.operands[0], _starts(inst, 1)
    if x.op is not ops.SLICE or starts is None or any(s.stride != 1 for s in x.attrs.slice) or not single_user(x):
        return None
    base = x.operands[0]
    if not all(_fits(i, size) for i, size in zip(starts, base.shape.dims, strict=True)):
        return None
    moved = []
    for i, cut, size, count in zip(starts, x.attrs.slice, x.shape.dims, inst.shape.dims, strict=True):
        start = _clamped(rw, i, size - count)
        offset = rw.scalar(cut.start, i.shape.element_type)
        moved.append(rw.binary(ops.ADD, start, offset) if cut.start else start)
    return _dynamic_slice(rw, base, moved, inst.shape.dims)


def _of_dynamic_slice(
    rw: Rewrite, x: Instruction, offsets: Sequence[Instruction], sizes: Sequence[int]
) -> Instruction | None:
    """dynamic-slice(source, clamp(start) + offset) of `sizes`, for x = dynamic-slice(source, start) and offsets that
    keep within it."""
    source, starts = x.operands[0], _starts(x, 1)
    if starts is None:
        return None
    moved = []
    for start, offset, n, window in zip(starts, offsets, source.shape.dims, x.shape.dims, strict=True):
        moved.append(rw.binary(ops.ADD, _clamped(rw, start, n - window), offset))
    return _dynamic_slice(rw, source, moved, sizes)


def dynamic_slice_twice(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dynamic-slice(dynamic-slice(x, i), j) = dynamic-slice(x, clamp(i) + clamp(j)): each clamps for itself."""
    x, starts = inst.operands[0], _starts(inst, 1)
    if x.op is not ops.DYNAMIC_SLICE or starts is None or not starts or not single_user(x):
        return None
    inner, dims = _starts(x, 1), x.operands[0].shape.dims
    if inner is None or any(
        i.shape.element_type is not j.shape.element_type for i, j in zip(inner, starts, strict=True)
    ):
        return None
    if not all(_fits(i, n) for i, n in zip(starts, dims, strict=True)):
        return None
    last = [n - k for n, k in zip(x.shape.dims, inst.shape.dims, strict=True)]
    offsets = [_clamped(rw, j, m) for j, m in zip(starts, last, strict=True)]
    return _of_dynamic_slice(rw, x, offsets, inst.shape.dims)


def slice_of_dynamic_slice(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """slice(dynamic-slice(x, i), a:b) = dynamic-slice(x, clamp(i) + a), for stride 1: takes no more than is wanted."""
    x = inst.operands[0]
    if x.op is not ops.DYNAMIC_SLICE or not single_user(x) or any(s.stride != 1 for s in inst.attrs.slice):
        return None
    inner, dims = _starts(x, 1), x.operands[0].shape.dims
    if (
        inner is None
        or not inner
        or 0 in inst.shape.dims
        or not all(_fits(i, n) for i, n in zip(inner, dims, strict=True))
    ):
        return None
    offsets = [rw.scalar(s.start, i.shape.element_type) for s, i in zip(inst.attrs.slice, inner, strict=True)]
    return _of_dynamic_slice(rw, x, offsets, inst.shape.dims)


def dynamic_slice_iota(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dynamic-slice(iota, i) = clamp(i) + iota."""
    x, starts = inst.operands[0], _starts(inst, 1)
    if x.op is not ops.IOTA or starts is None or not inst.shape.element_type.is_integer:
        return None
    dim = x.attrs.iota_dimension
    size, count = x.shape.dims[dim], inst.shape.dims[dim]
    if count == size or not _fits(starts[dim], size) or size > 1 << (inst.shape.element_type.bits - 1):
        return None
    start = convert(rw, _clamped(rw, starts[dim], size - count), inst.shape.element_type)
    first = broadcast(rw, start, (), inst.shape)
    if count == 1:
        return first
    shape = Shape.array(inst.shape.element_type, inst.shape.dims)
    return rw.binary(ops.ADD, first, rw.add(ops.IOTA, (), x.attrs, shape=shape))


# -- dynamic-update-slice -----------------------------------------------------------------------------------------


def update_all(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """update(x, u) = u, where u covers x."""
    x, u = inst.operands[:2]
    return u if x.shape.same_dims(u.shape) else None


def update_nothing(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """update(x, u) = x, where u has no elements."""
    x, u = inst.operands[:2]
    return x if u.shape.num_elements == 0 else None


def update_with_own_slice(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """update(x, dynamic-slice(x, i), i) = x."""
    x, u = inst.operands[:2]
    same = u.op is ops.DYNAMIC_SLICE and u.operands[0] is x and u.operands[1:] == inst.operands[2:]
    return x if same else None


def update_twice(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """update(update(x, u, i), v, i) = update(x, v, i), for windows of one size."""
    x, v = inst.operands[:2]
    if x.op is not ops.DYNAMIC_UPDATE_SLICE or x.operands[2:] != inst.operands[2:]:
        return None
    return rw.like([x.operands[0], v, *inst.operands[2:]]) if x.operands[1].shape.same_dims(v.shape) else None


def update_of_splat(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """update(broadcast(c), u, constants) = pad(u, c), the starts clamped."""
    x, u = inst.operands[:2]
    scalar, starts = scalar_splat(x), _starts_of_update(inst)
    if scalar is None or not is_constant(x) or starts is None or u.shape.num_elements == 0:
        return None
    edges = []
    for s, size, count in zip(starts, x.shape.dims, u.shape.dims, strict=True):
        value = 0 if size == count else integer(s)
        if value is None:
            return None
        low = min(max(value, 0), size - count)
        edges.append(PaddingDim(low, size - count - low))
    return pad(rw, u, scalar, edges)


def _starts_of_update(inst: Instruction) -> Sequence[Instruction] | None:
    starts = inst.operands[2:]
    return starts if len(starts) == inst.shape.rank and starts else None


TABLE = rule_table(
    (
        [ops.SLICE],
        (
            slice_all, slice_slice, slice_broadcast, slice_pad, slice_concatenate, slice_transpose, slice_reshape,
            slice_reverse, slice_dot, slice_of_dynamic_slice,
        ),
    ),
    (
        [ops.DYNAMIC_SLICE],
        (
            dynamic_slice_all, dynamic_slice_constant, dynamic_slice_broadcast, dynamic_slice_transpose,
            dynamic_slice_reshape, dynamic_slice_of_update, dynamic_slice_slice, dynamic_slice_twice,
            dynamic_slice_iota,
        ),
    ),
    (
        [ops.DYNAMIC_UPDATE_SLICE],
        (update_all, update_nothing, update_with_own_slice, update_twice, update_of_splat),
    ),
)  # fmt: skip
