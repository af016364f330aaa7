"""erf, cbrt, rsqrt."""

from __future__ import annotations

from xyla.codegen.llvm import Builder, Val, constant
from xyla.codegen.math.exponential import exp_moderate
from xyla.codegen.math.formats import (
    INF,
    SINGLE,
    Format,
    bits_of,
    format_of,
    from_bits,
    polynomial,
)

# erf(x)/x - 1 in x^2, |x| <= 1: errors 2^-29.6 and 2^-68.7.
_ERF_SMALL = {
    "float": (
        0.12837916612625122, -0.3761262595653534, 0.11283599585294724, -0.02685442939400673,
        0.00518950866535306, -0.0008020621608011425, 7.888429536251351e-05,
    ),
    "double": (
        0.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.026866170645129868,
        0.005223977625423607, -0.0008548327021955855, 0.00012055332903806127, -1.4925647594332297e-05,
        1.6462045977653915e-06, -1.6364649516488984e-07, 1.4792469360454424e-08, -1.2164967133060206e-09,
        8.710460841472419e-11, -4.233123544025394e-12,
    ),
}  # fmt: skip
# log(erfc(x)) + x^2 in x - centre, for x from 1 to 4 and 6; weighted by erfc the errors are below 2^-31 and 2^-54.
_LOG_ERFCX = {
    "float": (
        -1.556815266609192, -0.35268068313598633, 0.05610767379403114, -0.01085424330085516,
        0.0021670865826308727, -0.0004282203735783696, 6.476046110037714e-05, -2.028849303314928e-05,
        2.5130233893833065e-07,
    ),
    "double": (
        -1.8624374021481738, -0.26609958836519393, 0.03324694525774473, -0.005225658221957827,
        0.0008736873239716766, -0.00014729777383650113, 2.4386374002726765e-05, -3.889560510021244e-06,
        5.856075716024647e-07, -8.069549362720303e-08, 9.539460741806871e-09, -7.632359900992398e-10,
        -2.0795590520700285e-11, 2.5319220393052173e-11, -1.594829004564539e-11, -3.609809627929021e-13,
        6.118730812669045e-13, 1.4517835098813818e-12, 5.339680498832597e-13, 1.3272292239428381e-14,
        -7.762821001860413e-14, -3.632307199941614e-14, -8.34128193652996e-15, -1.0268743777483518e-15,
        -5.281362254203398e-17,
    ),
}  # fmt: skip
_ERF_CENTRE = {"float": 2.5, "double": 3.5}
_ERF_END = {"float": 4.0, "double": 6.0}


def erf(b: Builder, x: Val) -> Val:
    """The error function."""
    ax = b.fabs(x)
    z = b.fmul(x, x)
    small = b.fma(ax, polynomial(b, z, _ERF_SMALL[x.ty]), ax)
    end = _ERF_END[x.ty]
    capped = b.select(b.fcmp("ogt", ax, end), end, ax)
    u = b.fsub(capped, _ERF_CENTRE[x.ty])
    large = b.fsub(1.0, exp_moderate(b, b.fma(b.fneg(capped), capped, polynomial(b, u, _LOG_ERFCX[x.ty]))))
    return b.copysign(b.select(b.fcmp("olt", ax, 1.0), small, large), x)


def rsqrt(b: Builder, x: Val) -> Val:
    """1 / sqrt(x): ±inf at ±0, NaN below; the quotient is corrected by its residual."""
    fmt = format_of(x)
    # Small arguments are lifted by an even power of two: their residuals would underflow.
    lift = fmt.mantissa + 3
    small = b.fcmp("olt", x, fmt.min_normal * 2.0 ** (2 * fmt.mantissa))
    scaled = b.select(small, b.fmul(x, 2.0 ** (2 * lift)), x)
    root = b.sqrt(scaled)
    y = b.fdiv(1.0, root)
    # With scaled = root^2 + d and root*y = 1 - e, 1/sqrt(scaled) is y (1 + e - d y^2 / 2).
    e = b.fma(b.fneg(root), y, 1.0)
    d = b.fma(b.fneg(root), root, scaled)
    better = b.fma(y, b.fma(b.fmul(d, y), b.fmul(y, -0.5), e), y)
    regular = b.and_(b.fcmp("ogt", x, 0.0), b.fcmp("olt", x, INF))
    value = b.select(regular, better, y)
    return b.select(small, b.fmul(value, 2.0**lift), value)


def cbrt(b: Builder, x: Val) -> Val:
    """The cube root, of either sign: a guess from the exponent, Newton steps, one step with an exact residual."""
    fmt = format_of(x)
    ax = b.fabs(x)
    lift = 2.0 ** (3 * ((fmt.mantissa + 3) // 3))
    tiny = b.fcmp("olt", ax, fmt.min_normal)
    huge = b.fcmp("ogt", ax, fmt.largest / 8)
    a = b.select(tiny, b.fmul(ax, lift), b.select(huge, b.fmul(ax, 2.0**-6), ax))
    t = _cbrt_guess(b, a, fmt)
    # Halley's step triples the digits of a guess good to 5 bits.
    for _ in range(2 if fmt is SINGLE else 3):
        cube = b.fmul(b.fmul(t, t), t)
        t = b.fma(t, b.fdiv(b.fsub(a, cube), b.fma(cube, 2.0, a)), t)
    square = b.fmul(t, t)
    square_low = b.fma(t, t, b.fneg(square))
    residual = b.fma(b.fneg(t), square_low, b.fma(b.fneg(square), t, a))
    t = b.fma(residual, b.fdiv(1.0, b.fmul(square, 3.0)), t)
    back = b.select(huge, constant(4.0, x.ty, x.lanes), 1.0)
    t = b.fmul(t, b.select(tiny, 2.0 ** -((fmt.mantissa + 3) // 3), back))
    regular = b.and_(b.fcmp("one", ax, 0.0), b.fcmp("olt", ax, INF))
    return b.select(regular, b.copysign(t, x), x)


def _cbrt_guess(b: Builder, a: Val, fmt: Format) -> Val:
    """A third of the bits, plus two thirds of the bias: the exponent is divided, the mantissa interpolated."""
    bits = bits_of(b, a)
    # x/3 as a multiplication in floating point: the guess needs only its leading bits.
    third = b.fmul(b.cast("sitofp", bits, fmt.ty), 1.0 / 3.0)
    whole = b.cast("fptosi", b.select(b.fcmp("olt", a, INF), third, 0.0), fmt.int_ty)
    offset = int((2 * fmt.bias / 3 - 0.0450) * (1 << fmt.mantissa))
    return from_bits(b, b.add(whole, offset))
