"""Trigonometric and hyperbolic functions of complex numbers, and their inverses: see `complex_formulas`."""

from __future__ import annotations

import math

from xyla.hlo import ops
from xyla.passes.building import Builder, Val
from xyla.passes.complex_formulas import (
    Pair,
    absolute,
    add,
    copysign,
    divide,
    exp_times,
    infinite,
    log,
    log_modulus,
    multiply,
    shrinking,
    sin_cos,
    sqrt,
)
from xyla.support.dtypes import F64

_INF = math.inf
# Past this the growing and the falling exponential differ by more than a rounding error.
_FAR = 40.0


def _times_i(z: Pair) -> Pair:
    return Pair(-z.im, z.re)


def _times_minus_i(z: Pair) -> Pair:
    return Pair(z.im, -z.re)


def _finite(b: Builder, x: Val) -> Val:
    return b.unary(ops.IS_FINITE, x)


def _far_parts(b: Builder, z: Pair) -> tuple[Val, Val]:
    """e^|re| / 2 times cos im and sin im; infinite re with no angle gives an infinite first part."""
    s, c = sin_cos(b, z.im)
    size = absolute(b, z.re)
    grown, turned = exp_times(b, size, c * 0.5), exp_times(b, size, s * 0.5)
    lost = infinite(b, z.re) & ~_finite(b, z.im)
    return b.select(lost, _INF, grown), turned


def sinh(b: Builder, z: Pair) -> Pair:
    """sinh re cos im + i cosh re sin im."""
    s, c = sin_cos(b, z.im)
    grown, turned = _far_parts(b, z)
    far = absolute(b, z.re).gt(_FAR)
    re = b.select(far, b.select(z.re.lt(0), -grown, grown), b.unary(ops.SINH, z.re) * c)
    im = b.select(far, turned, b.unary(ops.COSH, z.re) * s)
    # A zero part stays the zero that it is, whatever the other part.
    re = b.select(z.re.eq(0) & ~_finite(b, z.im), z.re, re)
    return Pair(re, b.select(z.im.eq(0), z.im, im))


def cosh(b: Builder, z: Pair) -> Pair:
    """cosh re cos im + i sinh re sin im."""
    s, c = sin_cos(b, z.im)
    grown, turned = _far_parts(b, z)
    far = absolute(b, z.re).gt(_FAR)
    re = b.select(far, grown, b.unary(ops.COSH, z.re) * c)
    im = b.select(far, b.select(z.re.lt(0), -turned, turned), b.unary(ops.SINH, z.re) * s)
    lost = (z.im.eq(0) | z.re.eq(0)) & im.ne(im)
    return Pair(re, b.select(lost, copysign(b, 0.0, z.re) * copysign(b, 1.0, z.im), im))


def sine(b: Builder, z: Pair) -> Pair:
    """-i sinh(i z)."""
    return _times_minus_i(sinh(b, _times_i(z)))


def cosine(b: Builder, z: Pair) -> Pair:
    """cosh(i z)."""
    return cosh(b, _times_i(z))


def tanh(b: Builder, z: Pair) -> Pair:
    """Near the axis (sinh cosh re + i sin cos im) / (sinh(re)^2 + cos(im)^2), a sum without cancellation; elsewhere
    1 - 2 q / (e^(2 i im) + q) with q = e^(-2 |re|), which cannot overflow.
    """
    size = absolute(b, z.re)
    far = size.gt(1)
    near = b.select(far, 0.5, z.re)
    sh, ch = b.unary(ops.SINH, near), b.unary(ops.COSH, near)
    s, c = sin_cos(b, z.im)
    turn, bottom = s * c, sh * sh + c * c
    q = b.unary(ops.EXP, size * -2.0)
    side, up = s * s * -2.0 + 1 + q, turn + turn
    share = (q + q) / (side * side + up * up)
    far_re, far_im = 1 - share * side, share * up
    lost = infinite(b, size) & far_im.ne(far_im)
    far_re, far_im = b.select(lost, 1.0, far_re), b.select(lost, copysign(b, 0.0, z.im), far_im)
    re = b.select(far, copysign(b, far_re, z.re), sh * ch / bottom)
    im = b.select(far, far_im, turn / bottom)
    re = b.select(z.re.eq(0) & ~_finite(b, z.im), z.re, re)
    return Pair(re, b.select(z.im.eq(0), z.im, im))


def tan(b: Builder, z: Pair) -> Pair:
    """-i tanh(i z)."""
    return _times_minus_i(tanh(b, _times_i(z)))


def atan2(b: Builder, y: Pair, x: Pair) -> Pair:
    """-i log((x + i y) / sqrt(x^2 + y^2)), of x and y scaled alike."""
    down = shrinking(b, x, y)
    x, y = Pair(x.re * down, x.im * down), Pair(y.re * down, y.im * down)
    zero, one = (b.full(v, down.et, down.dims) for v in (0.0, 1.0))
    radius = sqrt(b, add(b, multiply(b, x, x), multiply(b, y, y)))
    quotient = divide(b, add(b, x, multiply(b, Pair(zero, one), y)), radius)
    return multiply(b, Pair(-zero, -one), log(b, quotient))


def _roots(b: Builder, z: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 - z), sqrt(1 + z)."""
    return sqrt(b, Pair(1 - z.re, -z.im)), sqrt(b, Pair(z.re + 1, z.im))


def _limit(x: Val) -> float:
    """Beside its square one is lost."""
    return 2.0 ** (30 if x.et is F64 else 15)


def _far(b: Builder, z: Pair) -> tuple[Val, Val]:
    """(whether |z| is so large that z^2 - 1 is z^2, log(2 |z|))."""
    large = absolute(b, z.re).gt(_limit(z.re)) | absolute(b, z.im).gt(_limit(z.re))
    return large, log_modulus(b, z) + math.log(2)


def _upright(z: Pair) -> Val:
    """Whether the real part is 0 and the imaginary one NaN: what the first decides is still known."""
    return z.re.eq(0) & z.im.ne(z.im)


def asin(b: Builder, z: Pair) -> Pair:
    """Kahan's inverse sine, from the roots of 1 - z and 1 + z."""
    far, size = _far(b, z)
    minus, plus = _roots(b, z)
    down = minus.re * plus.re - minus.im * plus.im
    turned = minus.re * plus.im - minus.im * plus.re
    im = b.select(far, size, absolute(b, b.unary(ops.ASINH, turned)))
    re = b.binary(ops.ATAN2, z.re, b.select(far, absolute(b, z.im), down))
    return Pair(b.select(_upright(z), z.re, re), copysign(b, im, z.im))


def acos(b: Builder, z: Pair) -> Pair:
    """Kahan's inverse cosine, from the roots of 1 - z and 1 + z."""
    far, size = _far(b, z)
    minus, plus = _roots(b, z)
    turned = plus.re * minus.im - plus.im * minus.re
    angle = b.binary(ops.ATAN2, b.select(far, absolute(b, z.im), minus.re), b.select(far, z.re, plus.re))
    im = b.select(far, size, absolute(b, b.unary(ops.ASINH, turned)))
    re = b.select(_upright(z), math.pi / 2, b.select(far, angle, angle + angle))
    return Pair(re, copysign(b, im, -z.im))


def asinh(b: Builder, z: Pair) -> Pair:
    """-i asin(i z)."""
    return _times_minus_i(asin(b, _times_i(z)))


def acosh(b: Builder, z: Pair) -> Pair:
    """±i acos(z), with the sign that makes the real part positive."""
    turned = acos(b, z)
    return Pair(absolute(b, turned.im), copysign(b, turned.re, z.im))


def atanh(b: Builder, z: Pair) -> Pair:
    """log1p(4 re / ((1 - re)^2 + im^2)) / 4 + i atan2(2 im, (1 - re)(1 + re) - im^2) / 2; ±i pi/2 + 1/z far away."""
    size = absolute(b, z.re)
    gap = 1 - size
    re = b.unary(ops.LOG1P, size * 4.0 / (z.im * z.im + gap * gap)) * 0.25
    # Near ±1 the square may vanish before its logarithm does.
    close = gap.eq(0) & absolute(b, z.im).lt(1 / _limit(size))
    re = b.select(close, (math.log(2) - b.unary(ops.LOG, absolute(b, z.im))) * 0.5, re)
    im = b.binary(ops.ATAN2, z.im + z.im, gap * (size + 1) - z.im * z.im) * 0.5
    one = Pair(b.full(1.0, size.et, size.dims), b.full(0.0, size.et, size.dims))
    inverse = divide(b, one, z)
    far = size.gt(2.0**30) | absolute(b, z.im).gt(2.0**30)
    re = b.select(far, absolute(b, inverse.re), re)
    im = b.select(far, inverse.im + copysign(b, math.pi / 2, z.im), im)
    re = b.select(_upright(z), 0.0, re)
    return Pair(copysign(b, re, z.re), b.select(z.im.ne(z.im), math.nan, im))
