"""Padding rules of reshapes that leave holes between the elements that count: these are gathered anew."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.analysis.reshapes import common_factors
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.passes.building import Builder, Val
from xyla.passes.padding.rules import again, array, array_sizes, refuse
from xyla.passes.padding.twin import PAD, Measured, Padded, Twin
from xyla.support.dtypes import S32


def repack(b: Builder, inst: Instruction, x: Padded, sizes: Sequence[Val | int]) -> Val:
    """x's counting elements in order, as the counting elements of `inst`'s dimensions, which have these sizes."""
    dims, count = inst.shape.dims, x.value.shape.num_elements
    if count >= 2**31 or inst.shape.num_elements >= 2**31:
        raise refuse(inst, "more than 2^31 elements have to be packed")
    if not count or not inst.shape.num_elements:
        return b.full(0, x.value.et, dims)
    rest = _position(b, dims, sizes)
    at: Val = b.full(0, S32, dims)
    stride = 1
    for d in reversed(range(len(x.value.dims))):
        size = b.maximum(x.size(d), 1)
        at = at + (rest % size) * stride
        rest = b.binary(ops.DIVIDE, rest, size)
        stride *= x.value.dims[d]
    attrs = ops.GatherAttrs(
        collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=len(dims), slice_sizes=(1,)
    )
    return b.apply(ops.GATHER, x.value.reshape(count), at, attrs=attrs)


def _position(b: Builder, dims: Sequence[int], sizes: Sequence[Val | int]) -> Val:
    """The row-major position of every element of `dims` among those that count. May wrap for those that do not."""
    at, stride = b.full(0, S32, dims), b.scalar(1, S32)
    for d in reversed(range(len(dims))):
        at = at + b.iota(S32, dims, d) * stride
        stride = stride * sizes[d]
    # A position past the last element is no matter, but it must not be negative for the remainders.
    return b.maximum(at, 0)


@PAD.rule(ops.RESHAPE)
def _reshape(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """Where a dynamic dimension is the major one of those joined or split nothing moves; else elements are packed."""
    x = array(twins[0])
    out = array_sizes(sizes)
    if _stays_together(inst, x):
        return Padded(again(b, inst, [x.value]), out)
    return Padded(repack(b, inst, x, [out.get(d, size) for d, size in enumerate(inst.shape.dims)]), out)


def _stays_together(inst: Instruction, x: Padded) -> bool:
    """Whether the elements that count are the first ones of each group of dimensions, before and after."""
    groups = common_factors(x.value.dims, inst.shape.dims)
    dynamic = [
        ([d for d in source if d in x.sizes], [d for d in target if inst.shape.is_dynamic_dim(d)])
        for source, target in groups
    ]
    if any(len(into) != 1 for found, into in dynamic if found or into):
        groups = [(list(range(len(x.value.dims))), list(range(inst.shape.rank)))]
        dynamic = [(sorted(x.sizes), [d for d in range(inst.shape.rank) if inst.shape.is_dynamic_dim(d)])]
    return all(
        found == _major(source, x.value.dims) and into == _major(target, inst.shape.dims)
        for (source, target), (found, into) in zip(groups, dynamic, strict=True)
        if found or into
    )


def _major(dims: Sequence[int], sizes: Sequence[int]) -> list[int | None]:
    """The first of these dimensions that is not of size one."""
    return [next((d for d in dims if sizes[d] != 1), None)]


@PAD.rule(ops.DYNAMIC_RESHAPE)
def _dynamic_reshape(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """dynamic-reshape(x, sizes...): the first counting elements of x, packed."""
    x = array(twins[0])
    out = array_sizes(sizes)
    return Padded(repack(b, inst, x, [out.get(d, size) for d, size in enumerate(inst.shape.dims)]), out)
