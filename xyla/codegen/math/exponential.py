"""exp, expm1, log, log1p, logistic and the hyperbolic functions.

exp: x = n ln2 + r, |r| <= ln2/2, e^r from a minimax polynomial, scaled by 2^n. log: x = 2^e m with m from sqrt(1/2) to
sqrt(2); f32 takes a polynomial in m - 1, f64 one in ((m - 1)/(m + 1))^2. The polynomials are Remez fits made for xyla;
their errors stand beside them.
"""

from __future__ import annotations

from xyla.codegen.llvm import Builder, Val, constant
from xyla.codegen.math.formats import (
    INF,
    NAN,
    SINGLE,
    Format,
    bits_of,
    format_of,
    from_bits,
    polynomial,
    power_of_two,
    scale,
    two_sum_fast,
)

# (e^r - 1 - r) / r^2 on |r| <= 0.347: errors 2^-27.5 and 2^-62.8 of e^r.
_EXP = {
    "float": (0.5, 0.1666652262210846, 0.041666485369205475, 0.008369239047169685, 0.0013933753361925483),
    "double": (
        0.5, 0.16666666666666674, 0.04166666666666667, 0.008333333333322106, 0.001388888888888087,
        0.0001984126988689938, 2.4801587334173293e-05, 2.7557241988233707e-06, 2.755726406551688e-07,
        2.5110181088616394e-08, 2.0918231851963466e-09,
    ),
}  # fmt: skip
# The same to 2^-33.5 only, for an f32 result computed in f64.
_EXP_SHORT = (
    0.5000000081398948, 0.16666666757066131, 0.041666238610347704, 0.008333285792779452,
    0.0013948728046044476, 0.00019907735076554652,
)  # fmt: skip
# ln 2 in two parts; n * the first is exact for every exponent n.
_LN2 = {"float": (0.693145751953125, 1.4286068203094172e-06), "double": (0.6931471803691238, 1.9082149292705877e-10)}
_LOG2_E = 1.4426950408889634
# Beyond these e^x overflows, and is 0 or rounds expm1 to -1.
_EXP_RANGE = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}
_EXPM1_LOW = {"float": -20.0, "double": -40.0}

# (log1p(f) - f + f^2/2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1]: error 2^-30.3.
_LOG_SINGLE = (
    0.3333331346511841, -0.25000008940696716, 0.2000211775302887, -0.1666799634695053, 0.14219561219215393,
    -0.12405582517385483, 0.11888108402490616, -0.11675731837749481, 0.0674685388803482,
)  # fmt: skip
# (log((1 + s)/(1 - s)) / s - 2) / s^2 in s^2, |s| <= 0.1716: error 2^-66.7.
_LOG_DOUBLE = (
    0.6666666666666666, 0.40000000000006225, 0.28571428569091845, 0.22222222645972095, 0.18181775725616675,
    0.15387088371761706, 0.1325016698189666, 0.13250924665556651,
)  # fmt: skip


def _reduce(b: Builder, x: Val, fmt: Format) -> tuple[Val, Val]:
    """(n, r): x = n ln2 + r with n integral in the low bits of an integer. NaN gives a NaN r and any n."""
    shifted = b.fma(x, _LOG2_E, fmt.round_magic)
    n = b.fsub(shifted, fmt.round_magic)
    high, low = _LN2[fmt.ty]
    r = b.fma(n, -low, b.fma(n, -high, x))
    count = b.sub(bits_of(b, shifted), _magic_bits(fmt))
    return count, r


def _reduce_twice(b: Builder, x: Val, fmt: Format) -> tuple[Val, Val, Val]:
    """(n, r, low) as `_reduce`, with what the rounding of r lost."""
    shifted = b.fma(x, _LOG2_E, fmt.round_magic)
    n = b.fsub(shifted, fmt.round_magic)
    high, low = _LN2[fmt.ty]
    exact = b.fma(n, -high, x)
    r = b.fma(n, -low, exact)
    lost = b.fma(n, -low, b.fsub(exact, r))
    return b.sub(bits_of(b, shifted), _magic_bits(fmt)), r, lost


def _magic_bits(fmt: Format) -> int:
    return ((fmt.bias + fmt.mantissa) << fmt.mantissa) | (1 << (fmt.mantissa - 1))


def _clamp(b: Builder, x: Val, low: float, high: float) -> Val:
    """x brought into a range; NaN passes."""
    x = b.select(b.fcmp("olt", x, low), low, x)
    return b.select(b.fcmp("ogt", x, high), high, x)


def _exp_minus_one_of(b: Builder, r: Val, *, short: bool = False) -> Val:
    """e^r - 1 for the reduced argument."""
    return b.fma(b.fmul(r, r), polynomial(b, r, _EXP_SHORT if short else _EXP[r.ty]), r)


def exp(b: Builder, x: Val, *, halvings: int = 0) -> Val:
    """e^x / 2^halvings, the division done in the exponent: it does not overflow before its result does."""
    fmt = format_of(x)
    low, high = _EXP_RANGE[fmt.ty]
    # Multiplying down to a subnormal costs a hundred cycles: what vanishes (masked scores are -1e9) is not computed.
    vanishes = b.fcmp("olt", x, low)
    n, r = _reduce(b, _clamp(b, b.select(vanishes, 0.0, x), low, high + halvings), fmt)
    value = b.fadd(_exp_minus_one_of(b, r), 1.0)
    return b.select(vanishes, 0.0, scale(b, value, b.sub(n, halvings) if halvings else n))


def exp_moderate(b: Builder, x: Val, *, short: bool = False) -> Val:
    """e^x for arguments whose result is known to be normal (|x| <= 80, f64 700): no clamping, one scaling.

    NaN gives NaN. `short` (f64 only) computes to f32's accuracy.
    """
    fmt = format_of(x)
    n, r = _reduce(b, x, fmt)
    value = b.fadd(_exp_minus_one_of(b, r, short=short), 1.0)
    return b.fmul(value, power_of_two(b, n, fmt))


def exp_sum(b: Builder, high: Val, low: Val) -> Val:
    """e^(high + low), |low| far below |high|."""
    fmt = format_of(high)
    least, most = _EXP_RANGE[fmt.ty]
    inside = b.fcmp("olt", b.fabs(high), 1.1 * most)
    n, r = _reduce(b, _clamp(b, high, least, most), fmt)
    total, rest = two_sum_fast(b, r, b.select(inside, low, 0.0))
    value = b.fadd(b.fadd(_exp_minus_one_of(b, total), rest), 1.0)
    return scale(b, value, n)


def exp_times(b: Builder, x: Val, *factors: Val, halvings: int = 0) -> list[Val]:
    """e^x / 2^halvings times each factor: overflows only where the product does. e^-inf is 0."""
    fmt = format_of(x)
    # Above the first bound even a subnormal factor overflows; `scale` takes one to `reach`, the rest comes after it.
    reach = 2 * fmt.bias - 4
    n, r = _reduce(b, _clamp(b, x, -reach * 0.6931, (reach + fmt.mantissa + 8) * 0.6931), fmt)
    value = b.fadd(_exp_minus_one_of(b, r), 1.0)
    count = b.sub(n, halvings) if halvings else n
    near = b.smin(count, reach)
    more = power_of_two(b, b.sub(count, near), fmt)
    return [b.fmul(scale(b, b.fmul(value, f), near), more) for f in factors]


def expm1(b: Builder, x: Val) -> Val:
    """e^x - 1, accurate near 0; keeps -0."""
    fmt = format_of(x)
    clamped = _clamp(b, x, _EXPM1_LOW[fmt.ty], _EXP_RANGE[fmt.ty][1])
    n, r, low = _reduce_twice(b, clamped, fmt)
    rest = b.fma(b.fmul(r, r), polynomial(b, r, _EXP[r.ty]), low)
    # In halves, so that 2^n itself cannot overflow: 2 (2^(n-1) (r + rest) + (2^(n-1) - 1/2)).
    half = power_of_two(b, b.sub(n, 1), fmt)
    base = b.fsub(half, 0.5)
    lead = b.fma(half, r, base)
    lost = b.fma(half, r, b.fsub(base, lead))
    value = b.fadd(lead, b.fma(half, rest, lost))
    # A tiny x is its own result; the halves would lose the last bit of a subnormal, and the sign of 0.
    tiny = b.fcmp("olt", b.fabs(x), 2.0 ** -(fmt.mantissa + 2))
    return b.select(tiny, x, b.fadd(value, value))


def split(b: Builder, x: Val, fmt: Format) -> tuple[Val, Val]:
    """(e, m): a positive normal x is 2^e m with sqrt(1/2) <= m < sqrt(2); e is an integer."""
    offset = (fmt.bias << fmt.mantissa) - _sqrt_half_bits(fmt)
    shifted = b.add(bits_of(b, x), offset)
    e = b.sub(b.lshr(shifted, fmt.mantissa), fmt.bias)
    m = b.add(b.and_(shifted, (1 << fmt.mantissa) - 1), _sqrt_half_bits(fmt))
    return e, from_bits(b, m)


def _sqrt_half_bits(fmt: Format) -> int:
    return 0x3F3504F3 if fmt is SINGLE else 0x3FE6A09E667F3BCD


def _log1p_reduced(b: Builder, f: Val, tail: Val | None) -> Val:
    """log(1 + f) + tail for the reduced f; `tail` is added while the leading f is still apart."""
    if f.ty == "float":
        square = b.fmul(f, f)
        series = b.fmul(b.fmul(square, f), polynomial(b, f, _LOG_SINGLE))
        if tail is not None:
            series = b.fadd(series, tail)
        return b.fadd(f, b.fma(square, -0.5, series))
    half_square = b.fmul(b.fmul(f, f), 0.5)
    s = b.fdiv(f, b.fadd(f, 2.0))
    z = b.fmul(s, s)
    series = b.fmul(s, b.fma(z, polynomial(b, z, _LOG_DOUBLE), half_square))
    if tail is not None:
        series = b.fadd(series, tail)
    return b.fsub(f, b.fsub(half_square, series))


def _log_of(b: Builder, e: Val, f: Val) -> Val:
    """e ln2 + log(1 + f)."""
    high, low = _LN2[f.ty]
    count = b.cast("sitofp", e, f.ty)
    return b.fma(count, high, _log1p_reduced(b, f, b.fmul(count, low)))


def log(b: Builder, x: Val) -> Val:
    """The natural logarithm: -inf at 0, NaN below."""
    fmt = format_of(x)
    tiny = b.fcmp("olt", x, fmt.min_normal)
    normal = b.select(tiny, b.fmul(x, 2.0 ** (fmt.mantissa + 1)), x)
    e, m = split(b, normal, fmt)
    e = b.select(tiny, b.sub(e, fmt.mantissa + 1), e)
    return _log_edges(b, x, _log_of(b, e, b.fsub(m, 1.0)), 0.0)


def _log_edges(b: Builder, x: Val, value: Val, pole: float) -> Val:
    """-inf at the pole, NaN below it, x itself where x is inf or NaN."""
    value = b.select(b.fcmp("olt", x, INF), value, x)
    value = b.select(b.fcmp("oeq", x, pole), -INF, value)
    return b.select(b.fcmp("olt", x, pole), NAN, value)


def log1p(b: Builder, x: Val) -> Val:
    """log(1 + x), accurate near 0; keeps -0."""
    fmt = format_of(x)
    u = b.fadd(x, 1.0)
    e, m = split(b, u, fmt)
    # m - 1 = x 2^-e + (2^-e - 1): one rounding, so what 1 + x lost comes back.
    shrink = power_of_two(b, b.sub(0, b.smin(e, fmt.bias - 1)), fmt)
    f = b.fma(x, shrink, b.fsub(shrink, 1.0))
    f = b.select(b.icmp("sgt", e, fmt.mantissa + 2), b.fsub(m, 1.0), f)
    f = b.select(b.icmp("eq", e, 0), x, f)
    value = b.select(b.fcmp("oeq", x, 0.0), x, _log_of(b, e, f))
    return _log_edges(b, x, value, -1.0)


def logistic(b: Builder, x: Val) -> Val:
    """1 / (1 + e^-x), without overflow and with gradual underflow."""
    fmt = format_of(x)
    low, high = _EXP_RANGE[fmt.ty]
    n, r, lost = _reduce_twice(b, _clamp(b, b.fneg(b.fabs(x)), low, high), fmt)
    rest = b.fma(b.fmul(r, r), polynomial(b, r, _EXP[r.ty]), lost)
    # e = e^-|x| and 1 + e, each with what its rounding lost; then the quotient, corrected by its residual.
    sum_, sum_low = two_sum_fast(b, r, rest)
    e, e_low = two_sum_fast(b, constant(1.0, x.ty, x.lanes), sum_)
    e, e_low = scale(b, e, n), scale(b, b.fadd(e_low, sum_low), n)
    bottom, bottom_low = two_sum_fast(b, constant(1.0, x.ty, x.lanes), e)
    bottom_low = b.fadd(bottom_low, e_low)
    negative = b.fcmp("olt", x, 0.0)
    top, top_low = b.select(negative, e, 1.0), b.select(negative, e_low, 0.0)
    inverse = b.fdiv(1.0, bottom)
    quotient = b.fmul(top, inverse)
    residual = b.fma(b.fneg(quotient), bottom, top)
    residual = b.fadd(residual, b.fma(b.fneg(quotient), bottom_low, top_low))
    return b.fma(residual, inverse, quotient)


# tanh(x)/x - 1 over x^2, in x^2, |x| <= 0.6: errors 2^-28.5 and 2^-62.7.
_TANH = {
    "float": (
        -0.33333298563957214, 0.13331960141658783, -0.053786762058734894, 0.020805569365620613,
        -0.005906010512262583,
    ),
    "double": (
        -0.33333333333333326, 0.1333333333333182, -0.05396825396724447, 0.021869488502339888,
        -0.0088632348649925, 0.003592119691727122, -0.0014557642803168902, 0.0005896231316596391,
        -0.0002375155857827835, 9.249520708267654e-05, -3.1185308737696474e-05, 6.506755088828264e-06,
    ),
}  # fmt: skip


def tanh(b: Builder, x: Val) -> Val:
    """Hyperbolic tangent."""
    ax = b.fabs(x)
    z = b.fmul(x, x)
    small = b.fma(b.fmul(z, ax), polynomial(b, z, _TANH[x.ty]), ax)
    capped = b.select(b.fcmp("ogt", ax, 20.0), 20.0, ax)  # tanh(20) rounds to 1
    e = exp_moderate(b, b.fadd(capped, capped))
    large = b.fsub(1.0, b.fdiv(2.0, b.fadd(e, 1.0)))
    return b.copysign(b.select(b.fcmp("olt", ax, 0.6), small, large), x)


def sinh(b: Builder, x: Val) -> Val:
    """Hyperbolic sine."""
    fmt = format_of(x)
    ax = b.fabs(x)
    t = expm1(b, ax)
    u = b.fadd(t, 1.0)
    # (e^x - e^-x)/2 from t = e^x - 1; below 1 in the form that loses no digits.
    below = b.fsub(b.fadd(t, t), b.fdiv(b.fmul(t, t), u))
    above = b.fadd(t, b.fdiv(t, u))
    value = b.fmul(b.select(b.fcmp("olt", ax, 1.0), below, above), 0.5)
    huge = exp(b, ax, halvings=1)
    value = b.select(b.fcmp("ogt", ax, (fmt.mantissa + 1) * 0.7), huge, value)
    return b.copysign(value, x)


def cosh(b: Builder, x: Val) -> Val:
    """Hyperbolic cosine."""
    half = exp(b, b.fabs(x), halvings=1)
    return b.fadd(half, b.fdiv(0.25, half))


def asinh(b: Builder, x: Val) -> Val:
    """Inverse hyperbolic sine."""
    fmt = format_of(x)
    ax = b.fabs(x)
    limit = 2.0 ** (fmt.mantissa // 2 + 2)
    big = b.fcmp("ogt", ax, limit)
    tame = b.select(big, 1.0, ax)
    square = b.fmul(tame, tame)
    grown = b.fadd(tame, b.fdiv(square, b.fadd(b.sqrt(b.fadd(square, 1.0)), 1.0)))
    return b.copysign(_log_or_log1p(b, big, ax, grown), x)


def _log_or_log1p(b: Builder, big: Val, x: Val, y: Val) -> Val:
    """log(2x) where `big`, else log1p(y), with one evaluation: x - 1 is exact for big x, or is x."""
    value = log1p(b, b.select(big, b.fsub(x, 1.0), y))
    return b.select(big, b.fadd(value, 0.6931471805599453), value)


def acosh(b: Builder, x: Val) -> Val:
    """Inverse hyperbolic cosine: NaN below 1."""
    fmt = format_of(x)
    big = b.fcmp("ogt", x, 2.0 ** (fmt.mantissa // 2 + 2))
    t = b.select(big, 1.0, b.fsub(x, 1.0))
    grown = b.fadd(t, b.sqrt(b.fma(t, t, b.fadd(t, t))))
    return b.select(b.fcmp("olt", x, 1.0), NAN, _log_or_log1p(b, big, x, grown))


def atanh(b: Builder, x: Val) -> Val:
    """Inverse hyperbolic tangent: ±inf at ±1, NaN beyond."""
    ax = b.fabs(x)
    t = b.fdiv(b.fadd(ax, ax), b.fsub(1.0, ax))
    return b.copysign(b.fmul(log1p(b, t), 0.5), x)
