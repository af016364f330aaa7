"""Element-wise opcodes: unary, binary, ternary, compare, select, clamp, conversions.

Spec: XLA operation semantics, "Element-wise unary/binary functions", "Clamp", "Select", "ConvertElementType".
"""

from __future__ import annotations

from dataclasses import dataclass

from xyla.hlo.attr_types import ComparisonDirection, ComparisonType
from xyla.hlo.op_def import AttrKind, Attrs, InferFn, NoAttrs, OpDef, Trait, attr, define
from xyla.hlo.rules import common
from xyla.hlo.rules import elementwise as rules

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


def _unary(name: str, infer: InferFn, attrs: type[Attrs] = NoAttrs) -> OpDef[Attrs]:
    return define(OpDef(name, 1, attrs, infer, f"operation_semantics#element-wise_unary_functions {name}", _E))


def _binary(name: str, infer: InferFn, traits: Trait = Trait.NONE) -> OpDef[NoAttrs]:
    spec = f"operation_semantics#element-wise_binary_arithmetic_operations {name}"
    return define(OpDef(name, 2, NoAttrs, infer, spec, _E | traits))


_ANY = rules.binary(rules.ANY)
_NUMBERS = rules.binary(rules.NUMBERS)
_BITS = rules.binary(rules.BITS)
_SHIFTS = rules.binary(common.INTEGERS)
_MATH = rules.unary(rules.REAL_OR_COMPLEX)
_ROUND = rules.unary(common.FLOATS)
_COUNT = rules.unary(common.INTEGERS)


ABS = _unary("abs", rules.abs_shape)
CEIL = _unary("ceil", _ROUND)
CBRT = _unary("cbrt", _MATH, attrs=UnaryMathAttrs)
CLZ = _unary("count-leading-zeros", _COUNT)
COSINE = _unary("cosine", _MATH, attrs=UnaryMathAttrs)
COSH = _unary("cosh", _MATH, attrs=UnaryMathAttrs)
ACOS = _unary("acos", _MATH, attrs=UnaryMathAttrs)
ACOSH = _unary("acosh", _MATH, attrs=UnaryMathAttrs)
ASIN = _unary("asin", _MATH, attrs=UnaryMathAttrs)
ASINH = _unary("asinh", _MATH, attrs=UnaryMathAttrs)
ATANH = _unary("atanh", _MATH, attrs=UnaryMathAttrs)
SINH = _unary("sinh", _MATH, attrs=UnaryMathAttrs)
ERF = _unary("erf", _MATH, attrs=UnaryMathAttrs)
EXP = _unary("exponential", _MATH, attrs=UnaryMathAttrs)
EXPM1 = _unary("exponential-minus-one", _MATH, attrs=UnaryMathAttrs)
FLOOR = _unary("floor", _ROUND)
IMAG = _unary("imag", rules.real_imag_shape)
IS_FINITE = _unary("is-finite", rules.is_finite_shape)
LOG = _unary("log", _MATH, attrs=UnaryMathAttrs)
LOG1P = _unary("log-plus-one", _MATH, attrs=UnaryMathAttrs)
LOGISTIC = _unary("logistic", _MATH, attrs=UnaryMathAttrs)
NEGATE = _unary("negate", rules.unary(rules.NUMBERS))
NOT = _unary("not", rules.unary(rules.BITS))
POPCNT = _unary("popcnt", _COUNT)
REAL = _unary("real", rules.real_imag_shape)
ROUND_AFZ = _unary("round-nearest-afz", _ROUND)
ROUND_EVEN = _unary("round-nearest-even", _ROUND)
RSQRT = _unary("rsqrt", _MATH, attrs=UnaryMathAttrs)
SIGN = _unary("sign", rules.unary(rules.NUMBERS))
SINE = _unary("sine", _MATH, attrs=UnaryMathAttrs)
SQRT = _unary("sqrt", _MATH, attrs=UnaryMathAttrs)
TAN = _unary("tan", _MATH, attrs=UnaryMathAttrs)
TANH = _unary("tanh", _MATH, attrs=UnaryMathAttrs)

# These state their own result type, which inference cannot know.
CONVERT = define(
    OpDef("convert", 1, NoAttrs, None, "operation_semantics#convertelementtype", _E, verify=rules.verify_convert)
)
BITCAST_CONVERT = define(
    OpDef(
        "bitcast-convert",
        1,
        NoAttrs,
        None,
        "operation_semantics#bitcastconverttype",
        verify=rules.verify_bitcast_convert,
    )
)
REDUCE_PRECISION = define(
    OpDef(
        "reduce-precision",
        1,
        ReducePrecisionAttrs,
        rules.reduce_precision_shape,
        "operation_semantics#reduceprecision",
        _E,
    )
)

ADD = _binary("add", _ANY, _C | _A)
ATAN2 = _binary("atan2", _NUMBERS)
DIVIDE = _binary("divide", _NUMBERS)
MAXIMUM = _binary("maximum", _ANY, _C | _A)
MINIMUM = _binary("minimum", _ANY, _C | _A)
MULTIPLY = _binary("multiply", _ANY, _C | _A)
POWER = _binary("power", _NUMBERS)
REMAINDER = _binary("remainder", _NUMBERS)
SUBTRACT = _binary("subtract", _NUMBERS)
AND = _binary("and", _BITS, _C | _A)
OR = _binary("or", _BITS, _C | _A)
XOR = _binary("xor", _BITS, _C | _A)
SHIFT_LEFT = _binary("shift-left", _SHIFTS)
SHIFT_RIGHT_ARITHMETIC = _binary("shift-right-arithmetic", _SHIFTS)
SHIFT_RIGHT_LOGICAL = _binary("shift-right-logical", _SHIFTS)
COMPLEX = _binary("complex", rules.complex_shape)
STOCHASTIC_CONVERT = define(
    OpDef(
        "stochastic-convert",
        2,
        NoAttrs,
        None,
        "operation_semantics#stochasticconvert",
        _E,
        verify=rules.verify_stochastic_convert,
    )
)

COMPARE = define(
    OpDef(
        "compare",
        2,
        CompareAttrs,
        rules.compare_shape,
        "operation_semantics#element-wise_comparison_operations",
        _E,
    )
)
SELECT = define(OpDef("select", 3, NoAttrs, rules.select_shape, "operation_semantics#select", _E))
CLAMP = define(OpDef("clamp", 3, NoAttrs, rules.clamp_shape, "operation_semantics#clamp", _E))
