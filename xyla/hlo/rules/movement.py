"""Rules of broadcast, reshape, bitcast, transpose, reverse, slice, pad, concatenate and dimension sizes.

Source: XLA operation semantics, one section an op. Results carry no layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xyla.hlo.op_def import Attrs
from xyla.hlo.rules.common import (
    bare,
    braces,
    flags,
    merge_dim,
    need_array,
    need_arrays,
    need_dim,
    need_dims,
    need_integer_scalars,
    same_type_but_precision,
    wrong_operand,
)
from xyla.hlo.shape import UNBOUNDED, Shape
from xyla.support.dtypes import S32
from xyla.support.status import invalid

if TYPE_CHECKING:
    from xyla.hlo.module import Computation, Instruction
    from xyla.hlo.ops.movement import (
        DimensionAttrs,
        DimensionsAttrs,
        DynamicSliceAttrs,
        PadAttrs,
        SliceAttrs,
    )

_S32_SCALAR = Shape.array(S32, ())


def verify_broadcast(inst: Instruction) -> None:
    """broadcast: operand dimension i becomes result dimension dimensions[i], of the same size."""
    operand = need_array([inst.operands[0].shape])
    result, dims = inst.shape, inst.attrs.dimensions
    _same_type(operand, result)
    if len(dims) != operand.rank:
        raise invalid(f"dimensions {braces(dims)} names {len(dims)} dimensions of operand 0, {bare(operand)}")
    need_dims("dimensions", dims, result.rank)
    for i, d in enumerate(dims):
        if operand.dims[i] != result.dims[d] and UNBOUNDED not in (operand.dims[i], result.dims[d]):
            raise invalid(
                f"dimension {i} of operand 0 has size {operand.dims[i]} but becomes dimension {d} "
                f"of {bare(result)}, of size {result.dims[d]}"
            )


def _same_type(operand: Shape, result: Shape) -> None:
    if not result.is_array or not same_type_but_precision(operand.element_type, result.element_type):
        raise invalid(f"result is {bare(result)}, expected element type {operand.element_type}")


def verify_reshape(inst: Instruction) -> None:
    """reshape: the element counts agree (bounds count as sizes)."""
    operand = need_array([inst.operands[0].shape])
    _same_type(operand, inst.shape)
    _same_count(operand, inst.shape)
    dim = inst.attrs.inferred_dimension
    if dim != -1:
        need_dim("inferred_dimension", dim, inst.shape.rank)


def _same_count(operand: Shape, result: Shape) -> None:
    if UNBOUNDED in operand.dims or UNBOUNDED in result.dims:
        return
    if operand.num_elements != result.num_elements:
        raise invalid(
            f"result {bare(result)} has {result.num_elements} elements, operand 0 {bare(operand)} "
            f"has {operand.num_elements}"
        )


def verify_dynamic_reshape(inst: Instruction) -> None:
    """dynamic-reshape: one integer scalar size for each result dimension; bounds hold the same count."""
    shapes = [o.shape for o in inst.operands]
    operand = need_array(shapes)
    _same_type(operand, inst.shape)
    if len(shapes) != inst.shape.rank + 1:
        raise invalid(f"{len(shapes) - 1} sizes for the {inst.shape.rank} dimensions of {bare(inst.shape)}")
    need_integer_scalars(shapes, 1)
    _same_count(operand, inst.shape)


def verify_bitcast(inst: Instruction) -> None:
    """bitcast: an array stays an array of as many bytes."""
    operand, result = inst.operands[0].shape, inst.shape
    if operand.is_array != result.is_array:
        raise invalid(f"result is {bare(result)}, expected a bitcast of {bare(operand)}")
    if not result.is_array and bare(operand) is not bare(result):
        raise invalid(f"result is {bare(result)}, expected {bare(operand)}")
    if UNBOUNDED in result.dims or UNBOUNDED in operand.dims:
        return
    if any(s.layout is not None and (s.layout.tiles or s.layout.element_size_bits) for s in (result, operand)):
        return  # tiled or packed sizes are a target's affair
    if result.num_bytes != operand.num_bytes:
        raise invalid(
            f"result {bare(result)} has {result.num_bytes} bytes, operand 0 {bare(operand)} has {operand.num_bytes}"
        )


def transpose_shape(shapes: Sequence[Shape], attrs: DimensionsAttrs, called: Sequence[Computation]) -> Shape:
    """transpose: result dimension i is operand dimension dimensions[i]."""
    shape = need_array(shapes)
    perm = attrs.dimensions
    if len(perm) != shape.rank or set(perm) != set(range(shape.rank)):
        raise invalid(f"dimensions {braces(perm)} is not a permutation of the {shape.rank} dimensions of operand 0")
    dyn = tuple(shape.dynamic[p] for p in perm) if shape.dynamic else ()
    return Shape.array(shape.element_type, tuple(shape.dims[p] for p in perm), None, dyn)


def reverse_shape(shapes: Sequence[Shape], attrs: DimensionsAttrs, called: Sequence[Computation]) -> Shape:
    """reverse: the operand's shape."""
    shape = need_array(shapes)
    need_dims("dimensions", attrs.dimensions, shape.rank)
    return bare(shape)


def slice_shape(shapes: Sequence[Shape], attrs: SliceAttrs, called: Sequence[Computation]) -> Shape:
    """slice: ceil((limit - start) / stride) a dimension. A slice of size 1 is static."""
    shape = need_array(shapes)
    if len(attrs.slice) != shape.rank:
        raise invalid(f"slice has {len(attrs.slice)} ranges for the {shape.rank} dimensions of operand 0")
    dims = []
    for i, (s, size) in enumerate(zip(attrs.slice, shape.dims, strict=True)):
        if s.stride <= 0:
            raise invalid(f"slice of dimension {i} has stride {s.stride}, expected a positive one")
        if not 0 <= s.start <= s.limit or (s.limit > size and size != UNBOUNDED):
            raise invalid(f"slice [{s.start}:{s.limit}] of dimension {i} leaves its size {size}")
        dims.append((s.limit - s.start + s.stride - 1) // s.stride)
    return Shape.array(shape.element_type, dims, None, _unless_one(shape, dims))


def _unless_one(shape: Shape, dims: Sequence[int]) -> tuple[bool, ...]:
    """Dynamic flags carried over, but one element of a dynamic dimension is static."""
    return tuple(f and d != 1 for f, d in zip(shape.dynamic, dims, strict=True)) if shape.dynamic else ()


def dynamic_slice_shape(shapes: Sequence[Shape], attrs: DynamicSliceAttrs, called: Sequence[Computation]) -> Shape:
    """dynamic-slice: the slice sizes, each within the operand."""
    shape = need_array(shapes)
    sizes = attrs.sizes
    if len(sizes) != shape.rank:
        raise invalid(f"dynamic_slice_sizes {braces(sizes)} has {len(sizes)} sizes for rank {shape.rank}")
    _check_starts(shapes, 1, shape.rank)
    for i, (size, d) in enumerate(zip(sizes, shape.dims, strict=True)):
        if size < 0 or (size > d and d != UNBOUNDED):
            raise invalid(f"slice size {size} of dimension {i} does not fit {bare(shape)}")
    return Shape.array(shape.element_type, sizes, None, _unless_one(shape, sizes))


def _check_starts(shapes: Sequence[Shape], first: int, rank: int) -> None:
    """One integer scalar a dimension, or (in old texts) one integer vector of `rank` elements."""
    given = len(shapes) - first
    if given == 1 and shapes[first].rank == 1 and shapes[first].element_type.is_integer:
        if shapes[first].dims != (rank,):
            raise wrong_operand(first, shapes[first], f"{rank} start indices")
        return
    if given != rank:
        raise invalid(f"{given} start indices for {rank} dimensions")
    need_integer_scalars(shapes, first)


def dynamic_update_slice_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """dynamic-update-slice: the operand's shape, layout included (it is updated in place)."""
    shape, update = need_array(shapes), need_array(shapes, 1)
    if update.rank != shape.rank or not same_type_but_precision(shape.element_type, update.element_type):
        raise wrong_operand(1, update, f"an update of {bare(shape)}")
    _check_starts(shapes, 2, shape.rank)
    for i, (u, d) in enumerate(zip(update.dims, shape.dims, strict=True)):
        if u > d and d != UNBOUNDED:
            raise wrong_operand(1, update, f"at most {d} elements in dimension {i}")
    return shape


def pad_shape(shapes: Sequence[Shape], attrs: PadAttrs, called: Sequence[Computation]) -> Shape:
    """pad: low + size + (size - 1) * interior + high a dimension; negative edges crop."""
    shape, value = need_array(shapes), need_array(shapes, 1)
    if value.rank or not same_type_but_precision(shape.element_type, value.element_type):
        raise wrong_operand(1, value, f"{shape.element_type}[]")
    if len(attrs.padding) != shape.rank:
        raise invalid(f"padding has {len(attrs.padding)} dimensions for rank {shape.rank}")
    dims = []
    for i, (p, d) in enumerate(zip(attrs.padding, shape.dims, strict=True)):
        if p.interior < 0:
            raise invalid(f"interior padding of dimension {i} is {p.interior}, expected at least 0")
        size = UNBOUNDED if d == UNBOUNDED else p.low + p.high + d + max(d - 1, 0) * p.interior
        if size < 0 and d != UNBOUNDED:
            raise invalid(f"padding dimension {i} of {bare(shape)} leaves size {size}")
        dims.append(size)
    return Shape.array(shape.element_type, dims, None, shape.dynamic)


def concatenate_shape(shapes: Sequence[Shape], attrs: DimensionAttrs, called: Sequence[Computation]) -> Shape:
    """concatenate: sizes add up along the dimension and agree elsewhere."""
    first = need_array(shapes)
    need_arrays(shapes)
    axis = attrs.dimension
    need_dim("dimension", axis, first.rank)
    dims, dyn = list(first.dims), list(flags(first))
    et = first.element_type
    for i, shape in enumerate(shapes[1:], 1):
        if shape.rank != first.rank or not same_type_but_precision(shape.element_type, et):
            raise wrong_operand(i, shape, f"{bare(first)} outside dimension {axis}")
        if shape.dims != first.dims or shape.dynamic or first.dynamic:
            _merge_others(dims, dyn, i, shape, axis)
            dyn[axis] = dyn[axis] or flags(shape)[axis]
        add = shape.dims[axis]
        dims[axis] = UNBOUNDED if UNBOUNDED in (add, dims[axis]) else dims[axis] + add
    return Shape.array(et, dims, None, dyn)


def _merge_others(dims: list[int], dyn: list[bool], index: int, shape: Shape, axis: int) -> None:
    for d in range(shape.rank):
        if d == axis:
            continue
        pair = merge_dim(dims[d], dyn[d], shape.dims[d], flags(shape)[d])
        if pair is None:
            raise wrong_operand(index, shape, f"size {dims[d]} in dimension {d}")
        dims[d], dyn[d] = pair


def get_dimension_size_shape(shapes: Sequence[Shape], attrs: DimensionAttrs, called: Sequence[Computation]) -> Shape:
    """get-dimension-size: s32[]."""
    need_dim("dimension", attrs.dimension, need_array(shapes).rank)
    return _S32_SCALAR


def set_dimension_size_shape(shapes: Sequence[Shape], attrs: DimensionAttrs, called: Sequence[Computation]) -> Shape:
    """set-dimension-size: the dimension becomes dynamic, bounded by its old size."""
    shape = need_array(shapes)
    need_dim("dimension", attrs.dimension, shape.rank)
    if bare(shapes[1]) is not _S32_SCALAR:
        raise wrong_operand(1, shapes[1], "s32[]")
    dyn = [f or i == attrs.dimension for i, f in enumerate(flags(shape))]
    return Shape.array(shape.element_type, shape.dims, shape.layout, dyn)
