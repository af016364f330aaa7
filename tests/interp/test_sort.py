from __future__ import annotations

import math

import numpy as np
import pytest

from tests.interp.hlo import one, run
from xyla.formats.hlo_text import parse
from xyla.interp.session import Session
from xyla.interp.sort_keys import sort_keys

LESS = "c { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }"
TOTAL = LESS.replace("direction=LT", "direction=LT, type=TOTALORDER")
PAIR = """c {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  {body}
}}"""
LEXICOGRAPHIC = {
    "select": """eq = pred[] compare(a, b), direction=EQ
      lt = pred[] compare(a, b), direction=LT
      gt = pred[] compare(i, j), direction=GT
      ROOT r = pred[] select(eq, gt, lt)""",
    "or": """lt = pred[] compare(a, b), direction=LT
      eq = pred[] compare(b, a), direction=EQ
      gt = pred[] compare(j, i), direction=LT
      both = pred[] and(gt, eq)
      ROOT r = pred[] or(both, lt)""",
    "tie": """lt = pred[] compare(a, b), direction=LT
      tl = pred[] compare(b, a), direction=LT
      eq = pred[] compare(lt, tl), direction=EQ
      gt = pred[] compare(i, j), direction=GT
      ROOT r = pred[] select(eq, gt, lt)""",
    "ne": """ne = pred[] compare(b, a), direction=NE
      lt = pred[] compare(a, b), direction=LT
      gt = pred[] compare(i, j), direction=GT
      ROOT r = pred[] select(ne, lt, gt)""",
    # The same order written so that no key can be seen.
    "opaque": """lt = pred[] compare(a, b), direction=LT
      tl = pred[] compare(b, a), direction=LT
      nt = pred[] not(tl)
      gt = pred[] compare(i, j), direction=GT
      tie = pred[] and(nt, gt)
      ROOT r = pred[] or(lt, tie)""",
}


def recognised(comps: str) -> bool:
    module = parse(f"HloModule m\n{comps}\nENTRY e {{ ROOT z = s32[] constant(0) }}\n", "t")
    return sort_keys(module.computations["c"], Session()) is not None


def test_sort_along_either_dimension() -> None:
    x = np.float32([[3, 1, 2], [0, 5, 4]])
    body = "p = f32[2,3] parameter(0)\nROOT r = f32[2,3] sort(p), dimensions={{{}}}, to_apply=c"
    assert one(body.format(1), x, computations=LESS).tolist() == [[1, 2, 3], [0, 4, 5]]
    assert one(body.format(0), x, computations=LESS).tolist() == [[0, 1, 2], [3, 5, 4]]


def test_descending() -> None:
    body = "p = f32[4] parameter(0)\nROOT r = f32[4] sort(p), dimensions={0}, to_apply=c"
    x = np.float32([1, 3, 2, 3])
    assert one(body, x, computations=LESS.replace("LT", "GT")).tolist() == [3, 3, 2, 1]


def test_total_order_sorts_nan_and_zeros() -> None:
    body = "p = f32[5] parameter(0)\nROOT r = f32[5] sort(p), dimensions={0}, to_apply=c"
    got = one(body, np.float32([math.nan, 0.0, -0.0, math.inf, -1]), computations=TOTAL)
    assert str(got.tolist()) == "[-1.0, -0.0, 0.0, inf, nan]"


def test_a_sort_carries_its_other_operands_stably() -> None:
    comps = PAIR.format(body="ROOT r = pred[] compare(a, b), direction=LT")
    body = """p = f32[5] parameter(0)
    q = s32[5] iota(), iota_dimension=0
    ROOT r = (f32[5], s32[5]) sort(p, q), dimensions={0}, is_stable=true, to_apply=c"""
    values, where = run(body, np.float32([2, 1, 2, 1, 0]), computations=comps)
    assert values.tolist() == [0, 1, 1, 2, 2]
    assert where.tolist() == [4, 1, 3, 0, 2]


@pytest.mark.parametrize("spelling", LEXICOGRAPHIC)
@pytest.mark.parametrize("n", [1, 2, 7, 64, 1000])
def test_lexicographic_comparators(spelling: str, n: int) -> None:
    comps = PAIR.format(body=LEXICOGRAPHIC[spelling])
    assert recognised(comps) == (spelling != "opaque")
    rng = np.random.default_rng(n)
    x, y = rng.integers(0, 4, (2, n)).astype(np.float32), rng.integers(0, 9, (2, n)).astype(np.int32)
    body = f"""p = f32[2,{n}] parameter(0)
    q = s32[2,{n}] parameter(1)
    ROOT r = (f32[2,{n}], s32[2,{n}]) sort(p, q), dimensions={{1}}, to_apply=c"""
    values, second = run(body, x, y, computations=comps)
    for row in range(2):
        want = sorted(zip(x[row].tolist(), y[row].tolist(), strict=True), key=lambda t: (t[0], -t[1]))
        assert list(zip(values[row].tolist(), second[row].tolist(), strict=True)) == want


def test_comparators_of_computed_keys_are_recognised() -> None:
    comps = """c { a = f32[] parameter(0)
      b = f32[] parameter(1)
      x = f32[] abs(a)
      y = f32[] abs(b)
      ROOT r = pred[] compare(x, y), direction=LT }"""
    assert recognised(comps)
    body = "p = f32[3] parameter(0)\nROOT r = f32[3] sort(p), dimensions={0}, to_apply=c"
    assert one(body, np.float32([-3, 1, -2]), computations=comps).tolist() == [1, -2, -3]


def test_keys_that_differ_between_the_sides_are_not() -> None:
    comps = """c { a = f32[] parameter(0)
      b = f32[] parameter(1)
      x = f32[] abs(a)
      y = f32[] negate(b)
      ROOT r = pred[] compare(x, y), direction=LT }"""
    assert not recognised(comps)


def test_a_comparator_that_is_no_order_still_ends_with_a_permutation() -> None:
    comps = "c { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] constant(true) }"
    body = "p = f32[9] parameter(0)\nROOT r = f32[9] sort(p), dimensions={0}, to_apply=c"
    assert sorted(one(body, np.arange(9, dtype=np.float32), computations=comps).tolist()) == list(range(9))


def test_a_comparator_that_cannot_be_batched() -> None:
    comps = """c { a = f32[] parameter(0)
      b = f32[] parameter(1)
      v = f32[2] broadcast(a), dimensions={}
      i = s32[] constant(1)
      s = f32[1] dynamic-slice(v, i), dynamic_slice_sizes={1}
      t = f32[] reshape(s)
      ROOT r = pred[] compare(t, b), direction=LT }"""
    body = "p = f32[4] parameter(0)\nROOT r = f32[4] sort(p), dimensions={0}, to_apply=c"
    assert one(body, np.float32([3, 1, 2, 0]), computations=comps).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("n", [6, 100])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_breaks_ties_by_index(n: int, largest: bool) -> None:
    x = np.zeros((1, n), np.float32)
    x[0, [4, 2]] = 5 if largest else -5
    body = f"p = f32[1,{n}] parameter(0)\nROOT r = (f32[1,3], s32[1,3]) topk(p), k=3, largest={str(largest).lower()}"
    values, where = run(body, x)
    assert np.abs(values).tolist() == [[5, 5, 0]]
    assert where.tolist() == [[2, 4, 0]]
