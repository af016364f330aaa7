from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.interp.hlo import one

A = np.float32([[1, 2, 3], [4, 5, 6]])
B = np.float32([[1, 0], [0, 1], [2, 2]])


def test_dot() -> None:
    body = "a = f32[2,3] parameter(0)\nb = f32[3,2] parameter(1)\n"
    body += "ROOT r = f32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    assert one(body, A, B).tolist() == [[7, 8], [16, 17]]


def test_dot_with_batch_puts_batch_first() -> None:
    body = "a = f32[3,2] parameter(0)\nb = f32[2,3,4] parameter(1)\n"
    body += "ROOT r = f32[2,4] dot(a, b), lhs_batch_dims={1}, lhs_contracting_dims={0}, "
    body += "rhs_batch_dims={0}, rhs_contracting_dims={1}"
    a, b = np.arange(6, dtype=np.float32).reshape(3, 2), np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(one(body, a, b), np.einsum("kb,bkn->bn", a, b))


@pytest.mark.parametrize(
    ("dtype", "result", "x", "y", "want"),
    [
        ("s8", "s32", [100, 100], [100, 100], 20000),
        ("s8", "s8", [100, 100], [100, 100], 32),
        ("u32", "u32", [2**31, 1], [2, 5], 5),
        ("pred", "pred", [True, False], [True, True], True),
        ("bf16", "f32", [1, 2], [3, 4], 11),
        ("c64", "c64", [1j, 2], [1j, 3], 5),
        ("f8e4m3fn", "bf16", [2, 3], [4, 5], 23),
    ],
)
def test_dot_types(dtype: str, result: str, x: list[object], y: list[object], want: object) -> None:
    from xyla.support.dtypes import by_name

    body = f"a = {dtype}[2] parameter(0)\nb = {dtype}[2] parameter(1)\n"
    body += f"ROOT r = {result}[] dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
    got = one(body, np.array(x).astype(by_name(dtype).np), np.array(y).astype(by_name(dtype).np))
    assert got == np.array(want).astype(got.dtype)


def test_a_bf16_dot_accumulates_in_f32_and_rounds_once() -> None:
    bf16 = ml_dtypes.bfloat16
    body = "a = bf16[600] parameter(0)\nb = bf16[600] parameter(1)\n"
    body += "ROOT r = bf16[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    assert float(one(body, np.ones(600, bf16), np.ones(600, bf16))) == 600  # stuck at 256 if it rounded each step


def test_a_dot_over_nothing_is_zero() -> None:
    body = "a = f32[2,0] parameter(0)\nb = f32[0,2] parameter(1)\n"
    body += "ROOT r = f32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    assert one(body, np.zeros((2, 0), np.float32), np.zeros((0, 2), np.float32)).tolist() == [[0, 0], [0, 0]]


def test_large_integer_dots_wrap() -> None:
    body = "a = s32[2,2] parameter(0)\nb = s32[2,2] parameter(1)\n"
    body += "ROOT r = s32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    x = np.full((2, 2), 2**30 + 1, np.int32)
    want = np.int64((2 * (2**30 + 1) ** 2 + 2**31) % 2**32 - 2**31)
    assert (one(body, x, x) == want).all()


def test_sparse_dot_expands_two_of_four() -> None:
    body = "a = f32[1,2] parameter(0)\nb = f32[4,1] parameter(1)\nm = u16[1,1] parameter(2)\n"
    body += "ROOT r = f32[1,1] dot(a, b, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sparsity=L.1@2:4"
    b = np.float32([[1], [10], [100], [1000]])
    # Positions 1 and 3 of the four: bits 01 then 11.
    assert one(body, np.float32([[2, 3]]), b, np.uint16([[0b1101]])).tolist() == [[2 * 10 + 3 * 1000]]


def test_ragged_dot_uses_each_group_on_its_rows() -> None:
    body = "a = f32[4,2] parameter(0)\nb = f32[2,2,1] parameter(1)\ng = s32[2] parameter(2)\n"
    body += "ROOT r = f32[4,1] ragged-dot(a, b, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
    body += "lhs_ragged_dims={0}, rhs_group_dims={0}"
    a = np.ones((4, 2), np.float32)
    b = np.float32([[[1], [2]], [[10], [20]]])
    assert one(body, a, b, np.int32([1, 2])).ravel().tolist() == [3, 30, 30, 0]


def test_ragged_dot_over_a_ragged_contraction() -> None:
    body = "a = f32[1,3] parameter(0)\nb = f32[3,1] parameter(1)\ng = s32[2] parameter(2)\n"
    body += "ROOT r = f32[2,1,1] ragged-dot(a, b, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    body += "lhs_ragged_dims={1}"
    a, b = np.float32([[1, 2, 3]]), np.float32([[1], [1], [1]])
    assert one(body, a, b, np.int32([2, 1])).ravel().tolist() == [3, 3]


def test_scaled_dot() -> None:
    body = "a = f8e4m3fn[1,4] parameter(0)\nb = f8e4m3fn[4,1] parameter(1)\n"
    body += "s = f32[1,2] parameter(2)\nt = f32[2,1] parameter(3)\n"
    body += "ROOT r = f32[1,1] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    ones = np.ones((1, 4), ml_dtypes.float8_e4m3fn)
    got = one(body, ones, ones.T.copy(), np.float32([[2, 3]]), np.float32([[5], [7]]))
    assert got.tolist() == [[2 * 2 * 5 + 2 * 3 * 7]]


def conv(x: np.ndarray, k: np.ndarray, out: str, window: str, labels: str, extra: str = "") -> np.ndarray:
    dims = [",".join(map(str, a.shape)) for a in (x, k)]
    body = f"x = f32[{dims[0]}] parameter(0)\nk = f32[{dims[1]}] parameter(1)\n"
    body += f"ROOT r = f32[{out}] convolution(x, k), window={{{window}}}, dim_labels={labels}{extra}"
    return one(body, x, k)


LINE = np.float32([1, 2, 3, 4]).reshape(1, 1, 4)
PAIR = np.float32([1, 10]).reshape(1, 1, 2)


@pytest.mark.parametrize(
    ("window", "want"),
    [
        ("size=2", [21, 32, 43]),
        ("size=2 stride=2", [21, 43]),
        ("size=2 pad=1_1", [10, 21, 32, 43, 4]),
        ("size=2 pad=-1_0", [32, 43]),
        ("size=2 rhs_dilate=2", [31, 42]),
        ("size=2 lhs_dilate=2", [1, 20, 2, 30, 3, 40]),
        ("size=2 rhs_reversal=1", [12, 23, 34]),
        ("size=2 pad=-1_-1 lhs_dilate=2", [20, 2, 30, 3]),
    ],
)
def test_convolution_windows(window: str, want: list[float]) -> None:
    assert conv(LINE, PAIR, f"1,1,{len(want)}", window, "bf0_oi0->bf0").ravel().tolist() == want


def test_convolution_dimension_numbers() -> None:
    rng = np.random.default_rng(0)
    x, k = rng.integers(0, 5, (2, 5, 6, 3)).astype(np.float32), rng.integers(0, 5, (2, 3, 3, 4)).astype(np.float32)
    got = conv(x, k, "2,4,4,4", "size=2x3", "b01f_01io->b01f")
    want = np.zeros((2, 4, 4, 4), np.float32)
    for i in range(4):
        for j in range(4):
            want[:, i, j] = np.einsum("bhwc,hwco->bo", x[:, i : i + 2, j : j + 3], k)
    np.testing.assert_array_equal(got, want)


def test_feature_groups_and_batch_groups() -> None:
    x = np.float32([[1, 2], [3, 4]]).reshape(2, 2, 1)  # two batches, two features
    k = np.float32([10, 100]).reshape(2, 1, 1)
    assert conv(x, k, "2,2,1", "size=1", "bf0_oi0->bf0", ", feature_group_count=2").ravel().tolist() == [
        10,
        200,
        30,
        400,
    ]
    k = np.float32([[1, 10], [100, 1000]]).reshape(2, 2, 1)
    # Output feature g sees only batch group g.
    assert conv(x, k, "1,2,1", "size=1", "bf0_oi0->bf0", ", batch_group_count=2").ravel().tolist() == [21, 4300]


def test_integer_convolution_wraps() -> None:
    body = "x = s8[1,1,2] parameter(0)\nk = s8[1,1,1] parameter(1)\n"
    body += "ROOT r = s8[1,1,2] convolution(x, k), window={size=1}, dim_labels=bf0_oi0->bf0"
    assert one(body, np.int8([[[100, 1]]]), np.int8([[[2]]])).ravel().tolist() == [-56, 2]


def test_a_kernel_past_the_input_gives_an_empty_result() -> None:
    assert conv(LINE, np.ones((1, 1, 5), np.float32), "1,1,0", "size=5", "bf0_oi0->bf0").shape == (1, 1, 0)


def test_ragged_dot_with_group_sizes_per_batch() -> None:
    body = "a = f32[2,3,2] parameter(0)\nb = f32[2,2,2,1] parameter(1)\ng = s32[2,2] parameter(2)\n"
    body += (
        "ROOT r = f32[2,3,1] ragged-dot(a, b, g), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, "
    )
    body += "rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}"
    b = np.float32([1, 1, 10, 10, 100, 100, 1000, 1000]).reshape(2, 2, 2, 1)  # [group, batch, k, n]
    got = one(body, np.ones((2, 3, 2), np.float32), b, np.int32([[1, 2], [3, 0]]))
    assert got[..., 0].tolist() == [[2, 200, 200], [20, 20, 20]]


def test_ragged_dot_over_a_ragged_contraction_with_group_sizes_per_batch() -> None:
    body = "a = f32[2,1,3] parameter(0)\nb = f32[2,3,1] parameter(1)\ng = s32[2,2] parameter(2)\n"
    body += "ROOT r = f32[2,2,1,1] ragged-dot(a, b, g), lhs_batch_dims={0}, rhs_batch_dims={0}, "
    body += "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={2}"
    a = np.float32([1, 2, 3, 10, 20, 30]).reshape(2, 1, 3)
    got = one(body, a, np.ones((2, 3, 1), np.float32), np.int32([[1, 2], [2, 1]]))
    assert got[..., 0, 0].tolist() == [[1, 30], [5, 30]]


def test_ragged_batches_past_the_last_group_are_zero() -> None:
    body = "a = f32[3,1,1] parameter(0)\nb = f32[3,1,1] parameter(1)\ng = s32[2] parameter(2)\n"
    body += "ROOT r = f32[3,1,1] ragged-dot(a, b, g), lhs_batch_dims={0}, rhs_batch_dims={0}, "
    body += "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={0}"
    ones = np.ones((3, 1, 1), np.float32)
    assert one(body, ones, ones, np.int32([1, 1])).ravel().tolist() == [1, 1, 0]
