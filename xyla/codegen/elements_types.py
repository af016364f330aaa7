"""How each element type lives in registers and in memory.

In registers: pred is i1; s2, s4, u2, u4 are i8 kept sign- or zero-extended; f32 and f64 are themselves; every other
float is its bits in an integer (arithmetic on it goes through f32); complex is a pair (`Cx`). In memory: pred is a byte
0/1, sub-byte types a byte an element with the high bits clear (as ml_dtypes stores them), complex interleaved.
"""

from __future__ import annotations

import numpy as np

from xyla.codegen.llvm import Builder, Cx, Operand, Val, Value, constant
from xyla.support import dtypes
from xyla.support.dtypes import ElementType
from xyla.support.status import unimplemented


def register_type(et: ElementType) -> str:
    """The scalar LLVM type of an element (of one part, for complex). Raises UNIMPLEMENTED for tokens and tuples."""
    if et is dtypes.PRED:
        return "i1"
    if not et.is_array:
        raise unimplemented(f"element type {et} has no register form")
    if et.is_complex:
        return register_type(et.component)
    if et is dtypes.F32:
        return "float"
    if et is dtypes.F64:
        return "double"
    return f"i{max(8, et.bits)}"


def memory_type(et: ElementType) -> str:
    """The scalar LLVM type of an element in memory; complex elements are two of them."""
    return "i8" if et is dtypes.PRED else register_type(et)


def is_native_float(et: ElementType) -> bool:
    """f32 and f64: computed in their own type."""
    return et is dtypes.F32 or et is dtypes.F64


def natural_lanes(et: ElementType, vector_bytes: int = 64) -> int:
    """How many elements of `et` fill a vector register (at most 32; small floats are computed as f32, so 16)."""
    if et.is_float and et.itemsize < 4:
        return vector_bytes // 4
    width = et.component.itemsize if et.is_complex else et.itemsize
    return min(32, vector_bytes // width)


def element_constant(et: ElementType, value: object, lanes: int = 1) -> Value:
    """A constant element, splat over the lanes. `value` is anything NumPy can turn into one scalar of the type."""
    scalar = np.asarray(value).astype(et.np)
    if et.is_complex:
        ty = register_type(et)
        return Cx(constant(float(scalar.real), ty, lanes), constant(float(scalar.imag), ty, lanes))
    if et is dtypes.PRED:
        return constant(bool(scalar), "i1", lanes)
    if is_native_float(et):
        return constant(float(scalar), register_type(et), lanes)
    if et.is_float:
        return constant(int(scalar.view(f"u{et.itemsize}")), register_type(et), lanes)
    return constant(int(scalar), register_type(et), lanes)


def splat_element(b: Builder, value: Value, lanes: int) -> Value:
    """A scalar element in every lane."""
    if isinstance(value, Cx):
        return Cx(b.splat(value.re, lanes), b.splat(value.im, lanes))
    return b.splat(value, lanes)


def wrap(b: Builder, et: ElementType, value: Val) -> Val:
    """Brings a sub-byte integer back to its canonical i8 form after arithmetic; other types pass."""
    if not et.is_integer or et.bits >= 8:
        return value
    if et.is_unsigned:
        return b.and_(value, (1 << et.bits) - 1)
    return b.ashr(b.shl(value, 8 - et.bits), 8 - et.bits)


def to_memory(b: Builder, et: ElementType, value: Val) -> Val:
    """Register form to memory form."""
    if et is dtypes.PRED:
        return b.cast("zext", value, "i8")
    if et.is_signed and et.bits < 8:
        return b.and_(value, (1 << et.bits) - 1)
    return value


def from_memory(b: Builder, et: ElementType, value: Val) -> Val:
    """Memory form to register form."""
    if et is dtypes.PRED:
        return b.icmp("ne", value, 0)
    return wrap(b, et, value)


def load_element(
    b: Builder, et: ElementType, base: Val, index: Operand, lanes: int = 1, mask: Val | None = None
) -> Value:
    """Loads `lanes` consecutive elements from element `index` on; with a mask, only the lanes it sets (others: 0)."""
    ty = memory_type(et)
    if et.is_complex:
        wide = _twice(b, index)
        two = b.interleave(mask, mask) if mask is not None else None
        raw = _load(b, base, wide, ty, 2 * lanes, two)
        return Cx(*b.deinterleave(raw))
    return from_memory(b, et, _load(b, base, index, ty, lanes, mask))


def store_element(
    b: Builder,
    et: ElementType,
    value: Value,
    base: Val,
    index: Operand,
    mask: Val | None = None,
    *,
    nontemporal: bool = False,
) -> None:
    """Stores consecutive elements from element `index` on; with a mask, only the lanes it sets.

    `nontemporal` promises that the address is a multiple of the vector's size.
    """
    if isinstance(value, Cx):
        index = _twice(b, index)
        value = b.interleave(value.re, value.im)
        mask = b.interleave(mask, mask) if mask is not None else None
    raw = to_memory(b, et, value)
    ptr = b.gep(base, index, raw.ty)
    if mask is not None:
        b.masked_store(raw, ptr, mask)
        return
    width = (max(8, int(raw.ty[1:])) if raw.ty[0] == "i" else 64 if raw.ty == "double" else 32) // 8
    b.store(raw, ptr, align=width * raw.lanes if nontemporal else 0, nontemporal=nontemporal)


def gather_element(b: Builder, et: ElementType, base: Val, index: Val, mask: Val | None = None) -> Value:
    """Loads element `index[lane]` for each lane (i32 or i64 indices)."""
    ty = memory_type(et)
    if et.is_complex:
        even = b.shl(index, 1)
        return Cx(b.gather(base, even, ty, mask), b.gather(base, b.add(even, 1), ty, mask))
    return from_memory(b, et, b.gather(base, index, ty, mask))


def scatter_element(b: Builder, et: ElementType, value: Value, base: Val, index: Val, mask: Val | None = None) -> None:
    """Stores each lane to element `index[lane]`; where indices repeat, the last lane wins."""
    if isinstance(value, Cx):
        even = b.shl(index, 1)
        b.scatter(value.re, base, even, mask)
        b.scatter(value.im, base, b.add(even, 1), mask)
        return
    b.scatter(to_memory(b, et, value), base, index, mask)


def _twice(b: Builder, index: Operand) -> Operand:
    return b.shl(index, 1) if isinstance(index, Val) else 2 * index


def _load(b: Builder, base: Val, index: Operand, ty: str, lanes: int, mask: Val | None) -> Val:
    ptr = b.gep(base, index, ty)
    return b.load(ptr, ty, lanes) if mask is None else b.masked_load(ptr, mask, ty)
