"""Element-wise ops; expected values by hand, from IEEE 754 or from the operation semantics."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tests.interp.hlo import apply, bits, one
from xyla.support.status import Status, XylaError

INF, NAN = math.inf, math.nan


def same(got: np.ndarray, want: list[object]) -> None:
    expected = np.array(want).astype(got.dtype)
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("op", "dtype", "x", "want"),
    [
        ("abs", "f32", [-2.5, 0.0, -INF], [2.5, 0, INF]),
        ("abs", "s8", [-128, -1, 5], [-128, 1, 5]),
        ("abs", "c64", [3 + 4j, -5], [5, 5]),
        ("ceil", "f32", [1.2, -1.2], [2, -1]),
        ("floor", "f64", [1.2, -1.2], [1, -2]),
        ("negate", "s32", [1, -(2**31)], [-1, -(2**31)]),
        ("negate", "u8", [1, 0], [255, 0]),
        ("not", "pred", [True, False], [False, True]),
        ("not", "s4", [0, 7], [-1, -8]),
        ("not", "u4", [0, 15], [15, 0]),
        ("popcnt", "u8", [255, 0, 5], [8, 0, 2]),
        ("popcnt", "s32", [-1, 1], [32, 1]),
        ("count-leading-zeros", "u16", [0, 1, 0x8000], [16, 15, 0]),
        ("count-leading-zeros", "s32", [1, -1], [31, 0]),
        ("round-nearest-afz", "f32", [0.5, -0.5, 2.5, 0.49999997], [1, -1, 3, 0]),
        ("round-nearest-even", "f32", [0.5, 1.5, 2.5, -2.5], [0, 2, 2, -2]),
        ("sign", "f32", [-3.0, 0.0, 7.0, NAN], [-1, 0, 1, NAN]),
        ("sign", "s32", [-3, 0, 7], [-1, 0, 1]),
        ("sqrt", "f32", [4.0, 2.0, -1.0], [2, 1.4142135, NAN]),
        ("rsqrt", "f32", [4.0, 0.0], [0.5, INF]),
        ("cbrt", "f32", [27.0, -8.0], [3, -2]),
        ("exponential", "f32", [0.0, 1.0, -INF, 89.0], [1, 2.7182817, 0, INF]),
        ("exponential-minus-one", "f32", [1e-10, 0.0], [1e-10, 0]),
        ("log", "f32", [1.0, 0.0, -1.0], [0, -INF, NAN]),
        ("log-plus-one", "f32", [1e-10, -1.0], [1e-10, -INF]),
        ("logistic", "f32", [0.0, 100.0, -100.0, -INF], [0.5, 1, 3.783506e-44, 0]),
        ("tanh", "f64", [0.0, INF, 0.5], [0, 1, 0.46211715726000975]),
        ("tan", "f64", [0.0, 0.5], [0, 0.5463024898437905]),
        ("sine", "f64", [0.0, 0.5], [0, 0.479425538604203]),
        ("cosine", "f64", [0.0, 0.5], [1, 0.8775825618903728]),
        ("sinh", "f64", [0.5], [0.5210953054937474]),
        ("cosh", "f64", [0.5], [1.1276259652063807]),
        ("asin", "f64", [0.5, 2.0], [math.asin(0.5), NAN]),
        ("acos", "f64", [0.5], [1.0471975511965979]),
        ("asinh", "f64", [0.5], [0.48121182505960347]),
        ("acosh", "f64", [2.0], [1.3169578969248168]),
        ("atanh", "f64", [0.5], [0.5493061443340549]),
        ("erf", "f64", [0.0, 0.5, INF], [0, 0.5204998778130465, 1]),
    ],
)
def test_unary(op: str, dtype: str, x: list[object], want: list[object]) -> None:
    result = {"abs": "f32"}.get(op, dtype) if dtype == "c64" else dtype
    same(apply(op, dtype, x, result=result), want)


def test_is_finite_real_imag_complex() -> None:
    same(apply("is-finite", "f32", [1.0, INF, NAN], result="pred"), [True, False, False])
    same(apply("real", "c64", [1 + 2j], result="f32"), [1])
    same(apply("imag", "c64", [1 + 2j], result="f32"), [2])
    z = apply("complex", "f32", [1.0, NAN], [2.0, INF], result="c64")
    assert z[0] == 1 + 2j
    assert np.isnan(z[1].real)
    assert z[1].imag == INF


@pytest.mark.parametrize(
    ("op", "dtype", "x", "y", "want"),
    [
        ("add", "s8", [127, 1], [1, 2], [-128, 3]),
        ("add", "pred", [True, False], [True, False], [True, False]),
        ("add", "s4", [7, 3], [1, 2], [-8, 5]),
        ("subtract", "u8", [0], [1], [255]),
        ("multiply", "s32", [2**20, 3], [2**12, 4], [0, 12]),
        ("multiply", "pred", [True, True], [True, False], [True, False]),
        ("multiply", "c64", [1 + 2j], [3 + 4j], [-5 + 10j]),
        ("divide", "s32", [7, -7, 5, -(2**31)], [2, 2, 0, -1], [3, -3, -1, -(2**31)]),
        ("divide", "u8", [7, 7], [2, 0], [3, 255]),
        ("divide", "f32", [1.0, 0.0], [0.0, 0.0], [INF, NAN]),
        ("remainder", "s32", [7, -7, 5, -(2**31)], [3, 3, 0, -1], [1, -1, 5, 0]),
        ("remainder", "f32", [5.5, -5.5, 1.0], [2.0, 2.0, INF], [1.5, -1.5, 1]),
        ("power", "f32", [2.0, -8.0, 0.0, NAN], [10.0, 1 / 3, 0.0, 0.0], [1024, NAN, 1, 1]),
        ("power", "s32", [3, 0, 2, 2, -1], [4, 64, 31, -1, -3], [81, 0, -(2**31), 0, -1]),
        ("maximum", "f32", [1.0, NAN, 2.0], [2.0, 1.0, NAN], [2, NAN, NAN]),
        ("minimum", "s32", [1, -5], [2, -6], [1, -6]),
        ("maximum", "pred", [True, False], [False, False], [True, False]),
        ("and", "s32", [6], [3], [2]),
        ("or", "pred", [True, False], [False, False], [True, False]),
        ("xor", "u8", [6], [3], [5]),
        ("atan2", "f64", [1.0, -0.0, 0.0], [1.0, -1.0, -1.0], [math.pi / 4, -math.pi, math.pi]),
        ("shift-left", "s32", [1, 1, 1], [31, 32, -1], [-(2**31), 0, 0]),
        ("shift-right-arithmetic", "s32", [-8, -8, 8], [1, 40, 40], [-4, -1, 0]),
        ("shift-right-logical", "s32", [-8, -8], [1, 32], [2147483644, 0]),
        ("shift-right-logical", "u4", [15, 15], [2, 4], [3, 0]),
        ("shift-right-logical", "s4", [-1], [2], [3]),
        ("shift-right-arithmetic", "u8", [0x80, 0x80], [1, 9], [0xC0, 0xFF]),
        ("shift-right-arithmetic", "u4", [8, 8, 4], [1, 5, 5], [12, 15, 0]),
        ("shift-right-arithmetic", "s4", [-8, -8, 7], [1, -1, 5], [-4, -1, 0]),
        ("shift-left", "u4", [3, 3], [3, 4], [8, 0]),
        ("shift-left", "u64", [1, 1], [63, 64], [2**63, 0]),
    ],
)
def test_binary(op: str, dtype: str, x: list[object], y: list[object], want: list[object]) -> None:
    same(apply(op, dtype, x, y), want)


def test_signed_zeros_survive() -> None:
    zeros = np.float32([-0.0, 0.0])
    assert bits(apply("negate", "f32", zeros)) == [0, 1 << 31]
    assert bits(apply("sign", "f32", zeros)) == [1 << 31, 0]
    assert bits(apply("round-nearest-afz", "f32", np.float32([-0.3, 0.3]))) == [1 << 31, 0]
    assert bits(apply("sqrt", "f32", zeros)) == [1 << 31, 0]
    assert bits(apply("add", "f32", np.float32([-0.0]), np.float32([-0.0]))) == [1 << 31]


def test_subnormals_are_kept() -> None:
    tiny = np.array([1, 3], np.uint32).view(np.float32)
    assert bits(apply("multiply", "f32", tiny, np.float32([1, 2]))) == [1, 6]


def test_bf16_rounds_each_result_once() -> None:
    bf16 = ml_dtypes.bfloat16
    # 1 + 2^-8 is a tie: to even (1); 1 + 3*2^-8 is a tie: up.
    x = np.array([1, 1], bf16)
    y = np.array([2**-8, 3 * 2**-8], bf16)
    assert apply("add", "bf16", x, y).astype(np.float32).tolist() == [1, 1 + 2**-6]


COMPARE = ("EQ", "NE", "LT", "LE", "GT", "GE")


def test_compare() -> None:
    x, y = np.float32([1, NAN, -0.0]), np.float32([2, NAN, 0.0])
    got = {d: apply("compare", "f32", x, y, result="pred", attrs=f", direction={d}").tolist() for d in COMPARE}
    assert got["EQ"] == [False, False, True]
    assert got["NE"] == [True, True, False]
    assert got["LT"] == [True, False, False]
    assert got["GE"] == [False, False, True]


def test_compare_total_order() -> None:
    x = np.float32([-NAN, -INF, -0.0, 0.0, INF])
    x[0] = np.array([0xFFC00000], np.uint32).view(np.float32)[0]
    y = np.float32([-INF, -1, 0.0, 1, NAN])
    assert apply("compare", "f32", x, y, result="pred", attrs=", direction=LT, type=TOTALORDER").all()


def test_select_and_clamp() -> None:
    body = """p = pred[2] parameter(0)
    a = f32[2] parameter(1)
    b = f32[2] parameter(2)
    ROOT r = f32[2] select(p, a, b)"""
    assert one(body, np.array([True, False]), np.float32([1, 2]), np.float32([3, 4])).tolist() == [1, 4]
    body = """p = pred[] parameter(0)
    a = f32[2] parameter(1)
    b = f32[2] parameter(2)
    ROOT r = f32[2] select(p, a, b)"""
    assert one(body, np.array(False), np.float32([1, 2]), np.float32([3, 4])).tolist() == [3, 4]
    body = """lo = f32[] parameter(0)
    x = f32[4] parameter(1)
    hi = f32[] parameter(2)
    ROOT r = f32[4] clamp(lo, x, hi)"""
    x = np.float32([-5, 0.5, 5, NAN])
    np.testing.assert_array_equal(one(body, np.float32(0), x, np.float32(1)), np.float32([0, 0.5, 1, NAN]))
    assert np.isnan(one(body, np.float32(NAN), x, np.float32(1))).all()
    assert one(body, np.float32(2), x, np.float32(1)).tolist()[:3] == [1, 1, 1]  # lo > hi: hi wins


@pytest.mark.parametrize(
    ("src", "dst", "x", "want"),
    [
        ("f32", "s32", [1.9, -1.9, 3e9, -INF, NAN], [1, -1, 2**31 - 1, -(2**31), 0]),
        ("f32", "u8", [-1.0, 255.9, 256.0, NAN], [0, 255, 255, 0]),
        ("f64", "s64", [9.3e18, -9.3e18], [2**63 - 1, -(2**63)]),
        ("f32", "s4", [100.0, -100.0], [7, -8]),
        ("s32", "s8", [128, -129, 300], [-128, 127, 44]),
        ("s32", "u4", [17], [1]),
        ("f32", "pred", [0.0, -0.0, 0.5, NAN], [False, False, True, True]),
        ("pred", "f32", [True, False], [1, 0]),
        ("pred", "s32", [True], [1]),
        ("c64", "f32", [1 + 2j], [1]),
        ("f32", "c64", [1.5], [1.5]),
        ("u64", "f32", [2**64 - 1], [2.0**64]),
        ("f32", "f8e4m3fn", [448.0, 500.0, 0.0], [448, NAN, 0]),
        ("f32", "f8e5m2", [57344.0, 1e9], [57344, INF]),
        ("f32", "bf16", [1 + 2**-8, 1 + 2**-8 + 2**-16], [1, 1 + 2**-7]),
    ],
)
def test_convert(src: str, dst: str, x: list[object], want: list[object]) -> None:
    got = apply("convert", src, x, result=dst)
    if got.dtype.kind == "V":
        got = got.astype(np.float32)
    np.testing.assert_array_equal(got, np.array(want).astype(got.dtype))


def test_f64_to_bf16_rounds_once() -> None:
    # Just above a bf16 tie, by less than float32 can hold: rounding twice would give 1.
    got = apply("convert", "f64", [1 + 2**-8 + 2**-40], result="bf16")
    assert float(got[0]) == 1 + 2**-7


def test_s64_to_bf16_rounds_once() -> None:
    got = apply("convert", "s64", np.array([2**61 + 2**53 + 1, 2**61 + 2**53], np.int64), result="bf16")
    assert [float(x) for x in got] == [2.0**61 + 2.0**54, 2.0**61]


@pytest.mark.parametrize(
    ("body", "x", "want"),
    [
        ("p = f32[2] parameter(0)\nROOT r = u32[2] bitcast-convert(p)", np.float32([1, -0.0]), [0x3F800000, 1 << 31]),
        ("p = u32[1] parameter(0)\nROOT r = u16[1,2] bitcast-convert(p)", np.array([0x00010002], np.uint32), [[2, 1]]),
        (
            "p = u8[2,4] parameter(0)\nROOT r = u32[2] bitcast-convert(p)",
            np.uint8([[1, 0, 0, 0], [0, 1, 0, 0]]),
            [1, 256],
        ),
        ("p = u8[] parameter(0)\nROOT r = u4[2] bitcast-convert(p)", np.uint8(0x21), [1, 2]),
        ("p = s4[1,2] parameter(0)\nROOT r = u8[1] bitcast-convert(p)", np.array([[-1, 1]], ml_dtypes.int4), [0x1F]),
    ],
)
def test_bitcast_convert(body: str, x: np.ndarray, want: list[object]) -> None:
    got = one(body, x)
    assert got.astype(np.int64).tolist() == want


def test_bitcast_convert_keeps_scalars() -> None:
    assert one("p = f32[] parameter(0)\nROOT r = s32[] bitcast-convert(p)", np.float32(1)).shape == ()


def test_reduce_precision() -> None:
    x = np.float32([1 + 2**-8, 1 + 3 * 2**-8, 1e30, 1e-30, NAN])
    got = apply("reduce-precision", "f32", x, attrs=", exponent_bits=5, mantissa_bits=7")
    np.testing.assert_array_equal(got, np.float32([1, 1 + 2**-6, INF, 0, NAN]))


def test_stochastic_convert() -> None:
    x, random = np.float32([1.25, 1.25, -1.75, NAN]), np.array([0, 2**30, 2**30, 0], np.uint32)
    assert apply("stochastic-convert", "f32", x, random, result="s32").tolist() == [2, 1, -2, 0]


def test_mixed_precision_computes_wide_and_rounds_to_the_result() -> None:
    bf16 = ml_dtypes.bfloat16
    body = "a = bf16[1] parameter(0)\nb = f32[1] parameter(1)\nROOT r = {}[1] add(a, b)"
    x, y = np.array([1], bf16), np.float32([2**-8 + 2**-20])
    assert one(body.format("f32"), x, y).tolist() == [1 + 2**-8 + 2**-20]
    assert one(body.format("bf16"), x, y).astype(np.float32).tolist() == [1 + 2**-7]
    body = (
        "p = pred[1] parameter(0)\na = bf16[1] parameter(1)\nb = f32[1] parameter(2)\nROOT r = f32[1] select(p, a, b)"
    )
    assert one(body, np.array([True]), x, y).tolist() == [1]


def test_an_op_refuses_types_it_is_not_defined_for() -> None:
    with pytest.raises(XylaError) as e:
        apply("sine", "s32", [1])
    assert e.value.status is Status.UNIMPLEMENTED
    assert "sine is not defined for s32" in e.value.message


def test_complex_functions_do_not_overflow() -> None:
    z = np.array([3e200 + 4e200j, 1e-200 - 1e-200j, 0])
    np.testing.assert_allclose(apply("abs", "c128", z, result="f64"), [5e200, math.sqrt(2) * 1e-200, 0], rtol=1e-15)
    np.testing.assert_allclose(apply("sign", "c128", z), [0.6 + 0.8j, math.sqrt(0.5) * (1 - 1j), 0], rtol=1e-15)
    np.testing.assert_allclose(apply("log-plus-one", "c64", [1e-8 + 0j], result="c64"), [1e-8], rtol=1e-6)


def test_complex_power_at_zero() -> None:
    got = apply("power", "c64", np.complex64([0, 0, 1j]), np.complex64([2, 0, 2]))
    np.testing.assert_allclose(got, [0, 1, -1], atol=1e-6)


@pytest.mark.parametrize("op", ["exponential", "log", "sqrt", "tanh", "sine", "cosine", "tan", "logistic", "rsqrt"])
def test_complex_functions_agree_with_their_definition(op: str) -> None:
    import cmath

    z = 0.3 - 0.7j
    want = {
        "exponential": cmath.exp(z),
        "log": cmath.log(z),
        "sqrt": cmath.sqrt(z),
        "tanh": cmath.tanh(z),
        "sine": cmath.sin(z),
        "cosine": cmath.cos(z),
        "tan": cmath.tan(z),
        "logistic": 1 / (1 + cmath.exp(-z)),
        "rsqrt": 1 / cmath.sqrt(z),
    }[op]
    np.testing.assert_allclose(apply(op, "c128", [z])[0], want, rtol=1e-14)
