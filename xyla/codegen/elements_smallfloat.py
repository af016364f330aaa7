"""f16, bf16, fp8, fp6, fp4: between their bits and f32. Widening is exact; narrowing rounds once, to nearest even.

Sources of the formats: OCP 8-bit floating point and microscaling specifications, the FNUZ paper (arXiv:2206.02915);
rules for overflow and NaN are those of ml_dtypes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from xyla.codegen.llvm import Builder, Val
from xyla.support import dtypes
from xyla.support.dtypes import ElementType

_F32_MANTISSA = 23
_F32_BIAS = 127


class Special(Enum):
    """What a format does with the codes that IEEE reserves."""

    IEEE = "the top exponent holds infinities and NaNs"
    FN = "no infinity; the all-ones magnitude is NaN"
    FNUZ = "no infinity, no -0; the code of -0 is NaN"
    FINITE = "neither infinities nor NaNs; overflow saturates"


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """A format of at most 8 bits: exponent and mantissa widths, bias, special codes."""

    exponent: int
    mantissa: int
    bias: int
    special: Special

    @property
    def sign(self) -> int:
        """The sign bit as a mask."""
        return 1 << (self.exponent + self.mantissa)

    @property
    def largest(self) -> int:
        """The code of the largest finite magnitude."""
        if self.special is Special.IEEE:
            return (((1 << self.exponent) - 1) << self.mantissa) - 1
        return self.sign - (2 if self.special is Special.FN else 1)

    @property
    def nan(self) -> int:
        """The code of NaN without its sign (FINITE formats have none)."""
        if self.special is Special.IEEE:
            return self.largest + 1 + (1 << (self.mantissa - 1))
        return self.sign if self.special is Special.FNUZ else self.sign - 1

    @property
    def overflow(self) -> int:
        """The code that values beyond the largest round to, without sign."""
        if self.special is Special.IEEE:
            return self.largest + 1
        return self.largest if self.special is Special.FINITE else self.nan


FORMATS: dict[ElementType, SmallFloat] = {
    dtypes.F8E5M2: SmallFloat(5, 2, 15, Special.IEEE),
    dtypes.F8E4M3: SmallFloat(4, 3, 7, Special.IEEE),
    dtypes.F8E3M4: SmallFloat(3, 4, 3, Special.IEEE),
    dtypes.F8E4M3FN: SmallFloat(4, 3, 7, Special.FN),
    dtypes.F8E4M3B11FNUZ: SmallFloat(4, 3, 11, Special.FNUZ),
    dtypes.F8E4M3FNUZ: SmallFloat(4, 3, 8, Special.FNUZ),
    dtypes.F8E5M2FNUZ: SmallFloat(5, 2, 16, Special.FNUZ),
    dtypes.F4E2M1FN: SmallFloat(2, 1, 1, Special.FINITE),
    dtypes.F6E2M3FN: SmallFloat(2, 3, 1, Special.FINITE),
    dtypes.F6E3M2FN: SmallFloat(3, 2, 3, Special.FINITE),
}


def widen(b: Builder, et: ElementType, x: Val) -> Val:
    """The f32 value of a small float (exact)."""
    if et is dtypes.F16:
        return b.cast("fpext", b.bitcast(x, "half"), "float")
    if et is dtypes.BF16:
        return b.bitcast(b.shl(b.cast("zext", x, "i32"), 16), "float")
    if et is dtypes.F8E8M0FNU:
        return _widen_exponent(b, x)
    return _widen_format(b, FORMATS[et], x)


def narrow(b: Builder, et: ElementType, x: Val) -> Val:
    """An f32 value rounded to a small float's bits."""
    if et is dtypes.F16:
        return b.bitcast(b.cast("fptrunc", x, "half"), "i16")
    if et is dtypes.BF16:
        return _narrow_bf16(b, x)
    if et is dtypes.F8E8M0FNU:
        return _narrow_exponent(b, x)
    return _narrow_format(b, FORMATS[et], x)


def f64_to_f16(b: Builder, x: Val) -> Val:
    """f64 to f16 with one rounding: to f32 by rounding to odd, which a second rounding cannot spoil."""
    near = b.cast("fptrunc", x, "float")
    back = b.cast("fpext", near, "double")
    bits = b.bitcast(near, "i32")
    above = b.fcmp("ogt", b.fabs(back), b.fabs(x))
    toward_zero = b.select(above, b.sub(bits, 1), bits)
    odd = b.or_(toward_zero, 1)
    inexact = b.fcmp("one", back, x)
    return narrow(b, dtypes.F16, b.bitcast(b.select(inexact, odd, bits), "float"))


def _narrow_bf16(b: Builder, x: Val) -> Val:
    # In integers: vcvtneps2bf16 would flush subnormals.
    bits = b.bitcast(x, "i32")
    lsb = b.and_(b.lshr(bits, 16), 1)
    rounded = b.lshr(b.add(b.add(bits, 0x7FFF), lsb), 16)
    nan = b.or_(b.and_(b.lshr(bits, 16), 0x8000), 0x7FC0)
    return b.cast("trunc", b.select(b.fcmp("uno", x, x), nan, rounded), "i16")


def _widen_format(b: Builder, f: SmallFloat, x: Val) -> Val:
    code = b.cast("zext", x, "i32")
    magnitude = b.and_(code, f.sign - 1)
    shift = _F32_MANTISSA - f.mantissa
    normal = b.add(b.shl(magnitude, shift), (_F32_BIAS - f.bias) << _F32_MANTISSA)
    # A subnormal is an integer multiple of the smallest one.
    tiny = b.fmul(b.cast("sitofp", magnitude, "float"), 2.0 ** (1 - f.bias - f.mantissa))
    bits = b.select(b.icmp("ult", magnitude, 1 << f.mantissa), b.bitcast(tiny, "i32"), normal)
    if f.special is Special.IEEE:
        top = b.or_(b.shl(b.and_(magnitude, (1 << f.mantissa) - 1), shift), 0x7F800000)
        bits = b.select(b.icmp("ugt", magnitude, f.largest), top, bits)
    elif f.special is Special.FN:
        bits = b.select(b.icmp("eq", magnitude, f.nan), 0x7FC00000, bits)
    sign = b.shl(b.and_(code, f.sign), 31 - f.exponent - f.mantissa)
    signed = b.or_(bits, sign)
    if f.special is Special.FNUZ:
        signed = b.select(b.icmp("eq", code, f.nan), 0xFFC00000, signed)
    return b.bitcast(signed, "float")


def _narrow_format(b: Builder, f: SmallFloat, x: Val) -> Val:
    raw = b.bitcast(x, "i32")
    bits = b.and_(raw, 0x7FFFFFFF)
    shift = _F32_MANTISSA - f.mantissa
    lsb = b.and_(b.lshr(bits, shift), 1)
    rounded = b.lshr(b.add(b.add(bits, (1 << (shift - 1)) - 1), lsb), shift)
    normal = b.sub(rounded, (_F32_BIAS - f.bias) << f.mantissa)
    # Adding a power of two whose last place is the smallest subnormal makes the hardware round there.
    magic = 2.0 ** (1 - f.bias - f.mantissa + _F32_MANTISSA)
    tiny = b.sub(b.bitcast(b.fadd(b.bitcast(bits, "float"), magic), "i32"), _float_bits(magic))
    least_normal = (1 - f.bias + _F32_BIAS) << _F32_MANTISSA
    code = b.select(b.icmp("ult", bits, least_normal), tiny, normal)
    code = b.select(b.icmp("sgt", code, f.largest), f.overflow, code)
    sign = b.and_(b.lshr(raw, 31 - f.exponent - f.mantissa), f.sign)
    nan = b.icmp("ugt", bits, 0x7F800000)
    if f.special is Special.FNUZ:
        sign = b.select(b.icmp("eq", code, 0), 0, sign)
        out = b.select(nan, f.nan, b.or_(code, sign))
    elif f.special is Special.FINITE:
        # ml_dtypes turns NaN into a zero of the opposite sign.
        out = b.select(nan, b.xor(sign, f.sign), b.or_(code, sign))
    else:
        out = b.or_(b.select(nan, f.nan, code), sign)
    return b.cast("trunc", out, "i8")


def _float_bits(value: float) -> int:
    import struct

    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def _widen_exponent(b: Builder, x: Val) -> Val:
    code = b.cast("zext", x, "i32")
    bits = b.shl(code, _F32_MANTISSA)
    bits = b.select(b.icmp("eq", code, 0), 0x00400000, bits)  # 2^-127 is an f32 subnormal
    return b.bitcast(b.select(b.icmp("eq", code, 0xFF), 0x7FC00000, bits), "float")


def _narrow_exponent(b: Builder, x: Val) -> Val:
    bits = b.bitcast(x, "i32")
    exponent = b.lshr(bits, _F32_MANTISSA)
    mantissa = b.and_(bits, 0x7FFFFF)
    # Ties go up; below 2^-126 the value is mantissa * 2^-149 and 2^-127, a mantissa of 0x400000, is exact.
    up = b.icmp("uge", mantissa, 0x400000)
    tiny = b.icmp("ugt", mantissa, 0x400000)
    up = b.select(b.icmp("eq", exponent, 0), tiny, up)
    code = b.add(exponent, b.cast("zext", up, "i32"))
    bad = b.or_(b.icmp("sle", bits, 0), b.icmp("uge", bits, 0x7F800000))
    return b.cast("trunc", b.select(bad, 0xFF, code), "i8")
