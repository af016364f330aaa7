"""Padding rules of structural, element-wise, moving and reducing ops."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import Trait, all_ops
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Val
from xyla.passes.padding.neutral import neutral_element
from xyla.passes.padding.twin import PAD, Padded, Sizes, Twin, enter, inside, leave, masked
from xyla.passmgr.rules import splat_value
from xyla.support.dtypes import PRED, S32
from xyla.support.status import XylaError, invalid, unimplemented


def array(twin: Twin) -> Padded:
    """The twin of an array (or token) operand."""
    assert isinstance(twin, Padded)
    return twin


def refuse(inst: Instruction, why: str) -> XylaError:
    """The error for a dynamic dimension that is not handled."""
    return unimplemented(f"dynamic-padder: {inst.op.name}: {why}", span=inst.span)


def again(b: Builder, inst: Instruction, operands: Sequence[Val]) -> Val:
    """The same op over static operands, of the static shape."""
    shape = inst.shape.static().without_layout()
    return b.apply(inst.op, *operands, attrs=inst.attrs, shape=shape, called=inst.called)


@PAD.rule(*(op for op in all_ops() if op.has(Trait.ELEMENTWISE)), ops.COPY, ops.OPT_BARRIER, ops.MAP)
def _elementwise(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """Position by position: what is past the size stays past it."""
    if not all(isinstance(t, Padded) for t in twins):
        raise refuse(inst, "a tuple with dynamic dimensions")
    operands = [array(t) for t in twins]
    sizes = {d: _joint_size(b, [x.sizes[d] for x in operands if d in x.sizes]) for d in _dynamic_dims(operands)}
    values = [_spread(b, x, sizes) for x in operands]
    return Padded(again(b, inst, values), sizes)


def _dynamic_dims(operands: Sequence[Padded]) -> list[int]:
    return sorted({d for x in operands for d in x.sizes})


def _joint_size(b: Builder, sizes: Sequence[Val]) -> Val:
    """The size of an element-wise result: operands of size one are broadcast, the others agree."""
    found = sizes[0]
    for other in sizes[1:]:
        if other.inst is not found.inst:
            found = b.select(found.eq(1), other, found)
    return found


def _spread(b: Builder, x: Padded, sizes: Sizes) -> Val:
    """x with its first position repeated along dimensions where it alone has size one."""
    value = x.value
    for d, size in x.sizes.items():
        if sizes[d].inst is not size.inst:
            places = [i for i in range(len(value.dims)) if i != d]
            first = value.slice_dim(d, 0, 1).reshape(*(value.dims[i] for i in places))
            value = b.select(size.eq(1), first.broadcast(value.dims, places), value)
    return value


@PAD.rule(ops.TUPLE)
def _tuple(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    return list(twins)


@PAD.rule(ops.GET_TUPLE_ELEMENT)
def _element(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    whole = twins[0]
    if isinstance(whole, list):
        index: int = inst.attrs.index
        return whole[index]
    return Padded(whole.value.element(inst.attrs.index), {})


@PAD.rule(ops.SET_DIMENSION_SIZE)
def _set_size(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """The size is clamped to the bound. Growing brings in what was past the old size: zeros, as where it is run."""
    x, size = array(twins[0]), array(twins[1]).value
    d = inst.attrs.dimension
    value = masked(b, x, [d], 0)
    if splat_value(size.inst) == x.value.dims[d]:
        return Padded(value, {i: s for i, s in x.sizes.items() if i != d})
    bound = b.minimum(b.maximum(size, 0), x.value.dims[d])
    return Padded(value, {**x.sizes, d: bound})


@PAD.rule(ops.GET_DIMENSION_SIZE)
def _get_size(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    if inst.shape.element_type is not S32:
        raise invalid(f"get-dimension-size: the size is s32[], not {inst.shape}", span=inst.span)
    return Padded(array(twins[0]).size(inst.attrs.dimension), {})


@PAD.rule(ops.BROADCAST)
def _broadcast(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    x = array(twins[0])
    sizes = {inst.attrs.dimensions[d]: s for d, s in x.sizes.items()}
    need_all(inst, sizes)
    return Padded(again(b, inst, [x.value]), sizes)


@PAD.rule(ops.CUSTOM_CALL)
def _custom_call(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """What a call from outside does with the padding is not known: it takes and gives dynamic arrays."""
    if inst.attrs.custom_call_target == "PadToStatic":
        x = array(twins[0])
        return [Padded(x.value, {}), *(Padded(x.size(d), {}) for d in range(len(x.value.dims)))]
    if "DynamicConvolution" in inst.attrs.custom_call_target or inst.shape.is_tuple:
        raise refuse(inst, f"target {inst.attrs.custom_call_target!r}, result {inst.shape}")
    operands = [leave(b, array(t)) for t in twins]
    call = b.apply(inst.op, *operands, attrs=inst.attrs, shape=inst.shape, called=inst.called)
    call.inst.backend_config = inst.backend_config
    return enter(b, call) if inst.shape.is_dynamic else Padded(call, {})


@PAD.rule(ops.TRANSPOSE)
def _transpose(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    x = array(twins[0])
    sizes = {i: x.sizes[d] for i, d in enumerate(inst.attrs.dimensions) if d in x.sizes}
    return Padded(again(b, inst, [x.value]), sizes)


@PAD.rule(ops.REVERSE)
def _reverse(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """Reversed whole, the padding comes first: what counts is slid to the front."""
    x = array(twins[0])
    value = again(b, inst, [x.value])
    moved = [d for d in inst.attrs.dimensions if d in x.sizes]
    if moved:
        rank = len(value.dims)
        value = b.pad(value, 0, [(0, value.dims[d] if d in moved else 0) for d in range(rank)])
        starts: list[Val | int] = [x.value.dims[d] - x.sizes[d] if d in moved else 0 for d in range(rank)]
        value = b.dynamic_slice(value, starts, x.value.dims)
    return Padded(value, x.sizes)


@PAD.rule(ops.REDUCE)
def _reduce(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """Past the sizes of reduced dimensions stands the combiner's neutral element, or else a mark that says so."""
    n = len(inst.operands) // 2
    operands, inits = [array(t) for t in twins[:n]], [array(t).value for t in twins[n:]]
    dims = inst.attrs.dimensions
    cut = sorted({d for d in dims for x in operands if d in x.sizes})
    kept = [d for d in range(inst.operands[0].shape.rank) if d not in dims]
    sizes = {i: x.sizes[d] for x in operands for i, d in enumerate(kept) if d in x.sizes}
    values = [x.value for x in operands]
    neutral = neutral_element(inst.called[0]) if cut and n == 1 else None
    if neutral is not None:
        values = [masked(b, operands[0], cut, neutral)]
    if cut and neutral is None:
        parts = _marked_reduce(b, inst, operands, inits, cut)
    else:
        new = again(b, inst, [*values, *inits])
        parts = [new.element(i) for i in range(n)] if inst.shape.is_tuple else [new]
    return [Padded(p, sizes) for p in parts] if inst.shape.is_tuple else Padded(parts[0], sizes)


def _marked_reduce(
    b: Builder, inst: Instruction, operands: Sequence[Padded], inits: Sequence[Val], cut: Sequence[int]
) -> list[Val]:
    """A reduction whose every element says whether it counts; combining with one that does not gives the other."""
    sizes = {d: s for x in reversed(operands) for d, s in x.sizes.items() if d in cut}
    counts = inside(b, Padded(operands[0].value, sizes), cut)
    assert counts is not None
    inner = b.inner(f"{inst.called[0].name}_marked")
    params = inst.called[0].parameters
    half = len(params) // 2
    flag = Shape.array(PRED, ())
    left = [inner.parameter(p.shape) for p in params[:half]]
    left_counts = inner.parameter(flag)
    right = [inner.parameter(p.shape) for p in params[half:]]
    right_counts = inner.parameter(flag)
    call = inner.apply(ops.CALL, *left, *right, attrs=ops.CallAttrs(), called=inst.called)
    joined = [call.element(i) for i in range(half)] if call.shape.is_tuple else [call]
    both = left_counts & right_counts
    results = [
        inner.select(both, j, inner.select(left_counts, x, y)) for j, x, y in zip(joined, left, right, strict=True)
    ]
    combiner = inner.finish(inner.tuple([*results, left_counts | right_counts]))
    values = [*(x.value for x in operands), counts, *inits, b.scalar(True, PRED)]
    new = b.apply(ops.REDUCE, *values, attrs=inst.attrs, called=[combiner])
    return [new.element(i) for i in range(half)]


@PAD.rule(ops.DOT)
def _dot(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """Past the sizes of contracted dimensions both sides are zero."""
    if len(twins) > 2:
        raise refuse(inst, "a sparse dot")
    x, y = (array(t) for t in twins)
    a = inst.attrs
    if any(
        (p in x.sizes) != (q in y.sizes) for p, q in zip(a.lhs_contracting_dims, a.rhs_contracting_dims, strict=True)
    ):
        raise refuse(inst, "only one of two contracted dimensions is dynamic")
    values = [masked(b, x, a.lhs_contracting_dims, 0), masked(b, y, a.rhs_contracting_dims, 0)]
    free_x = [d for d in range(len(x.value.dims)) if d not in a.lhs_batch_dims and d not in a.lhs_contracting_dims]
    free_y = [d for d in range(len(y.value.dims)) if d not in a.rhs_batch_dims and d not in a.rhs_contracting_dims]
    sizes: dict[int, Val] = {}
    for i, (p, q) in enumerate(zip(a.lhs_batch_dims, a.rhs_batch_dims, strict=True)):
        found = x.sizes.get(p) or y.sizes.get(q)
        if found is not None:
            sizes[i] = found
    lead = len(a.lhs_batch_dims)
    sizes |= {lead + i: x.sizes[d] for i, d in enumerate(free_x) if d in x.sizes}
    sizes |= {lead + len(free_x) + i: y.sizes[d] for i, d in enumerate(free_y) if d in y.sizes}
    return Padded(again(b, inst, values), sizes)


@PAD.rule(ops.CONCATENATE)
def _concatenate(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """Along a dynamic dimension each part is written where the one before it ends."""
    parts = [array(t) for t in twins]
    dim = inst.attrs.dimension
    sizes = {d: s for x in reversed(parts) for d, s in x.sizes.items() if d != dim}
    if not any(dim in x.sizes for x in parts):
        return Padded(again(b, inst, [x.value for x in parts]), sizes)
    shape = inst.shape.static()
    value, end = b.full(0, shape.element_type, shape.dims), b.scalar(0, S32)
    for x in parts:
        starts: list[Val | int] = [end if d == dim else 0 for d in range(shape.rank)]
        value = b.update(value, x.value, starts)
        end = end + x.size(dim)
    return Padded(value, {**sizes, dim: end})


@PAD.rule(ops.PAD)
def _pad(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """Past the sizes the padding value stands already; the size grows by the edges and the interior."""
    x, fill = array(twins[0]), array(twins[1]).value
    sizes: dict[int, Val] = {}
    for d, size in x.sizes.items():
        p = inst.attrs.padding[d]
        if p.low < 0:
            raise refuse(inst, "negative low padding of a dynamic dimension")
        spread = size + b.maximum(size - 1, 0) * p.interior if p.interior else size
        sizes[d] = b.maximum(spread + (p.low + p.high), 0)
    value = masked(b, x, list(x.sizes), fill)
    return Padded(again(b, inst, [value, fill]), sizes)


@PAD.rule(ops.SLICE)
def _slice(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """A dynamic dimension is taken whole, or becomes static."""
    x = array(twins[0])
    kept: dict[int, Val] = {}
    for d, size in x.sizes.items():
        s = inst.attrs.slice[d]
        if (s.start, s.limit, s.stride) == (0, x.value.dims[d], 1):
            kept[d] = size
        elif inst.shape.is_dynamic_dim(d):
            raise refuse(inst, f"dynamic dimension {d} is not taken whole")
    return Padded(again(b, inst, [x.value]), kept)


@PAD.rule(ops.SORT)
def _sort(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """What does not count is sorted to the end, by a flag that the comparator looks at first."""
    operands = [array(t) for t in twins]
    dim, sizes = inst.attrs.dimension, {d: s for x in reversed(operands) for d, s in x.sizes.items()}
    values = [x.value for x in operands]
    called = inst.called
    if dim in sizes:
        values.append(b.iota(S32, values[0].dims, dim).ge(sizes[dim]))
        called = (_behind(b, inst),)
    new = b.apply(ops.SORT, *values, attrs=inst.attrs, called=called)
    if len(values) == 1:
        return Padded(new, sizes)
    if not inst.shape.is_tuple:
        return Padded(new.element(0), sizes)
    return [Padded(new.element(i), sizes) for i in range(len(operands))]


def _behind(b: Builder, inst: Instruction) -> Computation:
    """The comparator with two more parameters: whether an element is padding."""
    inner = b.inner(f"{inst.called[0].name}_padded")
    own = [inner.parameter(p.shape) for p in inst.called[0].parameters]
    x, y = (inner.parameter(Shape.array(PRED, ())) for _ in range(2))
    plain = inner.apply(ops.CALL, *own, attrs=ops.CallAttrs(), called=inst.called)
    return inner.finish(inner.select(x.eq(y), plain, y))


for _op in (ops.CALL, ops.WHILE, ops.CONDITIONAL):
    PAD.unsupported(_op, "its interface is static already where a rewrite limit did not stop that")
PAD.unsupported(ops.SELECT_AND_SCATTER, "what a window selects would have to be known from the sizes")
PAD.unsupported(ops.IOTA, "no operand says its size")


def need_all(inst: Instruction, sizes: Sizes) -> None:
    """Every dynamic dimension of the result has a size."""
    missing = [d for d in range(inst.shape.rank) if inst.shape.is_dynamic_dim(d) and d not in sizes]
    if missing:
        raise refuse(inst, f"dimension {missing[0]} is dynamic, but no operand says its size")
