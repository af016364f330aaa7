"""Real mathematical functions, rounded once: f32 and narrower through float64, f64 through long double.

The wider type makes the result the nearest value but for the rarest of ties. Arrays are done in blocks so that the wide
intermediate stays in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xyla.interp.numeric import narrow
from xyla.interp.table import Array
from xyla.support.dtypes import ElementType

Fn = Callable[..., Any]
_BLOCK = 1 << 16


def wide_dtype(et: ElementType) -> np.dtype[Any]:
    """The dtype one step wider than `et` in which its functions are computed."""
    return np.dtype(np.longdouble) if et.bits == 64 else np.dtype(np.float64)


def apply_wide(fn: Fn, et: ElementType, *xs: Array) -> Array:
    """fn on `xs` (all of type `et`, broadcastable) computed one type wider and rounded to `et`."""
    wide = wide_dtype(et)
    arrays = [np.asarray(x) for x in xs]
    size = max(a.size for a in arrays)
    if size <= _BLOCK or any(a.shape != arrays[0].shape for a in arrays):
        return narrow(np.asarray(fn(*[a.astype(wide) for a in arrays])), et)
    flats = [np.ascontiguousarray(a).reshape(-1) for a in arrays]
    out = np.empty(size, et.np)
    for i in range(0, size, _BLOCK):
        out[i : i + _BLOCK] = narrow(fn(*[f[i : i + _BLOCK].astype(wide) for f in flats]), et)
    return out.reshape(arrays[0].shape)


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)), accurate in both tails."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)) + np.where(np.isnan(x), x, x.dtype.type(0))


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x); rsqrt(+-0) = +-inf."""
    return 1 / np.sqrt(x)


def erf(x: Array) -> Array:
    """The error function (float64 accuracy)."""
    from scipy import special

    return np.asarray(special.erf(np.asarray(x, dtype=np.float64)))


def round_afz(x: Array) -> Array:
    """Round to nearest, ties away from zero; keeps the sign of zero."""
    whole = np.trunc(x)
    up = np.abs(x - whole) >= x.dtype.type(0.5)
    return np.copysign(np.where(up, np.abs(whole) + x.dtype.type(1), np.abs(whole)), x)


def sign(x: Array) -> Array:
    """-1 or 1; zeros and NaN stay what they are."""
    return np.where((x == 0) | np.isnan(x), x, np.copysign(x.dtype.type(1), x))


# Functions computed one type wider.
REAL: dict[str, Fn] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cosh": np.cosh,
    "cosine": np.cos,
    "erf": erf,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": logistic,
    "rsqrt": rsqrt,
    "sine": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}
