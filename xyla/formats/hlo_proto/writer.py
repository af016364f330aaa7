"""Module -> HloProto, as XLA writes it: callees before callers, operands before users. Source: hlo.proto."""

from __future__ import annotations

from xyla.formats.hlo_proto import annotations as notes
from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.fields import write_attrs
from xyla.formats.hlo_proto.leftover import Leftovers
from xyla.formats.hlo_proto.shapes import write_program_shape, write_shape
from xyla.formats.hlo_proto.sharding import write_sharding
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Module
from xyla.support.status import XylaError

_FLAG_LISTS = ("allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output")


def write_module(module: Module) -> pb.HloProto:
    """The proto of a module. Raises UNIMPLEMENTED, naming the instruction, for what XLA's protos cannot hold."""
    proto = pb.HloProto()
    leftovers = Leftovers(module.proto_extra)
    _ModuleWriter(module, proto.hlo_module, leftovers).write()
    _write_config(module, proto)
    leftovers.merge_into(proto)
    return proto


_ASYNC = (ops.ASYNC_UPDATE, ops.ASYNC_DONE)


class _Ids:
    """Numbers for computations and instructions: those to keep, and the next free one for the rest."""

    def __init__(self, kept: set[int]) -> None:
        self._kept = kept
        self._given: set[int] = set()
        self._next = 1

    def take(self, wanted: int) -> int:
        """`wanted` if it is positive and free, else a fresh number."""
        if wanted > 0 and wanted not in self._given:
            self._given.add(wanted)
            return wanted
        while self._next in self._kept or self._next in self._given:
            self._next += 1
        self._given.add(self._next)
        return self._next


def _unique_names(order: list[Computation]) -> dict[Instruction, str]:
    """XLA's names are unique in the module, ours in the computation: later ones get a free number after their stem."""
    taken = {inst.name for comp in order for inst in comp.instructions}
    used: set[str] = set()
    numbers: dict[str, int] = {}
    names: dict[Instruction, str] = {}
    for inst in (inst for comp in order for inst in comp.instructions):
        name = inst.name
        if name in used:
            head, dot, tail = name.rpartition(".")
            stem = head if dot and tail.isdigit() else name
            number = numbers.get(stem, 0) + 1
            while (name := f"{stem}.{number}") in taken:
                number += 1
            numbers[stem] = number
            taken.add(name)
        used.add(name)
        names[inst] = name
    return names


class _ModuleWriter:
    def __init__(self, module: Module, proto: pb.HloModuleProto, leftovers: Leftovers) -> None:
        self.module = module
        self.proto = proto
        self.leftovers = leftovers
        self.order = module.computation_post_order()
        comp_ids = _Ids({c.id for c in leftovers.computations.values()})
        self.computation_ids = {c: comp_ids.take(leftovers.computation_id(c.name)) for c in self.order}
        self.ids = _Ids({i.id for i in leftovers.instructions.values()})
        self.wrapped: dict[Instruction, tuple[Computation, ...]] = {}
        self.names = _unique_names(self.order)
        self.fused = {c for inst in module.instructions() if inst.op is ops.FUSION for c in inst.called}

    def write(self) -> None:
        module, proto = self.module, self.proto
        proto.name = module.name
        proto.entry_computation_name = module.entry.name
        proto.entry_computation_id = self.computation_ids[module.entry]
        parameters, result = module.entry_parameter_shapes(), module.entry_result_shape()
        names = [self.names[p] for p in module.entry.parameters]
        write_program_shape(parameters, result, names, proto.host_program_shape)
        for comp in self.order:
            self._write_computation(comp, proto.computations.add())
        if module.config.is_scheduled:
            proto.schedule.SetInParent()
        self._write_aliases()
        proto.frontend_attributes.map.update(module.config.frontend_attributes)
        if not module.config.frontend_attributes:
            proto.ClearField("frontend_attributes")
        if module.stack_frames:
            _write_stack_frames(module, proto.stack_frame_index)

    def _write_aliases(self) -> None:
        for alias in self.module.config.input_output_aliases:
            self.proto.input_output_alias.entries.add(
                output_shape_index=alias.output_index,
                parameter_number=alias.parameter,
                parameter_shape_index=alias.parameter_index,
                kind=pb.MUST_ALIAS if alias.must else pb.MAY_ALIAS,
            )
        for donor in self.module.config.buffer_donors:
            self.proto.buffer_donor.entries.add(
                parameter_number=donor.parameter, parameter_shape_index=donor.parameter_index
            )

    def _write_computation(self, comp: Computation, proto: pb.HloComputationProto) -> None:
        proto.name = comp.name
        proto.id = self.computation_ids[comp]
        ids = {i: self.ids.take(self.leftovers.instruction_id(comp.name, i.name)) for i in comp.instructions}
        parameters, result = comp.program_shape
        write_program_shape(parameters, result, [self.names[p] for p in comp.parameters], proto.program_shape)
        for inst in comp.post_order():
            try:
                self._write_instruction(inst, ids, proto.instructions.add())
            except XylaError as error:
                raise XylaError(
                    error.status, f"instruction %{inst.name}: {error.message}", span=error.span or inst.span,
                    hint=error.hint,
                ) from None  # fmt: skip
        proto.root_id = ids[comp.root]
        proto.is_fusion_computation = comp in self.fused
        proto.execution_thread = comp.execution_thread or "main"
        if self.module.config.is_scheduled and comp not in self.fused:
            self.proto.schedule.sequences[proto.id].instruction_ids.extend(ids.values())

    def _write_instruction(self, inst: Instruction, ids: dict[Instruction, int], proto: pb.HloInstructionProto) -> None:
        proto.name = self.names[inst]
        if proto.name != inst.name:
            proto.text_attributes[notes.NAME_KEY] = inst.name
        proto.opcode = inst.op.name
        proto.id = ids[inst]
        write_shape(inst.shape, proto.shape)
        proto.operand_ids.extend(ids[o] for o in inst.operands)
        proto.control_predecessor_ids.extend(ids[p] for p in inst.control_predecessors)
        proto.called_computation_ids.extend(self.computation_ids[c] for c in self._callees(inst))
        write_attrs(inst, proto)
        _write_notes(inst, proto)

    def _callees(self, inst: Instruction) -> tuple[Computation, ...]:
        """The callees in XLA's order: a loop's body first; async-update and -done name what their start wraps."""
        if inst.op is ops.WHILE:
            return inst.called[::-1]
        if inst.op in _ASYNC and inst.operands:
            # Operands come first, so the chain back to the start is known.
            self.wrapped[inst] = self.wrapped.get(inst.operands[0], ())
            return self.wrapped[inst]
        if inst.op is ops.ASYNC_START:
            self.wrapped[inst] = inst.called
        return inst.called


def _write_notes(inst: Instruction, proto: pb.HloInstructionProto) -> None:
    if inst.metadata is not None:
        notes.write_op_metadata(inst.metadata, proto)
    if inst.sharding:
        write_sharding(inst.sharding, proto.sharding)
    if inst.backend_config:
        proto.backend_config = notes.backend_config_bytes(inst.backend_config)
    if inst.frontend_attributes:
        proto.frontend_attributes.map.update(inst.frontend_attributes)
    if inst.statistics:
        notes.write_statistics(inst.statistics, proto.statistics_viz)
    if inst.origin:
        notes.write_origin(inst.origin, proto.original_value)


def _write_config(module: Module, proto: pb.HloProto) -> None:
    """The part of the configuration that HloModuleProto has no fields for; nothing when it is all default."""
    config = pb.HloModuleConfigProto()
    if module.config.replica_count != 1:
        config.replica_count = module.config.replica_count
    if module.config.num_partitions != 1:
        config.num_partitions = module.config.num_partitions
    if module.config.entry_parameter_layouts is not None:
        write_program_shape(
            module.entry_parameter_shapes(), module.entry_result_shape(), (), config.entry_computation_layout
        )
    for key, text in module.config.raw:
        words = [w.strip() for w in text.strip("{}").split(",")]
        if key in _FLAG_LISTS and all(w in ("true", "false") for w in words):
            getattr(config, key).extend(w == "true" for w in words)
        elif key == "alias_passthrough_params" and text == "true":
            config.alias_passthrough_params = True
        else:
            config.header_text[key] = text
    if config.ByteSize():
        proto.config.CopyFrom(config)


def _write_stack_frames(module: Module, proto: pb.StackFrameIndexProto) -> None:
    frames = module.stack_frames
    proto.file_names.extend(frames.file_names)
    proto.function_names.extend(frames.function_names)
    for file, function, line, end_line, column, end_column in frames.locations:
        proto.file_locations.add(
            file_name_id=file, function_name_id=function, line=line, end_line=end_line, column=column,
            end_column=end_column,
        )  # fmt: skip
    for location, parent in frames.frames:
        proto.stack_frames.add(file_location_id=location, parent_frame_id=parent)
