"""Element types: XLA's PrimitiveType, with the NumPy dtype that stores each.

Sub-byte types (s4, u2, f4e2m1fn, ...) are stored one element a byte, as ml_dtypes does.
Source: xla_data.proto (PrimitiveType) for names and numbers, the StableHLO spec for the MLIR names.
"""

from __future__ import annotations

from enum import Enum

import ml_dtypes
import numpy as np


class Kind(Enum):
    """The family of an element type."""

    PRED = "pred"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    COMPLEX = "complex"
    OTHER = "other"


class ElementType:
    """One element type; interned, compared by identity.

    `bits` is the width in XLA's sense (4 for s4); `np` the storage dtype (None for tuple, token, opaque,
    buffer); `proto` the PrimitiveType number (-1 where XLA has no such type); `mlir` the MLIR spelling.
    """

    __slots__ = (
        "bits", "is_array", "is_complex", "is_float", "is_integer", "is_signed", "is_unsigned", "itemsize",
        "kind", "mlir", "name", "np", "proto",
    )  # fmt: skip

    def __init__(self, name: str, kind: Kind, bits: int, np_type: object, proto: int, mlir: str) -> None:
        self.name = name
        self.kind = kind
        self.bits = bits
        self.np: np.dtype[np.generic] = np.dtype(np_type) if np_type is not None else _NO_STORAGE  # type: ignore[call-overload]
        self.proto = proto
        self.mlir = mlir
        self.is_float = kind is Kind.FLOAT
        self.is_complex = kind is Kind.COMPLEX
        self.is_signed = kind is Kind.SIGNED
        self.is_unsigned = kind is Kind.UNSIGNED
        self.is_integer = self.is_signed or self.is_unsigned
        self.is_array = np_type is not None
        self.itemsize = self.np.itemsize if np_type is not None else 0

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return by_name, (self.name,)

    @property
    def component(self) -> ElementType:
        """The real type of a complex type's parts; the type itself otherwise."""
        return {"c64": F32, "c128": F64}.get(self.name, self)


_NO_STORAGE = np.dtype("V1")
_BY_NAME: dict[str, ElementType] = {}
_BY_NUMPY: dict[np.dtype[np.generic], ElementType] = {}
_BY_MLIR: dict[str, ElementType] = {}
_BY_PROTO: dict[int, ElementType] = {}


def _define(name: str, kind: Kind, bits: int, np_type: object, proto: int, mlir: str) -> ElementType:
    et = ElementType(name, kind, bits, np_type, proto, mlir)
    _BY_NAME[name] = et
    _BY_PROTO[proto] = et
    if et.is_array:
        _BY_NUMPY[et.np] = et
    if mlir:
        _BY_MLIR[mlir] = et
    return et


PRED = _define("pred", Kind.PRED, 8, np.bool_, 1, "i1")
S1 = _define("s1", Kind.SIGNED, 1, getattr(ml_dtypes, "int1", None), 30, "")
S2 = _define("s2", Kind.SIGNED, 2, ml_dtypes.int2, 26, "i2")
S4 = _define("s4", Kind.SIGNED, 4, ml_dtypes.int4, 21, "i4")
S8 = _define("s8", Kind.SIGNED, 8, np.int8, 2, "i8")
S16 = _define("s16", Kind.SIGNED, 16, np.int16, 3, "i16")
S32 = _define("s32", Kind.SIGNED, 32, np.int32, 4, "i32")
S64 = _define("s64", Kind.SIGNED, 64, np.int64, 5, "i64")
U1 = _define("u1", Kind.UNSIGNED, 1, getattr(ml_dtypes, "uint1", None), 31, "")
U2 = _define("u2", Kind.UNSIGNED, 2, ml_dtypes.uint2, 27, "ui2")
U4 = _define("u4", Kind.UNSIGNED, 4, ml_dtypes.uint4, 22, "ui4")
U8 = _define("u8", Kind.UNSIGNED, 8, np.uint8, 6, "ui8")
U16 = _define("u16", Kind.UNSIGNED, 16, np.uint16, 7, "ui16")
U32 = _define("u32", Kind.UNSIGNED, 32, np.uint32, 8, "ui32")
U64 = _define("u64", Kind.UNSIGNED, 64, np.uint64, 9, "ui64")
F16 = _define("f16", Kind.FLOAT, 16, np.float16, 10, "f16")
BF16 = _define("bf16", Kind.FLOAT, 16, ml_dtypes.bfloat16, 16, "bf16")
F32 = _define("f32", Kind.FLOAT, 32, np.float32, 11, "f32")
F64 = _define("f64", Kind.FLOAT, 64, np.float64, 12, "f64")
F8E5M2 = _define("f8e5m2", Kind.FLOAT, 8, ml_dtypes.float8_e5m2, 19, "f8E5M2")
F8E4M3FN = _define("f8e4m3fn", Kind.FLOAT, 8, ml_dtypes.float8_e4m3fn, 20, "f8E4M3FN")
F8E4M3 = _define("f8e4m3", Kind.FLOAT, 8, ml_dtypes.float8_e4m3, 28, "f8E4M3")
F8E4M3B11FNUZ = _define("f8e4m3b11fnuz", Kind.FLOAT, 8, ml_dtypes.float8_e4m3b11fnuz, 23, "f8E4M3B11FNUZ")
F8E5M2FNUZ = _define("f8e5m2fnuz", Kind.FLOAT, 8, ml_dtypes.float8_e5m2fnuz, 24, "f8E5M2FNUZ")
F8E4M3FNUZ = _define("f8e4m3fnuz", Kind.FLOAT, 8, ml_dtypes.float8_e4m3fnuz, 25, "f8E4M3FNUZ")
F8E3M4 = _define("f8e3m4", Kind.FLOAT, 8, ml_dtypes.float8_e3m4, 29, "f8E3M4")
F8E8M0FNU = _define("f8e8m0fnu", Kind.FLOAT, 8, ml_dtypes.float8_e8m0fnu, 33, "f8E8M0FNU")
F4E2M1FN = _define("f4e2m1fn", Kind.FLOAT, 4, ml_dtypes.float4_e2m1fn, 32, "f4E2M1FN")
F6E2M3FN = _define("f6e2m3fn", Kind.FLOAT, 6, ml_dtypes.float6_e2m3fn, 36, "f6E2M3FN")
F6E3M2FN = _define("f6e3m2fn", Kind.FLOAT, 6, ml_dtypes.float6_e3m2fn, 35, "f6E3M2FN")
C64 = _define("c64", Kind.COMPLEX, 64, np.complex64, 15, "complex<f32>")
C128 = _define("c128", Kind.COMPLEX, 128, np.complex128, 18, "complex<f64>")
TUPLE = _define("tuple", Kind.OTHER, 0, None, 13, "")
OPAQUE = _define("opaque", Kind.OTHER, 0, None, 14, "")
TOKEN = _define("token", Kind.OTHER, 0, None, 17, "")
BUFFER = _define("buffer", Kind.OTHER, 0, None, 34, "")


def all_types() -> tuple[ElementType, ...]:
    """Every element type, in declaration order."""
    return tuple(_BY_NAME.values())


def find(name: str) -> ElementType | None:
    """The type XLA calls `name`, or None."""
    return _BY_NAME.get(name)


def by_name(name: str) -> ElementType:
    """The type XLA calls `name`. Raises KeyError."""
    return _BY_NAME[name]


def by_numpy(dtype: object) -> ElementType:
    """The type stored as NumPy `dtype`. Raises KeyError for a dtype that XLA does not have."""
    return _BY_NUMPY[np.dtype(dtype)]  # type: ignore[call-overload]


def by_mlir(name: str) -> ElementType:
    """The type MLIR spells `name` ("i1", "ui8", "complex<f32>"; si32 means i32). Raises KeyError."""
    return _BY_MLIR[name[1:] if name.startswith("si") else name]


def by_proto(number: int) -> ElementType:
    """The type with PrimitiveType number `number`. Raises KeyError."""
    if number < 0:
        raise KeyError(number)
    return _BY_PROTO[number]
