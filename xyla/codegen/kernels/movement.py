"""Element rules of the ops that move elements: each turns a position in its result into positions in its operands.

Spec: XLA operation semantics, one section an op (named in each rule).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xyla.codegen.elements_convert import convert
from xyla.codegen.elements_types import element_constant, register_type, wrap
from xyla.codegen.fused import EMIT, Emitter, Request, Rule, lanes_of, physical_strides
from xyla.codegen.index import SCALAR, ZERO, Index, Ix, number, reshape_components, row_major
from xyla.codegen.llvm import Cx, Val, Value
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.support import dtypes
from xyla.support.dtypes import ElementType
from xyla.support.status import unimplemented

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xyla.hlo.shape import Shape

Pred = Val | None


def at(shape: Shape, comps: Sequence[Ix]) -> Index:
    """A position by components."""
    return Index(shape.dims, tuple(comps))


@EMIT.rule(ops.CONSTANT)
def constant(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Value:
    """A splat is written inline; other literals are read from a buffer."""
    literal = inst.attrs.literal
    if literal.shape.num_elements and literal.is_splat:
        return element_constant(inst.shape.element_type, literal.first)
    raise unimplemented("an array constant inside a kernel that did not ask for it")


@EMIT.rule(ops.IOTA)
def iota(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Value:
    """The position along one dimension, as a number."""
    return index_value(em, em.comps(index)[inst.attrs.iota_dimension], inst.shape.element_type)


def index_value(em: Emitter, x: Ix, et: ElementType) -> Value:
    """An index component as an element of type `et`."""
    if x.const is not None:
        return element_constant(et, x.const)
    if x.is_uniform:
        return convert(em.b, dtypes.S64, et, em.m.scalar(x))
    vec = em.m.vector(x)
    return convert(em.b, dtypes.S32 if vec.ty == "i32" else dtypes.S64, et, vec)


@EMIT.rule(ops.COPY, ops.OPT_BARRIER)
def copy(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """The operand's element."""
    return (yield Request(inst.operands[0], index, pred))


@EMIT.rule(ops.GET_TUPLE_ELEMENT)
def get_tuple_element(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """One of the values of a tuple-shaped instruction; of a plain tuple only that one is computed."""
    operand = _behind(em, inst.operands[0])
    if operand.op is ops.TUPLE:
        return (yield Request(operand.operands[inst.attrs.index], index, pred))
    values = yield Request(operand, index, pred)
    return values[inst.attrs.index]


def _behind(em: Emitter, inst: Instruction) -> Instruction:
    """The instruction that makes a value which only passes through parameters, calls and tuples."""
    picks: list[int] = []
    while inst not in em.leaves:
        if inst.op is ops.FUSION or inst.op is ops.CALL:
            inst = _enter(em, inst)
        elif inst in em.bound:
            inst = em.bound[inst]
        elif inst.op is ops.GET_TUPLE_ELEMENT:
            picks.append(inst.attrs.index)
            inst = inst.operands[0]
        elif inst.op is ops.TUPLE and picks:
            inst = inst.operands[picks.pop()]
        else:
            break
    if picks:
        raise unimplemented(f"tuples inside a tuple made by {inst.op.name!r} in a fusion", span=inst.span)
    return inst


def _enter(em: Emitter, inst: Instruction) -> Instruction:
    """Binds a called computation's parameters to a call's operands; returns its root."""
    comp = inst.called[0]
    for p, o in zip(comp.parameters, inst.operands, strict=True):
        if em.bound.setdefault(p, o) is not o:
            raise unimplemented(f"a fusion that calls {comp.name!r} more than once", span=inst.span)
    return comp.root


@EMIT.rule(ops.FUSION, ops.CALL)
def nested(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """The called computation's root, its parameters standing for the operands."""
    return (yield Request(_enter(em, inst), index, pred))


@EMIT.rule(ops.PARAMETER)
def parameter(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """What a nested call passes."""
    if inst not in em.bound:
        raise unimplemented(f"parameter {inst.name!r} of a fusion, which holds no array", span=inst.span)
    return (yield Request(em.bound[inst], index, pred))


@EMIT.rule(ops.TUPLE)
def tuple_(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """All operands at one position."""
    values: list[Any] = []
    for o in inst.operands:
        values.append((yield Request(o, index, pred)))
    return tuple(values)


@EMIT.rule(ops.BROADCAST)
def broadcast(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """operand[index[dimensions[0]], index[dimensions[1]], ...]."""
    operand = inst.operands[0]
    if operand.shape.rank == 0:
        return (yield Request(operand, SCALAR, pred))
    dims = operand.shape.dims
    if dims == inst.shape.dims and inst.attrs.dimensions == tuple(range(len(dims))):
        return (yield Request(operand, index, pred))
    comps = em.comps(index)
    picked = [ZERO if n == 1 else comps[d] for n, d in zip(dims, inst.attrs.dimensions, strict=True)]
    return (yield Request(operand, at(operand.shape, picked), pred))


@EMIT.rule(ops.RESHAPE)
def reshape(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """Same row-major order, other dimensions."""
    operand = inst.operands[0]
    out, src = inst.shape, operand.shape
    if src.num_elements == 0:
        return element_constant(src.element_type, 0)
    if index.linear is not None and src.rank and is_row_major(out, index.strides):
        # Row-major order carries over whatever the operand's own layout is.
        return (yield Request(operand, Index(src.dims, None, index.linear, packed_strides(src.dims)), pred))
    comps = reshape_components(em.m, em.comps(index), out.dims, src.dims)
    return (yield Request(operand, at(src, comps), pred))


def is_row_major(shape: Shape, strides: Sequence[int]) -> bool:
    """Whether the strides are row-major, unit dimensions aside."""
    return tuple(strides) == packed_strides(shape.dims)


def packed_strides(dims: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, 0 for unit dimensions."""
    return tuple(0 if n == 1 else s for n, s in zip(dims, row_major(dims), strict=True))


@EMIT.rule(ops.BITCAST)
def bitcast(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """Same physical order, other dimensions, layout or element type of one width."""
    operand = inst.operands[0]
    out, src = inst.shape, operand.shape
    if out.element_type.itemsize != src.element_type.itemsize or out.num_elements != src.num_elements:
        raise unimplemented(f"bitcast from {src} to {out} inside a kernel", span=inst.span)
    if src.num_elements == 0:
        return element_constant(out.element_type, 0)
    value = yield Request(operand, bitcast_index(em, index, out, src), pred)
    return reinterpret(em, src.element_type, out.element_type, value)


def bitcast_index(em: Emitter, index: Index, out: Shape, src: Shape) -> Index:
    """The position in `src` of the element at physical position `index` in `out`."""
    if src.rank == 0:
        return SCALAR
    strides = physical_strides(src)
    if index.linear is not None and index.strides == physical_strides(out):
        return Index(src.dims, None, index.linear, strides)
    physical_out = _physical_order(out)
    physical_src = _physical_order(src)
    comps = em.comps(index)
    moved = reshape_components(
        em.m, [comps[d] for d in physical_out], [out.dims[d] for d in physical_out], [src.dims[d] for d in physical_src]
    )
    placed = [ZERO] * src.rank
    for d, c in zip(physical_src, moved, strict=True):
        placed[d] = c
    return at(src, placed)


def _physical_order(shape: Shape) -> list[int]:
    """Dimensions from major to minor."""
    if shape.layout is None:
        return list(range(shape.rank))
    return list(reversed(shape.layout.minor_to_major))


def reinterpret(em: Emitter, src: ElementType, dst: ElementType, value: Value) -> Value:
    """The bits of a value as another type of the same width."""
    if src is dst:
        return value
    if isinstance(value, Cx) or dst.is_complex or dtypes.PRED in (src, dst):
        raise unimplemented(f"bitcast between {src} and {dst} inside a kernel")
    return wrap(em.b, dst, em.b.bitcast(value, register_type(dst)))


@EMIT.rule(ops.TRANSPOSE)
def transpose(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """result[i] = operand[j] with j[dimensions[k]] = i[k]."""
    src, perm = inst.operands[0].shape, inst.attrs.dimensions
    if index.linear is not None:
        strides = physical_strides(src)
        if all(index.strides[k] == strides[d] for k, d in enumerate(perm)):
            return (yield Request(inst.operands[0], Index(src.dims, None, index.linear, strides), pred))
    comps = em.comps(index)
    moved = [ZERO] * src.rank
    for k, d in enumerate(perm):
        moved[d] = comps[k]
    return (yield Request(inst.operands[0], at(src, moved), pred))


@EMIT.rule(ops.SLICE)
def slice_(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """operand[start + stride*i]."""
    src = inst.operands[0].shape
    comps = [
        c if s.start == 0 and s.stride == 1 else em.m.add(em.m.mul(c, s.stride), s.start)
        for c, s in zip(em.comps(index), inst.attrs.slice, strict=True)
    ]
    return (yield Request(inst.operands[0], at(src, comps), pred))


@EMIT.rule(ops.REVERSE)
def reverse(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """operand[size-1-i] along the listed dimensions."""
    src, flipped = inst.operands[0].shape, inst.attrs.dimensions
    comps = [em.m.rsub(src.dims[d] - 1, c) if d in flipped else c for d, c in enumerate(em.comps(index))]
    return (yield Request(inst.operands[0], at(src, comps), pred))


def choose(em: Emitter, cond: Val, a: Value, b: Value) -> Value:
    """cond ? a : b on elements of any type; lane counts may differ."""
    if isinstance(a, Cx) and isinstance(b, Cx):
        return Cx(choose(em, cond, a.re, b.re), choose(em, cond, a.im, b.im))  # type: ignore[arg-type]
    assert isinstance(a, Val)
    assert isinstance(b, Val)
    lanes = max(a.lanes, b.lanes, cond.lanes)
    x, y = em.b.splat(a, lanes), em.b.splat(b, lanes)
    return em.b.select(em.b.splat(cond, lanes), x, y)


@EMIT.rule(ops.PAD)
def pad(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """The operand's element where there is one, else the padding value. Negative padding crops."""
    operand, m = inst.operands[0], em.m
    inside: Val | bool | None = None
    comps = []
    for c, n, p in zip(em.comps(index), operand.shape.dims, inst.attrs.padding, strict=True):
        x = m.add(c, -p.low)
        if p.interior:
            inside = m.both(inside, m.compare("sge", x, 0))
            x, rem = m.divmod(x, p.interior + 1)
            inside = m.both(inside, m.compare("eq", rem, 0))
        else:
            inside = m.both(inside, m.compare("sge", x, 0))
        inside = m.both(inside, m.compare("slt", x, n))
        comps.append(within(x, n))
    et = inst.shape.element_type
    if inside is None or inside is True:
        return em.converted((yield Request(operand, at(operand.shape, comps), pred)), operand, et)
    filler = em.converted((yield Request(inst.operands[1], SCALAR, pred)), inst.operands[1], et)
    if inside is False or operand.shape.num_elements == 0:
        return filler
    guard = m.both(pred, inside)
    assert isinstance(guard, Val)
    value = em.converted((yield Request(operand, at(operand.shape, comps), guard)), operand, et)
    return choose(em, inside, value, filler)


def within(x: Ix, n: int) -> Ix:
    """`x`, known to be in [0, n) wherever the predicate that goes with it holds."""
    out = Ix(x.base, x.step, max(x.lo, 0), min(x.hi, n - 1), x.align) if x.vec is None else Ix.of_vector(x.vec)
    if x.vec is not None:
        out.lo, out.hi = max(x.lo, 0), min(x.hi, n - 1)
    return out


@EMIT.rule(ops.CONCATENATE)
def concatenate(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """The operand whose range holds the position along the concatenated dimension."""
    dim, m = inst.attrs.dimension, em.m
    comps = em.comps(index)
    starts, total = [], 0
    for o in inst.operands:
        starts.append(total)
        total += o.shape.dims[dim]
    result: Value | None = None
    # From the last operand to the first: each test only asks whether the position is before the next start.
    for o, start in reversed(list(zip(inst.operands, starts, strict=True))):
        size = o.shape.dims[dim]
        above, below = m.compare("sge", comps[dim], start), m.compare("slt", comps[dim], start + size)
        if o.shape.num_elements == 0 or above is False or below is False:
            continue
        guard = m.both(pred, m.both(above, below))
        moved = list(comps)
        moved[dim] = within(m.add(comps[dim], -start), size)
        got = yield Request(o, at(o.shape, moved), guard if isinstance(guard, Val) else None)
        value = em.converted(got, o, inst.shape.element_type)
        result = value if result is None or below is True else choose(em, below, value, result)
    if result is None:
        return element_constant(inst.shape.element_type, 0)
    return result


def start_indices(
    em: Emitter, starts: Sequence[Value], types: Sequence[ElementType], limits: Sequence[int]
) -> list[Ix]:
    """Start indices clamped to [0, limit], each in its own type first."""
    return [clamp_index(em, v, et, n) for v, et, n in zip(starts, types, limits, strict=True)]


def clamp_index(em: Emitter, value: Value, et: ElementType, limit: int) -> Ix:
    """An index element clamped to [0, limit], as a component."""
    assert isinstance(value, Val)
    if limit <= 0:
        return ZERO
    b = em.b
    if value.ty == "i1":
        value = b.cast("zext", value, "i8")
    bits = max(et.bits, 8)
    if et.is_signed:
        value = b.smin(b.smax(value, 0), min(limit, (1 << (bits - 1)) - 1))
    else:
        value = b.umin(value, min(limit, (1 << bits) - 1))
    return _component(em, value, limit)


def _component(em: Emitter, value: Val, limit: int) -> Ix:
    if value.lanes == 1:
        return em.m.value(em.b.int_cast(value, "i64", signed=False), 0, limit)
    return Ix.of_vector(em.b.int_cast(value, em.m.ity, signed=False), 0, limit)


def start_requests(inst: Instruction, first: int, rank: int) -> list[tuple[Instruction, Index]]:
    """The scalar start operands of dynamic-slice and dynamic-update-slice: one a dimension, or one rank-1 array."""
    rest = inst.operands[first:]
    if len(rest) == 1 and rest[0].shape.rank == 1:
        return [(rest[0], Index(rest[0].shape.dims, (number(d),))) for d in range(rank)]
    return [(o, SCALAR) for o in rest]


@EMIT.rule(ops.DYNAMIC_SLICE)
def dynamic_slice(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """operand[start + i], the starts clamped so that the slice fits."""
    operand = inst.operands[0]
    comps = list(em.comps(index))
    for d, (start, where) in enumerate(start_requests(inst, 1, operand.shape.rank)):
        limit = operand.shape.dims[d] - inst.shape.dims[d]
        if limit <= 0:
            continue
        value = yield Request(start, where, None)
        comps[d] = em.m.add(comps[d], clamp_index(em, value, start.shape.element_type, limit))
    return (yield Request(operand, at(operand.shape, comps), pred))


@EMIT.rule(ops.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """The update's element inside the window, the operand's elsewhere; starts clamped so that the update fits."""
    operand, update, m = inst.operands[0], inst.operands[1], em.m
    comps = em.comps(index)
    inside: Val | bool | None = None
    moved: list[Ix] = []
    for d, (start, where) in enumerate(start_requests(inst, 2, operand.shape.rank)):
        limit = operand.shape.dims[d] - update.shape.dims[d]
        if limit <= 0:
            moved.append(comps[d])
            continue
        value = yield Request(start, where, None)
        first = clamp_index(em, value, start.shape.element_type, limit)
        x = m.add(comps[d], m.mul(first, -1))
        inside = m.both(inside, m.compare("sge", x, 0))
        inside = m.both(inside, m.compare("slt", x, update.shape.dims[d]))
        moved.append(within(x, update.shape.dims[d]))
    if update.shape.num_elements == 0:
        return (yield Request(operand, index, pred))
    if inside is None or inside is True:
        return (yield Request(update, at(update.shape, moved), pred))
    assert isinstance(inside, Val)
    new = yield Request(update, at(update.shape, moved), m.both(pred, inside))  # type: ignore[arg-type]
    old = yield Request(operand, index, pred)
    return choose(em, inside, new, old)


@EMIT.rule(ops.BITCAST_CONVERT)
def bitcast_convert(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """The operand's bits as another type; a narrower one adds a minor dimension, a wider one takes it away."""
    operand = inst.operands[0]
    src, dst = operand.shape.element_type, inst.shape.element_type
    if src.bits == dst.bits or inst.shape.rank == operand.shape.rank:
        value = yield Request(operand, index, pred)
        return em.element(inst, [value])
    if src.is_complex or dst.is_complex:
        raise unimplemented("bitcast-convert between complex and another width", span=inst.span)
    comps = em.comps(index)
    if src.bits > dst.bits:
        value = yield Request(operand, at(operand.shape, comps[:-1]), pred)
        return _narrow(em, src, dst, value, comps[-1])
    parts = []
    for k in range(dst.bits // src.bits):
        part = yield Request(operand, at(operand.shape, (*comps, number(k))), pred)
        parts.append(part)
    return _join(em, src, dst, parts)


def _narrow(em: Emitter, src: ElementType, dst: ElementType, value: Val, which: Ix) -> Value:
    """Bits [which*dst.bits, ...) of a wide value."""
    b, wide = em.b, f"i{src.bits}"
    bits = b.bitcast(value, wide)
    if which.is_uniform:
        amount = b.int_cast(b.mul(em.m.scalar(which), dst.bits), wide, signed=False)
    else:
        amount = b.int_cast(b.mul(em.m.vector(which), dst.bits), wide, signed=False)
    lanes = max(bits.lanes, amount.lanes)
    part = b.lshr(b.splat(bits, lanes), b.splat(amount, lanes))
    small = b.int_cast(part, f"i{max(dst.bits, 8)}", signed=False)
    if dst is dtypes.PRED:
        return b.icmp("ne", small, 0)
    return wrap(b, dst, b.bitcast(small, register_type(dst)))


def _join(em: Emitter, src: ElementType, dst: ElementType, parts: list[Val]) -> Value:
    b, wide = em.b, f"i{dst.bits}"
    total: Val | None = None
    for k, part in enumerate(parts):
        raw = b.cast("zext", part, "i8") if src is dtypes.PRED else b.bitcast(part, f"i{max(src.bits, 8)}")
        if src.bits < 8:
            raw = b.and_(raw, (1 << src.bits) - 1)
        bits = b.int_cast(raw, wide, signed=False)
        bits = b.shl(bits, k * src.bits) if k else bits
        total = bits if total is None else b.or_(total, bits)
    assert total is not None
    return b.bitcast(total, register_type(dst))


@EMIT.rule(ops.GET_DIMENSION_SIZE)
def get_dimension_size(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Value:
    """The size of a static dimension."""
    shape = inst.operands[0].shape
    if shape.is_dynamic_dim(inst.attrs.dimension):
        raise unimplemented("the size of a dynamic dimension inside a kernel", span=inst.span)
    return element_constant(inst.shape.element_type, shape.dims[inst.attrs.dimension])


@EMIT.rule(ops.MAP)
def map_(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """The called computation applied to the operands' elements."""
    values: list[Any] = []
    for o in inst.operands:
        values.append((yield Request(o, index, pred)))
    return em.call(inst.role("to_apply"), em.level(values))


@EMIT.rule(ops.GATHER)
def gather(em: Emitter, inst: Instruction, index: Index, pred: Pred) -> Rule:
    """operand[start + offset], starts read from the index array and clamped so that the slice fits."""
    operand, indices, a, m = inst.operands[0], inst.operands[1], inst.attrs, em.m
    comps = em.comps(index)
    batch = [comps[d] for d in range(inst.shape.rank) if d not in a.offset_dims]
    dropped = set(a.collapsed_slice_dims) | set(a.operand_batching_dims)
    kept = [d for d in range(operand.shape.rank) if d not in dropped]
    moved = [ZERO] * operand.shape.rank
    for d, o in zip(kept, a.offset_dims, strict=True):
        moved[d] = comps[o]
    for k, d in enumerate(a.start_index_map):
        limit = operand.shape.dims[d] - a.slice_sizes[d]
        where = list(batch)
        if a.index_vector_dim < indices.shape.rank:
            where.insert(a.index_vector_dim, number(k))
        value = yield Request(indices, at(indices.shape, where), pred)
        moved[d] = m.add(moved[d], clamp_index(em, value, indices.shape.element_type, limit))
    for d, i in zip(a.operand_batching_dims, a.start_indices_batching_dims, strict=True):
        # A batching dimension is the batch component of the same dimension of the index array.
        moved[d] = batch[i if i < a.index_vector_dim else i - 1]
    return (yield Request(operand, at(operand.shape, moved), pred))


def lane_count(values: Sequence[Value]) -> int:
    """The largest lane count among values."""
    return max(lanes_of(v) for v in values)
