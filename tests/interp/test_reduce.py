from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.interp.hlo import one, run


def reducer(op: str, dtype: str) -> str:
    return f"f {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT r = {dtype}[] {op}(a, b) }}"


X = np.float32([[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize(
    ("op", "init", "dims", "shape", "want"),
    [
        ("add", 0, "1", "2", [6, 15]),
        ("add", 10, "0", "3", [15, 17, 19]),
        ("add", 0, "0,1", "", 21),
        ("multiply", 2, "1", "2", [12, 240]),
        ("maximum", -9, "0", "3", [4, 5, 6]),
        ("minimum", 2, "1", "2", [1, 2]),
        ("subtract", 100, "1", "2", [94, 85]),
        ("add", 1, "", "2,3", [[2, 3, 4], [5, 6, 7]]),
    ],
)
def test_reduce(op: str, init: float, dims: str, shape: str, want: object) -> None:
    body = f"""p = f32[2,3] parameter(0)
    i = f32[] constant({init})
    ROOT r = f32[{shape}] reduce(p, i), dimensions={{{dims}}}, to_apply=f"""
    assert one(body, X, computations=reducer(op, "f32")).tolist() == want


def test_reduce_of_nothing_is_the_init_value() -> None:
    body = "p = f32[2,0] parameter(0)\ni = f32[] constant(7)\nROOT r = f32[2] reduce(p, i), dimensions={1}, to_apply=f"
    assert one(body, np.zeros((2, 0), np.float32), computations=reducer("add", "f32")).tolist() == [7, 7]


@pytest.mark.parametrize(("op", "want"), [("add", 3.0), ("maximum", 1.0), ("multiply", 0.0)])
def test_long_reductions(op: str, want: float) -> None:
    x = np.zeros(5000, np.float32)
    x[[3, 77, 4999]] = 1
    body = "p = f32[5000] parameter(0)\ni = f32[] constant(0)\nROOT r = f32[] reduce(p, i), dimensions={0}, to_apply=f"
    assert one(body, x, computations=reducer(op, "f32")) == want


def test_a_long_sum_rounds_once() -> None:
    x = np.full(4096, 0.1, np.float32)
    body = "p = f32[4096] parameter(0)\ni = f32[] constant(0)\nROOT r = f32[] reduce(p, i), dimensions={0}, to_apply=f"
    assert one(body, x, computations=reducer("add", "f32")) == np.float32(4096 * np.float64(np.float32(0.1)))


def test_maximum_keeps_nan_and_integers_wrap() -> None:
    body = "p = f32[3] parameter(0)\ni = f32[] constant(0)\nROOT r = f32[] reduce(p, i), dimensions={0}, to_apply=f"
    assert np.isnan(one(body, np.float32([1, np.nan, 2]), computations=reducer("maximum", "f32")))
    body = "p = s8[3] parameter(0)\ni = s8[] constant(0)\nROOT r = s8[] reduce(p, i), dimensions={0}, to_apply=f"
    assert one(body, np.int8([100, 100, 100]), computations=reducer("add", "s8")) == 44


def test_pred_reductions() -> None:
    body = "p = pred[2,2] parameter(0)\ni = pred[] constant(false)\n"
    body += "ROOT r = pred[2] reduce(p, i), dimensions={1}, to_apply=f"
    x = np.array([[True, False], [False, False]])
    assert one(body, x, computations=reducer("or", "pred")).tolist() == [True, False]


ARGMAX = """f {
  v0 = f32[] parameter(0)
  i0 = s32[] parameter(1)
  v1 = f32[] parameter(2)
  i1 = s32[] parameter(3)
  ge = pred[] compare(v0, v1), direction=GE
  v = f32[] select(ge, v0, v1)
  i = s32[] select(ge, i0, i1)
  ROOT r = (f32[], s32[]) tuple(v, i)
}"""


@pytest.mark.parametrize("n", [5, 9000])
def test_variadic_reduce(n: int) -> None:
    x = np.zeros((2, n), np.float32)
    x[0, 3], x[1, 1] = 7, 8
    body = f"""p = f32[2,{n}] parameter(0)
    q = s32[2,{n}] iota(), iota_dimension=1
    a = f32[] constant(-inf)
    b = s32[] constant(0)
    ROOT r = (f32[2], s32[2]) reduce(p, q, a, b), dimensions={{1}}, to_apply=f"""
    values, where = run(body, x, computations=ARGMAX)
    assert values.tolist() == [7, 8]
    assert where.tolist() == [3, 1]


def test_a_reducer_with_a_branch() -> None:
    comps = """t { p = f32[] parameter(0) ROOT r = f32[] negate(p) }
    u { p = f32[] parameter(0) ROOT r = f32[] copy(p) }
    f { a = f32[] parameter(0)
      b = f32[] parameter(1)
      z = f32[] constant(0)
      n = pred[] compare(b, z), direction=LT
      m = f32[] conditional(n, b, b), true_computation=t, false_computation=u
      ROOT r = f32[] add(a, m) }"""
    body = "p = f32[3] parameter(0)\ni = f32[] constant(0)\nROOT r = f32[] reduce(p, i), dimensions={0}, to_apply=f"
    assert one(body, np.float32([1, -2, 3]), computations=comps) == 6


def test_a_reducer_that_cannot_be_batched() -> None:
    comps = """f { a = f32[] parameter(0)
      b = f32[] parameter(1)
      v = f32[2] broadcast(b), dimensions={}
      i = s32[] constant(0)
      s = f32[1] dynamic-slice(v, i), dynamic_slice_sizes={1}
      t = f32[] reshape(s)
      ROOT r = f32[] add(a, t) }"""
    body = "p = f32[2,3] parameter(0)\ni = f32[] constant(0)\nROOT r = f32[2] reduce(p, i), dimensions={1}, to_apply=f"
    assert one(body, X, computations=comps).tolist() == [6, 15]


def test_short_bf16_sums_round_at_each_step() -> None:
    bf16 = ml_dtypes.bfloat16
    # 256 + 1 is a tie to even in bf16 (8 bits), each time: the sum stays.
    body = (
        "p = bf16[3] parameter(0)\ni = bf16[] constant(256)\nROOT r = bf16[] reduce(p, i), dimensions={0}, to_apply=f"
    )
    assert float(one(body, np.ones(3, bf16), computations=reducer("add", "bf16"))) == 256


@pytest.mark.parametrize(
    ("window", "want"),
    [
        ("size=2", [1, 3, 5, 7]),
        ("size=2 stride=2", [1, 5]),
        ("size=2 pad=1_0", [0, 1, 3, 5, 7]),
        ("size=2 rhs_dilate=2", [2, 4, 6]),
        ("size=2 lhs_dilate=2", [0, 1, 1, 2, 2, 3, 3, 4]),
        ("size=2 pad=-1_0", [3, 5, 7]),
        ("size=5 pad=4_0", [0, 1, 3, 6, 10]),
        ("size=5 pad=0_4", [10, 10, 9, 7, 4]),
    ],
)
def test_reduce_window(window: str, want: list[float]) -> None:
    body = f"""p = f32[5] parameter(0)
    i = f32[] constant(0)
    ROOT r = f32[{len(want)}] reduce-window(p, i), window={{{window}}}, to_apply=f"""
    assert one(body, np.arange(5, dtype=np.float32), computations=reducer("add", "f32")).tolist() == want


@pytest.mark.parametrize(("size", "dilate", "stride"), [(33, 1, 1), (40, 2, 3), (64, 1, 2), (47, 1, 5)])
def test_large_windows(size: int, dilate: int, stride: int) -> None:
    x = np.random.default_rng(0).integers(0, 100, (3, 200)).astype(np.int32)
    span = (size - 1) * dilate + 1
    padded = np.pad(x, ((0, 0), (7, 5)))
    n = (212 - span) // stride + 1
    want = [[padded[r, s * stride : s * stride + span : dilate].sum() for s in range(n)] for r in range(3)]
    body = f"""p = s32[3,200] parameter(0)
    i = s32[] constant(0)
    ROOT r = s32[3,{n}] reduce-window(p, i), to_apply=f,
      window={{size=1x{size} stride=1x{stride} pad=0_0x7_5 rhs_dilate=1x{dilate}}}"""
    assert one(body, x, computations=reducer("add", "s32")).tolist() == np.array(want).tolist()


def test_large_windows_of_any_reducer_keep_the_order() -> None:
    # first(a, b) = a is associative but not commutative.
    comps = "f { a = s32[] parameter(0) b = s32[] parameter(1) z = s32[] constant(0)\n"
    comps += "n = pred[] compare(a, z), direction=NE\nROOT r = s32[] select(n, a, b) }"
    x = np.arange(1, 101, dtype=np.int32)
    body = "p = s32[100] parameter(0)\ni = s32[] constant(0)\n"
    body += "ROOT r = s32[61] reduce-window(p, i), window={size=40}, to_apply=f"
    assert one(body, x, computations=comps).tolist() == list(range(1, 62))


def test_variadic_reduce_window() -> None:
    body = """p = f32[4] parameter(0)
    q = s32[4] iota(), iota_dimension=0
    a = f32[] constant(-inf)
    b = s32[] constant(-1)
    ROOT r = (f32[3], s32[3]) reduce-window(p, q, a, b), window={size=2}, to_apply=f"""
    values, where = run(body, np.float32([3, 1, 2, 5]), computations=ARGMAX)
    assert values.tolist() == [3, 2, 5]
    assert where.tolist() == [0, 2, 3]


def test_select_and_scatter() -> None:
    comps = (
        reducer("add", "f32").replace("f {", "s {")
        + """
    g { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = pred[] compare(a, b), direction=GE }"""
    )
    body = """p = f32[4] parameter(0)
    u = f32[3] parameter(1)
    i = f32[] constant(0)
    ROOT r = f32[4] select-and-scatter(p, u, i), window={size=2}, select=g, scatter=s"""
    got = one(body, np.float32([1, 5, 5, 2]), np.float32([10, 20, 30]), computations=comps)
    assert got.tolist() == [0, 30, 30, 0]  # windows choose 1, 1 (the first of equals), 2


def test_select_and_scatter_ignores_padding() -> None:
    comps = (
        reducer("add", "f32").replace("f {", "s {")
        + """
    g { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = pred[] compare(a, b), direction=GE }"""
    )
    body = """p = f32[2] parameter(0)
    u = f32[3] parameter(1)
    i = f32[] constant(0.5)
    ROOT r = f32[2] select-and-scatter(p, u, i), window={size=2 pad=1_1}, select=g, scatter=s"""
    got = one(body, np.float32([-4, -3]), np.float32([1, 2, 4]), computations=comps)
    assert got.tolist() == [1.5, 6.5]


def test_scan() -> None:
    comps = """f { x = f32[] parameter(0)
      c = f32[] parameter(1)
      s = f32[] add(x, c)
      ROOT r = (f32[], f32[]) tuple(s, s) }"""
    body = """p = f32[4] parameter(0)
    i = f32[] constant(10)
    ROOT r = (f32[4], f32[]) scan(p, i), dimensions={0}, num_carries=1, to_apply=f"""
    out, last = run(body, np.float32([1, 2, 3, 4]), computations=comps)
    assert out.tolist() == [11, 13, 16, 20]
    assert last == 20
    out, last = run(
        body.replace("num_carries=1", "num_carries=1, is_reverse=true"), np.float32([1, 2, 3, 4]), computations=comps
    )
    assert out.tolist() == [20, 19, 17, 14]
    assert last == 20


def test_map() -> None:
    comps = "f { a = s32[] parameter(0) b = s32[] parameter(1) m = s32[] multiply(a, a) ROOT r = s32[] subtract(m, b) }"
    body = "p = s32[2] parameter(0)\nq = s32[2] parameter(1)\nROOT r = s32[2] map(p, q), dimensions={0}, to_apply=f"
    assert one(body, np.int32([3, 4]), np.int32([1, 2]), computations=comps).tolist() == [8, 14]


def test_windows_of_many_small_sides() -> None:
    x = np.random.default_rng(1).integers(0, 50, (21, 30)).astype(np.int32)
    body = """p = s32[21,30] parameter(0)
    i = s32[] constant(0)
    ROOT r = s32[5,12] reduce-window(p, i), window={size=8x7 stride=3x2}, to_apply=f"""
    got = one(body, x, computations=reducer("add", "s32"))
    want = [[x[3 * r : 3 * r + 8, 2 * c : 2 * c + 7].sum() for c in range(12)] for r in range(5)]
    assert got.tolist() == np.array(want).tolist()
