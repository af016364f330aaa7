from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xyla.formats.mlir import dense
from xyla.formats.mlir.attributes import Attribute, DenseAttr
from xyla.formats.mlir.parser import parse_module
from xyla.support.status import XylaError


def attr_of(text: str) -> Attribute:
    found = parse_module(f'"t.x"() {{a = {text}}} : () -> ()', "t.mlir").body[0].get("a")
    assert found is not None
    return found


def decode(text: str) -> np.ndarray:
    attr = attr_of(text)
    assert isinstance(attr, DenseAttr)
    return dense.decode(attr)


CASES = [
    ("dense<[1, -2]> : tensor<2xi32>", np.array([1, -2], np.int32)),
    ("dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>", np.array([[1, 2], [3, 4]], np.int64)),
    ("dense<255> : tensor<ui8>", np.array(255, np.uint8)),
    ("dense<[0xFF, 128]> : tensor<2xi8>", np.array([-1, -128], np.int8)),
    ("dense<[7, -8, 15]> : tensor<3xi4>", np.array([7, -8, -1]).astype(ml_dtypes.int4)),
    ("dense<[3, 0]> : tensor<2xui2>", np.array([3, 0]).astype(ml_dtypes.uint2)),
    ("dense<[true, false]> : tensor<2xi1>", np.array([True, False])),
    ("dense<[1.5, -0.0]> : tensor<2xf32>", np.array([1.5, -0.0], np.float32)),
    ("dense<[0x7F80, 1.0]> : tensor<2xbf16>", np.array([np.inf, 1.0]).astype(ml_dtypes.bfloat16)),
    ("dense<0xFF> : tensor<f8E8M0FNU>", np.array(np.nan).astype(ml_dtypes.float8_e8m0fnu)),
    ("dense<(1.0, -2.0)> : tensor<complex<f32>>", np.array(1 - 2j, np.complex64)),
    ("dense<[(1.0, 0x7F800000)]> : tensor<1xcomplex<f32>>", np.array([complex(1, np.inf)], np.complex64)),
    ("dense<> : tensor<0x3xf32>", np.zeros((0, 3), np.float32)),
    ('dense<"0x0000803F00000040"> : tensor<2xf32>', np.array([1, 2], np.float32)),
    ('dense<"0x010001"> : tensor<3xi1>', np.array([True, False, True])),
    ('dense<"0x0500"> : tensor<9xi1>', np.array([True, False, True] + [False] * 6)),
    ('dense<"0xFF"> : tensor<4xi1>', np.array([True] * 4)),
    ('dense<"0x0F01"> : tensor<2xi4>', np.array([-1, 1]).astype(ml_dtypes.int4)),
    ('dense<"0x0000803F"> : tensor<3xf32>', np.ones(3, np.float32)),
    ("dense<[0.1]> : tensor<1xf16>", np.array([0.1], np.float16)),
    ("dense<[3, 4]> : tensor<2xindex>", np.array([3, 4], np.int64)),
]


@pytest.mark.parametrize(("text", "want"), CASES, ids=[t for t, _ in CASES])
def test_decode(text: str, want: np.ndarray) -> None:
    got = decode(text)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(want).tobytes()


def test_a_splat_of_a_huge_shape_allocates_nothing() -> None:
    got = decode("dense<1.0> : tensor<1000000x1000000xf32>")
    assert got.strides == (0, 0)
    assert got[5, 7] == 1.0


BAD = [
    ("dense<[1, 2, 3]> : tensor<2xi32>", "3 elements for shape [2], which has 2"),
    ("dense<[[1], [2]]> : tensor<2xi32>", "the nesting of the elements does not match shape [2]"),
    ("dense<[[1, 2], [3]]> : tensor<2x2xi32>", "3 elements for shape [2, 2]"),
    ("dense<[1, 2]> : tensor<1000000000000xi32>", "2 elements for shape [1000000000000]"),
    ("dense<300> : tensor<i8>", "300 does not fit i8"),
    ("dense<x> : tensor<f32>", "'x' is not a value of type f32"),
    ("dense<0x1FFFFFFFF> : tensor<f32>", "has more bits than f32"),
    ("dense<2> : tensor<?xf32>", "needs a tensor of static shape"),
    ('dense<"0x00"> : tensor<2xf32>', "1 bytes of payload for 2 elements of 4 bytes"),
    ('dense<"0x0g"> : tensor<2xi8>', "malformed"),
    ("dense<> : tensor<2xf32>", "an empty dense constant for 2 elements"),
    ("dense<(1.0, 2.0, 3.0)> : tensor<complex<f32>>", "(real, imaginary)"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_payloads(text: str, message: str) -> None:
    with pytest.raises(XylaError) as caught:
        decode(text)
    assert message in caught.value.message


def test_the_error_points_at_the_payload() -> None:
    module = parse_module('"t.x"() {a = dense<[1, 2]> : tensor<3xi8>} : () -> ()', "t.mlir")
    attr = module.body[0].get("a")
    assert isinstance(attr, DenseAttr)
    with pytest.raises(XylaError) as caught:
        dense.decode(attr, module.source)
    assert caught.value.span is not None
    assert caught.value.span.where() == "t.mlir:1:20"


def test_ints_of_arrays_and_dense() -> None:
    assert dense.ints(attr_of("array<i64: 1, 2>")) == (1, 2)
    assert dense.ints(attr_of("dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>")) == (1, 2, 3, 4)
    assert dense.ints(attr_of("dense<5> : tensor<3xi64>")) == (5, 5, 5)
    assert dense.ints(attr_of('"x"')) is None


def test_scalar_text() -> None:
    attr = attr_of("dense<(1.5, -2.0)> : tensor<complex<f32>>")
    assert isinstance(attr, DenseAttr)
    value = dense.decode(attr)[()]
    element = dense.shape_of(attr.type)[1]
    again = decode(f"dense<{dense.scalar_text(value, element)}> : tensor<complex<f32>>")
    assert again[()] == value
