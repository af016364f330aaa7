"""Window reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xyla.hlo import ops
from xyla.hlo.attr_types import PaddingDim, Window, WindowDim
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.passes.algebraic_simplifier.common import (
    broadcast,
    convert,
    either_zero,
    evaluate,
    is_float,
    is_identity,
    pad,
    reducer,
    reshape,
    scalar_literal,
    single_user,
    splat_of,
    when,
)
from xyla.passes.algebraic_simplifier.rules_reduce import IDEMPOTENT, combined, reduce_unary_tuple
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, rule_table


def _plain(w: WindowDim) -> bool:
    return w.stride == 1 and w.lhs_dilate == 1 and w.rhs_dilate == 1 and not w.reversal


def window_empty(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce-window(x, v) = broadcast(v), where x has no elements and op(v, v) = v: the padding is v, and counts."""
    count = len(inst.operands) // 2
    if inst.operands[0].shape.num_elements:
        return None
    shapes = inst.shape.tuple_shapes if inst.shape.is_tuple else (inst.shape,)
    inits = inst.operands[count:]
    if any(s.element_type is not v.shape.element_type for s, v in zip(shapes, inits, strict=True)):
        return None
    if shapes[0].num_elements and not _absorbs_itself(inst, inits):
        return None
    parts = [broadcast(rw, v, (), s) for v, s in zip(inits, shapes, strict=True)]
    return rw.add(ops.TUPLE, parts) if inst.shape.is_tuple else parts[0]


def _absorbs_itself(inst: Instruction, inits: Sequence[Instruction]) -> bool:
    """Whether op(v, v) is v: for any v, or for these constants."""
    op = reducer(inst.called[0])
    if op in IDEMPOTENT or (len(inits) == 1 and op is not None and is_identity(op, inits[0])):
        return True
    literals = [scalar_literal(v) for v in inits]
    known = [x for x in literals if x is not None]
    if len(known) != len(inits):
        return False
    rows = [Literal.full(Shape.array(x.shape.element_type, (1,)), x.first) for x in known]
    value = evaluate(ops.REDUCE, [*rows, *known], ops.ReduceAttrs((0,)), called=inst.called)
    return list(value.elements if inst.shape.is_tuple else [value]) == known


def window_of_one(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce-window(x, v) = pad(x, v), for windows of one element and a neutral v (op(x, v) padded when v is not)."""
    op, dims = reducer(inst.called[0]), inst.attrs.window.dims
    if len(inst.operands) != 2 or not inst.shape.is_array or op is None:
        return None
    if any(w.size != 1 or not _plain(w) or w.pad_low < 0 or w.pad_high < 0 for w in dims):
        return None
    x, init = inst.operands
    if x.shape.element_type is not init.shape.element_type or x.shape.element_type is not inst.shape.element_type:
        return None
    padded = any(w.pad_low or w.pad_high for w in dims)
    if padded and not is_identity(op, init) and not (op is ops.ADD and either_zero(init)):
        return None
    edges = [PaddingDim(w.pad_low, w.pad_high) for w in dims]
    return pad(rw, combined(rw, op, x, init), init, edges)


@when("enable_window_reduce_to_reduce_replacement")
def window_to_reduce(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce-window(x) = reshape(reduce(x)), where each window dimension is the whole of x's or a single element."""
    if len(inst.operands) != 2 or not inst.shape.is_array:
        return None
    x, init = inst.operands
    dims = inst.attrs.window.dims
    whole = []
    for d, (w, size) in enumerate(zip(dims, x.shape.dims, strict=True)):
        if w.pad_low or w.pad_high or w.lhs_dilate != 1 or w.rhs_dilate != 1 or w.reversal:
            return None
        if w.size == size and size > 1:
            whole.append(d)
        elif w.size != 1 or w.stride != 1:
            return None
    if not whole or x.shape.element_type is not init.shape.element_type:
        return None
    reduced = rw.add(ops.REDUCE, [x, init], ops.ReduceAttrs(tuple(whole)), called=inst.called)
    return reshape(rw, reduced, inst.shape.dims)


def _pad_under(inst: Instruction) -> tuple[Instruction, Instruction, bool] | None:
    """(pad, its operand's conversion wanted?) of reduce-window(pad) and reduce-window(convert(pad))."""
    if len(inst.operands) != 2 or not inst.shape.is_array:
        return None
    x, init = inst.operands
    converted = x.op is ops.CONVERT and x.operands[0].op is ops.PAD
    source = x.operands[0] if converted else x
    if source.op is not ops.PAD or not single_user(source) or (converted and not single_user(x)):
        return None
    filler = scalar_literal(source.operands[1])
    if source.operands[1] is init and not converted:
        return source, init, converted
    start = scalar_literal(init)
    if filler is None or start is None:
        return None
    if converted:
        filler = evaluate(ops.CONVERT, [filler], shape=Shape.array(x.shape.element_type, ()))
    if start.shape.element_type is not x.shape.element_type:
        start = evaluate(ops.CONVERT, [start], shape=Shape.array(x.shape.element_type, ()))
    return (source, init, converted) if filler == start else None


def window_of_pad(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce-window(pad(x, v), v) = reduce-window(x, v), the edges added to the window's padding."""
    found = _pad_under(inst)
    if found is None:
        return None
    source, init, converted = found
    dims = []
    for w, p in zip(inst.attrs.window.dims, source.attrs.padding, strict=True):
        # A negative edge crops before any padding is added, so only what grows may be joined.
        if p.interior or min(p.low, p.high, w.pad_low, w.pad_high) < 0:
            return None
        dims.append(replace(w, pad_low=w.pad_low + p.low * w.lhs_dilate, pad_high=w.pad_high + p.high * w.lhs_dilate))
    x = source.operands[0]
    if x.shape.num_elements == 0:
        return None
    base = convert(rw, x, inst.operands[0].shape.element_type) if converted else x
    attrs = ops.WindowAttrs(Window(tuple(dims)))
    return rw.add(ops.REDUCE_WINDOW, [base, init], attrs, called=inst.called, shape=inst.shape.without_layout())


def uniform_scalar(x: Instruction) -> Literal | None:
    """The constant that every element of `x` is, through reshapes, slices, conversions and the like."""
    conversions: list[Instruction] = []
    while x.op is not ops.CONSTANT:
        if x.op is ops.CONVERT:
            conversions.append(x)
        elif x.op is ops.BITCAST:
            if x.shape.element_type is not x.operands[0].shape.element_type:
                return None
        elif x.op not in (ops.BROADCAST, ops.RESHAPE, ops.SLICE, ops.TRANSPOSE, ops.COPY, ops.REVERSE):
            return None
        x = x.operands[0]
    literal = scalar_literal(x) if x.shape.is_array else None
    for c in reversed(conversions):
        if literal is not None:
            literal = evaluate(ops.CONVERT, [literal], shape=Shape.array(c.shape.element_type, ()))
    return literal


@value_changing(Fp.DEFAULT, "a running sum of a constant becomes a product: rounds once")
def window_running_sum(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """The running sum of a constant c, init 0 = (iota + 1) * c."""
    if len(inst.operands) != 2 or not inst.shape.is_array or reducer(inst.called[0]) is not ops.ADD:
        return None
    x, init = inst.operands
    et = inst.shape.element_type
    dim = _running(inst)
    if dim is None or not either_zero(init) or et is not x.shape.element_type or et is not init.shape.element_type:
        return None
    length = x.shape.dims[dim]
    if et.is_complex or not _counts(length, inst):
        return None
    literal = uniform_scalar(x)
    if literal is None:
        return None
    shape = Shape.array(et, inst.shape.dims)
    first = rw.add(ops.IOTA, (), ops.IotaAttrs(dim), shape=shape)
    if inst.attrs.window.dims[dim].pad_low == 0:
        count = rw.binary(ops.SUBTRACT, rw.splat(length, shape), first)
    else:
        count = rw.binary(ops.ADD, first, rw.splat(1, shape))
    return rw.binary(ops.MULTIPLY, count, splat_of(rw, literal, shape))


def _running(inst: Instruction) -> int | None:
    """The dimension that is summed up to each element (or from it on), if that is all the window does."""
    found = None
    for d, (w, size) in enumerate(zip(inst.attrs.window.dims, inst.operands[0].shape.dims, strict=True)):
        if not _plain(w):
            return None
        if w.size == 1:
            if w.pad_low or w.pad_high:
                return None
        elif found is None and w.size == size and (w.pad_low, w.pad_high) in ((size - 1, 0), (0, size - 1)):
            found = d
        else:
            return None
    return found


def _counts(length: int, inst: Instruction) -> bool:
    """Whether the element type holds 0 .. length exactly."""
    et = inst.shape.element_type
    if et.is_integer:
        return length < 1 << (et.bits - 1)
    exact = {"f16": 2**11, "bf16": 2**8, "f32": 2**24, "f64": 2**53}.get(et.name, 0)
    return is_float(inst) and length <= exact


TABLE = rule_table(
    (
        [ops.REDUCE_WINDOW],
        (
            reduce_unary_tuple, window_empty, window_of_one, window_of_pad, window_to_reduce, window_running_sum,
        ),
    ),
)  # fmt: skip
