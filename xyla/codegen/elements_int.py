"""Integer rules: division, remainder, power, shifts, counting. XLA defines every case: nothing here is undefined.

x/0 is all ones, x%0 is x, INT_MIN/-1 is INT_MIN, INT_MIN%-1 is 0, a shift by the width or more leaves no bit of x.
"""

from __future__ import annotations

from xyla.codegen.elements_table import ELEMENT, Site, reals
from xyla.codegen.elements_types import wrap
from xyla.codegen.llvm import Builder, Val, Value, constant
from xyla.codegen.llvm.values import INT_BITS
from xyla.hlo import ops
from xyla.support.dtypes import ElementType


def _quotient(b: Builder, et: ElementType, x: Val, y: Val) -> Val:
    """x / y for y known to be non-zero and, signed, not -1 against INT_MIN."""
    bits = INT_BITS[x.ty]
    if x.lanes == 1 or bits == 64:
        return b.binary("sdiv" if et.is_signed else "udiv", x, y)
    # There is no vector integer divide. A correctly rounded quotient of n-bit integers truncates to the right integer
    # when the float has more than n bits of mantissa.
    ty = "double" if bits == 32 else "float"
    to, back = ("sitofp", "fptosi") if et.is_signed else ("uitofp", "fptoui")
    return b.cast(back, b.fdiv(b.cast(to, x, ty), b.cast(to, y, ty)), x.ty)


def _safe_divisor(b: Builder, et: ElementType, x: Val, y: Val) -> tuple[Val, Val]:
    """(y with 1 in place of 0 and of an overflowing -1, whether y was 0). x/1 is what INT_MIN/-1 must give."""
    zero = b.icmp("eq", y, 0)
    bad = zero
    if et.is_signed:
        least = -(1 << (INT_BITS[x.ty] - 1))
        bad = b.or_(zero, b.and_(b.icmp("eq", x, least), b.icmp("eq", y, -1)))
    return b.select(bad, 1, y), zero


def int_divide(b: Builder, et: ElementType, x: Val, y: Val) -> Val:
    """Truncating division."""
    safe, zero = _safe_divisor(b, et, x, y)
    return wrap(b, et, b.select(zero, -1, _quotient(b, et, x, safe)))


def int_remainder(b: Builder, et: ElementType, x: Val, y: Val) -> Val:
    """Remainder with the sign of the dividend."""
    safe, zero = _safe_divisor(b, et, x, y)
    rest = b.sub(x, b.mul(_quotient(b, et, x, safe), safe))
    return wrap(b, et, b.select(zero, x, rest))


def int_power(b: Builder, et: ElementType, x: Val, y: Val) -> Val:
    """x to the y by squaring, wrapping; a negative y gives 0 except for bases 1 and -1."""
    one = constant(1, x.ty, x.lanes)

    def more(state: list[Value]) -> Val:
        return b.any(b.icmp("ne", reals(tuple(state))[2], 0))

    def step(state: list[Value]) -> list[Value]:
        result, base, exponent = reals(tuple(state))
        odd = b.icmp("ne", b.and_(exponent, 1), 0)
        return [b.select(odd, b.mul(result, base), result), b.mul(base, base), b.lshr(exponent, 1)]

    negative = b.icmp("slt", y, 0) if et.is_signed else None
    magnitude = b.select(negative, 0, y) if negative is not None else y
    result = reals(tuple(b.while_loop([one, x, magnitude], more, step)))[0]
    if negative is not None:
        parity = b.select(b.icmp("ne", b.and_(y, 1), 0), -1, one)
        inverse = b.select(b.icmp("eq", x, -1), parity, 0)
        inverse = b.select(b.icmp("eq", x, 1), 1, inverse)
        result = b.select(negative, inverse, result)
    return wrap(b, et, result)


def _unsigned_bits(b: Builder, et: ElementType, x: Val) -> Val:
    """The bits of x, with those above a sub-byte width clear."""
    return b.and_(x, (1 << et.bits) - 1) if et.bits < 8 else x


@ELEMENT.rule(ops.POPCNT)
def popcnt(b: Builder, s: Site, x: Val) -> Value:
    """How many bits are set."""
    if not s.et.is_integer:
        raise s.refuse()
    return wrap(b, s.et, b.same("ctpop", _unsigned_bits(b, s.et, x)))


@ELEMENT.rule(ops.CLZ)
def count_leading_zeros(b: Builder, s: Site, x: Val) -> Value:
    """How many leading bits are clear; the width for 0."""
    if not s.et.is_integer:
        raise s.refuse()
    over = ((x.ty, x.lanes),)
    count = b.intrinsic("ctlz", [_unsigned_bits(b, s.et, x), b.flag(False)], x.ty, x.lanes, over)
    return wrap(b, s.et, b.sub(count, 8 - s.et.bits) if s.et.bits < 8 else count)


def _amount_fits(b: Builder, et: ElementType, amount: Val) -> Val:
    """Whether a shift amount, as an unsigned number, is below the width."""
    return b.icmp("ult", amount, et.bits)


@ELEMENT.rule(ops.SHIFT_LEFT)
def shift_left(b: Builder, s: Site, x: Val, amount: Val) -> Value:
    """x << amount; 0 when the amount reaches the width."""
    if not s.et.is_integer:
        raise s.refuse()
    return wrap(b, s.et, b.select(_amount_fits(b, s.et, amount), b.shl(x, amount), 0))


@ELEMENT.rule(ops.SHIFT_RIGHT_LOGICAL)
def shift_right_logical(b: Builder, s: Site, x: Val, amount: Val) -> Value:
    """x >> amount, zeros in; 0 when the amount reaches the width."""
    if not s.et.is_integer:
        raise s.refuse()
    shifted = b.lshr(_unsigned_bits(b, s.et, x), amount)
    return wrap(b, s.et, b.select(_amount_fits(b, s.et, amount), shifted, 0))


@ELEMENT.rule(ops.SHIFT_RIGHT_ARITHMETIC)
def shift_right_arithmetic(b: Builder, s: Site, x: Val, amount: Val) -> Value:
    """x >> amount, copies of the top bit in (of the element's own width, also for unsigned types)."""
    if not s.et.is_integer:
        raise s.refuse()
    if s.et.is_unsigned and s.et.bits < 8:
        x = b.ashr(b.shl(x, 8 - s.et.bits), 8 - s.et.bits)
    return wrap(b, s.et, b.ashr(x, b.umin(amount, s.et.bits - 1)))
