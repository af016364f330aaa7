from __future__ import annotations

import numpy as np
import pytest

from tests.interp.hlo import one, run
from xyla.support.status import Status, XylaError

COUNT = """cond { s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  o = s32[] constant(2)
  j = s32[] add(i, o)
  y = f32[] add(x, x)
  ROOT r = (s32[], f32[]) tuple(j, y) }"""


def test_while_trip_counts_round_up() -> None:
    body = """x = f32[] parameter(0)
    z = s32[] constant(0)
    s = (s32[], f32[]) tuple(z, x)
    ROOT r = (s32[], f32[]) while(s), condition=cond, body=body"""
    i, x = run(body, np.float32(1), computations=COUNT)
    assert i == 6
    assert x == 8


BRANCHES = "\n".join(
    f"b{i} {{ p = s32[] parameter(0) c = s32[] constant({10**i}) ROOT r = s32[] add(p, c) }}" for i in range(3)
)


@pytest.mark.parametrize(("index", "want"), [(0, 1), (1, 11), (2, 102), (-1, 102), (3, 102)])
def test_indexed_conditional(index: int, want: int) -> None:
    body = """i = s32[] parameter(0)
    a = s32[] constant(0)
    b = s32[] constant(1)
    c = s32[] constant(2)
    ROOT r = s32[] conditional(i, a, b, c), branch_computations={b0, b1, b2}"""
    assert one(body, np.int32(index), computations=BRANCHES) == want


@pytest.mark.parametrize(("pred", "want"), [(True, 8), (False, 19)])
def test_predicated_conditional(pred: bool, want: int) -> None:
    body = """p = pred[] parameter(0)
    a = s32[] constant(7)
    b = s32[] constant(9)
    ROOT r = s32[] conditional(p, a, b), true_computation=b0, false_computation=b1"""
    assert one(body, np.array(pred), computations=BRANCHES) == want


def test_call_and_fusion() -> None:
    body = """p = s32[] parameter(0)
    a = s32[] call(p), to_apply=b1
    ROOT r = s32[] fusion(a), kind=kLoop, calls=b2"""
    assert one(body, np.int32(0), computations=BRANCHES) == 110


def test_async_wrappers_run_at_the_start() -> None:
    body = """p = s32[] parameter(0)
    s = ((s32[]), s32[], u32[]) async-start(p), calls=b1
    u = ((s32[]), s32[], u32[]) async-update(s)
    ROOT r = s32[] async-done(u)"""
    assert one(body, np.int32(5), computations=BRANCHES) == 15


def test_feeds() -> None:
    body = """t = token[] after-all()
    f = (s32[2], token[]) infeed(t)
    x = s32[2] get-tuple-element(f), index=0
    u = token[] get-tuple-element(f), index=1
    y = s32[2] add(x, x)
    b = (s32[2], s32[2]) tuple(x, y)
    o = token[] outfeed(b, u), outfeed_shape=(s32[2], s32[2])
    ROOT c = s32[] constant(1)"""
    out: list[object] = []
    assert one(body, infeed=[np.int32([1, 2])], outfeed=out) == 1  # the outfeed runs although nobody uses it
    ((x, y),) = out
    assert x.tolist() == [1, 2]
    assert y.tolist() == [2, 4]
    with pytest.raises(XylaError) as e:
        run(body)
    assert e.value.status is Status.INVALID_ARGUMENT
    assert "fed nothing more" in e.value.message


def test_errors_are_located_at_the_instruction() -> None:
    with pytest.raises(XylaError) as e:
        run('p = s32[] parameter(0)\nROOT r = s32[] custom-call(p), custom_call_target="x"', np.int32(0))
    assert "test:5:" in e.value.render()
    assert "ROOT r" in e.value.render()
