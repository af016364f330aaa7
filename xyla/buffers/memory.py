"""What lies where: memory as the values written to it, with undo; and sets of bytes that may be written."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from xyla.analysis.dataflow import Value
from xyla.hlo.module import Instruction
from xyla.runtime.program import Slice


class Writes:
    """A set of bytes by allocation, as disjoint intervals."""

    __slots__ = ("_intervals", "_new")

    def __init__(self) -> None:
        self._intervals: dict[int, list[tuple[int, int]]] = {}
        self._new: dict[int, list[tuple[int, int]]] = {}

    def add(self, where: Slice) -> None:
        """Adds a slice."""
        if where.size:
            self._new.setdefault(where.allocation, []).append((where.offset, where.offset + where.size))

    def extend(self, slices: Iterable[Slice]) -> None:
        """Adds slices."""
        for where in slices:
            self.add(where)

    def update(self, other: Writes) -> None:
        """Adds all of another set."""
        other._settle()
        for allocation, intervals in other._intervals.items():
            self._new.setdefault(allocation, []).extend(intervals)

    def slices(self) -> Iterator[Slice]:
        """The bytes, as slices in order."""
        self._settle()
        for allocation, intervals in sorted(self._intervals.items()):
            for start, end in intervals:
                yield Slice(allocation, start, end - start)

    def touches(self, where: Slice) -> bool:
        """Whether any byte of a slice is in the set."""
        self._settle()
        intervals = self._intervals.get(where.allocation, [])
        at = bisect_left(intervals, (where.offset + where.size,)) - 1
        return where.size > 0 and at >= 0 and intervals[at][1] > where.offset

    def _settle(self) -> None:
        """Joins what was added since: sorted, and intervals that touch become one."""
        for allocation, added in self._new.items():
            joined: list[tuple[int, int]] = []
            for start, end in sorted([*self._intervals.get(allocation, ()), *added]):
                if joined and start <= joined[-1][1]:
                    joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
                else:
                    joined.append((start, end))
            self._intervals[allocation] = joined
        self._new = {}


Entry = tuple[int, Value | None, Instruction]  # (end, value or None when unknown, who wrote it)


class Memory:
    """Which value each part of each allocation holds. Entries are disjoint; a value overwritten in part is gone."""

    __slots__ = ("_entries", "_log", "_marks", "_starts")

    def __init__(self) -> None:
        self._starts: dict[int, list[int]] = {}
        self._entries: dict[tuple[int, int], Entry] = {}
        self._log: list[tuple[tuple[int, int], Entry | None]] = []
        self._marks: list[int] = []

    def write(self, where: Slice, value: Value | None, by: Instruction) -> None:
        """`where` holds `value` from now on; None: what it holds is not known."""
        if not where.size:
            return
        end = where.offset + where.size
        for start in self._touched(where.allocation, where.offset, end):
            self._set((where.allocation, start), None)
        self._set((where.allocation, where.offset), (end, value, by))

    def clear(self, where: Slice, by: Instruction) -> None:
        """`where` may have been overwritten."""
        self.write(where, None, by)

    def holds(self, where: Slice, value: Value) -> bool:
        """Whether all of `where` is `value`."""
        if not where.size:
            return True
        entry = self._entries.get((where.allocation, where.offset))
        return entry is not None and entry[0] == where.offset + where.size and entry[1] is value

    def last_writer(self, where: Slice) -> tuple[str, Instruction] | None:
        """What lies on a slice instead of what is wanted, and who wrote it."""
        for start in self._touched(where.allocation, where.offset, where.offset + where.size):
            _, value, by = self._entries[where.allocation, start]
            return (value.name if value is not None else "other data"), by
        return None

    def begin(self) -> None:
        """Everything from here on is undone by the matching `undo`."""
        self._marks.append(len(self._log))

    def undo(self) -> None:
        """Goes back to the matching `begin`."""
        mark = self._marks.pop()
        while len(self._log) > mark:
            key, entry = self._log.pop()
            self._put(key, entry)
        if not self._marks:
            self._log.clear()

    def _touched(self, allocation: int, start: int, end: int) -> list[int]:
        starts = self._starts.get(allocation)
        if not starts:
            return []
        first = bisect_right(starts, start) - 1
        if first < 0 or self._entries[allocation, starts[first]][0] <= start:
            first += 1
        return starts[first : bisect_left(starts, end)]

    def _set(self, key: tuple[int, int], entry: Entry | None) -> None:
        if self._marks:
            self._log.append((key, self._entries.get(key)))
        self._put(key, entry)

    def _put(self, key: tuple[int, int], entry: Entry | None) -> None:
        allocation, start = key
        starts = self._starts.setdefault(allocation, [])
        if entry is None:
            if key in self._entries:
                del self._entries[key]
                del starts[bisect_left(starts, start)]
            return
        if key not in self._entries:
            starts.insert(bisect_left(starts, start), start)
        self._entries[key] = entry
