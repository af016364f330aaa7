"""Integer arithmetic with XLA's defined results: division by zero, overflow, shifts past the width, powers."""

from __future__ import annotations

import numpy as np

from xyla.interp.table import Array
from xyla.support.dtypes import ElementType


def divide(x: Array, y: Array, et: ElementType) -> Array:
    """Truncating division. x/0 = -1 (all bits set); INT_MIN/-1 = INT_MIN."""
    one, ones = y.dtype.type(1), np.invert(y.dtype.type(0))
    if not et.is_signed:
        return np.where(y == 0, ones, x // np.where(y == 0, one, y))
    safe = np.where((y == 0) | (y == ones), one, y)
    quotient = (x - np.fmod(x, safe)) // safe
    return np.where(y == 0, ones, np.where(y == ones, np.negative(x), quotient))


def remainder(x: Array, y: Array, et: ElementType) -> Array:
    """Remainder with the dividend's sign. x%0 = x; INT_MIN%-1 = 0."""
    one = y.dtype.type(1)
    bad = (y == 0) | (y == np.invert(y.dtype.type(0))) if et.is_signed else y == 0
    return np.where(y == 0, x, np.fmod(x, np.where(bad, one, y)))


def power(x: Array, y: Array, et: ElementType) -> Array:
    """x^y modulo 2^bits. A negative exponent gives 1 for 1, +-1 for -1, 0 otherwise."""
    x, y = np.broadcast_arrays(np.asarray(x), np.asarray(y))
    result, base = np.ones(x.shape, x.dtype), x.copy()
    exponent = y.copy()
    negative = y < 0
    exponent[negative] = 0
    while exponent.any():
        odd = (exponent & 1) == 1
        result[odd] *= base[odd]
        base *= base
        exponent >>= 1
    if negative.any():
        odd = (y & 1) == 1
        unit = np.where(x == 1, 1, np.where(x == -1, np.where(odd, -1, 1), 0)).astype(x.dtype)
        result[negative] = unit[negative]
    return result


def shift_left(x: Array, n: Array, bits: int) -> Array:
    """x << n; 0 when n >= bits (n is read as unsigned)."""
    ok = in_width(n, bits)
    return np.where(ok, np.left_shift(x, np.where(ok, n, n.dtype.type(0))), x.dtype.type(0))


def shift_right_arithmetic(x: Array, n: Array, bits: int) -> Array:
    """Signed x >> n; the sign fills when n >= bits."""
    ok = in_width(n, bits)
    return np.right_shift(x, np.where(ok, n, n.dtype.type(bits - 1)))


def shift_right_logical(x: Array, n: Array, bits: int) -> Array:
    """x >> n with zeros shifted in; 0 when n >= bits. `x` holds unsigned bits."""
    ok = in_width(n, bits)
    amount = np.where(ok, n, n.dtype.type(0)).astype(x.dtype)
    return np.asarray(np.where(ok, np.right_shift(x, amount), x.dtype.type(0)))


def in_width(n: Array, bits: int) -> Array:
    """0 <= n < bits, where negative means huge."""
    return (n >= 0) & (n < bits)


def unsigned_bits(x: Array, et: ElementType) -> Array:
    """The value's `et.bits` bits in an unsigned dtype (sub-byte types masked)."""
    x = np.asarray(x)
    u = x.view(np.dtype(f"u{x.dtype.itemsize}"))
    return u & u.dtype.type((1 << et.bits) - 1) if et.bits < 8 else u


def popcount(x: Array, et: ElementType) -> Array:
    """Number of set bits."""
    return np.bitwise_count(unsigned_bits(x, et)).astype(x.dtype)


def leading_zeros(x: Array, et: ElementType) -> Array:
    """Number of zero bits above the highest set one; the width for 0."""
    u = unsigned_bits(x, et)
    step = 1
    while step < et.bits:
        u = u | (u >> u.dtype.type(step))
        step *= 2
    return (et.bits - np.bitwise_count(u)).astype(x.dtype)
