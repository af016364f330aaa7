"""One random state an execution: compiled programs draw what the evaluator draws, each time they run."""

from __future__ import annotations

import numpy as np

import xyla
from xyla import interp
from xyla.formats.hlo_text import parse
from xyla.passes.rng_expander import RngExpander
from xyla.testing.pass_check import apply_pass

DRAWS = """
HloModule draws
noise {
  p = f32[] parameter(0)
  q = f32[] constant(0)
  a = f32[8] rng(q, p), distribution=rng_uniform
  b = f32[8] rng(q, p), distribution=rng_uniform
  ROOT c = f32[8] add(a, b)
}
ENTRY main {
  x = f32[] parameter(0)
  z = f32[] constant(0)
  a = f32[8] rng(z, x), distribution=rng_uniform
  b = f32[8] call(x), to_apply=noise
  c = f32[8] call(x), to_apply=noise
  d = f32[8] rng(z, x), distribution=rng_uniform
  ROOT t = (f32[8], f32[8], f32[8], f32[8]) tuple(d, c, b, a)
}
"""


def test_expanded_draws_are_equal_compiled_and_evaluated() -> None:
    module = apply_pass(RngExpander(), parse(DRAWS)).module
    want = interp.run(module, [np.float32(3)])
    assert len({w.tobytes() for w in want}) == 4
    for program in (xyla.compile(module, passes="none"), xyla.compile(module)):
        for _ in range(2):
            for got, expected in zip(program(np.float32(3)), want, strict=True):
                np.testing.assert_array_equal(got, expected)


def test_draws_that_are_not_expanded_start_anew_in_each_execution() -> None:
    module = parse(DRAWS)
    want = interp.run(module, [np.float32(2)])
    program = xyla.compile(module, passes="none")
    for _ in range(2):
        for got, expected in zip(program(np.float32(2)), want, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_states_are_read_in_one_order_also_by_calls() -> None:
    module = apply_pass(RngExpander(), parse(DRAWS)).module
    ordered = [i for i in module.entry.instructions if i.control_predecessors or i.control_successors]
    calls = [i.name for i in ordered if i.called]
    assert calls == ["b", "c"]
    assert len(ordered) == 4
