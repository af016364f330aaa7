"""Products, quotients, remainders, shifts.

Float rules without a mark keep every bit; integers wrap, so ring identities hold for them without conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction
from xyla.passes.algebraic_simplifier.common import (
    broadcast,
    either_zero,
    evaluate,
    exactly,
    fold_scalars,
    integer,
    is_constant,
    is_float,
    is_integral,
    non_negative,
    number,
    power_of_two,
    scalar_literal,
    scalar_splat,
    splat_of,
)
from xyla.passes.algebraic_simplifier.rules_arithmetic import constant_to_the_right
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, rule_table
from xyla.support.dtypes import PRED

# -- multiply -----------------------------------------------------------------------------------------------------


def multiply_one(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x * 1 = x."""
    for x, y in (inst.operands, inst.operands[::-1]):
        if exactly(y, 1) and not inst.shape.element_type.is_complex:
            return x
    return None


def multiply_zero(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x * 0 = 0, for integers (a float x may be infinite, NaN or negative)."""
    for y in inst.operands:
        if is_integral(inst) and exactly(y, 0):
            return y
    return None


@value_changing(Fp.FAST, "x * 0 becomes 0 where x is infinite, NaN or negative")
def multiply_zero_fast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x * 0 = 0."""
    for y in inst.operands:
        if either_zero(y):
            return rw.splat(0, inst.shape)
    return None


def multiply_minus_one(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x * -1 = -x."""
    x, y = inst.operands
    signed = is_float(inst) or inst.shape.element_type.is_signed
    return rw.unary(ops.NEGATE, x) if signed and exactly(y, -1) else None


def multiply_negated(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(-x) * (-y) = x * y."""
    x, y = inst.operands
    if x.op is ops.NEGATE and y.op is ops.NEGATE and inst.shape.element_type is not PRED:
        return rw.binary(inst.op, x.operands[0], y.operands[0])
    return None


def multiply_absolute(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """|x| * |x| = x * x, for real numbers (integers wrap alike)."""
    x, y = inst.operands
    if x is y and x.op is ops.ABS and not x.operands[0].shape.element_type.is_complex:
        return rw.binary(inst.op, x.operands[0], x.operands[0])
    return None


def multiply_merge_integers(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(x * c1) * c2 = x * (c1 * c2), for integers."""
    inner, c2 = inst.operands
    if not is_integral(inst) or inner.op is not ops.MULTIPLY:
        return None
    literal = fold_scalars(ops.MULTIPLY, inner.operands[1], c2)
    return None if literal is None else rw.binary(ops.MULTIPLY, inner.operands[0], splat_of(rw, literal, inst.shape))


@value_changing(Fp.DEFAULT, "two constant factors are multiplied first: one rounding less")
def multiply_merge_floats(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(x * c1) * c2 = x * (c1 * c2), where the order cannot make an overflow or an underflow come or go."""
    inner, c2 = inst.operands
    if not is_float(inst) or inner.op is not ops.MULTIPLY:
        return None
    a, b = number(inner.operands[1]), number(c2)
    if a is None or b is None or not _scale_alike(a, b):
        return None
    literal = fold_scalars(ops.MULTIPLY, inner.operands[1], c2)
    if literal is None or not _normal(float(literal.first), inst):
        return None
    return rw.binary(ops.MULTIPLY, inner.operands[0], splat_of(rw, literal, inst.shape))


def _scale_alike(a: float, b: float) -> bool:
    finite = bool(np.isfinite(a) and np.isfinite(b)) and a != 0 and b != 0
    return finite and (min(abs(a), abs(b)) >= 1 or max(abs(a), abs(b)) <= 1)


# (least normal number, largest number) of the float types with IEEE's special values.
_RANGE = {
    "f16": (2.0**-14, 65504.0),
    "bf16": (2.0**-126, 2.0**128 - 2.0**120),
    "f32": (2.0**-126, 2.0**128 - 2.0**104),
    "f64": (2.0**-1022, 2.0**1023 * (2 - 2.0**-52)),
}


def _normal(value: float, inst: Instruction) -> bool:
    """Whether a constant is finite and neither zero nor subnormal in the type of `inst`."""
    least, most = _RANGE.get(inst.shape.element_type.name, (1.0, 0.0))
    return least <= abs(value) <= most


def _scalars_together(inst: Instruction, rw: Rewrite) -> Instruction | None:
    for outer, inner in (inst.operands, inst.operands[::-1]):
        scalar = scalar_splat(outer)
        if scalar is None or inner.op is not ops.MULTIPLY or is_constant(outer):
            continue
        c = scalar_splat(inner.operands[1])
        if c is None or not is_constant(inner.operands[1]):
            continue
        both = broadcast(rw, rw.binary(ops.MULTIPLY, scalar, c), (), inst.shape)
        return rw.binary(ops.MULTIPLY, inner.operands[0], both)
    return None


def multiply_scalars_integers(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """broadcast(s) * (x * broadcast(c)) = x * broadcast(s * c), for integers: one product an element less."""
    return _scalars_together(inst, rw) if is_integral(inst) else None


@value_changing(Fp.FAST, "scalar factors are multiplied first, which overflows elsewhere")
def multiply_scalars_fast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """broadcast(s) * (x * broadcast(c)) = x * broadcast(s * c)."""
    return _scalars_together(inst, rw)


@value_changing(Fp.DEFAULT, "sqrt(x)*sqrt(x) becomes x: two roundings less")
def multiply_square_roots(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """sqrt(x) * sqrt(x) = x, where x is not negative."""
    x, y = inst.operands
    return x.operands[0] if x is y and x.op is ops.SQRT and is_float(x) and non_negative(x.operands[0]) else None


@value_changing(Fp.DEFAULT, "rsqrt(x)*rsqrt(x) becomes 1/x: one rounding less")
def multiply_reciprocal_roots(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """rsqrt(x) * rsqrt(x) = 1 / x, where x is not negative."""
    x, y = inst.operands
    if x is not y or x.op is not ops.RSQRT or not is_float(x) or not non_negative(x.operands[0]):
        return None
    return rw.binary(ops.DIVIDE, rw.splat(1, inst.shape), x.operands[0])


@value_changing(Fp.FAST, "exp(x)*exp(y) becomes exp(x + y), which overflows elsewhere")
def multiply_exponentials(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """exp(x) * exp(y) = exp(x + y)."""
    x, y = inst.operands
    if x.op is not ops.EXP or y.op is not ops.EXP:
        return None
    return rw.unary(ops.EXP, rw.binary(ops.ADD, x.operands[0], y.operands[0]))


def _times_predicate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    for x, p in (inst.operands, inst.operands[::-1]):
        if p.op is ops.CONVERT and p.operands[0].shape.element_type is PRED:
            return rw.add(ops.SELECT, [p.operands[0], x, rw.splat(0, inst.shape)])
    return None


def multiply_predicate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x * convert(p) = select(p, x, 0), for integers."""
    return _times_predicate(inst, rw) if inst.shape.element_type.is_integer else None


@value_changing(Fp.FAST, "x * convert(p) becomes select(p, x, 0): infinite, NaN and negative x times 0")
def multiply_predicate_fast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x * convert(p) = select(p, x, 0)."""
    return _times_predicate(inst, rw)


# -- divide -------------------------------------------------------------------------------------------------------


def divide_one(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x / 1 = x."""
    x, y = inst.operands
    return x if exactly(y, 1) and not inst.shape.element_type.is_complex else None


@value_changing(Fp.FAST, "x / x becomes 1 where x is zero, infinite or NaN")
def divide_self_fast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x / x = 1, for floats (an integer 0 / 0 is -1)."""
    x, y = inst.operands
    return rw.splat(1, inst.shape) if x is y and is_float(inst) else None


def divide_power_of_two(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x / c = x * (1/c), for a float c that is a power of two whose reciprocal is normal: exact."""
    x, y = inst.operands
    c = number(y) if is_float(inst) else None
    if c is None or not power_of_two(c) or not _normal(1 / c, inst):
        return None
    return rw.binary(ops.MULTIPLY, x, rw.splat(1 / c, inst.shape))


@value_changing(Fp.DEFAULT, "x / c becomes x * (1/c): one more rounding")
def divide_constant(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x / c = x * (1/c), where c and 1/c are normal and |c| >= 1 (the product then overflows only where x does)."""
    x, y = inst.operands
    c = number(y) if is_float(inst) else None
    if c is None or not np.isfinite(c) or abs(c) < 1 or not _normal(1 / c, inst):
        return None
    divisor = scalar_literal(y)
    assert divisor is not None
    inverse = evaluate(ops.DIVIDE, [Literal.scalar(1, divisor.shape.element_type), divisor])
    return rw.binary(ops.MULTIPLY, x, splat_of(rw, inverse, inst.shape))


@value_changing(Fp.FAST, "x / broadcast(s) becomes x * broadcast(1/s), which overflows elsewhere")
def divide_scalar(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x / broadcast(s) = x * broadcast(1 / s): one division in all."""
    x, y = inst.operands
    scalar = scalar_splat(y)
    if scalar is None or not is_float(inst):
        return None
    inverse = rw.binary(ops.DIVIDE, rw.splat(1, scalar.shape), scalar)
    return rw.binary(ops.MULTIPLY, x, broadcast(rw, inverse, (), inst.shape))


@value_changing(Fp.DEFAULT, "x / rsqrt(y) becomes x * sqrt(y): rounds differently")
def divide_root(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x / rsqrt(y) = x * sqrt(y) and x / sqrt(y) = x * rsqrt(y)."""
    x, y = inst.operands
    if not is_float(inst) or y.op not in (ops.RSQRT, ops.SQRT):
        return None
    other = ops.SQRT if y.op is ops.RSQRT else ops.RSQRT
    return rw.binary(ops.MULTIPLY, x, rw.unary(other, y.operands[0]))


@value_changing(Fp.FAST, "x / exp(y) becomes x * exp(-y), which overflows elsewhere")
def divide_exponential(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x / exp(y) = x * exp(-y)."""
    x, y = inst.operands
    if y.op is not ops.EXP:
        return None
    return rw.binary(ops.MULTIPLY, x, rw.unary(ops.EXP, rw.unary(ops.NEGATE, y.operands[0])))


@value_changing(Fp.FAST, "x / power(y, z) becomes x * power(y, -z), which overflows elsewhere")
def divide_power(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x / power(y, z) = x * power(y, -z)."""
    x, y = inst.operands
    if y.op is not ops.POWER or not is_float(inst):
        return None
    inverse = rw.binary(ops.POWER, y.operands[0], rw.unary(ops.NEGATE, y.operands[1]))
    return rw.binary(ops.MULTIPLY, x, inverse)


@value_changing(Fp.FAST, "quotients of quotients become one: overflows elsewhere")
def divide_quotients(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(a/b) / (c/d) = (a*d) / (b*c); (a/b) / c = a / (b*c); a / (b/c) = (a*c) / b."""
    x, y = inst.operands
    if not (is_float(inst) or inst.shape.element_type.is_complex):
        return None
    if x.op is not ops.DIVIDE and y.op is not ops.DIVIDE:
        return None
    top, bottom = (x.operands[0], x.operands[1]) if x.op is ops.DIVIDE else (x, None)
    down, up = (y.operands[0], y.operands[1]) if y.op is ops.DIVIDE else (y, None)
    numerator = top if up is None else rw.binary(ops.MULTIPLY, top, up)
    denominator = down if bottom is None else rw.binary(ops.MULTIPLY, bottom, down)
    return rw.binary(ops.DIVIDE, numerator, denominator)


def _shift_of(value: int | None) -> int | None:
    """k where value = 2^k and k >= 1."""
    return value.bit_length() - 1 if value is not None and value > 1 and value & (value - 1) == 0 else None


def divide_by_shift(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x / 2^k: a shift; a signed x has its magnitude shifted, so that the quotient rounds to zero."""
    x, y = inst.operands
    k = _shift_of(integer(y))
    if k is None:
        return None
    amount = rw.splat(k, inst.shape)
    if inst.shape.element_type.is_unsigned:
        return rw.binary(ops.SHIFT_RIGHT_LOGICAL, x, amount)
    negative = _is_negative(x, rw)
    size = rw.add(ops.SELECT, [negative, rw.unary(ops.NEGATE, x), x])
    shifted = rw.binary(ops.SHIFT_RIGHT_LOGICAL, size, amount)
    return rw.add(ops.SELECT, [negative, rw.unary(ops.NEGATE, shifted), shifted])


def _is_negative(x: Instruction, rw: Rewrite) -> Instruction:
    zero = rw.splat(0, x.shape)
    return rw.add(ops.COMPARE, [x, zero], ops.CompareAttrs(ComparisonDirection.LT))


# -- remainder, shifts --------------------------------------------------------------------------------------------


def remainder_by_mask(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x % 2^k: a mask; a signed x keeps its sign."""
    x, y = inst.operands
    value = integer(y)
    if _shift_of(value) is None or value is None:
        return None
    mask = rw.splat(value - 1, inst.shape)
    if inst.shape.element_type.is_unsigned:
        return rw.binary(ops.AND, x, mask)
    negative = _is_negative(x, rw)
    below = rw.unary(ops.NEGATE, rw.binary(ops.AND, rw.unary(ops.NEGATE, x), mask))
    return rw.add(ops.SELECT, [negative, below, rw.binary(ops.AND, x, mask)])


def remainder_twice(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(x % y) % y = x % y, for integers."""
    x, y = inst.operands
    return x if x.op is ops.REMAINDER and x.operands[1] is y and inst.shape.element_type.is_integer else None


def remainder_of_iota(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """iota % c = iota, where the dimension has at most c elements."""
    x, y = inst.operands
    value = integer(y)
    if x.op is not ops.IOTA or value is None:
        return None
    return x if x.shape.dims[x.attrs.iota_dimension] <= value else None


def shift_zero(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x << 0 = x and x >> 0 = x."""
    x, y = inst.operands
    return x if exactly(y, 0) else None


_MULTIPLY: Sequence[Any] = (
    multiply_one, multiply_zero, multiply_zero_fast, constant_to_the_right, multiply_minus_one, multiply_negated,
    multiply_absolute, multiply_merge_integers, multiply_merge_floats, multiply_scalars_integers,
    multiply_scalars_fast, multiply_square_roots, multiply_reciprocal_roots, multiply_exponentials,
    multiply_predicate, multiply_predicate_fast,
)  # fmt: skip
_DIVIDE: Sequence[Any] = (
    divide_one, divide_self_fast, divide_power_of_two, divide_constant, divide_by_shift, divide_root,
    divide_exponential, divide_power, divide_quotients, divide_scalar,
)  # fmt: skip
TABLE = rule_table(
    ([ops.MULTIPLY], _MULTIPLY),
    ([ops.DIVIDE], _DIVIDE),
    ([ops.REMAINDER], (remainder_by_mask, remainder_twice, remainder_of_iota)),
    ([ops.SHIFT_LEFT, ops.SHIFT_RIGHT_LOGICAL, ops.SHIFT_RIGHT_ARITHMETIC], (shift_zero,)),
)
