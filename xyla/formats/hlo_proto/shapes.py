"""ShapeProto, LayoutProto and ProgramShapeProto from and to interned shapes.

Source: xla_data.proto (fields), XLA's "Shapes and layout" and "Tiled layout" pages.
"""

from __future__ import annotations

from collections.abc import Sequence

from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.hlo.shape import OPAQUE_SHAPE, TOKEN_SHAPE, UNBOUNDED, Layout, Shape, SplitConfig
from xyla.support import dtypes
from xyla.support.status import invalid, unimplemented

# XLA marks an unbounded dimension, and a tile dimension that combines, by the lowest int64.
LOWEST = -(2**63)
# protobuf refuses messages nested deeper than 100.
MAX_NESTING = 90
_LEVEL_LETTERS = ("D", "C", "S", "H")


def read_shape(proto: pb.ShapeProto) -> Shape:
    """The shape a proto describes. Raises INVALID_ARGUMENT for an unknown type or impossible dimensions."""
    et = read_type(proto.element_type)
    if et.is_array:
        return _read_array(proto, et)
    if et is dtypes.TUPLE:
        return Shape.tuple_of(map(read_shape, proto.tuple_shapes))
    if et is dtypes.BUFFER:
        if len(proto.tuple_shapes) != 1:
            raise invalid(f"a buffer shape holds one shape, {len(proto.tuple_shapes)} given")
        return Shape.buffer(read_shape(proto.tuple_shapes[0]))
    return TOKEN_SHAPE if et is dtypes.TOKEN else OPAQUE_SHAPE


def read_type(number: int) -> dtypes.ElementType:
    """The element type of a PrimitiveType number. Raises INVALID_ARGUMENT."""
    try:
        return dtypes.by_proto(number)
    except KeyError:
        raise invalid(f"there is no element type number {number}") from None


def _read_array(proto: pb.ShapeProto, et: dtypes.ElementType) -> Shape:
    dims = [UNBOUNDED if d == LOWEST else d for d in proto.dimensions]
    dynamic = tuple(proto.is_dynamic_dimension)
    if any(dynamic) and len(dynamic) != len(dims):
        raise invalid(f"{len(dynamic)} dynamic flags for {len(dims)} dimensions")
    # A layout that the text did not give was written for XLA only.
    given = proto.HasField("layout") and not proto.layout.implied
    layout = read_layout(proto.layout) if given else None
    return Shape.array(et, dims, layout, dynamic)


def read_layout(proto: pb.LayoutProto) -> Layout:
    """The layout a proto describes."""
    return Layout(
        tuple(proto.minor_to_major),
        tuple(tuple(-1 if d == LOWEST else d for d in t.dimensions) for t in proto.tiles),
        proto.tail_padding_alignment_in_elements or 1,
        _type_name(proto.index_primitive_type),
        _type_name(proto.pointer_primitive_type),
        proto.element_size_in_bits,
        proto.memory_space,
        tuple(SplitConfig(s.dimension, tuple(s.split_indices)) for s in proto.split_configs),
        read_shape(proto.physical_shape) if proto.HasField("physical_shape") else None,
        proto.dynamic_shape_metadata_prefix_bytes,
        _level_text(proto),
    ).interned()


def _type_name(number: int) -> str:
    return read_type(number).name if number else ""


def _level_text(proto: pb.LayoutProto) -> str:
    """`D,C+~`: a letter a dimension, `+` where entries repeat, `~` where they are unordered."""
    parts = []
    for i, level in enumerate(proto.dim_level_types):
        if not 0 <= level < len(_LEVEL_LETTERS):
            raise invalid(f"there is no dimension level type number {level}")
        unique = i >= len(proto.dim_unique) or proto.dim_unique[i]
        ordered = i >= len(proto.dim_ordered) or proto.dim_ordered[i]
        parts.append(_LEVEL_LETTERS[level] + ("" if unique else "+") + ("" if ordered else "~"))
    return ",".join(parts)


def write_shape(shape: Shape, proto: pb.ShapeProto) -> None:
    """Fills an empty proto. Raises UNIMPLEMENTED for types XLA's protos lack and for tuples nested past its limit."""
    stack = [(shape, proto, 0)]
    while stack:
        shape, proto, depth = stack.pop()
        if depth > MAX_NESTING:
            raise unimplemented(f"protobuf cannot hold tuples nested deeper than {MAX_NESTING}")
        _write_one(shape, proto)
        for element in shape.tuple_shapes:
            stack.append((element, proto.tuple_shapes.add(), depth + 1))


def _write_one(shape: Shape, proto: pb.ShapeProto) -> None:
    number = shape.element_type.proto
    if number < 0:
        raise unimplemented(f"XLA's protos have no element type {shape.element_type}")
    proto.element_type = number  # type: ignore[assignment]
    if not shape.is_array:
        return
    proto.dimensions.extend(LOWEST if d == UNBOUNDED else d for d in shape.dims)
    # XLA writes one flag a dimension, static shapes included.
    proto.is_dynamic_dimension.extend(shape.dynamic or (False,) * shape.rank)
    # XLA wants a layout everywhere.
    write_layout(shape.layout or Layout.default(shape.rank), proto.layout)
    if shape.layout is None:
        proto.layout.implied = True


def write_layout(layout: Layout, proto: pb.LayoutProto) -> None:
    """Fills an empty proto."""
    proto.SetInParent()
    proto.minor_to_major.extend(layout.minor_to_major)
    for tile in layout.tiles:
        proto.tiles.add().dimensions.extend(LOWEST if d == -1 else d for d in tile)
    proto.tail_padding_alignment_in_elements = layout.tail_padding_alignment
    proto.element_size_in_bits = layout.element_size_bits
    proto.memory_space = layout.memory_space
    proto.dynamic_shape_metadata_prefix_bytes = layout.dynamic_shape_metadata_prefix_bytes
    for name, field in (
        (layout.index_primitive_type, "index_primitive_type"),
        (layout.pointer_primitive_type, "pointer_primitive_type"),
    ):
        if name:
            setattr(proto, field, _type_number(name))
    for split in layout.split_configs:
        proto.split_configs.add(dimension=split.dimension, split_indices=split.split_indices)
    if layout.physical_shape is not None:
        write_shape(layout.physical_shape, proto.physical_shape)
    if layout.dim_level_types:
        _write_levels(layout.dim_level_types, proto)


def _type_number(name: str) -> int:
    et = dtypes.find(name)
    if et is None or et.proto < 0:
        raise unimplemented(f"XLA's protos have no element type {name}")
    return et.proto


def _write_levels(text: str, proto: pb.LayoutProto) -> None:
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if part[:1] not in _LEVEL_LETTERS or part[1:] not in ("", "+", "~", "+~"):
            raise unimplemented(f"dimension level type {part!r} has no proto")
        proto.dim_level_types.append(_LEVEL_LETTERS.index(part[0]))  # type: ignore[arg-type]
    if any(len(part) > 1 for part in parts):
        proto.dim_unique.extend("+" not in part for part in parts)
        proto.dim_ordered.extend("~" not in part for part in parts)


def write_program_shape(
    parameters: Sequence[Shape], result: Shape, names: Sequence[str], proto: pb.ProgramShapeProto
) -> None:
    """Fills an empty proto with a computation's signature."""
    for shape in parameters:
        write_shape(shape, proto.parameters.add())
    write_shape(result, proto.result)
    proto.parameter_names.extend(names)
