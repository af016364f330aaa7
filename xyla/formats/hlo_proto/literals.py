"""LiteralProto from and to literals, at memory speed.

A literal's elements stand in the physical order of its layout, in the one field of its type. Types narrower than a
byte take one byte an element. Source: xla_data.proto; XLA's literal serialisation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.shapes import MAX_NESTING, read_shape, write_shape
from xyla.hlo.literal import Literal
from xyla.hlo.shape import Shape
from xyla.support import dtypes
from xyla.support.dtypes import ElementType
from xyla.support.status import Status, XylaError, invalid, unimplemented

# Element types whose values are a repeated field; all others are little-endian bytes.
_REPEATED = {
    dtypes.PRED: "preds",
    dtypes.S32: "s32s",
    dtypes.S64: "s64s",
    dtypes.U32: "u32s",
    dtypes.U64: "u64s",
    dtypes.F32: "f32s",
    dtypes.F64: "f64s",
    dtypes.C64: "c64s",
    dtypes.C128: "c128s",
}
# protobuf's limit for a message.
MAX_BYTES = 2**31 - 1
# Below this many elements the plain list is the fastest way in.
_SMALL = 256
# From this size on a constant of one value is stored once (and printed short).
SPLAT_ELEMENTS = 64
# Elements encoded at a time: the temporaries stay in the cache.
_BLOCK = 1 << 14


def _field(et: ElementType) -> str:
    field = _REPEATED.get(et, et.name + "s")
    if not et.is_array or field not in pb.LiteralProto.DESCRIPTOR.fields_by_name:
        raise unimplemented(f"XLA's protos have no literals of type {et}")
    return field


def read_literal(proto: pb.LiteralProto) -> Literal:
    """The literal a proto holds. Raises INVALID_ARGUMENT when its elements do not fill its shape."""
    return _read(proto, read_shape(proto.shape))


def _read(proto: pb.LiteralProto, shape: Shape) -> Literal:
    if shape.is_tuple:
        if len(proto.tuple_literals) != len(shape.tuple_shapes):
            raise invalid(f"literal of shape {shape} has {len(proto.tuple_literals)} elements")
        parts = zip(proto.tuple_literals, shape.tuple_shapes, strict=True)
        return Literal(shape, None, tuple(_read(p, s) for p, s in parts))
    if not shape.is_array:
        return Literal(shape)
    if proto.dynamic_sizes:
        raise unimplemented(f"literal of dynamic shape {shape}: dynamic sizes are not read")
    if shape.is_unbounded:
        raise invalid(f"literal of unbounded shape {shape}")
    flat = _values(proto, shape)
    if flat.size != shape.num_elements:
        raise invalid(f"literal of shape {shape} has {flat.size} elements, expected {shape.num_elements}")
    if _is_splat(flat):
        return Literal(shape, np.broadcast_to(flat[0], shape.dims))
    array = _logical(flat, shape)
    array.flags.writeable = False
    return Literal(shape, array)


def _is_splat(flat: npt.NDArray[Any]) -> bool:
    """Whether a large constant is one value throughout: it is then stored once, as texts do."""
    if flat.size < SPLAT_ELEMENTS:
        return False
    raw = flat.view(np.uint8).reshape(flat.size, flat.itemsize)
    return bool((raw[-1] == raw[0]).all() and (raw[flat.size // 2] == raw[0]).all() and (raw == raw[0]).all())


def _values(proto: pb.LiteralProto, shape: Shape) -> npt.NDArray[Any]:
    """The elements in physical order, in the storage dtype."""
    et = shape.element_type
    field = _field(et)
    data = getattr(proto, field)
    if et not in _REPEATED:
        return _from_bytes(data, shape)
    part = et.component
    flat: npt.NDArray[Any] = np.array(data, dtype=part.np)
    if et.is_complex:
        if flat.size % 2:
            raise invalid(f"literal of type {et} has an odd number of parts")
        flat = flat.view(et.np)
    return flat


def _from_bytes(data: bytes, shape: Shape) -> npt.NDArray[Any]:
    et = shape.element_type
    if et.bits >= 8:
        if len(data) % et.itemsize:
            raise invalid(f"literal of type {et} has {len(data)} bytes, not a multiple of {et.itemsize}")
        return np.frombuffer(data, dtype=et.np).view()
    return _unpack(data, shape)


def _unpack(data: bytes, shape: Shape) -> npt.NDArray[Any]:
    """One element a byte, in the low bits, as XLA writes; dense packing (first element lowest) is read too."""
    et, count = shape.element_type, shape.num_elements
    per_byte = 8 // et.bits
    packed = -(-count // per_byte)
    raw = np.frombuffer(data, np.uint8)
    if raw.size == packed != count:
        shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(et.bits)
        raw = (raw[:, None] >> shifts).reshape(-1)[:count]
    elif raw.size != count:
        raise invalid(f"literal of shape {shape} has {raw.size} bytes, expected {count}")
    bits = raw & np.uint8(2**et.bits - 1)
    if et.is_signed:
        sign = np.uint8(1 << (et.bits - 1))
        return ((bits ^ sign) - sign).view(np.int8).astype(et.np)
    return bits.astype(et.np) if et.is_unsigned else bits.view(et.np)


def _major_to_minor(shape: Shape) -> tuple[int, ...] | None:
    """The dimensions in physical order, or None when that is row-major."""
    if shape.layout is None:
        return None
    order = shape.layout.minor_to_major[::-1]
    return None if order == tuple(range(shape.rank)) else order


def _logical(flat: npt.NDArray[Any], shape: Shape) -> npt.NDArray[Any]:
    order = _major_to_minor(shape)
    if order is None:
        return flat.reshape(shape.dims)
    physical = flat.reshape([shape.dims[d] for d in order])
    return np.ascontiguousarray(physical.transpose(np.argsort(order)))


def write_literal(literal: Literal, proto: pb.LiteralProto) -> None:
    """Fills an empty proto. Raises INVALID_ARGUMENT for an elided literal, UNIMPLEMENTED for a type without a field."""
    write_shape(literal.shape, proto.shape)
    stack = [(literal, proto, 0)]
    while stack:
        literal, proto, depth = stack.pop()
        if depth > MAX_NESTING:
            raise unimplemented(f"protobuf cannot hold tuples nested deeper than {MAX_NESTING}")
        if literal.shape.is_array:
            _write_array(literal, proto)
        for element in literal.elements:
            child = proto.tuple_literals.add()
            write_shape(element.shape, child.shape)
            stack.append((element, child, depth + 1))


def _write_array(literal: Literal, proto: pb.LiteralProto) -> None:
    et = literal.shape.element_type
    field = _field(et)
    if literal.shape.num_bytes > MAX_BYTES:
        raise XylaError(Status.RESOURCE_EXHAUSTED, f"a constant {literal.shape} is larger than a proto may be")
    order = _major_to_minor(literal.shape)
    array = literal.array if order is None else literal.array.transpose(order)
    flat: npt.NDArray[Any] = np.ascontiguousarray(array).reshape(-1)
    if et in _REPEATED:
        _write_repeated(flat, et, field, proto)
    else:
        setattr(proto, field, _low_bits(flat, et) if et.bits < 8 else flat.tobytes())


def _low_bits(flat: npt.NDArray[Any], et: ElementType) -> bytes:
    """One element a byte, its bits the lowest, the rest zero."""
    raw = flat.astype(np.int8).view(np.uint8) if et.is_integer else flat.view(np.uint8)
    return (raw & np.uint8(2**et.bits - 1)).tobytes()


def _write_repeated(flat: npt.NDArray[Any], et: ElementType, field: str, proto: pb.LiteralProto) -> None:
    if et.is_complex:
        flat = flat.view(et.component.np)
    if flat.size <= _SMALL and not (et.is_float or et.is_complex):
        getattr(proto, field).extend(flat.tolist())
        return
    # The packed field's payload, merged as wire bytes: no Python object an element, and NaN payloads keep their bits.
    payload = flat.tobytes() if flat.dtype.kind in "fb" else _varints(flat)
    if payload:
        number = pb.LiteralProto.DESCRIPTOR.fields_by_name[field].number
        proto.MergeFromString(varint(number << 3 | 2) + varint(len(payload)) + payload)


def varint(value: int) -> bytes:
    """One unsigned number in protobuf's base-128 encoding."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varints(flat: npt.NDArray[Any]) -> bytes:
    """Every element in base-128, concatenated (negative ones sign-extended to 64 bits)."""
    return b"".join(_varint_block(flat[at : at + _BLOCK]) for at in range(0, flat.size, _BLOCK))


def _varint_block(block: npt.NDArray[Any]) -> bytes:
    wide = block.astype(np.int64).view(np.uint64) if block.dtype.kind == "i" else block.astype(np.uint64)
    width = max(1, -(-int(wide.max()).bit_length() // 7))
    out = np.empty((wide.size, width), np.uint8)
    used = np.ones((wide.size, width), np.bool_)
    rest = wide.copy()
    for column in range(width):
        out[:, column] = rest.astype(np.uint8) & np.uint8(0x7F)
        rest >>= np.uint64(7)
        if column + 1 < width:
            # A byte says that another follows.
            more = rest != 0
            used[:, column + 1] = more
            out[:, column] |= more.view(np.uint8) << np.uint8(7)
    return out.tobytes() if used.all() else out[used].tobytes()
