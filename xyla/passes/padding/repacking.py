"""Padding rules of reshapes that leave holes between the elements that count: these are gathered anew."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.passes.building import Builder, Val
from xyla.passes.padding.rules import again, array, need_all, refuse
from xyla.passes.padding.twin import PAD, Padded, Sizes, Twin
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
def _reshape(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """Where a dynamic dimension is the major one of those joined or split nothing moves; else elements are packed."""
    x = array(twins[0])
    groups = _common_factors(x.value.dims, inst.shape.dims)
    sizes, packed = _group_sizes(b, inst, x, groups)
    if sizes is None:
        everything = [(list(range(len(x.value.dims))), list(range(inst.shape.rank)))]
        sizes, packed = _group_sizes(b, inst, x, everything)
    if sizes is None:
        raise refuse(inst, f"{inst.operands[0].shape} to {inst.shape} leaves open which dynamic dimension is which")
    need_all(inst, sizes)
    if packed:
        return Padded(again(b, inst, [x.value]), sizes)
    return Padded(repack(b, inst, x, [sizes.get(d, size) for d, size in enumerate(inst.shape.dims)]), sizes)


def _group_sizes(
    b: Builder, inst: Instruction, x: Padded, groups: Sequence[tuple[list[int], list[int]]]
) -> tuple[Sizes | None, bool]:
    """The sizes of dynamic result dimensions, one a group, and whether the elements that count stay together.

    None where a group has several dynamic result dimensions, or none for its dynamic source dimensions.
    """
    sizes: dict[int, Val] = {}
    packed = True
    for source, target in groups:
        found = [d for d in source if d in x.sizes]
        into = [d for d in target if inst.shape.is_dynamic_dim(d)]
        if not found and not into:
            continue
        if len(into) != 1:
            return None, False
        others = math.prod(inst.shape.dims[d] for d in target if d != into[0])
        sizes[into[0]] = b.binary(ops.DIVIDE, _elements(b, x, source), max(others, 1))
        major = [next((d for d in dims if size[d] != 1), None) for dims, size in (
            (source, x.value.dims), (target, inst.shape.dims))]  # fmt: skip
        packed &= found == [major[0]] and into == [major[1]]
    return sizes, packed


def _elements(b: Builder, x: Padded, source: Sequence[int]) -> Val:
    """How many elements count in these dimensions."""
    found = b.scalar(math.prod(x.value.dims[d] for d in source if d not in x.sizes), S32)
    for d in source:
        if d in x.sizes:
            found = found * x.sizes[d]
    return found


def _common_factors(source: tuple[int, ...], target: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Groups of source and target dimensions of equal element counts, in order."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        left: list[int] = []
        right: list[int] = []
        p = q = 1
        while True:
            if p <= q and i < len(source) and (p < q or not left):
                left.append(i)
                p *= source[i]
                i += 1
            elif j < len(target) and (q < p or not right):
                right.append(j)
                q *= target[j]
                j += 1
            else:
                break
        groups.append((left, right))
    return groups


@PAD.rule(ops.DYNAMIC_RESHAPE)
def _dynamic_reshape(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """dynamic-reshape(x, sizes...): the first counting elements of x, packed."""
    x = array(twins[0])
    given = [array(t).value.convert(S32) for t in twins[1:]]
    if len(given) != inst.shape.rank or any(g.dims for g in given):
        raise refuse(inst, "one scalar size for each result dimension is expected")
    bounded = [b.minimum(b.maximum(g, 0), bound) for g, bound in zip(given, inst.shape.dims, strict=True)]
    sizes: list[Val | int] = [s if inst.shape.is_dynamic_dim(d) else inst.shape.dims[d] for d, s in enumerate(bounded)]
    value = repack(b, inst, x, sizes)
    return Padded(value, {d: s for d, s in enumerate(bounded) if inst.shape.is_dynamic_dim(d)})
