from __future__ import annotations

import numpy as np
import pytest

import xyla.interp
from tests.interp.hlo import one, run
from xyla.formats.hlo_text import parse
from xyla.support.status import Status, XylaError

SUM = "f { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }\n"
P = "p = s32[2] parameter(0)\n"
X = np.int32([[1, 2], [10, 20], [100, 200], [1000, 2000]])


@pytest.mark.parametrize(
    ("groups", "want"),
    [
        ("{}", [[1111, 2222]] * 4),
        ("{{0,2},{1,3}}", [[101, 202], [1010, 2020], [101, 202], [1010, 2020]]),
        ("{{0},{1,2,3}}", [[1, 2], [1110, 2220], [1110, 2220], [1110, 2220]]),
        ("[2,2]<=[4]", [[11, 22], [11, 22], [1100, 2200], [1100, 2200]]),
    ],
)
def test_all_reduce(groups: str, want: list[list[int]]) -> None:
    got = one(
        P + f"ROOT r = s32[2] all-reduce(p), replica_groups={groups}, to_apply=f", X, computations=SUM, replicas=4
    )
    assert got.tolist() == want


def test_all_reduce_modes_differ_in_who_is_named() -> None:
    body = P + "ROOT r = s32[2] all-reduce(p), {}, to_apply=f"
    options = {"computations": SUM, "replicas": 2, "partitions": 2}
    # Device = replica * 2 + partition. Cross-replica: same partition of both replicas.
    assert one(body.format("replica_groups={{0,1}}"), X, **options)[:, 0].tolist() == [101, 1010, 101, 1010]
    # Cross-replica and partition: every partition of the named replicas.
    assert one(body.format("replica_groups={{0},{1}}, channel_id=1"), X, **options)[:, 0].tolist() == [
        11,
        11,
        1100,
        1100,
    ]
    flat = "replica_groups={{0,3},{1,2}}, channel_id=1, use_global_device_ids=true"
    assert one(body.format(flat), X, **options)[:, 0].tolist() == [1001, 110, 110, 1001]


def test_ids() -> None:
    body = "a = u32[] replica-id()\nb = u32[] partition-id()\nROOT r = (u32[], u32[]) tuple(a, b)"
    replicas, partitions = run(body, replicas=2, partitions=3)
    assert replicas.tolist() == [0, 0, 0, 1, 1, 1]
    assert partitions.tolist() == [0, 1, 2, 0, 1, 2]


def test_all_gather_and_its_asynchronous_form() -> None:
    got = one(P + "ROOT r = s32[4] all-gather(p), dimensions={0}, replica_groups={{0,1},{2,3}}", X, replicas=4)
    assert got.tolist() == [[1, 2, 10, 20]] * 2 + [[100, 200, 1000, 2000]] * 2
    body = (
        P
        + """s = (s32[2], s32[4]) all-gather-start(p), dimensions={0}, replica_groups={{1,0}}
    ROOT r = s32[4] all-gather-done(s)"""
    )
    assert one(body, X[:2], replicas=2).tolist() == [[10, 20, 1, 2]] * 2  # in group order


def test_all_reduce_start_and_done() -> None:
    body = P + "s = s32[2] all-reduce-start(p), replica_groups={}, to_apply=f\nROOT r = s32[2] all-reduce-done(s)"
    assert one(body, X[:2], computations=SUM, replicas=2).tolist() == [[11, 22]] * 2


def test_a_collective_may_narrow_its_result() -> None:
    comps = "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"
    got = one("p = f32[1] parameter(0)\nROOT r = bf16[1] all-reduce(p), replica_groups={}, to_apply=f",
              np.float32([[1], [2**-8 + 2**-20]]), computations=comps, replicas=2)  # fmt: skip
    assert got.astype(np.float32).tolist() == [[1 + 2**-7]] * 2


def test_reduce_scatter() -> None:
    body = P + "ROOT r = s32[1] reduce-scatter(p), dimensions={0}, replica_groups={{0,1}}, to_apply=f"
    assert one(body, X[:2], computations=SUM, replicas=2).tolist() == [[11], [22]]


def test_all_to_all() -> None:
    got = one(P + "ROOT r = s32[2] all-to-all(p), dimensions={0}, replica_groups={{0,1}}", X[:2], replicas=2)
    assert got.tolist() == [[1, 10], [2, 20]]
    body = (
        P
        + """n = s32[2] negate(p)
    ROOT r = (s32[2], s32[2]) all-to-all(p, n), replica_groups={{0,1}}"""
    )
    first, second = run(body, X[:2], replicas=2)
    assert first.tolist() == [[1, 2], [-1, -2]]
    assert second.tolist() == [[10, 20], [-10, -20]]


def test_ragged_all_to_all() -> None:
    body = """x = s32[3] parameter(0)
    o = s32[4] parameter(1)
    a = s32[2] parameter(2)
    b = s32[2] parameter(3)
    c = s32[2] parameter(4)
    d = s32[2] parameter(5)
    ROOT r = s32[4] ragged-all-to-all(x, o, a, b, c, d), replica_groups={{0,1}}"""
    x = np.int32([[1, 2, 2], [3, 4, 0]])
    got = one(body, x, np.zeros((2, 4), np.int32), np.int32([[0, 1], [0, 1]]), np.int32([[1, 2], [1, 1]]),
              np.int32([[0, 0], [1, 2]]), np.int32([[1, 1], [2, 1]]), replicas=2)  # fmt: skip
    assert got.tolist() == [[1, 3, 0, 0], [2, 2, 4, 0]]


def test_collective_permute_gives_zeros_to_devices_without_a_source() -> None:
    pairs = "source_target_pairs={{0,1},{1,2},{3,3}}"
    got = one(P + f"ROOT r = s32[2] collective-permute(p), {pairs}", X, replicas=4)
    assert got.tolist() == [[0, 0], [1, 2], [10, 20], [1000, 2000]]
    body = P + f"s = (s32[2], s32[2]) collective-permute-start(p), {pairs}\nROOT r = s32[2] collective-permute-done(s)"
    assert one(body, X, replicas=4).tolist() == got.tolist()


def test_collective_broadcast() -> None:
    got = one(P + "ROOT r = s32[2] collective-broadcast(p), replica_groups={{2,1}}", X[:3], replicas=3)
    assert got.tolist() == [[0, 0], [100, 200], [100, 200]]


def test_send_and_recv_between_devices() -> None:
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}'
    body = (
        P
        + f"""t = token[] after-all()
    rv = (s32[2], u32[], token[]) recv(t), channel_id=1, {pairs}
    sd = (s32[2], u32[], token[]) send(p, t), channel_id=1, {pairs}
    sdd = token[] send-done(sd), channel_id=1
    rvd = (s32[2], token[]) recv-done(rv), channel_id=1, {pairs}, control-predecessors={{sd}}
    ROOT r = s32[2] get-tuple-element(rvd), index=0"""
    )
    assert one(body, X[:2], replicas=2).tolist() == [[0, 0], [1, 2]]


def test_one_device_needs_no_company() -> None:
    assert one(P + "ROOT r = s32[2] all-reduce(p), replica_groups={}, to_apply=f", X[0], computations=SUM).tolist() == [
        1,
        2,
    ]


def test_arguments_without_a_device_dimension_go_to_every_device() -> None:
    got = one(P + "ROOT r = s32[2] all-reduce(p), replica_groups={}, to_apply=f", X[0], computations=SUM, replicas=3)
    assert got.tolist() == [[3, 6]] * 3


def test_too_few_devices_is_an_error_with_a_hint() -> None:
    with pytest.raises(XylaError) as e:
        run(P + "ROOT r = s32[2] all-reduce(p), replica_groups={{0,1}}, to_apply=f", X[0], computations=SUM)
    assert e.value.status is Status.INVALID_ARGUMENT
    assert "names device 1, but the program runs on 1" in e.value.message
    assert "replicas=" in (e.value.hint or "")


def test_devices_that_disagree_get_an_error_not_a_hang() -> None:
    comps = (
        SUM
        + """yes { p = s32[2] parameter(0) ROOT r = s32[2] all-reduce(p), replica_groups={}, to_apply=f }
    no { p = s32[2] parameter(0) ROOT r = s32[2] copy(p) }"""
    )
    body = (
        P
        + """i = u32[] replica-id()
    z = u32[] constant(0)
    c = pred[] compare(i, z), direction=EQ
    ROOT r = s32[2] conditional(c, p, p), true_computation=yes, false_computation=no"""
    )
    with pytest.raises(XylaError) as e:
        run(body, X[:2], computations=comps, replicas=2)
    assert e.value.status is Status.INVALID_ARGUMENT
    assert "disagree on their collectives" in e.value.message


def test_loops_meet_once_a_trip() -> None:
    comps = (
        SUM
        + """cond { s = (s32[], s32[2]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)
      ROOT r = pred[] compare(i, n), direction=LT }
    body { s = (s32[], s32[2]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      x = s32[2] get-tuple-element(s), index=1
      o = s32[] constant(1)
      j = s32[] add(i, o)
      y = s32[2] all-reduce(x), replica_groups={}, to_apply=f
      ROOT r = (s32[], s32[2]) tuple(j, y) }"""
    )
    body = (
        P
        + """z = s32[] constant(0)
    s = (s32[], s32[2]) tuple(z, p)
    w = (s32[], s32[2]) while(s), condition=cond, body=body
    ROOT r = s32[2] get-tuple-element(w), index=1"""
    )
    assert one(body, X[:2], computations=comps, replicas=2).tolist() == [[44, 88]] * 2


MANUAL = """p = s32[4,2] parameter(0)
    s = s32[4,2] custom-call(p), custom_call_target="Sharding", sharding={devices=[2,1]1,0}
    m = s32[2,2] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={manual}
    x = s32[2,2] collective-permute(m), source_target_pairs={{0,1},{1,0}}, channel_id=1
    ROOT f = s32[4,2] custom-call(x), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,1]1,0}"""


def test_several_arrays_cross_the_border_at_once() -> None:
    body = """p = s32[4] parameter(0)
    m = (s32[2], s32[4]) custom-call(p, p), custom_call_target="xla.sdy.GlobalToLocalShape"
    a = s32[2] get-tuple-element(m), index=0
    n = s32[2] negate(a)
    ROOT f = s32[4] custom-call(n), custom_call_target="xla.sdy.LocalToGlobalShape\""""
    assert one(body, np.int32([1, 2, 3, 4])).tolist() == [-1, -2, -3, -4]


def test_a_partition_of_a_program_has_a_device_dimension() -> None:
    body = (
        P
        + "ROOT r = s32[2] all-reduce(p), replica_groups={{0,1}}, channel_id=1, use_global_device_ids=true, to_apply=f"
    )
    text = f"HloModule m, num_partitions=2\n{SUM}\nENTRY e {{ {body} }}\n"
    assert xyla.interp.run(parse(text, "t"), [X[:2]])[0].tolist() == [[11, 22]] * 2


def test_a_logical_program_ignores_its_partition_count() -> None:
    text = "HloModule m, num_partitions=8\nENTRY e { p = s32[2] parameter(0) ROOT r = s32[2] negate(p) }\n"
    assert xyla.interp.run(parse(text, "t"), [X[0]])[0].tolist() == [-1, -2]


def test_manually_partitioned_programs_take_logical_arrays() -> None:
    assert one(MANUAL, X).tolist() == X[[2, 3, 0, 1]].tolist()
