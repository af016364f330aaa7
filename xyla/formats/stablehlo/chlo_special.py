"""Special functions that HLO has no opcode for, as compositions: gamma family, error functions, zeta, Bessel.

Each states its method; accuracy is tested against SciPy. f32 is computed in f64 where needed (`wide_type`).
"""

from __future__ import annotations

import math

from xyla.formats.stablehlo.chlo_math import Num, chebyshev, polynomial, wide_type
from xyla.hlo import ops
from xyla.support.dtypes import F32, F64, by_name

INF = math.inf
NAN = math.nan

# Lanczos' approximation of the gamma function with g = 7, n = 9.
LANCZOS_G = 7.0
LANCZOS_BASE = 0.99999999999980993227684700473478
LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip
# exp(-x) I1(x) / x on [0, 8] as a Chebyshev series in x/4 - 1.
I1E_SMALL = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
    -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15,
    -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18,
    -3.541581772542136e-19,
)  # fmt: skip
# exp(-x) I1(x) sqrt(x) on [8, inf) as a Chebyshev series in 16/x - 1.
I1E_LARGE = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18,
    7.517296310842105e-18, -9.314178867326884e-19, -1.242193275194891e-18,
)  # fmt: skip
# x exp(x^2) erfc(x) on [1, inf) as a Chebyshev series in u; y = (x-4)/(x+4) = -0.6 + 0.8 (u+1).
ERFC_LARGE = (
    0.5302017199434707, 0.05514729855831438, -0.030131600461056045, 0.012022048427293382, -0.0039203941846402785,
    0.0010818370644726622, -0.0002547299536427045, 5.0766816191246955e-05, -8.333896985207427e-06,
    1.054173745579245e-06, -8.306009483751956e-08, -1.1578279388196214e-09, 1.4660438292438477e-09,
    -1.8982459578869678e-10, -9.421979372345994e-13, 3.646446057444191e-12, -3.82897714236501e-13,
    -3.639954152345596e-14, 1.1540699517475876e-14, -1.4158774099055865e-16, -2.574078665904505e-16,
    2.0559247505923416e-17,
)  # fmt: skip
# Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011): polynomials in w = -log(1 - x^2).
# f32, w < 5, in w - 2.5.
ERF_INV_F32_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
# f32, w >= 5, in sqrt(w) - 3.
ERF_INV_F32_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
# f64, w < 6.25, in w - 3.125.
ERF_INV_F64_CENTRE = (
    -3.64441206401782e-21, -1.6850591381820166e-19, 1.28584807152564e-18, 1.1157877678025181e-17,
    -1.333171662854621e-16, 2.0972767875968562e-17, 6.637638134358324e-15, -4.054566272975207e-14,
    -8.151934197605472e-14, 2.6335093153082323e-12, -1.2975133253453532e-11, -5.415412054294628e-11,
    1.0512122733215323e-09, -4.112633980346984e-09, -2.9070369957882005e-08, 4.2347877827932404e-07,
    -1.3654692000834679e-06, -1.3882523362786469e-05, 0.00018673420803405714, -0.000740702534166267,
    -0.006033670871430149, 0.24015818242558962, 1.6536545626831027,
)  # fmt: skip
# f64, 6.25 <= w < 16, in sqrt(w) - 3.25.
ERF_INV_F64_MIDDLE = (
    2.2137376921775787e-09, 9.075656193888539e-08, -2.7517406297064545e-07, 1.8239629214389228e-08,
    1.5027403968909828e-06, -4.013867526981546e-06, 2.9234449089955446e-06, 1.2475304481671779e-05,
    -4.7318229009055734e-05, 6.828485145957318e-05, 2.4031110387097894e-05, -0.0003550375203628475,
    0.0009532893797373805, -0.0016882755560235047, 0.002491442096107851, -0.003751208507569241, 0.005370914553590064,
    1.0052589676941592, 3.0838856104922208,
)  # fmt: skip
# f64, w >= 16, in sqrt(w) - 5.
ERF_INV_F64_TAIL = (
    -2.7109920616438573e-11, -2.555641816996525e-10, 1.5076572693500548e-09, -3.789465440126737e-09,
    7.61570120807834e-09, -1.496002662714924e-08, 2.914795345090108e-08, -6.771199775845234e-08,
    2.2900482228026655e-07, -9.9298272942317e-07, 4.526062597223154e-06, -1.968177810553167e-05,
    7.599527703001776e-05, -0.00021503011930044477, -0.00013871931833623122, 1.0103004648645344, 4.849906401408584,
)  # fmt: skip
# B(2k) / (2k)!, k = 1, 2, ...
EULER_MACLAURIN = (
    0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07, 2.08767569878681e-08,
    -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15,
    -2.174868698558062e-16, 5.5090028283602295e-18, -1.3954464685812522e-19,
)  # fmt: skip
# B(2k) / 2k, k = 1, 2, ...: digamma(x) ~ log x - 1/2x - sum of these / x^2k.
DIGAMMA_TAIL = (
    0.08333333333333333, -0.008333333333333333, 0.003968253968253968, -0.004166666666666667, 0.007575757575757576,
    -0.021092796092796094, 0.08333333333333333, -0.4432598039215686, 3.0539543302701198, -26.456212121212122,
)  # fmt: skip


def lgamma(x: Num) -> Num:
    """log|gamma(x)| by Lanczos' approximation, reflected below 1/2; +inf at the poles and at both infinities."""
    x = x.to(wide_type(x.shape.element_type))
    reflect = x < 0.5
    z = reflect.select(-x, x - 1.0)
    series = z.like(LANCZOS_BASE)
    for i, c in enumerate(LANCZOS):
        series = series + c / (z + float(i + 1))
    t = z + (LANCZOS_G + 0.5)
    # log t as log(g + 1/2) + log1p(z / (g + 1/2)), which keeps the digits of small z.
    log_t = (z / (LANCZOS_G + 0.5)).unary(ops.LOG1P) + math.log(LANCZOS_G + 0.5)
    log_y = (z + 0.5 - t / log_t) * log_t + 0.5 * math.log(2 * math.pi) + series.unary(ops.LOG)
    # |x| - floor|x| folds the sine's argument into [0, 1]; past 1/2 it mirrors, exact near integers.
    magnitude = x.unary(ops.ABS)
    fraction = magnitude - magnitude.unary(ops.FLOOR)
    folded = (fraction > 0.5).select(1.0 - fraction, fraction)
    log_sine = (folded * math.pi).unary(ops.SINE).unary(ops.LOG)
    # log sin is -inf exactly at the poles: the reflected value is +inf there, as it should be.
    reflected = log_sine.unary(ops.IS_FINITE).select(math.log(math.pi) - log_sine - log_y, -log_sine)
    result = reflect.select(reflected, log_y)
    return magnitude.equals(INF).select(INF, result)


def digamma(x: Num) -> Num:
    """The derivative of log gamma: recurrence up to 10, then the asymptotic series; reflected for negative x.

    The poles (0 and the negative integers) give NaN.
    """
    x = x.to(wide_type(x.shape.element_type))
    reflect = x < 0.5
    z = reflect.select(1.0 - x, x)
    shift = z.like(0.0)
    for _ in range(10):
        small = z < 10.0
        shift = small.select(shift + 1.0 / z, shift)
        z = small.select(z + 1.0, z)
    inverse = 1.0 / z
    square = inverse * inverse
    tail = polynomial(square, DIGAMMA_TAIL[::-1]) * square
    positive = z.unary(ops.LOG) - 0.5 * inverse - tail - shift
    # pi cot(pi x) from the distance to the nearest integer, which is exact.
    angle = (x - x.unary(ops.ROUND_EVEN)) * math.pi
    reflected = positive - math.pi * angle.unary(ops.COSINE) / angle.unary(ops.SINE)
    result = reflect.select(reflected, positive)
    pole = (x <= 0.0) & x.equals(x.unary(ops.FLOOR))
    return pole.select(NAN, result)


def erf_inv(x: Num) -> Num:
    """The inverse error function; +-inf at +-1, NaN outside [-1, 1]."""
    if x.shape.element_type is not F64:
        x = x.to(F32)
        return _erf_inv_f32(x)
    w = -(-x * x).unary(ops.LOG1P)
    root = w.unary(ops.SQRT)
    centre = polynomial(w - 3.125, ERF_INV_F64_CENTRE)
    middle = polynomial(root - 3.25, ERF_INV_F64_MIDDLE)
    tail = polynomial(root - 5.0, ERF_INV_F64_TAIL)
    factor = (w < 6.25).select(centre, (w < 16.0).select(middle, tail))
    return x.unary(ops.ABS).equals(1.0).select(x * INF, factor * x)


def _erf_inv_f32(x: Num) -> Num:
    w = -(-x * x).unary(ops.LOG1P)
    centre = polynomial(w - 2.5, ERF_INV_F32_CENTRE)
    tail = polynomial(w.unary(ops.SQRT) - 3.0, ERF_INV_F32_TAIL)
    factor = (w < 5.0).select(centre, tail)
    return x.unary(ops.ABS).equals(1.0).select(x * INF, factor * x)


def erfc(x: Num) -> Num:
    """1 - erf(x): from erf inside (-inf, 1), from a series for x exp(x^2) erfc(x) outside."""
    x = x.to(wide_type(x.shape.element_type))
    near = 1.0 - x.unary(ops.ERF)
    far_x = x.binary(ops.MAXIMUM, 1.0)
    u = ((far_x - 4.0) / (far_x + 4.0) + 0.6) / 0.8 - 1.0
    # exp(-x^2) with x^2 split in an exact and a small part: rounding x^2 would cost 27^2 ULP.
    high = far_x.unary(ops.ABS).binary(ops.MINIMUM, 64.0)
    high = (high * 1024.0).unary(ops.FLOOR) / 1024.0
    scale = (-high * high).unary(ops.EXP) * ((high - far_x) * (high + far_x)).unary(ops.EXP)
    far = scale * chebyshev(u, ERFC_LARGE) / far_x
    far = (far_x > 64.0).select(0.0, far)
    return (x < 1.0).select(near, x.differs(x).select(x, far))


def bessel_i1e(x: Num) -> Num:
    """exp(-|x|) I1(x) by Chebyshev series."""
    x = x.to(wide_type(x.shape.element_type))
    magnitude = x.unary(ops.ABS)
    small = chebyshev(magnitude.binary(ops.MINIMUM, 8.0) / 4.0 - 1.0, I1E_SMALL) * x
    large_x = magnitude.binary(ops.MAXIMUM, 8.0)
    large = chebyshev(16.0 / large_x - 1.0, I1E_LARGE) * large_x.unary(ops.RSQRT) * x.unary(ops.SIGN)
    result = (magnitude <= 8.0).select(small, large)
    return magnitude.equals(INF).select(x.unary(ops.SIGN) * 0.0, result)


def zeta(x: Num, q: Num) -> Num:
    """Hurwitz zeta, sum of (q + n)^-x, by Euler and Maclaurin.

    x = 1: +inf. x < 1: NaN. q <= 0 an integer: +inf for even integer x, else NaN;
    other q < 0: NaN unless x is an integer.
    """
    wide = wide_type(x.shape.element_type)
    x, q = x.to(wide), q.to(wide)
    total, a = x.like(0.0), q
    for _ in range(12):
        total = total + a.binary(ops.POWER, -x)
        a = a + 1.0
    power = a.binary(ops.POWER, -x)
    total = total + power * a / (x - 1.0) + 0.5 * power
    # The k-th correction is B(2k)/(2k)! x (x+1) ... (x+2k-2) a^(-x-2k+1).
    factor, step = x, power / a
    inverse_square = 1.0 / (a * a)
    for k, c in enumerate(EULER_MACLAURIN):
        total = total + c * factor * step
        factor = factor * (x + float(2 * k + 1)) * (x + float(2 * k + 2))
        step = step * inverse_square
    whole_q = (q <= 0.0) & q.equals(q.unary(ops.FLOOR))
    whole_x = x.equals(x.unary(ops.FLOOR))
    even_x = whole_x & x.binary(ops.REMAINDER, 2.0).equals(0.0)
    result = whole_q.select(even_x.select(INF, x.like(NAN)), total)
    bad = (x < 1.0) | ((q < 0.0) & whole_x.unary(ops.NOT))
    result = bad.select(NAN, result)
    at_infinity = (q > 1.0).select(0.0, q.equals(1.0).select(1.0, x.like(INF)))
    result = x.equals(INF).select(at_infinity, result)
    return x.equals(1.0).select(INF, result)


def polygamma(n: Num, x: Num) -> Num:
    """The n-th derivative of digamma: (-1)^(n+1) n! zeta(n+1, x); NaN for n that is no whole number >= 0."""
    wide = wide_type(x.shape.element_type)
    n, x = n.to(wide), x.to(wide)
    odd = n.binary(ops.REMAINDER, 2.0).equals(1.0)
    value = odd.select(1.0, n.like(-1.0)) * lgamma(n + 1.0).unary(ops.EXP) * zeta(n + 1.0, x)
    result = n.equals(0.0).select(digamma(x), value)
    bad = (n < 0.0) | n.differs(n.unary(ops.FLOOR))
    return bad.select(NAN, result)


def next_after(x: Num, y: Num) -> Num:
    """The next representable number after x towards y, on the bits (C's nextafter)."""
    et = x.shape.element_type
    bits = by_name(f"u{et.bits}")
    sign_bit, one = 1 << (et.bits - 1), 1
    x_bits, y_bits = x.bits(bits), y.bits(bits)
    x_abs, y_abs = x_bits & (sign_bit - 1), y_bits & (sign_bit - 1)
    from_zero = (y_bits & sign_bit) | one
    opposite = (x_bits & sign_bit).differs(y_bits & sign_bit)
    shrink = (x_abs > y_abs) | opposite
    stepped = shrink.select(x_bits - one, x_bits + one)
    result = x_abs.equals(0).select(from_zero, stepped)
    both_zero = x_abs.equals(0) & y_abs.equals(0)
    result = (both_zero | x_bits.equals(y_bits)).select(y_bits, result).bits(et)
    nan = x.differs(x) | y.differs(y)
    return nan.select(NAN, result)
