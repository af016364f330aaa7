"""Accuracy in units in the last place: inputs that reach every exponent and every special value, and references.

The reference of f32 is NumPy in float64; that of f64 is NumPy in long double (64 bits of mantissa on x86). erf has no
long double in NumPy: a series and a continued fraction stand in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Reference = Callable[..., Array]


@dataclass(frozen=True)
class Case:
    """A function under test: its opcode's name, reference, and the ULP errors that f32 and f64 may have."""

    op: str
    reference: Reference
    f32: float
    f64: float
    arity: int = 1


@dataclass(frozen=True)
class Errors:
    """What `compare` found: the largest error, where, and how many special values (NaN, inf, sign of 0) differ."""

    worst: float
    at: tuple[float, ...]
    got: float
    want: float
    special: int


def erf_long(x: Array) -> Array:
    """erf in long double: the Maclaurin series below 2, erfc's continued fraction above."""
    ax = np.minimum(np.abs(x), np.longdouble(7.0))
    term, total = ax.copy(), ax.copy()
    for n in range(1, 120):
        term = -term * ax * ax / n
        total = total + term / (2 * n + 1)
    root_pi = np.sqrt(np.arccos(np.longdouble(-1.0)))
    series = 2 * total / root_pi
    tail = np.zeros_like(ax)
    for k in range(160, 0, -1):
        tail = (np.longdouble(k) / 2) / (ax + tail)
    fraction = 1 - np.exp(-ax * ax) / (root_pi * (ax + tail))
    return np.asarray(np.copysign(np.where(ax < 2, series, fraction), x))


def _erf(x: Array) -> Array:
    out = erf_long(x.astype(np.longdouble))
    return np.where(np.isnan(x), np.nan, out).astype(x.dtype)


CASES = (
    Case("EXP", np.exp, 1.05, 1.0),
    Case("EXPM1", np.expm1, 1.25, 1.25),
    Case("LOG", np.log, 0.85, 0.85),
    Case("LOG1P", np.log1p, 1.45, 1.45),
    Case("LOGISTIC", lambda x: 1 / (1 + np.exp(-x)), 0.85, 0.85),
    Case("TANH", np.tanh, 1.4, 1.4),
    Case("SQRT", np.sqrt, 0.501, 0.501),
    Case("RSQRT", lambda x: 1 / np.sqrt(x), 0.51, 0.51),
    Case("CBRT", np.cbrt, 0.7, 0.7),
    Case("SINE", np.sin, 0.85, 0.85),
    Case("COSINE", np.cos, 0.85, 0.85),
    Case("TAN", np.tan, 1.0, 1.0),
    Case("ERF", _erf, 1.25, 1.3),
    Case("ASIN", np.arcsin, 0.75, 0.75),
    Case("ACOS", np.arccos, 0.75, 0.75),
    Case("SINH", np.sinh, 2.2, 2.2),
    Case("COSH", np.cosh, 1.6, 1.6),
    Case("ASINH", np.arcsinh, 2.0, 2.0),
    Case("ACOSH", np.arccosh, 2.0, 2.0),
    Case("ATANH", np.arctanh, 2.1, 2.1),
    Case("ATAN2", np.arctan2, 0.85, 0.85, 2),
    Case("POWER", np.power, 0.52, 1.2, 2),
    Case("REMAINDER", np.fmod, 0.0, 0.0, 2),
)


def specials(dtype: type) -> Array:
    """Zeros, infinities, NaN, units, extremes and subnormals of both signs."""
    f = np.finfo(dtype)
    base: list[Any] = [
        0.0,
        1.0,
        2.0,
        3.0,
        0.5,
        np.inf,
        np.nan,
        f.tiny,
        f.smallest_subnormal,
        f.max,
        np.pi,
        np.pi / 2,
        1 - f.epsneg,
    ]
    return np.array(base + [-v for v in base], dtype)


def inputs(dtype: type, count: int, seed: int = 0) -> Array:
    """About 8 * count numbers: several scales, every exponent, near 1, integers, and the special values."""
    f = np.finfo(dtype)
    rng = np.random.default_rng(seed)
    low, high = float(np.log(f.tiny)) * 1.04, float(np.log(f.max))
    parts = [rng.uniform(-s, s, count) for s in (1.0, 10.0, 100.0, 750.0, 1e5)]
    parts.append(np.exp(rng.uniform(low, high, count)) * rng.choice([-1.0, 1.0], count))
    parts += [rng.uniform(0.5, 1.5, count), rng.standard_normal(count), np.arange(-60, 60) / 4.0]
    return np.concatenate([np.concatenate(parts).astype(dtype), specials(dtype)])


def arguments(case: Case, dtype: type, count: int) -> tuple[Array, ...]:
    """Arguments for a case: a pair is the inputs against a shuffle of them, and all pairs of special values."""
    x = inputs(dtype, count)
    if case.arity == 1:
        return (x,)
    rng = np.random.default_rng(1)
    y = rng.permutation(x)
    if case.op == "POWER":
        y = np.where(rng.random(y.size) < 0.5, rng.integers(-8, 8, y.size).astype(dtype), y)
        x = np.where(rng.random(x.size) < 0.6, np.abs(x), x)
    s, t = np.meshgrid(specials(dtype), specials(dtype))
    return np.concatenate([x, s.ravel()]), np.concatenate([y, t.ravel()])


def compare(got: Array, args: Sequence[Array], reference: Reference) -> Errors:
    """The errors of `got` against the reference computed in the next wider type."""
    dtype = got.dtype
    wide = np.float64 if dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        exact = reference(*(a.astype(wide) for a in args))
        want = exact.astype(dtype)
    finite = np.isfinite(want) & np.isfinite(got)
    same = finite | (got == want) | (np.isnan(got) & np.isnan(want))
    flipped = (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    with np.errstate(over="ignore"):  # of the largest number
        place = np.spacing(np.abs(want[finite])).astype(wide)
    error = np.abs(got[finite].astype(wide) - exact[finite]) / place
    k = int(np.argmax(error))
    at = tuple(float(a[finite][k]) for a in args)
    special = int(np.count_nonzero(~same) + np.count_nonzero(flipped))
    return Errors(float(error[k]), at, float(got[finite][k]), float(want[finite][k]), special)
