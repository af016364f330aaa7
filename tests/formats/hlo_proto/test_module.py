from __future__ import annotations

import numpy as np
import pytest

from xyla.formats import hlo_proto, hlo_text
from xyla.formats.hlo_proto import hlo_pb2 as pb
from xyla.hlo import ops, rewriter
from xyla.hlo.literal import Literal
from xyla.hlo.module import Module
from xyla.hlo.op_def import all_ops
from xyla.support.status import Status, XylaError

SMALL = """HloModule small
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
ENTRY main { x = f32[4]{0} parameter(0)  z = f32[] constant(0)
  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add }
"""

# One instruction for each attribute codec; what each program exercises is in its name.
PROGRAMS = {
    "layouts, schedule, aliases": """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, must-alias) },
    buffer_donor={ (1, {}) }, entry_computation_layout={(f32[2,3]{0,1}, f32[2,3]{1,0})->f32[2,3]{0,1}}, replica_count=2,
    num_partitions=4, frontend_attributes={a="b"}, allow_spmd_sharding_propagation_to_output={true,false}
    ENTRY e { b = f32[2,3]{1,0:T(2,128)(2,1)S(1)} parameter(1)  a = f32[2,3]{0,1} parameter(0)
      c = f32[2,3]{0,1} add(a, b)  d = f32[2,3]{0,1} negate(a)  ROOT r = f32[2,3]{0,1} subtract(d, c) }""",
    "dot": """HloModule m
    ENTRY e { a = f32[2,3,4] parameter(0)  b = f32[2,4,5] parameter(1)
      ROOT d = f32[2,3,5] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0},
        rhs_contracting_dims={1}, operand_precision={highest,default}, algorithm=dot_bf16_bf16_f32_x3 }""",
    "convolution": """HloModule m
    ENTRY e { a = f32[1,8,8,4] parameter(0)  k = f32[3,3,2,6] parameter(1)
      ROOT c = f32[1,4,9,6] convolution(a, k), window={size=3x3 stride=2x1 pad=0_1x-1_2 rhs_reversal=0x1 lhs_dilate=1x1
        rhs_dilate=1x1}, dim_labels=b01f_01io->b01f, feature_group_count=2 }""",
    "gather and scatter": """HloModule m
    add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
    ENTRY e { a = f32[5,6] parameter(0)  i = s32[3,1] parameter(1)
      g = f32[3,6] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
        slice_sizes={1,6}, indices_are_sorted=true
      ROOT s = f32[5,6] scatter(a, i, g), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=add }""",
    "movement": """HloModule m
    ENTRY e { a = f32[4,6] parameter(0)  z = f32[] constant(0)  i = s32[] constant(1)
      p = f32[7,5] pad(a, z), padding=1_2x-1_0  s = f32[2,3] slice(a), slice={[0:4:2], [1:4]}
      d = f32[1,6] dynamic-slice(a, i, i), dynamic_slice_sizes={1,6}  r = f32[4,6] reverse(a), dimensions={1}
      t = f32[6,4] transpose(a), dimensions={1,0}  k = f32[4,12] concatenate(a, r), dimensions={1}
      n = s32[4,6] iota(), iota_dimension=1  c = pred[4,6] compare(n, n), direction=LT
      f = pred[4,6] compare(a, a), direction=EQ, type=TOTALORDER
      x = f32[4,6] reduce-precision(a), exponent_bits=5, mantissa_bits=3
      ROOT o = (f32[7,5], f32[2,3], f32[1,6], f32[6,4], f32[4,12], pred[4,6], pred[4,6], f32[4,6])
        tuple(p, s, d, t, k, c, f, x) }""",
    "control flow": """HloModule m
    cond { p = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(5)
      ROOT c = pred[] compare(i, n), direction=LT }
    body { p = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
      j = s32[] add(i, one)  x = f32[2] get-tuple-element(p), index=1  ROOT t = (s32[], f32[2]) tuple(j, x) }
    yes { a = f32[2] parameter(0)  ROOT n = f32[2] negate(a) }
    no { a = f32[2] parameter(0)  ROOT n = f32[2] abs(a) }
    fused { a = f32[2] parameter(0)  ROOT n = f32[2] exponential(a), result_accuracy={mode=highest} }
    ENTRY e { s = (s32[], f32[2]) parameter(0)  w = (s32[], f32[2]) while(s), condition=cond, body=body
      x = f32[2] get-tuple-element(w), index=1  q = pred[] constant(true)
      c = f32[2] conditional(q, x, x), true_computation=yes, false_computation=no
      ROOT f = f32[2] fusion(c), kind=kLoop, calls=fused, control-predecessors={x} }""",
    "collectives": """HloModule m
    add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
    ENTRY e { a = f32[8] parameter(0)
      r = f32[8] all-reduce(a), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=add
      g = f32[16] all-gather(a), replica_groups=[2,2]<=[2,2]T(1,0), dimensions={0}
      h = f32[8] all-reduce(a), replica_groups={}, to_apply=add
      m = f32[8] all-reduce(a), channel_id=2, replica_groups=mesh['x'=2,'y'=2] {'x'}, to_apply=add
      p = f32[8] collective-permute(a), source_target_pairs={{0,1},{1,0}}
      t = f32[8] all-to-all(a), replica_groups={{0,1}}, dimensions={0}
      ROOT o = (f32[8], f32[16], f32[8], f32[8], f32[8], f32[8]) tuple(r, g, h, m, p, t) }""",
    "calls outside": """HloModule m
    ENTRY e { a = f32[4]{0} parameter(0), parameter_replication={true}, sharding={replicated}
      k = token[] after-all()  i = ((f32[2]{0}), token[]) infeed(k), infeed_config="abc"
      o = token[] outfeed(a, k), outfeed_shape=f32[4]{0}  o2 = token[] outfeed(a, o)
      ROOT c = f32[4]{0} custom-call(a), custom_call_target="f", operand_layout_constraints={f32[4]{0}},
        custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI, backend_config={a = 1 : i64},
        output_to_operand_aliasing={{}: (0, {})}, metadata={op_type="t" op_name="n" source_file="f" source_line=7} }""",
    "linear algebra and random": """HloModule m
    less { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT c = pred[] compare(x, y), direction=LT }
    ENTRY e { a = f32[3,3] parameter(0)  u = u64[2] parameter(1)  v = f32[3] parameter(2)
      c = f32[3,3] cholesky(a), lower=true
      t = f32[3,3] triangular-solve(c, a), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
      f = c64[3,2] fft(a), fft_type=RFFT, fft_length={3}
      g = (u64[2], u32[4]) rng-bit-generator(u), algorithm=rng_philox
      s = f32[3,3] sort(a), dimensions={1}, is_stable=true, to_apply=less
      k = (f32[3,2], s32[3,2]) topk(a), k=2, largest=true
      ROOT b = f32[3,3] batch-norm-inference(a, v, v, v, v), epsilon=0.001, feature_index=1 }""",
    "literals": """HloModule m
    ENTRY e { a = bf16[2,2]{0,1} constant({{1, 2}, {3, nan}})  b = s4[3] constant({-1, 2, 7})
      c = c64[2] constant({(1, -2), (0, inf)})  d = f32[3] constant({...})  e = f8e4m3fn[2] constant({1, 448})
      ROOT t = (f32[2], (pred[], s64[1])) constant(({1, -0}, (true, {-9223372036854775808}))) }""",
    "dynamic shapes": """HloModule m
    ENTRY e { a = f32[<=8,4] parameter(0)  n = s32[] get-dimension-size(a), dimensions={0}
      b = f32[?] parameter(1)  ROOT r = f32[<=8,4] set-dimension-size(a, n), dimensions={0} }""",
}


def parsed(text: str) -> Module:
    return hlo_text.parse(text, "test.hlo")


def again(module: Module) -> Module:
    return hlo_proto.load_bytes(hlo_proto.to_bytes(module), "test.pb")


@pytest.mark.parametrize("name", PROGRAMS)
def test_binary_round_trip(name: str) -> None:
    module = parsed(PROGRAMS[name])
    back = again(module)
    assert str(back) == str(module)
    assert hlo_proto.to_bytes(back) == hlo_proto.to_bytes(module)


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_round_trip(name: str) -> None:
    text = hlo_proto.to_text(parsed(PROGRAMS[name]))
    assert hlo_proto.to_text(hlo_proto.load_text(text, "test.txtpb")) == text


def test_every_opcode_has_a_plan() -> None:
    from xyla.formats.hlo_proto.fields import PLANS

    assert {op.attrs for op in all_ops()} == set(PLANS)


def test_the_fields_xla_reads() -> None:
    proto = pb.HloProto.FromString(hlo_proto.to_bytes(parsed(SMALL))).hlo_module
    callee, entry = proto.computations
    assert (proto.name, proto.entry_computation_name, proto.entry_computation_id) == ("small", "main", entry.id)
    x, zero, reduce = entry.instructions
    assert reduce.opcode == "reduce"
    assert list(reduce.operand_ids) == [x.id, zero.id]
    assert list(reduce.called_computation_ids) == [callee.id]
    assert list(reduce.dimensions) == [0]
    assert entry.root_id == reduce.id
    # XLA wants unique names and a layout everywhere.
    assert [i.name for c in proto.computations for i in c.instructions] == ["x", "y", "s", "x.1", "z", "r"]
    assert callee.instructions[0].shape.HasField("layout")


def test_a_loops_body_comes_first() -> None:
    proto = pb.HloProto.FromString(hlo_proto.to_bytes(parsed(PROGRAMS["control flow"]))).hlo_module
    names = {c.id: c.name for c in proto.computations}
    loop = next(i for c in proto.computations for i in c.instructions if i.opcode == "while")
    assert [names[i] for i in loop.called_computation_ids] == ["body", "cond"]
    assert [c.name for c in proto.computations if c.is_fusion_computation] == ["fused"]


def test_what_xla_spells_out() -> None:
    proto = pb.HloProto.FromString(hlo_proto.to_bytes(parsed(PROGRAMS["movement"]))).hlo_module
    kinds = [i.comparison_type for i in proto.computations[0].instructions if i.opcode == "compare"]
    assert kinds == ["SIGNED", "TOTALORDER"]
    dot = hlo_proto.to_text(parsed(PROGRAMS["dot"].replace("operand_precision={highest,default},", "")))
    assert dot.count("operand_precision: DEFAULT") == 2


def test_counts_that_old_protos_leave_out_are_one() -> None:
    module = parsed(PROGRAMS["convolution"].replace("feature_group_count=2", "feature_group_count=1"))
    proto = pb.HloProto.FromString(hlo_proto.to_bytes(module))
    conv = proto.hlo_module.computations[0].instructions[2]
    conv.feature_group_count = conv.batch_group_count = 0
    assert str(hlo_proto.load_bytes(proto.SerializeToString(), "x")) == str(module)


def test_a_schedule_lists_what_runs_by_itself() -> None:
    module = parsed(PROGRAMS["control flow"].replace("HloModule m", "HloModule m, is_scheduled=true"))
    proto = pb.HloProto.FromString(hlo_proto.to_bytes(module)).hlo_module
    names = {c.id: c.name for c in proto.computations}
    assert sorted(names[i] for i in proto.schedule.sequences) == ["body", "cond", "e", "no", "yes"]
    assert str(again(module)) == str(module)


def test_each_message_is_recognised() -> None:
    module = parsed(SMALL)
    proto = pb.HloProto.FromString(hlo_proto.to_bytes(module))
    for message in (proto, proto.hlo_module, pb.HloSnapshot(hlo=proto)):
        assert str(hlo_proto.load_bytes(message.SerializeToString(), "x")) == str(module)
        assert hlo_proto.load_text(str(message), "x").name == "small"


def test_snapshot() -> None:
    arguments = (Literal.of(np.arange(4, dtype=np.float32)),)
    result = Literal.of(np.float32(6))
    data = hlo_proto.snapshot_to_bytes(parsed(SMALL), arguments, result, "Host")
    snapshot = hlo_proto.load_snapshot(data)
    assert (snapshot.arguments, snapshot.result, snapshot.platform) == (arguments, result, "Host")
    assert snapshot.module.name == "small"
    assert hlo_proto.load_snapshot(hlo_proto.to_bytes(parsed(SMALL))).arguments == ()


def test_what_is_not_modelled_survives() -> None:
    proto = pb.HloProto.FromString(hlo_proto.to_bytes(parsed(SMALL)))
    module = proto.hlo_module
    module.id = 77
    module.device_type = "H"
    module.profile_info.add(fingerprint="f")
    root = module.computations[1].instructions[2]
    root.id = 900
    module.computations[1].root_id = 900
    root.metadata.profile_info.relative_speedup = 2.0
    root.MergeFromString(b"\xfa\x3e\x03abc")  # field 1007, unknown
    proto.buffer_assignment.logical_buffers.add(id=1).defined_at.instruction_id = 900
    data = proto.SerializeToString(deterministic=True)
    assert hlo_proto.to_bytes(hlo_proto.load_bytes(data, "x")) == data


def test_leftovers_follow_names_through_changes() -> None:
    proto = pb.HloProto.FromString(hlo_proto.to_bytes(parsed(SMALL)))
    proto.hlo_module.computations[1].instructions[2].MergeFromString(b"\xfa\x3e\x03abc")
    module = hlo_proto.load_bytes(proto.SerializeToString(), "x")
    root = module.entry.root
    module.entry.set_root(rewriter.create(module.entry, ops.NEGATE, [root], shape=root.shape))
    again = pb.HloProto.FromString(hlo_proto.to_bytes(module)).hlo_module.computations[1].instructions
    assert [b"abc" in i.SerializeToString() for i in again] == [False, False, True, False]


def test_older_spellings_of_replica_groups_and_prefetch() -> None:
    proto = pb.HloProto.FromString(hlo_proto.to_bytes(parsed(PROGRAMS["collectives"])))
    reduce, gather = proto.hlo_module.computations[1].instructions[1:3]
    reduce.ClearField("collective_device_list")
    reduce.replica_groups.add(replica_ids=[0, 1])
    reduce.replica_groups.add(replica_ids=[2, 3])
    reduce.all_reduce_id, reduce.channel_id = 1, 0
    iota = pb.IotaReplicaGroupListProto()
    iota.CopyFrom(gather.iota_collective_device_list)
    gather.collective_device_list.iota_replica_group_list.CopyFrom(iota)
    back = hlo_proto.load_bytes(proto.SerializeToString(), "x")
    assert str(back) == str(parsed(PROGRAMS["collectives"]))


def test_backend_configurations_in_payloads() -> None:
    proto = pb.HloProto.FromString(hlo_proto.to_bytes(parsed(SMALL)))
    proto.hlo_module.payloads.append(b"{}")
    first, second = proto.hlo_module.computations[1].instructions[:2]
    first.backend_config_payload.value = b"v"
    second.backend_config_payload.id = 0
    entry = hlo_proto.load_bytes(proto.SerializeToString(), "x").entry
    assert [i.backend_config for i in entry.instructions] == ['"v"', "{}", ""]
    second.backend_config_payload.id = 5
    with pytest.raises(XylaError, match="no payload number 5"):
        hlo_proto.load_bytes(proto.SerializeToString(), "x")


def test_writing_names_what_a_proto_cannot_hold() -> None:
    module = parsed(SMALL)
    module.entry.root.sharding = "{mesh['x'=2], [], unreduced=max{'x'}}"
    with pytest.raises(XylaError, match="instruction %r: sharding") as caught:
        hlo_proto.to_bytes(module)
    assert caught.value.status is Status.UNIMPLEMENTED


def test_a_chain_of_twenty_thousand() -> None:
    lines = [f"  i{n} = f32[] negate(i{n - 1})" for n in range(1, 20_000)]
    text = (
        "HloModule m\nENTRY e {\n  i0 = f32[] parameter(0)\n" + "\n".join(lines) + "\n  ROOT r = f32[] abs(i19999)\n}"
    )
    module = parsed(text)
    assert again(module).num_instructions == 20_001
