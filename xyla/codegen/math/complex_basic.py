"""Complex arithmetic, modulus, sign, division, and power. Pairs of reals; scaling keeps intermediates in range."""

from __future__ import annotations

from xyla.codegen.llvm import Builder, Cx, Val, constant
from xyla.codegen.math.exponential import exp, log
from xyla.codegen.math.formats import (
    DOUBLE,
    INF,
    SINGLE,
    bits_of,
    format_of,
    power_of_two,
    scale,
    two_product,
)
from xyla.codegen.math.trigonometric import atan2, sin_cos


def add(b: Builder, x: Cx, y: Cx) -> Cx:
    """x + y."""
    return Cx(b.fadd(x.re, y.re), b.fadd(x.im, y.im))


def subtract(b: Builder, x: Cx, y: Cx) -> Cx:
    """x - y."""
    return Cx(b.fsub(x.re, y.re), b.fsub(x.im, y.im))


def negate(b: Builder, x: Cx) -> Cx:
    """-x."""
    return Cx(b.fneg(x.re), b.fneg(x.im))


def multiply(b: Builder, x: Cx, y: Cx) -> Cx:
    """x * y by the textbook formula (as XLA does: no recovery of infinities)."""
    re = b.fsub(b.fmul(x.re, y.re), b.fmul(x.im, y.im))
    im = b.fadd(b.fmul(x.re, y.im), b.fmul(x.im, y.re))
    return Cx(re, im)


def exponent_of(b: Builder, largest: Val) -> Val:
    """k with largest = 2^k m, 1 <= m < 2, as an integer of its width; -126 (f32) at least; 0 for 0, inf and NaN."""
    fmt = format_of(largest)
    field = b.and_(b.lshr(bits_of(b, largest), fmt.mantissa), (1 << (fmt.bits - 1 - fmt.mantissa)) - 1)
    k = b.smax(b.sub(field, fmt.bias), 1 - fmt.bias)
    plain = b.and_(b.fcmp("one", largest, 0.0), b.fcmp("olt", largest, INF))
    return b.select(plain, k, 0)


def shrink_by(b: Builder, k: Val) -> Val:
    """2^-k for an exponent that `exponent_of` gave (2^-126 for 127: still normal)."""
    fmt = SINGLE if k.ty == "i32" else DOUBLE
    return power_of_two(b, b.smax(b.sub(0, k), 1 - fmt.bias), fmt)


def _larger(b: Builder, x: Cx) -> Val:
    return b.same("maxnum", b.fabs(x.re), b.fabs(x.im))


def maximum(b: Builder, x: Cx, y: Cx) -> Cx:
    """The later in lexicographic order (StableHLO's rule); whichever has a NaN, x first."""
    return _pick(b, x, y, "ogt")


def minimum(b: Builder, x: Cx, y: Cx) -> Cx:
    """The earlier in lexicographic order; whichever has a NaN, x first."""
    return _pick(b, x, y, "olt")


def _pick(b: Builder, x: Cx, y: Cx, order: str) -> Cx:
    tie = b.and_(b.fcmp("oeq", x.re, y.re), b.fcmp(order, x.im, y.im))
    wins = b.and_(b.or_(b.fcmp(order, x.re, y.re), tie), b.fcmp("ord", y.re, y.im))
    wins = b.or_(wins, b.fcmp("uno", x.re, x.im))
    return Cx(b.select(wins, x.re, y.re), b.select(wins, x.im, y.im))


def divide(b: Builder, x: Cx, y: Cx) -> Cx:
    """x / y: both are scaled near 1 first; results that the formula makes NaN follow C's Annex G."""
    fmt = format_of(x.re)
    kx, ky = exponent_of(b, _larger(b, x)), exponent_of(b, _larger(b, y))
    fx, fy = shrink_by(b, kx), shrink_by(b, ky)
    a, e, c, d = b.fmul(x.re, fx), b.fmul(x.im, fx), b.fmul(y.re, fy), b.fmul(y.im, fy)
    denominator = b.fadd(b.fmul(c, c), b.fmul(d, d))
    # 2^127 was shrunk by 2^-126 only.
    n = b.sub(b.smin(kx, fmt.bias - 1), b.smin(ky, fmt.bias - 1))
    n = b.smax(b.smin(n, 2 * fmt.bias - 2), 2 - 2 * fmt.bias)
    re = scale(b, b.fdiv(b.fma(a, c, b.fmul(e, d)), denominator), n)
    im = scale(b, b.fdiv(b.fma(e, c, b.fneg(b.fmul(a, d))), denominator), n)
    return _divide_edges(b, x, y, Cx(re, im), denominator)


def _divide_edges(b: Builder, x: Cx, y: Cx, plain: Cx, denominator: Val) -> Cx:
    lost = b.and_(b.fcmp("uno", plain.re, plain.re), b.fcmp("uno", plain.im, plain.im))
    zero = constant(0.0, x.re.ty, x.re.lanes)
    finite_x = b.and_(_finite(b, x.re), _finite(b, x.im))
    finite_y = b.and_(_finite(b, y.re), _finite(b, y.im))
    infinite_x = b.or_(_infinite(b, x.re), _infinite(b, x.im))
    infinite_y = b.or_(_infinite(b, y.re), _infinite(b, y.im))
    numeric = b.or_(b.fcmp("ord", x.re, x.re), b.fcmp("ord", x.im, x.im))
    by_zero = b.and_(b.and_(b.fcmp("oeq", denominator, 0.0), numeric), lost)
    unit = b.copysign(INF, y.re)
    re = b.select(by_zero, b.fmul(unit, x.re), plain.re)
    im = b.select(by_zero, b.fmul(unit, x.im), plain.im)
    grows = b.and_(b.and_(infinite_x, finite_y), b.and_(lost, b.not_(by_zero)))
    a, c = _unit(b, x.re), _unit(b, x.im)
    re = b.select(grows, b.fmul(b.fadd(b.fmul(a, y.re), b.fmul(c, y.im)), INF), re)
    im = b.select(grows, b.fmul(b.fsub(b.fmul(c, y.re), b.fmul(a, y.im)), INF), im)
    vanishes = b.and_(b.and_(infinite_y, finite_x), lost)
    p, q = _unit(b, y.re), _unit(b, y.im)
    re = b.select(vanishes, b.fmul(b.fadd(b.fmul(x.re, p), b.fmul(x.im, q)), zero), re)
    im = b.select(vanishes, b.fmul(b.fsub(b.fmul(x.im, p), b.fmul(x.re, q)), zero), im)
    return Cx(re, im)


def _unit(b: Builder, v: Val) -> Val:
    """±1 for infinities, ±0 otherwise."""
    return b.copysign(b.select(_infinite(b, v), constant(1.0, v.ty, v.lanes), 0.0), v)


def _finite(b: Builder, v: Val) -> Val:
    return b.fcmp("olt", b.fabs(v), INF)


def _infinite(b: Builder, v: Val) -> Val:
    return b.fcmp("oeq", b.fabs(v), INF)


def modulus(b: Builder, x: Cx) -> Val:
    """|x| = hypot(re, im): infinite if either part is, even beside a NaN; no undue overflow or underflow."""
    root, factor = scaled_modulus(b, x)
    infinite = b.or_(_infinite(b, x.re), _infinite(b, x.im))
    return b.select(infinite, INF, b.fdiv(root, factor))


def scaled_modulus(b: Builder, x: Cx) -> tuple[Val, Val]:
    """(|x| f, f) for a power of two f that brings |x| near 1. NaN for infinite parts."""
    re, im = b.fabs(x.re), b.fabs(x.im)
    swap = b.fcmp("ogt", im, re)
    big, small = b.select(swap, im, re), b.select(swap, re, im)
    factor = shrink_by(b, exponent_of(b, big))
    return hypot_near_one(b, b.fmul(big, factor), b.fmul(small, factor)), factor


def hypot_near_one(b: Builder, p: Val, q: Val) -> Val:
    """sqrt(p^2 + q^2) corrected by its residual; no overflow in range."""
    square, square_low = two_product(b, p, p)
    other, other_low = two_product(b, q, q)
    total = b.fadd(square, other)
    lost = b.fadd(b.fsub(other, b.fsub(total, square)), b.fadd(square_low, other_low))
    root = b.sqrt(total)
    residual = b.fadd(b.fma(b.fneg(root), root, total), lost)
    better = b.fma(b.fdiv(residual, root), 0.5, root)
    return b.select(b.fcmp("ogt", total, 0.0), better, root)


def sign(b: Builder, x: Cx) -> Cx:
    """x / |x|; 0 for 0."""
    size = modulus(b, x)
    zero = b.fcmp("oeq", size, 0.0)
    return Cx(
        b.select(zero, 0.0, b.fdiv(x.re, size)),
        b.select(zero, 0.0, b.fdiv(x.im, size)),
    )


def power(b: Builder, x: Cx, y: Cx) -> Cx:
    """x^y = exp(y log x); 0^0 is 1, 0^y is 0 for a positive real y."""
    size = modulus(b, x)
    angle = atan2(b, x.im, x.re)
    log_size = log(b, size)
    radius = exp(b, b.fsub(b.fmul(y.re, log_size), b.fmul(y.im, angle)))
    turn = b.fadd(b.fmul(y.re, angle), b.fmul(y.im, log_size))
    s, c = sin_cos(b, turn)
    re, im = b.fmul(radius, c), b.fmul(radius, s)
    x_zero = b.and_(b.fcmp("oeq", x.re, 0.0), b.fcmp("oeq", x.im, 0.0))
    y_real = b.fcmp("oeq", y.im, 0.0)
    zero = constant(0.0, x.re.ty, x.re.lanes)
    vanishes = b.and_(x_zero, b.and_(y_real, b.fcmp("ogt", y.re, 0.0)))
    re, im = b.select(vanishes, zero, re), b.select(vanishes, zero, im)
    one = b.and_(y_real, b.fcmp("oeq", y.re, 0.0))
    return Cx(b.select(one, 1.0, re), b.select(one, 0.0, im))
