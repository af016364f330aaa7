"""Opcodes that move elements, and the structural ones: parameters' companions, tuples, barriers, copies.

Bounded dynamic arrays are held at their actual size: `set-dimension-size` cuts, `get-dimension-size` measures.
Spec: XLA operation semantics, one section an op.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.interp.numeric import bitcast_convert, narrow, zero_of
from xyla.interp.session import Session
from xyla.interp.table import EVAL, TOKEN, Array, Kernel, Value
from xyla.support.dtypes import ElementType
from xyla.support.status import internal, invalid


@EVAL.rule(ops.PARAMETER, ops.CONSTANT)
def _leaf(inst: Instruction, session: Session) -> Kernel:
    if inst.op is ops.CONSTANT:
        from xyla.interp.plan import literal_value

        value = literal_value(inst.attrs.literal)
        return lambda: value
    raise internal("a parameter's value comes from its caller")


@EVAL.rule(ops.TUPLE)
def _tuple(inst: Instruction, session: Session) -> Kernel:
    return lambda *xs: xs


@EVAL.rule(ops.GET_TUPLE_ELEMENT)
def _get_tuple_element(inst: Instruction, session: Session) -> Kernel:
    return operator.itemgetter(inst.attrs.index)


@EVAL.rule(ops.AFTER_ALL)
def _after_all(inst: Instruction, session: Session) -> Kernel:
    return lambda *tokens: TOKEN


@EVAL.rule(ops.OPT_BARRIER, ops.DOMAIN, ops.COPY, ops.ADD_DEPENDENCY)
def _first_operand(inst: Instruction, session: Session) -> Kernel:
    return lambda x, *rest: x


@EVAL.rule(ops.COPY_START)
def _copy_start(inst: Instruction, session: Session) -> Kernel:
    # (destination, source, context)
    context = np.zeros((), np.uint32)
    return lambda x: (x, x, context)


@EVAL.rule(ops.COPY_DONE)
def _copy_done(inst: Instruction, session: Session) -> Kernel:
    return operator.itemgetter(0)


# -- shape changes -------------------------------------------------------------------------------------------------


def _actual(x: Array, shape: Shape, result: Shape) -> tuple[int, ...]:
    """Result dims of a reshape: the declared ones, or scaled to a dynamic operand's actual size."""
    if not shape.dynamic or x.shape == shape.dims:
        return result.dims
    return _reshape_dynamic(x.shape, shape, result)


def _reshape_dynamic(actual: tuple[int, ...], shape: Shape, result: Shape) -> tuple[int, ...]:
    """Static result dims are kept; the one dynamic result dim takes what is left."""
    dynamic = [i for i in range(result.rank) if result.is_dynamic_dim(i)]
    total = int(np.prod(actual, dtype=np.int64))
    if len(dynamic) == 1:
        rest = int(np.prod([d for i, d in enumerate(result.dims) if i != dynamic[0]], dtype=np.int64))
        return tuple(total // max(rest, 1) if i == dynamic[0] else d for i, d in enumerate(result.dims))
    sizes = [a for i, a in enumerate(actual) if shape.is_dynamic_dim(i)]
    if len(sizes) != len(dynamic):
        raise invalid(f"reshape of {shape} to {result}: cannot tell which dynamic dimension is which")
    left = iter(sizes)
    return tuple(next(left) if i in dynamic else d for i, d in enumerate(result.dims))


@EVAL.rule(ops.RESHAPE)
def _reshape(inst: Instruction, session: Session) -> Kernel:
    shape, result = inst.operands[0].shape, inst.shape
    if not shape.dynamic:
        dims = result.dims
        return lambda x: x.reshape(dims)
    return lambda x: x.reshape(_actual(x, shape, result))


@EVAL.rule(ops.DYNAMIC_RESHAPE)
def _dynamic_reshape(inst: Instruction, session: Session) -> Kernel:
    shape = inst.shape
    # A static dimension has its own size, whatever is given for it.
    bounds = [(d, shape.is_dynamic_dim(i)) for i, d in enumerate(shape.dims)]

    def kernel(x: Array, *sizes: Array) -> Array:
        flat = np.asarray(x).reshape(-1)
        dims = tuple(min(int(s), d) if dynamic else d for s, (d, dynamic) in zip(sizes, bounds, strict=True))
        count = int(np.prod(dims, dtype=np.int64))
        if count > flat.size:
            raise invalid(f"dynamic-reshape of {flat.size} elements to {list(dims)}")
        return flat[:count].reshape(dims)

    return kernel


@EVAL.rule(ops.BITCAST)
def _bitcast(inst: Instruction, session: Session) -> Kernel:
    """The operand's bytes in its layout, read back in the result's layout."""
    src, dst = inst.operands[0].shape, inst.shape
    if src.is_tuple or dst.is_tuple:
        return lambda x: x
    into = _minor_last(dst)
    physical = tuple(dst.dims[d] for d in into)
    back = np.argsort(into) if into else ()

    def kernel(x: Array) -> Array:
        flat = np.ascontiguousarray(np.transpose(x, _minor_last(src))).reshape(-1)
        return np.transpose(_retype(flat, src.element_type, dst.element_type).reshape(physical), back)

    return kernel


def _minor_last(shape: Shape) -> tuple[int, ...]:
    order = shape.layout.minor_to_major if shape.layout is not None else range(shape.rank - 1, -1, -1)
    return tuple(reversed(tuple(order)))


def _retype(flat: Array, src: ElementType, dst: ElementType) -> Array:
    if src is dst:
        return flat
    if src.bits < dst.bits:
        flat = flat.reshape(-1, dst.bits // src.bits)
    return bitcast_convert(flat, src, dst).reshape(-1)


@EVAL.rule(ops.BROADCAST)
def _broadcast(inst: Instruction, session: Session) -> Kernel:
    dims, where = inst.shape.dims, inst.attrs.dimensions
    if not where:
        return lambda x: np.broadcast_to(x, dims)
    order = sorted(range(len(where)), key=lambda i: where[i])
    sorted_already = order == list(range(len(where)))

    def kernel(x: Array) -> Array:
        target, expanded = list(dims), [1] * len(dims)
        for size, d in zip(x.shape, where, strict=True):
            target[d] = expanded[d] = size
        if not sorted_already:
            x = np.transpose(x, order)
        return np.broadcast_to(x.reshape(expanded), target)

    return kernel


@EVAL.rule(ops.TRANSPOSE)
def _transpose(inst: Instruction, session: Session) -> Kernel:
    perm = inst.attrs.dimensions
    return lambda x: np.transpose(x, perm)


@EVAL.rule(ops.REVERSE)
def _reverse(inst: Instruction, session: Session) -> Kernel:
    axes = inst.attrs.dimensions
    return lambda x: np.flip(x, axes)


@EVAL.rule(ops.IOTA)
def _iota(inst: Instruction, session: Session) -> Kernel:
    shape, d = inst.shape, inst.attrs.iota_dimension
    ramp = narrow(np.arange(shape.dims[d] if 0 not in shape.dims else 0), shape.element_type)
    if 0 in shape.dims:
        nothing = np.zeros(shape.dims, shape.element_type.np)
        return lambda: nothing
    ramp = ramp.reshape([-1 if i == d else 1 for i in range(shape.rank)])
    value = np.broadcast_to(ramp, shape.dims)
    return lambda: value


# -- slices --------------------------------------------------------------------------------------------------------


@EVAL.rule(ops.SLICE)
def _slice(inst: Instruction, session: Session) -> Kernel:
    index = tuple(slice(s.start, s.limit, s.stride) for s in inst.attrs.slice)
    return lambda x: x[index]


def clamp_starts(starts: Sequence[Value], dims: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Start indices moved so that a window of `sizes` lies inside `dims`. `starts`: scalars, or one vector."""
    if len(starts) == 1 and np.ndim(starts[0]) == 1:
        starts = list(starts[0])
    # A dynamic dimension may be shorter than a window that takes all of it.
    return [max(min(int(s), d - n), 0) for s, d, n in zip(starts, dims, sizes, strict=True)]


@EVAL.rule(ops.DYNAMIC_SLICE)
def _dynamic_slice(inst: Instruction, session: Session) -> Kernel:
    sizes = inst.attrs.sizes

    def kernel(x: Array, *starts: Value) -> Array:
        at = clamp_starts(starts, x.shape, sizes)
        return x[tuple(slice(s, s + n) for s, n in zip(at, sizes, strict=True))]

    return kernel


@EVAL.rule(ops.DYNAMIC_UPDATE_SLICE)
def _dynamic_update_slice(inst: Instruction, session: Session) -> Kernel:
    def kernel(x: Array, update: Array, *starts: Value) -> Array:
        sizes = update.shape
        out = np.array(x)
        at = clamp_starts(starts, out.shape, sizes)
        out[tuple(slice(s, s + n) for s, n in zip(at, sizes, strict=True))] = update
        return out

    return kernel


@EVAL.rule(ops.PAD)
def _pad(inst: Instruction, session: Session) -> Kernel:
    padding = tuple((p.low, p.high, p.interior) for p in inst.attrs.padding)
    return lambda x, value: pad(x, value, padding)


def pad(x: Array, value: Array, padding: Sequence[tuple[int, int, int]]) -> Array:
    """Pads each dimension by (low, high, interior); negative low or high crops after the interior padding."""
    x = np.asarray(x)
    grown = [0 if d == 0 else d + (d - 1) * i for d, (_, _, i) in zip(x.shape, padding, strict=True)]
    dims = [max(g + lo + hi, 0) for g, (lo, hi, _) in zip(grown, padding, strict=True)]
    out = np.empty(dims, x.dtype)
    out[...] = value
    if x.size == 0 or out.size == 0:
        return out
    source, target = [], []
    for d, n, (lo, _, interior) in zip(x.shape, dims, padding, strict=True):
        step = interior + 1
        first = max(-(lo // step), 0)  # ceil(-lo / step): the first element that is not cropped
        last = min((n - 1 - lo) // step, d - 1)
        if last < first:
            return out
        source.append(slice(first, last + 1))
        target.append(slice(lo + first * step, lo + last * step + 1, step))
    out[tuple(target)] = x[tuple(source)]
    return out


@EVAL.rule(ops.CONCATENATE)
def _concatenate(inst: Instruction, session: Session) -> Kernel:
    axis = inst.attrs.dimension
    return lambda *xs: np.concatenate(xs, axis)


# -- dynamic sizes -------------------------------------------------------------------------------------------------


@EVAL.rule(ops.GET_DIMENSION_SIZE)
def _get_dimension_size(inst: Instruction, session: Session) -> Kernel:
    d = inst.attrs.dimension
    return lambda x: np.int32(x.shape[d])


@EVAL.rule(ops.SET_DIMENSION_SIZE)
def _set_dimension_size(inst: Instruction, session: Session) -> Kernel:
    d, bound, fill = inst.attrs.dimension, inst.shape.dims[inst.attrs.dimension], zero_of(inst.shape.element_type)

    def kernel(x: Array, size: Array) -> Array:
        n = min(max(int(size), 0), bound)
        if n > x.shape[d]:  # what lies past the old size is not defined: zeros
            return pad(x, fill, [(0, n - x.shape[d], 0) if i == d else (0, 0, 0) for i in range(x.ndim)])
        cut: Array = x[(slice(None),) * d + (slice(0, n),)]
        return cut

    return kernel
