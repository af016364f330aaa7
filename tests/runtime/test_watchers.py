"""The interpreted engine's watchers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.runtime.programs import F32, Array, Maker, of, python_call, sum_program
from tests.runtime.test_engines import counting_loop
from xyla.runtime.custom_calls import CallContext
from xyla.runtime.engine_interpreted import Arrays, Interpreter
from xyla.runtime.executable import Executable
from xyla.runtime.profile import ExecutionProfile
from xyla.runtime.program import Step
from xyla.runtime.watchers import Breakpoints, NanCheck, StepTimes, Tracer
from xyla.support.status import Status, XylaError

X, Y = np.arange(16, dtype=np.int32), np.full(16, 3, np.int32)


def logarithms() -> Executable:
    """log(log(p0)), in place."""
    m = Maker()
    x, t, out = m.parameter(of(F32, 2, 2)), m.temp(16), m.output(of(F32, 2, 2))

    def log(_: CallContext, arrays: Sequence[Array]) -> list[Array]:
        with np.errstate(all="ignore"):
            return [np.log(arrays[0])]

    typed = of(F32, 2, 2)
    m.add(python_call(log, [(x, typed)], [(t, typed)], "log1"), python_call(log, [(t, typed)], [(t, typed)], "log2"))
    return m.add(python_call(log, [(t, typed)], [(out, typed)], "log3")).executable()


def test_the_first_nan_is_found() -> None:
    run = logarithms()
    run.use(Interpreter([NanCheck()]))
    with pytest.raises(
        XylaError, match=r"%log2 \(custom call\) makes the first NaN: output 0\[0, 1\], 2 of 4"
    ) as caught:
        run(np.array([[9.0, 0.5], [0.25, 9.0]], np.float32))
    assert caught.value.status is Status.ABORTED
    assert not np.isnan(run(np.full((2, 2), 1e9, np.float32))[0]).any()
    assert np.isnan(run(np.full((2, 2), np.nan, np.float32))[0]).all(), "the arguments had them: nobody made them"


def test_times_are_added_up_by_step() -> None:
    profile = ExecutionProfile()
    times, (m, _) = StepTimes(profile), counting_loop(5)
    run = m.executable()
    run.use(Interpreter([times]))
    run()
    assert {name: (t.kind, t.runs) for name, t in times.by_name.items()} == {
        "init": ("copy", 1), "k": ("kernel", 6), "count": ("kernel", 5),
    }  # fmt: skip
    assert len(profile.events) == 12
    assert [t.nanoseconds for _, t in times.slowest()] == sorted(t.nanoseconds for t in times.by_name.values())[::-1]


def test_a_trace_shows_what_each_step_reads_and_writes() -> None:
    lines: list[str] = []
    run = sum_program().executable()
    run.use(Interpreter([Tracer(lines.append)]))
    run(X, Y)
    assert [line for line in lines if not line.startswith("  took")] == [
        "%first (kernel)",
        "  in0 = s32[16] [0, 1, ..., 14, 15]",
        "  in1 = s32[16] [3, 3, ..., 3, 3]",
        "  out0 = s32[16] [3, 4, ..., 17, 18]",
        "%second (kernel)",
        "  in0 = s32[16] [3, 4, ..., 17, 18]",
        "  in1 = s32[16] [3, 3, ..., 3, 3]",
        "  out0 = s32[16] [6, 7, ..., 20, 21]",
    ]


def test_breakpoints_stop_at_each_run_of_a_step() -> None:
    counts: list[int] = []

    def reached(step: Step, arrays: Arrays) -> None:
        assert step.name == "count"
        counts.append(int(arrays.outputs[0][0]))

    (m, _) = counting_loop(4)
    run = m.executable()
    stops = Breakpoints(["%count"], reached)
    stops.check(run.program)
    run.use(Interpreter([stops]))
    run()
    assert counts == [1, 2, 3, 4]
    with pytest.raises(XylaError, match="no step 'cuont'") as caught:
        Breakpoints(["cuont"], reached).check(run.program)
    assert caught.value.hint == "did you mean 'count'?"
