"""HloModuleProto -> Module.

Ids become references; computations and instructions may only refer to ones that stand before them, as XLA writes and
demands, so cycles cannot occur. Errors name the computation and instruction. Source: hlo.proto.
"""

from __future__ import annotations

from typing import Any

from xyla.formats.hlo_proto import annotations as notes
from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.fields import read_attrs
from xyla.formats.hlo_proto.leftover import collect
from xyla.formats.hlo_proto.shapes import read_shape
from xyla.formats.hlo_proto.sharding import print_sharding
from xyla.hlo import ops, rewriter
from xyla.hlo.module import BufferDonor, Computation, InputOutputAlias, Instruction, Module
from xyla.hlo.op_def import OpDef, all_ops, find_op
from xyla.hlo.shape import Shape
from xyla.support.diagnostics import did_you_mean
from xyla.support.status import XylaError, invalid

# Spellings of other releases.
_OTHER_NAMES = {"optimization-barrier": "opt-barrier"}
# Their protos list a callee that the IR reaches through the start instead.
_NO_CALLEES = (ops.ASYNC_UPDATE, ops.ASYNC_DONE)
_FLAG_LISTS = ("allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output")


def read_module(proto: pb.HloProto) -> Module:
    """The module of a proto. Raises INVALID_ARGUMENT, naming the place, for anything ill-formed."""
    source = proto.hlo_module
    module = Module(source.name)
    computations: dict[int, Computation] = {}
    for comp in source.computations:
        if comp.id in computations:
            raise invalid(f"two computations have the id {comp.id}: {computations[comp.id].name!r} and {comp.name!r}")
        computations[comp.id] = _ComputationReader(module, comp, source, computations).read()
    _set_entry(module, source, computations)
    _read_config(module, proto)
    _read_stack_frames(module, source.stack_frame_index)
    module.proto_extra = collect(proto)
    return module


def _set_entry(module: Module, source: pb.HloModuleProto, computations: dict[int, Computation]) -> None:
    if not computations:
        raise invalid(f"module {source.name!r} has no computations")
    entry = computations.get(source.entry_computation_id)
    if entry is None or (source.entry_computation_name and entry.name != source.entry_computation_name):
        entry = module.computations.get(source.entry_computation_name)
    if entry is None:
        raise invalid(
            f"module {source.name!r} has no entry computation {source.entry_computation_name!r} "
            f"(id {source.entry_computation_id})"
        )
    module.set_entry(entry)


class _ComputationReader:
    """Reads one computation; `computations` holds those read before it, by id."""

    def __init__(
        self,
        module: Module,
        proto: pb.HloComputationProto,
        source: pb.HloModuleProto,
        computations: dict[int, Computation],
    ) -> None:
        self.proto = proto
        self.source = source
        self.computations = computations
        if proto.name in module.computations:
            raise invalid(f"two computations are called {proto.name!r}")
        self.comp = module.add_computation(proto.name or "computation")
        self.instructions: dict[int, Instruction] = {}
        self.shapes: dict[bytes, Shape] = {}

    def read(self) -> Computation:
        order = self._order()
        for inst in order:
            try:
                self._add(inst)
            except XylaError as error:
                where = f"computation {self.proto.name!r}, instruction {inst.name!r}"
                raise XylaError(error.status, f"{where}: {error.message}", hint=error.hint) from None
        root = self.instructions.get(self.proto.root_id)
        if root is None:
            raise invalid(f"computation {self.proto.name!r} has no root: there is no instruction {self.proto.root_id}")
        self.comp.set_root(root)
        _check_parameters(self.comp)
        self.comp.execution_thread = _thread(self.proto.execution_thread)
        return self.comp

    def _order(self) -> list[pb.HloInstructionProto]:
        """The instructions in schedule order if there is one, else as they stand."""
        insts = list(self.proto.instructions)
        sequences = self.source.schedule.sequences
        if self.proto.id not in sequences:
            return insts
        ids = list(sequences[self.proto.id].instruction_ids)
        by_id = {inst.id: inst for inst in insts}
        if len(ids) != len(insts) or set(ids) != set(by_id):
            raise invalid(f"the schedule of computation {self.proto.name!r} does not list each instruction once")
        return [by_id[i] for i in ids]

    def _add(self, proto: pb.HloInstructionProto) -> None:
        if proto.id in self.instructions:
            raise invalid(f"instruction {self.instructions[proto.id].name!r} has the same id {proto.id}")
        op = _opcode(proto.opcode)
        shape = self._shape(proto)
        operands = [self._instruction(i, "operand") for i in proto.operand_ids]
        _check_arity(op, len(operands))
        attrs = read_attrs(op, proto, [o.shape for o in operands], shape)
        inst = Instruction(self._name(proto, op), op, shape, tuple(operands), attrs, self._called(proto, op), self.comp)
        self.comp.link(inst)
        self.instructions[proto.id] = inst
        for i in proto.control_predecessor_ids:
            rewriter.add_control_dependency(self._instruction(i, "control predecessor"), inst)
        self._annotate(inst, proto)

    def _name(self, proto: pb.HloInstructionProto, op: OpDef[Any]) -> str:
        name = notes.own_name(proto)
        if name and self.comp.find(name) is not None:
            raise invalid("another instruction of the computation has this name")
        return name or self.comp.unique_name(op.name)

    def _shape(self, proto: pb.HloInstructionProto) -> Shape:
        # Most shapes repeat: looking their bytes up is cheaper than building them again.
        key = proto.shape.SerializeToString()
        shape = self.shapes.get(key)
        if shape is None:
            if not proto.HasField("shape"):
                raise invalid("it has no shape")
            shape = self.shapes[key] = read_shape(proto.shape)
        return shape

    def _instruction(self, number: int, what: str) -> Instruction:
        found = self.instructions.get(number)
        if found is None:
            raise invalid(f"{what} id {number} names no instruction before it in this computation")
        return found

    def _called(self, proto: pb.HloInstructionProto, op: OpDef[Any]) -> tuple[Computation, ...]:
        if op in _NO_CALLEES:
            return ()
        called = []
        for number in proto.called_computation_ids:
            found = self.computations.get(number)
            if found is None:
                raise invalid(f"called computation id {number} names no computation before this one")
            called.append(found)
        _check_called(op, len(called))
        # XLA lists a loop's body first.
        return tuple(reversed(called)) if op is ops.WHILE else tuple(called)

    def _annotate(self, inst: Instruction, proto: pb.HloInstructionProto) -> None:
        inst.metadata = notes.read_op_metadata(proto)
        if proto.HasField("sharding"):
            inst.sharding = print_sharding(proto.sharding)
        inst.backend_config = notes.backend_config_text(self._backend_config(proto))
        if proto.HasField("frontend_attributes"):
            inst.frontend_attributes = tuple(sorted(proto.frontend_attributes.map.items()))
        if proto.HasField("statistics_viz"):
            inst.statistics = notes.print_statistics(proto.statistics_viz)
        if proto.HasField("original_value"):
            inst.origin = notes.print_origin(proto.original_value)

    def _backend_config(self, proto: pb.HloInstructionProto) -> bytes:
        if not proto.HasField("backend_config_payload"):
            return proto.backend_config
        payload = proto.backend_config_payload
        if payload.WhichOneof("payload_source") != "id":
            return payload.value
        if not 0 <= payload.id < len(self.source.payloads):
            raise invalid(f"the module has no payload number {payload.id}")
        return self.source.payloads[payload.id]


def _opcode(name: str) -> OpDef[Any]:
    op = find_op(_OTHER_NAMES.get(name, name))
    if op is None:
        near = did_you_mean(name, [o.name for o in all_ops()])
        raise invalid(f"unknown opcode {name[:40]!r}", hint=f"did you mean '{near}'?" if near else None)
    return op


def _check_arity(op: OpDef[Any], count: int) -> None:
    if op.arity is not None and count != op.arity:
        raise invalid(f"{op.name} takes {op.arity} operands, {count} given")
    if count < op.min_arity:
        raise invalid(f"{op.name} takes at least {op.min_arity} operands, {count} given")


def _check_called(op: OpDef[Any], count: int) -> None:
    if op.called and op.called[-1].endswith("*"):
        return
    if count != len(op.called):
        raise invalid(f"{op.name} calls {len(op.called)} computations, {count} given")


def _check_parameters(comp: Computation) -> None:
    numbers = [p.attrs.number for p in comp.parameters]
    if numbers != list(range(len(numbers))):
        raise invalid(f"computation {comp.name!r} has parameters numbered {numbers[:8]}, expected 0, 1, 2, ...")


def _thread(name: str) -> str:
    """The main thread is the one without a name."""
    return "" if name == "main" else name


def _read_config(module: Module, proto: pb.HloProto) -> None:
    source, config = proto.hlo_module, module.config
    config.is_scheduled = source.HasField("schedule")
    config.input_output_aliases = tuple(
        InputOutputAlias(
            tuple(e.output_shape_index), e.parameter_number, tuple(e.parameter_shape_index), e.kind == pb.MUST_ALIAS
        )
        for e in source.input_output_alias.entries
    )
    config.buffer_donors = tuple(
        BufferDonor(e.parameter_number, tuple(e.parameter_shape_index)) for e in source.buffer_donor.entries
    )
    config.frontend_attributes = tuple(sorted(source.frontend_attributes.map.items()))
    extra = proto.config
    if source.HasField("host_program_shape"):
        _read_entry_layout(module, source.host_program_shape, explicit=extra.HasField("entry_computation_layout"))
    config.replica_count = extra.replica_count or 1
    config.num_partitions = extra.num_partitions or 1
    raw = {key: notes.print_replication(getattr(extra, key)) for key in _FLAG_LISTS if getattr(extra, key)}
    if extra.alias_passthrough_params:
        raw["alias_passthrough_params"] = "true"
    config.raw = (*raw.items(), *sorted(extra.header_text.items()))


def _read_entry_layout(module: Module, proto: pb.ProgramShapeProto, *, explicit: bool) -> None:
    """Sets the entry layouts, unless they only repeat the entry's own shapes and nothing says they were `explicit`."""
    parameters = tuple(map(read_shape, proto.parameters))
    result = read_shape(proto.result)
    own, own_result = module.entry.program_shape
    same_count = len(parameters) == len(own)
    if not same_count or not all(a.compatible(b) for a, b in zip(parameters, own, strict=True)):
        raise invalid("the host program shape disagrees with the entry's parameters")
    if not result.compatible(own_result):
        raise invalid(f"the host program shape's result {result} disagrees with the entry's root {own_result}")
    if explicit or (parameters, result) != (own, own_result):
        module.config.entry_parameter_layouts = parameters
        module.config.entry_result_layout = result


def _read_stack_frames(module: Module, proto: pb.StackFrameIndexProto) -> None:
    frames = module.stack_frames
    frames.file_names = list(proto.file_names)
    frames.function_names = list(proto.function_names)
    frames.locations = [
        (f.file_name_id, f.function_name_id, f.line, f.end_line, f.column, f.end_column) for f in proto.file_locations
    ]
    frames.frames = [(f.file_location_id, f.parent_frame_id) for f in proto.stack_frames]
