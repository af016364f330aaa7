"""Comparisons and selects."""

from __future__ import annotations

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection
from xyla.hlo.module import Instruction
from xyla.passes.algebraic_simplifier.common import (
    either_zero,
    exactly,
    integer,
    is_integral,
    non_negative,
    single_user,
)
from xyla.passes.algebraic_simplifier.rules_minmax import MIRRORED
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, rule_table
from xyla.support.dtypes import PRED

_D = ComparisonDirection
_REFLEXIVE = (_D.EQ, _D.GE, _D.LE)


def compare_self(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x == x, x <= x, x >= x are true and x != x, x < x, x > x false, for integers (a NaN differs from itself)."""
    x, y = inst.operands
    if x is not y or not is_integral(x):
        return None
    return rw.splat(inst.attrs.direction in _REFLEXIVE, inst.shape)


def compare_unsigned_zero(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x >= 0 and 0 <= x are true, x < 0 and 0 > x false, for unsigned x."""
    x, y = inst.operands
    if not x.shape.element_type.is_unsigned:
        return None
    direction = inst.attrs.direction
    if (exactly(y, 0) and direction is _D.GE) or (exactly(x, 0) and direction is _D.LE):
        return rw.splat(True, inst.shape)
    if (exactly(y, 0) and direction is _D.LT) or (exactly(x, 0) and direction is _D.GT):
        return rw.splat(False, inst.shape)
    return None


def compare_sign(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x < 0 and 0 > x are false, where x is never negative (nor is a NaN); x >= 0 and 0 <= x true, for integers."""
    x, y = inst.operands
    direction = inst.attrs.direction
    if is_total_order(inst):
        return None
    if either_zero(x):
        x, y, direction = y, x, MIRRORED[direction]
    if direction not in (_D.LT, _D.GE) or not either_zero(y) or not non_negative(x):
        return None
    if direction is _D.GE and not is_integral(x):
        return None
    return rw.splat(direction is _D.GE, inst.shape)


def is_total_order(inst: Instruction) -> bool:
    """Whether a compare orders floats by their bits: -NaN < -inf < ... < -0 < 0 < ... < NaN."""
    return inst.attrs.type is not None and inst.attrs.type.value == "TOTALORDER"


def compare_iota(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """iota compared with a constant outside 0 .. n-1: always the same."""
    x, y = inst.operands
    value = integer(y)
    if x.op is not ops.IOTA or value is None or not x.shape.element_type.is_integer:
        return None
    last = x.shape.dims[x.attrs.iota_dimension] - 1
    if last >= 2 ** (x.shape.element_type.bits - 1):
        return None  # the counter wraps
    if value < 0:
        return rw.splat(inst.attrs.direction in (_D.GT, _D.GE, _D.NE), inst.shape)
    if value > last:
        return rw.splat(inst.attrs.direction in (_D.LT, _D.LE, _D.NE), inst.shape)
    if value == 0 and inst.attrs.direction in (_D.LT, _D.GE):
        return rw.splat(inst.attrs.direction is _D.GE, inst.shape)
    if value == last and inst.attrs.direction in (_D.GT, _D.LE):
        return rw.splat(inst.attrs.direction is _D.LE, inst.shape)
    return None


def compare_extremum(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x > min(x, y) = x > y; max(x, y) > x = y > x; and the mirrored forms. NaN makes both sides false."""
    x, y = inst.operands
    direction = inst.attrs.direction
    if is_total_order(inst):
        return None
    if direction is _D.LT:
        x, y = y, x
    elif direction is not _D.GT:
        return None
    attrs = ops.CompareAttrs(_D.GT, inst.attrs.type)
    if y.op is ops.MINIMUM and x in y.operands:
        other = y.operands[1] if y.operands[0] is x else y.operands[0]
        return rw.add(ops.COMPARE, [x, other], attrs)
    if x.op is ops.MAXIMUM and y in x.operands:
        other = x.operands[1] if x.operands[0] is y else x.operands[0]
        return rw.add(ops.COMPARE, [other, y], attrs)
    return None


def compare_predicate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """p == true and p != false are p; p == false and p != true are not p."""
    direction = inst.attrs.direction
    if direction not in (_D.EQ, _D.NE) or inst.operands[0].shape.element_type is not PRED:
        return None
    for p, c in (inst.operands, inst.operands[::-1]):
        for value in (True, False):
            if exactly(c, value):
                return p if (direction is _D.EQ) is value else rw.unary(ops.NOT, p)
    return None


def compare_converted_predicate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convert(p) != 0, > 0 and == 1 are p; convert(p) == 0 and != 1 are not p."""
    x, c = inst.operands
    if x.op is not ops.CONVERT or x.operands[0].shape.element_type is not PRED:
        return None
    p, direction = x.operands[0], inst.attrs.direction
    if (exactly(c, 0) and direction in (_D.NE, _D.GT)) or (exactly(c, 1) and direction is _D.EQ):
        return p
    if (exactly(c, 0) and direction is _D.EQ) or (exactly(c, 1) and direction is _D.NE):
        return rw.unary(ops.NOT, p)
    return None


# -- select -------------------------------------------------------------------------------------------------------


def select_constant(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """select(true, x, y) = x; select(false, x, y) = y; select(p, x, x) = x."""
    p, x, y = inst.operands
    if x is y or exactly(p, True):
        return x
    return y if exactly(p, False) else None


def select_not(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """select(not p, x, y) = select(p, y, x)."""
    p, x, y = inst.operands
    return rw.like([p.operands[0], y, x]) if p.op is ops.NOT else None


def select_predicates(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """Selects of predicates are logic.

    select(p, true, false) = p; select(p, false, true) = not p; select(p, x, false) = p & x; select(p, true, y) = p | y;
    select(p, p, y) = p | y and select(p, x, p) = p & x.
    """
    p, x, y = inst.operands
    if inst.shape.element_type is not PRED or not p.shape.same_dims(inst.shape):
        return None
    if exactly(y, False):
        return p if exactly(x, True) else rw.binary(ops.AND, p, x)
    if exactly(x, True):
        return rw.binary(ops.OR, p, y)
    if exactly(x, False) and exactly(y, True):
        return rw.unary(ops.NOT, p)
    if p is x:
        return rw.binary(ops.OR, p, y)
    return rw.binary(ops.AND, p, x) if p is y else None


def _select_equal(inst: Instruction) -> Instruction | None:
    p, x, y = inst.operands
    if p.op is not ops.COMPARE or p.attrs.direction not in (_D.EQ, _D.NE):
        return None
    if (p.operands[0] is x and p.operands[1] is y) or (p.operands[0] is y and p.operands[1] is x):
        return y if p.attrs.direction is _D.EQ else x
    return None


def select_equal(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """select(x == y, x, y) = y and select(x != y, x, y) = x, for integers."""
    return _select_equal(inst) if is_integral(inst) else None


@value_changing(Fp.FAST, "select(x == y, x, y) becomes y: -0 and 0 are equal")
def select_equal_fast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """select(x == y, x, y) = y and select(x != y, x, y) = x."""
    return _select_equal(inst)


def select_extremum(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """select(x > y, x, y) = max(x, y) and select(x < y, x, y) = min(x, y), for integers; >= and <= too."""
    p, x, y = inst.operands
    if p.op is not ops.COMPARE or not is_integral(inst) or {x, y} != set(p.operands):
        return None
    rising = p.attrs.direction in (_D.GT, _D.GE)
    if not rising and p.attrs.direction not in (_D.LT, _D.LE):
        return None
    return rw.binary(ops.MAXIMUM if rising is (p.operands[0] is x) else ops.MINIMUM, x, y)


def select_nested(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """select(p, select(p, x, _), y) = select(p, x, y), and the same in the other branch."""
    p, x, y = inst.operands
    if x.op is ops.SELECT and x.operands[0] is p:
        return rw.like([p, x.operands[1], y])
    if y.op is ops.SELECT and y.operands[0] is p:
        return rw.like([p, x, y.operands[2]])
    return None


def select_update(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """select(p, update(x, u, i), x) = update(x, select(slice(p, i), u, slice(x, i)), i): selects the window only."""
    p, a, b = inst.operands
    for flip, (update, base) in enumerate(((a, b), (b, a))):
        if update.op is not ops.DYNAMIC_UPDATE_SLICE or update.operands[0] is not base or not single_user(update):
            continue
        window, starts = update.operands[1], update.operands[2:]
        if len(starts) != window.shape.rank:
            return None  # the old form with one vector of starts
        sizes = ops.DynamicSliceAttrs(window.shape.dims)
        chosen = rw.add(ops.DYNAMIC_SLICE, [p, *starts], sizes) if p.shape.rank else p
        old = rw.add(ops.DYNAMIC_SLICE, [base, *starts], sizes)
        arms = [old, window] if flip else [window, old]
        return rw.add(ops.DYNAMIC_UPDATE_SLICE, [base, rw.add(ops.SELECT, [chosen, *arms]), *starts])
    return None


TABLE = rule_table(
    (
        [ops.COMPARE],
        (
            compare_self, compare_unsigned_zero, compare_iota, compare_sign, compare_extremum, compare_predicate,
            compare_converted_predicate,
        ),
    ),
    (
        [ops.SELECT],
        (
            select_constant, select_not, select_predicates, select_equal, select_equal_fast, select_extremum,
            select_nested, select_update,
        ),
    ),
)  # fmt: skip
