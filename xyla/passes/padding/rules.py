"""Padding rules of structural, element-wise, moving and reducing ops."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import Trait, all_ops
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Val
from xyla.passes.padding.neutral import neutral_element
from xyla.passes.padding.twin import PAD, Measured, Padded, Sizes, Twin, enter, inside, leave, masked
from xyla.support.dtypes import PRED, S32
from xyla.support.status import XylaError, invalid, unimplemented


def array(twin: Twin) -> Padded:
    """The twin of an array (or token) operand."""
    assert isinstance(twin, Padded)
    return twin


def array_sizes(sizes: Measured) -> Sizes:
    """The sizes of an array result."""
    assert not isinstance(sizes, list)
    return sizes


def refuse(inst: Instruction, why: str) -> XylaError:
    """The error for a dynamic dimension that is not handled."""
    return unimplemented(f"dynamic-padder: {inst.op.name}: {why}", span=inst.span)


def together(parts: Sequence[Val], sizes: Measured) -> Twin:
    """The twin of a result of one or several arrays."""
    if isinstance(sizes, list):
        return [Padded(p, array_sizes(s)) for p, s in zip(parts, sizes, strict=True)]
    return Padded(parts[0], sizes)


def again(b: Builder, inst: Instruction, operands: Sequence[Val]) -> Val:
    """The same op over static operands, of the static shape."""
    shape = inst.shape.static().without_layout()
    return b.apply(inst.op, *operands, attrs=inst.attrs, shape=shape, called=inst.called)


@PAD.rule(*(op for op in all_ops() if op.has(Trait.ELEMENTWISE)), ops.COPY, ops.OPT_BARRIER, ops.MAP)
def _elementwise(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """Position by position: what is past the size stays past it."""
    operands, joint = [array(t) for t in twins], array_sizes(sizes)
    values = [_spread(b, x, joint) for x in operands]
    return Padded(again(b, inst, values), joint)


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
def _tuple(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    return list(twins)


@PAD.rule(ops.GET_TUPLE_ELEMENT)
def _element(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    whole = twins[0]
    if isinstance(whole, list):
        index: int = inst.attrs.index
        return whole[index]
    return Padded(whole.value.element(inst.attrs.index), {})


@PAD.rule(ops.SET_DIMENSION_SIZE)
def _set_size(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """The size is clamped to the bound. Growing brings in what was past the old size: zeros, as where it is run."""
    x, d = array(twins[0]), inst.attrs.dimension
    return Padded(masked(b, x, [d], 0), array_sizes(sizes))


@PAD.rule(ops.GET_DIMENSION_SIZE)
def _get_size(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    if inst.shape.element_type is not S32:
        raise invalid(f"get-dimension-size: the size is s32[], not {inst.shape}", span=inst.span)
    return Padded(array(twins[0]).size(inst.attrs.dimension), {})


@PAD.rule(ops.BROADCAST)
def _broadcast(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    return Padded(again(b, inst, [array(twins[0]).value]), array_sizes(sizes))


@PAD.rule(ops.CUSTOM_CALL)
def _custom_call(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
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
def _transpose(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    return Padded(again(b, inst, [array(twins[0]).value]), array_sizes(sizes))


@PAD.rule(ops.REVERSE)
def _reverse(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
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
def _reduce(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """Past the sizes of reduced dimensions stands the combiner's neutral element, or else a mark that says so."""
    n = len(inst.operands) // 2
    operands, inits = [array(t) for t in twins[:n]], [array(t).value for t in twins[n:]]
    dims = inst.attrs.dimensions
    cut = sorted({d for d in dims for x in operands if d in x.sizes})
    values = [x.value for x in operands]
    neutral = neutral_element(inst.called[0]) if cut and n == 1 else None
    if neutral is not None:
        values = [masked(b, operands[0], cut, neutral)]
    if cut and neutral is None:
        parts = _marked_reduce(b, inst, operands, inits, cut)
    else:
        new = again(b, inst, [*values, *inits])
        parts = [new.element(i) for i in range(n)] if inst.shape.is_tuple else [new]
    return together(parts, sizes)


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
def _dot(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """Past the sizes of contracted dimensions both sides are zero."""
    x, y = (array(t) for t in twins)
    a = inst.attrs
    if any(
        (p in x.sizes) != (q in y.sizes) for p, q in zip(a.lhs_contracting_dims, a.rhs_contracting_dims, strict=True)
    ):
        raise refuse(inst, "only one of two contracted dimensions is dynamic")
    values = [masked(b, x, a.lhs_contracting_dims, 0), masked(b, y, a.rhs_contracting_dims, 0)]
    return Padded(again(b, inst, values), array_sizes(sizes))


@PAD.rule(ops.CONCATENATE)
def _concatenate(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """Along a dynamic dimension each part is written where the one before it ends."""
    parts = [array(t) for t in twins]
    dim = inst.attrs.dimension
    if not any(dim in x.sizes for x in parts):
        return Padded(again(b, inst, [x.value for x in parts]), array_sizes(sizes))
    shape = inst.shape.static()
    value = b.full(0, shape.element_type, shape.dims)
    end: Val | None = None
    for x, before in zip(parts, [None, *parts], strict=False):
        if before is not None:
            end = before.size(dim) if end is None else end + before.size(dim)
        starts: list[Val | int] = [end if end is not None and d == dim else 0 for d in range(shape.rank)]
        value = b.update(value, x.value, starts)
    return Padded(value, array_sizes(sizes))


@PAD.rule(ops.PAD)
def _pad(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """Past the sizes the padding value stands already; the size grows by the edges and the interior."""
    x, fill = array(twins[0]), array(twins[1]).value
    if any(inst.attrs.padding[d].low < 0 for d in x.sizes):
        raise refuse(inst, "negative low padding of a dynamic dimension")
    value = masked(b, x, list(x.sizes), fill)
    return Padded(again(b, inst, [value, fill]), array_sizes(sizes))


@PAD.rule(ops.SLICE)
def _slice(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """A dynamic dimension is taken whole, or becomes static."""
    return Padded(again(b, inst, [array(twins[0]).value]), array_sizes(sizes))


@PAD.rule(ops.SORT)
def _sort(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """What does not count is sorted to the end, by a flag that the comparator looks at first."""
    operands = [array(t) for t in twins]
    dim = inst.attrs.dimension
    ends = [x.sizes[dim] for x in operands if dim in x.sizes]
    values = [x.value for x in operands]
    called = inst.called
    if ends:
        values.append(b.iota(S32, values[0].dims, dim).ge(ends[0]))
        called = (_behind(b, inst),)
    new = b.apply(ops.SORT, *values, attrs=inst.attrs, called=called)
    parts = [new] if len(values) == 1 else [new.element(i) for i in range(len(operands))]
    return together(parts, sizes)


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
