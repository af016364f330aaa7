"""An assignment as protos that XLA's tools read: a BufferAssignmentProto, alone or beside its module."""

from __future__ import annotations

from collections.abc import Mapping

from xyla.analysis.dataflow import Value
from xyla.buffers.assignment import Allocation, BufferAssignment, Kind
from xyla.buffers.profile import Profile
from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.writer import write_module
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape


def to_hlo_proto(assignment: BufferAssignment) -> pb.HloProto:
    """The scheduled module and its buffers in one HloProto. Raises UNIMPLEMENTED for what protos cannot hold."""
    proto = write_module(assignment.module)
    written: dict[Instruction, pb.HloInstructionProto] = {}
    # The writer's order: callees first, each computation in its own order.
    computations = zip(assignment.module.computation_post_order(), proto.hlo_module.computations, strict=True)
    for comp, made in computations:
        written.update(zip(comp.post_order(), made.instructions, strict=True))
    proto.buffer_assignment.CopyFrom(to_proto(assignment, written))
    return proto


def to_proto(
    assignment: BufferAssignment, written: Mapping[Instruction, pb.HloInstructionProto] | None = None
) -> pb.BufferAssignmentProto:
    """The assignment as a message. `written`: the instructions of the HloProto it goes with, for names and ids."""
    proto = pb.BufferAssignmentProto()
    locate = _Locator(written or {})
    colors = {v: a.color for a in assignment.allocations for v in a.values}
    for value in assignment.dataflow.all_values:
        made = proto.logical_buffers.add(id=value.id, size=value.size, color=colors[value])
        locate(made.defined_at, value.instruction, value.leaf)
        for inst, leaf in value.positions[1:]:
            alias = proto.buffer_aliases.add(source_buffer_id=value.id)
            locate(alias.location, inst, leaf)
    for allocation in assignment.allocations:
        _write_allocation(proto.buffer_allocations.add(), allocation)
    _write_trace(proto, assignment)
    profile = Profile(assignment)
    heap = next(a.index for a in assignment.allocations if a.kind is Kind.TEMP)
    alive = [a.value for a in profile.alive(profile.peak_position) if a.value is not None]
    in_heap = [v.id for v in alive if assignment.slice_of(v).allocation == heap]
    proto.peak_buffers.add(index=heap, logical_buffer_ids=in_heap)
    return proto


class _Locator:
    """Fills in where a value is defined; remembers the shape indices of leaves."""

    def __init__(self, written: Mapping[Instruction, pb.HloInstructionProto]) -> None:
        self._written = written
        self._indices: dict[Shape, list[tuple[int, ...]]] = {}

    def __call__(self, proto: pb.LogicalBufferProto.Location, inst: Instruction, leaf: int) -> None:
        written = self._written.get(inst)
        proto.instruction_name = inst.name if written is None else written.name
        proto.instruction_id = inst.id if written is None else written.id
        indices = self._indices.get(inst.shape)
        if indices is None:
            indices = self._indices[inst.shape] = [index for index, _ in inst.shape.leaves()]
        proto.shape_index.extend(indices[leaf])


def _write_allocation(proto: pb.BufferAllocationProto, allocation: Allocation) -> None:
    proto.index, proto.size, proto.color = allocation.index, allocation.size, allocation.color
    proto.is_thread_local = allocation.kind is Kind.THREAD_LOCAL
    proto.is_constant = allocation.kind is Kind.CONSTANT
    proto.maybe_live_out = allocation.is_live_out
    if allocation.parameter is not None:
        number, index = allocation.parameter
        proto.is_entry_computation_parameter = True
        proto.parameter_number = number
        proto.parameter_shape_index.extend(index)
        proto.is_parameter_aliased_with_output = allocation.is_live_out
    for value, (offset, size) in sorted(allocation.values.items(), key=lambda item: item[0].id):
        proto.assigned.add(logical_buffer_id=value.id, offset=offset, size=size)


def _write_trace(proto: pb.BufferAssignmentProto, assignment: BufferAssignment) -> None:
    """What a running program would ask of the heap, in order."""
    kinds = pb.HeapSimulatorTrace.Event
    heap = next(a for a in assignment.allocations if a.kind is Kind.TEMP)
    trace = proto.heap_simulator_traces.add(whole_module_simulation=True, buffer_allocation_index=heap.index)
    events: list[tuple[int, int, int, Value]] = []
    for value in heap.values:
        first, last = assignment.ranges.range(value)
        events += [(first, 1, value.id, value), (last + 1, 0, value.id, value)]
    for _, begins, _, value in sorted(events, key=lambda e: e[:3]):
        trace.events.add(
            kind=kinds.ALLOC if begins else kinds.FREE,
            buffer_id=value.id,
            computation_name=value.instruction.parent.name,
            instruction_name=value.instruction.name,
        )
