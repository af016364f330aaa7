"""`xyla run`'s ways to look at a run step by step: --check-nan, --trace, --break, --profile, --chrome-trace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xyla.runtime.engine_interpreted import Arrays, Interpreter, Watcher
from xyla.runtime.executable import Executable
from xyla.runtime.profile import ExecutionProfile
from xyla.runtime.program import Step
from xyla.runtime.watchers import Breakpoints, NanCheck, StepTimes, Tracer, described
from xyla.support.status import Status, XylaError


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What to look at. Any of them makes the interpreted engine run the program."""

    check_nan: bool = False
    trace: bool = False
    breaks: tuple[str, ...] = ()
    profile: bool = False
    chrome_trace: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.check_nan or self.trace or self.breaks or self.profile or self.chrome_trace)


UNWATCHED = WatchOptions()


class Watch:
    """The watchers that the options ask for, and what they found."""

    def __init__(self, options: WatchOptions) -> None:
        self._options = options
        self._profile = ExecutionProfile()
        self._times = StepTimes(self._profile)

    def attach(self, executable: Executable) -> None:
        """Lets the executable run under the watchers. Raises INVALID_ARGUMENT for a breakpoint at no step."""
        options = self._options
        watchers: list[Watcher] = []
        if options.trace:
            watchers.append(Tracer(print_line))
        if options.breaks:
            breakpoints = Breakpoints(options.breaks, _stop)
            breakpoints.check(executable.program)
            watchers.append(breakpoints)
        if options.check_nan:
            watchers.append(NanCheck())
        if options.profile or options.chrome_trace is not None:
            watchers.append(self._times)
        executable.use(Interpreter(watchers))

    def report(self, write: Callable[..., None]) -> None:
        """Writes what was found about the runs that were watched, and the Chrome trace."""
        if self._options.chrome_trace is not None:
            self._options.chrome_trace.write_text(self._profile.chrome_trace())
        if not self._options.profile:
            return
        lines = [f"{'us':>12} {'runs':>8}  step"]
        for name, time in self._times.slowest():
            lines.append(f"{time.nanoseconds / 1e3:12.1f} {time.runs:8}  %{name} ({time.kind})")
        write(*lines)


def print_line(text: str) -> None:
    """Writes to standard output at once: the run may end badly."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _stop(step: Step, arrays: Arrays) -> None:
    """Shows a step; at a terminal waits for the user to go on or to quit."""
    print_line(f"stopped behind %{step.name}")
    for line in (*described("in", arrays.inputs), *described("out", arrays.outputs)):
        print_line(line)
    if not sys.stdin.isatty():
        return
    sys.stdout.write("Enter goes on, q ends the run: ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower().startswith("q"):
        raise XylaError(Status.CANCELLED, f"the run was ended behind %{step.name}")
