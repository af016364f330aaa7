"""Elementary functions that a target lacks, written with those that it has: a pass each.

Real element types only. Types narrower than f32 are computed in f32, so their results are nearly always correctly
rounded. The stated bounds, in units in the last place of f32 and f64, are what the tests hold every function to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander, Val
from xyla.passmgr.base import register
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import F32, F64

Formula = Callable[[Builder, Val], Val]
_LARGEST = {32: float(np.finfo(np.float32).max), 64: float(np.finfo(np.float64).max)}


def _rule(name: str, formula: Formula, ulp: int) -> Rule:
    """The rewrite rule of one function, with its bound."""

    def rule(inst: Instruction, rw: Rewrite) -> Instruction | None:
        et = inst.shape.element_type
        if not et.is_float or inst.shape.is_dynamic:
            return None
        rw.permit()
        b = Builder(rw)
        work = et if et in (F32, F64) else F32
        return formula(b, b.val(inst.operands[0]).convert(work)).convert(et).inst

    rule.__name__ = name
    rule.__doc__ = formula.__doc__
    return value_changing(Fp.DEFAULT, f"{formula.__name__} is computed by other functions, within {ulp} ULP")(rule)


def _log1p(b: Builder, x: Val) -> Val:
    return b.unary(ops.LOG1P, x)


def _sqrt(b: Builder, x: Val) -> Val:
    return b.unary(ops.SQRT, x)


def _abs(b: Builder, x: Val) -> Val:
    return b.unary(ops.ABS, x)


def _with_sign_of(b: Builder, x: Val, magnitude: Val) -> Val:
    """`magnitude` (not negative) with the sign of x; NaN where x is NaN."""
    return b.unary(ops.SIGN, x) * magnitude


def _co_leg(b: Builder, x: Val) -> Val:
    """sqrt(1 - x^2), exact to rounding near 1 and -1; NaN outside [-1, 1]."""
    return _sqrt(b, (1 - x) * (x + 1))


# -- formulas ----------------------------------------------------------------------------------------------------


def acos(b: Builder, x: Val) -> Val:
    """acos(x) = atan2(sqrt((1 - x)(1 + x)), x)."""
    return b.binary(ops.ATAN2, _co_leg(b, x), x)


def asin(b: Builder, x: Val) -> Val:
    """asin(x) = atan2(x, sqrt((1 - x)(1 + x)))."""
    return b.binary(ops.ATAN2, x, _co_leg(b, x))


def acosh(b: Builder, x: Val) -> Val:
    """acosh(x) = log1p(u + sqrt(u) sqrt(u + 2)) with u = x - 1; log(x) + log(2) where the sum would overflow."""
    u = x - 1
    near = _log1p(b, u + _sqrt(b, u) * _sqrt(b, u + 2))
    return b.select(x.ge(_huge(x)), b.unary(ops.LOG, x) + math.log(2), near)


def asinh(b: Builder, x: Val) -> Val:
    """asinh(x) = sign(x) log1p(|x| + x^2 / (1 + sqrt(1 + x^2))); log(|x|) + log(2) where x^2 would overflow."""
    a = _abs(b, x)
    square = a * a
    near = _log1p(b, a + square / (_sqrt(b, square + 1) + 1))
    large = b.unary(ops.LOG, a) + math.log(2)
    return _with_sign_of(b, x, b.select(a.ge(_root_huge(x)), large, near))


def atanh(b: Builder, x: Val) -> Val:
    """atanh(x) = (log1p(x) - log1p(-x)) / 2; both terms have one sign."""
    return (_log1p(b, x) - _log1p(b, -x)) * 0.5


def cosh(b: Builder, x: Val) -> Val:
    """cosh(x) = h/2 h + 1/(2 h^2) with h = exp(|x| / 2), which overflows only where cosh does."""
    h = b.unary(ops.EXP, _abs(b, x) * 0.5)
    return h * 0.5 * h + 0.5 / (h * h)


def sinh(b: Builder, x: Val) -> Val:
    """sinh(x) = sign(x) (h/2 h - 1/(2 h^2)) with h = exp(|x| / 2); below 1, (m + m/(m+1)) / 2 with m = expm1(|x|)."""
    a = _abs(b, x)
    h = b.unary(ops.EXP, a * 0.5)
    m = b.unary(ops.EXPM1, a)
    return _with_sign_of(b, x, b.select(a.lt(1), (m + m / (m + 1)) * 0.5, h * 0.5 * h - 0.5 / (h * h)))


def tan(b: Builder, x: Val) -> Val:
    """tan(x) = sin(x) / cos(x)."""
    return b.unary(ops.SINE, x) / b.unary(ops.COSINE, x)


def erf(b: Builder, x: Val) -> Val:
    """erf(x) = x P(x^2) up to 1; beyond, sign(x) (1 - exp(-x^2) Q((|x| - 2.5) / (|x| + 2.5))).

    P is the series of erf(x)/x, Q an interpolant of exp(x^2) erfc(x); past the end of Q erf rounds to 1.
    """
    fit = _ERF[x.et.bits]
    a = _abs(b, x)
    inside = x * _polynomial(a * a, fit.small)
    z = b.minimum(a, fit.end)
    t = (z - _ERF_CENTRE) / (z + _ERF_CENTRE)
    low, high = ((v - _ERF_CENTRE) / (v + _ERF_CENTRE) for v in (1.0, fit.end))
    q = _polynomial((t - (low + high) / 2) * (2 / (high - low)), fit.large)
    outside = _with_sign_of(b, x, 1 - b.unary(ops.EXP, -(z * z)) * q)
    return b.select(a.lt(1), inside, b.select(a.ge(fit.end), b.unary(ops.SIGN, x), outside))


def _huge(x: Val) -> float:
    """From here on u + sqrt(u) sqrt(u + 2) may overflow."""
    return _LARGEST[x.et.bits] / 4


def _root_huge(x: Val) -> float:
    """From here on x^2 overflows, and 1 is lost beside it long before."""
    return math.sqrt(_LARGEST[x.et.bits]) / 2


def _polynomial(x: Val, coefficients: Sequence[float]) -> Val:
    """Horner's scheme, constant term first."""
    total: Val | float = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    assert isinstance(total, Val)
    return total


def _erf_series(terms: int) -> tuple[float, ...]:
    """Coefficients in x^2 of erf(x)/x: 2/sqrt(pi) (-1)^n / (n! (2n + 1))."""
    scale = 2 / math.sqrt(math.pi)
    return tuple(scale * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(terms))


@dataclass(frozen=True, slots=True)
class _ErfFit:
    """`small`: in x^2. `large`: in the mapped variable on [-1, 1]. `end`: where erf rounds to 1."""

    small: tuple[float, ...]
    large: tuple[float, ...]
    end: float


_ERF_CENTRE = 2.5
# `large` interpolates exp(x^2) erfc(x) at Chebyshev points between 1 and `end`.
_ERF = {
    32: _ErfFit(
        _erf_series(11),
        (0.25015846096095545, -0.14022573618042566, 0.0316471109036709, -0.005057798724447496,
         0.0004899778693204144, -8.792430240532044e-06, -4.076622544711232e-06, 2.6808479214651835e-07,
         4.378176039996721e-08),
        4.0,
    ),
    64: _ErfFit(
        _erf_series(19),
        (0.21394805165754288, -0.15798058438192047, 0.04499721517041164, -0.009374321292819225,
         0.001249399740418115, -5.053711010010485e-05, -1.4819868338279309e-05, 1.9887464410185237e-06,
         2.3120236528817613e-07, -5.139834891461114e-08, -6.150785235711939e-09, 1.2856572081453104e-09,
         2.359203388202502e-10, -2.6732652039719504e-11, -9.680622316837424e-12, 1.8882934431771632e-13,
         3.1855563938332876e-13),
        6.0,
    ),
}  # fmt: skip


# -- rules ------------------------------------------------------------------------------------------------------

expand_acos = _rule("expand_acos", acos, 3)
expand_acosh = _rule("expand_acosh", acosh, 4)
expand_asin = _rule("expand_asin", asin, 3)
expand_asinh = _rule("expand_asinh", asinh, 4)
expand_atanh = _rule("expand_atanh", atanh, 3)
expand_cosh = _rule("expand_cosh", cosh, 3)
expand_sinh = _rule("expand_sinh", sinh, 4)
expand_tan = _rule("expand_tan", tan, 3)
expand_erf = _rule("expand_erf", erf, 4)


# -- passes ------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True, slots=True)
class AcosExpander(Expander):
    """acos by atan2 and sqrt; within 3 ULP.

    y = f32[4] acos(x)      ==>      y = f32[4] atan2(sqrt((1 - x) * (1 + x)), x)
    """

    name: ClassVar[str] = "acos-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.ACOS: expand_acos}


@register
@dataclass(frozen=True, slots=True)
class AcoshExpander(Expander):
    """acosh by log1p and sqrt; within 4 ULP.

    y = f32[4] acosh(x)      ==>      y = f32[4] log-plus-one(u + sqrt(u) * sqrt(u + 2)), u = x - 1
    """

    name: ClassVar[str] = "acosh-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.ACOSH: expand_acosh}


@register
@dataclass(frozen=True, slots=True)
class AsinExpander(Expander):
    """asin by atan2 and sqrt; within 3 ULP.

    y = f32[4] asin(x)      ==>      y = f32[4] atan2(x, sqrt((1 - x) * (1 + x)))
    """

    name: ClassVar[str] = "asin-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.ASIN: expand_asin}


@register
@dataclass(frozen=True, slots=True)
class AsinhExpander(Expander):
    """asinh by log1p and sqrt; within 4 ULP.

    y = f32[4] asinh(x)      ==>      y = f32[4] sign(x) * log-plus-one(|x| + x * x / (1 + sqrt(1 + x * x)))
    """

    name: ClassVar[str] = "asinh-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.ASINH: expand_asinh}


@register
@dataclass(frozen=True, slots=True)
class AtanhExpander(Expander):
    """atanh by log1p; within 3 ULP.

    y = f32[4] atanh(x)      ==>      y = f32[4] (log-plus-one(x) - log-plus-one(-x)) / 2
    """

    name: ClassVar[str] = "atanh-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.ATANH: expand_atanh}


@register
@dataclass(frozen=True, slots=True)
class CoshExpander(Expander):
    """cosh by exp; within 3 ULP.

    y = f32[4] cosh(x)      ==>      y = f32[4] h/2 * h + 0.5 / (h * h), h = exponential(|x| / 2)
    """

    name: ClassVar[str] = "cosh-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.COSH: expand_cosh}


@register
@dataclass(frozen=True, slots=True)
class SinhExpander(Expander):
    """sinh by exp and expm1; within 4 ULP.

    y = f32[4] sinh(x)      ==>      y = f32[4] sign(x) * (h/2 * h - 0.5 / (h * h)), h = exponential(|x| / 2)
    """

    name: ClassVar[str] = "sinh-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.SINH: expand_sinh}


@register
@dataclass(frozen=True, slots=True)
class TanExpander(Expander):
    """tan by sine and cosine; within 3 ULP.

    y = f32[4] tan(x)      ==>      y = f32[4] divide(sine(x), cosine(x))
    """

    name: ClassVar[str] = "tan-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.TAN: expand_tan}


@register
@dataclass(frozen=True, slots=True)
class ErfExpander(Expander):
    """erf by polynomials and exp; within 4 ULP.

    y = f32[4] erf(x)      ==>      y = f32[4] select(|x| < 1, x * P(x * x), sign(x) * (1 - exp(-x * x) * Q(|x|)))
    """

    name: ClassVar[str] = "erf-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.ERF: expand_erf}
