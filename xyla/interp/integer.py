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


# NumPy's own shifts are XLA's: a count that is negative (read as unsigned, so huge) or not below the width gives 0, or
# the sign for a signed right shift. Sub-byte values keep that in their 8-bit container.


def shift_right_logical(x: Array, n: Array, et: ElementType) -> Array:
    """x >> n with zeros shifted in."""
    u = unsigned_bits(x, et)
    count = np.asarray(n)
    return np.asarray(np.right_shift(u, count.view(u.dtype))).view(np.asarray(x).dtype)


def shift_right_arithmetic(x: Array, n: Array, et: ElementType) -> Array:
    """x >> n with the top bit shifted in, on unsigned types as well."""
    x = np.asarray(x)
    signed = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    if et.is_unsigned and et.bits < 8:
        signed = (signed << (8 - et.bits)) >> (8 - et.bits)
    return np.asarray(np.right_shift(signed, np.asarray(n).view(signed.dtype))).view(x.dtype)


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
