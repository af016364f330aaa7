"""chlo operations: special functions against SciPy, integer ones against Python, broadcasting, special values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.special as special

from xyla import interp

MLIR = {"float32": "f32", "float64": "f64", "int64": "i64", "uint64": "ui64", "int8": "i8", "complex64": "complex<f32>"}


def call(name: str, *args: Any) -> np.ndarray:
    """chlo.`name` of arrays of one shape and type."""
    arrays = [np.atleast_1d(a) for a in args]
    types = [f"tensor<{a.size}x{MLIR[a.dtype.name]}>" for a in arrays]
    names = [f"%a{i}" for i in range(len(arrays))]
    params = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    body = f'%r = "chlo.{name}"({", ".join(names)}) : ({", ".join(types)}) -> {types[0]}'
    text = f"func.func @main({params}) -> {types[0]} {{\n {body}\n return %r : {types[0]}\n}}"
    (out,) = interp.run(text, arrays)
    return out


POSITIVE = np.concatenate([np.geomspace(1e-6, 1e6, 60), np.linspace(0.05, 20, 60), [1.0, 2.0]])
NEGATIVE = -np.array([0.25, 0.5, 1.5, 2.7, 10.1, 33.3])
SMALL = np.linspace(-0.999, 0.999, 101)
WIDE = np.linspace(-30, 30, 121)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "points", "reference"),
    [
        ("lgamma", np.concatenate([POSITIVE, NEGATIVE]), special.gammaln),
        ("digamma", np.concatenate([POSITIVE, NEGATIVE]), special.digamma),
        ("erf_inv", SMALL, special.erfinv),
        ("erfc", np.linspace(-6, 25, 121), special.erfc),
        ("bessel_i1e", WIDE, special.i1e),
    ],
)
def test_special_function(name: str, points: np.ndarray, reference: Any, dtype: type) -> None:
    x = points.astype(dtype)
    rtol = 5e-7 if dtype is np.float32 else 2e-14
    # Near its zeros a gamma function is good to an absolute error only.
    atol = 1e-38 if name in ("erfc", "bessel_i1e") else rtol
    np.testing.assert_allclose(call(name, x), reference(x.astype(np.float64)), rtol=rtol, atol=atol)


def test_zeta_and_polygamma() -> None:
    x, q = (a.ravel() for a in np.meshgrid([1.1, 2.0, 3.5, 10.0], [0.3, 1.0, 2.5, 40.0]))
    np.testing.assert_allclose(call("zeta", x, q), special.zeta(x, q), rtol=1e-13)
    n, y = (a.ravel() for a in np.meshgrid([0.0, 1.0, 2.0, 5.0], [0.3, 1.0, 2.5, 40.0]))
    np.testing.assert_allclose(call("polygamma", n, y), special.polygamma(n.astype(int), y), rtol=2e-12)


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("lgamma", [0.0], math.inf),
        ("lgamma", [-3.0], math.inf),
        ("lgamma", [-math.inf], math.inf),
        ("lgamma", [1.0], 0.0),
        ("digamma", [-2.0], math.nan),
        ("erf_inv", [1.0], math.inf),
        ("erf_inv", [-1.0], -math.inf),
        ("erf_inv", [1.5], math.nan),
        ("erfc", [math.inf], 0.0),
        ("erfc", [-math.inf], 2.0),
        ("erfc", [math.nan], math.nan),
        ("bessel_i1e", [math.inf], 0.0),
        ("zeta", [1.0, 2.0], math.inf),
        ("zeta", [0.5, 2.0], math.nan),
        ("zeta", [2.0, -1.0], math.inf),
        ("polygamma", [1.5, 2.0], math.nan),
        ("next_after", [0.0, -1.0], -5e-324),
        ("next_after", [1.0, math.nan], math.nan),
    ],
)
def test_special_value(name: str, args: list[float], want: float) -> None:
    np.testing.assert_array_equal(call(name, *map(np.float64, args)), [want])


def test_next_after_is_numpys() -> None:
    x = np.array([0.0, -0.0, 1.0, 1.0, -1.0, np.inf, 3e38, 1e-45], np.float32)
    y = np.array([1.0, 1.0, 2.0, -2.0, 0.0, 0.0, np.inf, -1.0], np.float32)
    np.testing.assert_array_equal(call("next_after", x, y), np.nextafter(x, y))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8])
def test_mulhi_is_the_high_half_of_the_exact_product(dtype: type) -> None:
    info = np.iinfo(dtype)
    values = [info.min, info.max, info.max // 3, 7, 1, 0, info.min // 5]
    x, y = (np.array(v, dtype) for v in zip(*[(a, b) for a in values for b in values], strict=True))
    want = [(int(a) * int(b)) >> info.bits for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(call("mulhi", x, y), np.array(want, dtype))


def test_complex_square_keeps_what_plain_multiplication_loses() -> None:
    x = np.array([3 + 4j, 2e19 + 2e19j, 1e-30 + 1j, -2 + 0j], np.complex64)
    np.testing.assert_allclose(call("square", x)[[0, 2, 3]], [-7 + 24j, -1 + 2e-30j, 4], rtol=1e-6)
    assert call("square", x)[1].real == 0


def test_operands_broadcast_like_numpy() -> None:
    text = """func.func @main(%a: tensor<2x1xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
      %r = "chlo.broadcast_subtract"(%a, %b) : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
      return %r : tensor<2x3xf32>
    }"""
    a, b = np.float32([[1], [10]]), np.float32([1, 2, 3])
    (out,) = interp.run(text, [a, b])
    np.testing.assert_array_equal(out, a - b)
