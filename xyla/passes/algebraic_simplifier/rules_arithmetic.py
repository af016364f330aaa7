"""Sums and differences.

Float rules without a mark keep every bit; integers wrap, so ring identities hold for them without conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction
from xyla.passes.algebraic_simplifier.common import (
    FOLD_ELEMENTS,
    either_zero,
    evaluate,
    exactly,
    fold_scalars,
    is_constant,
    is_float,
    is_integral,
    never_negative_zero,
    number,
    power_of_two,
    splat_of,
)
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, rule_table
from xyla.support.dtypes import PRED

# -- add ----------------------------------------------------------------------------------------------------------


def add_zero(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x + 0 = x for integers; x + -0.0 = x; x + 0.0 = x where x is never -0.0."""
    for x, y in (inst.operands, inst.operands[::-1]):
        if is_integral(inst) and exactly(y, 0):
            return x
        if is_float(inst) and (exactly(y, -0.0) or (exactly(y, 0.0) and never_negative_zero(x))):
            return x
    return None


@value_changing(Fp.FAST, "x + 0.0 becomes x, which keeps -0.0")
def add_zero_fast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x + 0 = x."""
    for x, y in (inst.operands, inst.operands[::-1]):
        if either_zero(y):
            return x
    return None


def constant_to_the_right(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """c op x = x op c, so that other rules look in one place."""
    x, y = inst.operands
    if is_constant(x) and not is_constant(y):
        return rw.like([y, x])
    return None


def add_merge_integers(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(x + c1) + c2 = x + (c1 + c2), for integers."""
    inner, c2 = inst.operands
    if not is_integral(inst) or inner.op is not ops.ADD:
        return None
    literal = fold_scalars(ops.ADD, inner.operands[1], c2)
    return None if literal is None else rw.binary(ops.ADD, inner.operands[0], splat_of(rw, literal, inst.shape))


def _same_direction(*values: float | None) -> bool:
    """Whether the sum of splats is finite and none cancels another: a merged sum then only rounds differently."""
    finite = [v for v in values if v is not None and np.isfinite(v)]
    return len(finite) == len(values) and (all(v >= 0 for v in finite) or all(v <= 0 for v in finite))


def _exact_sum(a: Instruction, b: Instruction) -> Literal | None:
    """The sum of two splats of a float type that is finite and exact: summed first, they cost a rounding less.

    Where it is rounded, x may cancel the larger constant, and of the smaller one nothing is left.
    """
    literal, x, y = fold_scalars(ops.ADD, a, b), number(a), number(b)
    if literal is None or x is None or y is None or not np.isfinite(float(literal.first)):
        return None
    return literal if Fraction(x) + Fraction(y) == Fraction(float(literal.first)) else None


@value_changing(Fp.DEFAULT, "constants of one sign, whose sum is exact, are summed first: one rounding less")
def add_merge_floats(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(x + c1) + c2 = x + (c1 + c2), for constants of one sign whose sum is exact."""
    inner, c2 = inst.operands
    if not is_float(inst) or inner.op is not ops.ADD or not _same_direction(number(inner.operands[1]), number(c2)):
        return None
    literal = _exact_sum(inner.operands[1], c2)
    return None if literal is None else rw.binary(ops.ADD, inner.operands[0], splat_of(rw, literal, inst.shape))


@value_changing(Fp.DEFAULT, "constants of one sign, whose sum is exact, are summed first: one rounding less")
def add_merge_into_difference(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(c1 - x) + c2 = (c1 + c2) - x, for integers, and floats where the constants have one sign and an exact sum."""
    inner, c2 = inst.operands
    if inner.op is not ops.SUBTRACT or inst.shape.element_type.is_complex:
        return None
    c1 = inner.operands[0]
    if is_float(inst) and not _same_direction(number(c1), number(c2)):
        return None
    literal = _exact_sum(c1, c2) if is_float(inst) else fold_scalars(ops.ADD, c1, c2)
    if literal is None:
        return None
    return rw.binary(ops.SUBTRACT, splat_of(rw, literal, inst.shape), inner.operands[1])


def _add_of_difference(inst: Instruction) -> Instruction | None:
    for x, diff in (inst.operands, inst.operands[::-1]):
        if diff.op is ops.SUBTRACT and diff.operands[1] is x:
            return diff.operands[0]
    return None


def add_of_difference(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(y - x) + x = y, for integers."""
    return _add_of_difference(inst) if inst.shape.element_type.is_integer else None


@value_changing(Fp.FAST, "(y - x) + x becomes y: rounding and overflow of y - x are forgotten")
def add_of_difference_fast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(y - x) + x = y."""
    return _add_of_difference(inst)


def _common_factor(inst: Instruction) -> tuple[Instruction, Instruction, Instruction] | None:
    """(x, y, z) of x*z + y*z."""
    left, right = inst.operands
    if left.op is not ops.MULTIPLY or right.op is not ops.MULTIPLY or left is right:
        return None
    for i in (1, 0):
        for j in (1, 0):
            if left.operands[i] is right.operands[j] and (len(left.users) == 1 or len(right.users) == 1):
                return left.operands[1 - i], right.operands[1 - j], left.operands[i]
    return None


def factor_integers(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x*z + y*z = (x + y) * z, for integers; the same with -."""
    found = _common_factor(inst) if inst.shape.element_type.is_integer else None
    return None if found is None else _factored(inst, found, rw)


def _factored(inst: Instruction, found: tuple[Instruction, Instruction, Instruction], rw: Rewrite) -> Instruction:
    x, y, z = found
    return rw.binary(ops.MULTIPLY, rw.binary(inst.op, x, y), z)


@value_changing(Fp.FAST, "x*c + y*c becomes (x + y)*c, which overflows elsewhere")
def factor_floats(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x*c + y*c = (x + y) * c, for c a power of two."""
    found = _common_factor(inst) if is_float(inst) else None
    if found is None or not power_of_two(number(found[2])):
        return None
    return _factored(inst, found, rw)


def add_negated(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x + (-y) = x - y."""
    for x, y in (inst.operands, inst.operands[::-1]):
        if y.op is ops.NEGATE and inst.shape.element_type is not PRED:
            return rw.binary(ops.SUBTRACT, x, y.operands[0])
    return None


# -- subtract -----------------------------------------------------------------------------------------------------


def subtract_zero(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x - 0 = x."""
    x, y = inst.operands
    return x if exactly(y, 0) and not inst.shape.element_type.is_complex else None


def subtract_self(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x - x = 0, for integers."""
    x, y = inst.operands
    return rw.splat(0, inst.shape) if x is y and is_integral(inst) else None


@value_changing(Fp.FAST, "x - x becomes 0 where x is infinite or NaN")
def subtract_self_fast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x - x = 0."""
    x, y = inst.operands
    return rw.splat(0, inst.shape) if x is y else None


def subtract_constant(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x - c = x + (-c): exact, and sums merge."""
    x, y = inst.operands
    if not is_constant(y) or is_constant(x) or inst.shape.element_type is PRED:
        return None
    literal = fold_scalars(ops.NEGATE, y)
    if literal is not None:
        return rw.binary(ops.ADD, x, splat_of(rw, literal, inst.shape))
    # A negate left in place would be folded back into a difference.
    if y.op is not ops.CONSTANT or y.shape.num_elements > FOLD_ELEMENTS:
        return None
    return rw.binary(ops.ADD, x, rw.constant(evaluate(ops.NEGATE, [y.attrs.literal])))


def subtract_negated(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x - (-y) = x + y."""
    x, y = inst.operands
    return rw.binary(ops.ADD, x, y.operands[0]) if y.op is ops.NEGATE else None


def _subtract_nested(inst: Instruction) -> Instruction | None:
    x, y = inst.operands
    if y.op is ops.SUBTRACT and y.operands[0] is x:
        return y.operands[1]
    if x.op is ops.ADD and y in x.operands:
        return x.operands[1] if x.operands[0] is y else x.operands[0]
    return None


def subtract_nested(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x - (x - y) = y and (x + y) - x = y, for integers."""
    return _subtract_nested(inst) if inst.shape.element_type.is_integer else None


@value_changing(Fp.FAST, "x - (x - y) becomes y: rounding and overflow are forgotten")
def subtract_nested_fast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x - (x - y) = y and (x + y) - x = y."""
    return _subtract_nested(inst)


_ADD: Sequence[Any] = (
    add_zero, add_zero_fast, add_negated, constant_to_the_right, add_merge_integers, add_merge_floats,
    add_merge_into_difference, add_of_difference, add_of_difference_fast, factor_integers, factor_floats,
)  # fmt: skip
_SUBTRACT: Sequence[Any] = (
    subtract_zero, subtract_negated, subtract_self, subtract_self_fast, subtract_nested, subtract_nested_fast,
    subtract_constant, factor_integers,
)  # fmt: skip
TABLE = rule_table(
    ([ops.ADD], _ADD),
    ([ops.SUBTRACT], _SUBTRACT),
)
