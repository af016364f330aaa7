from __future__ import annotations

import random
from collections.abc import Callable
from itertools import islice

import pytest
from google.protobuf.message import Message

from xyla.formats import hlo_proto, hlo_text
from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.hlo.module import Module
from xyla.hlo.verifier import verify
from xyla.support.status import Status, XylaError
from xyla.testing.mutate import mutations

TEXT = """HloModule m
cond { p = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[2]) parameter(0)  ROOT t = (s32[], f32[2]) copy(p) }
ENTRY e { s = (s32[], f32[2]) parameter(0), sharding={{replicated}, {devices=[2]0,1}}
  w = (s32[], f32[2]) while(s), condition=cond, body=body  x = f32[2] get-tuple-element(w), index=1
  k = f32[2] constant({1, 2}), origin={{"k"}}, metadata={op_name="n" source_line=3}
  ROOT d = f32[] dot(x, k), lhs_contracting_dims={0}, rhs_contracting_dims={0}, backend_config={"a":1} }
"""


def whole() -> pb.HloProto:
    return pb.HloProto.FromString(hlo_proto.to_bytes(hlo_text.parse(TEXT, "t")))


def refusal(data: bytes) -> XylaError:
    with pytest.raises(XylaError) as caught:
        hlo_proto.load_bytes(data, "bad.pb")
    assert caught.value.status is Status.INVALID_ARGUMENT
    assert "bad.pb" in caught.value.render()
    return caught.value


def outcome(data: bytes) -> Status:
    try:
        module = hlo_proto.load_bytes(data, "bad.pb")
        verify(module)
        hlo_proto.to_bytes(module)
    except XylaError as error:
        return error.status
    return Status.OK


def _entry(proto: pb.HloProto) -> pb.HloComputationProto:
    return proto.hlo_module.computations[2]


def _own_operand(p: pb.HloProto) -> None:
    _entry(p).instructions[2].operand_ids[0] = _entry(p).instructions[2].id


def _later_operand(p: pb.HloProto) -> None:
    _entry(p).instructions[1].operand_ids[0] = _entry(p).root_id


def _recursion(p: pb.HloProto) -> None:
    _entry(p).instructions[1].called_computation_ids[0] = _entry(p).id


def _absent_callee(p: pb.HloProto) -> None:
    _entry(p).instructions[1].called_computation_ids[0] = 999


def _no_callees(p: pb.HloProto) -> None:
    del _entry(p).instructions[1].called_computation_ids[:]


def _missing_operand(p: pb.HloProto) -> None:
    del _entry(p).instructions[4].operand_ids[1]


def _no_root(p: pb.HloProto) -> None:
    _entry(p).root_id = 12345


def _no_entry(p: pb.HloProto) -> None:
    p.hlo_module.entry_computation_id = 99
    p.hlo_module.entry_computation_name = "gone"


def _no_shape(p: pb.HloProto) -> None:
    _entry(p).instructions[2].ClearField("shape")


def _unknown_type(p: pb.HloProto) -> None:
    _entry(p).instructions[2].shape.element_type = 99  # type: ignore[assignment]


def _giant_shape(p: pb.HloProto) -> None:
    _entry(p).instructions[2].shape.dimensions[0] = 2**62


def _negative_shape(p: pb.HloProto) -> None:
    _entry(p).instructions[2].shape.dimensions[0] = -5


def _bad_layout(p: pb.HloProto) -> None:
    layout = _entry(p).instructions[2].shape.layout
    layout.implied = False
    layout.minor_to_major[0] = 7


def _short_literal(p: pb.HloProto) -> None:
    _entry(p).instructions[3].literal.f32s.pop()


def _other_literal(p: pb.HloProto) -> None:
    _entry(p).instructions[3].literal.shape.element_type = pb.S32


def _unknown_opcode(p: pb.HloProto) -> None:
    _entry(p).instructions[4].opcode = "dott"


def _two_ids(p: pb.HloProto) -> None:
    _entry(p).instructions[3].id = _entry(p).instructions[2].id


def _two_names(p: pb.HloProto) -> None:
    _entry(p).instructions[3].name = "x"


def _parameter_number(p: pb.HloProto) -> None:
    _entry(p).instructions[0].parameter_number = 3


def _schedule(p: pb.HloProto) -> None:
    p.hlo_module.schedule.sequences[_entry(p).id].instruction_ids.extend([1, 1])


def _giant_iota(p: pb.HloProto) -> None:
    inst = _entry(p).instructions[2]
    inst.opcode = "all-gather"
    inst.dimensions.append(0)
    inst.iota_collective_device_list.num_replica_groups = 2**31
    inst.iota_collective_device_list.num_devices_per_group = 2**31
    inst.iota_collective_device_list.iota_reshape_dims.append(2**62)


def _program_shape(p: pb.HloProto) -> None:
    p.hlo_module.host_program_shape.parameters.add().element_type = pb.TOKEN


FAULTS: list[Callable[[pb.HloProto], None]] = [
    _own_operand, _later_operand, _recursion, _absent_callee, _no_callees, _missing_operand, _no_root, _no_entry,
    _no_shape, _unknown_type, _giant_shape, _negative_shape, _bad_layout, _short_literal, _other_literal,
    _unknown_opcode, _two_ids, _two_names, _parameter_number, _schedule, _giant_iota, _program_shape,
]  # fmt: skip


@pytest.mark.parametrize("damage", FAULTS, ids=lambda f: f.__name__[1:])
def test_one_fault(damage: Callable[[pb.HloProto], None]) -> None:
    proto = whole()
    damage(proto)
    refusal(proto.SerializeToString())


def test_errors_name_the_place() -> None:
    proto = whole()
    _unknown_opcode(proto)
    error = refusal(proto.SerializeToString())
    assert error.message == "bad.pb: computation 'e', instruction 'd': unknown opcode 'dott'"
    assert error.hint == "did you mean 'dot'?"


def test_ids_are_unique() -> None:
    proto = whole()
    _entry(proto).instructions[2].id = _entry(proto).instructions[3].id
    assert "'x' has the same id" in refusal(proto.SerializeToString()).message


def test_text_errors_have_a_caret() -> None:
    text = str(whole()).replace('opcode: "dot"', 'opcod: "dot"')
    with pytest.raises(XylaError) as caught:
        hlo_proto.load_text(text, "bad.txtpb")
    line = text[: text.index("opcod:")].count("\n") + 1
    assert caught.value.render().startswith(f"bad.txtpb:{line}:7: INVALID_ARGUMENT")
    assert 'opcod: "dot"\n        ^' in caught.value.render()


def test_deep_nesting() -> None:
    deep = "hlo_module { computations { instructions { shape {" + "tuple_shapes {" * 5000
    with pytest.raises(XylaError) as caught:
        hlo_proto.load_text(deep, "deep.txtpb")
    assert caught.value.status is Status.INVALID_ARGUMENT


def test_tuples_nested_past_protobufs_limit() -> None:
    def nested(depth: int) -> Module:
        shape = "(" * depth + "f32[]" + ")" * depth
        return hlo_text.parse(f"HloModule m\nENTRY e {{ ROOT p = {shape} parameter(0) }}", "t")

    assert str(hlo_proto.load_bytes(hlo_proto.to_bytes(nested(89)), "x")) == str(nested(89))
    module = nested(110)
    with pytest.raises(XylaError) as caught:
        hlo_proto.to_bytes(module)
    assert caught.value.status is Status.UNIMPLEMENTED


@pytest.mark.parametrize("data", [b"", b"\n", b"\x0a\x00", b"\xff" * 40, b"HloModule m", bytes(100)])
def test_what_is_no_proto(data: bytes) -> None:
    refusal(data)


def test_every_truncation() -> None:
    data = whole().SerializeToString()
    for end in range(0, len(data) - 1, 3):
        refusal(data[:end])


def _scramble(message: Message, rng: random.Random) -> None:
    """Replaces one number, string or list, anywhere in a message."""
    spots = []
    stack = [message]
    while stack:
        here = stack.pop()
        for field, value in here.ListFields():
            if field.type != field.TYPE_MESSAGE:
                spots.append((here, field))
            elif not field.message_type.GetOptions().map_entry:
                stack.extend(value if field.is_repeated else [value])
    here, field = rng.choice(spots)
    if field.is_repeated:
        values = getattr(here, field.name)
        if rng.random() < 0.3:
            del values[rng.randrange(len(values)) :]
        elif field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_INT32):
            values[rng.randrange(len(values))] = rng.choice((-1, 0, 1, 5, 2**31 - 1))
    elif field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_INT32, field.CPPTYPE_ENUM):
        setattr(here, field.name, rng.choice((-1, 0, 1, 2, 77, 2**31 - 1)))
    elif field.type == field.TYPE_STRING:
        setattr(here, field.name, rng.choice(("", "x", "add", "while", "e", "\x00", "{", "devices")))
    else:
        here.ClearField(field.name)


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_scrambled_fields_and_damaged_bytes(start: int) -> None:
    data = whole().SerializeToString()
    damaged = [item for _, item in islice(mutations(data, start), 50)]
    for seed in range(start, start + 50):
        proto, rng = whole(), random.Random(seed)
        for _ in range(rng.choice((1, 1, 2, 5))):
            _scramble(proto, rng)
        damaged.append(proto.SerializeToString())
    for item in damaged:
        assert outcome(item) in (Status.OK, Status.INVALID_ARGUMENT, Status.UNIMPLEMENTED)
