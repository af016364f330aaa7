"""Element-wise opcodes: unary, binary, ternary, compare, select, clamp, conversions.

Spec: XLA operation semantics, "Element-wise unary/binary functions", "Clamp", "Select", "ConvertElementType".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xyla.hlo.attr_types import ComparisonDirection, ComparisonType
from xyla.hlo.op_def import AttrKind, Attrs, NoAttrs, OpDef, Trait, attr, define
from xyla.hlo.shape import Shape

_E = Trait.ELEMENTWISE
_C = Trait.COMMUTATIVE
_A = Trait.ASSOCIATIVE


@dataclass(frozen=True, slots=True)
class UnaryMathAttrs(Attrs):
    """result_accuracy, kept verbatim (a hint: xyla's functions do not depend on it)."""

    result_accuracy: str = attr(AttrKind.RAW, "")


@dataclass(frozen=True, slots=True)
class CompareAttrs(Attrs):
    """direction; type None means by element type (FLOAT, SIGNED or UNSIGNED)."""

    direction: ComparisonDirection = attr(AttrKind.ENUM)
    type: ComparisonType | None = attr(AttrKind.ENUM, None)


@dataclass(frozen=True, slots=True)
class ReducePrecisionAttrs(Attrs):
    """Bits kept of exponent and mantissa."""

    exponent_bits: int = attr(AttrKind.INT)
    mantissa_bits: int = attr(AttrKind.INT)


def _unary(name: str, attrs: type[Attrs] = NoAttrs) -> OpDef[Attrs]:
    return define(OpDef(name, 1, attrs, None, f"operation_semantics#element-wise_unary_functions {name}", _E))


def _binary(name: str, traits: Trait = Trait.NONE) -> OpDef[NoAttrs]:
    return define(
        OpDef(
            name,
            2,
            NoAttrs,
            None,
            f"operation_semantics#element-wise_binary_arithmetic_operations {name}",
            _E | traits,
        )
    )


ABS = _unary("abs")
CEIL = _unary("ceil")
CBRT = _unary("cbrt", attrs=UnaryMathAttrs)
CLZ = _unary("count-leading-zeros")
COSINE = _unary("cosine", attrs=UnaryMathAttrs)
COSH = _unary("cosh", attrs=UnaryMathAttrs)
ACOS = _unary("acos", attrs=UnaryMathAttrs)
ACOSH = _unary("acosh", attrs=UnaryMathAttrs)
ASIN = _unary("asin", attrs=UnaryMathAttrs)
ASINH = _unary("asinh", attrs=UnaryMathAttrs)
ATANH = _unary("atanh", attrs=UnaryMathAttrs)
SINH = _unary("sinh", attrs=UnaryMathAttrs)
ERF = _unary("erf", attrs=UnaryMathAttrs)
EXP = _unary("exponential", attrs=UnaryMathAttrs)
EXPM1 = _unary("exponential-minus-one", attrs=UnaryMathAttrs)
FLOOR = _unary("floor")
IMAG = _unary("imag")
IS_FINITE = _unary("is-finite")
LOG = _unary("log", attrs=UnaryMathAttrs)
LOG1P = _unary("log-plus-one", attrs=UnaryMathAttrs)
LOGISTIC = _unary("logistic", attrs=UnaryMathAttrs)
NEGATE = _unary("negate")
NOT = _unary("not")
POPCNT = _unary("popcnt")
REAL = _unary("real")
ROUND_AFZ = _unary("round-nearest-afz")
ROUND_EVEN = _unary("round-nearest-even")
RSQRT = _unary("rsqrt", attrs=UnaryMathAttrs)
SIGN = _unary("sign")
SINE = _unary("sine", attrs=UnaryMathAttrs)
SQRT = _unary("sqrt", attrs=UnaryMathAttrs)
TAN = _unary("tan", attrs=UnaryMathAttrs)
TANH = _unary("tanh", attrs=UnaryMathAttrs)

# These state their own result type, which inference cannot know.
CONVERT = define(OpDef("convert", 1, NoAttrs, None, "operation_semantics#convertelementtype", _E))
BITCAST_CONVERT = define(OpDef("bitcast-convert", 1, NoAttrs, None, "operation_semantics#bitcastconverttype"))
REDUCE_PRECISION = define(
    OpDef("reduce-precision", 1, ReducePrecisionAttrs, None, "operation_semantics#reduceprecision", _E)
)

ADD = _binary("add", _C | _A)
ATAN2 = _binary("atan2")
DIVIDE = _binary("divide")
MAXIMUM = _binary("maximum", _C | _A)
MINIMUM = _binary("minimum", _C | _A)
MULTIPLY = _binary("multiply", _C | _A)
POWER = _binary("power")
REMAINDER = _binary("remainder")
SUBTRACT = _binary("subtract")
AND = _binary("and", _C | _A)
OR = _binary("or", _C | _A)
XOR = _binary("xor", _C | _A)
SHIFT_LEFT = _binary("shift-left")
SHIFT_RIGHT_ARITHMETIC = _binary("shift-right-arithmetic")
SHIFT_RIGHT_LOGICAL = _binary("shift-right-logical")
COMPLEX = _binary("complex")
STOCHASTIC_CONVERT = define(OpDef("stochastic-convert", 2, NoAttrs, None, "operation_semantics#stochasticconvert", _E))

COMPARE = define(OpDef("compare", 2, CompareAttrs, None, "operation_semantics#element-wise_comparison_operations", _E))
SELECT = define(OpDef("select", 3, NoAttrs, None, "operation_semantics#select", _E))
CLAMP = define(OpDef("clamp", 3, NoAttrs, None, "operation_semantics#clamp", _E))


def unary_shape(shapes: Sequence[Shape]) -> Shape:
    """The operand's shape."""
    return shapes[0]
