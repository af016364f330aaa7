"""Every notation of HLO text that the parser takes, and what it means."""

from __future__ import annotations

import pytest

from xyla.formats.hlo_text import parse
from xyla.hlo import ops
from xyla.hlo.attr_types import PaddingDim, SliceDim
from xyla.hlo.module import BufferDonor, InputOutputAlias, Instruction, Module
from xyla.hlo.shape import UNBOUNDED, Shape, SplitConfig
from xyla.support.dtypes import F32, S32


def body(text: str, header: str = "HloModule m") -> Module:
    return parse(f"{header}\nENTRY e {{\n{text}\n}}\n")


def root(text: str) -> Instruction:
    return body(text).entry.root


def test_old_and_new_spelling_are_the_same_module() -> None:
    old = parse(
        "HloModule m:\n\n%sum (x: f32[], y: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n  %y = f32[] parameter(1)\n"
        "  ROOT %add = f32[] add(f32[] %x, f32[] %y)\n}\n\n"
        "ENTRY %e (p: f32[4]) -> f32[] {\n  %p = f32[4]{0} parameter(0)\n  %z = f32[] constant(f32[] 0)\n"
        "  ROOT %r = f32[] reduce(f32[4]{0} %p, f32[] %z), dimensions={0}, to_apply=%sum\n}\n"
    )
    new = parse(
        "HloModule m\nsum { x = f32[] parameter(0) y = f32[] parameter(1) add = f32[] add(x, y) }\n"
        "ENTRY e { p = f32[4]{0} parameter(0) z = f32[] constant(0) "
        "ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=sum }"
    )
    assert str(old) == str(new)
    assert new.entry.root.role("to_apply").root.op is ops.ADD


def test_comments_are_skipped_everywhere_but_in_strings() -> None:
    r = root(
        "p = /* a { b */ f32[2] parameter(0) // ROOT x = broken(\n"
        '  ROOT r = (f32[2], /*index=1*/f32[2]) custom-call(p), custom_call_target="a//b /* c */"'
    )
    assert r.attrs.custom_call_target == "a//b /* c */"
    assert len(r.shape.tuple_shapes) == 2


def test_without_root_the_last_instruction_is_it_and_without_entry_the_last_computation() -> None:
    m = parse("a { p = s32[] parameter(0) q = s32[] negate(p) }\nb { p = s32[] parameter(0) }")
    assert m.entry.name == "b"
    assert m.computations["a"].root.name == "q"


def test_names_may_hold_dots_dashes_hashes_and_start_with_digits() -> None:
    m = body("%p0#1#0 = f32[] parameter(0)\n  ROOT %0.a-b = f32[] negate(%p0#1#0)")
    assert [i.name for i in m.entry.instructions] == ["p0#1#0", "0.a-b"]
    assert "negate(p0#1#0)" not in m.to_string(short=True)
    assert str(parse(m.to_string(short=True)).entry.root.operands[0].name) == "p0#1#0"


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("f32[2,3]{0,1:T(8,128)(2,1)E(4)S(5)}", lambda s: s.layout.tiles == ((8, 128), (2, 1))),
        ("f32[2,3]{0,1:T(8,128)E(4)S(5)}", lambda s: (s.layout.element_size_bits, s.layout.memory_space) == (4, 5)),
        ("s32[2]{0:L(8)M(16)}", lambda s: s.layout.tail_padding_alignment == 8),
        ("f32[4,6]{1,0:SC(0:2)(1:3)}", lambda s: s.layout.split_configs[0] == SplitConfig(0, (2,))),
        ("f32[4]{0:T(*,8)}", lambda s: s.layout.tiles == ((-1, 8),)),
        ("f32[4]{0:D(D)#(u32)*(u8)}", lambda s: s.layout.pointer_primitive_type == "u8"),
        ("f32[10]{0:P(u8[44]{0})}", lambda s: str(s.layout.physical_shape) == "u8[44]{0}"),
        ("s32[]{:T(128)}", lambda s: s.layout.tiles == ((128,),)),
        ("f32[<=8,?,3]", lambda s: s.dims == (8, UNBOUNDED, 3) and s.dynamic == (True, True, False)),
        ("((f32[2], ()), token[], opaque[])", lambda s: s.tuple_shapes[0].tuple_shapes[1] is Shape.tuple_of(())),
        ("b(f32[4])", lambda s: s.tuple_shapes[0] is Shape.array(F32, (4,))),
        ("pred[0,5]", lambda s: s.num_elements == 0),
    ],
)
def test_shapes(text: str, check: object) -> None:
    r = root(f"ROOT p = {text} parameter(0)")
    assert callable(check)
    assert check(r.shape)
    assert str(r.shape) == text


def test_a_layout_may_be_set_off_by_a_space() -> None:
    r = root("p = f32[2,3] parameter(0)\n ROOT r = f32[2,3] {0,1} copy(p)")
    assert str(r.shape) == "f32[2,3]{0,1}"


def test_attributes() -> None:
    m = body(
        "p = f32[8,8] parameter(0)\n  z = f32[] constant(0)\n"
        "  a = f32[11,9] pad(p, z), padding=1_2x0_-1_1\n"
        "  b = f32[2,4] slice(p), slice={[1:3], [0:8:2]}\n"
        "  ROOT c = f32[8,8] all-gather(p), channel_id=3, replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}"
    )
    pad, cut, gather = list(m.entry.instructions)[2:]
    assert pad.attrs.padding == (PaddingDim(1, 2, 0), PaddingDim(0, -1, 1))
    assert cut.attrs.slice == (SliceDim(1, 3, 1), SliceDim(0, 8, 2))
    assert gather.attrs.replica_groups.groups == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert "slice={[1:3:1], [0:8:2]}" in str(m)


def test_convolution_and_windows() -> None:
    r = root(
        "p = f32[1,9,9,17] parameter(0)\n  k = f32[3,3,17,32] parameter(1)\n"
        "  ROOT c = f32[1,5,9,32] convolution(p, k), window={size=3x3 stride=2x1 pad=1_1x-1_2 rhs_reversal=1x0}, "
        "dim_labels=b01f_01io->b01f, operand_precision={HIGH,default}"
    )
    first, second = r.attrs.window.dims
    assert (first.stride, first.reversal, second.pad_low, second.pad_high) == (2, True, -1, 2)
    assert r.attrs.dim_labels.kernel_spatial == (0, 1)
    assert "window={size=3x3 stride=2x1 pad=1_1x-1_2 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f" in str(r.module)


def test_both_conditionals() -> None:
    branch = "t { p = f32[] parameter(0) }\nf { p = f32[] parameter(0) }\n"
    pred = parse(
        f"HloModule m\n{branch}ENTRY e {{ c = pred[] parameter(0) x = f32[] parameter(1) ROOT r = f32[] "
        "conditional(c, x, x), true_computation=t, false_computation=f }"
    )
    index = parse(
        f"HloModule m\n{branch}ENTRY e {{ c = s32[] parameter(0) x = f32[] parameter(1) ROOT r = f32[] "
        "conditional(c, x, x), branch_computations={%t, %f} }"
    )
    for m in (pred, index):
        assert [c.name for c in m.entry.root.called] == ["t", "f"]
        assert str(parse(str(m))) == str(m)
    assert "true_computation=%t" in str(pred)
    assert "branch_computations={%t, %f}" in str(index)


def test_instructions_and_computations_written_in_place() -> None:
    m = body(
        "x = f32[2] parameter(0)\n"
        "  ROOT r = f32[2] fusion(x, f32[2] broadcast(f32[] constant(3))), kind=kLoop, calls={\n"
        "    a = f32[2] parameter(0)\n    b = f32[2] parameter(1)\n    ROOT c = f32[2] add(a, b)\n  }"
    )
    r = m.entry.root
    assert [o.op for o in r.operands] == [ops.PARAMETER, ops.BROADCAST]
    assert r.operands[1].operands[0].name == "constant.anon"
    assert r.called[0].root.name == "c"
    assert str(parse(str(m))) == str(m)


def test_a_lone_instruction_is_an_entry_with_its_operands_as_parameters() -> None:
    m = parse("%add = s32[2] add(s32[2] %x, s32[2] %y)")
    assert m.entry.program_shape == ((Shape.array(S32, (2,)),) * 2, Shape.array(S32, (2,)))
    anonymous = parse(
        "f32[] while(f32[]), condition={ t = f32[] parameter(0) ROOT c = pred[] compare(t, t), direction=LT }, "
        "body={ t = f32[] parameter(0) }"
    )
    assert anonymous.entry.root.role("body").root.op is ops.PARAMETER


def test_a_left_out_result_type_is_inferred() -> None:
    r = root("p = f32[2,3] parameter(0)\n  t = transpose(p), dimensions={1,0}\n  ROOT r = tuple(t, p)")
    assert str(r.shape.without_layout()) == "(f32[3,2], f32[2,3])"


def test_sugared_and_explicit_async_operations_are_alike() -> None:
    r = root(
        "p = f32[4] parameter(0)\n  s = ((f32[4], f32[4]), f32[4], s32[]) add-start(p, p), "
        'async_execution_thread="side"\n  u = ((f32[4], f32[4]), f32[4], s32[]) add-update(s)\n'
        "  ROOT d = f32[4] add-done(u)"
    )
    start = r.operands[0].operands[0]
    assert (r.op, start.op) == (ops.ASYNC_DONE, ops.ASYNC_START)
    assert start.called[0].root.op is ops.ADD
    assert start.called[0].execution_thread == start.attrs.async_execution_thread == "side"
    text = str(r.module)
    assert '}, execution_thread="side"' in text
    assert str(parse(text)) == text


def test_old_async_dones_repeat_their_computation() -> None:
    m = parse(
        "HloModule m\nc { p = f32[] parameter(0) }\nENTRY e { p = f32[] parameter(0) "
        "s = ((f32[]), f32[], u32[]) async-start(p), calls=c ROOT d = f32[] async-done(s), calls=c }"
    )
    assert m.entry.root.called == ()


def test_header() -> None:
    config = body(
        "p = f32[2] parameter(0)\n  q = f32[2] parameter(1)\n  ROOT t = (f32[2], f32[2]) tuple(p, q)",
        "HloModule m, is_scheduled=true, input_output_alias={ {0}: (1, {}, must-alias), {1}: (0, {}) }, "
        "buffer_donor={ (0, {}) }, "
        "entry_computation_layout={(f32[2]{0}, /*index=1*/f32[2]{0})->(f32[2]{0}, f32[2]{0})}, "
        "allow_spmd_sharding_propagation_to_output={true}, replica_count=2, num_partitions=4, "
        'frontend_attributes={b="x\\"y",a={c = 1}}',
    ).config
    assert config.is_scheduled
    assert config.input_output_aliases == (InputOutputAlias((0,), 1, (), True), InputOutputAlias((1,), 0, (), False))
    assert config.buffer_donors == (BufferDonor(0, ()),)
    assert config.entry_parameter_layouts is not None
    assert [str(s) for s in config.entry_parameter_layouts] == ["f32[2]{0}"] * 2
    assert (config.replica_count, config.num_partitions) == (2, 4)
    assert config.frontend_attributes == (("a", "{c = 1}"), ("b", 'x"y'))
    assert config.raw == (("allow_spmd_sharding_propagation_to_output", "{true}"),)


def test_annotations_are_kept() -> None:
    text = (
        'p = f32[2] parameter(0), sharding={{maximal device=0}, {replicated}}, origin={{"p"}}\n'
        '  q = f32[2] negate(p), metadata={op_type="n" op_name="a\\"b" source_file="f.py" source_line=3 '
        'profile_type={1}}, backend_config={"a":{"b":["}"]}}\n'
        '  ROOT r = f32[2] abs(p), control-predecessors={q}, frontend_attributes={k="v"}, '
        "statistics={visualizing_index=0,s=0.5}"
    )
    p, q, r = body(text).entry.instructions
    assert (p.sharding, p.origin) == ("{{maximal device=0}, {replicated}}", '{{"p"}}')
    assert q.metadata is not None
    assert (q.metadata.op_name, q.metadata.source_line, q.metadata.extra) == ('a"b', 3, (("profile_type", "{1}"),))
    assert q.backend_config == '{"a":{"b":["}"]}}'
    assert r.control_predecessors == (q,)
    assert (r.frontend_attributes, r.statistics) == ((("k", "v"),), "{visualizing_index=0,s=0.5}")


def test_metadata_tables() -> None:
    m = parse(
        'HloModule m\n\nFileNames\n1 "a b.py"\n\nFunctionNames\n1 "f.<locals>.g"\n\nFileLocations\n'
        "1 {file_name_id=1 function_name_id=1 line=13 end_line=14 column=25 end_column=33}\n\nStackFrames\n"
        "1 {file_location_id=1 parent_frame_id=1}\n\nENTRY e { p = f32[] parameter(0) }"
    )
    frames = m.stack_frames
    assert (frames.file_names, frames.function_names) == (["a b.py"], ["f.<locals>.g"])
    assert (frames.locations, frames.frames) == ([(1, 1, 13, 14, 25, 33)], [(1, 1)])
    assert parse(str(m)).stack_frames == frames


def test_mesh_replica_groups_stay_text() -> None:
    groups = "mesh['x'=2,'y'=2, device_ids=(3,2,1,0)] {'x':(1)2}"
    r = root(f"p = f32[2] parameter(0)\n  ROOT r = f32[2] all-to-all(p), replica_groups={groups}, dimensions={{0}}")
    assert r.attrs.replica_groups.text == groups


def test_spans_point_at_the_instruction() -> None:
    r = root("p = f32[] parameter(0)\n  ROOT neg = f32[] negate(p)")
    assert r.span is not None
    assert r.span.where() == "<string>:4:8"
    assert r.span.excerpt().endswith("  ^" + "~" * (len("neg = f32[] negate") - 1))


def test_a_chain_of_100000_instructions() -> None:
    lines = ["x0 = f32[] parameter(0)", *(f"x{i} = f32[] negate(x{i - 1})" for i in range(1, 100_000))]
    m = body("\n".join(lines))
    assert m.num_instructions == 100_000
    assert str(m).count("negate") == 99_999


def test_byte_escapes_that_are_utf8_are_decoded() -> None:
    r = root('ROOT r = f32[] custom-call(), custom_call_target="na\\303\\257ve \\xff\\n"')
    assert r.attrs.custom_call_target == "naïve \xff\n"
