"""Trip counts against running the loop; equivalence, purity and cost of computations."""

from __future__ import annotations

from itertools import product

import pytest

from xyla.analysis.cost import UNBOUNDED_WORK, Work
from xyla.analysis.equivalence import Equivalence
from xyla.analysis.purity import Purity
from xyla.analysis.while_loops import count_trips, decides, find_induction
from xyla.formats.hlo_text import parse
from xyla.hlo.attr_types import ComparisonDirection as Direction
from xyla.hlo.module import Module

LOOP = """
HloModule loop
cond {
  p = (TYPE[], f32[]) parameter(0)
  i = TYPE[] get-tuple-element(p), index=0
  n = TYPE[] constant(BOUND)
  ROOT less = pred[] compare(i, n), direction=DIRECTION
}
body {
  p = (TYPE[], f32[]) parameter(0)
  i = TYPE[] get-tuple-element(p), index=0
  v = f32[] get-tuple-element(p), index=1
  s = TYPE[] constant(STEP)
  j = TYPE[] OP(i, s)
  w = f32[] sine(v)
  ROOT t = (TYPE[], f32[]) tuple(j, w)
}
ENTRY main {
  x = f32[] parameter(0)
  z = TYPE[] constant(INIT)
  init = (TYPE[], f32[]) tuple(z, x)
  ROOT w = (TYPE[], f32[]) while(init), condition=cond, body=body
}
"""
HOLDS = {
    Direction.LT: int.__lt__,
    Direction.LE: int.__le__,
    Direction.GT: int.__gt__,
    Direction.GE: int.__ge__,
    Direction.EQ: int.__eq__,
    Direction.NE: int.__ne__,
}


def run_loop(init: int, bound: int, step: int, direction: Direction, limit: int = 100) -> int | None:
    trips, i = 0, init
    while HOLDS[direction](i, bound):
        trips, i = trips + 1, i + step
        if trips > limit:
            return None
    return trips


@pytest.mark.parametrize("direction", list(Direction))
def test_trip_counts_are_those_of_the_running_loop(direction: Direction) -> None:
    for init, bound, step in product(range(-4, 5), range(-4, 5), range(-3, 4)):
        assert count_trips(init, bound, step, direction) == run_loop(init, bound, step, direction), (init, bound, step)


@pytest.mark.parametrize("direction", list(Direction))
def test_a_comparison_is_decided_when_it_is_the_same_for_every_value(direction: Direction) -> None:
    for start, count, step, bound in product(range(-3, 4), range(1, 4), (-2, -1, 1, 2), range(-5, 6)):
        values = range(start, start + count * step, step)
        answers = {HOLDS[direction](v, bound) for v in values}
        assert decides(values, bound, direction) == (answers.pop() if len(answers) == 1 else None)


def loop(type_: str, init: int, bound: int, step: int, direction: str, op: str = "add") -> Module:
    text = LOOP.replace("TYPE", type_).replace("BOUND", str(bound)).replace("STEP", str(step))
    return parse(text.replace("DIRECTION", direction).replace("OP", op).replace("INIT", str(init)))


@pytest.mark.parametrize(
    ("module", "trips"),
    [
        (loop("s32", 0, 10, 3, "LT"), 4),
        (loop("s32", 10, 0, 3, "GT", "subtract"), 4),
        (loop("s8", 100, 127, 1, "LT"), 27),
        (loop("s8", 100, 127, 1, "LE"), None),  # every s8 is <= 127: it never ends
        (loop("s8", 100, 126, 50, "LT"), None),  # the counter wraps round
        (loop("u8", 3, 0, 1, "GT", "subtract"), 3),
        (loop("u8", 3, 0, 1, "GE", "subtract"), None),
        (loop("s64", -(2**63), 2**62, 2**62, "LT"), 3),
        (loop("s64", -(2**63), 2**63 - 1, 2**62, "LT"), None),
        (loop("s32", 0, 5, 0, "LT"), None),
    ],
)
def test_a_counter_that_would_overflow_has_no_trip_count(module: Module, trips: int | None) -> None:
    found = find_induction(module.entry.root)
    assert (found.trips if found else None) == trips


def test_loops_of_unknown_length_have_unbounded_work() -> None:
    work = Work()
    assert work.of(loop("s32", 0, 10, 1, "LT").entry.root) < 100_000
    assert work.of(loop("s32", 0, 2**31 - 1, 1, "LT").entry.root) > 10**9
    assert work.of(loop("s8", 0, 127, 1, "LE").entry.root) == UNBOUNDED_WORK


def test_equal_structure_is_one_class() -> None:
    module = parse(
        """HloModule m
        a { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
        b { y = f32[] parameter(1)  x = f32[] parameter(0)  ROOT z = f32[] add(x, y) }
        c { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(q, p) }
        d { p = f32[] parameter(0)  q = f32[] parameter(1)  n = f32[] negate(p)  ROOT s = f32[] add(p, q) }
        ENTRY main { ROOT x = f32[] parameter(0) }"""
    )
    classes = Equivalence()
    a, b, c, d = (classes.class_of(module.computations[name]) for name in "abcd")
    assert a == b
    assert len({a, c, d}) == 3


def test_random_numbers_in_a_callee_make_a_call_impure() -> None:
    module = parse(
        """HloModule m
        inner { p = f32[] parameter(0)  ROOT r = f32[] rng(p, p), distribution=rng_uniform }
        outer { p = f32[] parameter(0)  ROOT c = f32[] call(p), to_apply=inner }
        plain { p = f32[] parameter(0)  ROOT n = f32[] negate(p) }
        ENTRY main {
          x = f32[] parameter(0)
          a = f32[] call(x), to_apply=outer
          ROOT b = f32[] call(a), to_apply=plain
        }"""
    )
    purity = Purity()
    assert not purity.pure(module.entry.root.operands[0])
    assert purity.pure(module.entry.root)
