"""Shapes of element-wise ops, by hand from the operation semantics."""

from __future__ import annotations

import pytest

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection, ComparisonType
from xyla.hlo.ops.elementwise import CompareAttrs, ReducePrecisionAttrs
from xyla.hlo.verifier import check_instruction
from xyla.support.status import Status, XylaError
from xyla.testing.build import infer, single_op

LT = CompareAttrs(ComparisonDirection.LT)

GOOD = [
    (ops.ADD, ["f32[2,3]", "f32[2,3]"], "f32[2,3]"),
    (ops.ADD, ["f32[2,3]{0,1}", "f32[2,3]"], "f32[2,3]{0,1}"),
    (ops.ADD, ["bf16[2]", "f32[2]"], "f32[2]"),
    (ops.ADD, ["bf16[2]", "f16[2]"], "bf16[2]"),  # the wider range wins
    (ops.ADD, ["pred[2]", "pred[2]"], "pred[2]"),
    (ops.ADD, ["f32[<=4]", "f32[<=4]"], "f32[<=4]"),
    (ops.ADD, ["f32[<=4,2]", "f32[3,2]"], "f32[3,2]"),
    (ops.ADD, ["f32[?]", "f32[5]"], "f32[5]"),
    (ops.AND, ["pred[2]", "pred[2]"], "pred[2]"),
    (ops.SHIFT_LEFT, ["u4[7]", "u4[7]"], "u4[7]"),
    (ops.COMPLEX, ["f32[2]", "f32[2]"], "c64[2]"),
    (ops.COMPLEX, ["f64[2]", "f64[2]"], "c128[2]"),
    (ops.ABS, ["c64[2]"], "f32[2]"),
    (ops.ABS, ["s8[2]"], "s8[2]"),
    (ops.REAL, ["c128[2]"], "f64[2]"),
    (ops.IMAG, ["f32[2]"], "f32[2]"),
    (ops.IS_FINITE, ["bf16[2]"], "pred[2]"),
    (ops.TANH, ["c64[2]"], "c64[2]"),
    (ops.NOT, ["pred[]"], "pred[]"),
    (ops.SELECT, ["pred[2]", "f32[2]", "f32[2]"], "f32[2]"),
    (ops.SELECT, ["pred[]", "f32[2]", "f32[2]"], "f32[2]"),
    (ops.CLAMP, ["f32[]", "f32[2]", "f32[2]"], "f32[2]"),
]

BAD = [
    (ops.ADD, ["f32[2]", "f32[3]"], "operand 1 is f32[3], expected f32[2]"),
    (ops.ADD, ["f32[2]", "s32[2]"], "operand 1 is s32[2], expected f32[2]"),
    (ops.ADD, ["f32[2]", "f32[]"], "operand 1 is f32[], expected f32[2]"),
    (ops.ADD, ["token[]", "token[]"], "operand 0 is token[], expected an array"),
    (ops.ADD, ["(f32[], f32[])", "(f32[])"], "operand 0 is (f32[], f32[]), expected an array"),
    (ops.ABS, ["pred[2]"], "operand 0 is pred[2], expected an array of numbers"),
    (ops.REAL, ["s32[2]"], "operand 0 is s32[2], expected a floating-point or complex array"),
    (ops.SELECT, ["pred[]", "token[]", "token[]"], "operand 1 is token[], expected an array"),
    (ops.CLAMP, ["f32[]", "token[]", "f32[]"], "operand 1 is token[], expected an array"),
    (ops.SUBTRACT, ["pred[2]", "pred[2]"], "operand 0 is pred[2], expected an array of numbers"),
    (ops.AND, ["f32[2]", "f32[2]"], "operand 0 is f32[2], expected an integer or pred array"),
    (ops.SHIFT_LEFT, ["pred[2]", "pred[2]"], "operand 0 is pred[2], expected an integer array"),
    (ops.COMPLEX, ["s32[2]", "s32[2]"], "operand 0 is s32[2], expected an f32 or f64 array"),
    (ops.COMPLEX, ["f32[2]", "f64[2]"], "operand 1 is f64[2], expected f32[2]"),
    (ops.TANH, ["s32[2]"], "operand 0 is s32[2], expected a floating-point or complex array"),
    (ops.FLOOR, ["c64[2]"], "operand 0 is c64[2], expected a floating-point array"),
    (ops.CLZ, ["f32[2]"], "operand 0 is f32[2], expected an integer array"),
    (ops.IS_FINITE, ["s32[2]"], "operand 0 is s32[2], expected a floating-point array"),
    (ops.SELECT, ["s32[2]", "f32[2]", "f32[2]"], "operand 0 is s32[2], expected pred[2]"),
    (ops.SELECT, ["pred[3]", "f32[2]", "f32[2]"], "operand 0 is pred[3], expected pred[2]"),
    (ops.SELECT, ["pred[2]", "f32[2]", "s32[2]"], "operand 2 is s32[2], expected f32[2]"),
    (ops.CLAMP, ["s32[]", "f32[2]", "f32[2]"], "operand 0 is s32[], expected f32[] or f32[2]"),
    (ops.CLAMP, ["f32[2]", "f32[2]", "f32[3]"], "operand 2 is f32[3], expected f32[2]"),
]


@pytest.mark.parametrize(("op", "operands", "want"), GOOD)
def test_shape(op, operands, want):
    assert infer(op, operands) == want


@pytest.mark.parametrize(("op", "operands", "want"), BAD)
def test_error(op, operands, want):
    with pytest.raises(XylaError) as caught:
        infer(op, operands)
    assert (caught.value.status, caught.value.message) == (Status.INVALID_ARGUMENT, want)


def test_compare():
    assert infer(ops.COMPARE, ["f32[2]{0}", "f32[2]{0}"], LT) == "pred[2]{0}"
    with pytest.raises(XylaError, match="expected an array"):
        infer(ops.COMPARE, ["token[]", "token[]"], LT)
    with pytest.raises(XylaError, match="does not order complex numbers"):
        infer(ops.COMPARE, ["c64[2]", "c64[2]"], LT)


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        (ComparisonType.FLOAT, "s32"),
        (ComparisonType.SIGNED, "u32"),
        (ComparisonType.UNSIGNED, "s32"),
        (ComparisonType.TOTALORDER, "pred"),
    ],
)
def test_compare_type_must_fit(kind, types):
    with pytest.raises(XylaError, match=f"compare type {kind.value} does not fit element type {types}"):
        infer(ops.COMPARE, [f"{types}[2]"] * 2, CompareAttrs(ComparisonDirection.LT, kind))


def test_reduce_precision():
    assert infer(ops.REDUCE_PRECISION, ["f32[2]"], ReducePrecisionAttrs(5, 10)) == "f32[2]"
    with pytest.raises(XylaError, match="exponent_bits is 0"):
        infer(ops.REDUCE_PRECISION, ["f32[2]"], ReducePrecisionAttrs(0, 10))
    with pytest.raises(XylaError, match="expected a floating-point array"):
        infer(ops.REDUCE_PRECISION, ["s32[2]"], ReducePrecisionAttrs(5, 10))
    with pytest.raises(XylaError, match="mantissa_bits is -1"):
        infer(ops.REDUCE_PRECISION, ["f32[2]"], ReducePrecisionAttrs(5, -1))


STATED_GOOD = [
    (ops.CONVERT, ["f32[2]"], "s8[2]"),
    (ops.CONVERT, ["pred[2]"], "c64[2]"),
    (ops.BITCAST_CONVERT, ["f32[4]"], "u32[4]"),
    (ops.BITCAST_CONVERT, ["f32[4]"], "u8[4,4]"),
    (ops.BITCAST_CONVERT, ["s4[3,2]"], "u8[3]"),
    (ops.STOCHASTIC_CONVERT, ["f32[2]", "u32[2]"], "bf16[2]"),
]
STATED_BAD = [
    (ops.CONVERT, ["f32[2]"], "s8[3]", "result is s8[3], expected the dims of operand 0, f32[2]"),
    (ops.CONVERT, ["c64[2]"], "f32[2]", "c64 does not convert to f32"),
    (ops.BITCAST_CONVERT, ["f32[4]"], "u8[4]", "the minor dimension must hold 4"),
    (ops.BITCAST_CONVERT, ["f32[4]"], "u32[5]", "expected the dims"),
    (ops.BITCAST_CONVERT, ["c64[4]"], "u64[4]", "no bits in common"),
    (ops.STOCHASTIC_CONVERT, ["f32[2]", "u16[2]"], "bf16[2]", "operand 1 is u16[2], expected 32-bit integers"),
    (ops.STOCHASTIC_CONVERT, ["f32[2]", "s32[2]"], "bf16[2]", "operand 1 is s32[2]"),
    (ops.STOCHASTIC_CONVERT, ["s32[2]", "u32[2]"], "bf16[2]", "operand 0 is s32[2], expected a floating-point"),
    (ops.STOCHASTIC_CONVERT, ["f32[2]", "u32[2]"], "bf16[3]", "result is bf16[3], expected the dims"),
    (ops.BITCAST_CONVERT, ["f32[4]"], "token[]", "result is token[], expected an array"),
]


@pytest.mark.parametrize(("op", "operands", "result"), STATED_GOOD)
def test_stated_shape(op, operands, result):
    check_instruction(single_op(op, operands, result))


@pytest.mark.parametrize(("op", "operands", "result", "want"), STATED_BAD)
def test_wrong_stated_shape(op, operands, result, want):
    with pytest.raises(XylaError) as caught:
        check_instruction(single_op(op, operands, result))
    assert want in caught.value.message
