"""The runtime program's types and attributes as MLIR types and attributes, and back.

An `ArrayType` is a memref: row-major ones have no layout, others a `strided<[...]>` one (strides in elements). Integers
are i64 unless the call's signature says otherwise; a tuple of integers is a `dense` tensor of i64. Source: the MLIR
documentation of the builtin types and of the 'memref' dialect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from xyla.formats.mlir import attributes as mlir
from xyla.formats.mlir import dense
from xyla.formats.mlir.types import F32, F64, I32, I64, MemRefType, ScalarType, TensorType, Type
from xyla.runtime.call_types import AttributeType, Kind
from xyla.runtime.program import ArrayType, Attribute, Deferred
from xyla.support import dtypes
from xyla.support.status import invalid, unimplemented

I8 = ScalarType("i8")
# MLIR has no name of its own for XLA's one-bit integers: i1 is pred.
_ONE_BIT = {"s1": "si1", "u1": "ui1"}
_STRIDED = re.compile(r"strided<\[([-\d, ]*)\](?:, offset: 0)?>")
_INT_TYPES = {Kind.I32: I32, Kind.I64: I64}
_FLOAT_TYPES = {Kind.F32: F32, Kind.F64: F64}


def element_of(dtype: np.dtype[np.generic]) -> Type:
    """The MLIR type of an element. Raises UNIMPLEMENTED for a dtype that MLIR has no type for."""
    kind = dtypes.by_numpy(dtype)
    spelling = _ONE_BIT.get(kind.name, kind.mlir)
    if not spelling:
        raise unimplemented(f"MLIR has no element type for {kind}")
    if spelling.startswith("complex<"):
        from xyla.formats.mlir.types import ComplexType

        return ComplexType(ScalarType(spelling[8:-1]))
    return ScalarType(spelling)


def dtype_of(element: Type) -> np.dtype[np.generic]:
    """The NumPy type of an MLIR element type. Raises UNIMPLEMENTED when XLA has none."""
    for name, spelling in _ONE_BIT.items():
        if str(element) == spelling:
            return dtypes.by_name(name).np
    return dense.element_type(element).np


def row_major(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of an array without a layout."""
    strides, step = [0] * len(dims), 1
    for d in range(len(dims) - 1, -1, -1):
        strides[d] = step
        step *= max(dims[d], 1)
    return tuple(strides)


def memref_of(t: ArrayType) -> MemRefType:
    """The memref type of an array. Strides must be whole elements."""
    size = t.dtype.itemsize
    strides = tuple(s // size for s in t.strides)
    if any(s % size for s in t.strides):
        raise unimplemented(f"strides {t.strides} are no multiple of the element's {size} bytes")
    layout = None if strides == row_major(t.dims) else mlir.StridedAttr(f"strided<[{', '.join(map(str, strides))}]>")
    return MemRefType(t.dims, element_of(t.dtype), layout)


def array_type_of(t: Type) -> ArrayType:
    """The array that a memref type describes.

    Raises INVALID_ARGUMENT unless it is static with known strides, UNIMPLEMENTED for gaps between elements.
    """
    if not isinstance(t, MemRefType) or t.dims is None or any(d < 0 for d in t.dims):
        raise invalid(f"expected a memref of static shape, got {t}")
    dtype = dtype_of(t.element)
    strides = row_major(t.dims)
    if t.layout is not None:
        found = _STRIDED.fullmatch(str(t.layout))
        if found is None:
            raise invalid(f"the layout {t.layout} is not understood: expected strided<[...]>")
        strides = tuple(int(s) for s in found[1].split(",") if s.strip())
        if len(strides) != len(t.dims):
            raise invalid(f"{t} has {len(t.dims)} dimensions, but {len(strides)} strides")
    array = ArrayType(dtype, t.dims, tuple(s * dtype.itemsize for s in strides))
    if t.layout is not None and not _is_dense(array):
        raise unimplemented(f"{t}: elements that do not lie side by side")
    return array


def _is_dense(t: ArrayType) -> bool:
    """Whether the strides are those of an order of the dimensions, without gaps."""
    step = t.dtype.itemsize
    for d in t.minor_to_major:
        if t.dims[d] != 1 and t.strides[d] != step and t.num_bytes:
            return False
        step *= t.dims[d]
    return True


def bytes_memref(size: int) -> MemRefType:
    """`memref<SIZExi8>`: untyped memory."""
    return MemRefType((size,), I8)


def dense_ints(values: tuple[int, ...]) -> mlir.DenseAttr:
    """`dense<[1, 2]> : tensor<2xi64>`."""
    body = f"[{', '.join(map(str, values))}]" if values else ""
    return mlir.DenseAttr(body, TensorType((len(values),), I64))


def to_mlir(value: Attribute, wanted: AttributeType | None = None) -> mlir.Attribute:
    """An attribute's value as MLIR, in the type that the call's signature wants."""
    kind = wanted.kind if wanted is not None else None
    match value:
        case bool():
            return mlir.BoolAttr(value)
        case int():
            if kind in _FLOAT_TYPES:
                return mlir.FloatAttr(float(value), _FLOAT_TYPES[kind])
            return mlir.IntegerAttr(value, _INT_TYPES.get(kind, I64) if kind else I64)
        case float():
            return mlir.FloatAttr(value, _FLOAT_TYPES.get(kind, F64) if kind else F64)
        case str():
            return mlir.StringAttr(value)
        case Deferred():
            return mlir.StringAttr(value.text)
        case bytes():
            return mlir.DenseArrayAttr(I8, tuple(int(b) for b in np.frombuffer(value, np.int8)))
        case ArrayType():
            return mlir.TypeAttr(memref_of(value))
        case tuple():
            return _sequence(value, wanted)
        case _:
            fields = wanted.fields if wanted is not None else {}
            return mlir.DictAttr(tuple((k, to_mlir(v, fields.get(k))) for k, v in value.items()))


def _sequence(value: tuple[Attribute, ...], wanted: AttributeType | None) -> mlir.Attribute:
    ints = tuple(v for v in value if isinstance(v, int) and not isinstance(v, bool))
    if len(ints) == len(value) and (ints or wanted is None or wanted.kind is Kind.I64S):
        return dense_ints(ints)
    return mlir.ArrayAttr(tuple(to_mlir(v, wanted.element if wanted is not None else None) for v in value))


def from_mlir(attr: mlir.Attribute) -> Attribute:
    """The value of an MLIR attribute. Raises INVALID_ARGUMENT for a kind that calls cannot take."""
    match attr:
        case mlir.BoolAttr() | mlir.IntegerAttr() | mlir.StringAttr():
            return attr.value
        case mlir.FloatAttr():
            return float(_float_of_bits(attr)) if attr.bits is not None else attr.value
        case mlir.DenseAttr():
            values = dense.decode(attr).reshape(-1)
            return tuple(v.item() for v in values)
        case mlir.DenseArrayAttr():
            if attr.element == I8:
                return np.array(attr.values, np.int8).tobytes()
            return tuple(attr.values)
        case mlir.ArrayAttr():
            return tuple(from_mlir(a) for a in attr.items)
        case mlir.DictAttr():
            return {k: from_mlir(v) for k, v in attr.entries}
        case mlir.TypeAttr():
            return array_type_of(attr.type)
        case mlir.UnitAttr():
            return True
        case mlir.SymbolRef():
            return attr.root
        case _:
            raise invalid(f"a call cannot take the attribute {attr}")


def _float_of_bits(attr: mlir.FloatAttr) -> float:
    kind = dense.element_type(attr.type)
    bits = np.array([attr.bits], np.uint64).astype(f"u{kind.itemsize}")
    return float(bits.view(kind.np)[0])


def plain(value: Attribute) -> Attribute:
    """The value with deferred text made: what reading the text back gives."""
    match value:
        case Deferred():
            return value.text
        case tuple():
            return tuple(plain(v) for v in value)
        case Mapping():
            return {k: plain(v) for k, v in value.items()}
        case _:
            return value
