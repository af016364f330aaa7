from __future__ import annotations

import numpy as np
import pytest

from tests.interp.hlo import one, run

X23 = np.arange(6, dtype=np.int32).reshape(2, 3)
P23 = "p = s32[2,3] parameter(0)\n"


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("ROOT r = s32[3,2] reshape(p)", [[0, 1], [2, 3], [4, 5]]),
        ("ROOT r = s32[3,2] transpose(p), dimensions={1,0}", [[0, 3], [1, 4], [2, 5]]),
        ("ROOT r = s32[2,3] reverse(p), dimensions={1}", [[2, 1, 0], [5, 4, 3]]),
        ("ROOT r = s32[1,2] slice(p), slice={[1:2], [0:3:2]}", [[3, 5]]),
        ("ROOT r = s32[4,3] concatenate(p, p), dimensions={0}", [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5]]),
        ("ROOT r = s32[2,3] copy(p)", X23.tolist()),
        ("ROOT r = s32[2,3] opt-barrier(p)", X23.tolist()),
        ("ROOT r = s32[] get-dimension-size(p), dimensions={1}", 3),
        ("ROOT r = s32[2,2,3] broadcast(p), dimensions={0,2}", [[[0, 1, 2]] * 2, [[3, 4, 5]] * 2]),
        ("ROOT r = s32[3,2] broadcast(p), dimensions={1,0}", [[0, 3], [1, 4], [2, 5]]),
    ],
)
def test_shape_ops(body: str, want: object) -> None:
    assert one(P23 + body, X23).tolist() == want


def test_iota() -> None:
    assert one("ROOT r = f32[2,3] iota(), iota_dimension=1").tolist() == [[0, 1, 2], [0, 1, 2]]
    assert one("ROOT r = c64[2] iota(), iota_dimension=0").tolist() == [0, 1]


def test_tuples() -> None:
    body = """p = s32[] parameter(0)
    t = (s32[], s32[]) tuple(p, p)
    ROOT r = s32[] get-tuple-element(t), index=1"""
    assert one(body, np.int32(3)) == 3


@pytest.mark.parametrize(("start", "want"), [(1, [1, 2]), (-5, [0, 1]), (9, [2, 3])])
def test_dynamic_slice_clamps(start: int, want: list[int]) -> None:
    body = """p = s32[4] parameter(0)
    i = s32[] parameter(1)
    ROOT r = s32[2] dynamic-slice(p, i), dynamic_slice_sizes={2}"""
    assert one(body, np.arange(4, dtype=np.int32), np.int32(start)).tolist() == want


def test_dynamic_slice_reads_unsigned_indices_and_the_old_vector_form() -> None:
    body = """p = s32[300] parameter(0)
    i = u8[] parameter(1)
    ROOT r = s32[2] dynamic-slice(p, i), dynamic_slice_sizes={2}"""
    assert one(body, np.arange(300, dtype=np.int32), np.uint8(200)).tolist() == [200, 201]
    body = """p = s32[2,3] parameter(0)
    i = s64[2] parameter(1)
    ROOT r = s32[1,2] dynamic-slice(p, i), dynamic_slice_sizes={1,2}"""
    assert one(body, X23, np.array([1, 7])).tolist() == [[4, 5]]


def test_dynamic_update_slice_clamps_and_copies() -> None:
    body = """p = s32[4] parameter(0)
    u = s32[2] parameter(1)
    i = s32[] parameter(2)
    ROOT r = s32[4] dynamic-update-slice(p, u, i)"""
    x = np.arange(4, dtype=np.int32)
    assert one(body, x, np.int32([8, 9]), np.int32(7)).tolist() == [0, 1, 8, 9]
    assert x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("padding", "want"),
    [
        ("1_2", [9, 0, 1, 2, 9, 9]),
        ("0_0_1", [0, 9, 1, 9, 2]),
        ("-1_0", [1, 2]),
        ("0_-2", [0]),
        ("-1_1_1", [9, 1, 9, 2, 9]),
        ("-2_-2_1", [1]),
        ("-3_1", [9]),
        ("-2_-1", []),
    ],
)
def test_pad(padding: str, want: list[int]) -> None:
    body = f"p = s32[3] parameter(0)\nv = s32[] constant(9)\nROOT r = s32[{len(want)}] pad(p, v), padding={padding}"
    assert one(body, np.arange(3, dtype=np.int32)).tolist() == want


def test_pad_of_an_empty_array() -> None:
    body = "p = s32[0] parameter(0)\nv = s32[] constant(9)\nROOT r = s32[2] pad(p, v), padding=1_1_3"
    assert one(body, np.zeros(0, np.int32)).tolist() == [9, 9]


def test_bitcast_goes_through_physical_layouts() -> None:
    body = "p = s32[2,3]{0,1} parameter(0)\nROOT r = s32[6]{0} bitcast(p)"
    assert one(body, X23).tolist() == [0, 3, 1, 4, 2, 5]
    body = "p = s32[2,3]{1,0} parameter(0)\nROOT r = s32[3,2]{0,1} bitcast(p)"
    assert one(body, X23).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_dynamic_sizes() -> None:
    body = """p = s32[4] parameter(0)
    n = s32[] parameter(1)
    d = s32[<=4] set-dimension-size(p, n), dimensions={0}
    q = s32[<=4] multiply(d, d)
    s = s32[] get-dimension-size(q), dimensions={0}
    ROOT r = (s32[<=4], s32[]) tuple(q, s)"""
    x = np.arange(1, 5, dtype=np.int32)
    values, size = run(body, x, np.int32(3))
    assert values.tolist() == [1, 4, 9]
    assert size == 3
    assert run(body, x, np.int32(100))[1] == 4  # never above the bound


def test_a_size_that_grows_again_reads_zeros() -> None:
    body = """p = s32[4,2] parameter(0)
    a = s32[] constant(1)
    b = s32[] constant(3)
    d = s32[<=4,2] set-dimension-size(p, a), dimensions={0}
    ROOT r = s32[<=4,2] set-dimension-size(d, b), dimensions={0}"""
    assert one(body, np.arange(8, dtype=np.int32).reshape(4, 2)).tolist() == [[0, 1], [0, 0], [0, 0]]


def test_dynamic_reshape() -> None:
    body = """p = s32[6] parameter(0)
    a = s32[] parameter(1)
    b = s32[] parameter(2)
    ROOT r = s32[<=3,<=2] dynamic-reshape(p, a, b)"""
    assert one(body, np.arange(6, dtype=np.int32), np.int32(3), np.int32(2)).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_dynamic_parameters_take_smaller_arrays() -> None:
    assert one("p = s32[<=4] parameter(0)\nROOT r = s32[<=4] negate(p)", np.int32([1, 2])).tolist() == [-1, -2]


def test_markers_and_async_copies_pass_values_on() -> None:
    body = """p = s32[2] parameter(0)
    s = (s32[2], s32[2], u32[]) copy-start(p)
    d = s32[2] copy-done(s)
    t = token[] after-all()
    a = s32[2] add-dependency(d, t)
    ROOT r = s32[2] domain(a), domain={kind="sharding", entry={}, exit={}}"""
    assert one(body, np.int32([1, 2])).tolist() == [1, 2]
