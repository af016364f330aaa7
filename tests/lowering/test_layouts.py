"""A value handed on through tuples, calls, loops and branches keeps its meaning whatever layouts the shapes state."""

from __future__ import annotations

import numpy as np
import pytest

import xyla
from xyla.compiler.driver import compile_module
from xyla.formats.hlo_text import parse

X = np.arange(12, dtype=np.float32).reshape(3, 4)

HEAD = """HloModule m
twice {
  p = f32[3,4]{0,1} parameter(0)
  ROOT r = f32[3,4] add(p, p)
}
less {
  s = (s32[], f32[3,4]{0,1}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[3,4]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[3,4]{1,0} get-tuple-element(s), index=1
  w = f32[3,4]{0,1} add(v, v)
  ROOT t = (s32[], f32[3,4]{1,0}) tuple(j, w)
}
"""


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("t = (f32[3,4]) tuple(y)\n ROOT r = f32[3,4] get-tuple-element(t), index=0", X),
        ("c = f32[3,4]{0,1} call(x), to_apply=twice\n ROOT r = (f32[3,4]) tuple(c)", 2 * X),
        ("b = f32[3,4] opt-barrier(y)\n ROOT r = f32[3,4] negate(b)", -X),
        (
            "z = s32[] constant(0)\n t = (s32[], f32[3,4]) tuple(z, y)\n"
            "w = (s32[], f32[3,4]{0,1}) while(t), condition=less, body=body\n"
            "ROOT r = f32[3,4]{1,0} get-tuple-element(w), index=1",
            8 * X,
        ),
        (
            "t = pred[] constant(true)\n"
            "ROOT c = f32[3,4]{0,1} conditional(t, x, y), true_computation=twice, false_computation=twice",
            2 * X,
        ),
        ("ROOT f = f32[3,4]{0,1} fusion(x), kind=kLoop, calls=twice", 2 * X),
    ],
)
def test_layouts_are_reconciled(body: str, want: np.ndarray) -> None:
    text = HEAD + "ENTRY e {\n x = f32[3,4] parameter(0)\n y = f32[3,4]{0,1} copy(x)\n " + body + "\n}"
    module = parse(text)
    for scheduled in (False, True):
        module.config.is_scheduled = scheduled
        for passes in ("none", "default"):
            (out,) = compile_module(module, passes=passes)(X)
            np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(xyla.interp.run(module, [X])[0], want)
