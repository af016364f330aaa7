"""Reductions. The init value counts once; it may be anything, so it is dropped only where it is the op's identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xyla.hlo import ops, rewriter
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.passes.algebraic_simplifier.common import (
    FOLD_ELEMENTS,
    broadcast,
    either_zero,
    evaluate,
    exactly,
    is_float,
    is_identity,
    is_integral,
    kept,
    logical,
    reducer,
    reshape,
    scalar_literal,
    single_user,
    splat_of,
    transpose,
    when,
)
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, rule_table

# op(x, x) = x.
IDEMPOTENT = (ops.MAXIMUM, ops.MINIMUM, ops.AND, ops.OR)


def combined(rw: Rewrite, op: OpDef[Any], x: Instruction, init: Instruction) -> Instruction:
    """op(x, init), or x where init is the identity."""
    if is_identity(op, init):
        return x
    return rw.binary(op, x, broadcast(rw, init, (), x.shape))


def _simple(inst: Instruction, below: OpDef[Any] | None = None) -> OpDef[Any] | None:
    """The op of a reduction of one array (which `below` makes, if that is given)."""
    if len(inst.operands) != 2 or not inst.shape.is_array:
        return None
    if below is not None and inst.operands[0].op is not below:
        return None
    op = reducer(inst.called[0])
    same = inst.operands[0].shape.element_type is inst.operands[1].shape.element_type
    return op if same and inst.operands[0].shape.element_type is inst.shape.element_type else None


def reduce_empty(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce(x, v) = broadcast(v), where x has no elements."""
    count = len(inst.operands) // 2
    if inst.operands[0].shape.num_elements:
        return None
    shapes = inst.shape.tuple_shapes if inst.shape.is_tuple else (inst.shape,)
    if any(s.element_type is not v.shape.element_type for s, v in zip(shapes, inst.operands[count:], strict=True)):
        return None
    parts = [broadcast(rw, v, (), s) for v, s in zip(inst.operands[count:], shapes, strict=True)]
    return rw.add(ops.TUPLE, parts) if inst.shape.is_tuple else parts[0]


def reduce_of_ones(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce(x, v) = op(reshape(x), v), along dimensions of size 1."""
    x = inst.operands[0]
    if any(x.shape.dims[d] != 1 for d in inst.attrs.dimensions):
        return None
    op = _simple(inst)
    if op is None:
        return None
    return combined(rw, op, reshape(rw, x, inst.shape.dims), inst.operands[1])


def reduce_drops_ones(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce(x) = reduce(reshape(x)), reduced dimensions of size 1 dropped."""
    x = inst.operands[0]
    ones = [d for d in inst.attrs.dimensions if x.shape.dims[d] == 1]
    if not ones or len(ones) == len(inst.attrs.dimensions) or _simple(inst) is None:
        return None
    own = kept(x.shape.rank, ones)
    at = {d: i for i, d in enumerate(own)}
    small = reshape(rw, x, [x.shape.dims[d] for d in own])
    attrs = ops.ReduceAttrs(tuple(at[d] for d in inst.attrs.dimensions if d in at))
    return rw.add(ops.REDUCE, [small, inst.operands[1]], attrs, called=inst.called)


@logical
def reduce_transpose(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce(transpose(x)) = reduce(x), transposed where the kept dimensions change places."""
    x = inst.operands[0]
    if _simple(inst, ops.TRANSPOSE) is None:
        return None
    perm = x.attrs.dimensions
    dims = tuple(sorted(perm[d] for d in inst.attrs.dimensions))
    order = [perm[d] for d in kept(len(perm), inst.attrs.dimensions)]
    result = rw.add(ops.REDUCE, [x.operands[0], inst.operands[1]], ops.ReduceAttrs(dims), called=inst.called)
    ranked = sorted(order)
    return transpose(rw, result, [ranked.index(d) for d in order])


@logical
def reduce_reshape(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce(reshape(x)) = reduce(x), where the kept dimensions pass through the reshape unchanged."""
    x = inst.operands[0]
    if _simple(inst, ops.RESHAPE) is None or 0 in x.shape.dims or x.operands[0].shape.dynamic:
        return None
    base = x.operands[0]
    through = [_place(x.shape.dims, base.shape.dims, d) for d in kept(x.shape.rank, inst.attrs.dimensions)]
    if any(d is None for d in through):
        return None
    own = [d for d in through if d is not None]
    if len(set(own)) != len(own) or own != sorted(own):
        return None
    dims = kept(base.shape.rank, own)
    if any(base.shape.dims[d] == 1 for d in dims):
        return None  # dropping those is what made the reshape
    return rw.add(ops.REDUCE, [base, inst.operands[1]], ops.ReduceAttrs(tuple(dims)), called=inst.called)


def _place(after: Sequence[int], before: Sequence[int], dim: int) -> int | None:
    """The dimension of `before` that dimension `dim` (not of size 1) of `after` is, unchanged."""
    if after[dim] == 1:
        return None
    major = int(np.prod(after[:dim], dtype=np.int64))
    product = 1
    for i, n in enumerate(before):
        if product == major and n == after[dim]:
            return i
        product *= n
    return None


def reduce_reduce(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce(reduce(x, v), w) = reduce(x, op(v, w)) over both, where v is neutral or added to a single row."""
    op, x = _simple(inst, ops.REDUCE), inst.operands[0]
    if op is None or _simple(x) is not op or not single_user(x):
        return None
    init = x.operands[1]
    neutral = is_identity(op, init) or (op is ops.ADD and either_zero(init))
    if not neutral and op not in IDEMPOTENT:
        return None
    own = kept(x.operands[0].shape.rank, x.attrs.dimensions)
    dims = tuple(sorted([*x.attrs.dimensions, *(own[d] for d in inst.attrs.dimensions)]))
    start = inst.operands[1]
    if op in IDEMPOTENT:
        start = combined(rw, op, start, init)
    elif is_float(inst) and not is_identity(op, init):
        start = rw.binary(op, start, init)  # keeps the sign of a zero sum: -0 + 0
    return rw.add(ops.REDUCE, [x.operands[0], start], ops.ReduceAttrs(dims), called=inst.called)


# -- of broadcasts ------------------------------------------------------------------------------------------------


def _split_broadcast(inst: Instruction) -> tuple[Instruction, list[int], list[int], int] | None:
    """(x, x's reduced dims, result dims that x's kept ones become, how often each element counts)."""
    x = inst.operands[0]
    if x.op is not ops.BROADCAST:
        return None
    gone = set(inst.attrs.dimensions)
    position = {d: i for i, d in enumerate(kept(x.shape.rank, inst.attrs.dimensions))}
    reduced = [i for i, d in enumerate(x.attrs.dimensions) if d in gone]
    places = [position[d] for d in x.attrs.dimensions if d not in gone]
    count = 1
    for d in gone - set(x.attrs.dimensions):
        count *= x.shape.dims[d]
    return x.operands[0], reduced, places, count


def _reduced(inst: Instruction, small: Instruction, dims: list[int], rw: Rewrite) -> Instruction:
    return rw.add(ops.REDUCE, [small, inst.operands[1]], ops.ReduceAttrs(tuple(dims)), called=inst.called)


@logical
def reduce_broadcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce(broadcast(x)) = broadcast(reduce(x)), where copies do not count: none are reduced, or op(x, x) = x."""
    op, found = _simple(inst, ops.BROADCAST), _split_broadcast(inst)
    if op is None or found is None:
        return None
    small, dims, places, count = found
    if count == 0 or (count > 1 and op not in IDEMPOTENT):
        return None
    if not dims:
        return broadcast(rw, combined(rw, op, small, inst.operands[1]), places, inst.shape)
    return broadcast(rw, _reduced(inst, small, dims, rw), places, inst.shape)


def _counted_sum(inst: Instruction, rw: Rewrite) -> Instruction | None:
    op, found = _simple(inst, ops.BROADCAST), _split_broadcast(inst)
    if op is not ops.ADD or found is None or inst.shape.element_type.is_complex:
        return None
    small, dims, places, count = found
    et = small.shape.element_type
    if dims or count < 2 or (et.is_float and not np.isfinite(float(np.asarray(count).astype(et.np)))):
        return None
    scaled = rw.binary(ops.MULTIPLY, small, rw.splat(count, small.shape))
    return broadcast(rw, combined(rw, op, scaled, inst.operands[1]), places, inst.shape)


def sum_of_broadcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce-add(broadcast(x), v) = x * n + v, for integers."""
    return _counted_sum(inst, rw) if inst.shape.element_type.is_integer else None


@value_changing(Fp.DEFAULT, "a sum of n copies becomes a product with n: rounds once")
def sum_of_broadcast_floats(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce-add(broadcast(x), v) = x * n + v."""
    return _counted_sum(inst, rw) if is_float(inst) else None


def reduce_uniform(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """A reduction of constant splats and of iotas along reduced dimensions is the same everywhere: computed once."""
    count = len(inst.operands) // 2
    xs, inits = inst.operands[:count], inst.operands[count:]
    dims = inst.attrs.dimensions
    sizes = [xs[0].shape.dims[d] for d in dims]
    if not dims or not 0 < int(np.prod(sizes, dtype=np.int64)) <= FOLD_ELEMENTS or xs[0].shape.num_elements == 0:
        return None
    literals = [_row(x, dims, sizes) for x in xs] + [scalar_literal(v) for v in inits]
    if any(x is None for x in literals):
        return None
    attrs = ops.ReduceAttrs(tuple(range(len(dims))))
    value = evaluate(ops.REDUCE, [x for x in literals if x is not None], attrs, called=inst.called)
    if not inst.shape.is_tuple:
        return splat_of(rw, value, inst.shape)
    return rw.add(ops.TUPLE, [splat_of(rw, v, s) for v, s in zip(value.elements, inst.shape.tuple_shapes, strict=True)])


def _row(x: Instruction, dims: Sequence[int], sizes: Sequence[int]) -> Literal | None:
    """The values of `x` over the reduced dimensions, if they do not depend on the others."""
    et = x.shape.element_type
    if x.op is ops.IOTA and x.attrs.iota_dimension in dims:
        position = list(dims).index(x.attrs.iota_dimension)
        return evaluate(ops.IOTA, [], ops.IotaAttrs(position), shape=Shape.array(et, sizes))
    scalar = scalar_literal(x)
    return None if scalar is None else Literal.full(Shape.array(et, sizes), scalar.first)


@logical
def reduce_pad(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce(pad(x, v), w) = reduce(x, w), where only reduced dimensions grow and v changes no result."""
    op, x = _simple(inst, ops.PAD), inst.operands[0]
    if op is None or x.operands[0].shape.num_elements == 0:
        return None
    value, init = x.operands[1], inst.operands[1]
    # A sum that starts at +0 is never -0, so that zeros of either sign add nothing to it.
    started = op is ops.ADD and exactly(init, 0) and either_zero(value)
    if not is_identity(op, value) and not started:
        return None
    padding = x.attrs.padding
    if any(p.low < 0 or p.high < 0 for p in padding):
        return None
    if any(p.low or p.high or p.interior for d, p in enumerate(padding) if d not in inst.attrs.dimensions):
        return None
    return rw.add(ops.REDUCE, [x.operands[0], init], inst.attrs, called=inst.called)


# -- of other ops -------------------------------------------------------------------------------------------------


def _reduce_concatenate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    op, x = _simple(inst, ops.CONCATENATE), inst.operands[0]
    if op is None or x.attrs.dimension not in inst.attrs.dimensions:
        return None
    if not single_user(x) or any(not o.shape.same_dims(x.operands[0].shape) for o in x.operands):
        return None
    total = x.operands[0]
    for o in x.operands[1:]:
        total = rw.binary(op, total, o)
    return rw.add(ops.REDUCE, [total, inst.operands[1]], inst.attrs, called=inst.called)


@when("enable_unconditional_reduce_of_concat_replacement")
def reduce_concatenate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce(concatenate(x, y)) = reduce(op(x, y)), for equal shapes; exact ops."""
    exact = is_integral(inst) or (inst.shape.is_array and reducer(inst.called[0]) in (ops.MAXIMUM, ops.MINIMUM))
    return _reduce_concatenate(inst, rw) if exact else None


@value_changing(Fp.DEFAULT, "a reduction of a concatenation is done in another order")
@when("enable_unconditional_reduce_of_concat_replacement")
def reduce_concatenate_floats(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce(concatenate(x, y)) = reduce(op(x, y)), for equal shapes."""
    return _reduce_concatenate(inst, rw)


@value_changing(Fp.DEFAULT, "sums are contracted in another order")
@when("supports_non_canonical_dots")
def reduce_batch_dot(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce-add(dot(x, y), 0) over batch dimensions = dot(x, y) contracting them."""
    op, x = _simple(inst, ops.DOT), inst.operands[0]
    if op is not ops.ADD or not single_user(x) or x.attrs.sparsity:
        return None
    a, gone = x.attrs, set(inst.attrs.dimensions)
    wide = x.shape.element_type in (x.operands[0].shape.element_type, x.operands[1].shape.element_type)
    if not gone or any(d >= len(a.lhs_batch_dims) for d in gone) or x.shape.element_type.bits < 32 or not wide:
        return None
    if not (is_identity(op, inst.operands[1]) or either_zero(inst.operands[1])):
        return None
    stay = [i for i in range(len(a.lhs_batch_dims)) if i not in gone]
    moved = sorted(gone)
    attrs = ops.DotAttrs(
        tuple(a.lhs_batch_dims[i] for i in stay),
        (*a.lhs_contracting_dims, *(a.lhs_batch_dims[i] for i in moved)),
        tuple(a.rhs_batch_dims[i] for i in stay),
        (*a.rhs_contracting_dims, *(a.rhs_batch_dims[i] for i in moved)),
        a.operand_precision,
        a.algorithm,
    )
    return rw.add(ops.DOT, x.operands, attrs, shape=inst.shape.without_layout())


@value_changing(Fp.DEFAULT, "of -0 and 0 the minimum may be either")
def reduce_argminmax(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce-min(x) = get-tuple-element(argmin-reduce(x), 0), where that is computed anyway; the same for max."""
    op = _simple(inst)
    if op not in (ops.MINIMUM, ops.MAXIMUM) or not is_identity(op, inst.operands[1]):
        return None
    for user in inst.operands[0].users:
        if user.op is not ops.REDUCE or len(user.operands) != 4 or user.operands[0] is not inst.operands[0]:
            continue
        direction = "LT" if op is ops.MINIMUM else "GT"
        if user.operands[1].op is not ops.IOTA or user.control_predecessors:
            continue  # it might depend on this reduction
        same = user.attrs == inst.attrs and is_identity(op, user.operands[2])
        if same and _is_arg_reducer(user.called[0], direction):
            return rw.add(ops.GET_TUPLE_ELEMENT, [user], ops.IndexAttrs(0))
    return None


def _is_arg_reducer(comp: Computation, direction: str) -> bool:
    """Whether a reducer's first result is select(a < b or a is NaN, a, b) of the value parameters."""
    root = comp.root
    if root.op is not ops.TUPLE or len(comp.parameters) != 4 or len(root.operands) != 2:
        return False
    value = root.operands[0]
    a, b = comp.parameters[0], comp.parameters[2]
    if value.op is not ops.SELECT or value.operands[1:] != (a, b) or value.operands[0].op is not ops.OR:
        return False
    tests = value.operands[0].operands
    found = {(t.attrs.direction.value, t.operands) for t in tests if t.op is ops.COMPARE and t.attrs.type is None}
    return found == {(direction, (a, b)), ("NE", (a, a))}


def reduce_unary_tuple(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """A reduction whose result is a tuple of one = tuple(the plain reduction)."""
    if not inst.shape.is_tuple or len(inst.shape.tuple_shapes) != 1 or inst.called[0].root.op is not ops.TUPLE:
        return None
    rw.permit()
    plain = rewriter.clone_computation(inst.called[0])
    plain.set_root(plain.root.operands[0])
    new = rw.add(inst.op, inst.operands, inst.attrs, called=[plain], shape=inst.shape.tuple_shapes[0])
    return rw.add(ops.TUPLE, [new])


TABLE = rule_table(
    (
        [ops.REDUCE],
        (
            reduce_unary_tuple, reduce_empty, reduce_of_ones, reduce_drops_ones, reduce_uniform, reduce_broadcast,
            sum_of_broadcast, sum_of_broadcast_floats, reduce_reduce, reduce_pad, reduce_transpose, reduce_reshape,
            reduce_concatenate, reduce_concatenate_floats, reduce_batch_dot, reduce_argminmax,
        ),
    ),
)  # fmt: skip
