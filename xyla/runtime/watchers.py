"""What the interpreted engine can show: times by step, the first NaN, every step's arrays, breakpoints."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.runtime.engine_interpreted import Arrays
from xyla.runtime.profile import ExecutionProfile
from xyla.runtime.program import CopyStep, CustomCallStep, GemmStep, KernelStep, Program, Step, all_steps, nested
from xyla.support.diagnostics import did_you_mean
from xyla.support.dtypes import by_numpy
from xyla.support.status import Status, XylaError, invalid

Array = npt.NDArray[Any]
_KINDS = {KernelStep: "kernel", CopyStep: "copy", GemmStep: "gemm", CustomCallStep: "custom call"}


def kind_of(step: Step) -> str:
    """What does a step's work."""
    return _KINDS.get(type(step), "control flow")


@dataclass(slots=True)
class StepTime:
    """How often a step ran, and nanoseconds in all."""

    kind: str
    runs: int = 0
    nanoseconds: int = 0


class Quiet:
    """A watcher that looks at nothing; others replace what they need."""

    def before(self, step: Step, arrays: Arrays) -> None:
        """The step is about to run."""

    def after(self, step: Step, arrays: Arrays, nanoseconds: int) -> None:
        """The step has run."""


class StepTimes(Quiet):
    """Adds up time by step; `profile` also gets each as an event."""

    def __init__(self, profile: ExecutionProfile | None = None) -> None:
        self.by_name: dict[str, StepTime] = {}
        self._profile = profile

    def after(self, step: Step, arrays: Arrays, nanoseconds: int) -> None:
        """Counts the step."""
        entry = self.by_name.setdefault(step.name, StepTime(kind_of(step)))
        entry.runs += 1
        entry.nanoseconds += nanoseconds
        if self._profile is not None:
            end = perf_counter_ns()
            self._profile.record(step.name, end - nanoseconds, end)

    def slowest(self) -> list[tuple[str, StepTime]]:
        """The steps, those that took most time first."""
        return sorted(self.by_name.items(), key=lambda item: (-item[1].nanoseconds, item[0]))


class NanCheck(Quiet):
    """Ends the run (ABORTED) at the first step that makes a NaN from inputs without any."""

    def __init__(self) -> None:
        self._tainted = False

    def before(self, step: Step, arrays: Arrays) -> None:
        """Looks at the inputs now: the step may write over them."""
        self._tainted = not isinstance(step, CopyStep) and any(_nans(a) for a in arrays.inputs)

    def after(self, step: Step, arrays: Arrays, nanoseconds: int) -> None:
        """Looks at the outputs."""
        if self._tainted or isinstance(step, CopyStep):
            return
        for number, array in enumerate(arrays.outputs):
            count = _nans(array)
            if count:
                at = [int(i) for i in np.argwhere(np.isnan(array))[0]] if array.ndim else []
                where = f"output {number}{at}" if at else f"output {number}"
                raise XylaError(
                    Status.ABORTED,
                    f"%{step.name} ({kind_of(step)}) makes the first NaN: {where}, {count} of {array.size} elements; "
                    "its inputs have none",
                )


def _nans(array: Array) -> int:
    element = by_numpy(array.dtype)
    return int(np.count_nonzero(np.isnan(array))) if element.is_float or element.is_complex else 0


class Tracer(Quiet):
    """Writes each step's inputs and outputs as text."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def before(self, step: Step, arrays: Arrays) -> None:
        """Writes the inputs: the step may write over them."""
        self._write(f"%{step.name} ({kind_of(step)})")
        for line in described("in", arrays.inputs):
            self._write(line)

    def after(self, step: Step, arrays: Arrays, nanoseconds: int) -> None:
        """Writes the outputs and the time."""
        for line in described("out", arrays.outputs):
            self._write(line)
        self._write(f"  took {nanoseconds / 1e3:.1f} us")


def described(what: str, arrays: Sequence[Array]) -> list[str]:
    """A line an array: its type and its first and last elements."""
    return [
        f"  {what}{i} = {by_numpy(a.dtype)}[{','.join(map(str, a.shape))}] {_short(a)}" for i, a in enumerate(arrays)
    ]


def _short(array: Array) -> str:
    """An array in one line, without the blanks that would align its columns."""
    text = np.array2string(array, threshold=8, edgeitems=2, separator=", ")
    return re.sub(r"\s+([,\]])", r"\1", re.sub(r"\[\s+", "[", re.sub(r"\s+", " ", text)))


class Breakpoints(Quiet):
    """Calls `reached(step, arrays)` after each run of the named steps."""

    def __init__(self, names: Collection[str], reached: Callable[[Step, Arrays], None]) -> None:
        self._names = frozenset(name.lstrip("%") for name in names)
        self._reached = reached

    def check(self, program: Program) -> None:
        """Raises INVALID_ARGUMENT when the program has no step of a name."""
        known = sorted({step.name for step in all_steps(program) if not nested(step)})
        for name in sorted(self._names - set(known)):
            near = did_you_mean(name, known)
            raise invalid(
                f"{program.name} has no step {name!r} to stop at",
                hint=f"did you mean {near!r}?" if near else "--trace names the steps; passes may have fused it",
            )

    def after(self, step: Step, arrays: Arrays, nanoseconds: int) -> None:
        """Stops here if asked to."""
        if step.name in self._names:
            self._reached(step, arrays)
