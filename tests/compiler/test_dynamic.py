"""Bounded dynamic dimensions, compiled: arguments and results of any size up to the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xyla
from xyla import interp
from xyla.compiler.driver import Compilation
from xyla.support.status import Status, XylaError

SUM = """
add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
"""
SCALED = f"""HloModule scaled
{SUM}
ENTRY e {{ x = f32[<=8] parameter(0)
          zero = f32[] constant(0)
          y = f32[<=8] exponential(x)
          s = f32[] reduce(y, zero), dimensions={{0}}, to_apply=add
          n = s32[] get-dimension-size(x), dimensions={{0}}
          inner = (f32[], s32[]) tuple(s, n)
          ROOT t = (f32[<=8], (f32[], s32[])) tuple(y, inner) }}
"""


def check(text: str, *args: Any) -> None:
    """Compiled natively, it gives what the evaluator gives, shapes included."""
    module = xyla.load(text)
    executable = Compilation(module).executable
    assert executable.stats.handlers == []
    want = interp.run(module, args)
    got = executable(*args)
    assert [g.shape for g in got] == [w.shape for w in want]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6)


@pytest.mark.parametrize("size", [0, 1, 5, 8])
def test_arguments_and_results_of_any_size(size: int) -> None:
    check(SCALED, np.arange(size, dtype=np.float32))


def test_a_size_set_inside() -> None:
    text = """HloModule m
ENTRY e { x = f32[4,8] parameter(0)
          n = s32[] parameter(1)
          d = f32[4,<=8] set-dimension-size(x, n), dimensions={1}
          ROOT y = f32[4,<=8] add(d, d) }
"""
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    for n in (0, 3, 8):
        check(text, x, np.int32(n))


def test_elements_of_a_tuple_parameter() -> None:
    text = """HloModule m
ENTRY e { p = (f32[<=4], (s32[], f32[<=3,<=2])) parameter(0)
          q = (s32[], f32[<=3,<=2]) get-tuple-element(p), index=1
          x = f32[<=4] get-tuple-element(p), index=0
          y = f32[<=3,<=2] get-tuple-element(q), index=1
          nx = f32[<=4] negate(x)
          ny = f32[<=3,<=2] negate(y)
          ROOT t = (f32[<=3,<=2], f32[<=4]) tuple(ny, nx) }
"""
    check(text, np.ones(2, np.float32), np.int32(7), np.ones((3, 1), np.float32))


def test_a_size_past_the_bound_is_refused() -> None:
    text = "HloModule m\nENTRY e { x = f32[<=4] parameter(0)\n ROOT y = f32[<=4] negate(x) }"
    for wrong in (np.ones(5, np.float32), np.ones((2, 2), np.float32)):
        with pytest.raises(XylaError, match=r"parameter 0 .* expected f32\[<=4\]") as caught:
            xyla.compile(text)(wrong)
        assert caught.value.status is Status.INVALID_ARGUMENT
    with pytest.raises(XylaError, match="takes 1 arguments, 2 given"):
        xyla.compile(text)(np.ones(2, np.float32), np.int32(2))


def test_what_cannot_be_padded_says_so() -> None:
    text = """HloModule m
ENTRY e { x = f32[<=4] parameter(0)
          i = s32[1] parameter(1)
          ROOT g = f32[1] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
            index_vector_dim=1, slice_sizes={1} }
"""
    executable = xyla.compile(text.replace("i = s32[1]", "i = s32[1,1]"))
    ((_, reason),) = executable.stats.handlers
    assert "dimensions of dynamic size: dynamic-padder" in reason
