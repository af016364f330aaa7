"""Real functions without series: extrema, sign, remainder, precision reduction."""

from __future__ import annotations

from xyla.codegen.llvm import Builder, Param, Val, Value, constant, llvm_type
from xyla.codegen.llvm.values import INT_BITS, mangle
from xyla.codegen.math.formats import format_of
from xyla.support import dtypes
from xyla.support.dtypes import ElementType


def maximum(b: Builder, x: Val, y: Val) -> Val:
    """IEEE maximum: NaN if either is NaN, +0 above -0."""
    return b.same("maximum", x, y)


def minimum(b: Builder, x: Val, y: Val) -> Val:
    """IEEE minimum: NaN if either is NaN, -0 below +0."""
    return b.same("minimum", x, y)


def sign(b: Builder, x: Val) -> Val:
    """±1 with the sign of x; zeros and NaN give themselves."""
    unit = b.copysign(1.0, x)
    return b.select(b.fcmp("one", x, 0.0), unit, x)


def remainder(b: Builder, x: Val, y: Val) -> Val:
    """C's fmod: exact, with the sign of x.

    The quotient is truncated exactly when it is below 2^52 (f32 goes through f64); other lanes take a scalar path.
    """
    if x.ty == "float":
        wide = remainder(b, b.cast("fpext", x, "double"), b.cast("fpext", y, "double"))
        return b.cast("fptrunc", wide, "float")
    ax, ay = b.fabs(x), b.fabs(y)
    easy = b.fcmp("olt", ax, b.fmul(ay, 2.0**52))
    easy = b.and_(easy, b.fcmp("oge", ay, format_of(x).min_normal * 2.0**53))
    easy = b.and_(easy, b.fcmp("olt", ay, 2.0**970))

    def fast() -> list[Value]:
        quotient = b.round_("trunc", b.fdiv(ax, ay))
        rest = b.fma(b.fneg(quotient), ay, ax)
        # Rounding may have carried the quotient up to the next integer, never below its own.
        rest = b.select(b.fcmp("olt", rest, 0.0), b.fadd(rest, ay), rest)
        return [b.copysign(rest, x)]

    def slow() -> list[Value]:
        name = f"xyla.fmod.{mangle(x.ty, x.lanes)}"
        params = [Param(x.type, "x"), Param(y.type, "y")]
        b.needs.helper(name, params, llvm_type(x.ty, x.lanes), lambda h: _remainder_helper(h, x.lanes))
        return [b.call(name, [x, y], x.ty, x.lanes)]

    (out,) = b.cond(b.any(b.not_(easy)), slow, fast, unlikely=True)
    assert isinstance(out, Val)
    return out


def _remainder_helper(h: Builder, lanes: int) -> None:
    x, y = Val("%x", "double", lanes), Val("%y", "double", lanes)
    if lanes == 1:
        h.ret(h.binary("frem", x, y))
        return
    with h.loop(0, lanes, carry=[constant(0.0, "double", lanes)]) as lp:
        one = h.binary("frem", h.extract(x, lp.i), h.extract(y, lp.i))
        (acc,) = lp.carried
        assert isinstance(acc, Val)
        lp.next(h.insert(acc, one, lp.i))
    (out,) = lp.results
    assert isinstance(out, Val)
    h.ret(out)


# Exponent and mantissa widths of the types whose codes follow IEEE's pattern.
IEEE_LAYOUT: dict[ElementType, tuple[int, int]] = {
    dtypes.F64: (11, 52),
    dtypes.F32: (8, 23),
    dtypes.F16: (5, 10),
    dtypes.BF16: (8, 7),
    dtypes.F8E5M2: (5, 2),
    dtypes.F8E4M3: (4, 3),
    dtypes.F8E3M4: (3, 4),
}


def reduce_precision(b: Builder, et: ElementType, x: Val, exponent: int, mantissa: int) -> Val:
    """Rounds an element (in register form, its type in `IEEE_LAYOUT`) to fewer exponent and mantissa bits, to even.

    Overflow gives infinity, a magnitude below the smallest normal of the target gives zero, NaN stays where it can.
    """
    exponent_bits, mantissa_bits = IEEE_LAYOUT[et]
    bits = x if x.ty in INT_BITS else b.bitcast(x, f"i{et.bits}")
    out = bits
    if mantissa < mantissa_bits:
        drop = mantissa_bits - mantissa
        lsb = b.and_(b.lshr(bits, drop), 1)
        out = b.and_(b.add(b.add(bits, (1 << (drop - 1)) - 1), lsb), -(1 << drop))
    sign_bit = 1 << (et.bits - 1)
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    if exponent < exponent_bits:
        bias, small_bias = (1 << (exponent_bits - 1)) - 1, (1 << (exponent - 1)) - 1
        field = b.and_(out, infinity)
        sign_only = b.and_(bits, sign_bit)
        over = b.icmp("ugt", field, (bias + small_bias) << mantissa_bits)
        under = b.icmp("ule", field, (bias - small_bias) << mantissa_bits)
        out = b.select(over, b.or_(sign_only, infinity), out)
        out = b.select(under, sign_only, out)
    nan = b.icmp("ugt", b.and_(bits, sign_bit - 1), infinity)
    # Without a mantissa there is no NaN: it becomes an infinity.
    out = b.select(nan, bits if mantissa else b.or_(b.and_(bits, sign_bit), infinity), out)
    return out if x.ty in INT_BITS else b.bitcast(out, x.ty)
