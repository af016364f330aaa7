"""How much memory is in use when: the bytes of the entry's heap and of its outputs, by position in the schedule."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from xyla.analysis.dataflow import Value
from xyla.analysis.timeline import Segment, merged
from xyla.buffers.assignment import BufferAssignment, Kind
from xyla.hlo.module import Instruction

Ints = npt.NDArray[np.int64]

_CHANGING = (Kind.TEMP, Kind.LIVE_OUT)


@dataclass(frozen=True, slots=True)
class Alive:
    """Something in memory at some position: a value, or (`value` is None) the scratch of a running instruction.

    instruction: what made it, or whose scratch it is. size: bytes.
    """

    instruction: Instruction
    size: int
    value: Value | None = None

    @property
    def text(self) -> str:
        """`%add.3 f32[8]`, `scratch of %sort`."""
        if self.value is None:
            return f"scratch of %{self.instruction.name}"
        return f"{self.value.name} {self.value.shape.to_string(layouts=False)}"


class Profile:
    """Bytes in use over the schedule. `fixed`: arguments, constants and shared computations' frames, always in use."""

    def __init__(self, assignment: BufferAssignment) -> None:
        self.assignment = assignment
        entry = assignment.module.entry
        stats = assignment.stats
        frames = sum(f.size for f in assignment.frames if f.region is not entry)
        self.fixed = stats.parameters + stats.constants + frames
        self.span = assignment.timeline.span(entry)
        self._values = [
            v
            for v in assignment.dataflow.all_values
            if v.size
            and assignment.ranges.region(v) is entry
            and assignment.allocations[assignment.slice_of(v).allocation].kind in _CHANGING
        ]
        self._starts, self._bytes = self._steps()

    def _steps(self) -> tuple[list[int], list[int]]:
        """Where the number of bytes changes, and to what. A place handed from one value to the next counts once."""
        places: dict[tuple[int, int, int], list[Segment]] = {}
        for v in self._values:
            where = self.assignment.slice_of(v)
            key = (where.allocation, where.offset, where.size)
            places.setdefault(key, []).extend(self.assignment.ranges.segments(v))
        changes: dict[int, int] = {self.span[0]: 0}
        for (_, _, size), segments in places.items():
            for first, last in merged(segments):
                changes[first] = changes.get(first, 0) + size
                changes[last + 1] = changes.get(last + 1, 0) - size
        timeline = self.assignment.timeline
        for inst, where in self.assignment.scratches.items():
            if timeline.region(inst.parent) is self.assignment.module.entry:
                first, last = timeline.start(inst), timeline.end(inst)
                changes[first] = changes.get(first, 0) + where.size
                changes[last + 1] = changes.get(last + 1, 0) - where.size
        starts, bytes_, now = sorted(changes), [], 0
        for start in starts:
            now += changes[start]
            bytes_.append(now)
        return starts, bytes_

    def at(self, position: int) -> int:
        """Bytes in use at a position, without the fixed ones."""
        found = bisect_right(self._starts, position) - 1
        return self._bytes[found] if found >= 0 else 0

    def by_position(self) -> Ints:
        """Bytes in use at every position of the span, without the fixed ones."""
        first, last = self.span
        edges = np.clip(np.array([*self._starts, last + 1]), first, last + 1)
        return np.repeat(np.array(self._bytes), np.diff(edges))

    @property
    def peak(self) -> int:
        """The most bytes in use at once, without the fixed ones."""
        return max(self._bytes)

    @property
    def peak_position(self) -> int:
        """The first position at which the peak is reached."""
        return self._starts[self._bytes.index(self.peak)]

    def highest(self, first: int, last: int) -> int:
        """The most bytes in use at once between two positions, both included."""
        i, j = bisect_right(self._starts, first) - 1, bisect_right(self._starts, last)
        return max(self._bytes[max(i, 0) : j], default=0)

    def alive(self, position: int) -> list[Alive]:
        """What is in memory at a position, largest first. Where one value hands over to another, the newer one."""
        newest: dict[tuple[int, int, int], Value] = {}
        for v in self._values:
            segments = self.assignment.ranges.segments(v)
            at = bisect_right(segments, (position, 1 << 62)) - 1
            if at < 0 or segments[at][1] < position:
                continue
            where = self.assignment.slice_of(v)
            key = (where.allocation, where.offset, where.size)
            other = newest.get(key)
            if other is None or self.assignment.ranges.range(other)[0] < segments[at][0]:
                newest[key] = v
        found = [Alive(v.instruction, v.size, v) for v in sorted(newest.values(), key=lambda v: v.id)]
        running = self.assignment.timeline.at(position)
        scratch = self.assignment.scratch(running) if running is not None else None
        if running is not None and scratch is not None:
            found.append(Alive(running, scratch.size))
        return sorted(found, key=lambda a: -a.size)

    def plot(self, width: int = 72, height: int = 10) -> list[str]:
        """Lines of text, the highest first: memory in use over the schedule, the fixed part at the bottom."""
        first, last = self.span
        width = min(width, last - first + 1)
        edges = [first + (last + 1 - first) * i // width for i in range(width + 1)]
        columns = [self.fixed + self.highest(a, max(a, b - 1)) for a, b in pairwise(edges)]
        top = max(*columns, 1)
        rows = []
        for row in range(height, 0, -1):
            low, high = top * (row - 1) / height, top * row / height
            cells = "".join(_cell(bytes_, self.fixed, low, high) for bytes_ in columns)
            rows.append(f"{text_of(int(high)):>10} |{cells.rstrip()}")
        rows.append(f"{'0':>10} +{'-' * width}")
        return rows


def _cell(bytes_: int, fixed: int, low: float, high: float) -> str:
    """One character: how far a column reaches into a row."""
    if bytes_ <= low:
        return " "
    if fixed >= high:
        return "░"
    share = (min(bytes_, high) - low) / (high - low)
    return "▁▂▃▄▅▆▇█"[min(7, int(share * 8 - 1e-9))]


def text_of(bytes_: int) -> str:
    """A size for people: 512B, 1.50KiB, 12.00MiB."""
    size, unit = float(bytes_), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024:
            break
        size, unit = size / 1024, larger
    return f"{bytes_}B" if unit == "B" else f"{size:.2f}{unit}"
