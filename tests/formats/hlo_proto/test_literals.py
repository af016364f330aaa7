from __future__ import annotations

import numpy as np
import pytest

from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.literals import read_literal, write_literal
from xyla.hlo.literal import Literal
from xyla.hlo.shape import Layout, Shape
from xyla.support import dtypes
from xyla.support.status import Status, XylaError

# Field contents for two elements, by type: written out from the formats' bit layouts.
CASES = [
    ("pred", [True, False], "preds", [True, False]),
    ("s2", [1, -2], "s2s", b"\x01\x02"),
    ("u2", [3, 1], "u2s", b"\x03\x01"),
    ("s4", [-1, 7], "s4s", b"\x0f\x07"),
    ("u4", [15, 2], "u4s", b"\x0f\x02"),
    ("s8", [-1, 2], "s8s", b"\xff\x02"),
    ("u8", [255, 2], "u8s", b"\xff\x02"),
    ("s16", [-2, 256], "s16s", b"\xfe\xff\x00\x01"),
    ("u16", [65535, 1], "u16s", b"\xff\xff\x01\x00"),
    ("s32", [-(2**31), 2**31 - 1], "s32s", [-(2**31), 2**31 - 1]),
    ("u32", [2**32 - 1, 0], "u32s", [2**32 - 1, 0]),
    ("s64", [-(2**63), 5], "s64s", [-(2**63), 5]),
    ("u64", [2**64 - 1, 5], "u64s", [2**64 - 1, 5]),
    ("f16", [1.0, -2.0], "f16s", b"\x00\x3c\x00\xc0"),
    ("bf16", [1.0, -2.0], "bf16s", b"\x80\x3f\x00\xc0"),
    ("f32", [1.5, -0.0], "f32s", [1.5, -0.0]),
    ("f64", [1.5, -0.0], "f64s", [1.5, -0.0]),
    ("f8e4m3fn", [1.0, -2.0], "f8e4m3fns", b"\x38\xc0"),
    ("f8e5m2", [1.0, -2.0], "f8e5m2s", b"\x3c\xc0"),
    ("f8e8m0fnu", [1.0, 2.0], "f8e8m0fnus", b"\x7f\x80"),
    ("f4e2m1fn", [1.0, -2.0], "f4e2m1fns", b"\x02\x0c"),
    ("f6e3m2fn", [1.0, -2.0], "f6e3m2fns", b"\x0c\x30"),
    ("c64", [1 + 2j, -3j], "c64s", [1.0, 2.0, 0.0, -3.0]),
    ("c128", [1 + 2j, -3j], "c128s", [1.0, 2.0, 0.0, -3.0]),
]


def written(literal: Literal) -> pb.LiteralProto:
    proto = pb.LiteralProto()
    write_literal(literal, proto)
    return proto


@pytest.mark.parametrize(("name", "values", "field", "content"), CASES, ids=[c[0] for c in CASES])
def test_each_type_in_its_field(name: str, values: list[object], field: str, content: object) -> None:
    given = np.array(values, np.uint64 if name == "u64" else None)
    literal = Literal.of(given.astype(dtypes.by_name(name).np), dtypes.by_name(name))
    proto = written(literal)
    stored = getattr(proto, field)
    assert (stored if isinstance(stored, bytes) else list(stored)) == content
    assert read_literal(pb.LiteralProto.FromString(proto.SerializeToString())) == literal


def test_elements_stand_in_the_layouts_order() -> None:
    literal = Literal.of(np.array([[1, 2, 3], [4, 5, 6]], np.int32), layout=Layout.of((0, 1)))
    proto = written(literal)
    assert list(proto.s32s) == [1, 4, 2, 5, 3, 6]
    assert read_literal(proto) == literal


@pytest.mark.parametrize(
    ("name", "values", "data"),
    [
        ("s4", [1, -2, 7], b"\xe1\x07"),
        ("u4", [1, 14, 7], b"\xe1\x07"),
        ("u2", [1, 2, 3, 0, 1], b"\x39\x01"),
        ("f4e2m1fn", [1.0, -2.0, 0.5], b"\xc2\x01"),
    ],
)
def test_dense_packing_is_read(name: str, values: list[float], data: bytes) -> None:
    proto = written(Literal.of(np.array(values).astype(dtypes.by_name(name).np)))
    setattr(proto, name + "s", data)
    assert read_literal(proto).array.astype(float).tolist() == values


def test_bits_above_a_narrow_value_do_not_count() -> None:
    proto = written(Literal.of(np.array([1.0, -2.0]).astype(dtypes.F4E2M1FN.np)))
    proto.f4e2m1fns = b"\xf2\x3c"
    back = read_literal(proto).array
    assert back.view(np.uint8).tolist() == [2, 12]


@pytest.mark.parametrize("kind", ["int32", "int64", "uint32", "uint64", "bool"])
def test_large_integers(kind: str) -> None:
    rng = np.random.default_rng(0)
    # Values of every length in base 128, more than one block of them.
    values = rng.integers(0, 2**63, 300_000, dtype=np.int64) >> rng.integers(0, 63, 300_000)
    values[::3] *= -1
    literal = Literal.of(values.astype(kind))
    proto = written(literal)
    assert pb.LiteralProto.FromString(proto.SerializeToString()) == proto
    assert read_literal(proto) == literal


def test_nan_payloads_and_signed_zero_keep_their_bits() -> None:
    bits = np.array([0x7F800001, 0xFFC12345, 0x80000000], np.uint32)
    back = read_literal(written(Literal.of(bits.view(np.float32))))
    assert back.array.view(np.uint32).tolist() == bits.tolist()


def test_one_value_throughout_is_stored_once() -> None:
    back = read_literal(written(Literal.full(Shape.array(dtypes.F32, (100, 100)), 2.5)))
    assert back.array.strides == (0, 0)
    assert back.is_splat
    assert back.first == 2.5


def test_tuples_and_empty_arrays() -> None:
    inner = Literal.tuple_of([Literal.of(np.zeros((0, 3), np.float32)), Literal.scalar(True, dtypes.PRED)])
    literal = Literal.tuple_of([inner, Literal.scalar(-1, dtypes.S8)])
    assert read_literal(written(literal)) == literal


@pytest.mark.parametrize("change", ["short", "long", "halved"])
def test_wrong_sizes(change: str) -> None:
    proto = written(Literal.of(np.arange(4, dtype=np.int16)))
    proto.s16s = {"short": b"\0\0", "long": bytes(10), "halved": bytes(7)}[change]
    with pytest.raises(XylaError) as caught:
        read_literal(proto)
    assert caught.value.status is Status.INVALID_ARGUMENT


def test_a_giant_shape_without_data_costs_nothing() -> None:
    proto = written(Literal.of(np.arange(4, dtype=np.float32)))
    proto.shape.dimensions[0] = 2**60
    with pytest.raises(XylaError, match="has 4 elements"):
        read_literal(proto)


def test_a_constant_past_protobufs_limit_is_refused() -> None:
    with pytest.raises(XylaError) as caught:
        written(Literal.full(Shape.array(dtypes.F32, (2**20, 2**20)), 0))
    assert caught.value.status is Status.RESOURCE_EXHAUSTED
