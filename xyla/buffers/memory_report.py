"""What a program needs at its peak, which lines of its source that comes from, and what would reduce it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from xyla.analysis.alias import may_take_over, share_elementwise
from xyla.analysis.dataflow import Value
from xyla.analysis.timeline import Timeline
from xyla.buffers.assignment import BufferAssignment, Kind
from xyla.buffers.profile import Alive, Profile, text_of
from xyla.hlo import ops
from xyla.hlo.module import Instruction, StackFrames
from xyla.hlo.op_def import OpDef, Trait

# Making such a value again costs little beside reading it back from memory.
_CHEAP: frozenset[OpDef[Any]] = frozenset({
    ops.BROADCAST, ops.IOTA, ops.CONVERT, ops.SLICE, ops.PAD, ops.REVERSE, ops.TRANSPOSE, ops.RESHAPE, ops.CONCATENATE,
})  # fmt: skip
# A value that waits for less of the schedule than this is not worth a suggestion, nor is one that saves less.
_IDLE_SHARE = 0.1
_WORTHWHILE = 0.02
_MOST_WAITS = 12


@dataclass(frozen=True, slots=True)
class Line:
    """Values alive at the peak that come from one place: `where` is a source line, an op_name or an instruction."""

    where: str
    bytes: int
    values: tuple[Alive, ...]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Something that would reduce the memory of a run, by at most `bytes`."""

    bytes: int
    text: str


def source_of(inst: Instruction) -> str:
    """Where an instruction comes from: `file:line`, else its op_name, else its own name."""
    meta = inst.metadata
    if meta is None:
        return f"%{inst.name}"
    if meta.source_file:
        return f"{meta.source_file}:{meta.source_line}"
    return _framed(inst.module.stack_frames, meta.stack_frame_id) or meta.op_name or f"%{inst.name}"


def _framed(frames: StackFrames, number: int) -> str:
    """`file:line` of a stack frame (numbers count from 1); "" when the module has none of that number."""
    if not 1 <= number <= len(frames.frames):
        return ""
    location = frames.frames[number - 1][0]
    if not 1 <= location <= len(frames.locations):
        return ""
    file, _, line, *_ = frames.locations[location - 1]
    return f"{frames.file_names[file - 1]}:{line}" if 1 <= file <= len(frames.file_names) else ""


def peak_by_line(profile: Profile) -> list[Line]:
    """The values alive at the peak by where they come from, largest first."""
    groups: dict[str, list[Alive]] = {}
    for alive in profile.alive(profile.peak_position):
        groups.setdefault(source_of(alive.instruction), []).append(alive)
    lines = [Line(where, sum(a.size for a in found), tuple(found)) for where, found in groups.items()]
    return sorted(lines, key=lambda line: (-line.bytes, line.where))


def suggestions(profile: Profile) -> list[Suggestion]:
    """What would reduce the memory, most bytes first."""
    found = [*_donations(profile), *_idle(profile), *_fragmentation(profile.assignment)]
    least = _WORTHWHILE * (profile.fixed + profile.peak)
    return sorted((s for s in found if s.bytes >= least), key=lambda s: (-s.bytes, s.text))


def usage_report(assignment: BufferAssignment, most: int = 20) -> str:
    """The peak, the largest values alive there by source line, and what would reduce it, as text."""
    profile = Profile(assignment)
    stats = assignment.stats
    out = [f"peak {text_of(profile.fixed + profile.peak)}: {stats.describe()}"]
    lines = peak_by_line(profile)
    for line in lines[:most]:
        more = f" and {len(line.values) - 1} more" if len(line.values) > 1 else ""
        out.append(f"  {text_of(line.bytes):>10}  {line.where}: {line.values[0].text}{more}")
    if len(lines) > most:
        out.append(f"  {text_of(sum(line.bytes for line in lines[most:])):>10}  from {len(lines) - most} other places")
    for s in suggestions(profile)[:most]:
        out.append(f"  -{text_of(s.bytes)}: {s.text}")
    return "\n".join(out) + "\n"


# -- when values are read ------------------------------------------------------------------------------------------


class _Reads:
    """Positions in the entry at which values are read; what a loop or callee reads counts at its call."""

    def __init__(self, assignment: BufferAssignment) -> None:
        self._timeline = assignment.timeline
        self._graph = assignment.dataflow.graph
        self._entry = assignment.module.entry

    def of(self, value: Value) -> list[int]:
        """Where the entry, or what it enters, reads `value`; sorted."""
        found = set()
        for use in value.uses:
            inst = self._in_entry(use.instruction)
            if inst is not None:
                found.add(self._timeline.end(inst))
        return sorted(found)

    def _in_entry(self, inst: Instruction) -> Instruction | None:
        while inst.parent is not self._entry:
            site = self._graph.site(inst.parent)
            if site is None:
                return None
            inst = site.instruction
        return inst


def _donations(profile: Profile) -> Iterable[Suggestion]:
    """Arguments that die before an output of the same size is made: given up, they could hold it."""
    assignment = profile.assignment
    reads = _Reads(assignment)
    ranges = assignment.ranges
    outputs = [
        (a, min(a.values, key=lambda v: (ranges.range(v)[0], v.id)))
        for a in assignment.allocations
        if a.kind is Kind.LIVE_OUT and a.values
    ]
    for allocation in assignment.allocations:
        if allocation.parameter is None or allocation.donated or not allocation.size:
            continue
        (value,) = [v for v in allocation.values if v.instruction.op is ops.PARAMETER]
        last = max(reads.of(value), default=-1)
        for i, (output, first) in enumerate(outputs):
            made = ranges.range(first)[0]
            free = made > last or (made == last and may_take_over(first, value, share_elementwise))
            if output.size == allocation.size and free:
                del outputs[i]
                number, index = allocation.parameter
                name = f"argument {number}" + (f"{{{','.join(map(str, index))}}}" if index else "")
                where = ", ".join(map(str, output.output_indices))
                yield Suggestion(
                    allocation.size, f"donate {name} (%{value.instruction.name}): output {where} could be put there"
                )
                break


@dataclass(frozen=True, slots=True)
class _Wait:
    """A value that nothing reads between two positions."""

    value: Value
    after: int
    before: int
    unread: bool

    def text(self, timeline: Timeline) -> str:
        """What it waits for, and what could be done instead."""
        user = timeline.at(self.before)
        by = f"%{user.name}" if user is not None else "the end"
        return f"{self.value.name} {self.value.shape} waits for {by}: {_remedy(self.value, self.unread)}"


def _idle(profile: Profile) -> Iterable[Suggestion]:
    """Values that wait through a peak: made again, or made later, they would not be there.

    The largest at the highest peak goes first, then the largest at what is the highest peak then. Several are one
    suggestion when only together they lower it.
    """
    reads = _Reads(profile.assignment)
    timeline = profile.assignment.timeline
    use = profile.by_position()
    now = int(use.max(initial=0))
    taken: set[Value] = set()
    texts: list[str] = []
    for _ in range(_MOST_WAITS):
        at = int(use.argmax())
        wait = _largest_wait(profile, reads, profile.span[0] + at, taken)
        if wait is None:
            return
        taken.add(wait.value)
        texts.append(wait.text(timeline))
        first = profile.span[0]
        use[wait.after + 1 - first : wait.before - first] -= wait.value.size
        lower = int(use.max())
        if lower < now:
            yield Suggestion(now - lower, "; and ".join(texts))
            now, texts = lower, []


def _largest_wait(profile: Profile, reads: _Reads, now: int, taken: set[Value]) -> _Wait | None:
    first, last = profile.span
    for alive in profile.alive(now):
        if alive.value is None or alive.value in taken:
            continue
        at = reads.of(alive.value)
        following = bisect_right(at, now)
        made = profile.assignment.ranges.range(alive.value)[0]
        if following == len(at) or now in (made, *at[following - 1 : following]):
            continue
        previous = at[following - 1] if following else made
        if at[following] - previous >= _IDLE_SHARE * (last - first):
            return _Wait(alive.value, previous, at[following], following == 0)
    return None


def _remedy(value: Value, unused_so_far: bool) -> str:
    inst = value.instruction
    if unused_so_far:
        return "make it later, after the peak"
    if inst.op.has(Trait.ELEMENTWISE) or inst.op in _CHEAP:
        return f"make it again there ({inst.op.name} is cheap)"
    return "make it again there, or keep it in a narrower type"


def _fragmentation(assignment: BufferAssignment) -> Iterable[Suggestion]:
    lost = assignment.stats.fragmentation
    if lost > 0:
        yield Suggestion(lost, "the heap has gaps: fewer different sizes would fit together without them")
