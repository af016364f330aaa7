"""Programs of the kinds that random programs full of state found wrong, written anew."""

from __future__ import annotations

import numpy as np
import pytest

from xyla import interp
from xyla.clients.devices import Job
from xyla.compiler.driver import compile_module
from xyla.formats.hlo_text import parse
from xyla.runtime.engine_interpreted import Interpreter

V = np.array([3, 1, 2, 0], np.int32)
ADD = """
add { a = s32[] parameter(0)
      b = s32[] parameter(1)
      ROOT c = s32[] add(a, b) }
"""
LESS = """
before { a = s32[] parameter(0)
         b = s32[] parameter(1)
         c = s32[] parameter(2)
         d = s32[] parameter(3)
         ROOT e = pred[] compare(a, b), direction=LT }
"""
COUNT = """
cond { s = (s32[], s32[4]) parameter(0)
       i = s32[] get-tuple-element(s), index=0
       n = s32[] constant(3)
       ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], s32[4]) parameter(0)
       i = s32[] get-tuple-element(s), index=0
       x = s32[4] get-tuple-element(s), index=1
       one = s32[] constant(1)
       j = s32[] add(i, one)
       y = s32[4] add(x, x)
       ROOT t = (s32[], s32[4]) tuple(j, y) }
"""


def check(text: str, *args: np.ndarray) -> None:
    """Both engines say what the evaluator says, optimised and not."""
    module = parse(text)
    want = [w.tolist() for w in interp.run(module, args)]
    for passes in ("none", "default"):
        job = Job(module)
        executable = compile_module(job.module, passes=passes)
        for engine in (None, Interpreter()):
            executable.use(engine)
            got = executable(*args) if job.plain else job.run(executable, args)
            assert [g.tolist() for g in got] == want, passes


def test_a_loop_in_asynchronous_work() -> None:
    text = f"""HloModule m
{COUNT}
later {{ x = s32[4] parameter(0)
        zero = s32[] constant(0)
        t = (s32[], s32[4]) tuple(zero, x)
        w = (s32[], s32[4]) while(t), condition=cond, body=body
        ROOT y = s32[4] get-tuple-element(w), index=1 }}
ENTRY e {{ x = s32[4] parameter(0)
          s = ((s32[4]), s32[4], u32[]) async-start(x), calls=later
          z = s32[4] multiply(x, x)
          d = s32[4] async-done(s)
          ROOT t = (s32[4], s32[4]) tuple(z, d) }}
"""
    check(text, V)


def test_scratch_of_asynchronous_work_is_its_own_until_it_is_done() -> None:
    text = f"""HloModule m, is_scheduled=true
{LESS}
later {{ x = s32[4] parameter(0)
        y = s32[4] negate(x)
        s = (s32[4], s32[4]) sort(x, y), dimensions={{0}}, is_stable=true, to_apply=before
        ROOT z = s32[4] get-tuple-element(s), index=1 }}
ENTRY e {{ x = s32[4] parameter(0)
          s = ((s32[4]), s32[4], u32[]) async-start(x), calls=later
          a = s32[4] multiply(x, x)
          b = s32[4] subtract(a, x)
          d = s32[4] async-done(s)
          ROOT t = (s32[4], s32[4]) tuple(b, d) }}
"""
    check(text, V)


def test_asynchronous_work_that_calls_what_others_call() -> None:
    text = """HloModule m, is_scheduled=true
f { x = s32[4] parameter(0)
    y = s32[4] multiply(x, x)
    ROOT z = s32[4] subtract(y, x) }
later { x = s32[4] parameter(0)
        ROOT y = s32[4] call(x), to_apply=f }
ENTRY e { x = s32[4] parameter(0)
          s = ((s32[4]), s32[4], u32[]) async-start(x), calls=later
          n = s32[4] negate(x)
          a = s32[4] call(n), to_apply=f
          d = s32[4] async-done(s)
          ROOT t = (s32[4], s32[4]) tuple(a, d) }
"""
    check(text, V)


@pytest.mark.parametrize("used", ["", "d = s32[] all-reduce-done(a)"])
def test_a_collective_that_is_begun_for_nothing(used: str) -> None:
    """In a loop, whose state it reads; what waits for it must not go without it."""
    text = f"""HloModule m, replica_count=2
{ADD}
cond {{ s = (s32[]) parameter(0)
       i = s32[] get-tuple-element(s), index=0
       n = s32[] constant(3)
       ROOT c = pred[] compare(i, n), direction=LT }}
body {{ s = (s32[]) parameter(0)
       i = s32[] get-tuple-element(s), index=0
       a = s32[] all-reduce-start(i), to_apply=add
       one = s32[] constant(1)
       j = s32[] add(i, one)
       {used}
       ROOT t = (s32[]) tuple(j) }}
ENTRY e {{ zero = s32[] parameter(0)
          t = (s32[]) tuple(zero)
          w = (s32[]) while(t), condition=cond, body=body
          ROOT y = s32[] get-tuple-element(w), index=0 }}
"""
    check(text, np.array([0, 0], np.int32))


def test_asynchronous_work_that_travels_through_a_loop() -> None:
    """Each trip waits for what the last one began, and begins anew."""
    begun = "((s32[4]), s32[4], u32[])"
    text = f"""HloModule m
first {{ x = s32[4] parameter(0)
        ROOT y = s32[4] negate(x) }}
next {{ x = s32[4] parameter(0)
       y = s32[4] negate(x)
       ROOT z = s32[4] multiply(y, x) }}
cond {{ s = (s32[], {begun}, s32[4]) parameter(0)
       i = s32[] get-tuple-element(s), index=0
       n = s32[] constant(3)
       ROOT c = pred[] compare(i, n), direction=LT }}
body {{ s = (s32[], {begun}, s32[4]) parameter(0)
       i = s32[] get-tuple-element(s), index=0
       before = {begun} get-tuple-element(s), index=1
       sum = s32[4] get-tuple-element(s), index=2
       one = s32[] constant(1)
       j = s32[] add(i, one)
       done = s32[4] async-done(before)
       y = s32[4] add(sum, done)
       after = {begun} async-start(y), calls=next
       ROOT t = (s32[], {begun}, s32[4]) tuple(j, after, y) }}
ENTRY e {{ x = s32[4] parameter(0)
          zero = s32[] constant(0)
          s = {begun} async-start(x), calls=first
          t = (s32[], {begun}, s32[4]) tuple(zero, s, x)
          w = (s32[], {begun}, s32[4]) while(t), condition=cond, body=body
          last = {begun} get-tuple-element(w), index=1
          d = s32[4] async-done(last)
          y = s32[4] get-tuple-element(w), index=2
          ROOT r = (s32[4], s32[4]) tuple(d, y) }}
"""
    check(text, V)
