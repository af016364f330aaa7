"""convert, among all element types.

Float to integer truncates and saturates, NaN gives 0; integer to integer wraps; anything to pred asks whether it is
non-zero; float to float rounds once to nearest even. Spec: XLA operation semantics, ConvertElementType.
"""

from __future__ import annotations

from xyla.codegen.elements_smallfloat import f64_to_f16, narrow, widen
from xyla.codegen.elements_types import is_native_float, register_type, wrap
from xyla.codegen.llvm import Builder, Cx, Val, Value, constant
from xyla.support import dtypes
from xyla.support.dtypes import ElementType


def convert(b: Builder, src: ElementType, dst: ElementType, x: Value) -> Value:
    """`x` (an element of `src`) as an element of `dst`. Complex to real keeps the real part."""
    if src is dst:
        return x
    if isinstance(x, Cx):
        part = src.component
        if dst is dtypes.PRED:
            return b.or_(_real(b, part, dst, x.re), _real(b, part, dst, x.im))
        if dst.is_complex:
            return Cx(_real(b, part, dst.component, x.re), _real(b, part, dst.component, x.im))
        return _real(b, part, dst, x.re)
    if dst.is_complex:
        re = _real(b, src, dst.component, x)
        return Cx(re, constant(0.0, re.ty, re.lanes))
    return _real(b, src, dst, x)


def compute_float(b: Builder, et: ElementType, x: Val) -> Val:
    """A float element in the type that arithmetic uses: f32 and f64 as they are, smaller ones as f32."""
    return x if is_native_float(et) else widen(b, et, x)


def from_compute(b: Builder, et: ElementType, x: Val) -> Val:
    """The inverse of `compute_float`: rounds an f32 result to a small type."""
    return x if is_native_float(et) else narrow(b, et, x)


def to_float(b: Builder, src: ElementType, ty: str, x: Val) -> Val:
    """Any real element as a `float` or `double` (rounded once)."""
    if src is dtypes.PRED:
        return b.select(x, constant(1.0, ty, x.lanes), 0.0)
    if src.is_float:
        return b.fp_cast(compute_float(b, src, x), ty)
    return b.cast("sitofp" if src.is_signed else "uitofp", x, ty)


def _real(b: Builder, src: ElementType, dst: ElementType, x: Val) -> Val:
    if src is dst:
        return x
    if dst is dtypes.PRED:
        return _to_pred(b, src, x)
    if dst.is_float:
        return _to_float_type(b, src, dst, x)
    if src is dtypes.PRED:
        return b.cast("zext", x, register_type(dst)) if dst.bits > 1 else x
    if src.is_float:
        return float_to_int(b, dst, compute_float(b, src, x))
    return wrap(b, dst, b.int_cast(x, register_type(dst), signed=src.is_signed))


def _to_pred(b: Builder, src: ElementType, x: Val) -> Val:
    if src.is_float:
        return b.fcmp("une", compute_float(b, src, x), 0.0)
    return b.icmp("ne", x, 0)


def _to_float_type(b: Builder, src: ElementType, dst: ElementType, x: Val) -> Val:
    if is_native_float(dst):
        return to_float(b, src, register_type(dst), x)
    if src is dtypes.F64 and dst is dtypes.F16:
        return f64_to_f16(b, x)
    return narrow(b, dst, to_float(b, src, "float", x))


def float_to_int(b: Builder, dst: ElementType, x: Val) -> Val:
    """A `float` or `double` truncated toward zero, saturated to an integer type; NaN gives 0."""
    out = b.fp_to_int(x, register_type(dst), signed=dst.is_signed)
    if dst.bits >= 8:
        return out
    if dst.is_unsigned:
        return b.umin(out, (1 << dst.bits) - 1)
    half = 1 << (dst.bits - 1)
    return b.smax(b.smin(out, half - 1), -half)
