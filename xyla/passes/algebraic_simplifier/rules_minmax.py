"""Maximum, minimum, clamp and the bitwise ops: idempotent operations."""

from __future__ import annotations

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection
from xyla.hlo.module import Instruction
from xyla.passes.algebraic_simplifier.common import (
    exactly,
    highest,
    integer,
    is_constant,
    is_identity,
    is_integral,
    lowest,
    number,
    single_user,
)
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, rule_table, splat_value
from xyla.support.dtypes import PRED

_D = ComparisonDirection


def idempotent(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x op x = x."""
    x, y = inst.operands
    return x if x is y else None


def absorbed(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(x op y) op x = x op y, and the mirrored forms."""
    for outer, inner in (inst.operands, inst.operands[::-1]):
        if inner.op is inst.op and outer in inner.operands:
            return inner
    return None


def identity(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """max(x, lowest) = x, min(x, highest) = x, x & ones = x, x | 0 = x, x ^ 0 = x."""
    for x, y in (inst.operands, inst.operands[::-1]):
        if is_identity(inst.op, y):
            return x
    return None


def dominated(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """max(x, highest) = highest, min(x, lowest) = lowest, x & 0 = 0, x | ones = ones; for integers."""
    if not is_integral(inst):
        return None
    et = inst.shape.element_type
    for y in inst.operands:
        if inst.op is ops.MAXIMUM:
            wins = exactly(y, highest(et) or 0)
        elif inst.op is ops.MINIMUM:
            wins = exactly(y, lowest(et) or 0)
        elif inst.op is ops.AND:
            wins = exactly(y, 0)
        else:
            wins = is_identity(ops.AND, y)
        if wins:
            return y
    return None


def clamp_from_minimum(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """min(max(x, lo), hi) = clamp(lo, x, hi), for constant bounds."""
    for hi, inner in (inst.operands, inst.operands[::-1]):
        if not _bound(hi) or inner.op is not ops.MAXIMUM:
            continue
        for lo, x in (inner.operands, inner.operands[::-1]):
            if _bound(lo) and not _bound(x):
                return rw.add(ops.CLAMP, [lo, x, hi])
    return None


def _bound(inst: Instruction) -> bool:
    return is_constant(inst) and not inst.shape.element_type.is_complex


def clamp_from_maximum(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """max(min(x, hi), lo) = clamp(lo, x, hi), for constant bounds lo <= hi."""
    for lo, inner in (inst.operands, inst.operands[::-1]):
        low = splat_value(lo)
        if low is None or inner.op is not ops.MINIMUM or lo.shape.element_type.is_complex:
            continue
        for hi, x in (inner.operands, inner.operands[::-1]):
            high = splat_value(hi)
            if high is not None and _ordered(low, high) and not _bound(x):
                return rw.add(ops.CLAMP, [lo, x, hi])
    return None


def _ordered(low: np.generic, high: np.generic) -> bool:
    """low <= high, where 0 is above -0."""
    return bool(np.less(low, high)) or (bool(low == high) and bool(np.signbit(low) >= np.signbit(high)))


# Defined everywhere: log and sqrt would lose the NaN of the argument that is not chosen.
_MONOTONE = (ops.CBRT, ops.ERF, ops.EXP, ops.LOGISTIC, ops.TANH, ops.CEIL, ops.FLOOR)


@value_changing(Fp.DEFAULT, "f(x) and f(y) are compared as x and y: f is monotone only up to rounding")
def sink_monotone(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """max(f(x), f(y)) = f(max(x, y)), for a rising f with no other use: one f less. The same for min."""
    x, y = inst.operands
    if x.op is not y.op or x.op not in _MONOTONE or x is y or x.attrs != y.attrs:
        return None
    if not (x.shape.element_type.is_float and single_user(x) and single_user(y)):
        return None
    return rw.add(x.op, [rw.binary(inst.op, x.operands[0], y.operands[0])], x.attrs)


def clamp_twice(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """clamp(lo, clamp(lo, x, hi), hi) = clamp(lo, x, hi)."""
    lo, x, hi = inst.operands
    if x.op is not ops.CLAMP:
        return None
    same = (x.operands[0] is lo or _equal(x.operands[0], lo)) and (x.operands[2] is hi or _equal(x.operands[2], hi))
    return x if same else None


def _equal(a: Instruction, b: Instruction) -> bool:
    value = number(a)
    return value is not None and not np.isnan(value) and value == number(b) and exactly(a, value) and exactly(b, value)


def clamp_open(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """clamp(lowest, x, highest) = x; clamp(lowest, x, hi) = min(x, hi); clamp(lo, x, highest) = max(x, lo)."""
    lo, x, hi = inst.operands
    below, above = is_identity(ops.MAXIMUM, lo), is_identity(ops.MINIMUM, hi)
    if below and above:
        return x
    if below and hi.shape.same_dims(x.shape):
        return rw.binary(ops.MINIMUM, x, hi)
    if above and lo.shape.same_dims(x.shape):
        return rw.binary(ops.MAXIMUM, x, lo)
    return None


# -- bitwise ------------------------------------------------------------------------------------------------------


def xor_self(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x ^ x = 0."""
    x, y = inst.operands
    return rw.splat(0, inst.shape) if x is y else None


def xor_ones(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x ^ ones = not x."""
    for x, y in (inst.operands, inst.operands[::-1]):
        if is_identity(ops.AND, y):
            return rw.unary(ops.NOT, x)
    return None


def not_not(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """not (not x) = x."""
    x = inst.operands[0]
    return x.operands[0] if x.op is ops.NOT else None


_OPPOSITE = {_D.EQ: _D.NE, _D.NE: _D.EQ, _D.LT: _D.GE, _D.GE: _D.LT, _D.GT: _D.LE, _D.LE: _D.GT}


def not_compare(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """not (x < y) = x >= y, and so on; with floats (NaN is unordered) only for == and !=."""
    x = inst.operands[0]
    if x.op is not ops.COMPARE or not single_user(x):
        return None
    direction = x.attrs.direction
    if not is_integral(x.operands[0]) and direction not in (_D.EQ, _D.NE):
        return None
    return rw.add(ops.COMPARE, x.operands, ops.CompareAttrs(_OPPOSITE[direction], x.attrs.type))


# What a comparison says with its sides exchanged.
MIRRORED = {_D.EQ: _D.EQ, _D.NE: _D.NE, _D.LT: _D.GT, _D.GT: _D.LT, _D.LE: _D.GE, _D.GE: _D.LE}


def _range_test(inst: Instruction) -> tuple[Instruction, bool, int] | None:
    """(x, is it an upper bound, bound) of `x < c`, `x <= c`, `x > c`, `x >= c`, bounds inclusive; x an integer."""
    if inst.op is not ops.COMPARE or not inst.operands[0].shape.element_type.is_integer:
        return None
    x, c = inst.operands
    direction = inst.attrs.direction
    value = integer(c)
    if value is None:
        x, c, value, direction = c, x, integer(x), MIRRORED[direction]
    if value is None or direction in (_D.EQ, _D.NE):
        return None
    if direction in (_D.LT, _D.LE):
        return x, True, value - (direction is _D.LT)
    return x, False, value + (direction is _D.GT)


def and_of_ranges(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(x < c) and (x < d) = x < min(c, d); (x < c) and (x > d) = false where no integer is between."""
    left, right = (_range_test(o) for o in inst.operands)
    if left is None or right is None or left[0] is not right[0] or inst.shape.element_type is not PRED:
        return None
    if left[1] is right[1]:
        first = left[2] <= right[2] if left[1] else left[2] >= right[2]
        return inst.operands[0 if first else 1]
    low, high = (right[2], left[2]) if left[1] else (left[2], right[2])
    return rw.splat(False, inst.shape) if low > high else None


def or_of_ranges(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(x < c) or (x < d) = x < max(c, d)."""
    left, right = (_range_test(o) for o in inst.operands)
    if left is None or right is None or left[0] is not right[0] or left[1] is not right[1]:
        return None
    first = left[2] >= right[2] if left[1] else left[2] <= right[2]
    return inst.operands[0 if first else 1]


TABLE = rule_table(
    ([ops.MAXIMUM], (idempotent, absorbed, identity, dominated, clamp_from_maximum, sink_monotone)),
    ([ops.MINIMUM], (idempotent, absorbed, identity, dominated, clamp_from_minimum, sink_monotone)),
    ([ops.CLAMP], (clamp_twice, clamp_open)),
    ([ops.AND], (idempotent, absorbed, identity, dominated, and_of_ranges)),
    ([ops.OR], (idempotent, absorbed, identity, dominated, or_of_ranges)),
    ([ops.XOR], (identity, xor_self, xor_ones)),
    ([ops.NOT], (not_not, not_compare)),
)
