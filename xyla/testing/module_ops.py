"""The ops that `xyla.testing.modules` draws from: one maker a family, each adding a few instructions or nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection, PaddingDim, SliceDim
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.ops.basic import IotaAttrs
from xyla.hlo.ops.elementwise import CompareAttrs, ReducePrecisionAttrs
from xyla.hlo.ops.movement import (
    DimensionAttrs,
    DimensionsAttrs,
    DynamicSliceAttrs,
    PadAttrs,
    ReshapeAttrs,
    SliceAttrs,
)
from xyla.hlo.shape import Shape
from xyla.support.dtypes import BF16, F16, F32, F64, PRED, S32, ElementType
from xyla.testing.modules import MAX_BOUND, MAX_ELEMENTS, Builder, Fact, random_array

Maker = Callable[[Builder], bool]
MAKERS: list[tuple[Maker, int]] = []


def maker(weight: int) -> Callable[[Maker], Maker]:
    """Registers a maker: `weight` times as likely as one of weight 1."""

    def register(fn: Maker) -> Maker:
        MAKERS.append((fn, weight))
        return fn

    return register


def grow(b: Builder, size: int) -> None:
    """Adds makers' instructions until the computation holds about `size`."""
    from xyla.testing import module_calls  # noqa: F401 - registers its makers

    fns = [fn for fn, _ in MAKERS]
    weights = [weight for _, weight in MAKERS]
    for _ in range(4 * size):
        if len(b.comp.instructions) >= size:
            return
        b.rng.choices(fns, weights)[0](b)


def is_float(v: Instruction) -> bool:
    """A real floating-point array."""
    return v.shape.element_type.is_float


def narrow(et: ElementType) -> bool:
    """A type in which engines may keep more precision between ops."""
    return et in (F16, BF16)


def combine(b: Builder, *operands: Instruction, bound: float, factor: float = 1.0, exact: bool = True) -> Fact:
    """The fact of a float result: errors add up, scaled by the op's slope `factor`, plus one rounding."""
    facts = [b.fact(o) for o in operands]
    et = operands[0].shape.element_type
    if exact and all(f.exact for f in facts) and not narrow(et):
        return Fact(True, bound, 0.0)
    carried = sum((f.amplification + 1) * (1 + f.bound) for f in facts if not f.exact)
    return Fact(False, bound, factor * carried / (1 + bound) + 2)


# -- element-wise ----------------------------------------------------------------------------------------------

# (op, bound of the result for |x| <= b, largest slope on that range)
_SMOOTH: tuple[tuple[OpDef[Any], Callable[[float], float], Callable[[float], float]], ...] = (
    (ops.TANH, lambda x: 1.0, lambda x: 1.0),
    (ops.LOGISTIC, lambda x: 1.0, lambda x: 0.25),
    (ops.SINE, lambda x: 1.0, lambda x: 1.0),
    (ops.COSINE, lambda x: 1.0, lambda x: 1.0),
    (ops.ERF, lambda x: 1.0, lambda x: 1.2),
    (ops.EXP, lambda x: math.exp(x), lambda x: math.exp(x)),
    (ops.EXPM1, lambda x: math.exp(x), lambda x: math.exp(x)),
)
_EXACT_UNARY = (ops.FLOOR, ops.CEIL, ops.ROUND_EVEN, ops.ROUND_AFZ, ops.SIGN)


@maker(4)
def smooth_unary(b: Builder) -> bool:
    """A transcendental function of a small float."""
    x = b.pick(lambda v: is_float(v) and b.fact(v).usable and b.fact(v).bound <= 8)
    if x is None:
        return False
    op, bound, slope = b.rng.choice(_SMOOTH)
    size = b.fact(x).bound
    b.emit(op, [x], op.attrs(), fact=combine(b, x, bound=bound(size), factor=max(slope(size), 1.0), exact=False))
    return True


@maker(2)
def guarded_unary(b: Builder) -> bool:
    """sqrt, log1p, rsqrt, cbrt of 1 + |x|, where they are smooth."""
    x = b.pick(lambda v: is_float(v) and b.fact(v).usable)
    if x is None:
        return False
    et = x.shape.element_type
    bound = b.fact(x).bound + 1
    one = b.emit(ops.BROADCAST, [b.scalar(1, et)], DimensionsAttrs(()), shape=x.shape)
    positive = b.emit(ops.ABS, [x], fact=combine(b, x, bound=bound))
    total = b.emit(ops.ADD, [positive, one], fact=combine(b, positive, bound=bound))
    op = b.rng.choice((ops.SQRT, ops.LOG1P, ops.RSQRT, ops.CBRT, ops.LOG))
    b.emit(op, [total], op.attrs(), fact=combine(b, total, bound=math.sqrt(bound) + 1, exact=False))
    return True


@maker(3)
def exact_unary(b: Builder) -> bool:
    """Rounding, sign: only of exact values, for they jump."""
    x = b.pick_exact(is_float)
    if x is None:
        return False
    b.emit(b.rng.choice(_EXACT_UNARY), [x], fact=Fact(True, b.fact(x).bound + 1))
    return True


@maker(3)
def any_unary(b: Builder) -> bool:
    """negate, abs, copy, not, popcnt, clz, is-finite, real, imag."""
    x = b.pick(lambda v: True)
    if x is None:
        return False
    et, fact = x.shape.element_type, b.fact(x)
    choices: list[OpDef[Any]] = [ops.COPY]
    if et is PRED:
        choices.append(ops.NOT)
    elif et.is_integer:
        choices += [ops.NEGATE, ops.NOT, ops.POPCNT, ops.CLZ, ops.SIGN, ops.ABS]
    elif et.is_complex:
        choices += [ops.NEGATE, ops.REAL, ops.IMAG]
    else:
        choices += [ops.NEGATE, ops.ABS]
    b.emit(b.rng.choice(choices), [x], fact=fact)
    return True


_INTEGER_BINARY = (
    ops.ADD, ops.SUBTRACT, ops.MULTIPLY, ops.DIVIDE, ops.REMAINDER, ops.MAXIMUM, ops.MINIMUM, ops.AND, ops.OR, ops.XOR,
    ops.SHIFT_LEFT, ops.SHIFT_RIGHT_ARITHMETIC, ops.SHIFT_RIGHT_LOGICAL,
)  # fmt: skip


@maker(8)
def binary(b: Builder) -> bool:
    """Arithmetic on two values of one shape."""
    x = b.pick(lambda v: b.fact(v).usable or b.fact(v).exact)
    if x is None:
        return False
    y = b.pick(lambda v: v.shape is x.shape and (b.fact(v).usable or b.fact(v).exact)) or x
    et = x.shape.element_type
    if et is PRED:
        b.emit(b.rng.choice((ops.AND, ops.OR, ops.XOR, ops.MAXIMUM, ops.MINIMUM)), [x, y])
    elif et.is_integer:
        b.emit(b.rng.choice(_INTEGER_BINARY), [x, y])
    else:
        _float_binary(b, x, y)
    return True


def _float_binary(b: Builder, x: Instruction, y: Instruction) -> None:
    p, q = b.fact(x).bound, b.fact(y).bound
    real = not x.shape.element_type.is_complex
    exact = real  # complex products are evaluated in more than one order
    op = b.rng.choice((ops.ADD, ops.SUBTRACT, ops.MULTIPLY, *((ops.MAXIMUM, ops.MINIMUM, ops.DIVIDE) if real else ())))
    bit_exact = b.fact(x).exact and b.fact(y).exact and not narrow(x.shape.element_type)
    if op is ops.DIVIDE:
        # IEEE division is correctly rounded; a zero divisor gives an infinity or NaN, which exact ops carry on.
        if bit_exact:
            b.emit(op, [x, y], fact=Fact(True, math.inf))
        return
    if not bit_exact and p + q > MAX_BOUND:
        return
    if op is ops.MULTIPLY:
        if p * q > 1e4:
            return
        b.emit(op, [x, y], fact=combine(b, x, y, bound=2 * p * q, factor=max(p, q, 1.0), exact=exact))
    elif op in (ops.MAXIMUM, ops.MINIMUM):
        b.emit(op, [x, y], fact=combine(b, x, y, bound=max(p, q)))
    else:
        b.emit(op, [x, y], fact=combine(b, x, y, bound=p + q))


@maker(3)
def compare(b: Builder) -> bool:
    """A predicate of exact values."""
    x = b.pick_exact()
    if x is None:
        return False
    y = b.pick_exact(lambda v: v.shape is x.shape) or x
    names = ("EQ", "NE") if x.shape.element_type.is_complex else ("EQ", "NE", "LT", "LE", "GT", "GE")
    b.emit(ops.COMPARE, [x, y], CompareAttrs(ComparisonDirection(b.rng.choice(names))))
    return True


@maker(3)
def select(b: Builder) -> bool:
    """select with a predicate of the same dims, made if there is none."""
    x = b.pick(lambda v: True)
    if x is None:
        return False
    y = b.pick(lambda v: v.shape is x.shape) or x
    want = Shape.array(PRED, x.shape.dims)
    pred = b.pick(lambda v: v.shape is want) or b.constant(random_array(want, b.rng), PRED)
    b.emit(ops.SELECT, [pred, x, y], fact=combine(b, x, y, bound=max(b.fact(x).bound, b.fact(y).bound)))
    return True


@maker(1)
def clamp(b: Builder) -> bool:
    """clamp between scalars."""
    x = b.pick(lambda v: not v.shape.element_type.is_complex and v.shape.element_type is not PRED)
    if x is None:
        return False
    et = x.shape.element_type
    b.emit(ops.CLAMP, [b.scalar(1, et), x, b.scalar(5, et)], fact=combine(b, x, bound=5.0))
    return True


@maker(4)
def convert(b: Builder) -> bool:
    """A conversion; to integers and predicates only of exact values within range."""
    x = b.pick(lambda v: b.fact(v).usable or b.fact(v).exact)
    if x is None:
        return False
    source, fact = x.shape.element_type, b.fact(x)
    target = b.element_type()
    if source.is_complex and not target.is_complex:
        return False
    if not target.is_float and not target.is_complex:
        if not fact.exact:
            return False
        b.emit(ops.CONVERT, [x], shape=x.shape.with_type(target))
        return True
    if source.is_integer and source.bits > 8:
        # Any bit pattern may be in there: its float is exact but of unknown size.
        if target not in (F32, F64):
            return False
        b.emit(ops.CONVERT, [x], shape=x.shape.with_type(target), fact=Fact(True, 2.0**64))
        return True
    size = 256.0 if source.is_integer else 1.0 if source is PRED else fact.bound
    exact = fact.exact and not narrow(target)
    loss = fact.amplification + 4 if source.is_float or source.is_complex else 4.0
    scale = 2.0**16 if narrow(source) and target in (F32, F64) and not fact.exact else 1.0
    b.emit(ops.CONVERT, [x], shape=x.shape.with_type(target), fact=Fact(exact, size, 0.0 if exact else loss * scale))
    return True


@maker(1)
def reduce_precision(b: Builder) -> bool:
    """reduce-precision of an exact value."""
    x = b.pick_exact(lambda v: v.shape.element_type is F32)
    if x is None:
        return False
    b.emit(
        ops.REDUCE_PRECISION, [x], ReducePrecisionAttrs(8, b.rng.randint(1, 20)), fact=Fact(True, 2 * b.fact(x).bound)
    )
    return True


@maker(1)
def bitcast_convert(b: Builder) -> bool:
    """f32 bits as s32 (and not back: any float could come out)."""
    x = b.pick_exact(lambda v: v.shape.element_type is F32)
    if x is None:
        return False
    b.emit(ops.BITCAST_CONVERT, [x], shape=x.shape.with_type(S32))
    return True


# -- movement --------------------------------------------------------------------------------------------------


@maker(2)
def leaf(b: Builder) -> bool:
    """A constant or an iota."""
    shape = Shape.array(b.element_type(), b.dims())
    et = shape.element_type
    if b.rng.random() < 0.5 and shape.rank and et is not PRED:
        axis = b.rng.randrange(shape.rank)
        b.emit(ops.IOTA, (), IotaAttrs(axis), shape=shape)
        return True
    inst = b.constant(random_array(shape, b.rng), et)
    b.values.append(inst)
    return True


@maker(4)
def broadcast(b: Builder) -> bool:
    """A broadcast with new dimensions among the old ones."""
    x = b.pick(lambda v: v.shape.rank <= 2)
    if x is None:
        return False
    rank = x.shape.rank + b.rng.randint(0 if x.shape.rank else 1, 1)
    where = b.permutation(rank)[: x.shape.rank]
    dims = list(b.dims(rank))
    for i, d in enumerate(where):
        dims[d] = x.shape.dims[i]
    if math.prod(dims) > MAX_ELEMENTS:
        return False
    b.emit(ops.BROADCAST, [x], DimensionsAttrs(where), shape=Shape.array(x.shape.element_type, dims), fact=b.fact(x))
    return True


@maker(3)
def reshape(b: Builder) -> bool:
    """Flatten, split off a factor, or add a one."""
    x = b.pick(lambda v: True)
    if x is None:
        return False
    count = x.shape.num_elements
    factor = b.rng.choice((1, 2, 3, 4))
    options = [(count,), (*x.shape.dims, 1), (1, count)]
    if count % factor == 0 and count:
        options.append((factor, count // factor))
    b.emit(ops.RESHAPE, [x], ReshapeAttrs(), shape=x.shape.with_dims(b.rng.choice(options)), fact=b.fact(x))
    return True


@maker(4)
def permute(b: Builder) -> bool:
    """transpose or reverse."""
    x = b.pick(lambda v: v.shape.rank > 0)
    if x is None:
        return False
    if b.rng.random() < 0.6:
        b.emit(ops.TRANSPOSE, [x], DimensionsAttrs(b.permutation(x.shape.rank)), fact=b.fact(x))
    else:
        b.emit(ops.REVERSE, [x], DimensionsAttrs(b.subset(x.shape.rank)), fact=b.fact(x))
    return True


@maker(3)
def slice_(b: Builder) -> bool:
    """A strided slice."""
    x = b.pick(lambda v: v.shape.rank > 0)
    if x is None:
        return False
    ranges = []
    for d in x.shape.dims:
        start = b.rng.randint(0, max(d - 1, 0))
        ranges.append(SliceDim(start, b.rng.randint(start, d), b.rng.choice((1, 1, 2))))
    b.emit(ops.SLICE, [x], SliceAttrs(tuple(ranges)), fact=b.fact(x))
    return True


def _starts(b: Builder, count: int) -> list[Instruction]:
    """Start indices: s32 scalars, in and out of bounds."""
    scalar = Shape.array(S32, ())
    made = [b.pick_exact(lambda v: v.shape is scalar) if b.rng.random() < 0.4 else None for _ in range(count)]
    return [m or b.scalar(b.rng.randint(-2, 6), S32) for m in made]


@maker(3)
def dynamic_slice(b: Builder) -> bool:
    """dynamic-slice, and an update in the same place."""
    x = b.pick(lambda v: v.shape.rank > 0)
    if x is None:
        return False
    sizes = tuple(b.rng.randint(min(1, d), d) for d in x.shape.dims)
    starts = _starts(b, x.shape.rank)
    part = b.emit(ops.DYNAMIC_SLICE, [x, *starts], DynamicSliceAttrs(sizes), fact=b.fact(x))
    if b.rng.random() < 0.6:
        update = b.pick(lambda v: v.shape is part.shape) or part
        bound = max(b.fact(x).bound, b.fact(update).bound)
        fact = combine(b, x, update, bound=bound)
        b.emit(ops.DYNAMIC_UPDATE_SLICE, [x, update, *_starts(b, x.shape.rank)], fact=fact)
    return True


@maker(3)
def pad(b: Builder) -> bool:
    """pad with positive, negative and interior padding."""
    x = b.pick(lambda v: v.shape.rank > 0)
    if x is None:
        return False
    padding = []
    for d in x.shape.dims:
        interior = b.rng.choice((0, 0, 0, 1, 2))
        inner = d + max(d - 1, 0) * interior
        low = b.rng.randint(-1, 2)
        padding.append(PaddingDim(low, max(b.rng.randint(-1, 2), -inner - min(low, 0), -inner - low), interior))
    value = b.scalar(1, x.shape.element_type)
    result = ops.PAD.infer
    assert result is not None
    if result([x.shape, value.shape], PadAttrs(tuple(padding)), ()).num_elements > MAX_ELEMENTS:
        return False
    b.emit(ops.PAD, [x, value], PadAttrs(tuple(padding)), fact=b.fact(x))
    return True


@maker(3)
def concatenate(b: Builder) -> bool:
    """concatenate values that agree off one dimension."""
    x = b.pick(lambda v: v.shape.rank > 0 and v.shape.num_elements <= MAX_ELEMENTS // 3)
    if x is None:
        return False
    axis = b.rng.randrange(x.shape.rank)

    def fits(v: Instruction) -> bool:
        s, t = v.shape, x.shape
        return (
            s.element_type is t.element_type
            and s.rank == t.rank
            and s.num_elements <= MAX_ELEMENTS // 3
            and all(i == axis or s.dims[i] == t.dims[i] for i in range(s.rank))
        )

    parts = [x, *(b.pick(fits) or x for _ in range(b.rng.randint(1, 2)))]
    fact = combine(b, *parts, bound=max(b.fact(p).bound for p in parts))
    b.emit(ops.CONCATENATE, parts, DimensionAttrs(axis), fact=fact)
    return True
