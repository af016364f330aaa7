"""What a proto says that the IR has no place for, kept so that writing the module back loses nothing.

`Module.proto_extra` holds a serialised HloProto with only those parts: the buffer assignment, module-level records,
unknown fields. Instructions are named by computation and name. Ids are kept when a buffer assignment refers to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.annotations import own_name

# Known fields that the IR does not model, by message.
MODULE_FIELDS = (
    "id", "pjrt_id", "cross_program_prefetches", "is_dynamic", "spmd_output_sharding", "spmd_parameters_shardings",
    "use_auto_spmd_partitioning", "profile_info", "device_assignment", "original_value_recovery_table", "device_type",
)  # fmt: skip
INSTRUCTION_FIELDS = ("sparsity_config", "conv_kind")
METADATA_FIELDS = ("profile_type", "profile_info", "metadata_payload")
CONFIG_FIELDS = ("use_spmd_partitioning",)


def _keep(source: Any, target: Any, fields: Iterable[str]) -> None:
    """Copies `fields` and everything unknown from `source` to the empty `target`."""
    wanted = frozenset(fields)
    present = source.ListFields()
    if not len(UnknownFieldSet(source)) and not any(fd.name in wanted for fd, _ in present):
        return
    target.CopyFrom(source)
    for fd, _ in present:
        if fd.name not in wanted:
            target.ClearField(fd.name)


def collect(proto: pb.HloProto) -> bytes:
    """The leftovers of a proto that was read; empty bytes when there are none."""
    kept = pb.HloProto()
    _keep(proto, kept, ("buffer_assignment",))
    if proto.HasField("config"):
        _keep(proto.config, kept.config, CONFIG_FIELDS)
    _keep(proto.hlo_module, kept.hlo_module, MODULE_FIELDS)
    keep_ids = proto.HasField("buffer_assignment")
    for comp in proto.hlo_module.computations:
        kept_comp = pb.HloComputationProto()
        _keep(comp, kept_comp, ())
        for inst in comp.instructions:
            _collect_instruction(inst, kept_comp, keep_ids)
        if keep_ids:
            kept_comp.id = comp.id
        if kept_comp.ListFields() or len(UnknownFieldSet(kept_comp)):
            kept_comp.name = comp.name
            kept.hlo_module.computations.append(kept_comp)
    return kept.SerializeToString(deterministic=True)


def _collect_instruction(inst: pb.HloInstructionProto, kept_comp: pb.HloComputationProto, keep_ids: bool) -> None:
    kept = pb.HloInstructionProto()
    _keep(inst, kept, INSTRUCTION_FIELDS)
    if inst.HasField("metadata"):
        metadata = pb.OpMetadata()
        _keep(inst.metadata, metadata, METADATA_FIELDS)
        if metadata.ByteSize():
            kept.metadata.CopyFrom(metadata)
    if kept.ByteSize() or keep_ids:
        kept.name = own_name(inst)
        if keep_ids:
            kept.id = inst.id
        kept_comp.instructions.append(kept)


class Leftovers:
    """The leftovers of the module being written, by name."""

    def __init__(self, data: bytes) -> None:
        self.proto = pb.HloProto.FromString(data)
        self.computations: dict[str, pb.HloComputationProto] = {}
        self.instructions: dict[tuple[str, str], pb.HloInstructionProto] = {}
        for comp in self.proto.hlo_module.computations:
            self.computations[comp.name] = comp
            for inst in comp.instructions:
                self.instructions[comp.name, inst.name] = inst
        self.proto.hlo_module.ClearField("computations")

    def computation_id(self, name: str) -> int:
        """The id to keep, or 0."""
        found = self.computations.get(name)
        return found.id if found is not None else 0

    def instruction_id(self, comp: str, name: str) -> int:
        """The id to keep, or 0."""
        found = self.instructions.get((comp, name))
        return found.id if found is not None else 0

    def merge_into(self, proto: pb.HloProto) -> None:
        """Adds everything that was kept to the freshly written proto."""
        proto.MergeFrom(self.proto)
        for comp in proto.hlo_module.computations:
            kept = self.computations.get(comp.name)
            if kept is None:
                continue
            by_name = {own_name(inst): inst for inst in comp.instructions}
            for inst in kept.instructions:
                if inst.name in by_name:
                    _merge(inst, by_name[inst.name])
            _merge(kept, comp)


def _merge(kept: Message, target: Message) -> None:
    """Merges all but the identity: names, ids and contents are the writer's."""
    extra = type(kept)()
    extra.CopyFrom(kept)
    for field in ("name", "id", "instructions"):
        if field in extra.DESCRIPTOR.fields_by_name:
            extra.ClearField(field)
    target.MergeFrom(extra)
