"""A comparator that contradicts itself still gives a permutation."""

from __future__ import annotations

import numpy as np

from xyla import interp

_TEXT = """HloModule m
odd {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  f = pred[] compare(a, b), direction=LT
  g = pred[] compare(b, a), direction=LT
  e = pred[] compare(f, g), direction=EQ
  t = pred[] compare(i, j), direction=LT
  ROOT r = pred[] select(e, t, f)
}
ENTRY e {
  x = f32[2,40] parameter(0)
  n = s32[2,40] iota(), iota_dimension=1
  ROOT s = (f32[2,40], s32[2,40]) sort(x, n), dimensions={1}, to_apply=odd
}
"""


def test_nan_between_numbers_does_not_break_a_sort_with_ties() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 40)).astype(np.float32)
    x[:, rng.permutation(40)[:15]] = np.nan
    values, places = interp.run(_TEXT, [x])
    assert all(np.array_equal(np.sort(row), np.arange(40)) for row in places)
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, axis=1))
