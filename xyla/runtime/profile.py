"""How long executions took, and the same for Chrome's trace viewer."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """One span of time. start, duration: nanoseconds of the monotonic clock; thread: its identifier."""

    name: str
    start: int
    duration: int
    thread: int


@dataclass(slots=True)
class ExecutionProfile:
    """What the executions that it is passed to report: `RunOptions(profile=...)`. Safe to share between threads."""

    events: list[Event] = field(default_factory=list)

    def record(self, name: str, start: int, end: int) -> None:
        """Notes a span, in nanoseconds; one that took no measurable time counts as 1."""
        self.events.append(Event(name, start, max(end - start, 1), threading.get_ident()))

    @property
    def compute_time_ns(self) -> int:
        """Nanoseconds of the last execution; 0 when there was none."""
        return self.events[-1].duration if self.events else 0

    def chrome_trace(self) -> str:
        """JSON for chrome://tracing or Perfetto: a complete event a span, in microseconds."""
        rows = [
            {
                "name": e.name,
                "ph": "X",
                "ts": e.start / 1e3,
                "dur": e.duration / 1e3,
                "pid": os.getpid(),
                "tid": e.thread,
            }
            for e in self.events
        ]
        return json.dumps({"traceEvents": rows, "displayTimeUnit": "ns"})
