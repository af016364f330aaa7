"""Makers of random modules that contract, reduce, index or call computations."""

from __future__ import annotations

import math
from typing import Any

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection, ConvDims, FusionKind, Window, WindowDim
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.ops.basic import IndexAttrs, IotaAttrs, ParameterAttrs
from xyla.hlo.ops.compute import ConvolutionAttrs, DotAttrs, ReduceAttrs, SortAttrs, WindowAttrs
from xyla.hlo.ops.control import CallAttrs, FusionAttrs
from xyla.hlo.ops.elementwise import CompareAttrs
from xyla.hlo.ops.movement import DimensionsAttrs, GatherAttrs, ScatterAttrs
from xyla.hlo.shape import Shape
from xyla.support.dtypes import F32, F64, PRED, S32, S64, ElementType
from xyla.testing.module_ops import combine, grow, is_float, maker, narrow
from xyla.testing.modules import EXACT, MAX_BOUND, MAX_ELEMENTS, Builder, Fact, random_array

MAX_DEPTH = 2


def _callee(b: Builder, name: str) -> Computation:
    return b.module.add_computation(name)


def _param(comp: Computation, shape: Shape) -> Instruction:
    return comp.add(ops.PARAMETER, (), ParameterAttrs(len(comp.parameters)), shape=shape)


def reducer(b: Builder, op: OpDef[Any], et: ElementType) -> Computation:
    """(a, b) -> op(a, b)."""
    comp = _callee(b, f"{op.name}_{et.name}")
    scalar = Shape.array(et, ())
    comp.set_root(comp.add(op, [_param(comp, scalar), _param(comp, scalar)]))
    return comp


def _reduction(b: Builder, x: Instruction) -> tuple[OpDef[Any], Instruction]:
    """An associative op for x's type and its initial value."""
    et = x.shape.element_type
    if et is PRED:
        op, init = b.rng.choice(((ops.AND, 1), (ops.OR, 0)))
    elif et.is_complex:
        op, init = ops.ADD, 0
    else:
        op, init = b.rng.choice(
            ((ops.ADD, 0), (ops.MAXIMUM, -4 if et.is_signed or et.is_float else 0), (ops.MINIMUM, 4))
        )
    return op, b.scalar(init, et)


def _reduced_fact(b: Builder, x: Instruction, op: OpDef[Any], count: int) -> Fact | None:
    """The fact after reducing `count` elements; None when it would not stay comparable."""
    et = x.shape.element_type
    fact = b.fact(x)
    if not et.is_float and not et.is_complex:
        return EXACT
    if op is not ops.ADD:
        return Fact(fact.exact, max(fact.bound, 4.0), fact.amplification)
    bound = fact.bound * max(count, 1)
    if bound > MAX_BOUND or not fact.usable:
        return None
    # Sums are taken in any order: the error grows with the count.
    return Fact(False, bound, fact.amplification + count + 2)


@maker(4)
def reduce(b: Builder) -> bool:
    """reduce over a subset of the dimensions."""
    x = b.pick(lambda v: v.shape.rank > 0)
    if x is None:
        return False
    op, init = _reduction(b, x)
    dims = b.subset(x.shape.rank) or (b.rng.randrange(x.shape.rank),)
    fact = _reduced_fact(b, x, op, math.prod(x.shape.dims[d] for d in dims))
    if fact is None:
        return False
    called = [reducer(b, op, x.shape.element_type)]
    b.emit(ops.REDUCE, [x, init], ReduceAttrs(dims), called=called, fact=fact)
    return True


@maker(2)
def argmax(b: Builder) -> bool:
    """A variadic reduce: the largest exact value and its smallest index."""
    x = b.pick_exact(lambda v: v.shape.rank > 0 and v.shape.element_type in (F32, S32))
    if x is None:
        return False
    axis, et = b.rng.randrange(x.shape.rank), x.shape.element_type
    index = b.emit(ops.IOTA, (), IotaAttrs(axis), shape=x.shape.with_type(S32))
    comp = _callee(b, "argmax")
    scalar, count = Shape.array(et, ()), Shape.array(S32, ())
    p = [_param(comp, s) for s in (scalar, count, scalar, count)]
    gt = comp.add(ops.COMPARE, [p[0], p[2]], CompareAttrs(ComparisonDirection.GT))
    eq = comp.add(ops.COMPARE, [p[0], p[2]], CompareAttrs(ComparisonDirection.EQ))
    first = comp.add(ops.COMPARE, [p[1], p[3]], CompareAttrs(ComparisonDirection.LT))
    left = comp.add(ops.OR, [gt, comp.add(ops.AND, [eq, first])])
    picks = [comp.add(ops.SELECT, [left, p[0], p[2]]), comp.add(ops.SELECT, [left, p[1], p[3]])]
    comp.set_root(comp.add(ops.TUPLE, picks))
    operands = [x, index, b.scalar(-1000, et), b.scalar(99, S32)]
    both = b.emit(ops.REDUCE, operands, ReduceAttrs((axis,)), called=[comp])
    _unpack(b, both, [b.fact(x), EXACT])
    return True


def _unpack(b: Builder, inst: Instruction, facts: list[Fact]) -> None:
    for i, fact in enumerate(facts):
        b.emit(ops.GET_TUPLE_ELEMENT, [inst], IndexAttrs(i), fact=fact)


@maker(2)
def reduce_window(b: Builder) -> bool:
    """reduce-window with strides, padding and dilations."""
    x = b.pick(lambda v: v.shape.rank > 0)
    if x is None:
        return False
    op, init = _reduction(b, x)
    dims = tuple(
        WindowDim(
            b.rng.randint(1, 3),
            b.rng.randint(1, 2),
            b.rng.randint(0, 1),
            b.rng.randint(0, 1),
            b.rng.choice((1, 1, 2)),
            b.rng.choice((1, 1, 2)),
        )
        for _ in x.shape.dims
    )
    fact = _reduced_fact(b, x, op, math.prod(w.size for w in dims))
    if fact is None or math.prod(Window(dims).output_dims(x.shape.dims)) > MAX_ELEMENTS:
        return False
    called = [reducer(b, op, x.shape.element_type)]
    b.emit(ops.REDUCE_WINDOW, [x, init], WindowAttrs(Window(dims)), called=called, fact=fact)
    return True


@maker(1)
def select_and_scatter(b: Builder) -> bool:
    """select-and-scatter of integers: ties go to the first, sums are exact."""
    x = b.pick(lambda v: v.shape.rank > 0 and v.shape.element_type is S32 and 0 not in v.shape.dims)
    if x is None:
        return False
    window = Window(tuple(WindowDim(b.rng.randint(1, min(2, d)), b.rng.randint(1, 2)) for d in x.shape.dims))
    source = b.constant(random_array(Shape.array(S32, window.output_dims(x.shape.dims)), b.rng), S32)
    scalar = Shape.array(S32, ())
    comp = _callee(b, "ge")
    params = [_param(comp, scalar), _param(comp, scalar)]
    comp.set_root(comp.add(ops.COMPARE, params, CompareAttrs(ComparisonDirection.GE)))
    called = [comp, reducer(b, ops.ADD, S32)]
    b.emit(ops.SELECT_AND_SCATTER, [x, source, b.scalar(0, S32)], WindowAttrs(window), called=called)
    return True


# -- contractions ----------------------------------------------------------------------------------------------


def _contracted(b: Builder, x: Instruction, y: Instruction, count: int) -> Fact | None:
    if not is_float(x) and not x.shape.element_type.is_complex:
        return EXACT
    bound = 2 * b.fact(x).bound * b.fact(y).bound * max(count, 1)
    if bound > MAX_BOUND or not (b.fact(x).usable and b.fact(y).usable):
        return None
    slope = count * max(b.fact(x).bound, b.fact(y).bound, 1.0)
    fact = combine(b, x, y, bound=bound, factor=slope, exact=False)
    return Fact(False, fact.bound, fact.amplification + count + 2)


@maker(4)
def dot(b: Builder) -> bool:
    """dot of a value with a transposed constant: batch and contracting dimensions anywhere."""
    x = b.pick(lambda v: 0 < v.shape.rank <= 3 and v.shape.element_type is not PRED)
    if x is None:
        return False
    rank, et = x.shape.rank, x.shape.element_type
    roles = [b.rng.choice("bcf") for _ in range(rank)]
    batch = tuple(i for i in range(rank) if roles[i] == "b")[:1]
    contract = tuple(i for i in range(rank) if roles[i] == "c")
    free = b.dims(1)
    shared = [*batch, *contract]
    order = b.permutation(len(shared) + 1)
    sizes = [*(x.shape.dims[d] for d in shared), *free]
    where = {source: position for position, source in enumerate(order)}
    y_shape = Shape.array(et, [sizes[s] for s in order])
    y = b.pick(lambda v: v.shape is y_shape) or b.constant(random_array(y_shape, b.rng), et)
    fact = _contracted(b, x, y, math.prod(x.shape.dims[d] for d in contract))
    kept = [d for i, d in enumerate(x.shape.dims) if i not in contract]
    if fact is None or math.prod(kept) * free[0] > MAX_ELEMENTS:
        return False
    n = len(batch)
    attrs = DotAttrs(
        batch, contract, tuple(where[i] for i in range(n)), tuple(where[n + i] for i in range(len(contract)))
    )
    b.emit(ops.DOT, [x, y], attrs, fact=fact)
    return True


_LABELS = ConvDims(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))  # b0f_0io->b0f


@maker(2)
def convolution(b: Builder) -> bool:
    """A one-dimensional convolution with any window, groups included."""
    x = b.pick(lambda v: v.shape.rank == 3 and v.shape.element_type in (F32, F64, S32) and 0 not in v.shape.dims)
    if x is None:
        return False
    et, features = x.shape.element_type, x.shape.dims[2]
    groups = b.rng.choice((1, features))
    size = b.rng.randint(1, 3)
    kernel = b.constant(random_array(Shape.array(et, (size, features // groups, 2 * groups)), b.rng), et)
    window = Window(
        (
            WindowDim(
                size,
                b.rng.randint(1, 2),
                b.rng.randint(-1, 2),
                b.rng.randint(0, 2),
                b.rng.choice((1, 1, 2)),
                b.rng.choice((1, 1, 2)),
                b.rng.random() < 0.2,
            ),
        )
    )
    fact = _contracted(b, x, kernel, size * features // groups)
    if fact is None:
        return False
    b.emit(
        ops.CONVOLUTION,
        [x, kernel],
        ConvolutionAttrs(window=window, dim_labels=_LABELS, feature_group_count=groups),
        fact=fact,
    )
    return True


# -- indexing --------------------------------------------------------------------------------------------------


@maker(2)
def gather(b: Builder) -> bool:
    """Rows of a matrix-like value by in- and out-of-bounds indices."""
    x = b.pick(lambda v: v.shape.rank > 0 and 0 not in v.shape.dims)
    if x is None:
        return False
    axis = b.rng.randrange(x.shape.rank)
    kind = b.rng.choice((S32, S64))
    indices = b.constant(random_array(Shape.array(kind, b.dims(1)), b.rng), kind)
    sizes = tuple(1 if i == axis else b.rng.randint(1, d) for i, d in enumerate(x.shape.dims))
    if math.prod(sizes) * indices.shape.num_elements > MAX_ELEMENTS:
        return False
    attrs = GatherAttrs(
        offset_dims=tuple(range(1, x.shape.rank)),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=1,
        slice_sizes=sizes,
    )
    b.emit(ops.GATHER, [x, indices], attrs, fact=b.fact(x))
    return True


@maker(2)
def scatter(b: Builder) -> bool:
    """Adds rows of integers into an integer value (exact whatever the order)."""
    x = b.pick(lambda v: v.shape.rank > 0 and v.shape.element_type.is_integer and 0 not in v.shape.dims)
    if x is None:
        return False
    et, axis = x.shape.element_type, b.rng.randrange(x.shape.rank)
    indices = b.constant(random_array(Shape.array(S32, b.dims(1)), b.rng), S32)
    window = [d for i, d in enumerate(x.shape.dims) if i != axis]
    updates = Shape.array(et, (*indices.shape.dims, *window))
    attrs = ScatterAttrs(
        update_window_dims=tuple(range(1, x.shape.rank)),
        inserted_window_dims=(axis,),
        scatter_dims_to_operand_dims=(axis,),
        index_vector_dim=1,
    )
    op = b.rng.choice((ops.ADD, ops.MAXIMUM, ops.XOR))
    operands = [x, indices, b.constant(random_array(updates, b.rng), et)]
    b.emit(ops.SCATTER, operands, attrs, called=[reducer(b, op, et)])
    return True


@maker(2)
def sort(b: Builder) -> bool:
    """A stable sort of exact keys, with a payload at times."""
    x = b.pick_exact(lambda v: v.shape.rank > 0 and not v.shape.element_type.is_complex)
    if x is None:
        return False
    payload = b.pick(lambda v: v.shape.dims == x.shape.dims) if b.rng.random() < 0.5 else None
    operands = [x] if payload is None else [x, payload]
    comp = _callee(b, "before")
    params = [_param(comp, Shape.array(o.shape.element_type, ())) for o in operands for _ in (0, 1)]
    direction = b.rng.choice((ComparisonDirection.LT, ComparisonDirection.GT))
    comp.set_root(comp.add(ops.COMPARE, params[:2], CompareAttrs(direction)))
    made = b.emit(ops.SORT, operands, SortAttrs(b.rng.randrange(x.shape.rank), True), called=[comp], fact=b.fact(x))
    if payload is not None:
        _unpack(b, made, [b.fact(x), b.fact(payload)])
    return True


# -- calls -----------------------------------------------------------------------------------------------------


def _nested(b: Builder, name: str, params: list[tuple[Shape, Fact]], size: int) -> Builder:
    """A builder over a new computation with these parameters and `size` random instructions."""
    inner = Builder(_callee(b, name), b.rng, b.depth + 1)
    for shape, fact in params:
        inner.parameter(shape, fact)
    grow(inner, size + len(params))
    return inner


def _finish(inner: Builder, shape: Shape) -> Fact:
    """Makes the last usable value of `shape` the root (there is one: a parameter has it)."""
    root = inner.pick(lambda v: v.shape is shape and (inner.fact(v).exact or inner.fact(v).usable))
    assert root is not None
    inner.comp.set_root(root)
    return inner.fact(root)


@maker(2)
def call(b: Builder) -> bool:
    """A call or a loop fusion of a random computation."""
    x = b.pick(lambda v: b.fact(v).exact or b.fact(v).usable)
    if x is None or b.depth >= MAX_DEPTH:
        return False
    inner = _nested(b, "callee", [(x.shape, b.fact(x))], b.rng.randint(2, 6))
    fact = _finish(inner, x.shape)
    elementwise = all(i.op not in (ops.WHILE, ops.CONDITIONAL, ops.CALL, ops.FUSION) for i in inner.comp.instructions)
    if elementwise and b.rng.random() < 0.5:
        b.emit(ops.FUSION, [x], FusionAttrs(FusionKind.LOOP), called=[inner.comp], fact=fact)
    else:
        b.emit(ops.CALL, [x], CallAttrs(), called=[inner.comp], fact=fact)
    return True


@maker(2)
def conditional(b: Builder) -> bool:
    """A conditional by predicate or by index."""
    x = b.pick(lambda v: b.fact(v).exact or b.fact(v).usable)
    if x is None or b.depth >= MAX_DEPTH:
        return False
    indexed = b.rng.random() < 0.5
    kind = Shape.array(S32 if indexed else PRED, ())
    selector = b.pick_exact(lambda v: v.shape is kind) or b.scalar(b.rng.randint(0, 1), kind.element_type)
    branches, facts = [], []
    for _ in range(b.rng.randint(1, 3) if indexed else 2):
        inner = _nested(b, "branch", [(x.shape, b.fact(x))], b.rng.randint(1, 5))
        facts.append(_finish(inner, x.shape))
        branches.append(inner.comp)
    fact = Fact(all(f.exact for f in facts), max(f.bound for f in facts), max(f.amplification for f in facts))
    b.emit(ops.CONDITIONAL, [selector, *[x] * len(branches)], called=branches, fact=fact)
    return True


@maker(2)
def loop(b: Builder) -> bool:
    """A counted while whose state is a counter and one value.

    Integers go through a random body. Floats are averaged with a constant, so that errors do not grow with the trips.
    """
    x = b.pick(lambda v: not v.shape.element_type.is_complex and (b.fact(v).exact or b.fact(v).usable))
    if x is None or b.depth >= MAX_DEPTH:
        return False
    counter = Shape.array(S32, ())
    state = Shape.tuple_of([counter, x.shape])
    condition = _callee(b, "condition")
    i = condition.add(ops.GET_TUPLE_ELEMENT, [_param(condition, state)], IndexAttrs(0))
    limit = Builder(condition, b.rng).scalar(b.rng.randint(0, 5), S32)
    condition.set_root(condition.add(ops.COMPARE, [i, limit], CompareAttrs(ComparisonDirection.LT)))
    body, fact = _loop_body(b, x, state)
    init = b.comp.add(ops.TUPLE, [b.scalar(b.rng.randint(-1, 1), S32), x])
    made = b.emit(ops.WHILE, [init], called=[condition, body])
    _unpack(b, made, [EXACT, fact])
    return True


def _loop_body(b: Builder, x: Instruction, state: Shape) -> tuple[Computation, Fact]:
    inner = Builder(_callee(b, "body"), b.rng, b.depth + 1)
    param = _param(inner.comp, state)
    i = inner.emit(ops.GET_TUPLE_ELEMENT, [param], IndexAttrs(0))
    value = inner.emit(ops.GET_TUPLE_ELEMENT, [param], IndexAttrs(1), fact=b.fact(x))
    step = inner.comp.add(ops.ADD, [i, inner.scalar(b.rng.randint(1, 2), S32)])
    et = x.shape.element_type
    fact = EXACT
    if et.is_float:
        half = inner.emit(ops.BROADCAST, [inner.scalar(0.5, et)], DimensionsAttrs(()), shape=x.shape)
        scaled = inner.comp.add(ops.MULTIPLY, [value, half])
        result = inner.comp.add(ops.ADD, [scaled, half])
        old = b.fact(x)
        fact = Fact(old.exact and not narrow(et), old.bound + 1, 2 * old.amplification + 16)
    else:
        grow(inner, len(inner.comp.instructions) + b.rng.randint(2, 5))
        picked = inner.pick(lambda v: v.shape is x.shape and inner.fact(v).exact)
        assert picked is not None
        result = picked
    inner.comp.set_root(inner.comp.add(ops.TUPLE, [step, result]))
    return inner.comp, fact


@maker(1)
def map_(b: Builder) -> bool:
    """map of an integer pair function."""
    x = b.pick(lambda v: v.shape.element_type.is_integer)
    if x is None:
        return False
    scalar = Shape.array(x.shape.element_type, ())
    comp = _callee(b, "mapped")
    params = [_param(comp, scalar), _param(comp, scalar)]
    comp.set_root(comp.add(ops.SUBTRACT, [comp.add(ops.MULTIPLY, params), params[0]]))
    y = b.pick(lambda v: v.shape is x.shape) or x
    b.emit(ops.MAP, [x, y], DimensionsAttrs(tuple(range(x.shape.rank))), called=[comp])
    return True
