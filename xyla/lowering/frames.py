"""Copies between frames, and whose frames keep their arguments: those need not run again on equal ones."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from xyla.buffers.assignment import BufferAssignment
from xyla.hlo.module import Computation
from xyla.lowering.lmhlo_base import View
from xyla.support.status import internal

_Span = tuple[int, int, int]  # allocation, first byte, end


def overwritten_parameters(assignment: BufferAssignment) -> frozenset[Computation]:
    """The shared computations that write over their own parameters while they run.

    The others leave their arguments where they were put, so that equal ones are recognised the next time. Near linear
    in the number of values.
    """
    graph, timeline = assignment.dataflow.graph, assignment.timeline
    shared = [c for c in graph.regions if graph.is_shared(c)]
    if not shared:
        return frozenset()
    kept = {c: _parameter_spans(assignment, c) for c in shared}
    given = {v for c in shared for p in c.parameters for v in assignment.dataflow.values(p)}
    found: set[Computation] = set()
    for value in assignment.dataflow.all_values:
        region = timeline.region(value.instruction.parent)
        if region in kept and value not in given:
            where = assignment.slice_of(value)
            if _meets(kept[region], (where.allocation, where.offset, where.offset + where.size)):
                found.add(region)
    for inst, where in assignment.scratches.items():
        region = timeline.region(inst.parent)
        if region in kept and _meets(kept[region], (where.allocation, where.offset, where.offset + where.size)):
            found.add(region)
    return frozenset(found)


def _parameter_spans(assignment: BufferAssignment, comp: Computation) -> list[_Span]:
    slices = (s for p in comp.parameters for s in assignment.slices(p) if s is not None and s.size)
    return sorted({(s.allocation, s.offset, s.offset + s.size) for s in slices})


def _meets(spans: list[_Span], one: _Span) -> bool:
    """Whether a range has a byte in common with one of some disjoint sorted ones."""
    at = bisect_left(spans, one)
    near = spans[max(0, at - 1) : at + 1]
    return any(a == one[0] and first < one[2] and one[1] < end for a, first, end in near)


def in_order(copies: Sequence[tuple[View, View]]) -> list[tuple[View, View]]:
    """Copies (source, target), ordered so that no source is overwritten before it is read.

    Raises INTERNAL when values trade places: that takes copies that were inserted before memory was assigned.
    """
    pending, ordered = list(copies), list[tuple[View, View]]()
    while pending:
        free = [c for c in pending if not any(_touch(c[1], other[0]) for other in pending if other is not c)]
        if not free:
            names = ", ".join(str(target.slice) for _, target in pending[:4])
            raise internal(f"values trade places in {names}: copies are missing")
        ordered += free
        pending = [c for c in pending if not any(c is f for f in free)]
    return ordered


def _touch(a: View, b: View) -> bool:
    """Whether two views have a byte in common."""
    x, y = a.slice, b.slice
    together = a.space is b.space and x.allocation == y.allocation
    return together and x.offset < y.offset + y.size and y.offset < x.offset + x.size
