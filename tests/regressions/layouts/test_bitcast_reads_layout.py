"""A bitcast reads its operand's layout: what passes put in the operand's place must not change the result."""

from __future__ import annotations

import numpy as np
import pytest

import xyla

CALLEE = """f {
  p = f32[3,5]{1,0} parameter(0)
  ROOT b = f32[15] bitcast(p)
}
"""
PROGRAMS = {
    "copy": (
        "",
        """c = f32[3,5]{1,0} copy(p)
  ROOT r = f32[15] bitcast(c)""",
    ),
    "call": (CALLEE, "ROOT r = f32[15] call(p), to_apply=f"),
    "fusion": (CALLEE, "ROOT r = f32[15] fusion(p), kind=kLoop, calls=f"),
    "tuple": (
        "",
        """t = (f32[3,5]{1,0}) tuple(p)
  g = f32[3,5]{1,0} get-tuple-element(t), index=0
  ROOT r = f32[15] bitcast(g)""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("passes", ["default", "none"])
def test_what_lies_before_a_bitcast(name: str, passes: str) -> None:
    callee, body = PROGRAMS[name]
    text = f"HloModule m\n{callee}ENTRY main {{\n  p = f32[3,5]{{0,1}} parameter(0)\n  {body}\n}}\n"
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(xyla.compile(text, passes=passes)(x)[0], x.ravel())
    np.testing.assert_array_equal(xyla.interp.run(text, [x])[0], x.ravel())
