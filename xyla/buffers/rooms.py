"""Temporaries that lie in an output's memory while nothing of the output is written yet.

An output has memory of its own from the start of a run, most of it idle until near the end. What is alive at the peak
of the heap moves there, largest first, as long as that lowers the peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xyla.analysis.timeline import Segment, overlaps
from xyla.buffers.sharing import Buffer

# A heap of fewer bytes is not worth the search; so many moves at most, and at each so many candidates.
WORTHWHILE = 1 << 16
_MOVES = 32
_CANDIDATES = 16


@dataclass(slots=True)
class Room:
    """An allocation of `size` bytes: `taken` lists the parts in use, (first byte, end, when)."""

    allocation: int
    size: int
    color: int
    taken: list[tuple[int, int, list[Segment]]]

    def place(self, size: int, lives: list[Segment], alignment: int) -> int | None:
        """The lowest aligned offset with `size` bytes free throughout `lives`, or None."""
        at = 0
        for first, end, when in sorted(self.taken, key=lambda part: part[:2]):
            if first >= at + size:
                break
            if end > at and overlaps(when, lives):
                at = -(-end // alignment) * alignment
        return at if at + size <= self.size else None


@dataclass(frozen=True, slots=True)
class Move:
    """`buffer` lies at `offset` of an output's allocation."""

    buffer: Buffer
    allocation: int
    offset: int


def move_into(rooms: Sequence[Room], buffers: Sequence[Buffer], positions: int, alignment: int) -> list[Move]:
    """Which of the buffers (all of one frame) move into the rooms, and where: those in use at the heap's peak.

    rooms: the smallest first. positions: how many there are on the timeline. Near linear in the number of buffers.
    """
    use = np.zeros(positions + 1, np.int64)
    for b in buffers:
        for first, last in b.lives:
            use[first] += b.size
            use[last + 1] -= b.size
    use = np.cumsum(use)
    if not rooms or use.max() < WORTHWHILE:
        return []
    waiting = sorted((b for b in buffers if b.size), key=lambda b: (-b.size, b.values[0].id))
    moves: list[Move] = []
    while len(moves) < _MOVES:
        move = _next_move(rooms, waiting, int(use.argmax()), alignment)
        if move is None:
            break
        moves.append(move)
        waiting.remove(move.buffer)
        for first, last in move.buffer.lives:
            use[first : last + 1] -= move.buffer.size
    return moves


def _next_move(rooms: Sequence[Room], waiting: Sequence[Buffer], now: int, alignment: int) -> Move | None:
    """The largest buffer in use at `now` that fits somewhere, into the smallest room that holds it."""
    tried = 0
    for buffer in waiting:
        if not overlaps([(now, now)], buffer.lives):
            continue
        tried += 1
        if tried > _CANDIDATES:
            return None
        for room in rooms:
            if room.size < buffer.size or room.color != buffer.color:
                continue
            offset = room.place(buffer.size, buffer.lives, alignment)
            if offset is not None:
                room.taken.append((offset, offset + buffer.size, buffer.lives))
                return Move(buffer, room.allocation, offset)
    return None
