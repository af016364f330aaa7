from __future__ import annotations

import numpy as np
import pytest

from tests.interp.hlo import one, run

ADD = "f { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }"
SET = "f { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] copy(b) }"
TAKE = "f { a = s32[] parameter(0) ROOT b = s32[] parameter(1) }"
SUB = "f { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] subtract(a, b) }"
X = np.arange(12, dtype=np.int32).reshape(4, 3)


def test_gather_rows_clamps() -> None:
    body = """p = s32[4,3] parameter(0)
    i = s32[3] parameter(1)
    ROOT r = s32[3,3] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
      index_vector_dim=1, slice_sizes={1,3}"""
    assert one(body, X, np.int32([2, -7, 9])).tolist() == [[6, 7, 8], [0, 1, 2], [9, 10, 11]]


def test_gather_windows_with_offset_dims_first() -> None:
    body = """p = s32[4,3] parameter(0)
    i = s32[2,2] parameter(1)
    ROOT r = s32[2,2,2] gather(p, i), offset_dims={0,1}, collapsed_slice_dims={}, start_index_map={1,0},
      index_vector_dim=1, slice_sizes={2,2}"""
    # Index vectors are (column, row).
    got = one(body, X, np.int32([[1, 0], [2, 3]]))
    assert got[:, :, 0].tolist() == [[1, 2], [4, 5]]
    assert got[:, :, 1].tolist() == [[7, 8], [10, 11]]  # (2, 3) clamps to (1, 2)


def test_gather_with_batching_dims() -> None:
    body = """p = s32[4,3] parameter(0)
    i = s32[4,1] parameter(1)
    ROOT r = s32[4,1] gather(p, i), offset_dims={1}, collapsed_slice_dims={}, start_index_map={1},
      operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}"""
    assert one(body, X, np.int32([[0], [1], [2], [1]])).ravel().tolist() == [0, 4, 8, 10]


def test_gather_huge_unsigned_indices_clamp() -> None:
    body = """p = s32[4,3] parameter(0)
    i = u64[1] parameter(1)
    ROOT r = s32[1,3] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
      index_vector_dim=1, slice_sizes={1,3}"""
    assert one(body, X, np.array([2**64 - 1], np.uint64)).tolist() == [[9, 10, 11]]


ROWS = """p = s32[4] parameter(0)
    i = s32[{n}] parameter(1)
    u = s32[{n}] parameter(2)
    ROOT r = s32[4] scatter(p, i, u), update_window_dims={{}}, inserted_window_dims={{0}},
      scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=f"""


@pytest.mark.parametrize(
    ("comps", "want"),
    [(ADD, [103, 8, 10, 10]), (SET, [100, 8, 10, 10]), (TAKE, [100, 8, 10, 10]), (SUB, [-83, -8, 10, 10])],
)
def test_scatter(comps: str, want: list[int]) -> None:
    # Two updates hit element 0; one is out of bounds.
    got = one(
        ROWS.format(n=4),
        np.int32([10, 0, 10, 10]),
        np.int32([0, 1, 4, 0]),
        np.int32([-7, 8, 9, 100]),
        computations=comps,
    )
    assert got.tolist() == want


def test_many_updates_of_one_element_all_count() -> None:
    n = 1000
    got = one(ROWS.format(n=n), np.zeros(4, np.int32), np.full(n, 2, np.int32), np.ones(n, np.int32), computations=ADD)
    assert got.tolist() == [0, 0, n, 0]


def test_a_window_out_of_bounds_anywhere_is_skipped_whole() -> None:
    body = """p = s32[4] parameter(0)
    i = s32[2,1] parameter(1)
    u = s32[2,2] parameter(2)
    ROOT r = s32[4] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f"""
    got = one(body, np.zeros(4, np.int32), np.int32([[3], [1]]), np.int32([[5, 6], [7, 8]]), computations=ADD)
    assert got.tolist() == [0, 7, 8, 0]
    got = one(body, np.zeros(4, np.int32), np.int32([[-1], [2]]), np.int32([[5, 6], [7, 8]]), computations=ADD)
    assert got.tolist() == [0, 0, 7, 8]


def test_scatter_rows_into_transposed_windows() -> None:
    body = """p = s32[2,3] parameter(0)
    i = s32[1] parameter(1)
    u = s32[2] parameter(2)
    ROOT r = s32[2,3] scatter(p, i, u), update_window_dims={0}, inserted_window_dims={1},
      scatter_dims_to_operand_dims={1}, index_vector_dim=0, to_apply=f"""
    got = one(body, np.zeros((2, 3), np.int32), np.int32([2]), np.int32([5, 6]), computations=ADD)
    assert got.tolist() == [[0, 0, 5], [0, 0, 6]]


def test_an_empty_index_vector_updates_the_whole_operand() -> None:
    body = """p = s32[2] parameter(0)
    i = s32[3,0] parameter(1)
    u = s32[3,2] parameter(2)
    ROOT r = s32[2] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={},
      scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=f"""
    got = one(body, np.int32([1, 2]), np.zeros((3, 0), np.int32), np.full((3, 2), 10, np.int32), computations=ADD)
    assert got.tolist() == [31, 32]


def test_variadic_scatter() -> None:
    comps = """f { a = s32[] parameter(0)
      c = f32[] parameter(1)
      b = s32[] parameter(2)
      d = f32[] parameter(3)
      s = s32[] add(a, b)
      m = f32[] maximum(c, d)
      ROOT r = (s32[], f32[]) tuple(s, m) }"""
    body = """p = s32[2] parameter(0)
    q = f32[2] parameter(1)
    i = s32[3] parameter(2)
    u = s32[3] parameter(3)
    v = f32[3] parameter(4)
    ROOT r = (s32[2], f32[2]) scatter(p, q, i, u, v), update_window_dims={}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f"""
    sums, most = run(body, np.zeros(2, np.int32), np.zeros(2, np.float32), np.int32([1, 1, 0]), np.int32([1, 2, 3]),
                     np.float32([5, 4, -1]), computations=comps)  # fmt: skip
    assert sums.tolist() == [3, 3]
    assert most.tolist() == [0, 5]


def test_scatter_leaves_its_operand_alone() -> None:
    x = np.zeros(4, np.int32)
    one(ROWS.format(n=1), x, np.int32([0]), np.int32([1]), computations=ADD)
    assert x.tolist() == [0, 0, 0, 0]
