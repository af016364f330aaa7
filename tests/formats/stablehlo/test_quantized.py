"""Quantized types and operations: values worked out by hand from the specification's formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xyla import interp
from xyla.formats.mlir.types import DialectType
from xyla.formats.stablehlo import load, quantized
from xyla.hlo.module import Module
from xyla.support import dtypes
from xyla.support.status import Status, XylaError

Q = "!quant.uniform<i8:f32, 0.5:-10>"


def run(params: str, result: str, body: str, *args: Any) -> np.ndarray:
    """The one result of a main function with this parameter list, result type and body (ending in %r)."""
    text = f"func.func @main({params}) -> {result} {{\n{body}\n  return %r : {result}\n}}"
    module = load(text)
    assert isinstance(module, Module)
    (out,) = interp.run(module, args)
    return out


def test_parameters_of_a_type() -> None:
    kind = quantized.parse(DialectType("!quant.uniform<i8<-127:127>:f32:1, {2.000000e-01:-3, 0.25}>"))
    assert (kind.storage, kind.expressed) == (dtypes.S8, dtypes.F32)
    assert (kind.low, kind.high, kind.axis) == (-127, 127, 1)
    assert (kind.scales, kind.zero_points) == ((0.2, 0.25), (-3, 0))
    unsigned = quantized.parse(DialectType("!quant.uniform<u4:bf16, 1.0:7>"))
    assert (unsigned.storage, unsigned.low, unsigned.high, unsigned.axis) == (dtypes.U4, 0, 15, None)
    odd = quantized.parse(DialectType("!quant.uniform<i3:f32, 1.0>"))
    assert (odd.storage, odd.low, odd.high) == (dtypes.S4, -4, 3)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("i8:f32", Status.INVALID_ARGUMENT, "is not a quantized type"),
        ("i8:f32, -1.0", Status.INVALID_ARGUMENT, "not positive"),
        ("i8:f32, 0.0", Status.INVALID_ARGUMENT, "not positive"),
        ("i8:f32, 1.0:200", Status.INVALID_ARGUMENT, "zero point"),
        ("i8<-200:100>:f32, 1.0", Status.INVALID_ARGUMENT, "storage limits"),
        ("i8:i32, 1.0", Status.INVALID_ARGUMENT, "floating-point"),
        ("i8:f32, {1.0}", Status.INVALID_ARGUMENT, "quantization dimension"),
        ("i8:f32:0, 1.0", Status.INVALID_ARGUMENT, "quantization dimension"),
        ("i64:f32, 1.0", Status.UNIMPLEMENTED, "storage i64"),
        ("i8:f32:{0:1}, {{1.0}}", Status.UNIMPLEMENTED, "blockwise"),
    ],
)
def test_a_bad_type_is_one_located_error(body: str, status: Status, message: str) -> None:
    text = f"func.func @main(%a: tensor<2x!quant.uniform<{body}>>) {{\n  return\n}}"
    with pytest.raises(XylaError, match=message) as caught:
        load(text)
    assert caught.value.status is status
    assert caught.value.span is not None


def test_quantize_rounds_ties_to_even_and_saturates() -> None:
    # /0.5: 0.5 1.5 2.5 -0.5 2000 -2000 nan -> 0 2 2 0 2000 -2000 nan; -10, within -128..127; NaN gives 0.
    x = np.array([0.25, 0.75, 1.25, -0.25, 1000, -1000, np.nan, np.inf], np.float32)
    body = f"  %r = stablehlo.uniform_quantize %a : (tensor<8xf32>) -> tensor<8x{Q}>"
    out = run("%a: tensor<8xf32>", f"tensor<8x{Q}>", body, x)
    assert out.dtype == np.int8
    assert out.tolist() == [-10, -8, -8, -10, 127, -128, 0, 127]


def test_storage_limits_narrow_the_range() -> None:
    q = "!quant.uniform<i8<-5:5>:f32, 1.0>"
    body = f"  %r = stablehlo.uniform_quantize %a : (tensor<3xf32>) -> tensor<3x{q}>"
    out = run("%a: tensor<3xf32>", f"tensor<3x{q}>", body, np.array([-9, 2, 9], np.float32))
    assert out.tolist() == [-5, 2, 5]


def test_dequantize_has_no_wrap_around() -> None:
    body = f"  %r = stablehlo.uniform_dequantize %a : (tensor<3x{Q}>) -> tensor<3xf32>"
    out = run(f"%a: tensor<3x{Q}>", "tensor<3xf32>", body, np.array([-128, 0, 127], np.int8))
    assert out.tolist() == [-59.0, 5.0, 68.5]


def test_per_axis_scales_follow_their_dimension() -> None:
    q = "!quant.uniform<u8:f32:1, {0.5:1, 2.0:3}>"
    body = f"  %r = stablehlo.uniform_dequantize %a : (tensor<2x2x{q}>) -> tensor<2x2xf32>"
    out = run(f"%a: tensor<2x2x{q}>", "tensor<2x2xf32>", body, np.array([[1, 3], [5, 255]], np.uint8))
    assert out.tolist() == [[0.0, 0.0], [2.0, 504.0]]


def test_requantize() -> None:
    to = "!quant.uniform<i8:f32, 0.25:1>"
    body = f"  %r = stablehlo.uniform_quantize %a : (tensor<2x{Q}>) -> tensor<2x{to}>"
    out = run(f"%a: tensor<2x{Q}>", f"tensor<2x{to}>", body, np.array([-8, 100], np.int8))
    # -8 is 1.0, which is 4 + 1; 100 is 55.0, past the limit.
    assert out.tolist() == [5, 127]


def test_arithmetic_is_done_on_values() -> None:
    r = "!quant.uniform<i8:f32, 1.0:2>"
    body = f"  %r = stablehlo.multiply %a, %b : (tensor<2x{Q}>, tensor<2x{Q}>) -> tensor<2x{r}>"
    args = np.array([-6, -11], np.int8), np.array([-4, -4], np.int8)
    # 2.0 * 3.0 = 6 -> 8; -0.5 * 3.0 = -1.5 -> -2 -> 0.
    assert run(f"%a: tensor<2x{Q}>, %b: tensor<2x{Q}>", f"tensor<2x{r}>", body, *args).tolist() == [8, 0]


def test_comparison_of_unlike_quantizations() -> None:
    other = "!quant.uniform<i8:f32, 0.25:0>"
    body = f"  %r = stablehlo.compare LT, %a, %b : (tensor<2x{Q}>, tensor<2x{other}>) -> tensor<2xi1>"
    params = f"%a: tensor<2x{Q}>, %b: tensor<2x{other}>"
    out = run(params, "tensor<2xi1>", body, np.array([-8, -8], np.int8), np.array([4, 5], np.int8))
    assert out.tolist() == [False, True]


def test_hybrid_dot_has_a_float_result() -> None:
    w = "!quant.uniform<i8:f32:1, {1.0, 2.0}>"
    body = (
        f"  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
        f"(tensor<1x2xf32>, tensor<2x2x{w}>) -> tensor<1x2xf32>"
    )
    params = f"%a: tensor<1x2xf32>, %b: tensor<2x2x{w}>"
    out = run(params, "tensor<1x2xf32>", body, np.array([[1.5, 2]], np.float32), np.array([[2, 3], [4, 5]], np.int8))
    assert out.tolist() == [[11.0, 29.0]]


def test_movement_keeps_storage_integers() -> None:
    body = f"  %r = stablehlo.transpose %a, dims = [1, 0] : (tensor<1x3x{Q}>) -> tensor<3x1x{Q}>"
    out = run(f"%a: tensor<1x3x{Q}>", f"tensor<3x1x{Q}>", body, np.array([[-128, 5, 127]], np.int8))
    assert out.tolist() == [[-128], [5], [127]]
    module = load(
        f"func.func @main(%a: tensor<2x{Q}>) -> tensor<2x{Q}> {{\n"
        f"  %r = stablehlo.maximum %a, %a : tensor<2x{Q}>\n  return %r : tensor<2x{Q}>\n}}"
    )
    assert isinstance(module, Module)
    assert {i.op.name for i in module.instructions()} == {"parameter", "maximum"}


def test_movement_between_unlike_quantizations_is_an_error() -> None:
    other = "!quant.uniform<i8:f32, 0.25:0>"
    text = (
        f"func.func @main(%a: tensor<2x{Q}>) -> tensor<2x{other}> {{\n"
        f'  %r = "stablehlo.reverse"(%a) <{{dimensions = array<i64: 0>}}> : (tensor<2x{Q}>) -> tensor<2x{other}>\n'
        f"  return %r : tensor<2x{other}>\n}}"
    )
    with pytest.raises(XylaError, match="quantized differently") as caught:
        load(text)
    assert caught.value.span is not None


def test_reducer_works_on_values() -> None:
    body = (
        f'  %z = "stablehlo.constant"() <{{value = dense<-10> : tensor<i8>}}> : () -> tensor<{Q}>\n'
        f'  %r = "stablehlo.reduce"(%a, %z) <{{dimensions = array<i64: 0>}}> ({{\n'
        f"  ^bb0(%x: tensor<{Q}>, %y: tensor<{Q}>):\n"
        f"    %s = stablehlo.add %x, %y : tensor<{Q}>\n    stablehlo.return %s : tensor<{Q}>\n"
        f"  }}) : (tensor<3x{Q}>, tensor<{Q}>) -> tensor<{Q}>"
    )
    # 1.0 + 2.0 - 4.5 = -1.5 -> -3 - 10.
    assert run(f"%a: tensor<3x{Q}>", f"tensor<{Q}>", body, np.array([-8, -6, -19], np.int8)).tolist() == -13
