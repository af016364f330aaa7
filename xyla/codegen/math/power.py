"""power: |x|^y = 2^(y log2|x|), with the logarithm to more digits than the format has.

f32 works in f64. f64 carries log|x| as an unevaluated sum of two doubles (about 100 bits) through the product with y;
the special cases are C's.
"""

from __future__ import annotations

from xyla.codegen.llvm import Builder, Val, constant
from xyla.codegen.math.exponential import exp_moderate, exp_sum, split
from xyla.codegen.math.formats import (
    DOUBLE,
    INF,
    NAN,
    bits_of,
    polynomial,
    two_product,
    two_sum_fast,
)

# (log((1 + s)/(1 - s)) / s - 2) / s^2 in s^2: error 2^-44.9 of the logarithm, for f32.
_LOG_SHORT = (
    0.6666666667578952, 0.39999995625511, 0.28572108805979196, 0.221762019698253, 0.19583977111560344,
)  # fmt: skip
# The same from its second term on, (... - 2/3) / s^2: error 2^-71.7 of the logarithm.
_LOG_TAIL = (
    0.39999999999999997, 0.2857142857143293, 0.2222222222034765, 0.18181818547205084,
    0.15384577361293822, 0.1333558788825631, 0.11688490637099834, 0.11884000011640158,
)  # fmt: skip
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# ln 2: a part whose product with an exponent is exact, and the rest to 2^-86.
_LN2 = (0.6931471803691238, 1.9082149292705877e-10)
_LN2_ROUNDED = 0.6931471805599453


def power(b: Builder, x: Val, y: Val) -> Val:
    """x to the y, with C's pow for every special case."""
    magnitude = _power_single(b, x, y) if x.ty == "float" else _power_double(b, x, y)
    return _special_cases(b, x, y, magnitude)


def _power_single(b: Builder, x: Val, y: Val) -> Val:
    ax = b.cast("fpext", b.fabs(x), "double")  # never subnormal as f64
    e, m = split(b, ax, DOUBLE)
    f = b.fsub(m, 1.0)
    s = b.fdiv(f, b.fadd(m, 1.0))
    z = b.fmul(s, s)
    log_m = b.fma(b.fmul(s, z), polynomial(b, z, _LOG_SHORT), b.fadd(s, s))
    log_x = b.fma(b.cast("sitofp", e, "double"), _LN2_ROUNDED, log_m)
    exponent = b.fmul(b.cast("fpext", y, "double"), log_x)
    # Beyond these the result is 0 or infinite in f32, and still normal in f64.
    exponent = b.select(b.fcmp("olt", exponent, -150.0), -150.0, exponent)
    exponent = b.select(b.fcmp("ogt", exponent, 150.0), 150.0, exponent)
    return b.cast("fptrunc", exp_moderate(b, exponent, short=True), "float")


def _power_double(b: Builder, x: Val, y: Val) -> Val:
    ax = b.fabs(x)
    tiny = b.fcmp("olt", ax, DOUBLE.min_normal)
    e, m = split(b, b.select(tiny, b.fmul(ax, 2.0**53), ax), DOUBLE)
    e = b.select(tiny, b.sub(e, 53), e)
    log_high, log_low = _log_double(b, b.cast("sitofp", e, "double"), m)
    # y beyond this overflows or underflows for every x but 1, and must not make inf - inf below.
    bounded = b.select(b.fcmp("ogt", b.fabs(y), 1e20), b.copysign(1e20, y), y)
    product, error = two_product(b, bounded, log_high)
    error = b.fma(bounded, log_low, error)
    high, low = two_sum_fast(b, product, error)
    return exp_sum(b, high, low)


def _log_double(b: Builder, e: Val, m: Val) -> tuple[Val, Val]:
    """e ln2 + log(m) as a sum of two doubles."""
    f = b.fsub(m, 1.0)
    bottom = b.fadd(m, 1.0)
    bottom_low = b.fsub(m, b.fsub(bottom, 1.0))
    s = b.fdiv(f, bottom)
    s_low = b.fdiv(b.fma(b.fneg(s), bottom_low, b.fma(b.fneg(s), bottom, f)), bottom)
    z, z_low = two_product(b, s, s)
    z_low = b.fma(b.fadd(s, s), s_low, z_low)
    # log m = 2 s + s z (2/3 + z tail), each product and sum with its error.
    tail = b.fmul(z, polynomial(b, z, _LOG_TAIL))
    t, t_low = two_sum_fast(b, constant(_TWO_THIRDS[0], m.ty, m.lanes), tail)
    t_low = b.fadd(t_low, _TWO_THIRDS[1])
    u, u_low = two_product(b, z, t)
    u_low = b.fadd(u_low, b.fma(z, t_low, b.fmul(z_low, t)))
    v, v_low = two_product(b, s, u)
    v_low = b.fadd(v_low, b.fma(s, u_low, b.fmul(s_low, u)))
    log_m, log_m_low = two_sum_fast(b, b.fadd(s, s), v)
    log_m_low = b.fadd(log_m_low, b.fadd(v_low, b.fadd(s_low, s_low)))
    base, base_low = b.fmul(e, _LN2[0]), b.fmul(e, _LN2[1])
    base_error = b.fma(e, _LN2[1], b.fneg(base_low))  # the first product is exact
    high, first = two_sum_fast(b, base, base_low)
    total, second = two_sum_fast(b, high, log_m)
    rest = b.fadd(b.fadd(first, second), b.fadd(log_m_low, base_error))
    return two_sum_fast(b, total, rest)


def _special_cases(b: Builder, x: Val, y: Val, magnitude: Val) -> Val:
    ax, ay = b.fabs(x), b.fabs(y)
    integral = b.fcmp("oeq", b.round_("trunc", y), y)
    half = b.fmul(y, 0.5)
    odd = b.and_(integral, b.fcmp("une", b.round_("trunc", half), half))
    negative = b.icmp("slt", bits_of(b, x), 0)
    up = b.fcmp("ogt", y, 0.0)
    # |x| of 0 or infinity, then |y| infinite.
    at_zero = b.select(up, constant(0.0, x.ty, x.lanes), INF)
    at_infinity = b.select(up, constant(INF, x.ty, x.lanes), 0.0)
    value = b.select(b.fcmp("oeq", ax, 0.0), at_zero, magnitude)
    value = b.select(b.fcmp("oeq", ax, INF), at_infinity, value)
    grows = b.xor(b.fcmp("ogt", ax, 1.0), b.fcmp("olt", y, 0.0))
    endless = b.select(grows, constant(INF, x.ty, x.lanes), 0.0)
    value = b.select(b.fcmp("oeq", ay, INF), endless, value)
    value = b.select(b.and_(b.fcmp("oeq", ax, 1.0), b.fcmp("oeq", ay, INF)), 1.0, value)
    # The sign, and NaN for a negative finite base with a fractional exponent.
    value = b.select(b.and_(negative, odd), b.fneg(value), value)
    finite_negative = b.and_(b.fcmp("olt", x, 0.0), b.fcmp("ogt", x, -INF))
    value = b.select(b.and_(finite_negative, b.not_(integral)), NAN, value)
    value = b.select(b.fcmp("uno", x, y), NAN, value)
    one = b.or_(b.fcmp("oeq", y, 0.0), b.fcmp("oeq", x, 1.0))
    return b.select(one, 1.0, value)
