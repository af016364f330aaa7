"""A simple, correct buffer plan: which memory each value of each computation lives in.

Every computation is one static *frame*: its values are packed by liveness inside the frame, and frames never
overlap, so a frame may be run again and again (loop bodies, shared calls) but never re-entered. Values are never
written twice while anything can read them, except loop state, which is copied at the end of each trip.

- A computation with one caller borrows the caller's buffers for its parameters; a shared one has its own, copied into.
- Tuples, get-tuple-element, bitcasts and such own no memory: they name other values' buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.runtime.program import Allocation, AllocationKind, Slice

ALIGNMENT = 64
Bytes = npt.NDArray[np.uint8]


@dataclass(slots=True, eq=False)
class Buffer:
    """Memory of one array leaf. `first`, `last`: positions in its frame's order between which it is alive."""

    size: int
    kind: AllocationKind
    frame: Frame | None
    first: int = 0
    last: int = 0
    slice: Slice | None = None

    def where(self) -> Slice:
        """The assigned slice."""
        assert self.slice is not None, "the plan has not been packed"
        return self.slice


Leaves = tuple[Buffer | None, ...]  # one an array leaf, in order; None for tokens and opaques


@dataclass(slots=True, eq=False)
class Frame:
    """The memory of one computation."""

    computation: Computation
    order: list[Instruction]
    owned: list[Buffer] = field(default_factory=list)
    parameters: list[Leaves] = field(default_factory=list)


class Plan:
    """Buffers of every value; `leaves[inst]` are those of an instruction's array leaves."""

    def __init__(self) -> None:
        self.leaves: dict[Instruction, Leaves] = {}
        self.frames: dict[Computation, Frame] = {}
        self.allocations: list[Allocation] = []

    # -- building ----------------------------------------------------------------------------------------------

    def frame_of(self, comp: Computation) -> Frame:
        """The frame of a computation, made on first request."""
        frame = self.frames.get(comp)
        if frame is None:
            # Storage order where that is a valid one, so a schedule that the program came with is kept.
            frame = self.frames[comp] = Frame(comp, comp.post_order())
        return frame

    def temp(self, frame: Frame, size: int, position: int) -> Buffer:
        """New scratch in a frame, alive from `position`."""
        buffer = Buffer(size, AllocationKind.TEMP, frame, position, position)
        frame.owned.append(buffer)
        return buffer

    def own_leaves(self, frame: Frame, shape: Shape, position: int) -> Leaves:
        """New buffers for every array leaf of a shape."""
        return tuple(
            self.temp(frame, leaf.num_bytes, position) if leaf.is_array else None for _, leaf in shape.leaves()
        )

    def external(self, kind: AllocationKind, size: int, index: int = -1, data: Bytes | None = None) -> Buffer:
        """A buffer with an allocation of its own (parameter, constant, output)."""
        buffer = Buffer(size, kind, None)
        buffer.slice = Slice(len(self.allocations), 0, size)
        self.allocations.append(Allocation(kind, size, index, data))
        return buffer

    def use(self, frame: Frame, buffers: Leaves, position: int) -> None:
        """Records that `position` of `frame` reads the buffers."""
        for b in buffers:
            if b is None or b.frame is None:
                continue
            if b.frame is frame:
                b.last = max(b.last, position)

    def pin(self, frame: Frame, buffers: Leaves) -> None:
        """Keeps buffers alive to the end of their frame (results, loop state)."""
        for b in buffers:
            if b is not None and b.frame is not None:
                b.last = len(b.frame.order)

    def as_output(self, buffer: Buffer, index: int) -> bool:
        """Moves an entry-frame temporary into an output allocation of its own; False if it cannot be."""
        if buffer.kind is not AllocationKind.TEMP or buffer.frame is None or not buffer.frame.computation.is_entry:
            return False
        buffer.frame.owned.remove(buffer)
        buffer.frame, buffer.kind = None, AllocationKind.OUTPUT
        buffer.slice = Slice(len(self.allocations), 0, buffer.size)
        self.allocations.append(Allocation(AllocationKind.OUTPUT, buffer.size, index))
        return True

    # -- packing -----------------------------------------------------------------------------------------------

    def pack(self) -> int:
        """Assigns every temporary its offset in one heap; returns the heap's size in bytes."""
        heap = len(self.allocations)
        base = 0
        for frame in self.frames.values():
            base += _pack_frame(frame, heap, base)
        self.allocations.append(Allocation(AllocationKind.TEMP, base))
        return base


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _pack_frame(frame: Frame, heap: int, base: int) -> int:
    """Best-fit by first use: freed blocks are reused, neighbours merge. Returns the frame's size."""
    births = sorted(frame.owned, key=lambda b: b.first)
    deaths = sorted(frame.owned, key=lambda b: b.last)
    free: list[tuple[int, int]] = []  # (offset, size), sorted by offset
    top, dead = 0, 0
    for buffer in births:
        while dead < len(deaths) and deaths[dead].last < buffer.first:
            gone = deaths[dead].where()
            free = _release(free, gone.offset - base, _round_up(gone.size))
            dead += 1
        size = _round_up(buffer.size)
        offset = _take(free, size)
        if offset is None:
            offset, top = top, top + size
        buffer.slice = Slice(heap, base + offset, buffer.size)
    return top


def _take(free: list[tuple[int, int]], size: int) -> int | None:
    if size == 0:
        return 0
    fits = [(s, i) for i, (_, s) in enumerate(free) if s >= size]
    if not fits:
        return None
    _, i = min(fits)
    offset, block = free[i]
    if block == size:
        del free[i]
    else:
        free[i] = (offset + size, block - size)
    return offset


def _release(free: list[tuple[int, int]], offset: int, size: int) -> list[tuple[int, int]]:
    if size == 0:
        return free
    merged: list[tuple[int, int]] = []
    for start, length in sorted([*free, (offset, size)]):
        if merged and merged[-1][0] + merged[-1][1] == start:
            merged[-1] = (merged[-1][0], merged[-1][1] + length)
        else:
            merged.append((start, length))
    return merged


# -- which instructions own no memory -----------------------------------------------------------------------------

# The result is operand 0, leaf for leaf.
FORWARDERS: frozenset[OpDef[Any]] = frozenset(
    {ops.OPT_BARRIER, ops.DOMAIN, ops.ADD_DEPENDENCY, ops.BITCAST, ops.COPY, ops.RESHAPE}
)


def forwards(inst: Instruction) -> bool:
    """Whether `inst`'s result is byte for byte its first operand's."""
    if inst.op not in FORWARDERS:
        return False
    if inst.op is ops.BITCAST:
        return inst.shape.num_bytes == inst.operands[0].shape.num_bytes
    if inst.op is ops.COPY:
        source, target = inst.operands[0].shape, inst.shape
        return source.is_tuple or source.strides() == target.strides()
    if inst.op is ops.RESHAPE:
        return _row_major(inst.shape) and _row_major(inst.operands[0].shape)
    return True


def _row_major(shape: Shape) -> bool:
    order = shape.layout.minor_to_major if shape.layout else None
    return order is None or order == tuple(range(shape.rank - 1, -1, -1))
