"""Functions of complex numbers as expressions of their real and imaginary parts.

Formulas: W. Kahan, "Branch cuts for complex elementary functions" (1987), and C99 Annex G for infinities, zeros and NaN
where the evaluator follows it. Scaling by powers of two keeps intermediate values in range. `b` builds, a `Pair` is a
complex value; parts are f32 or f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xyla.hlo import ops
from xyla.passes.building import Builder, Val
from xyla.support.dtypes import F64, S32, S64, ElementType

_INF = math.inf
_LN2 = math.log(2)


@dataclass(frozen=True, slots=True)
class Pair:
    """re + i im."""

    re: Val
    im: Val


Unary = Callable[[Builder, Pair], Pair]
Binary = Callable[[Builder, Pair, Pair], Pair]


@dataclass(frozen=True, slots=True)
class _Format:
    mantissa: int
    bias: int
    integer: ElementType
    largest: float


_SINGLE = _Format(23, 127, S32, float(np.finfo(np.float32).max))
_DOUBLE = _Format(52, 1023, S64, float(np.finfo(np.float64).max))


def _format(x: Val) -> _Format:
    return _DOUBLE if x.et is F64 else _SINGLE


# -- real helpers ------------------------------------------------------------------------------------------------------


def absolute(b: Builder, x: Val) -> Val:
    """|x|."""
    return b.unary(ops.ABS, x)


def real_sqrt(b: Builder, x: Val) -> Val:
    """The square root of a real value."""
    return b.unary(ops.SQRT, x)


def _exp(b: Builder, x: Val) -> Val:
    return b.unary(ops.EXP, x)


def sin_cos(b: Builder, x: Val) -> tuple[Val, Val]:
    """Sine and cosine of a real value."""
    return b.unary(ops.SINE, x), b.unary(ops.COSINE, x)


def _negative(x: Val) -> Val:
    """Whether the sign bit is set."""
    return x.bitcast(_format(x).integer).lt(0)


def copysign(b: Builder, size: Val | float, sign: Val) -> Val:
    """|size| with the sign of `sign`."""
    value = absolute(b, size) if isinstance(size, Val) else b.full(abs(size), sign.et, sign.dims)
    return b.select(_negative(sign), -value, value)


def infinite(b: Builder, x: Val) -> Val:
    """Whether a part is infinite."""
    return absolute(b, x).eq(_INF)


def _exponent(b: Builder, size: Val) -> Val:
    """e with 2^-e size in [1, 4) for normal values, as an integer; a normal 2^-e always."""
    fmt = _format(size)
    field = size.bitcast(fmt.integer) >> fmt.mantissa
    return b.minimum(b.maximum(field, 1), 2 * fmt.bias - 1) - fmt.bias


def _power_of_two(exponent: Val, like: Val) -> Val:
    fmt = _format(like)
    return ((exponent + fmt.bias) << fmt.mantissa).bitcast(like.et)


def _ldexp(b: Builder, x: Val, n: Val) -> Val:
    """2^n x, for n as large as the difference of two exponents."""
    half = b.shift_arithmetic(n, 1)
    return x * _power_of_two(half, x) * _power_of_two(n - half, x)


def _larger(b: Builder, z: Pair) -> Val:
    return b.maximum(absolute(b, z.re), absolute(b, z.im))


def shrinking(b: Builder, x: Pair, y: Pair) -> Val:
    """A power of two that brings the largest part of x and y near one."""
    return _power_of_two(-_exponent(b, b.maximum(_larger(b, x), _larger(b, y))), x.re)


def _scaled_modulus(b: Builder, z: Pair) -> tuple[Val, Val]:
    """(2^-e |z|, e) with the first near one."""
    e = _exponent(b, _larger(b, z))
    down = _power_of_two(-e, z.re)
    p, q = z.re * down, z.im * down
    return real_sqrt(b, p * p + q * q), e


def modulus(b: Builder, z: Pair) -> Val:
    """|z|: infinite if either part is, even beside a NaN; no undue overflow or underflow."""
    root, e = _scaled_modulus(b, z)
    either = infinite(b, z.re) | infinite(b, z.im)
    return b.select(either, _INF, root * _power_of_two(e, root))


def exp_times(b: Builder, x: Val, factor: Val) -> Val:
    """Gives e^x factor, without overflow of e^x alone."""
    half = _exp(b, x * 0.5)
    return b.select(factor.eq(0) & x.lt(_INF), factor, half * factor * half)


# -- arithmetic --------------------------------------------------------------------------------------------------------


def add(b: Builder, x: Pair, y: Pair) -> Pair:
    """x + y."""
    return Pair(x.re + y.re, x.im + y.im)


def subtract(b: Builder, x: Pair, y: Pair) -> Pair:
    """x - y."""
    return Pair(x.re - y.re, x.im - y.im)


def negate(b: Builder, z: Pair) -> Pair:
    """-z."""
    return Pair(-z.re, -z.im)


def multiply(b: Builder, x: Pair, y: Pair) -> Pair:
    """x y by the textbook formula, as XLA defines it: infinities are not recovered."""
    return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def _unit(b: Builder, x: Val) -> Val:
    """±1 for infinities, ±0 otherwise."""
    return copysign(b, b.select(infinite(b, x), b.full(1, x.et, x.dims), 0.0), x)


def _smith(b: Builder, x: Pair, y: Pair) -> tuple[Val, Val]:
    """The parts of x / y by Smith's algorithm, for parts near one. The evaluator's: zeros have its signs."""
    flat = absolute(b, y.re).ge(absolute(b, y.im))
    big, small = b.select(flat, y.re, y.im), b.select(flat, y.im, y.re)
    ratio = small / big
    scale = 1.0 / (big + small * ratio)
    re = b.select(flat, x.re + x.im * ratio, x.re * ratio + x.im)
    im = b.select(flat, x.im - x.re * ratio, x.im * ratio - x.re)
    return re * scale, im * scale


def divide(b: Builder, x: Pair, y: Pair) -> Pair:
    """x / y, both scaled near one first; where the formula gives NaN + NaN i, the values of C99 Annex G."""
    ex, ey = _exponent(b, _larger(b, x)), _exponent(b, _larger(b, y))
    fx, fy = _power_of_two(-ex, x.re), _power_of_two(-ey, y.re)
    p, q, c, d = x.re * fx, x.im * fx, y.re * fy, y.im * fy
    re, im = (_ldexp(b, part, ex - ey) for part in _smith(b, Pair(p, q), Pair(c, d)))
    zero = y.re.eq(0) & y.im.eq(0)
    lost = (re.ne(re) & im.ne(im)) | zero
    nan = x.re.ne(x.re) & x.im.ne(x.im)
    by_zero = zero & ~nan
    grown = (infinite(b, x.re) | infinite(b, x.im)) & b.unary(ops.IS_FINITE, y.re) & b.unary(ops.IS_FINITE, y.im)
    gone = (infinite(b, y.re) | infinite(b, y.im)) & b.unary(ops.IS_FINITE, x.re) & b.unary(ops.IS_FINITE, x.im)
    u, v, r, s = (_unit(b, part) for part in (x.re, x.im, y.re, y.im))
    infinity = copysign(b, _INF, y.re)
    edges = (
        (by_zero, infinity * x.re, infinity * x.im),
        (grown & ~by_zero, (u * y.re + v * y.im) * _INF, (v * y.re - u * y.im) * _INF),
        (gone, (x.re * r + x.im * s) * 0.0, (x.im * r - x.re * s) * 0.0),
    )
    for where, edge_re, edge_im in edges:
        re, im = b.select(lost & where, edge_re, re), b.select(lost & where, edge_im, im)
    return Pair(re, im)


def sign(b: Builder, z: Pair) -> Pair:
    """z / |z|; z itself for 0, NaN + NaN i if either part is NaN."""
    root, e = _scaled_modulus(b, z)
    down = _power_of_two(-e, z.re)
    either = infinite(b, z.re) | infinite(b, z.im)
    root = b.select(either, _INF, root)
    zero, nan = z.re.eq(0) & z.im.eq(0), z.re.ne(z.re) | z.im.ne(z.im)
    re, im = (b.select(zero, v, b.select(nan, math.nan, v * down / root)) for v in (z.re, z.im))
    return Pair(re, im)


# -- exponential and logarithm -----------------------------------------------------------------------------------------


def exp(b: Builder, z: Pair) -> Pair:
    """e^re (cos im + i sin im); an imaginary part of zero stays what it is."""
    s, c = sin_cos(b, z.im)
    return Pair(exp_times(b, z.re, c), b.select(z.im.eq(0), z.im, exp_times(b, z.re, s)))


def expm1(b: Builder, z: Pair) -> Pair:
    """e^z - 1: expm1(re) cos im - 2 sin(im / 2)^2, e^re sin im."""
    s, c = sin_cos(b, z.im)
    half = b.unary(ops.SINE, z.im * 0.5)
    small = b.unary(ops.EXPM1, z.re)
    near = b.select(z.im.eq(0), small, small * c - half * half * 2.0)
    re = b.select(z.re.gt(40), exp_times(b, z.re, c), near)
    return Pair(re, b.select(z.im.eq(0), z.im, exp_times(b, z.re, s)))


def log_modulus(b: Builder, z: Pair) -> Val:
    """Gives log|z|, accurate also where z is near 1."""
    re, im = absolute(b, z.re), absolute(b, z.im)
    swap = im.gt(re)
    big, small = b.select(swap, im, re), b.select(swap, re, im)
    root, e = _scaled_modulus(b, z)
    far = b.unary(ops.LOG, root) + e.convert(root.et) * _LN2
    near = b.unary(ops.LOG1P, (big - 1) * (big + 1) + small * small) * 0.5
    value = b.select(big.gt(0.5) & big.lt(2), near, far)
    return b.select(re.eq(_INF) | im.eq(_INF), _INF, value)


def log(b: Builder, z: Pair) -> Pair:
    """log|z| + i atan2(im, re)."""
    return Pair(log_modulus(b, z), b.binary(ops.ATAN2, z.im, z.re))


def log1p(b: Builder, z: Pair) -> Pair:
    """log(1 + z): near 0 the real part is log1p(re (re + 2) + im^2) / 2."""
    near = b.unary(ops.LOG1P, z.re * (z.re + 2) + z.im * z.im) * 0.5
    shifted = Pair(z.re + 1, z.im)
    close = _larger(b, z).lt(0.5)
    return Pair(b.select(close, near, log_modulus(b, shifted)), b.binary(ops.ATAN2, z.im, shifted.re))


def logistic(b: Builder, z: Pair) -> Pair:
    """1 / (1 + e^-z), as e^z / (1 + e^z) left of the imaginary axis, where e^-z would overflow."""
    left = z.re.lt(0)
    grown = exp(b, Pair(b.select(left, z.re, -z.re), b.select(left, z.im, -z.im)))
    gone = infinite(b, z.re)  # whatever the angle
    grown = Pair(*(b.select(gone & v.ne(v), 0.0, v) for v in (grown.re, grown.im)))
    top = Pair(b.select(left, grown.re, 1.0), b.select(left, grown.im, 0.0))
    return divide(b, top, Pair(grown.re + 1, grown.im + 0.0))


def power(b: Builder, x: Pair, y: Pair) -> Pair:
    """x^y = e^(y log x); x^0 is 1, 0^y is 0 for a positive real y."""
    size, angle = b.unary(ops.LOG, modulus(b, x)), b.binary(ops.ATAN2, x.im, x.re)
    grown, turn = y.re * size - y.im * angle, y.im * size + y.re * angle
    s, c = sin_cos(b, turn)
    one = y.re.eq(0) & y.im.eq(0)
    zero = x.re.eq(0) & x.im.eq(0) & y.re.gt(0) & y.im.eq(0)
    re = b.select(zero, 0.0, exp_times(b, grown, c))
    im = b.select(zero, 0.0, exp_times(b, grown, s))
    return Pair(b.select(one, 1.0, re), b.select(one, 0.0, im))


# -- roots -------------------------------------------------------------------------------------------------------------


def sqrt(b: Builder, z: Pair) -> Pair:
    """The principal square root: real part not negative, imaginary part with the sign of z's."""
    root, e = _scaled_modulus(b, z)
    odd = e & 1
    # 2^e with e even comes out of the root as 2^(e/2).
    up = _power_of_two(odd, z.re)
    p = absolute(b, z.re) * _power_of_two(-e, z.re) * up
    t = real_sqrt(b, (p + root * up) * 0.5) * _power_of_two(b.shift_arithmetic(e - odd, 1), z.re)
    size = absolute(b, z.im)
    zero = z.re.eq(0) & z.im.eq(0)
    u = b.select(zero, 0.0, size / t * 0.5)
    left = _negative(z.re) & ~zero
    re, im = b.select(left, u, t), b.select(left, t, u)
    right_end, left_end, number = z.re.eq(_INF), z.re.eq(-_INF), z.im.eq(z.im)
    re = b.select(right_end, _INF, b.select(left_end & number, 0.0, re))
    im = b.select(right_end & number, 0.0, b.select(left_end, _INF, im))
    steep = infinite(b, z.im)
    return Pair(b.select(steep, _INF, re), copysign(b, b.select(steep, _INF, im), z.im))


def rsqrt(b: Builder, z: Pair) -> Pair:
    """1 / sqrt(z); inf + NaN i for 0, 0 for infinities."""
    root = sqrt(b, z)
    size = modulus(b, root)
    zero, endless = z.re.eq(0) & z.im.eq(0), infinite(b, z.re) | infinite(b, z.im)
    re = b.select(endless, 0.0, b.select(zero, _INF, root.re / size / size))
    im = b.select(zero, math.nan, -root.im / size / size)
    return Pair(re, b.select(endless, copysign(b, 0.0, -z.im), im))


def cbrt(b: Builder, z: Pair) -> Pair:
    """The principal cube root: the real one of |z| at a third of its angle; 0 for 0."""
    root, e = _scaled_modulus(b, z)
    third = (e.convert(z.re.et) / 3.0).convert(e.et)
    size = b.unary(ops.CBRT, root * _power_of_two(e - third * 3, root)) * _power_of_two(third, root)
    s, c = sin_cos(b, b.binary(ops.ATAN2, z.im, z.re) / 3.0)
    size = b.select(infinite(b, z.re) | infinite(b, z.im), _INF, size)
    zero = z.re.eq(0) & z.im.eq(0)
    return Pair(b.select(zero, 0.0, size * c), b.select(zero, 0.0, size * s))
