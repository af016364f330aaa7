"""Complex mathematical functions: c64 through complex128, c128 through the long double complex type.

Branch cuts and infinities follow C99 Annex G, as NumPy's and the C library's own functions do, but where said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xyla.interp.table import Array
from xyla.support.dtypes import ElementType

Fn = Callable[..., Any]


def wide_complex(et: ElementType) -> np.dtype[Any]:
    """The complex dtype one step wider than `et`."""
    return np.dtype(np.clongdouble) if et.bits == 128 else np.dtype(np.complex128)


def apply_wide(fn: Fn, et: ElementType, *xs: Array) -> Array:
    """fn on complex arrays of type `et`, computed one type wider and rounded."""
    wide = wide_complex(et)
    out = np.asarray(fn(*[np.asarray(x).astype(wide) for x in xs]))
    if out.dtype.kind == "c":
        return out.astype(et.np)
    return out.astype(et.component.np)


def make(re: Array, im: Array) -> Array:
    """The complex array re + i*im, without arithmetic (so that inf and NaN stay in their part)."""
    re, im = np.broadcast_arrays(re, im)
    kind = {4: np.complex64, 8: np.complex128}.get(re.dtype.itemsize, np.clongdouble)
    out: Array = np.empty(re.shape, kind)
    out.real, out.imag = re, im
    return out


def magnitude(z: Array) -> Array:
    """|z| without overflow or underflow of the squares; inf if either part is infinite."""
    return np.asarray(np.hypot(z.real, z.imag))


def sign(z: Array) -> Array:
    """z / |z|; 0 for 0, NaN if either part is NaN."""
    # Scale first: |z| itself may overflow or be subnormal.
    big = np.maximum(np.abs(z.real), np.abs(z.imag))
    scale = np.where((big == 0) | ~np.isfinite(big), big.dtype.type(1), big)
    re, im = z.real / scale, z.imag / scale
    r = np.hypot(re, im)
    out = make(re / r, im / r)
    nan = make(np.full_like(r, np.nan), np.full_like(r, np.nan))
    out = np.where(np.isnan(z.real) | np.isnan(z.imag), nan, out)
    return np.where(z == 0, z, out)


def multiply(x: Array, y: Array) -> Array:
    """(a+ib)(c+id) by the textbook formula."""
    return make(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def log1p(z: Array) -> Array:
    """log(1+z) without cancellation: re = log1p(x(x+2) + y^2) / 2 near 0, log|1+z| far away."""
    x, y = z.real, z.imag
    near = np.log1p(x * (x + 2) + y * y) / 2
    far = np.log(np.hypot(1 + x, y))
    small = (np.abs(x) < 0.5) & (np.abs(y) < 0.5)
    return make(np.where(small, near, far), np.arctan2(y, 1 + x))


def expm1(z: Array) -> Array:
    """exp(z)-1: re = expm1(x) cos y - 2 sin^2(y/2), im = exp(x) sin y (0 stays 0 when y = 0)."""
    x, y = z.real, z.imag
    half = np.sin(y / 2)
    re = np.where(y == 0, np.expm1(x), np.expm1(x) * np.cos(y) - 2 * half * half)
    im = np.where(y == 0, y, np.exp(x) * np.sin(y))
    return make(re, im)


def exp(z: Array) -> Array:
    """exp(x) (cos y + i sin y); y = 0 stays 0. An infinite y gives NaN, as in XLA (not in C99)."""
    scale, y = np.exp(z.real), z.imag
    return make(scale * np.cos(y), np.where(y == 0, y, scale * np.sin(y)))


def logistic(z: Array) -> Array:
    """1 / (1 + exp(-z)), as exp(z) / (1 + exp(z)) left of the imaginary axis, where exp(-z) would overflow."""
    left = z.real < 0
    grown = np.exp(np.where(left, z, -z))
    return np.asarray(np.where(left, grown, np.ones_like(grown)) / (1 + grown))


def rsqrt(z: Array) -> Array:
    """1 / sqrt(z)."""
    root = np.sqrt(z)
    out = make(root.real, -root.imag) / (root.real * root.real + root.imag * root.imag)
    zero, infinite = z == 0, np.isinf(z.real) | np.isinf(z.imag)
    inf = np.full_like(z.real, np.inf)
    out = np.where(zero, make(inf, np.full_like(inf, np.nan)), out)
    return np.where(infinite, make(np.zeros_like(inf), np.copysign(0 * inf.dtype.type(1), -z.imag) * 0), out)


def divide(x: Array, y: Array) -> Array:
    """x / y; where the formula gives NaN + NaN i, the infinities and zeros of C99 Annex G."""
    out = np.asarray(np.divide(x, y))
    a, b, c, d = np.broadcast_arrays(x.real, x.imag, y.real, y.imag)
    lost = (np.isnan(out.real) & np.isnan(out.imag)) | (y == 0)
    infinity = np.copysign(np.inf, c)
    by_zero = (y == 0) & ~(np.isnan(a) & np.isnan(b))
    grows = (np.isinf(a) | np.isinf(b)) & np.isfinite(c) & np.isfinite(d) & ~by_zero
    vanishes = (np.isinf(c) | np.isinf(d)) & np.isfinite(a) & np.isfinite(b)
    p, q, r, s = (np.copysign(np.where(np.isinf(v), 1.0, 0.0), v) for v in (a, b, c, d))
    for where, value in (
        (by_zero, make(infinity * a, infinity * b)),
        (grows, make(np.inf * (p * c + q * d), np.inf * (q * c - p * d))),
        (vanishes, make(0.0 * (a * r + b * s), 0.0 * (b * r - a * s))),
    ):
        out = np.where(lost & where, value, out)
    return out


def power(x: Array, y: Array) -> Array:
    """x^y = exp(y log x) in polar form; x^0 = 1, 0^y = 0 for positive real y."""
    r, theta = magnitude(x), np.arctan2(x.imag, x.real)
    log_r = np.log(r)
    a, b = y.real, y.imag
    rho = np.exp(a * log_r - b * theta)
    phi = b * log_r + a * theta
    out = make(rho * np.cos(phi), np.where(phi == 0, phi, rho * np.sin(phi)))
    one, zero = np.ones_like(out), np.zeros_like(out)
    out = np.where((x == 0) & (a > 0) & (b == 0), zero, out)
    return np.where(y == 0, one, out)


def atan2(y: Array, x: Array) -> Array:
    """-i log((x + iy) / sqrt(x^2 + y^2))."""
    quotient = (x + 1j * y) / np.sqrt(x * x + y * y)
    return np.asarray(-1j * np.log(quotient))


def cbrt(z: Array) -> Array:
    """The principal cube root: the real one of |z| at a third of its angle; 0 for 0."""
    size, angle = np.cbrt(magnitude(z)), np.arctan2(z.imag, z.real) / 3
    return np.where(z == 0, np.zeros_like(z), make(size * np.cos(angle), size * np.sin(angle)))


COMPLEX: dict[str, Fn] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cbrt": cbrt,
    "cosh": np.cosh,
    "cosine": np.cos,
    "exponential": exp,
    "exponential-minus-one": expm1,
    "log": np.log,
    "log-plus-one": log1p,
    "logistic": logistic,
    "rsqrt": rsqrt,
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
