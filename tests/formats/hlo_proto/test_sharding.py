from __future__ import annotations

import pytest

from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.formats.hlo_proto.sharding import print_sharding, write_sharding
from xyla.support.status import Status, XylaError

CANONICAL = [
    "{replicated}",
    "{manual}",
    "{unreduced}",
    "{unknown shard_as 0}",
    "{replicated shard_like 3}",
    "{maximal device=0}",
    "{maximal device=-1}",
    "{devices=[2,1]0,1}",
    "{devices=[2,2]<=[4]}",
    "{devices=[2,2,2]<=[2,2,2]T(2,1,0) last_tile_dim_replicate}",
    "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}",
    '{replicated metadata={op_name="a"}}',
    '{devices=[2]0,1 metadata={{op_type="t" op_name="a" source_file="f.py" source_line=3}, {op_name="b\\n"}}}',
    "{}",
    "{{replicated}, {devices=[2,1]0,1}, {maximal device=3}}",
    "{{manual}, {manual}, {manual}, {manual}, {manual}, /*index=5*/{manual}}",
    "{mesh['x'=2,'y'=4], [{'x'}, {}, {'y':(1)2, ?}, {?}]}",
    "{mesh['x'=2,'y'=2], [{'x'}], replicated={'y'}}",
    "{mesh['x'=2,'y'=2], [{}, {'y'}], unreduced={'x'}, metadata={{op_name=\"a\"}}}",
    "{mesh['x'=2,device_ids=(1,0)], [{'x'}]}",
    "{mesh[], replicated}",
]


def written(text: str) -> pb.OpSharding:
    proto = pb.OpSharding()
    write_sharding(text, proto)
    return proto


@pytest.mark.parametrize("text", CANONICAL)
def test_text_and_back(text: str) -> None:
    assert print_sharding(written(text)) == text


def test_fields() -> None:
    proto = written("{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}")
    assert proto == pb.OpSharding(
        type=pb.OpSharding.OTHER,
        tile_assignment_dimensions=[2, 4],
        iota_reshape_dims=[4, 2],
        iota_transpose_perm=[1, 0],
        replicate_on_last_tile_dim=True,
    )


def test_spacing_and_comments_do_not_matter() -> None:
    text = "{ {devices=[2]0,1},\n  /*index=1*/ {replicated\tmetadata={op_name='a'}} }"
    assert print_sharding(written(text)) == '{{devices=[2]0,1}, {replicated metadata={op_name="a"}}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "replicated",
        "{replicated",
        "{replicated} x",
        "{devices=[2}",
        "{devices=[2]<=[2]T(3)}",
        "{devices=[99999999999999999999]0}",
        "{strange}",
        "{last_tile_dims={odd}}",
        "{mesh['x'=2], [{'z'}]}",
        "{mesh['x'=2], [], unreduced=max{'x'}}",
        "{replicated metadata={what=1}}",
        "{{replicated}, {{replicated}}}",
        '{replicated metadata={op_name="a',
    ],
)
def test_forms_without_a_proto_are_refused(text: str) -> None:
    with pytest.raises(XylaError) as caught:
        written(text)
    assert caught.value.status is Status.UNIMPLEMENTED


@pytest.mark.parametrize(
    "proto",
    [
        pb.OpSharding(type=pb.OpSharding.MAXIMAL),
        pb.OpSharding(type=pb.OpSharding.TUPLE, tuple_shardings=[pb.OpSharding(type=pb.OpSharding.TUPLE)]),
        pb.OpSharding(type=77),  # type: ignore[arg-type]
        pb.OpSharding(named_sharding=pb.NamedShardingProto(replicated_axes=[pb.AxisRefProto(mesh_axis_index=3)])),
    ],
)
def test_contradictory_protos(proto: pb.OpSharding) -> None:
    with pytest.raises(XylaError) as caught:
        print_sharding(proto)
    assert caught.value.status is Status.INVALID_ARGUMENT
