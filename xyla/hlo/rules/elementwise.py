"""Rules of the element-wise ops. Results keep the first operand's layout.

Source: XLA operation semantics, "Element-wise unary/binary functions", "Clamp", "Select", "ConvertElementType".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xyla.hlo.op_def import Attrs, InferFn
from xyla.hlo.rules.common import (
    ARRAYS,
    COMPLEX,
    FLOATS,
    INTEGERS,
    PREDS,
    bare,
    dims_match,
    merge,
    need_array,
    same_but_precision,
    wrong_operand,
)
from xyla.hlo.shape import Shape
from xyla.support.dtypes import C64, C128, F32, F64, PRED, ElementType
from xyla.support.status import invalid

if TYPE_CHECKING:
    from xyla.hlo.attr_types import ComparisonType
    from xyla.hlo.module import Computation, Instruction
    from xyla.hlo.ops.elementwise import CompareAttrs

Types = frozenset[ElementType]

NUMBERS: Types = FLOATS | INTEGERS | COMPLEX
ANY: Types = ARRAYS
REAL_OR_COMPLEX: Types = FLOATS | COMPLEX
BITS: Types = INTEGERS | PREDS
_NAMES: dict[Types, str] = {
    NUMBERS: "an array of numbers",
    ANY: "an array",
    FLOATS: "a floating-point array",
    INTEGERS: "an integer array",
    REAL_OR_COMPLEX: "a floating-point or complex array",
    BITS: "an integer or pred array",
    FLOATS | INTEGERS: "a floating-point or integer array",
}


def unary(allowed: Types) -> InferFn:
    """The operand's own shape; its element type must be one of `allowed`."""

    def infer(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
        shape = shapes[0]
        if shape.element_type not in allowed:
            raise wrong_operand(0, shape, _NAMES[allowed])
        return shape

    return infer


def binary(allowed: Types) -> InferFn:
    """The shape both operands share; its element type must be one of `allowed`."""

    def infer(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
        a, b = shapes
        shape = a if a is b else merge(a, b)
        if shape.element_type not in allowed:
            raise wrong_operand(0, shape, _NAMES[allowed])
        return shape

    return infer


def abs_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """abs: the magnitude of a complex number is real."""
    return _real_part(shapes[0], NUMBERS)


def real_imag_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """real, imag: the parts' type; a real operand is its own real part."""
    return _real_part(shapes[0], REAL_OR_COMPLEX)


def _real_part(shape: Shape, allowed: Types) -> Shape:
    if shape.element_type not in allowed:
        raise wrong_operand(0, shape, _NAMES[allowed])
    return shape.with_type(shape.element_type.component) if shape.element_type.is_complex else shape


def is_finite_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """is-finite: pred of a floating-point array."""
    if shapes[0].element_type not in FLOATS:
        raise wrong_operand(0, shapes[0], _NAMES[FLOATS])
    return shapes[0].with_type(PRED)


def complex_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """complex: f32 pairs make c64, f64 pairs c128."""
    if shapes[0].element_type not in (F32, F64):
        raise wrong_operand(0, shapes[0], "an f32 or f64 array")
    if shapes[1].element_type is not shapes[0].element_type:
        raise wrong_operand(1, shapes[1], bare(shapes[0]))
    shape = merge(shapes[0], shapes[1])
    return shape.with_type(C64 if shape.element_type is F32 else C128)


def compare_shape(shapes: Sequence[Shape], attrs: CompareAttrs, called: Sequence[Computation]) -> Shape:
    """compare: pred over the operands' dims; complex numbers only for EQ and NE."""
    a, b = shapes
    shape = a if a is b else merge(a, b)
    et = shape.element_type
    if et not in ANY:
        raise wrong_operand(0, a, "an array")
    if et.is_complex and attrs.direction.value not in ("EQ", "NE"):
        raise invalid(f"direction {attrs.direction.value} does not order complex numbers")
    if attrs.type is not None:
        _check_compare_type(attrs.type, et)
    return shape.with_type(PRED)


def _check_compare_type(kind: ComparisonType, et: ElementType) -> None:
    name = kind.value
    float_like = et.is_float or et.is_complex
    fits = {"FLOAT": float_like, "TOTALORDER": et.is_float or et.is_integer}.get(name)
    if fits is None:
        fits = et.is_signed if name == "SIGNED" else et.is_unsigned or et is PRED
    if not fits:
        raise invalid(f"compare type {name} does not fit element type {et}")


def select_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """select: the shape of operands 1 and 2; the pred operand has their dims or is a scalar."""
    pred, on_true, on_false = shapes
    shape = on_true if on_true is on_false else merge(on_true, on_false, 2)
    if shape.element_type not in ANY:
        raise wrong_operand(1, on_true, "an array")
    if pred.element_type is not PRED or (pred.rank and not dims_match(pred, shape)):
        raise wrong_operand(0, pred, bare(shape.with_type(PRED)))
    return shape


def clamp_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """clamp(min, x, max): the shape of x; the bounds have it too or are scalars."""
    low, x, high = shapes
    if x.element_type not in ANY:
        raise wrong_operand(1, x, "an array")
    for i, bound in ((0, low), (2, high)):
        if bound is x:
            continue
        if bound.rank:
            merge(x, bound, i)
        elif not same_but_precision(bound, Shape.array(x.element_type, ())):
            raise wrong_operand(i, bound, f"{x.element_type}[] or {bare(x)}")
    return x


def reduce_precision_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """reduce-precision: the operand's shape; at least one exponent bit, no negative mantissa width."""
    exponent, mantissa = attrs.exponent_bits, attrs.mantissa_bits  # type: ignore[attr-defined]
    if shapes[0].element_type not in FLOATS:
        raise wrong_operand(0, shapes[0], _NAMES[FLOATS])
    if exponent < 1:
        raise invalid(f"exponent_bits is {exponent}, expected at least 1")
    if mantissa < 0:
        raise invalid(f"mantissa_bits is {mantissa}, expected at least 0")
    return shapes[0]


def verify_convert(inst: Instruction) -> None:
    """convert: the operand's dims; complex does not become real."""
    operand = need_array([o.shape for o in inst.operands])
    if not inst.shape.is_array or not dims_match(operand, inst.shape):
        raise invalid(f"result is {bare(inst.shape)}, expected the dims of operand 0, {bare(operand)}")
    if operand.element_type.is_complex and not inst.shape.element_type.is_complex:
        raise invalid(f"{operand.element_type} does not convert to {inst.shape.element_type}")


def verify_stochastic_convert(inst: Instruction) -> None:
    """stochastic-convert: floats and random bits of their width, over the same dims."""
    operand, random = (o.shape for o in inst.operands)
    if operand.element_type not in FLOATS:
        raise wrong_operand(0, operand, _NAMES[FLOATS])
    if not random.element_type.is_unsigned or not dims_match(operand, random):
        raise wrong_operand(1, random, f"unsigned integers over the dims of {bare(operand)}")
    if random.element_type.bits != operand.element_type.bits:
        raise wrong_operand(1, random, f"{operand.element_type.bits}-bit integers")
    if not inst.shape.is_array or not dims_match(operand, inst.shape):
        raise invalid(f"result is {bare(inst.shape)}, expected the dims of operand 0, {bare(operand)}")


def verify_bitcast_convert(inst: Instruction) -> None:
    """bitcast-convert: equal widths keep the dims; else the minor dimension holds the ratio.

    f32[4] -> u8[4,4] and back. pred, complex and numbers do not mix (StableHLO bitcast_convert, constraints C1, C2).
    """
    operand = need_array([o.shape for o in inst.operands])
    result = inst.shape
    if not result.is_array:
        raise invalid(f"result is {bare(result)}, expected an array")
    if operand.element_type.is_complex != result.element_type.is_complex:
        raise invalid(f"{operand.element_type} has no bits in common with {result.element_type}")
    wide, narrow = (operand, result) if operand.element_type.bits >= result.element_type.bits else (result, operand)
    ratio = wide.element_type.bits // narrow.element_type.bits
    if ratio == 1:
        if not dims_match(operand, result):
            raise invalid(f"result is {bare(result)}, expected the dims of operand 0, {bare(operand)}")
    elif narrow.dims[:-1] != wide.dims or narrow.dims[-1:] != (ratio,):
        raise invalid(f"{bare(operand)} does not bitcast to {bare(result)}: the minor dimension must hold {ratio}")
