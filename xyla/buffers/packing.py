"""Packing: offsets in one heap for pieces of memory with known sizes and lives.

Several heuristics compete, because none is best everywhere, and the work ends when one meets the lower bound: the most
bytes alive at once. The problem is NP-hard (dynamic storage allocation); in practice the bound is nearly always met.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Placing a piece looks at those that overlap it. Beyond so many pairs, only so many of the largest are placed that way,
# and beyond so many placements no further order is tried.
PAIRS = 4_000_000
THOROUGH = 2_000
PLACEMENTS = 40_000

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """`size` bytes that are in use in `lives`: disjoint, ascending (first, last) times, both ends included."""

    size: int
    lives: tuple[tuple[int, int], ...]

    @property
    def first(self) -> int:
        """When its memory is first needed."""
        return self.lives[0][0]

    @property
    def last(self) -> int:
        """When its memory is last needed."""
        return self.lives[-1][1]


@dataclass(frozen=True, slots=True)
class Packing:
    """Offsets by piece, the heap's size, the bound it could not beat (both in bytes), and which heuristic found it."""

    offsets: tuple[int, ...]
    size: int
    lower_bound: int
    heuristic: str


def lower_bound(pieces: Sequence[Piece]) -> int:
    """The most bytes in use at once."""
    events = [(first, piece.size) for piece in pieces for first, _ in piece.lives]
    # A piece that ends at t is still in use at t: it goes at t + 1, before what begins there.
    events += [(last + 1, -piece.size) for piece in pieces for _, last in piece.lives]
    events.sort()
    live = most = 0
    for _, change in events:
        live += change
        most = max(most, live)
    return most


def pack(pieces: Sequence[Piece], alignment: int) -> Packing:
    """Offsets, multiples of `alignment`, such that no two pieces in use at the same time overlap.

    Near linear in the number of pieces beyond a constant number of large ones. Deterministic.
    """
    sizes = [-(-p.size // alignment) * alignment for p in pieces]
    rounded = [Piece(size, p.lives) for size, p in zip(sizes, pieces, strict=True)]
    bound = lower_bound(rounded)
    offsets = best_fit_in_time(rounded)
    best = _result(rounded, offsets, bound, "best-fit-in-time")
    if best.size > bound:
        for name, offsets in _others(rounded):
            found = _result(rounded, offsets, bound, name)
            if found.size < best.size:
                best = found
            if best.size <= bound:
                break
    return best


def _result(pieces: Sequence[Piece], offsets: Sequence[int], bound: int, name: str) -> Packing:
    size = max((o + p.size for o, p in zip(offsets, pieces, strict=True)), default=0)
    return Packing(tuple(offsets), size, bound, name)


# -- in the order of time ----------------------------------------------------------------------------------------


class _FreeBlocks:
    """Free memory below `top`: blocks found by size (least first) and by neighbour."""

    def __init__(self) -> None:
        self.top = 0
        self._by_size: list[tuple[int, int]] = []  # (size, offset)
        self._starts: dict[int, int] = {}  # offset -> size
        self._ends: dict[int, int] = {}  # end -> offset

    def take(self, size: int) -> int:
        """The least block that holds `size` bytes; the heap grows (over a free block at its end) when none does."""
        at = bisect_left(self._by_size, (size, -1))
        if at < len(self._by_size):
            block, offset = self._by_size[at]
            self._remove(offset)
            if block > size:
                self._add(offset + size, block - size)
            return offset
        offset = self._ends.get(self.top, self.top)
        if offset < self.top:
            self._remove(offset)
        self.top = offset + size
        return offset

    def give(self, offset: int, size: int) -> None:
        """Frees a block; neighbours become one."""
        before = self._ends.get(offset)
        if before is not None:
            self._remove(before)
            offset, size = before, size + offset - before
        after = self._starts.get(offset + size)
        if after is not None:
            self._remove(offset + size)
            size += after
        self._add(offset, size)

    def _add(self, offset: int, size: int) -> None:
        insort(self._by_size, (size, offset))
        self._starts[offset] = size
        self._ends[offset + size] = offset

    def _remove(self, offset: int) -> None:
        size = self._starts.pop(offset)
        del self._ends[offset + size]
        del self._by_size[bisect_left(self._by_size, (size, offset))]


def best_fit_in_time(pieces: Sequence[Piece]) -> list[int]:
    """Allocates and frees as a running program would, from a piece's first to its last use. O(n log n)."""
    offsets = [0] * len(pieces)
    # At one time: frees first; of what begins, the largest first.
    events = [(p.first, 1, -p.size, i) for i, p in enumerate(pieces) if p.size]
    events += [(p.last + 1, 0, -p.size, i) for i, p in enumerate(pieces) if p.size]
    events.sort()
    free = _FreeBlocks()
    for _, begins, size, i in events:
        if begins:
            offsets[i] = free.take(-size)
        else:
            free.give(offsets[i], -size)
    return offsets


def _others(pieces: Sequence[Piece]) -> Iterator[tuple[str, list[int]]]:
    overlaps = _Overlaps(pieces)
    if overlaps.pairs > PAIRS:
        yield "largest-below", _large_first(pieces)
        return
    done = 0
    for name, key in _ORDERS:
        if done and done + len(pieces) > PLACEMENTS:
            return
        yield name, _in_order(pieces, overlaps, key)
        done += len(pieces)


# -- in other orders ---------------------------------------------------------------------------------------------


def _by_size(piece: Piece) -> tuple[int, ...]:
    return (-piece.size, -(piece.last - piece.first), piece.first)


def _by_area(piece: Piece) -> tuple[int, ...]:
    return (-piece.size * (piece.last - piece.first + 1), -piece.size, piece.first)


def _by_life(piece: Piece) -> tuple[int, ...]:
    return (-(piece.last - piece.first), -piece.size, piece.first)


def _by_start(piece: Piece) -> tuple[int, ...]:
    return (piece.first, -piece.size, piece.last)


Key = Callable[[Piece], tuple[int, ...]]
_ORDERS: tuple[tuple[str, Key], ...] = (
    ("largest-first", _by_size),
    ("largest-area-first", _by_area),
    ("longest-first", _by_life),
    ("earliest-first", _by_start),
)


class _Overlaps:
    """Which pieces are in use at a common time; the lists are made on first request."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        lives = sorted((first, last, i) for i, p in enumerate(pieces) for first, last in p.lives if p.size)
        table = np.array(lives, np.int64).reshape(-1, 3)
        first, last, self._piece = table[:, 0], table[:, 1], table[:, 2]
        # What begins within a life and after it in the table is one run of rows: no search for pairs is needed.
        self._runs = np.searchsorted(first, last, "right") - np.arange(1, len(lives) + 1)
        self._count = len(pieces)
        self._lists: tuple[Ints, list[int]] | None = None

    @property
    def pairs(self) -> int:
        """How many pairs of lives overlap."""
        return int(self._runs.sum())

    def of(self, piece: int) -> Ints:
        """The pieces that overlap `piece` (perhaps some twice)."""
        if self._lists is None:
            self._lists = self._make()
        others, starts = self._lists
        return others[starts[piece] : starts[piece + 1]]

    def _make(self) -> tuple[Ints, list[int]]:
        rows = np.arange(len(self._runs))
        left = np.repeat(rows, self._runs)
        within = np.arange(len(left)) - np.repeat(np.cumsum(self._runs) - self._runs, self._runs)
        a, b = self._piece[left], self._piece[left + 1 + within]
        owner, other = np.concatenate((a, b)), np.concatenate((b, a))
        order = np.argsort(owner, kind="stable")
        starts: list[int] = np.searchsorted(owner[order], np.arange(self._count + 1)).tolist()
        return other[order], starts


def _in_order(pieces: Sequence[Piece], overlaps: _Overlaps, key: Key) -> list[int]:
    """Places pieces one by one, each in the least gap between those in use at its times that holds it."""
    start = np.full(len(pieces), -1, np.int64)
    size = np.array([p.size for p in pieces], np.int64)
    keys = [(key(p), i) for i, p in enumerate(pieces) if p.size]
    keys.sort()
    for _, i in keys:
        others = overlaps.of(i)
        start[i] = _least_gap(start[others], size[others], pieces[i].size)
    offsets: list[int] = np.maximum(start, 0).tolist()
    return offsets


def _least_gap(start: Ints, size: Ints, wanted: int) -> int:
    """The offset of the least gap of `wanted` bytes between pieces (start -1: not placed); the lowest of equals."""
    placed = np.flatnonzero(start >= 0)
    if not len(placed):
        return 0
    placed = placed[np.argsort(start[placed], kind="stable")]
    start = start[placed]
    below = np.maximum.accumulate(start + size[placed])
    gaps = start.copy()
    gaps[1:] -= below[:-1]
    fits = np.flatnonzero(gaps >= wanted)
    if not len(fits):
        return int(below[-1])
    best = int(fits[np.argmin(gaps[fits])])
    return int(below[best - 1]) if best else 0


def _large_first(pieces: Sequence[Piece]) -> list[int]:
    """For too many overlaps: the largest pieces as by size, the others, small ones, in time order above them."""
    numbers = sorted(range(len(pieces)), key=lambda i: (-pieces[i].size, i))
    large, small = numbers[:THOROUGH], numbers[THOROUGH:]
    chosen = [pieces[i] for i in large]
    offsets = [0] * len(pieces)
    for i, offset in zip(large, _in_order(chosen, _Overlaps(chosen), _by_size), strict=True):
        offsets[i] = offset
    top = max(offsets[i] + pieces[i].size for i in large)
    for i, offset in zip(small, best_fit_in_time([pieces[i] for i in small]), strict=True):
        offsets[i] = top + offset
    return offsets
