from __future__ import annotations

import numpy as np
import pytest

from tests.interp.hlo import one, run

A = np.float32([[4, 2], [2, 5]])
P = "p = f32[2,2] parameter(0)\n"


def test_cholesky_reads_one_triangle() -> None:
    x = A.copy()
    x[0, 1] = 99
    assert one(P + "ROOT r = f32[2,2] cholesky(p), lower=true", x).tolist() == [[2, 0], [1, 2]]
    assert one(P + "ROOT r = f32[2,2] cholesky(p), lower=false", x.T.copy()).tolist() == [[2, 1], [0, 2]]
    assert np.isnan(one(P + "ROOT r = f32[2,2] cholesky(p), lower=true", -A)[0, 0])


@pytest.mark.parametrize(
    ("attrs", "want"),
    [
        ("left_side=true, lower=true", lambda t, b: np.linalg.solve(np.tril(t), b)),
        ("left_side=true, lower=false", lambda t, b: np.linalg.solve(np.triu(t), b)),
        ("left_side=true, lower=true, transpose_a=TRANSPOSE", lambda t, b: np.linalg.solve(np.tril(t).T, b)),
        ("left_side=false, lower=true", lambda t, b: np.linalg.solve(np.tril(t).T, b.T).T),
        ("left_side=true, lower=true, unit_diagonal=true", lambda t, b: np.linalg.solve([[1, 0], [t[1, 0], 1]], b)),
    ],
)
def test_triangular_solve(attrs: str, want) -> None:  # type: ignore[no-untyped-def]
    t, b = np.float32([[2, 3], [5, 4]]), np.float32([[2, 4], [6, 8]])
    body = P + f"b = f32[2,2] parameter(1)\nROOT r = f32[2,2] triangular-solve(p, b), {attrs}"
    np.testing.assert_allclose(one(body, t, b), want(t, b), rtol=1e-6)


def test_triangular_solve_with_an_adjoint_and_a_batch() -> None:
    t = np.complex64([[[2, 0], [1j, 1]]] * 2)
    b = np.complex64([[[2], [3]], [[4], [5]]])
    body = "p = c64[2,2,2] parameter(0)\nb = c64[2,2,1] parameter(1)\n"
    body += "ROOT r = c64[2,2,1] triangular-solve(p, b), left_side=true, lower=true, transpose_a=ADJOINT"
    np.testing.assert_allclose(one(body, t, b)[0], np.linalg.solve(t[0].conj().T, b[0]), rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "src", "x", "dst", "length", "want"),
    [
        ("FFT", "c64[4]", [1, 0, 0, 0], "c64[4]", 4, [1, 1, 1, 1]),
        ("IFFT", "c64[4]", [1, 1, 1, 1], "c64[4]", 4, [1, 0, 0, 0]),
        ("RFFT", "f32[4]", [1, 2, 3, 4], "c64[3]", 4, [10, -2 + 2j, -2]),
        ("IRFFT", "c64[3]", [10, -2 + 2j, -2], "f32[4]", 4, [1, 2, 3, 4]),
        ("IRFFT", "c64[2]", [6, -1.5 + 0.8660254j], "f32[3]", 3, [1, 2, 3]),
    ],
)
def test_fft(kind: str, src: str, x: list[complex], dst: str, length: int, want: list[complex]) -> None:
    body = f"p = {src} parameter(0)\nROOT r = {dst} fft(p), fft_type={kind}, fft_length={{{length}}}"
    array = np.array(x).astype(np.float32 if src.startswith("f") else np.complex64)
    np.testing.assert_allclose(one(body, array), want, atol=1e-6)


def test_a_transform_of_length_zero_gives_zeros() -> None:
    body = "p = c64[1,1] parameter(0)\nROOT r = c64[1,1] fft(p), fft_type=FFT, fft_length={0,1}"
    assert one(body, np.complex64([[5]])).tolist() == [[0]]


def test_fft_transforms_the_innermost_dimensions_of_a_batch() -> None:
    x = np.arange(12, dtype=np.complex64).reshape(3, 2, 2)
    body = "p = c64[3,2,2] parameter(0)\nROOT r = c64[3,2,2] fft(p), fft_type=FFT, fft_length={2,2}"
    np.testing.assert_allclose(one(body, x)[0], [[6, -2], [-4, 0]], atol=1e-6)


X = np.float32([[1, 10], [3, 30]])
FEATURES = """x = f32[2,2] parameter(0)
a = f32[2] parameter(1)
b = f32[2] parameter(2)
"""


def test_batch_norm_training() -> None:
    body = FEATURES + "ROOT r = (f32[2,2], f32[2], f32[2]) batch-norm-training(x, a, b), epsilon=0, feature_index=1"
    y, mean, variance = run(body, X, np.float32([1, 2]), np.float32([0, 5]))
    assert y.tolist() == [[-1, 3], [1, 7]]
    assert mean.tolist() == [2, 20]
    assert variance.tolist() == [1, 100]


def test_batch_norm_inference() -> None:
    body = (
        FEATURES
        + """m = f32[2] parameter(3)
    v = f32[2] parameter(4)
    ROOT r = f32[2,2] batch-norm-inference(x, a, b, m, v), epsilon=1, feature_index=1"""
    )
    y = one(body, X, np.float32([1, 2]), np.float32([0, 5]), np.float32([1, 10]), np.float32([3, 99]))
    assert y.tolist() == [[0, 5], [1, 9]]


def test_batch_norm_grad_sums_to_nothing() -> None:
    body = """x = f32[4] parameter(0)
    x2 = f32[4,1] reshape(x)
    s = f32[1] constant({2})
    m = f32[1] constant({2.5})
    v = f32[1] constant({1.25})
    g = f32[4,1] parameter(1)
    ROOT r = (f32[4,1], f32[1], f32[1]) batch-norm-grad(x2, s, m, v, g), epsilon=0, feature_index=1"""
    g = np.float32([[1], [0], [0], [0]])
    dx, dscale, doffset = run(body, np.float32([1, 2, 3, 4]), g)
    root = np.sqrt(1.25)
    normal = np.array([-1.5, -0.5, 0.5, 1.5]) / root
    np.testing.assert_allclose(dscale, [normal[0]], rtol=1e-6)
    np.testing.assert_allclose(doffset, [1])
    np.testing.assert_allclose(dx.ravel(), 2 / root * (g.ravel() - 0.25 - normal * normal[0] / 4), rtol=1e-5, atol=1e-6)
