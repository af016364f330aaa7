"""One codec for each kind of attribute value: how it stands in a field of HloInstructionProto.

A codec writes a value into `proto.<field>` and reads it back; `fields.py` says which field holds which attribute.
Reading raises INVALID_ARGUMENT (not located) for values that mean nothing, writing UNIMPLEMENTED for what the field
cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.literals import read_literal, write_literal
from xyla.formats.hlo_proto.shapes import read_shape, write_shape
from xyla.hlo.attr_types import (
    ConvDims,
    DotAlgorithm,
    OutputOperandAlias,
    PaddingDim,
    Precision,
    SliceDim,
    Sparsity,
    Window,
    WindowDim,
)
from xyla.hlo.op_def import AttrKind, AttrSpec
from xyla.support.status import invalid, unimplemented

# The holder is HloInstructionProto or one of its sub-messages: its fields are reached by name.
Holder = Any
Write = Callable[[Holder, str, Any], None]
Read = Callable[[Holder, str, AttrSpec], Any]


@dataclass(frozen=True, slots=True)
class Codec:
    """Both directions of one kind."""

    write: Write
    read: Read


def _write_scalar(holder: Holder, field: str, value: Any) -> None:
    setattr(holder, field, value)


def _read_scalar(holder: Holder, field: str, spec: AttrSpec) -> Any:
    return getattr(holder, field)


def _read_int(holder: Holder, field: str, spec: AttrSpec) -> int:
    value: int = getattr(holder, field)
    # Counts default to 1 in the IR; proto3 leaves an unset field 0.
    return spec.default if value == 0 and isinstance(spec.default, int) and spec.default > 0 else value


def _write_list(holder: Holder, field: str, value: tuple[int, ...]) -> None:
    getattr(holder, field).extend(value)


def _read_list(holder: Holder, field: str, spec: AttrSpec) -> tuple[int, ...]:
    return tuple(getattr(holder, field))


def _write_one(holder: Holder, field: str, value: int) -> None:
    getattr(holder, field).append(value)


def _read_one(holder: Holder, field: str, spec: AttrSpec) -> Any:
    values = getattr(holder, field)
    if not values and not spec.required:
        return spec.default
    if len(values) != 1:
        raise invalid(f"{spec.key} takes exactly one value, {len(values)} given")
    return values[0]


def _write_string(holder: Holder, field: str, value: str) -> None:
    is_bytes = holder.DESCRIPTOR.fields_by_name[field].type == holder.DESCRIPTOR.fields_by_name[field].TYPE_BYTES
    setattr(holder, field, value.encode("utf-8", "surrogateescape") if is_bytes else value)


def _read_string(holder: Holder, field: str, spec: AttrSpec) -> str:
    value = getattr(holder, field)
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _read_float(holder: Holder, field: str, spec: AttrSpec) -> float:
    # The field is a float: the shortest decimal that names it, as texts do.
    import numpy as np

    return float(str(np.float32(getattr(holder, field))))


def enum_word(value: Enum) -> str:
    """The proto's name for a word of HLO text."""
    if isinstance(value, DotAlgorithm):
        return "ALG_" + value.value.upper()
    return str(value.value).upper()


def _enum_number(holder: Holder, field: str, value: Enum) -> int:
    names = holder.DESCRIPTOR.fields_by_name[field].enum_type.values_by_name
    found = names.get(enum_word(value))
    if found is None:
        raise unimplemented(f"XLA's protos have no {field} {value.value}")
    return int(found.number)


def _write_enum(holder: Holder, field: str, value: Enum | None) -> None:
    if value is None:
        return
    if holder.DESCRIPTOR.fields_by_name[field].enum_type is None:
        setattr(holder, field, value.value)
    else:
        setattr(holder, field, _enum_number(holder, field, value))


def _read_enum(holder: Holder, field: str, spec: AttrSpec) -> Any:
    raw = getattr(holder, field)
    if raw == "" and not spec.required:
        return spec.default
    assert spec.enum is not None
    return _member(holder, field, raw, spec.enum)


def _member(holder: Holder, field: str, raw: int | str, enum: type[Enum]) -> Enum:
    """The enum member that a number (or a word, in fields of text) stands for."""
    descriptor = holder.DESCRIPTOR.fields_by_name[field].enum_type
    if descriptor is None:
        found = [m for m in enum if m.value == raw]
    else:
        entry = descriptor.values_by_number.get(raw)
        found = [m for m in enum if entry is not None and enum_word(m) == entry.name]
    if not found:
        raise invalid(f"{field} has no value {str(raw)[:40]!r}")
    return found[0]


def _write_shape(holder: Holder, field: str, value: Any) -> None:
    if value is not None:
        write_shape(value, getattr(holder, field))


def _read_optional_shape(holder: Holder, field: str, spec: AttrSpec) -> Any:
    return read_shape(getattr(holder, field)) if holder.HasField(field) else None


def _write_shapes(holder: Holder, field: str, value: Any) -> None:
    if value is None:
        return
    holder.constrain_layout = True
    for shape in value:
        write_shape(shape, getattr(holder, field).add())


def _read_shapes(holder: Holder, field: str, spec: AttrSpec) -> Any:
    return tuple(map(read_shape, getattr(holder, field))) if holder.constrain_layout else None


def _write_literal(holder: Holder, field: str, value: Any) -> None:
    if value is not None and not value.elided:
        write_literal(value, getattr(holder, field))


def _read_literal(holder: Holder, field: str, spec: AttrSpec) -> Any:
    return read_literal(getattr(holder, field)) if holder.HasField(field) else None


def _write_window(holder: Holder, field: str, value: Window | None) -> None:
    if value is None:
        return
    proto = getattr(holder, field)
    proto.SetInParent()
    for dim in value.dims:
        proto.dimensions.add(
            size=dim.size,
            stride=dim.stride,
            padding_low=dim.pad_low,
            padding_high=dim.pad_high,
            base_dilation=dim.lhs_dilate,
            window_dilation=dim.rhs_dilate,
            window_reversal=dim.reversal,
        )


def _read_window(holder: Holder, field: str, spec: AttrSpec) -> Any:
    if not holder.HasField(field):
        return spec.default
    dims = getattr(holder, field).dimensions
    return Window(tuple(map(_window_dim, dims)))


def _window_dim(p: pb.WindowDimension) -> WindowDim:
    dim = WindowDim(
        p.size, p.stride or 1, p.padding_low, p.padding_high, p.base_dilation or 1, p.window_dilation or 1,
        p.window_reversal,
    )  # fmt: skip
    if dim.size < 0 or dim.stride < 1 or dim.lhs_dilate < 1 or dim.rhs_dilate < 1:
        raise invalid("window sizes must not be negative; strides and dilations must be positive")
    return dim


_CONV_FIELDS = (
    ("input_batch", "input_batch_dimension"),
    ("input_feature", "input_feature_dimension"),
    ("input_spatial", "input_spatial_dimensions"),
    ("kernel_input_feature", "kernel_input_feature_dimension"),
    ("kernel_output_feature", "kernel_output_feature_dimension"),
    ("kernel_spatial", "kernel_spatial_dimensions"),
    ("output_batch", "output_batch_dimension"),
    ("output_feature", "output_feature_dimension"),
    ("output_spatial", "output_spatial_dimensions"),
)


def _write_conv_dims(holder: Holder, field: str, value: ConvDims | None) -> None:
    if value is None:
        return
    proto = getattr(holder, field)
    proto.SetInParent()
    for name, target in _CONV_FIELDS:
        part = getattr(value, name)
        if isinstance(part, tuple):
            getattr(proto, target).extend(part)
        else:
            setattr(proto, target, part)


def _read_conv_dims(holder: Holder, field: str, spec: AttrSpec) -> Any:
    if not holder.HasField(field) and not spec.required:
        return None
    proto = getattr(holder, field)
    parts: list[Any] = [getattr(proto, target) for _, target in _CONV_FIELDS]
    parts = [p if isinstance(p, int) else tuple(p) for p in parts]
    return _checked_conv_dims(ConvDims(*parts))


def _checked_conv_dims(dims: ConvDims) -> ConvDims:
    for what, batch, feature, spatial in (
        ("input", dims.input_batch, dims.input_feature, dims.input_spatial),
        ("kernel", dims.kernel_input_feature, dims.kernel_output_feature, dims.kernel_spatial),
        ("output", dims.output_batch, dims.output_feature, dims.output_spatial),
    ):
        named = (batch, feature, *spatial)
        if len(set(named)) != len(named) or min(named) < 0:
            raise invalid(f"convolution dimension numbers: the {what} names a dimension twice, or a negative one")
    return dims


def _write_padding(holder: Holder, field: str, value: tuple[PaddingDim, ...]) -> None:
    proto = getattr(holder, field)
    proto.SetInParent()
    for dim in value:
        proto.dimensions.add(edge_padding_low=dim.low, edge_padding_high=dim.high, interior_padding=dim.interior)


def _read_padding(holder: Holder, field: str, spec: AttrSpec) -> tuple[PaddingDim, ...]:
    dims = getattr(holder, field).dimensions
    if any(d.interior_padding < 0 for d in dims):
        raise invalid("interior padding is negative")
    return tuple(PaddingDim(d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in dims)


def _write_slice(holder: Holder, field: str, value: tuple[SliceDim, ...]) -> None:
    for dim in value:
        getattr(holder, field).add(start=dim.start, limit=dim.limit, stride=dim.stride)


def _read_slice(holder: Holder, field: str, spec: AttrSpec) -> tuple[SliceDim, ...]:
    return tuple(SliceDim(d.start, d.limit, d.stride or 1) for d in getattr(holder, field))


def _write_pairs(holder: Holder, field: str, value: tuple[tuple[int, int], ...]) -> None:
    for source, target in value:
        getattr(holder, field).add(source=source, target=target)


def _read_pairs(holder: Holder, field: str, spec: AttrSpec) -> tuple[tuple[int, int], ...]:
    return tuple((p.source, p.target) for p in getattr(holder, field))


def _write_precision(holder: Holder, field: str, value: tuple[Precision, ...]) -> None:
    getattr(holder, field).extend(_enum_number(holder, field, p) for p in value)


def _read_precision(holder: Holder, field: str, spec: AttrSpec) -> tuple[Precision, ...]:
    values = tuple(_member(holder, field, p, Precision) for p in getattr(holder, field))
    # XLA writes the default for every operand and does not print it.
    return () if all(p is Precision.DEFAULT for p in values) else values  # type: ignore[return-value]


def _write_sparsity(holder: Holder, field: str, value: tuple[Sparsity, ...]) -> None:
    for s in value:
        getattr(holder, field).add(type=pb.SPARSITY_STRUCTURED_N_M, index=s.index, dimension=s.dimension, n=s.n, m=s.m)


def _read_sparsity(holder: Holder, field: str, spec: AttrSpec) -> tuple[Sparsity, ...]:
    return tuple(Sparsity(s.index, s.dimension, s.n, s.m) for s in getattr(holder, field))


def _write_aliasing(holder: Holder, field: str, value: tuple[OutputOperandAlias, ...]) -> None:
    for a in value:
        getattr(holder, field).add(
            output_shape_index=a.output_index, operand_index=a.operand, operand_shape_index=a.operand_index
        )


def _read_aliasing(holder: Holder, field: str, spec: AttrSpec) -> tuple[OutputOperandAlias, ...]:
    return tuple(
        OutputOperandAlias(tuple(a.output_shape_index), a.operand_index, tuple(a.operand_shape_index))
        for a in getattr(holder, field)
    )


_SCALAR = Codec(_write_scalar, _read_scalar)
CODECS: dict[AttrKind, Codec] = {
    AttrKind.BOOL: _SCALAR,
    AttrKind.INT: Codec(_write_scalar, _read_int),
    AttrKind.OPERAND: _SCALAR,
    AttrKind.INTS: Codec(_write_list, _read_list),
    AttrKind.INT_IN_BRACES: Codec(_write_one, _read_one),
    AttrKind.FLOAT: Codec(_write_scalar, _read_float),
    AttrKind.STRING: Codec(_write_string, _read_string),
    AttrKind.ENUM: Codec(_write_enum, _read_enum),
    AttrKind.SHAPE: Codec(_write_shape, _read_optional_shape),
    AttrKind.SHAPES: Codec(_write_shapes, _read_shapes),
    AttrKind.LITERAL: Codec(_write_literal, _read_literal),
    AttrKind.WINDOW: Codec(_write_window, _read_window),
    AttrKind.CONV_DIMS: Codec(_write_conv_dims, _read_conv_dims),
    AttrKind.PADDING: Codec(_write_padding, _read_padding),
    AttrKind.SLICE: Codec(_write_slice, _read_slice),
    AttrKind.PAIRS: Codec(_write_pairs, _read_pairs),
    AttrKind.PRECISION: Codec(_write_precision, _read_precision),
    AttrKind.SPARSITY: Codec(_write_sparsity, _read_sparsity),
    AttrKind.ALIASING: Codec(_write_aliasing, _read_aliasing),
}
ONE = CODECS[AttrKind.INT_IN_BRACES]
