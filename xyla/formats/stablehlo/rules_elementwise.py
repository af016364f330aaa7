"""Element-wise StableHLO operations. Source: the StableHLO specification, one section an op."""

from __future__ import annotations

from typing import Any

from xyla.formats.mlir.ir import Operation
from xyla.formats.stablehlo import decode_attrs as read
from xyla.formats.stablehlo.body import Body, Result, Rule, arity
from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection, ComparisonType
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import NO_ATTRS, Attrs, OpDef
from xyla.hlo.shape import Shape
from xyla.support.status import invalid

UNARY: dict[str, OpDef[Any]] = {
    "abs": ops.ABS,
    "ceil": ops.CEIL,
    "count_leading_zeros": ops.CLZ,
    "floor": ops.FLOOR,
    "is_finite": ops.IS_FINITE,
    "negate": ops.NEGATE,
    "not": ops.NOT,
    "popcnt": ops.POPCNT,
    "round_nearest_afz": ops.ROUND_AFZ,
    "round_nearest_even": ops.ROUND_EVEN,
    "sign": ops.SIGN,
}
MATH: dict[str, OpDef[Any]] = {
    "cbrt": ops.CBRT,
    "cosine": ops.COSINE,
    "exponential": ops.EXP,
    "exponential_minus_one": ops.EXPM1,
    "log": ops.LOG,
    "log_plus_one": ops.LOG1P,
    "logistic": ops.LOGISTIC,
    "rsqrt": ops.RSQRT,
    "sine": ops.SINE,
    "sqrt": ops.SQRT,
    "tan": ops.TAN,
    "tanh": ops.TANH,
}
BINARY: dict[str, OpDef[Any]] = {
    "add": ops.ADD,
    "and": ops.AND,
    "atan2": ops.ATAN2,
    "complex": ops.COMPLEX,
    "divide": ops.DIVIDE,
    "maximum": ops.MAXIMUM,
    "minimum": ops.MINIMUM,
    "multiply": ops.MULTIPLY,
    "or": ops.OR,
    "power": ops.POWER,
    "remainder": ops.REMAINDER,
    "shift_left": ops.SHIFT_LEFT,
    "shift_right_arithmetic": ops.SHIFT_RIGHT_ARITHMETIC,
    "shift_right_logical": ops.SHIFT_RIGHT_LOGICAL,
    "subtract": ops.SUBTRACT,
    "xor": ops.XOR,
}
DIRECTIONS = {d.name: d for d in ComparisonDirection}
COMPARE_TYPES = {t.name: t for t in ComparisonType}


def _unary(target: OpDef[Any]) -> Rule:
    def rule(body: Body, op: Operation) -> Result:
        arity(op, 1)
        return body.add(target, body.operands(op), shape=body.result(op))

    return rule


def _math(target: OpDef[Any]) -> Rule:
    def rule(body: Body, op: Operation) -> Result:
        arity(op, 1)
        return body.add(target, body.operands(op), ops.UnaryMathAttrs(read.accuracy(op)), shape=body.result(op))

    return rule


def _binary(target: OpDef[Any]) -> Rule:
    def rule(body: Body, op: Operation) -> Result:
        arity(op, 2)
        return body.add(target, body.operands(op), shape=body.result(op))

    return rule


def _real(body: Body, op: Operation) -> Result:
    """real(x) = x for a real x."""
    arity(op, 1)
    operand = body.get(op.operands[0])
    if not operand.shape.element_type.is_complex:
        return operand
    return body.add(ops.REAL, [operand], shape=body.result(op))


def _imag(body: Body, op: Operation) -> Result:
    """imag(x) = 0 for a real x."""
    arity(op, 1)
    operand = body.get(op.operands[0])
    if not operand.shape.element_type.is_complex:
        return body.splat(0, body.result(op))
    return body.add(ops.IMAG, [operand], shape=body.result(op))


def _convert(body: Body, op: Operation) -> Result:
    """A complex operand of a conversion to a real type gives its real part."""
    arity(op, 1)
    operand, shape = body.get(op.operands[0]), body.result(op)
    source, target = operand.shape.element_type, shape.element_type
    if source.is_complex and not target.is_complex:
        operand = body.add(ops.REAL, [operand], shape=operand.shape.with_type(source.component))
        if operand.shape.element_type is target:
            return operand
    return body.add(ops.CONVERT, [operand], shape=shape)


def _compare(body: Body, op: Operation) -> Result:
    arity(op, 2)
    operands = body.operands(op)
    direction = read.enum(op, "comparison_direction", DIRECTIONS)
    kind = COMPARE_TYPES.get(read.word(op.get("compare_type")))
    if kind is default_compare_type(operands[0].shape):
        kind = None
    return body.add(ops.COMPARE, operands, ops.CompareAttrs(direction, kind), shape=body.result(op))


def default_compare_type(shape: Shape) -> ComparisonType:
    """The compare type that HLO text leaves out."""
    et = shape.element_type
    if et.is_float or et.is_complex:
        return ComparisonType.FLOAT
    return ComparisonType.SIGNED if et.is_signed else ComparisonType.UNSIGNED


def _select(body: Body, op: Operation) -> Result:
    """A scalar predicate is broadcast: HLO's select wants equal dims."""
    arity(op, 3)
    pred, on_true, on_false = body.operands(op)
    shape = body.result(op)
    pred = scalar_to(body, pred, shape)
    return body.add(ops.SELECT, [pred, on_true, on_false], shape=shape)


def _clamp(body: Body, op: Operation) -> Result:
    """Scalar limits are broadcast: HLO's clamp wants equal dims."""
    arity(op, 3)
    low, operand, high = body.operands(op)
    shape = body.result(op)
    return body.add(ops.CLAMP, [scalar_to(body, low, shape), operand, scalar_to(body, high, shape)], shape=shape)


def scalar_to(body: Body, inst: Instruction, shape: Shape) -> Instruction:
    """A rank-0 instruction broadcast to the dims of `shape`; others as they are."""
    if inst.shape.rank or not shape.rank or not inst.shape.is_array:
        return inst
    return body.broadcast(inst, (), shape.with_type(inst.shape.element_type))


def _reduce_precision(body: Body, op: Operation) -> Result:
    arity(op, 1)
    attrs = ops.ReducePrecisionAttrs(read.integer(op, "exponent_bits"), read.integer(op, "mantissa_bits"))
    return body.add(ops.REDUCE_PRECISION, body.operands(op), attrs, shape=body.result(op))


def _bitcast_convert(body: Body, op: Operation) -> Result:
    arity(op, 1)
    return body.add(ops.BITCAST_CONVERT, body.operands(op), shape=body.result(op))


def plain(target: OpDef[Any], count: int, attrs: Attrs = NO_ATTRS) -> Rule:
    """A rule for an op with `count` operands whose attributes are fixed."""

    def rule(body: Body, op: Operation) -> Result:
        arity(op, count)
        return body.add(target, body.operands(op), attrs, shape=body.result(op))

    return rule


def check_same(op: Operation, a: Shape, b: Shape) -> None:
    """Raises INVALID_ARGUMENT unless the two shapes are equal up to layout."""
    if not a.compatible(b):
        raise invalid(f"{op.name}: {a} and {b} differ")


RULES: dict[str, Rule] = {
    **{f"stablehlo.{name}": _unary(target) for name, target in UNARY.items()},
    **{f"stablehlo.{name}": _math(target) for name, target in MATH.items()},
    **{f"stablehlo.{name}": _binary(target) for name, target in BINARY.items()},
    "stablehlo.real": _real,
    "stablehlo.imag": _imag,
    "stablehlo.convert": _convert,
    "stablehlo.bitcast_convert": _bitcast_convert,
    "stablehlo.compare": _compare,
    "stablehlo.select": _select,
    "stablehlo.clamp": _clamp,
    "stablehlo.reduce_precision": _reduce_precision,
}
