"""Buffers: alias sets, joined further where a result may be written over an operand that nothing needs any more."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xyla.analysis.alias import Aliases, CanShare, donated_leaves, may_take_over
from xyla.analysis.call_graph import CONTROL_OPS
from xyla.analysis.dataflow import Dataflow, Value
from xyla.analysis.timeline import LiveRanges, Segment, merged
from xyla.hlo import ops
from xyla.hlo.module import Computation


@dataclass(slots=True, eq=False)
class Buffer:
    """Memory of `size` bytes that the values share. `lives`: when it is in use; `region`: in whose frame."""

    values: list[Value]
    size: int
    color: int
    region: Computation
    lives: list[Segment]


def buffers_of(
    dataflow: Dataflow, aliases: Aliases, ranges: LiveRanges, can_share: CanShare, color: Callable[[Value], int]
) -> list[Buffer]:
    """The buffers of a module, in the order of their first values' ids. Near linear."""
    of: dict[Value, Buffer] = {}
    buffers = []
    donated = _donated(dataflow)
    for values in _groups(aliases):
        first = values[0]
        lives = merged([s for v in values for s in _lives(v, ranges, donated)])
        made = Buffer(values, max(v.size for v in values), color(first), ranges.region(first), lives)
        buffers.append(made)
        for v in values:
            of[v] = made
    takers = list(_takers(dataflow, ranges, can_share))
    # What the caller gave up is taken over first: that spares an output's memory, not only the heap's.
    takers.sort(key=lambda pair: pair[1] not in donated)
    for value, old in takers:
        a, b, inst = of[old], of[value], value.instruction
        # Of an instruction's several results one at most takes an operand's place.
        occupied = any(v is not None and of[v] is a for v in dataflow.defines(inst))
        if not occupied and _may_join(a, b, ranges.timeline.end(inst)):
            _join(a, b, of)
    _reuse_donated(dataflow, donated, of)
    return [b for b in buffers if b.values]


def _groups(aliases: Aliases) -> Iterator[list[Value]]:
    """The values of each alias set; arrays without elements share nothing, since no copy keeps them apart."""
    for group in aliases.sets:
        if group.size:
            yield list(group.values)
        else:
            yield from ([v] for v in group.values)


def _donated(dataflow: Dataflow) -> dict[Value, None]:
    """Arrays that the caller gives up without saying for which output."""
    parameters = dataflow.module.entry.parameters
    found = (dataflow.values(parameters[number])[leaf] for number, leaf in donated_leaves(dataflow.module))
    return dict.fromkeys(v for v in found if v is not None)


def _lives(value: Value, ranges: LiveRanges, donated: dict[Value, None]) -> list[Segment]:
    """When a value's memory is in use. What is donated is free after its last read: an output may live there."""
    segments = ranges.segments(value)
    end = ranges.timeline.span(ranges.region(value))[1]
    if value in donated and len(segments) > 1 and segments[-1] == (end, end):
        return segments[:-1]
    return segments


def _reuse_donated(dataflow: Dataflow, donated: dict[Value, None], of: dict[Value, Buffer]) -> None:
    """Puts outputs into donated arrays of their size that nothing reads any more when the output is first written."""
    outputs: dict[tuple[int, int], list[Buffer]] = {}
    for value in dict.fromkeys(dataflow.values(dataflow.module.entry.root)):
        if value is None:
            continue
        output = of[value]
        if not any(_is_argument(v) for v in output.values):
            outputs.setdefault((output.size, output.color), []).append(output)
    for value in donated:
        donor = of[value]
        if len(donor.values) > 1:
            continue  # something has taken it over
        fitting = outputs.get((donor.size, donor.color), [])
        for i, output in enumerate(fitting):
            if next(_meetings(donor.lives, output.lives), None) is None:
                _join(donor, output, of)
                del fitting[i]
                break


def _is_argument(value: Value) -> bool:
    return value.instruction.op is ops.PARAMETER and value.instruction.parent.is_entry


def _takers(dataflow: Dataflow, ranges: LiveRanges, can_share: CanShare) -> Iterator[tuple[Value, Value]]:
    """(value, operand's value) where the value may be written over that operand, in order of the values."""
    timeline = ranges.timeline
    for value in dataflow.all_values:
        inst = value.instruction
        if not inst.operands or inst.op in CONTROL_OPS:
            continue
        now = timeline.end(inst)
        for operand in inst.operands:
            for old in dataflow.values(operand):
                if old is None or old.size != value.size or ranges.range(old)[1] < now:
                    continue
                # It must be the last read, and all of the instruction's reads must allow it.
                if _ends_at(ranges.segments(old), now) and may_take_over(value, old, can_share):
                    yield value, old


def _ends_at(segments: list[Segment], position: int) -> bool:
    at = bisect_left(segments, (position + 1,)) - 1
    return at >= 0 and segments[at][1] == position


def _may_join(a: Buffer, b: Buffer, now: int) -> bool:
    """Whether b's values can live in a's memory: both are in use only at `now`, when one hands over to the other."""
    if a.size != b.size or a.color != b.color:
        return False
    starts = bisect_left(b.lives, (now,))
    if starts == len(b.lives) or b.lives[starts][0] != now:
        return False
    return all(meet == (now, now) for meet in _meetings(a.lives, b.lives))


def _meetings(a: list[Segment], b: list[Segment]) -> Iterator[Segment]:
    """The intersections of two sorted lists of disjoint segments. Looks only at the part where both have any."""
    i = max(0, bisect_left(a, b[0]) - 1)
    j = max(0, bisect_left(b, a[0]) - 1)
    while i < len(a) and j < len(b):
        first, last = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if first <= last:
            yield first, last
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1


def _join(a: Buffer, b: Buffer, of: dict[Value, Buffer]) -> None:
    """Moves the smaller buffer's values to the larger."""
    big, small = (a, b) if len(a.values) >= len(b.values) else (b, a)
    for v in small.values:
        of[v] = big
    big.values += small.values
    big.lives = merged([*big.lives, *small.lives])
    small.values, small.lives = [], []
