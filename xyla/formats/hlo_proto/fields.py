"""Where each attribute stands in HloInstructionProto: one plan an attribute record, derived from its declaration.

An attribute is read and written by the codec of its kind, in the field of its own name unless `_PLACES` says
otherwise. An opcode whose attribute has no place fails at import.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xyla.formats.hlo_proto import annotations as notes
from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.codecs import CODECS, ONE, Codec, Holder
from xyla.formats.hlo_proto.groups import read_groups, write_groups
from xyla.formats.hlo_proto.shapes import write_shape
from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonType
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import AttrKind, Attrs, AttrSpec, OpDef, all_ops
from xyla.hlo.shape import Shape
from xyla.support.status import invalid, unimplemented

# -- codecs of single attributes -------------------------------------------------------------------------------------


def _text_codec(write: Any, show: Any) -> Codec:
    """An attribute kept as text that XLA keeps as a message."""

    def put(holder: Holder, field: str, value: str) -> None:
        if value:
            write(value, getattr(holder, field))

    def take(holder: Holder, field: str, spec: AttrSpec) -> str:
        return str(show(getattr(holder, field))) if holder.HasField(field) else ""

    return Codec(put, take)


def _put_text(holder: Holder, field: str, value: str) -> None:
    if value:
        holder.text_attributes[field] = value


def _take_text(holder: Holder, field: str, spec: AttrSpec) -> str:
    return str(holder.text_attributes.get(field, ""))


def _put_prefetch(holder: Holder, field: str, value: int) -> None:
    if value != -1:
        setattr(holder, field, value)


def _take_prefetch(holder: Holder, field: str, spec: AttrSpec) -> int:
    if holder.HasField(field):
        return int(getattr(holder, field))
    # Old releases had a flag.
    return 0 if holder.is_cross_program_prefetch else -1


def _take_channel(holder: Holder, field: str, spec: AttrSpec) -> int:
    return int(max(0, holder.channel_id) or max(0, holder.all_reduce_id))


def _put_unless_default(holder: Holder, field: str, value: int) -> None:
    if value != -1:
        getattr(holder, field).append(value)


def _put_rows(holder: Holder, field: str, value: tuple[tuple[int, ...], ...]) -> None:
    for row in value:
        getattr(holder, field).extend(row)


def _take_flat(holder: Holder, field: str, spec: AttrSpec) -> tuple[tuple[int, ...], ...]:
    # One flat row here: its division needs the operands (see _fix_slice_sizes).
    values = tuple(getattr(holder, field))
    return (values,) if values else ()


def _put_tristate(holder: Holder, field: str, value: bool) -> None:
    setattr(holder, field, pb.TRI_STATE_TRUE if value else pb.TRI_STATE_FALSE)


def _take_tristate(holder: Holder, field: str, spec: AttrSpec) -> bool:
    return bool(getattr(holder, field) == pb.TRI_STATE_TRUE)


def _put_domain(holder: Holder, field: str, value: str) -> None:
    notes.write_domain(value, holder)


def _take_domain(holder: Holder, field: str, spec: AttrSpec) -> str:
    return notes.print_domain(holder)


# The text attribute that marks an outfeed whose text gives no outfeed_shape.
_IMPLIED_OUTFEED = "outfeed_shape"
_INT = CODECS[AttrKind.INT]
_TEXT = Codec(_put_text, _take_text)

# -- places ------------------------------------------------------------------------------------------------------------

# (record, attribute) or attribute -> (field path, codec or None for the kind's own).
_Place = tuple[str, Codec | None]
_DOT = "dot_dimension_numbers."
_RAGGED = "ragged_dot_dimension_numbers."
_PLACES: dict[str, _Place] = {
    "number": ("parameter_number", None),
    "parameter_replication": (
        "parameter_replication",
        _text_codec(notes.write_replication, lambda p: notes.print_replication(p.replicated_at_leaf_buffers)),
    ),
    "iota_dimension": ("dimensions", ONE),
    "inferred_dimension": ("dimensions", Codec(_put_unless_default, ONE.read)),
    "dimension": ("dimensions", None),
    "index": ("tuple_index", None),
    "domain": ("domain_entry_sharding", Codec(_put_domain, _take_domain)),
    "cross_program_prefetch_index": ("cross_program_prefetch_index", Codec(_put_prefetch, _take_prefetch)),
    "channel_id": ("channel_id", Codec(_INT.write, _take_channel)),
    "replica_groups": ("collective_device_list", Codec(write_groups, read_groups)),
    "operand_precision": ("precision_config.operand_precision", None),
    "sparsity": ("dot_sparsity", None),
    "dim_labels": ("convolution_dimension_numbers", None),
    "kind": ("fusion_kind", None),
    "output_to_operand_aliasing": ("output_operand_aliasing", None),
    "operand_layout_constraints": ("operand_shapes_with_layout", None),
    "schedule": ("custom_call_schedule", None),
    "api_version": ("custom_call_api_version", None),
    "result_layout": ("result_layout", _TEXT),
    "result_accuracy": ("result_accuracy", _text_codec(notes.write_accuracy, notes.print_accuracy)),
    "direction": ("comparison_direction", None),
    "type": ("comparison_type", None),
    "slice": ("slice_dimensions", None),
    "sizes": ("dynamic_slice_sizes", None),
    "padding": ("padding_config", None),
    "is_associative": ("is_associative", Codec(_put_tristate, _take_tristate)),
    "DotAttrs.algorithm": ("precision_config.algorithm", None),
    "RngBitGeneratorAttrs.algorithm": ("rng_algorithm", None),
    "GatherAttrs.slice_sizes": ("gather_slice_sizes", None),
    "CollectivePermuteAttrs.slice_sizes": ("dynamic_slice_sizes", Codec(_put_rows, _take_flat)),
    "CholeskyAttrs.lower": ("cholesky_options.lower", None),
    "GatherAttrs.index_vector_dim": ("gather_dimension_numbers.index_vector_dim", None),
    "ScatterAttrs.index_vector_dim": ("scatter_dimension_numbers.index_vector_dim", None),
    "lhs_ragged_dims": (_RAGGED + "lhs_ragged_dimensions", None),
    "rhs_group_dims": (_RAGGED + "rhs_group_dimensions", None),
}
for _side in ("lhs", "rhs"):
    for _part in ("batch", "contracting"):
        _field = f"{_DOT}{_side}_{_part}_dimensions"
        _PLACES[f"{_side}_{_part}_dims"] = (_field, None)
        _PLACES[f"RaggedDotAttrs.{_side}_{_part}_dims"] = (_RAGGED + _field, None)
for _name in ("left_side", "lower", "unit_diagonal", "transpose_a"):
    _PLACES[f"TriangularSolveAttrs.{_name}"] = (f"triangular_solve_options.{_name}", None)
for _name in (
    "offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims", "start_indices_batching_dims",
):  # fmt: skip
    _PLACES[_name] = (f"gather_dimension_numbers.{_name}", None)
for _name in (
    "update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims",
    "scatter_indices_batching_dims",
):  # fmt: skip
    _PLACES[_name] = (f"scatter_dimension_numbers.{_name}", None)


@dataclass(frozen=True, slots=True)
class Step:
    """One attribute: its declaration, the sub-messages on the way to its field, the field, the codec."""

    spec: AttrSpec
    path: tuple[str, ...]
    field: str
    codec: Codec


def _plan(attrs: type[Attrs], specs: Sequence[AttrSpec]) -> tuple[Step, ...]:
    steps = []
    for spec in specs:
        place = _PLACES.get(f"{attrs.__name__}.{spec.name}") or _PLACES.get(spec.name) or (spec.name, None)
        *path, field = place[0].split(".")
        codec = place[1] or CODECS[spec.kind]
        if codec is not _TEXT:
            _check_place(attrs, spec, path, field)
        steps.append(Step(spec, tuple(path), field, codec))
    return tuple(steps)


def _check_place(attrs: type[Attrs], spec: AttrSpec, path: list[str], field: str) -> None:
    message: Any = pb.HloInstructionProto.DESCRIPTOR
    for name in path:
        message = message.fields_by_name[name].message_type
    if field not in message.fields_by_name:
        raise TypeError(f"{attrs.__name__}.{spec.name} has no place in HloInstructionProto: add one to _PLACES")


_PRECISE = (ops.DOT, ops.RAGGED_DOT, ops.SCALED_DOT, ops.CONVOLUTION)
PLANS: dict[type[Attrs], tuple[Step, ...]] = {op.attrs: _plan(op.attrs, op.specs) for op in all_ops()}


def write_attrs(inst: Instruction, proto: pb.HloInstructionProto) -> None:
    """Fills the attribute fields of an empty proto. Raises UNIMPLEMENTED for what XLA's protos cannot hold."""
    for step in PLANS[inst.op.attrs]:
        value = getattr(inst.attrs, step.spec.name)
        if value is None:
            continue
        holder: Any = proto
        for name in step.path:
            holder = getattr(holder, name)
            holder.SetInParent()
        try:
            step.codec.write(holder, step.field, value)
        except ValueError as error:
            # The protobuf library's way to say that a number does not fit its field.
            raise unimplemented(f"{inst.op.name} {step.spec.key} has no proto form: {error}") from None
    if inst.op in _PRECISE and not inst.attrs.operand_precision:
        # XLA spells the default out.
        proto.precision_config.operand_precision.extend([pb.PrecisionConfig.DEFAULT] * len(inst.operands))
    if inst.op is ops.COMPARE and inst.attrs.type is None:
        proto.comparison_type = _default_comparison(inst.operands[0].shape).value
    elif inst.op is ops.OUTFEED and inst.attrs.outfeed_shape is None:
        # XLA demands the shape that the text left out.
        write_shape(inst.operands[0].shape, proto.outfeed_shape)
        proto.text_attributes[_IMPLIED_OUTFEED] = "implied"


def read_attrs(op: OpDef[Any], proto: pb.HloInstructionProto, operands: Sequence[Shape], shape: Shape) -> Attrs:
    """The attribute record of an instruction of `op`. Raises INVALID_ARGUMENT (not located)."""
    values: dict[str, Any] = {}
    for step in PLANS[op.attrs]:
        holder: Any = proto
        for name in step.path:
            holder = getattr(holder, name)
        values[step.spec.name] = step.codec.read(holder, step.field, step.spec)
    if op is ops.COMPARE and operands and values["type"] is _default_comparison(operands[0]):
        values["type"] = None
    elif op is ops.OUTFEED and _IMPLIED_OUTFEED in proto.text_attributes:
        values["outfeed_shape"] = None
    elif op is ops.CONSTANT:
        values["literal"] = _constant(values["literal"], shape)
    elif op.attrs is ops.COLLECTIVE_PERMUTE.attrs and values["slice_sizes"]:
        values["slice_sizes"] = _divide(values["slice_sizes"][0], operands)
    attrs: Attrs = op.attrs(**values)
    return attrs


def _default_comparison(operand: Shape) -> ComparisonType:
    et = operand.element_type
    if et.is_signed:
        return ComparisonType.SIGNED
    return ComparisonType.FLOAT if et.is_float or et.is_complex else ComparisonType.UNSIGNED


def _constant(literal: Literal | None, shape: Shape) -> Literal:
    """The value with the instruction's own shape; elided where the proto has none."""
    if literal is None:
        return Literal.elided_of(shape)
    if literal.shape is shape:
        return literal
    if not literal.shape.compatible(shape):
        raise invalid(f"constant of shape {shape} has a literal of shape {literal.shape}")
    return _reshaped(literal, shape)


def _reshaped(literal: Literal, shape: Shape) -> Literal:
    if shape.is_array:
        return Literal(shape, literal.array)
    parts = zip(literal.elements, shape.tuple_shapes, strict=True)
    return Literal(shape, None, tuple(_reshaped(e, s) for e, s in parts))


def _divide(sizes: tuple[int, ...], operands: Sequence[Shape]) -> tuple[tuple[int, ...], ...]:
    """The rows of collective-permute's slice sizes: one of the operand's rank for each slice that is sent.

    Sizes that do not divide so become rows of one: they are invalid, which the verifier says better.
    """
    ranks = [leaf.rank for operand in operands[:1] for leaf in (operand.tuple_shapes or (operand,))]
    rows: list[tuple[int, ...]] = []
    at = 0
    while at < len(sizes):
        rank = ranks[len(rows) % len(ranks)] if ranks else 0
        if rank == 0 or at + rank > len(sizes):
            return tuple((size,) for size in sizes)
        rows.append(sizes[at : at + rank])
        at += rank
    return tuple(rows)
