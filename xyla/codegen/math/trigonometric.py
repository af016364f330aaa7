"""sin, cos, tan, atan2 and the inverse functions.

Arguments are reduced to r + r_low = x - n pi/2 with |r| <= pi/4: by three fused multiply-adds with pi/2 in three parts
while n is small enough for the first to be exact, else by Payne and Hanek's method (payne_hanek.py), a scalar path.
"""

from __future__ import annotations

from math import pi

from xyla.codegen.llvm import Builder, Val, Value, constant
from xyla.codegen.math.formats import (
    NAN,
    Format,
    bits_of,
    format_of,
    polynomial,
    two_sum_fast,
)
from xyla.codegen.math.payne_hanek import reduce_large

# (sin r / r - 1) / r^2 in r^2, |r| <= pi/4: errors 2^-28.0 and 2^-68.8.
_SIN = {
    "float": (-0.16666655242443085, 0.00833217240869999, -0.00019516475731506944),
    "double": (
        -0.16666666666666666, 0.008333333333333323, -0.0001984126984125497, 2.7557319214136077e-06,
        -2.5052104896739238e-08, 1.605836465432521e-10, -7.578596370692919e-13,
    ),
}  # fmt: skip
# (cos r - 1 + r^2/2) / r^4 in r^2: errors 2^-32.2 and 2^-62.5.
_COS = {
    "float": (0.041666653007268906, -0.0013887648237869143, 2.4462982764816843e-05),
    "double": (
        0.04166666666666665, -0.0013888888888882768, 2.4801587294562566e-05, -2.755731571407003e-07,
        2.087589371229909e-09, -1.1367741729445079e-11,
    ),
}  # fmt: skip
# pi/2 as a sum of three numbers of the format.
_HALF_PI = {
    "float": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "double": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
}
# The largest |x| for which n * (the first part) leaves an exact difference.
_SMALL_ARGUMENT = {"float": 30000.0, "double": 5e5}


def _reduce(b: Builder, x: Val) -> tuple[Val, Val, Val]:
    """(n, r, r_low): the multiple of pi/2 (its low two bits count), and what is left of x."""
    fmt = format_of(x)
    ax = b.fabs(x)
    fits = b.fcmp("ole", ax, _SMALL_ARGUMENT[fmt.ty])
    finite = b.fcmp("olt", ax, float("inf"))
    slow_wanted = b.any(b.and_(b.not_(fits), finite))
    n, r, low = _reduce_small(b, b.select(fits, x, NAN), fmt)

    def large() -> list[Value]:
        n2, r2, low2 = reduce_large(b, b.select(b.or_(fits, b.not_(finite)), 0.0, x))
        return [b.select(fits, n, n2), b.select(b.or_(fits, b.not_(finite)), r, r2), b.select(fits, low, low2)]

    out = b.cond(slow_wanted, large, lambda: [n, r, low], unlikely=True)
    n3, r3, low3 = (v for v in out if isinstance(v, Val))
    return n3, r3, low3


def _reduce_small(b: Builder, x: Val, fmt: Format) -> tuple[Val, Val, Val]:
    shifted = b.fma(x, 2.0 / pi, fmt.round_magic)
    n = b.fsub(shifted, fmt.round_magic)
    first, second, third = _HALF_PI[fmt.ty]
    exact = b.fma(n, -first, x)
    product = b.fmul(n, second)
    product_low = b.fma(n, second, b.fneg(product))
    r = b.fsub(exact, product)
    # exact - product - r, which may be as large as the rounding of r; then the smaller terms.
    lost = b.fsub(b.fsub(exact, r), product)
    low = b.fma(n, -third, b.fsub(lost, product_low))
    return bits_of(b, shifted), r, low


def _sin_parts(b: Builder, r: Val, low: Val, z: Val) -> tuple[Val, Val]:
    """sin(r + low) as a rounded value and its rest."""
    correction = b.fma(b.fmul(z, r), polynomial(b, z, _SIN[r.ty]), b.fmul(low, b.fma(z, -0.5, 1.0)))
    return two_sum_fast(b, r, correction)


def _cos_parts(b: Builder, r: Val, low: Val, z: Val) -> tuple[Val, Val]:
    """cos(r + low) as a rounded value and its rest."""
    half = b.fmul(z, 0.5)
    head = b.fsub(1.0, half)
    lost = b.fsub(b.fsub(1.0, head), half)
    rest = b.fma(b.fmul(z, z), polynomial(b, z, _COS[r.ty]), b.fma(b.fneg(r), low, lost))
    return two_sum_fast(b, head, rest)


def _sin_or_cos(b: Builder, x: Val, quarter: int) -> Val:
    n, r, low = _reduce(b, x)
    if quarter:
        n = b.add(n, quarter)
    z = b.fmul(r, r)
    sine, _ = _sin_parts(b, r, low, z)
    cosine, _ = _cos_parts(b, r, low, z)
    odd = b.icmp("ne", b.and_(n, 1), 0)
    value = b.select(odd, cosine, sine)
    return b.select(b.icmp("ne", b.and_(n, 2), 0), b.fneg(value), value)


def sin(b: Builder, x: Val) -> Val:
    """Sine; NaN for infinities; keeps -0."""
    value = _sin_or_cos(b, x, 0)
    return b.select(b.fcmp("oeq", x, 0.0), x, value)


def cos(b: Builder, x: Val) -> Val:
    """Cosine; NaN for infinities."""
    return _sin_or_cos(b, x, 1)


def sin_cos(b: Builder, x: Val) -> tuple[Val, Val]:
    """Both, with one reduction."""
    n, r, low = _reduce(b, x)
    z = b.fmul(r, r)
    sine, _ = _sin_parts(b, r, low, z)
    cosine, _ = _cos_parts(b, r, low, z)
    odd = b.icmp("ne", b.and_(n, 1), 0)
    s, c = b.select(odd, cosine, sine), b.select(odd, sine, cosine)
    s = b.select(b.icmp("ne", b.and_(n, 2), 0), b.fneg(s), s)
    c = b.select(b.icmp("ne", b.and_(b.add(n, 1), 2), 0), b.fneg(c), c)
    return b.select(b.fcmp("oeq", x, 0.0), x, s), c


def tan(b: Builder, x: Val) -> Val:
    """Tangent, as a quotient of two sums with its residual fed back."""
    n, r, low = _reduce(b, x)
    z = b.fmul(r, r)
    sine, sine_low = _sin_parts(b, r, low, z)
    cosine, cosine_low = _cos_parts(b, r, low, z)
    odd = b.icmp("ne", b.and_(n, 1), 0)
    top, top_low = b.select(odd, cosine, sine), b.select(odd, cosine_low, sine_low)
    bottom = b.select(odd, b.fneg(sine), cosine)
    bottom_low = b.select(odd, b.fneg(sine_low), cosine_low)
    inverse = b.fdiv(1.0, bottom)
    quotient = b.fmul(top, inverse)
    residual = b.fma(b.fneg(quotient), bottom, top)
    residual = b.fadd(residual, b.fma(b.fneg(quotient), bottom_low, top_low))
    value = b.fma(residual, inverse, quotient)
    return b.select(b.fcmp("oeq", x, 0.0), x, value)


# (atan a / a - 1) / a^2 in a^2, |a| <= 0.4152: errors 2^-30.5 and 2^-64.2.
_ATAN = {
    "float": (
        -0.33333316445350647, 0.19998463988304138, -0.1424333155155182, 0.10591909289360046,
        -0.060724712908267975,
    ),
    "double": (
        -0.33333333333333326, 0.19999999999997578, -0.1428571428537667, 0.11111111087468188,
        -0.09090908118848293, 0.07692282176611306, -0.06666218145161276, 0.05876937317159104,
        -0.052178596906305094, 0.04501331126063271, -0.03342273337386694, 0.015142541167997216,
    ),
}  # fmt: skip
_TAN_PI_8 = 0.41421356237309503
# pi/4, pi/2 and pi: each rounded, and what the rounding lost.
_PI = {
    "float": (3.1415927410125732, -8.742277657347586e-08),
    "double": (3.141592653589793, 1.2246467991473532e-16),
}


def _atan_ratio(b: Builder, low: Val, high: Val) -> tuple[Val, Val]:
    """atan(low/high) for 0 <= low <= high as (leading term, rest): the sum is not yet rounded."""
    pi_high, pi_low = _PI[low.ty]
    folded = b.fcmp("ogt", low, b.fmul(high, _TAN_PI_8))
    difference, difference_low = two_sum_fast(b, b.fneg(high), low)
    total, total_low = two_sum_fast(b, high, low)
    top, top_low = b.select(folded, difference, low), b.select(folded, difference_low, 0.0)
    bottom, bottom_low = b.select(folded, total, high), b.select(folded, total_low, 0.0)
    a = b.fdiv(top, bottom)
    residual = b.fadd(b.fma(b.fneg(a), bottom, top), b.fma(b.fneg(a), bottom_low, top_low))
    a_low = b.fdiv(residual, bottom)
    nothing = b.fcmp("oeq", high, 0.0)
    a, a_low = b.select(nothing, 0.0, a), b.select(nothing, 0.0, a_low)
    z = b.fmul(a, a)
    series = b.fma(b.fmul(z, a), polynomial(b, z, _ATAN[low.ty]), a_low)
    base = b.select(folded, constant(pi_high / 4, low.ty, low.lanes), 0.0)
    base_low = b.select(folded, constant(pi_low / 4, low.ty, low.lanes), 0.0)
    lead, rest = two_sum_fast(b, base, a)
    return lead, b.fadd(rest, b.fadd(series, base_low))


def atan2(b: Builder, y: Val, x: Val) -> Val:
    """The angle of the point (x, y), with C's conventions for zeros and infinities."""
    fmt = format_of(x)
    ax, ay = b.fabs(x), b.fabs(y)
    # Large arguments are halved twice (low + high must not overflow); two infinities make the angle of (1, 1).
    both = b.and_(b.fcmp("oeq", ax, float("inf")), b.fcmp("oeq", ay, float("inf")))
    ax, ay = b.select(both, 1.0, ax), b.select(both, 1.0, ay)
    swap = b.fcmp("ogt", ay, ax)
    low, high = b.select(swap, ax, ay), b.select(swap, ay, ax)
    endless = b.fcmp("oeq", high, float("inf"))
    low, high = b.select(endless, 0.0, low), b.select(endless, 1.0, high)
    shrink = b.select(b.fcmp("ogt", high, fmt.largest / 4), constant(0.25, x.ty, x.lanes), 1.0)
    lead, rest = _atan_ratio(b, b.fmul(low, shrink), b.fmul(high, shrink))
    pi_high, pi_low = _PI[x.ty]
    negative = b.icmp("slt", bits_of(b, x), 0)
    # The first octant's angle t becomes pi/2 - t above the diagonal, and that becomes pi - t left of the axis.
    flips = b.xor(swap, negative)
    lead, rest = b.select(flips, b.fneg(lead), lead), b.select(flips, b.fneg(rest), rest)
    zero = constant(0.0, x.ty, x.lanes)
    base = b.select(swap, pi_high / 2, b.select(negative, pi_high, zero))
    base_low = b.select(swap, pi_low / 2, b.select(negative, pi_low, zero))
    total, lost = two_sum_fast(b, base, lead)
    angle = b.fadd(total, b.fadd(b.fadd(lost, base_low), rest))
    nan = b.fcmp("uno", x, y)
    return b.select(nan, NAN, b.copysign(angle, y))


def atan(b: Builder, x: Val) -> Val:
    """Inverse tangent."""
    return atan2(b, x, constant(1.0, x.ty, x.lanes))


# (asin a / a - 1) / a^2 in a^2, |a| <= 1/2: errors 2^-27.6 and 2^-59.8.
_ASIN = {
    "float": (
        0.16666753590106964, 0.07495234906673431, 0.04547812044620514, 0.024141836911439896, 0.04222947731614113,
    ),
    "double": (
        0.16666666666666763, 0.0749999999997017, 0.04464285717521644, 0.03038194267863682, 0.022372215812563573,
        0.01735159713669747, 0.013980999531202042, 0.011397442742508002, 0.010788517731181214,
        0.0036750771387885042, 0.021783970317572135, -0.021107789276189202, 0.03269690346802294,
    ),
}  # fmt: skip


def _asin_core(b: Builder, x: Val) -> tuple[Val, Val, Val, Val]:
    """(|x| > 1/2, a, c a rounding error of a, asin(a) - a) with a = |x|, or sqrt((1 - |x|)/2) where |x| > 1/2."""
    ax = b.fabs(x)
    far = b.fcmp("ogt", ax, 0.5)
    half = b.fmul(b.fsub(1.0, ax), 0.5)
    z = b.select(far, half, b.fmul(ax, ax))
    root = b.sqrt(half)
    a = b.select(far, root, ax)
    # sqrt rounds: half - root^2 is what it lost, exactly.
    lost = b.fdiv(b.fma(b.fneg(root), root, half), b.fadd(root, root))
    lost = b.select(b.and_(far, b.fcmp("ogt", root, 0.0)), lost, 0.0)
    series = b.fmul(b.fmul(z, a), polynomial(b, z, _ASIN[x.ty]))
    return far, a, lost, series


def asin(b: Builder, x: Val) -> Val:
    """Inverse sine; NaN outside [-1, 1]."""
    far, a, lost, series = _asin_core(b, x)
    pi_high, pi_low = _PI[x.ty]
    head, rest = two_sum_fast(b, constant(pi_high / 2, x.ty, x.lanes), b.fmul(a, -2.0))
    tail = b.fsub(b.fadd(rest, pi_low / 2), b.fmul(b.fadd(series, lost), 2.0))
    return b.copysign(b.select(far, b.fadd(head, tail), b.fadd(a, series)), x)


def acos(b: Builder, x: Val) -> Val:
    """Inverse cosine; NaN outside [-1, 1]."""
    far, a, lost, series = _asin_core(b, x)
    pi_high, pi_low = _PI[x.ty]
    sign = b.copysign(1.0, x)
    near_one = b.fmul(b.fadd(a, b.fadd(series, lost)), 2.0)
    head, rest = two_sum_fast(b, constant(pi_high, x.ty, x.lanes), b.fmul(a, -2.0))
    near_minus_one = b.fadd(head, b.fsub(b.fadd(rest, pi_low), b.fmul(b.fadd(series, lost), 2.0)))
    head, rest = two_sum_fast(b, constant(pi_high / 2, x.ty, x.lanes), b.fmul(b.fneg(a), sign))
    middle = b.fadd(head, b.fsub(b.fadd(rest, pi_low / 2), b.fmul(series, sign)))
    edge = b.select(b.fcmp("ogt", x, 0.0), near_one, near_minus_one)
    return b.select(far, edge, middle)
