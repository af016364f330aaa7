"""Buffer assignment: which bytes of which allocation each value lives in.

    assignment = assign(module, dataflow, aliases, ranges, can_share=..., scratch={...})
    assignment.slice_of(value)      # Slice(allocation, offset, size)

Values of one alias set share a slice. What the caller provides or receives has an allocation of its own (parameters,
outputs), as has each distinct constant; everything else is packed into one heap a memory space. A computation that
several places share has a frame of its own in the heap, which nothing else uses at any time.

Source: XLA's BufferAssignment (kinds, colours, statistics); the packing is our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from xyla.analysis.alias import Aliases, CanShare, donated_leaves, share_elementwise
from xyla.analysis.dataflow import Dataflow, Value
from xyla.analysis.timeline import LiveRanges, Timeline
from xyla.buffers.packing import Packing, Piece, pack
from xyla.buffers.rooms import Room, move_into
from xyla.buffers.sharing import Buffer, buffers_of
from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.runtime.program import Slice
from xyla.support.status import Status, XylaError, internal, unimplemented

# The memory space of a value; by default the one its layout names.
Color = Callable[[Value], int]


class Kind(Enum):
    """Who provides an allocation's memory, and for how long.

    None is THREAD_LOCAL here: what a unit of work needs for itself is scratch, or on its stack.
    """

    PARAMETER = "parameter"  # the caller's array
    CONSTANT = "constant"  # shared by all runs
    LIVE_OUT = "live-out"  # fresh for each run, handed to the caller
    TEMP = "preallocated-temp"  # the heap of one run
    THREAD_LOCAL = "thread-local"  # of one thread of a unit of work


@dataclass(frozen=True, slots=True)
class Alignments:
    """Bytes that the start of each kind of memory is a multiple of; within the heap, each slice too."""

    parameter: int = 16
    constant: int = 64
    output: int = 64
    temp: int = 64

    def of(self, kind: Kind) -> int:
        """The alignment of an allocation of this kind."""
        match kind:
            case Kind.PARAMETER:
                return self.parameter
            case Kind.CONSTANT:
                return self.constant
            case Kind.LIVE_OUT:
                return self.output
            case _:
                return self.temp


@dataclass(slots=True, eq=False)
class Allocation:
    """A piece of memory of its own. `size`, `alignment` in bytes; `color`: its memory space.

    parameter: (number, shape index) of the entry parameter it is. literal: a constant's value. output_indices: leaves
    of the entry's result that live in it. donated: a parameter that a run may overwrite; must_alias: one whose caller
    has to give it up. values: where each lies, (offset, size).
    """

    index: int
    kind: Kind
    size: int
    alignment: int
    color: int = 0
    parameter: tuple[int, tuple[int, ...]] | None = None
    literal: Literal | None = None
    output_indices: list[int] = field(default_factory=list)
    donated: bool = False
    must_alias: bool = False
    values: dict[Value, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_live_out(self) -> bool:
        """Whether the caller receives it."""
        return bool(self.output_indices)

    @property
    def is_overwritten(self) -> bool:
        """Whether it is a parameter's and a run writes to it: the caller's array is copied unless it is given up."""
        return self.parameter is not None and len(self.values) > 1


@dataclass(frozen=True, slots=True)
class Frame:
    """The part of a heap that one region (the entry or a shared computation) uses; no two overlap. Bytes."""

    region: Computation
    allocation: int
    offset: int
    size: int
    lower_bound: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Bytes by kind. `lower_bound`: what no packing of this schedule's heap can beat."""

    parameters: int
    constants: int
    outputs: int
    temporaries: int
    lower_bound: int
    allocations: int
    values: int

    @property
    def total(self) -> int:
        """All memory of one run, the caller's arguments included."""
        return self.parameters + self.constants + self.outputs + self.temporaries

    def describe(self) -> str:
        """The parts of the total, in one line."""
        return (
            f"{self.parameters:,} of arguments, {self.constants:,} of constants, {self.outputs:,} of results, "
            f"{self.temporaries:,} of temporaries"
        )

    @property
    def fragmentation(self) -> int:
        """Bytes of the heap beyond its lower bound."""
        return self.temporaries - self.lower_bound


class BufferAssignment:
    """Allocations, and the slice of each value and of each instruction's scratch."""

    def __init__(self, module: Module, dataflow: Dataflow, ranges: LiveRanges) -> None:
        self.module = module
        self.dataflow = dataflow
        self.ranges = ranges
        self.allocations: list[Allocation] = []
        self.frames: list[Frame] = []
        self._slices: dict[Value, Slice] = {}
        self._scratch: dict[Instruction, Slice] = {}
        self._constants: dict[Literal, Allocation] = {}

    @property
    def timeline(self) -> Timeline:
        """The positions that the live ranges rest on."""
        return self.ranges.timeline

    def slice_of(self, value: Value) -> Slice:
        """Where a value lives. Raises KeyError for a value of another dataflow."""
        return self._slices[value]

    def slices(self, inst: Instruction) -> tuple[Slice | None, ...]:
        """Where each leaf of an instruction's result lives; None for tokens and opaques."""
        return tuple(None if v is None else self._slices[v] for v in self.dataflow.values(inst))

    def scratch(self, inst: Instruction) -> Slice | None:
        """The scratch that was asked for, or None."""
        return self._scratch.get(inst)

    def constant(self, literal: Literal) -> Slice:
        """Where an array literal lies: one allocation for each distinct literal, made on first request."""
        found = self._constants.get(literal)
        if found is None:
            alignment = Alignments().constant
            found = self.new(Kind.CONSTANT, literal.shape.num_bytes, alignment)
            found.literal = literal
            self._constants[literal] = found
        return Slice(found.index, 0, found.size)

    def new(self, kind: Kind, size: int, alignment: int, color: int = 0) -> Allocation:
        """Adds an empty allocation."""
        made = Allocation(len(self.allocations), kind, size, alignment, color)
        self.allocations.append(made)
        return made

    def put(self, allocation: Allocation, value: Value, offset: int) -> None:
        """States that a value lives at `offset` of an allocation."""
        allocation.values[value] = (offset, value.size)
        self._slices[value] = Slice(allocation.index, offset, value.size)

    def put_scratch(self, allocation: Allocation, inst: Instruction, offset: int, size: int) -> None:
        """States where an instruction's scratch is."""
        self._scratch[inst] = Slice(allocation.index, offset, size)

    @property
    def scratches(self) -> Mapping[Instruction, Slice]:
        """Every instruction's scratch."""
        return self._scratch

    @property
    def stats(self) -> Stats:
        """Bytes by kind."""
        sizes = dict.fromkeys(Kind, 0)
        for a in self.allocations:
            sizes[a.kind] += a.size
        return Stats(
            sizes[Kind.PARAMETER],
            sizes[Kind.CONSTANT],
            sizes[Kind.LIVE_OUT],
            sizes[Kind.TEMP],
            sum(f.lower_bound for f in self.frames),
            len(self.allocations),
            len(self._slices),
        )


def default_color(value: Value) -> int:
    """The memory space that the value's layout names; 0 without one."""
    layout = value.shape.layout
    return layout.memory_space if layout is not None else 0


def assign(
    module: Module,
    dataflow: Dataflow,
    aliases: Aliases,
    ranges: LiveRanges,
    *,
    can_share: CanShare = share_elementwise,
    scratch: Mapping[Instruction, int] | None = None,
    alignments: Alignments | None = None,
    color: Color = default_color,
    limit: int | None = None,
) -> BufferAssignment:
    """Assigns every value of a scheduled module, copies inserted, its memory. Near linear in the number of values.

    can_share: the target's say on which results may overwrite an operand. scratch: bytes that an instruction needs
    while it runs. limit: the most bytes a run may need, arguments included. Raises UNIMPLEMENTED for an output without
    a definite value, RESOURCE_EXHAUSTED beyond the limit, INTERNAL when values that must share memory cannot.
    """
    assigner = _Assigner(module, dataflow, aliases, ranges, alignments or Alignments(), color)
    found = assigner.run(can_share, scratch or {})
    if limit is not None and found.stats.total > limit:
        raise XylaError(
            Status.RESOURCE_EXHAUSTED,
            f"module {module.name!r} needs {found.stats.total:,} bytes, more than the limit of {limit:,}: "
            f"{found.stats.describe()}",
            hint="`xyla memory` shows what is alive at the peak and what would reduce it",
        )
    return found


class _Assigner:
    def __init__(
        self,
        module: Module,
        dataflow: Dataflow,
        aliases: Aliases,
        ranges: LiveRanges,
        alignments: Alignments,
        color: Color,
    ) -> None:
        self.module = module
        self.dataflow = dataflow
        self.aliases = aliases
        self.ranges = ranges
        self.alignments = alignments
        self.color = color
        self.result = BufferAssignment(module, dataflow, ranges)

    def run(self, can_share: CanShare, scratch: Mapping[Instruction, int]) -> BufferAssignment:
        self._refuse_ambiguous_results()
        buffers = buffers_of(self.dataflow, self.aliases, self.ranges, can_share, self.color)
        self._parameters(buffers)
        self._constants(buffers)
        self._outputs(buffers)
        self._fill_outputs(buffers)
        placed = self.result._slices
        self._heaps([b for b in buffers if b.values[0] not in placed], scratch)
        return self.result

    def _refuse_ambiguous_results(self) -> None:
        root = self.module.entry.root
        for (index, leaf), value in zip(root.shape.leaves(), self.dataflow.values(root), strict=True):
            if value is None and leaf.is_array:
                raise unimplemented(
                    f"output {{{','.join(map(str, index))}}} of module {self.module.name!r} has no one value that "
                    "could be given a buffer",
                    span=root.span,
                )

    # -- what the caller provides and receives ---------------------------------------------------------------------

    def _parameters(self, buffers: list[Buffer]) -> None:
        """An allocation for each array the caller passes, also for those that nothing reads."""
        of = {v: b for b in buffers for v in b.values}
        donated = set(donated_leaves(self.module))
        for p in self.module.entry.parameters:
            leaves = zip(p.shape.leaves(), self.dataflow.values(p), strict=True)
            for leaf, ((index, _), value) in enumerate(leaves):
                if value is None:
                    continue
                made = self._own(Kind.PARAMETER, value.size, value)
                made.parameter = (int(p.attrs.number), index)
                made.donated = (int(p.attrs.number), leaf) in donated
                self._fill(made, of[value])
        aliased = {(a.parameter, a.parameter_index): a.must for a in self.module.config.input_output_aliases}
        for made in self.result.allocations:
            assert made.parameter is not None
            number, index = made.parameter
            for n in range(len(index) + 1):
                must = aliased.get((number, index[:n]))
                if must is not None:
                    made.donated, made.must_alias = True, made.must_alias or must

    def _constants(self, buffers: list[Buffer]) -> None:
        for buffer in buffers:
            constants = [v for v in buffer.values if v.instruction.op is ops.CONSTANT]
            if not constants:
                continue
            if len(buffer.values) > 1:
                others = ", ".join(v.name for v in buffer.values[:4])
                raise internal(f"constant {constants[0].name} shares memory with {others}: a copy is missing")
            literal = leaf_literal(constants[0])
            slice_ = self.result.constant(literal)
            self.result.put(self.result.allocations[slice_.allocation], constants[0], 0)

    def _outputs(self, buffers: list[Buffer]) -> None:
        """An allocation for each array the caller receives, unless that lives in one of the caller's own."""
        of = {v: b for b in buffers for v in b.values}
        for leaf, value in enumerate(self.dataflow.values(self.module.entry.root)):
            if value is None:
                continue
            where = self.result._slices.get(value)
            if where is None:
                made = self._own(Kind.LIVE_OUT, of[value].size, value)
                self._fill(made, of[value])
            else:
                made = self.result.allocations[where.allocation]
            made.output_indices.append(leaf)

    def _own(self, kind: Kind, size: int, value: Value) -> Allocation:
        return self.result.new(kind, size, self.alignments.of(kind), self.color(value))

    def _fill(self, allocation: Allocation, buffer: Buffer) -> None:
        for v in buffer.values:
            before = self.result._slices.get(v)
            if before is not None:
                other = self.result.allocations[before.allocation]
                places = f"{_describe(other)} and in {_describe(allocation)}"
                raise internal(f"{v.name} must lie in {places}: a copy is missing")
            self.result.put(allocation, v, 0)

    def _fill_outputs(self, buffers: list[Buffer]) -> None:
        """Temporaries of the entry lie in an output's memory, or a given up argument's, while that is not in use."""
        of = {v: b for b in buffers for v in b.values}
        rooms = []
        for a in self.result.allocations:
            if a.size and (a.kind is Kind.LIVE_OUT or a.is_overwritten):
                (owner,) = {of[v] for v in a.values}
                rooms.append(Room(a.index, a.size, a.color, [(0, a.size, owner.lives)]))
        rooms.sort(key=lambda room: (room.size, room.allocation))
        entry, placed = self.module.entry, self.result._slices
        temporaries = [b for b in buffers if b.region is entry and b.values[0] not in placed]
        positions = self.ranges.timeline.size
        for move in move_into(rooms, temporaries, positions, self.alignments.temp):
            for v in move.buffer.values:
                self.result.put(self.result.allocations[move.allocation], v, move.offset)

    # -- the heap --------------------------------------------------------------------------------------------------

    def _heaps(self, buffers: list[Buffer], scratch: Mapping[Instruction, int]) -> None:
        """One heap a memory space; in it, the entry's frame and then those of the shared computations."""
        spaces = dict.fromkeys([0, *(b.color for b in buffers)])
        by_frame: dict[tuple[int, Computation], list[Buffer]] = {}
        for b in buffers:
            by_frame.setdefault((b.color, b.region), []).append(b)
        asked: dict[Computation, list[tuple[Instruction, int]]] = {}
        for inst, size in scratch.items():
            if size > 0:
                asked.setdefault(self.ranges.timeline.region(inst.parent), []).append((inst, size))
        regions = list(reversed(self.dataflow.graph.regions))
        for space in sorted(spaces):
            heap = self.result.new(Kind.TEMP, 0, self.alignments.temp, space)
            for region in regions:
                wanted = asked.get(region, []) if space == 0 else []
                self._frame(region, heap, by_frame.get((space, region), []), wanted)

    def _frame(
        self, region: Computation, heap: Allocation, buffers: list[Buffer], scratch: list[tuple[Instruction, int]]
    ) -> None:
        """Packs what lives in one region and lays it above what the heap holds."""
        pieces = [Piece(b.size, tuple(b.lives)) for b in buffers]
        pieces += [Piece(size, (self.ranges.works(inst),)) for inst, size in scratch]
        found: Packing = pack(pieces, heap.alignment)
        base = heap.size
        for buffer, offset in zip(buffers, found.offsets, strict=False):
            for v in buffer.values:
                self.result.put(heap, v, base + offset)
        for (inst, size), offset in zip(scratch, found.offsets[len(buffers) :], strict=True):
            self.result.put_scratch(heap, inst, base + offset, size)
        heap.size = base + found.size
        self.result.frames.append(Frame(region, heap.index, base, found.size, found.lower_bound))


def leaf_literal(value: Value) -> Literal:
    """The array of a constant instruction at the value's leaf."""
    literal: Literal = value.instruction.attrs.literal
    for index in list(value.instruction.shape.leaves())[value.leaf][0]:
        literal = literal.elements[index]
    return literal


def _describe(allocation: Allocation) -> str:
    if allocation.parameter is not None:
        number, index = allocation.parameter
        return f"parameter {number}" + (f"{{{','.join(map(str, index))}}}" if index else "")
    return f"{allocation.kind.value} allocation {allocation.index}"
