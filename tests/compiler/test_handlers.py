"""Work without native code: what is saved of it does the same."""

from __future__ import annotations

import numpy as np

import xyla
from xyla.compiler.handlers import EVALUATE, handler_for
from xyla.runtime.custom_calls import CallContext, handler_of
from xyla.runtime.program import CustomCallStep
from xyla.runtime.run_options import DEFAULT_OPTIONS

SORT = """HloModule m
less { a = f32[] parameter(0)
       b = f32[] parameter(1)
       ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[4] parameter(0)
          ROOT s = f32[4] sort(x), dimensions={0}, to_apply=less }
"""


def test_a_saved_handler_does_what_the_prepared_one_does() -> None:
    unit = handler_for(xyla.load(SORT).entry.root, "test")
    loaded = handler_of(CustomCallStep("s", unit.target, (), (), unit.attributes))
    context = CallContext(DEFAULT_OPTIONS, "s")
    x = np.array([3, 1, 2, 0], np.float32)
    assert unit.target == EVALUATE
    for handler in (unit.handler, loaded):
        assert handler is not None
        np.testing.assert_array_equal(handler(context, [x])[0], np.sort(x))
