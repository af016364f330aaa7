"""Proof of an assignment by replay: every read finds the value it wants where the assignment says it is.

The schedule is walked as it would run, with a map from memory to the value written there last. An instruction's
operands must be there when it starts; its results overwrite what they lie on. A value that is needed later but has
been overwritten is found at the read, which names both values. Nothing here relies on live ranges or on packing.

- A loop is walked once: whatever its condition and body write is forgotten at its start, so that only what survives
  every trip can be read.
- A branch is walked on its own; after a conditional only what no branch wrote is known.
- A shared computation is walked by itself, once. Its places copy arguments in and results out.
- What asynchronous work reads and writes belongs to it until it is waited for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from xyla.analysis.alias import CanShare, may_take_over, share_elementwise
from xyla.analysis.call_graph import CONTROL_OPS
from xyla.analysis.dataflow import Value, forwards
from xyla.analysis.nesting import Nested, drive
from xyla.buffers.assignment import Allocation, BufferAssignment, Frame, Kind, leaf_literal
from xyla.buffers.memory import Memory, Writes
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef, Trait, all_ops
from xyla.runtime.program import Slice
from xyla.support.status import internal

# They read nothing and write nothing.
_IDLE: frozenset[OpDef[Any]] = frozenset({
    ops.PARAMETER, ops.CONSTANT, ops.TUPLE, ops.GET_TUPLE_ELEMENT, ops.AFTER_ALL, ops.ASYNC_UPDATE, ops.OPT_BARRIER,
    ops.DOMAIN, ops.ADD_DEPENDENCY,
})  # fmt: skip


_STARTS = frozenset(op for op in all_ops() if op.has(Trait.ASYNC_START))
_DONES = frozenset(op for op in all_ops() if op.has(Trait.ASYNC_DONE))


def verify_assignment(assignment: BufferAssignment, can_share: CanShare = share_elementwise) -> None:
    """Raises INTERNAL, naming what is wrong, unless `assignment` is right for its module in its stored order.

    can_share: the target's say on which results may overwrite an operand; other overlaps of an instruction's results
    with its operands are refused. Near linear in the number of values and in loop nesting.
    """
    _check_slices(assignment)
    _check_interface(assignment)
    _Replay(assignment, can_share).run()


# -- what needs no replay ------------------------------------------------------------------------------------------


def _check_slices(assignment: BufferAssignment) -> None:
    allocations = assignment.allocations
    frames = _frames(assignment)
    for value in assignment.dataflow.all_values:
        try:
            where = assignment.slice_of(value)
        except KeyError:
            raise internal(f"{value.name} has no buffer") from None
        if where.size < value.size:
            raise internal(f"{value.name} of {value.size} bytes has a buffer of {where.size}")
        allocation = allocations[where.allocation]
        if allocation.values.get(value) != (where.offset, where.size):
            raise internal(f"allocation {allocation.index} does not know of {value.name} at {where}")
        _check_inside(value.name, where, allocation)
        if allocation.kind is Kind.TEMP:
            _check_frame(value.name, where, frames.get((where.allocation, assignment.ranges.region(value))))
    for inst, where in assignment.scratches.items():
        if allocations[where.allocation].kind is not Kind.TEMP:
            raise internal(f"the scratch of %{inst.name} is not in a heap")
        _check_inside(f"the scratch of %{inst.name}", where, allocations[where.allocation])


def _frames(assignment: BufferAssignment) -> dict[tuple[int, Computation], Frame]:
    """Each region's frame of each heap; they do not overlap, so that a shared computation's results stay in its own."""
    rows = sorted((f.allocation, f.offset, f.offset + f.size) for f in assignment.frames if f.size)
    for (a, _, end), (b, start, _) in pairwise(rows):
        if a == b and start < end:
            raise internal(f"two frames overlap at byte {start} of allocation {a}")
    return {(f.allocation, f.region): f for f in assignment.frames}


def _check_frame(what: str, where: Slice, frame: Frame | None) -> None:
    if frame is None or where.offset < frame.offset or where.offset + where.size > frame.offset + frame.size:
        raise internal(f"{what} at {where} is outside of the frame of its computation")


def _check_inside(what: str, where: Slice, allocation: Allocation) -> None:
    if where.offset < 0 or where.offset + where.size > allocation.size:
        raise internal(f"{what} at {where} is outside of its allocation of {allocation.size} bytes")
    if where.offset % allocation.alignment:
        raise internal(f"{what} at offset {where.offset} is not aligned to {allocation.alignment} bytes")


def _check_interface(assignment: BufferAssignment) -> None:
    """Each parameter, output and constant has its allocation, and only what may be written is."""
    entry = assignment.module.entry
    for p in entry.parameters:
        for (index, _), value in zip(p.shape.leaves(), assignment.dataflow.values(p), strict=True):
            if value is None:
                continue
            found = assignment.allocations[assignment.slice_of(value).allocation]
            if found.parameter != (p.attrs.number, index):
                raise internal(f"{value.name} is not in its parameter's allocation")
    for leaf, value in enumerate(assignment.dataflow.values(entry.root)):
        if value is None:
            continue
        found = assignment.allocations[assignment.slice_of(value).allocation]
        if leaf not in found.output_indices:
            raise internal(f"output {leaf}, {value.name}, is not in an allocation that the caller receives")
    for allocation in assignment.allocations:
        for value in allocation.values:
            _check_writable(value, allocation)


def _check_writable(value: Value, allocation: Allocation) -> None:
    inst = value.instruction
    is_constant = inst.op is ops.CONSTANT
    if (allocation.kind is Kind.CONSTANT) is not is_constant:
        raise internal(f"{value.name} is in {allocation.kind.value} allocation {allocation.index}")
    if is_constant and leaf_literal(value) != allocation.literal:
        raise internal(f"{value.name} is in the allocation of another constant ({allocation.index})")
    is_input = inst.op is ops.PARAMETER and inst.parent.is_entry
    if allocation.kind is Kind.PARAMETER and not is_input and not allocation.donated:
        raise internal(f"{value.name} is in allocation {allocation.index}, a parameter that the caller keeps")


# -- the replay ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Pending:
    """Asynchronous work that runs: what it may write, and what it reads."""

    start: Instruction
    writes: Writes
    reads: Writes


class _Replay:
    def __init__(self, assignment: BufferAssignment, can_share: CanShare) -> None:
        self.assignment = assignment
        self.dataflow = assignment.dataflow
        self.graph = assignment.dataflow.graph
        self.can_share = can_share
        self.memory = Memory()
        self.pending: dict[Instruction, _Pending] = {}
        self.written: dict[Computation, Writes] = {}
        for comp in self.graph.control:
            self.written[comp] = self._written_by(comp)

    def run(self) -> None:
        """Walks the entry and each shared computation."""
        for region in self.graph.regions:
            self.memory = Memory()
            self.pending = {}
            if region is self.assignment.module.entry:
                self._preset_parameters()
            else:
                self._preset_arguments(region)
            drive(self._walk(region))
            for value in self._leaves(region.root):
                self._read(value, region.root, "as the result")

    # -- writes --------------------------------------------------------------------------------------------------

    def _written_by(self, comp: Computation) -> Writes:
        """What running `comp` may write, callees included."""
        out = Writes()
        for inst in comp.instructions:
            for value in self.dataflow.defines(inst):
                if value is not None and inst.op not in _IDLE:
                    out.add(self.assignment.slice_of(value))
            scratch = self.assignment.scratch(inst)
            if scratch is not None:
                out.add(scratch)
            if inst.op in CONTROL_OPS:
                for callee in inst.called:
                    out.update(self.written[callee])
                    if self.graph.is_shared(callee):
                        for p in callee.parameters:
                            out.extend(self.assignment.slice_of(v) for v in self._leaves(p))
        return out

    def _preset_parameters(self) -> None:
        for p in self.assignment.module.entry.parameters:
            for value in self._leaves(p):
                self.memory.write(self.assignment.slice_of(value), value, p)

    def _preset_arguments(self, region: Computation) -> None:
        for p in region.parameters:
            self._write_all(self._leaves(p), p)

    def _leaves(self, inst: Instruction) -> list[Value]:
        return [v for v in self.dataflow.values(inst) if v is not None]

    def _write_all(self, values: Iterable[Value], inst: Instruction) -> None:
        for value in values:
            self._guard(self.assignment.slice_of(value), inst)
            self.memory.write(self.assignment.slice_of(value), value, inst)

    def _guard(self, where: Slice, inst: Instruction) -> None:
        """Nothing may be written where an asynchronous computation works."""
        for other in self.pending.values():
            if other.start is not inst and (other.writes.touches(where) or other.reads.touches(where)):
                raise internal(f"%{inst.name} writes memory that %{other.start.name} works in until it is done")

    def _read(self, value: Value, inst: Instruction, how: str = "") -> None:
        where = self.assignment.slice_of(value)
        if value.instruction.op is ops.CONSTANT or self.memory.holds(where, value):
            return
        culprit = self.memory.last_writer(where)
        what = f"{culprit[0]}, written by %{culprit[1].name}" if culprit else "nothing"
        raise internal(f"%{inst.name} reads {value.name}{' ' + how if how else ''}, but finds {what} at {_text(where)}")

    # -- the walk ------------------------------------------------------------------------------------------------

    def _walk(self, comp: Computation) -> Nested:
        for inst in comp.instructions:
            if inst.op is ops.WHILE:
                yield self._while(inst)
            elif inst.op is ops.CONDITIONAL:
                yield self._conditional(inst)
            elif inst.op in CONTROL_OPS:
                yield self._call(inst)
            elif inst.op in _DONES:
                self._finish(inst)
            elif inst.op not in _IDLE and not forwards(inst):
                self._work(inst)

    def _work(self, inst: Instruction) -> None:
        """A unit of work: reads all operands, then writes its results and scratch."""
        operands = list(dict.fromkeys(v for o in inst.operands for v in self._leaves(o)))
        for value in operands:
            self._read(value, inst)
        if inst.op in _STARTS and _is_awaited(inst):
            self.pending[inst] = _Pending(inst, Writes(), self._reads(inst))
        results = [v for v in self.dataflow.defines(inst) if v is not None]
        self._check_unit(inst, operands, results)
        scratch = self.assignment.scratch(inst)
        if scratch is not None:
            self._guard(scratch, inst)
            self.memory.clear(scratch, inst)
        self._write_all(results, inst)

    def _finish(self, done: Instruction) -> None:
        """What was started is over: what it read may change. Whoever wants its results reads them later."""
        start = done.operands[0]
        while start.op is ops.ASYNC_UPDATE:
            start = start.operands[0]
        self.pending.pop(start, None)
        self._write_all([v for v in self.dataflow.defines(done) if v is not None], done)

    def _reads(self, inst: Instruction) -> Writes:
        """The memory of an instruction's operands."""
        out = Writes()
        out.extend(self.assignment.slice_of(v) for o in inst.operands for v in self._leaves(o))
        return out

    def _check_unit(self, inst: Instruction, operands: Sequence[Value], results: Sequence[Value]) -> None:
        """A result overlaps an operand only where it may take its place, and no other result or scratch."""
        places = [(self.assignment.slice_of(v), v.name) for v in results]
        scratch = self.assignment.scratch(inst)
        if scratch is not None:
            places.append((scratch, "its scratch"))
        _check_disjoint(inst, places)
        if not places:
            return
        read = _Places((self.assignment.slice_of(v), v) for v in operands)
        for value in results:
            where = self.assignment.slice_of(value)
            for old in read.overlapping(where):
                if where != self.assignment.slice_of(old) or not may_take_over(value, old, self.can_share):
                    raise internal(f"%{inst.name} writes {value.name} over {old.name}, which it reads")
        if scratch is not None and (found := read.overlapping(scratch)):
            raise internal(f"the scratch of %{inst.name} lies over {found[0].name}, which it reads")

    # -- control flow --------------------------------------------------------------------------------------------

    def _call(self, inst: Instruction) -> Nested:
        (callee,) = inst.called
        if inst.op is ops.ASYNC_START and _is_awaited(inst) and self.graph.goes_on(inst):
            self.pending[inst] = _Pending(inst, self.written[callee], self._reads(inst))
        if self.graph.is_shared(callee):
            self._shared_call(inst, callee, inst.operands)
            self._write_all([v for v in self.dataflow.defines(inst) if v is not None], inst)
        else:
            pending = self.pending.pop(inst, None)
            yield self._walk(callee)
            if pending is not None:
                self.pending[inst] = pending

    def _shared_call(self, inst: Instruction, callee: Computation, operands: Sequence[Instruction]) -> None:
        for value in dict.fromkeys(v for o in operands for v in self._leaves(o)):
            self._read(value, inst)
        self._forget(self.written[callee], inst)

    def _forget(self, writes: Writes, inst: Instruction) -> None:
        for where in writes.slices():
            self._guard(where, inst)
            self.memory.clear(where, inst)

    def _while(self, inst: Instruction) -> Nested:
        condition, body = inst.called
        state = self.dataflow.defines(inst)
        for value, phi in zip(self.dataflow.values(inst.operands[0]), state, strict=True):
            # What no trip changes is passed by: those who use it read it where it is.
            if value is not None and phi is not None:
                self._read(value, inst, "as its first state")
        phis = [v for v in state if v is not None]
        for writes in (self.written[condition], self.written[body]):
            self._forget(writes, inst)
        self._become(phis, inst)
        yield from self._part(inst, condition)
        (predicate,) = self._leaves(condition.root)
        if not self.graph.is_shared(condition):
            self._read(predicate, inst, "as its predicate")
        yield from self._part(inst, body)
        if not self.graph.is_shared(body):
            for new, phi in zip(self.dataflow.values(body.root), state, strict=True):
                if new is not None and phi is not None:
                    self._read(new, inst, "as its next state")
                    self._check_merged(inst, new, phi)
        self._become(phis, inst)

    def _part(self, inst: Instruction, comp: Computation) -> Nested:
        if self.graph.is_shared(comp):
            self._shared_call(inst, comp, [inst])
        else:
            yield self._walk(comp)

    def _check_merged(self, inst: Instruction, source: Value, phi: Value) -> None:
        if source.size and self.assignment.slice_of(source) != self.assignment.slice_of(phi):
            raise internal(f"{source.name} becomes {phi.name} of %{inst.name}, but lies elsewhere: a copy is missing")

    def _become(self, phis: Iterable[Value], inst: Instruction) -> None:
        """The inputs' memory holds the phi from here on: nothing is written."""
        for phi in phis:
            for source in phi.inputs:
                if phi.is_phi:
                    self._check_merged(inst, source, phi)
            self.memory.write(self.assignment.slice_of(phi), phi, inst)

    def _conditional(self, inst: Instruction) -> Nested:
        for value in self._leaves(inst.operands[0]):
            self._read(value, inst)
        phis = self.dataflow.defines(inst)
        for branch, argument in zip(inst.called, inst.operands[1:], strict=True):
            self.memory.begin()
            if self.graph.is_shared(branch):
                self._shared_call(inst, branch, [argument])
            else:
                yield self._walk(branch)
                for result, phi in zip(self.dataflow.values(branch.root), phis, strict=True):
                    if result is not None and phi is not None:
                        self._read(result, inst, "as its result")
            self.memory.undo()
        for branch in inst.called:
            self._forget(self.written[branch], inst)
        shared = any(self.graph.is_shared(b) for b in inst.called)
        merged = [v for v in phis if v is not None]
        if shared:
            for phi in merged:
                self._guard(self.assignment.slice_of(phi), inst)
        self._become(merged, inst)


def _is_awaited(start: Instruction) -> bool:
    """Whether what is started here is also waited for in this computation, and not handed to another."""
    inst = start
    while len(inst.users) == 1:
        (inst,) = inst.users
        if inst.op is not ops.ASYNC_UPDATE:
            return inst.op in _DONES
    return False


def _text(where: Slice) -> str:
    return f"allocation {where.allocation}, bytes {where.offset} to {where.offset + where.size}"


def _check_disjoint(inst: Instruction, places: list[tuple[Slice, str]]) -> None:
    if len(places) < 2:
        return
    rows = sorted((w.allocation, w.offset, w.offset + w.size, name) for w, name in places if w.size)
    for (a, _, end, first), (b, start, _, second) in pairwise(rows):
        if a == b and start < end:
            raise internal(f"%{inst.name} writes {first} and {second} to the same memory")


class _Places:
    """Operands by where they lie. They do not overlap, unless they lie in one place."""

    def __init__(self, operands: Iterable[tuple[Slice, Value]]) -> None:
        rows = [(w.allocation, w.offset, w.offset + w.size, v.id, v) for w, v in operands if w.size]
        self._rows = sorted(rows) if len(rows) > 1 else rows

    def overlapping(self, where: Slice) -> list[Value]:
        """The operands that share a byte with a slice."""
        rows, first, end = self._rows, where.offset, where.offset + where.size
        if not where.size or not rows:
            return []
        out = []
        at = bisect_left(rows, (where.allocation, end)) - 1
        while at >= 0 and rows[at][0] == where.allocation and rows[at][2] > first:
            out.append(rows[at][4])
            at -= 1
        return out
