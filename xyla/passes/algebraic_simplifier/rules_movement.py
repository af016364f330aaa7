"""Broadcast, iota, pad and concatenate."""

from __future__ import annotations

from xyla.hlo import ops
from xyla.hlo.attr_types import PaddingDim, SliceDim
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.passes.algebraic_simplifier.common import (
    broadcast,
    is_constant,
    logical,
    pad,
    reshape,
    scalar_splat,
    single_user,
    slice_of,
    transpose,
    when,
)
from xyla.passmgr.rules import Rewrite, rule_table, splat_value

# -- broadcast ----------------------------------------------------------------------------------------------------


def broadcast_same(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """broadcast(x) = x, where nothing is added."""
    x = inst.operands[0]
    return x if x.shape.same_dims(inst.shape) and inst.attrs.dimensions == tuple(range(inst.shape.rank)) else None


def broadcast_broadcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """broadcast(broadcast(x)) = broadcast(x), the dimensions composed."""
    x = inst.operands[0]
    if x.op is not ops.BROADCAST:
        return None
    return broadcast(rw, x.operands[0], [inst.attrs.dimensions[d] for d in x.attrs.dimensions], inst.shape)


@logical
def broadcast_degenerate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """broadcast(x) = reshape(x) where only dimensions of size 1 are added (transposed first if the order changes)."""
    x = inst.operands[0]
    if x.shape.num_elements != inst.shape.num_elements or x.shape.num_elements == 0:
        return None
    dims = inst.attrs.dimensions
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    return reshape(rw, transpose(rw, x, order), inst.shape.dims)


@logical
@when("enable_broadcast_degenerate_dimension")
def broadcast_ones(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """broadcast(x) = broadcast(reshape(x)), x's dimensions of size 1 dropped."""
    x = inst.operands[0]
    if 1 not in x.shape.dims:
        return None
    own = [i for i, d in enumerate(x.shape.dims) if d != 1]
    small = reshape(rw, x, [x.shape.dims[i] for i in own])
    return broadcast(rw, small, [inst.attrs.dimensions[i] for i in own], inst.shape)


def broadcast_iota(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """broadcast(iota) = iota, along the dimension it becomes."""
    x = inst.operands[0]
    if x.op is not ops.IOTA:
        return None
    dim = inst.attrs.dimensions[x.attrs.iota_dimension]
    return rw.add(ops.IOTA, (), ops.IotaAttrs(dim), shape=Shape.array(inst.shape.element_type, inst.shape.dims))


def iota_of_one(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """iota along a dimension of size 1 (or 0) = 0."""
    if inst.shape.dims[inst.attrs.iota_dimension] > 1:
        return None
    return rw.splat(0, inst.shape)


# -- pad ----------------------------------------------------------------------------------------------------------


def pad_nothing(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """pad(x) = x, where nothing is added or removed."""
    same = all(p.low == 0 and p.high == 0 and (p.interior == 0 or d <= 1) for p, d in _padded(inst))
    return inst.operands[0] if same else None


def _padded(inst: Instruction) -> list[tuple[PaddingDim, int]]:
    return list(zip(inst.attrs.padding, inst.operands[0].shape.dims, strict=True))


def pad_empty(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """pad(x, v) = broadcast(v), where x has no elements."""
    if inst.operands[0].shape.num_elements:
        return None
    return broadcast(rw, inst.operands[1], (), inst.shape)


def pad_same_value(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """pad(broadcast(v), v) = broadcast(v)."""
    x, v = inst.operands
    scalar = scalar_splat(x)
    return broadcast(rw, v, (), inst.shape) if scalar is not None and _same_value(scalar, v) else None


def pad_pad(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """pad(pad(x, v), v) = pad(x, v), the edges added up; none of them crops."""
    x, v = inst.operands
    if x.op is not ops.PAD or not _same_value(x.operands[1], v) or any(p.interior for p in inst.attrs.padding):
        return None
    pairs = list(zip(x.attrs.padding, inst.attrs.padding, strict=True))
    if any(min(p.low, p.high, q.low, q.high) < 0 for p, q in pairs):
        return None
    return pad(rw, x.operands[0], v, [PaddingDim(p.low + q.low, p.high + q.high, p.interior) for p, q in pairs])


def _same_value(a: Instruction, b: Instruction) -> bool:
    """Whether two scalars are one, or equal constants (bit for bit)."""
    if a is b:
        return True
    x, y = splat_value(a), splat_value(b)
    return x is not None and y is not None and x.tobytes() == y.tobytes()


@logical
def pad_broadcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """pad(broadcast(x), v) = broadcast(pad(broadcast(x), v)), without the unpadded dimensions that x lacks."""
    x, v = inst.operands
    if x.op is not ops.BROADCAST:
        return None
    own = set(x.attrs.dimensions)
    keep = [d for d, p in enumerate(inst.attrs.padding) if d in own or p != PaddingDim(0, 0, 0)]
    if len(keep) == inst.shape.rank or all(inst.shape.dims[d] == 1 for d in range(inst.shape.rank) if d not in keep):
        return None
    at = {d: i for i, d in enumerate(keep)}
    inner_shape = Shape.array(x.shape.element_type, [x.shape.dims[d] for d in keep])
    inner = broadcast(rw, x.operands[0], [at[d] for d in x.attrs.dimensions], inner_shape)
    padded = pad(rw, inner, v, [inst.attrs.padding[d] for d in keep])
    return broadcast(rw, padded, keep, inst.shape)


def pad_negative(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """pad with negative edges = pad, then slice."""
    x, v = inst.operands
    padding = inst.attrs.padding
    if all(p.low >= 0 and p.high >= 0 for p in padding):
        return None
    grown = pad(rw, x, v, [PaddingDim(max(p.low, 0), max(p.high, 0), p.interior) for p in padding])
    ranges = []
    for p, size in zip(padding, grown.shape.dims, strict=True):
        start = min(max(-p.low, 0), size)
        ranges.append(SliceDim(start, max(size + min(p.high, 0), start)))
    return slice_of(rw, grown, ranges)


# -- concatenate --------------------------------------------------------------------------------------------------


def concatenate_one(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """concatenate(x) = x."""
    return inst.operands[0] if len(inst.operands) == 1 else None


def concatenate_empty(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """Operands without elements are left out."""
    parts = [o for o in inst.operands if o.shape.num_elements]
    if len(parts) == len(inst.operands) or not parts:
        return None
    return parts[0] if len(parts) == 1 else rw.like(parts)


def concatenate_nested(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """concatenate(concatenate(x, y), z) = concatenate(x, y, z), where the inner one has no other use."""
    if _absorbed(inst) and next(iter(inst.users)).attrs == inst.attrs:
        return None  # flattened from the outermost one, so that long chains cost no more than their length
    parts: list[Instruction] = []
    stack = list(inst.operands[::-1])
    while stack:
        o = stack.pop()
        if o.op is ops.CONCATENATE and o.attrs == inst.attrs and _absorbed(o):
            stack.extend(o.operands[::-1])
        else:
            parts.append(o)
    return rw.like(parts) if len(parts) > len(inst.operands) else None


def _absorbed(inst: Instruction) -> bool:
    """Whether its only user is a concatenate that takes it once."""
    return single_user(inst) and next(iter(inst.users)).op is ops.CONCATENATE


def concatenate_slices(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """concatenate(slice(x, a:b), slice(x, b:c)) = slice(x, a:c)."""
    dim = inst.attrs.dimension
    parts: list[tuple[Instruction, list[SliceDim] | None]] = []
    merged = False
    for o in inst.operands:
        ranges = list(o.attrs.slice) if o.op is ops.SLICE else None
        if ranges is not None and parts and _continues(parts[-1], o, ranges, dim):
            last = parts[-1][1]
            assert last is not None
            last[dim] = SliceDim(last[dim].start, ranges[dim].limit)
            merged = True
        else:
            parts.append((o, ranges))
    if not merged:
        return None
    made = [slice_of(rw, o.operands[0], r) if r is not None and r != list(o.attrs.slice) else o for o, r in parts]
    return made[0] if len(made) == 1 else rw.like(made)


def _continues(
    last: tuple[Instruction, list[SliceDim] | None], o: Instruction, ranges: list[SliceDim], dim: int
) -> bool:
    before, taken = last
    if taken is None or before.operands[0] is not o.operands[0] or taken[dim].limit != ranges[dim].start:
        return False
    if taken[dim].stride != 1 or ranges[dim].stride != 1:
        return False
    return all(a == b for d, (a, b) in enumerate(zip(taken, ranges, strict=True)) if d != dim)


@logical
def concatenate_repeated(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """concatenate(x, x, ...) = broadcast(x), where x has size 1 along the dimension."""
    x, dim = inst.operands[0], inst.attrs.dimension
    if len(inst.operands) < 2 or x.shape.dims[dim] != 1 or any(o is not x for o in inst.operands):
        return None
    own = [d for d in range(x.shape.rank) if d != dim]
    return broadcast(rw, reshape(rw, x, [x.shape.dims[d] for d in own]), own, inst.shape)


def concatenate_splats(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """concatenate(broadcast(s), broadcast(s)) = broadcast(s)."""
    scalars = [scalar_splat(o) for o in inst.operands]
    first = scalars[0]
    if first is None or any(s is not first for s in scalars) or len(scalars) < 2:
        return None
    return broadcast(rw, first, (), inst.shape)


def concatenate_pad(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """concatenate(x, broadcast(s)) = pad(x, s), on either side, for a constant s."""
    if len(inst.operands) != 2:
        return None
    dim = inst.attrs.dimension
    for i, (x, filler) in enumerate((inst.operands, inst.operands[::-1])):
        scalar = scalar_splat(filler)
        if scalar is None or not is_constant(filler) or is_constant(x):
            continue
        size = filler.shape.dims[dim]
        edge = PaddingDim(0, size) if i == 0 else PaddingDim(size, 0)
        return pad(rw, x, scalar, [edge if d == dim else PaddingDim(0, 0) for d in range(inst.shape.rank)])
    return None


TABLE = rule_table(
    (
        [ops.BROADCAST],
        (
            broadcast_same, broadcast_broadcast, broadcast_degenerate, broadcast_ones, broadcast_iota,
        ),
    ),
    ([ops.IOTA], (iota_of_one,)),
    ([ops.PAD], (pad_nothing, pad_empty, pad_negative, pad_same_value, pad_pad, pad_broadcast)),
    (
        [ops.CONCATENATE],
        (
            concatenate_one, concatenate_empty, concatenate_nested, concatenate_slices, concatenate_repeated,
            concatenate_splats, concatenate_pad,
        ),
    ),
)  # fmt: skip
