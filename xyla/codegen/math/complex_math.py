"""Complex transcendental functions, from the real ones.

Formulas: W. Kahan, "Branch cuts for complex elementary functions" (1987). Signed zeros choose the side of a cut;
infinite arguments follow C's Annex G where it matters to users (exp, log, sqrt, tanh).
"""

from __future__ import annotations

from math import pi

from xyla.codegen.llvm import Builder, Cx, Val, constant
from xyla.codegen.math import exponential as real
from xyla.codegen.math.complex_basic import (
    add,
    divide,
    exponent_of,
    hypot_near_one,
    modulus,
    multiply,
    scaled_modulus,
)
from xyla.codegen.math.formats import (
    DOUBLE,
    INF,
    SINGLE,
    format_of,
    power_of_two,
    two_product,
    two_sum,
)
from xyla.codegen.math.special import cbrt as real_cbrt
from xyla.codegen.math.trigonometric import atan2 as real_atan2
from xyla.codegen.math.trigonometric import sin, sin_cos

_LN2 = 0.6931471805599453


def _one(b: Builder, model: Val) -> Cx:
    return Cx(constant(1.0, model.ty, model.lanes), constant(0.0, model.ty, model.lanes))


def _infinite(b: Builder, v: Val) -> Val:
    return b.fcmp("oeq", b.fabs(v), INF)


def _finite(b: Builder, v: Val) -> Val:
    return b.fcmp("olt", b.fabs(v), INF)


def _select(b: Builder, cond: Val, x: Cx, y: Cx) -> Cx:
    return Cx(b.select(cond, x.re, y.re), b.select(cond, x.im, y.im))


def _times_i(b: Builder, x: Cx) -> Cx:
    return Cx(b.fneg(x.im), x.re)


def _times_minus_i(b: Builder, x: Cx) -> Cx:
    return Cx(x.im, b.fneg(x.re))


def exp(b: Builder, x: Cx) -> Cx:
    """e^x; NaN where the angle is infinite, as StableHLO has it (C gives infinities and zeros)."""
    s, c = sin_cos(b, x.im)
    re, im = real.exp_times(b, x.re, c, s)
    im = b.select(b.fcmp("oeq", x.im, 0.0), x.im, im)
    return Cx(re, im)


def expm1(b: Builder, x: Cx) -> Cx:
    """e^x - 1: expm1(re) cos(im) - 2 sin(im/2)^2, e^re sin(im)."""
    s, c = sin_cos(b, x.im)
    half = sin(b, b.fmul(x.im, 0.5))
    loss = b.fmul(b.fmul(half, half), -2.0)
    near = b.fma(real.expm1(b, x.re), c, loss)
    far_re, im = real.exp_times(b, x.re, c, s)
    re = b.select(b.fcmp("ogt", x.re, 40.0), far_re, near)
    return Cx(re, b.select(b.fcmp("oeq", x.im, 0.0), x.im, im))


def _log_modulus(b: Builder, x: Cx) -> Val:
    """log|x|, accurate also where |x| is near 1, for any finite or infinite x."""
    re, im = b.fabs(x.re), b.fabs(x.im)
    root, factor = scaled_modulus(b, x)
    fmt = format_of(root)
    exponent = b.sub(fmt.bias, b.lshr(b.bitcast(factor, fmt.int_ty), fmt.mantissa))
    far = b.fma(b.cast("sitofp", exponent, root.ty), _LN2, real.log(b, root))
    near = b.fmul(real.log1p(b, _square_sum_less_one(b, re, im)), 0.5)
    swap = b.fcmp("ogt", im, re)
    big = b.select(swap, im, re)
    value = b.select(b.and_(b.fcmp("ogt", big, 0.7), b.fcmp("olt", big, 1.4)), near, far)
    return b.select(b.or_(_infinite(b, x.re), _infinite(b, x.im)), INF, value)


def _square_sum_less_one(b: Builder, re: Val, im: Val) -> Val:
    """re^2 + im^2 - 1 with compensated terms."""
    swap = b.fcmp("ogt", im, re)
    big, small = b.select(swap, im, re), b.select(swap, re, im)
    p, p_low = two_product(b, big, big)
    q, q_low = two_product(b, small, small)
    total, lost = two_sum(b, b.fsub(p, 1.0), q)
    return b.fadd(total, b.fadd(lost, b.fadd(p_low, q_low)))


def log(b: Builder, x: Cx) -> Cx:
    """The principal logarithm."""
    return Cx(_log_modulus(b, x), real_atan2(b, x.im, x.re))


def log1p(b: Builder, x: Cx) -> Cx:
    """log(1 + x), accurate near 0."""
    shifted = Cx(b.fadd(x.re, 1.0), x.im)
    far = _log_modulus(b, shifted)
    # |1 + x|^2 - 1 = 2 re + re^2 + im^2.
    p, p_low = two_product(b, x.re, x.re)
    q, q_low = two_product(b, x.im, x.im)
    first, first_low = two_sum(b, b.fadd(x.re, x.re), q)
    total, total_low = two_sum(b, first, p)
    small = b.fadd(total, b.fadd(b.fadd(first_low, total_low), b.fadd(p_low, q_low)))
    near = b.fmul(real.log1p(b, small), 0.5)
    close = b.and_(b.fcmp("olt", b.fabs(x.re), 0.4), b.fcmp("olt", b.fabs(x.im), 0.7))
    return Cx(b.select(close, near, far), real_atan2(b, x.im, shifted.re))


def logistic(b: Builder, x: Cx) -> Cx:
    """1 / (1 + e^-x), as e^x / (1 + e^x) left of the imaginary axis: e^-x would overflow there first."""
    left = b.fcmp("olt", x.re, 0.0)
    grown = exp(b, _select(b, left, x, Cx(b.fneg(x.re), b.fneg(x.im))))
    one = _one(b, x.re)
    return divide(b, _select(b, left, grown, one), add(b, one, grown))


def _far_parts(b: Builder, x: Cx, s: Val, c: Val) -> tuple[Val, Val]:
    """e^|re|/2 times cos(im) and sin(im); an infinite re with no angle gives an infinite first part."""
    grown, turned = real.exp_times(b, b.fabs(x.re), c, s, halvings=1)
    lost = b.and_(_infinite(b, x.re), b.not_(_finite(b, x.im)))
    return b.select(lost, INF, grown), turned


def sinh(b: Builder, x: Cx) -> Cx:
    """sinh(re) cos(im) + i cosh(re) sin(im)."""
    s, c = sin_cos(b, x.im)
    near = Cx(b.fmul(real.sinh(b, x.re), c), b.fmul(real.cosh(b, x.re), s))
    grown, turned = _far_parts(b, x, s, c)
    far = Cx(b.select(b.fcmp("olt", x.re, 0.0), b.fneg(grown), grown), turned)
    out = _select(b, b.fcmp("ogt", b.fabs(x.re), 40.0), far, near)
    # A zero part stays the zero that it is, whatever the other part.
    re = b.select(b.and_(b.fcmp("oeq", x.re, 0.0), b.not_(_finite(b, x.im))), x.re, out.re)
    return Cx(re, b.select(b.fcmp("oeq", x.im, 0.0), x.im, out.im))


def cosh(b: Builder, x: Cx) -> Cx:
    """cosh(re) cos(im) + i sinh(re) sin(im)."""
    s, c = sin_cos(b, x.im)
    near = Cx(b.fmul(real.cosh(b, x.re), c), b.fmul(real.sinh(b, x.re), s))
    grown, turned = _far_parts(b, x, s, c)
    far = Cx(grown, b.select(b.fcmp("olt", x.re, 0.0), b.fneg(turned), turned))
    out = _select(b, b.fcmp("ogt", b.fabs(x.re), 40.0), far, near)
    flat = b.or_(b.fcmp("oeq", x.im, 0.0), b.fcmp("oeq", x.re, 0.0))
    zero = b.fmul(b.copysign(0.0, x.re), b.copysign(1.0, x.im))
    return Cx(out.re, b.select(flat, zero, out.im))


def sine(b: Builder, x: Cx) -> Cx:
    """Sine: -i sinh(i x)."""
    return _times_minus_i(b, sinh(b, _times_i(b, x)))


def cos(b: Builder, x: Cx) -> Cx:
    """Cosine: cosh(i x)."""
    return cosh(b, _times_i(b, x))


def tanh(b: Builder, x: Cx) -> Cx:
    """Hyperbolic tangent.

    Near the axis (sinh cosh(re) + i sin cos(im)) / (sinh(re)^2 + cos(im)^2), a sum without cancellation; elsewhere
    1 - 2 q / (e^(2 i im) + q) with q = e^(-2 |re|), which cannot overflow.
    """
    ax = b.fabs(x.re)
    far = b.fcmp("ogt", ax, 1.0)
    near_re = b.select(far, 0.5, x.re)
    sh, ch = real.sinh(b, near_re), real.cosh(b, near_re)
    s, c = sin_cos(b, x.im)
    turn = b.fmul(s, c)
    inverse = b.fdiv(1.0, b.fma(sh, sh, b.fmul(c, c)))
    near = Cx(b.fmul(b.fmul(sh, ch), inverse), b.fmul(turn, inverse))
    q = real.exp(b, b.fmul(ax, -2.0))
    side, up = b.fadd(b.fma(b.fmul(s, s), -2.0, 1.0), q), b.fadd(turn, turn)
    share = b.fdiv(b.fadd(q, q), b.fma(side, side, b.fmul(up, up)))
    far_re, far_im = b.fma(b.fneg(share), side, 1.0), b.fmul(share, up)
    number = b.fcmp("ord", far_im, far_im)
    lost = b.and_(_infinite(b, ax), b.not_(number))
    far_re, far_im = b.select(lost, 1.0, far_re), b.select(lost, b.copysign(0.0, x.im), far_im)
    out = _select(b, far, Cx(b.copysign(far_re, x.re), far_im), near)
    # On an axis the zero part stays what it is, whatever the other part.
    re = b.select(b.and_(b.fcmp("oeq", x.re, 0.0), b.not_(_finite(b, x.im))), x.re, out.re)
    return Cx(re, b.select(b.fcmp("oeq", x.im, 0.0), x.im, out.im))


def tan(b: Builder, x: Cx) -> Cx:
    """Tangent: -i tanh(i x)."""
    return _times_minus_i(b, tanh(b, _times_i(b, x)))


def sqrt(b: Builder, x: Cx) -> Cx:
    """The principal square root: real part not negative, imaginary part with the sign of x's."""
    re, im = b.fabs(x.re), b.fabs(x.im)
    swap = b.fcmp("ogt", im, re)
    k = exponent_of(b, b.select(swap, im, re))
    # An even exponent of scaling comes out of the root as half of it.
    fmt = SINGLE if k.ty == "i32" else DOUBLE
    even = b.and_(b.smin(k, fmt.bias - 1), -2)
    down = power_of_two(b, b.sub(0, even), fmt)
    p, q = b.fmul(re, down), b.fmul(im, down)
    r = hypot_near_one(b, b.select(swap, q, p), b.select(swap, p, q))
    t = b.sqrt(b.fmul(b.fadd(p, r), 0.5))
    t = b.fmul(t, power_of_two(b, b.ashr(even, 1), fmt))
    u = b.fmul(b.fdiv(im, t), 0.5)  # from the unscaled part, which scaling may have made 0
    zero = b.and_(b.fcmp("oeq", re, 0.0), b.fcmp("oeq", im, 0.0))
    u = b.select(zero, 0.0, u)
    left = b.icmp("slt", b.bitcast(x.re, fmt.int_ty), 0)
    left = b.and_(left, b.not_(zero))
    out = Cx(b.select(left, u, t), b.select(left, t, u))
    out = _sqrt_infinite(b, x, out)
    return Cx(out.re, b.copysign(out.im, x.im))


def _sqrt_infinite(b: Builder, x: Cx, plain: Cx) -> Cx:
    right, left = b.fcmp("oeq", x.re, INF), b.fcmp("oeq", x.re, -INF)
    number = b.fcmp("ord", x.im, x.im)
    re = b.select(right, INF, b.select(b.and_(left, number), 0.0, plain.re))
    im = b.select(b.and_(right, number), 0.0, b.select(left, INF, plain.im))
    steep = _infinite(b, x.im)
    return Cx(b.select(steep, INF, re), b.select(steep, INF, im))


def rsqrt(b: Builder, x: Cx) -> Cx:
    """1 / sqrt(x)."""
    return divide(b, _one(b, x.re), sqrt(b, x))


def _beyond(b: Builder, v: Val) -> Val:
    return b.fcmp("ogt", b.fabs(v), format_of(v).largest / 4)


def cbrt(b: Builder, x: Cx) -> Cx:
    """The principal cube root: the real cube root of |x| at a third of its angle; 0 for 0."""
    huge = b.or_(_beyond(b, x.re), _beyond(b, x.im))
    shrink = b.select(huge, constant(0.125, x.re.ty, x.re.lanes), 1.0)
    size = real_cbrt(b, modulus(b, Cx(b.fmul(x.re, shrink), b.fmul(x.im, shrink))))
    size = b.select(huge, b.fadd(size, size), size)
    s, c = sin_cos(b, b.fmul(real_atan2(b, x.im, x.re), 1.0 / 3.0))
    return Cx(b.fmul(size, c), b.fmul(size, s))


def atan2(b: Builder, y: Cx, x: Cx) -> Cx:
    """-i log((x + i y) / sqrt(x^2 + y^2))."""
    radius = sqrt(b, add(b, multiply(b, x, x), multiply(b, y, y)))
    return _times_minus_i(b, log(b, divide(b, add(b, x, _times_i(b, y)), radius)))


def _roots(b: Builder, x: Cx) -> tuple[Cx, Cx]:
    """sqrt(1 - x), sqrt(1 + x)."""
    return sqrt(b, Cx(b.fsub(1.0, x.re), b.fneg(x.im))), sqrt(b, Cx(b.fadd(x.re, 1.0), x.im))


def _far(b: Builder, x: Cx) -> tuple[Val, Val]:
    """(whether |x| is so large that x^2 - 1 is x^2, log(2 |x|))."""
    limit = 2.0 ** (format_of(x.re).mantissa // 2 + 4)
    large = b.or_(b.fcmp("ogt", b.fabs(x.re), limit), b.fcmp("ogt", b.fabs(x.im), limit))
    return large, b.fadd(_log_modulus(b, x), _LN2)


def asin(b: Builder, x: Cx) -> Cx:
    """Inverse sine."""
    far, size = _far(b, x)
    minus, plus = _roots(b, x)
    down = b.fsub(b.fmul(minus.re, plus.re), b.fmul(minus.im, plus.im))
    turned = b.fsub(b.fmul(minus.re, plus.im), b.fmul(minus.im, plus.re))
    im = b.select(far, size, b.fabs(real.asinh(b, turned)))
    return Cx(real_atan2(b, x.re, b.select(far, b.fabs(x.im), down)), b.copysign(im, x.im))


def acos(b: Builder, x: Cx) -> Cx:
    """Inverse cosine."""
    minus, plus = _roots(b, x)
    far, size = _far(b, x)
    turned = b.fsub(b.fmul(plus.re, minus.im), b.fmul(plus.im, minus.re))
    angle = real_atan2(b, b.select(far, b.fabs(x.im), minus.re), b.select(far, x.re, plus.re))
    re = b.select(far, angle, b.fadd(angle, angle))
    im = b.select(far, size, b.fabs(real.asinh(b, turned)))
    return Cx(re, b.copysign(im, b.fneg(x.im)))


def asinh(b: Builder, x: Cx) -> Cx:
    """Inverse hyperbolic sine: -i asin(i x)."""
    return _times_minus_i(b, asin(b, _times_i(b, x)))


def acosh(b: Builder, x: Cx) -> Cx:
    """Inverse hyperbolic cosine: ±i acos(x), the sign that makes the real part positive."""
    turned = acos(b, x)
    return Cx(b.fabs(turned.im), b.copysign(turned.re, x.im))


def atanh(b: Builder, x: Cx) -> Cx:
    """Inverse hyperbolic tangent; for large arguments ±i pi/2 + 1/x."""
    ax = b.fabs(x.re)
    gap = b.fsub(1.0, ax)
    square = b.fma(x.im, x.im, b.fmul(gap, gap))
    re = b.fmul(real.log1p(b, b.fdiv(b.fmul(ax, 4.0), square)), 0.25)
    bottom = b.fma(b.fneg(x.im), x.im, b.fmul(gap, b.fadd(ax, 1.0)))
    im = b.fmul(real_atan2(b, b.fadd(x.im, x.im), bottom), 0.5)
    inverse = divide(b, _one(b, ax), x)
    far = b.or_(b.fcmp("ogt", ax, 2.0**30), b.fcmp("ogt", b.fabs(x.im), 2.0**30))
    re = b.select(far, b.fabs(inverse.re), re)
    im = b.select(far, b.fadd(b.copysign(pi / 2, x.im), inverse.im), im)
    return Cx(b.copysign(re, x.re), im)
