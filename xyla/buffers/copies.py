"""Copies as early as they can be: what is copied into loop state or an output's memory is then free for others."""

from __future__ import annotations

from bisect import bisect_left

from xyla.analysis.alias import Aliases
from xyla.analysis.dataflow import Dataflow, Value
from xyla.analysis.timeline import LiveRanges
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction


def move_copies_up(dataflow: Dataflow, aliases: Aliases, ranges: LiveRanges) -> bool:
    """Moves each copy that reads a value last to where the memory that it writes is free. Did anything move?

    The new place is after the value's definition and after every use of what the copy's memory held before; nothing
    else moves. A copy of what lives on anyway stays where it is.
    """
    changed = False
    for comp in dataflow.graph.control:
        changed |= _move_in(comp, dataflow, aliases, ranges)
    return changed


def _move_in(comp: Computation, dataflow: Dataflow, aliases: Aliases, ranges: LiveRanges) -> bool:
    order = list(comp.instructions)
    ends = [ranges.timeline.end(inst) for inst in order]
    after: dict[int, list[Instruction]] = {}
    for index, inst in enumerate(order):
        if inst.op is not ops.COPY or not inst.shape.is_array or inst.is_root:
            continue
        earliest = _earliest(inst, dataflow, aliases, ranges)
        place = index if earliest is None else bisect_left(ends, earliest)
        if place < index - 1:
            after.setdefault(place, []).append(inst)
    if not after:
        return False
    moved = {inst for group in after.values() for inst in group}
    new: list[Instruction] = []
    for index, inst in enumerate(order):
        if inst not in moved:
            new.append(inst)
        new += after.get(index, ())
    rewriter.reorder(comp, new)
    return True


def _earliest(copy: Instruction, dataflow: Dataflow, aliases: Aliases, ranges: LiveRanges) -> int | None:
    """The position after which the copy may run, or None when it should stay."""
    timeline = ranges.timeline
    source, target = dataflow.value(copy.operands[0]), dataflow.value(copy)
    now = timeline.start(copy)
    if source.instruction.op in (ops.PARAMETER, ops.CONSTANT) or not _ends_at(source, now, ranges):
        return None
    needs = (*copy.operands, *copy.control_predecessors)
    earliest = max(timeline.end(inst) for inst in needs)
    # Before the value's other reads nothing would be gained.
    reads = (timeline.start(u.instruction) for u in source.uses)
    earliest = max(earliest, *(at for at in reads if at < now), 0)
    for other in aliases.set_of(target).values:
        if other is target:
            continue
        # One that is alive where the copy runs hands over to it: then no earlier moment is free.
        earliest = max(earliest, *(last for first, last in ranges.segments(other) if first <= now), 0)
    return earliest


def _ends_at(value: Value, position: int, ranges: LiveRanges) -> bool:
    return any(last == position for _, last in ranges.segments(value))
