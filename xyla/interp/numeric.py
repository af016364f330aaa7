"""Number representation: the types arithmetic is done in, rounding to narrow types, conversions, bit views.

Small floats (f16, bf16, fp8, ...) compute in float32, sub-byte integers in 8 bits; results round (or wrap) once.
Source: XLA operation semantics (ConvertElementType, BitcastConvertType), IEEE 754.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xyla.interp.table import Array
from xyla.support.dtypes import C128, F32, F64, PRED, ElementType

_WIDE_INT = {True: np.dtype(np.int8), False: np.dtype(np.uint8)}


def compute_dtype(et: ElementType) -> np.dtype[Any]:
    """The NumPy dtype in which arithmetic on `et` is done: itself unless it is narrower than NumPy can compute in."""
    if et.is_float and et.bits < 32:
        return np.dtype(np.float32)
    if et.is_integer and et.bits < 8:
        return _WIDE_INT[et.is_signed]
    return et.np


def widen(x: Array, et: ElementType) -> Array:
    """`x` in its compute dtype (exact)."""
    wide = compute_dtype(et)
    return x if wide is et.np else np.asarray(x).astype(wide)


def narrow(x: Array, et: ElementType) -> Array:
    """`x` rounded to nearest even (floats) or wrapped (integers) to `et`, in its storage dtype."""
    if x.dtype == et.np:
        return x
    if et.is_float and et.bits < 32 and x.dtype.itemsize > 4:
        # NumPy and ml_dtypes go through float32 and would round twice.
        x = round_to_odd(np.asarray(x, dtype=np.float64))
    return x.astype(et.np)


def round_to_odd(x: Array) -> Array:
    """float64 to float32 such that a later rounding to fewer bits gives what one rounding of `x` would have given.

    Inexact values keep a set lowest bit ("sticky"), which can never look like a tie.
    """
    near = x.astype(np.float32)
    back = near.astype(np.float64)
    inexact = (back != x) & np.isfinite(x)
    if not inexact.any():
        return near
    bits = np.atleast_1d(near).view(np.uint32).copy()
    mask = np.atleast_1d(inexact)
    above = np.atleast_1d(np.abs(back) > np.abs(x)) & mask
    bits[above] -= np.uint32(1)  # magnitude one step down: towards zero
    bits[mask] |= np.uint32(1)
    return bits.view(np.float32).reshape(near.shape)


def float_to_int(x: Array, et: ElementType) -> Array:
    """float32/64 to an integer type: truncation, saturation at the type's range, NaN to 0."""
    lo, hi = int_range(et)
    # The bounds as floats: hi may round up to 2^n, hence >= for the upper test.
    wide = np.trunc(x)
    too_big, too_small = wide >= float(hi), wide <= float(lo)
    safe = np.where(too_big | too_small | np.isnan(x), x.dtype.type(0), wide)
    storage = compute_dtype(et)
    out = safe.astype(storage)
    out = np.where(too_big, storage.type(hi), np.where(too_small, storage.type(lo), out))
    return out.astype(et.np)


def int_range(et: ElementType) -> tuple[int, int]:
    """(lowest, highest) value of an integer type."""
    if et.is_signed:
        return -(1 << (et.bits - 1)), (1 << (et.bits - 1)) - 1
    return 0, (1 << et.bits) - 1


def _int_to_float(x: Array, et: ElementType) -> Array:
    if et.bits >= 32:
        return x.astype(et.np)
    if x.dtype.itemsize == 8:
        # Fold the bits that float64 cannot hold into one sticky bit, so that only the last rounding counts.
        sticky = np.where(x & x.dtype.type(0x7FF), x.dtype.type(0x400), x.dtype.type(0))
        x = np.where(abs_at_least(x, 1 << 53), (x & ~x.dtype.type(0x7FF)) | sticky, x)
    return narrow(x.astype(np.float64), et)


def abs_at_least(x: Array, bound: int) -> Array:
    """|x| >= bound for 64-bit integers, without overflow."""
    big = x >= x.dtype.type(bound)
    return np.asarray(big if x.dtype.kind == "u" else big | (x <= x.dtype.type(-bound)))


def convert(x: Array, src: ElementType, dst: ElementType) -> Array:
    """ConvertElementType: value-preserving where possible; see the functions above for the rest."""
    if src is dst:
        return x
    x = np.asarray(x)
    if src.is_complex:
        if dst.is_complex:
            return x.astype(dst.np)
        return convert(x.real, src.component, dst)
    wide = widen(x, src)
    if dst is PRED:
        return np.not_equal(wide, 0)
    if dst.is_complex:
        return convert(x, src, dst.component).astype(dst.np)
    if dst.is_float:
        if src.is_float:
            return narrow(wide, dst)
        return wide.astype(np.float32).astype(dst.np) if src is PRED else _int_to_float(wide, dst)
    return float_to_int(wide, dst) if src.is_float else wide.astype(dst.np)


def bit_view(x: Array, et: ElementType) -> Array:
    """The bits of an array as unsigned integers of its storage width."""
    return np.ascontiguousarray(x).view(np.dtype(f"u{et.itemsize}")).reshape(np.shape(x))


def total_order_key(x: Array, et: ElementType) -> Array:
    """Signed integers that order like XLA's TOTALORDER: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    bits = bit_view(x, et)
    signed = bits.view(np.dtype(f"i{et.itemsize}")).reshape(np.shape(x))
    if et.bits < 8:  # stored in a byte's low bits: the sign comes to the top
        signed = signed << (8 - et.bits)
    magnitude = signed.dtype.type(np.iinfo(signed.dtype).max)
    return np.asarray(signed ^ ((signed >> (8 * et.itemsize - 1)) & magnitude))


def bitcast_convert(x: Array, src: ElementType, dst: ElementType) -> Array:
    """BitcastConvertType: same bits; a ratio of widths becomes, or consumes, a minor dimension (little-endian)."""
    x = np.asarray(x, order="C")  # not ascontiguousarray: it would make scalars vectors
    if src.bits == dst.bits:
        return x.view(dst.np).reshape(x.shape) if src.itemsize == dst.itemsize else x
    if src.bits % 8 == 0 and dst.bits % 8 == 0:
        if src.bits > dst.bits:
            return x.reshape(*x.shape, 1).view(dst.np)
        return x.view(dst.np).reshape(x.shape[:-1])
    return _bitcast_sub_byte(x, src, dst)


def _bitcast_sub_byte(x: Array, src: ElementType, dst: ElementType) -> Array:
    bits = np.unpackbits(x.view(np.uint8).reshape(*x.shape, src.itemsize), axis=-1, bitorder="little")
    bits = bits[..., : src.bits]
    if src.bits > dst.bits:
        shape = (*x.shape, src.bits // dst.bits)
    else:
        shape = x.shape[:-1]
    bits = np.ascontiguousarray(bits).reshape(*shape, dst.bits)
    if dst.bits < 8:
        if dst.is_signed:  # the storage byte holds the sign-extended value
            sign = np.repeat(bits[..., -1:], 8 - dst.bits, axis=-1)
        else:
            sign = np.zeros((*shape, 8 - dst.bits), np.uint8)
        bits = np.concatenate([bits, sign], axis=-1)
    packed = np.packbits(bits, axis=-1, bitorder="little")
    return np.ascontiguousarray(packed).view(dst.np).reshape(shape)


def accumulator(et: ElementType) -> ElementType:
    """The type in which sums and products of `et` accumulate before one rounding: f64 for f32 (c128), f32 below it."""
    if et.is_float:
        return F64 if et.bits >= 32 else F32
    return C128 if et.is_complex else et


def zero_of(et: ElementType) -> Array:
    """A rank-0 zero."""
    return np.zeros((), et.np)
