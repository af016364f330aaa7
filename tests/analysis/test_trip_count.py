"""Trip counts found by running a loop, and counters merged, against the evaluator's run of the whole loop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from xyla import interp
from xyla.analysis.trip_count import count_by_running
from xyla.formats.hlo_text import parse
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Instruction, Module
from xyla.interp.api import Evaluator
from xyla.passes.simplify_while_loops import SimplifyWhileLoops
from xyla.passes.while_loop_trip_count_annotator import WhileLoopTripCountAnnotator
from xyla.passmgr.context import PassContext
from xyla.testing.pass_check import check_pass

# The state is (x, turns); the body counts turns, so that the evaluator says how often it runs.
LOOP = """
HloModule loop
cond {
  p = (TYPE[], s32[]) parameter(0)
  x = TYPE[] get-tuple-element(p), index=0
  n = TYPE[] constant(BOUND)
  ROOT goes_on = pred[] compare(x, n), direction=DIRECTION
}
body {
  p = (TYPE[], s32[]) parameter(0)
  x = TYPE[] get-tuple-element(p), index=0
  turns = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  more = s32[] add(turns, one)
  s = TYPE[] constant(STEP)
  y = TYPE[] OP(x, s)
  ROOT t = (TYPE[], s32[]) tuple(y, more)
}
ENTRY main {
  z = TYPE[] constant(INIT)
  zero = s32[] constant(0)
  init = (TYPE[], s32[]) tuple(z, zero)
  ROOT w = (TYPE[], s32[]) while(init), condition=cond, body=body
}
"""


def loop(type_: str, op: str, init: object, step: object, direction: str, bound: object) -> Module:
    words = {"TYPE": type_, "BOUND": bound, "STEP": step, "DIRECTION": direction, "INIT": init, "OP": op}
    text = LOOP
    for word, value in words.items():
        text = text.replace(word, str(value))
    return parse(text)


@pytest.mark.parametrize(
    "module",
    [
        loop("s32", "multiply", 3, 5, "GT", 0),  # until it overflows to a negative number
        loop("u8", "add", 200, 9, "GE", 200),
        loop("s8", "subtract", -100, 3, "LT", 0),
        loop("s32", "shift-left", 1, 1, "NE", 0),
        loop("u32", "divide", 4000000000, 7, "GT", 0),
        loop("f32", "multiply", 1, 0.75, "GT", 1e-3),
        loop("f64", "divide", 1e300, "-inf", "NE", 0),
        loop("f32", "add", 0, "0.1", "LT", 5),
    ],
)
def test_running_gives_the_trip_count_of_the_evaluator(module: Module) -> None:
    _, turns = interp.run(module, [])
    assert count_by_running(module.entry.root, Evaluator().evaluate_instruction) == turns


def no_evaluation(inst: Instruction, operands: Sequence[Any]) -> Any:
    raise AssertionError(f"{inst} is evaluated")


@pytest.mark.parametrize(
    "module",
    [
        loop("f32", "power", 1, 2, "LT", 2),  # rounds by the target's library
        loop("bf16", "add", 0, 1, "LT", 2),  # may be computed in a wider type
    ],
)
def test_what_another_target_may_round_otherwise_is_not_run(module: Module) -> None:
    assert count_by_running(module.entry.root, no_evaluation) is None


@pytest.mark.parametrize("steps", [0, 1, 9, 10])
def test_the_number_of_steps_is_bounded(steps: int) -> None:
    module = loop("s32", "add", 0, 1, "LT", 10)
    found = count_by_running(module.entry.root, Evaluator().evaluate_instruction, steps)
    assert found == (10 if steps == 10 else None)


MERGED = """
HloModule merged
cond {
  p = (TYPE[], OTHER[], TYPE[]) parameter(0)
  i = TYPE[] get-tuple-element(p), index=0
  n = TYPE[] constant(11)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  p = (TYPE[], OTHER[], TYPE[]) parameter(0)
  i = TYPE[] get-tuple-element(p), index=0
  j = OTHER[] get-tuple-element(p), index=1
  v = TYPE[] get-tuple-element(p), index=2
  one = TYPE[] constant(2)
  s = OTHER[] constant(STEP)
  k = TYPE[] add(i, one)
  l = OTHER[] add(j, s)
  wide = TYPE[] convert(j)
  two = TYPE[] constant(3)
  scaled = TYPE[] multiply(v, two)
  sum = TYPE[] add(scaled, wide)
  ROOT t = (TYPE[], OTHER[], TYPE[]) tuple(k, l, sum)
}
ENTRY main {
  a = TYPE[] constant(1)
  b = OTHER[] constant(START)
  v = TYPE[] parameter(0)
  init = (TYPE[], OTHER[], TYPE[]) tuple(a, b, v)
  ROOT w = (TYPE[], OTHER[], TYPE[]) while(init), condition=cond, body=body
}
"""


@pytest.mark.parametrize(
    ("type_", "other", "start", "step", "merges"),
    [
        ("s32", "s32", 7, 2, True),
        ("s32", "s8", 127, 100, True),  # wraps round within the loop
        ("s8", "u8", 250, 254, True),
        ("u16", "s8", -128, -6, True),
        ("s64", "u32", 4294967295, 4, True),
        ("s32", "s32", 2147483647, -2, True),
        ("s32", "s32", 7, 3, False),  # no multiple of 2
        ("s8", "s32", 7, 2, False),  # the wider counter overflows later
    ],
)
def test_merged_counters_wrap_round_as_they_did(type_: str, other: str, start: int, step: int, merges: bool) -> None:
    text = MERGED.replace("TYPE", type_).replace("OTHER", other)
    module = parse(text.replace("START", str(start)).replace("STEP", str(step)))
    values = [np.asarray(v, module.entry.parameters[0].shape.element_type.np) for v in (0, 77)]
    for value in values:
        outcome = check_pass(SimplifyWhileLoops(), module, [value])
        rules = {rule for _, rule in outcome.counts}
        assert ("merge-induction-variables" in rules) is merges


def test_many_loops_that_do_not_end_soon_cost_little() -> None:
    """Each would be run for 128 steps, which adds up: a pass stops running loops when its budget is used up."""
    module = loop("s32", "multiply", 1, 1, "NE", 0)  # 1 for ever, which no pattern tells
    first = module.entry.root
    parts = first.operands[0].operands
    for _ in range(400):
        # Initial states of their own, so that nothing is remembered from one loop to the next.
        start = rewriter.create(module.entry, ops.TUPLE, parts)
        rewriter.create(module.entry, ops.WHILE, [start], called=first.called)
    began = time.process_time()
    assert not WhileLoopTripCountAnnotator().run(module, PassContext())
    assert time.process_time() - began < 1.5
