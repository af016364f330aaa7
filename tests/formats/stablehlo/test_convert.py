"""What each operation becomes in HLO; the right-hand sides follow from the two specifications."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.formats.stablehlo import load
from xyla.hlo import ops
from xyla.hlo.module import Module
from xyla.interp import run

F = "tensor<4x6xf32>"


def module_of(text: str) -> Module:
    module = load(text, "t.mlir")
    assert isinstance(module, Module)
    return module


def one(line: str, arguments: str, result: str) -> list[str]:
    """The instructions of a one-operation program, as HLO text without percent signs and parameters."""
    module = module_of(f"func.func @main({arguments}) -> {result} {{\n{line}\nreturn %0 : {result}\n}}")
    text = str(module).replace("%", "").split("ENTRY")[1]
    lines = [s.strip() for s in text.splitlines()[1:]]
    return [s for s in lines if s.strip("}") and " parameter(" not in s]


CASES: list[tuple[str, str, str, list[str]]] = [
    ("%0 = stablehlo.negate %a : " + F, "%a: " + F, F, ["ROOT negate = f32[4,6] negate(Arg_0)"]),
    (
        "%0 = stablehlo.exponential %a {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy"
        "_mode<HIGHEST>>} : " + F,
        "%a: " + F,
        F,
        ["ROOT exponential = f32[4,6] exponential(Arg_0), result_accuracy={mode=highest}"],
    ),
    (
        "%0 = stablehlo.compare GE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>",
        "%a: tensor<f32>",
        "tensor<i1>",
        ["ROOT compare = pred[] compare(Arg_0, Arg_0), direction=GE"],
    ),
    (
        "%0 = stablehlo.compare LT, %a, %a, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>",
        "%a: tensor<f32>",
        "tensor<i1>",
        ["ROOT compare = pred[] compare(Arg_0, Arg_0), direction=LT, type=TOTALORDER"],
    ),
    (
        "%0 = stablehlo.select %p, %a, %a : tensor<i1>, " + F,
        "%p: tensor<i1>, %a: " + F,
        F,
        [
            "broadcast = pred[4,6] broadcast(Arg_0), dimensions={}",
            "ROOT select = f32[4,6] select(broadcast, Arg_1, Arg_1)",
        ],
    ),
    (
        f"%0 = stablehlo.clamp %l, %a, %l : (tensor<f32>, {F}, tensor<f32>) -> {F}",
        "%l: tensor<f32>, %a: " + F,
        F,
        [
            "broadcast = f32[4,6] broadcast(Arg_0), dimensions={}",
            "broadcast.1 = f32[4,6] broadcast(Arg_0), dimensions={}",
            "ROOT clamp = f32[4,6] clamp(broadcast, Arg_1, broadcast.1)",
        ],
    ),
    (
        "%0 = stablehlo.convert %a : (tensor<2xcomplex<f64>>) -> tensor<2xf32>",
        "%a: tensor<2xcomplex<f64>>",
        "tensor<2xf32>",
        ["real = f64[2] real(Arg_0)", "ROOT convert = f32[2] convert(real)"],
    ),
    (
        "%0 = stablehlo.broadcast_in_dim %a, dims = [1, 2] : (tensor<1x6xf32>) -> tensor<2x4x6xf32>",
        "%a: tensor<1x6xf32>",
        "tensor<2x4x6xf32>",
        ["reshape = f32[6] reshape(Arg_0)", "ROOT broadcast = f32[2,4,6] broadcast(reshape), dimensions={2}"],
    ),
    (
        "%0 = stablehlo.broadcast_in_dim %a, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>",
        "%a: tensor<3x2xf32>",
        "tensor<2x3xf32>",
        [
            "transpose = f32[2,3] transpose(Arg_0), dimensions={1,0}",
            "ROOT broadcast = f32[2,3] broadcast(transpose), dimensions={0,1}",
        ],
    ),
    (
        "%0 = stablehlo.broadcast %a, sizes = [2] : (tensor<3xf32>) -> tensor<2x3xf32>",
        "%a: tensor<3xf32>",
        "tensor<2x3xf32>",
        ["ROOT broadcast = f32[2,3] broadcast(Arg_0), dimensions={1}"],
    ),
    (
        "%0 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<4x6xf32>) -> tensor<i32>",
        "%a: " + F,
        "tensor<i32>",
        ["ROOT constant = s32[] constant(6)"],
    ),
    (
        '%0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], '
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 6>}> : "
        f"({F}, tensor<3x1xi32>) -> tensor<3x6xf32>",
        f"%a: {F}, %i: tensor<3x1xi32>",
        "tensor<3x6xf32>",
        [
            "ROOT gather = f32[3,6] gather(Arg_0, Arg_1), offset_dims={1}, collapsed_slice_dims={0}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}"
        ],
    ),
    (
        f"%0 = stablehlo.dot %a, %b, precision = [HIGHEST, DEFAULT] : ({F}, tensor<6xf32>) -> tensor<4xf32>",
        f"%a: {F}, %b: tensor<6xf32>",
        "tensor<4xf32>",
        [
            "ROOT dot = f32[4] dot(Arg_0, Arg_1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
            "operand_precision={highest,default}"
        ],
    ),
    (
        f"%0 = stablehlo.dot_general %a, %a, contracting_dims = [0, 1] x [0, 1], algorithm = "
        "<lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, "
        "rhs_component_count = 1, "
        f"num_primitive_operations = 6, allow_imprecise_accumulation = false> : ({F}, {F}) -> tensor<f32>",
        "%a: " + F,
        "tensor<f32>",
        [
            "ROOT dot = f32[] dot(Arg_0, Arg_0), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}, "
            "algorithm=dot_bf16_bf16_f32_x6"
        ],
    ),
    (
        "%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = "
        "[1, 2], pad = [[1, 1], [0, 2]], rhs_dilate = [2, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : "
        "i64} : (tensor<1x8x8x3xf32>, tensor<3x3x3x5xf32>) -> tensor<1x6x4x5xf32>",
        "%x: tensor<1x8x8x3xf32>, %w: tensor<3x3x3x5xf32>",
        "tensor<1x6x4x5xf32>",
        [
            "ROOT convolution = f32[1,6,4,5] convolution(Arg_0, Arg_1), window={size=3x3 stride=1x2 pad=1_1x0_2 "
            "rhs_dilate=2x1}, dim_labels=b01f_01io->b01f"
        ],
    ),
    (
        '%0 = stablehlo.einsum %a, %b, config = "ab,cb->ca" : (tensor<4x6xf32>, tensor<3x6xf32>) -> tensor<3x4xf32>',
        f"%a: {F}, %b: tensor<3x6xf32>",
        "tensor<3x4xf32>",
        [
            "dot = f32[4,3] dot(Arg_0, Arg_1), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
            "ROOT transpose = f32[3,4] transpose(dot), dimensions={1,0}",
        ],
    ),
    (
        '%0 = "stablehlo.all_to_all"(%a) <{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : '
        f"i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}> : ({F}) -> tensor<8x3xf32>",
        "%a: " + F,
        "tensor<8x3xf32>",
        [
            "all-to-all = f32[4,6] all-to-all(Arg_0), replica_groups={{0,1}}, dimensions={1}",
            "reshape = f32[4,2,3] reshape(all-to-all)",
            "transpose = f32[2,4,3] transpose(reshape), dimensions={1,0,2}",
            "ROOT reshape.1 = f32[8,3] reshape(transpose)",
        ],
    ),
    (
        "%v = stablehlo.constant dense<[2, 12]> : tensor<2xi32>\n%0 = stablehlo.dynamic_reshape %a, %v : "
        f"({F}, tensor<2xi32>) -> tensor<2x12xf32>",
        "%a: " + F,
        "tensor<2x12xf32>",
        ["constant = s32[2] constant({2, 12})", "ROOT reshape = f32[2,12] reshape(Arg_0)"],
    ),
    (
        "%l = stablehlo.constant dense<1> : tensor<2xi32>\n%h = stablehlo.constant dense<[3, 5]> : tensor<2xi32>\n"
        f"%0 = stablehlo.real_dynamic_slice %a, %l, %h, %l : ({F}, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> "
        "tensor<2x4xf32>",
        "%a: " + F,
        "tensor<2x4xf32>",
        ["ROOT slice = f32[2,4] slice(Arg_0), slice={[1:3], [1:5]}"],
    ),
    (
        "%0 = stablehlo.set_dimension_size %a, %n, dim = 1 : (tensor<4x6xf32>, tensor<i32>) -> tensor<4x?xf32, "
        "#stablehlo.bounds<?, 6>>",
        f"%a: {F}, %n: tensor<i32>",
        "tensor<4x?xf32, #stablehlo.bounds<?, 6>>",
        ["ROOT set-dimension-size = f32[4,<=6] set-dimension-size(Arg_0, Arg_1), dimensions={1}"],
    ),
    (
        f'%0 = sdy.sharding_constraint %a <@m, [{{"x"}}, {{}}]> : {F}',
        "%a: " + F,
        F,
        [
            'ROOT custom-call = f32[4,6] custom-call(Arg_0), custom_call_target="Sharding", '
            'frontend_attributes={xla.sdy.sharding="#sdy.sharding<@m, [{\\"x\\"}, {}]>"}'
        ],
    ),
    (
        '%0 = stablehlo.custom_call @f(%a) {api_version = 2 : i32, backend_config = "a\\22b", has_side_effect = true, '
        "operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>], "
        "output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, "
        f"operand_tuple_indices = []>]}} : ({F}) -> {F}",
        "%a: " + F,
        F,
        [
            'custom-call = f32[4,6]{0,1} custom-call(Arg_0), custom_call_target="f", '
            "operand_layout_constraints={f32[4,6]{0,1}}, custom_call_has_side_effect=true, "
            "output_to_operand_aliasing={{}: (0, {})}, api_version=API_VERSION_STATUS_RETURNING, "
            'backend_config="a\\"b"',
            "ROOT copy = f32[4,6] copy(custom-call)",
        ],
    ),
    (
        f"%0 = stablehlo.custom_call @f(%a) {{mhlo.backend_config = {{uplo = 76 : ui8}}}} : ({F}) -> {F}",
        "%a: " + F,
        F,
        [
            'ROOT custom-call = f32[4,6] custom-call(Arg_0), custom_call_target="f", '
            "api_version=API_VERSION_TYPED_FFI, backend_config={uplo = 76 : ui8}"
        ],
    ),
]


CASES += [
    (
        '%0 = stablehlo.einsum %a, %b, config = "ab,bcd->dac" : (tensor<2x3xf32>, tensor<3x4x5xf32>) -> '
        "tensor<5x2x4xf32>",
        "%a: tensor<2x3xf32>, %b: tensor<3x4x5xf32>",
        "tensor<5x2x4xf32>",
        [
            "dot = f32[2,4,5] dot(Arg_0, Arg_1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "ROOT transpose = f32[5,2,4] transpose(dot), dimensions={2,0,1}",
        ],
    ),
    (
        f'%0 = "stablehlo.collective_broadcast"(%a) <{{replica_groups = dense<[[0, -1], [2, 1]]> : tensor<2x2xi64>, '
        f"channel_handle = #stablehlo.channel_handle<handle = 7, type = 0>}}> : ({F}) -> {F}",
        "%a: " + F,
        F,
        ["ROOT collective-broadcast = f32[4,6] collective-broadcast(Arg_0), channel_id=7, replica_groups={{0},{2,1}}"],
    ),
    (
        f"%0 = stablehlo.custom_call @mhlo.erf(%a) {{mhlo.version = 1 : i64}} : ({F}) -> {F}",
        "%a: " + F,
        F,
        ["ROOT erf = f32[4,6] erf(Arg_0)"],
    ),
    (
        "%1, %0 = stablehlo.custom_call @mhlo.topk(%a) {mhlo.attributes = {k = 2 : i64, largest = true}} : "
        f"({F}) -> (tensor<4x2xf32>, tensor<4x2xi32>)",
        "%a: " + F,
        "tensor<4x2xi32>",
        [
            "topk = (f32[4,2], s32[4,2]) topk(Arg_0), k=2, largest=true",
            "ROOT get-tuple-element = s32[4,2] get-tuple-element(topk), index=1",
        ],
    ),
]


@pytest.mark.parametrize(
    ("line", "arguments", "result", "want"), CASES, ids=[c[0].split("= ")[1].replace('"', "")[:40] for c in CASES]
)
def test_operation(line: str, arguments: str, result: str, want: list[str]) -> None:
    got = one(line, arguments, result)
    assert got[-len(want) :] == want


def test_every_rule_has_assembly_or_is_known_generic() -> None:
    from xyla.formats.stablehlo.convert import RULES
    from xyla.formats.stablehlo.dialect import STABLEHLO

    generic_only = {name for name in RULES if name not in STABLEHLO.custom and name.startswith("stablehlo.")}
    assert "stablehlo.scatter" in generic_only
    assert "stablehlo.add" not in generic_only


def test_one_result_is_the_root_and_several_are_a_tuple() -> None:
    single = module_of("func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }")
    assert single.entry.root.op is ops.PARAMETER
    several = module_of(
        "func.func @main(%a: tensor<f32>) -> (tensor<f32>, tensor<f32>) { return %a, %a : tensor<f32>, tensor<f32> }"
    )
    assert str(several.entry.root.shape) == "(f32[], f32[])"
    none = module_of("func.func @main(%a: tensor<f32>) { return }")
    assert str(none.entry.root.shape) == "()"


WHILE = """
func.func @main(%n: tensor<i32>, %step: tensor<i32>, %x: tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2.0> : tensor<2xf32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<2xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %step : tensor<i32>
    %w = stablehlo.multiply %v, %two : tensor<2xf32>
    stablehlo.return %j, %w : tensor<i32>, tensor<2xf32>
  }
  return %r#0, %r#1 : tensor<i32>, tensor<2xf32>
}
"""


def test_while_carries_what_it_uses_from_outside_and_clones_constants() -> None:
    module = module_of(WHILE)
    loop = next(i for i in module.entry.instructions if i.op is ops.WHILE)
    assert str(loop.shape) == "(s32[], f32[2], s32[], s32[])"
    body = loop.role("body")
    assert [i.op for i in body.root.operands[2:]] == [ops.GET_TUPLE_ELEMENT] * 2
    assert any(i.op is ops.CONSTANT for i in body.instructions)
    count, value = run(module, [np.int32(5), np.int32(2), np.array([1, 3], np.float32)])
    assert count == 6
    assert value.tolist() == [8, 24]


def test_while_of_one_value_is_not_a_tuple() -> None:
    module = module_of(
        """func.func @main(%x: tensor<i32>) -> tensor<i32> {
          %r = stablehlo.while(%i = %x) : tensor<i32> cond {
            %c = stablehlo.compare NE, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do { stablehlo.return %i : tensor<i32> }
          return %r : tensor<i32>
        }"""
    )
    assert module.entry.root.op is ops.WHILE
    assert str(module.entry.root.shape) == "s32[]"


def test_while_of_one_value_with_a_capture_gives_the_value_back() -> None:
    module = module_of(
        """func.func @main(%x: tensor<i32>, %n: tensor<i32>) -> tensor<i32> {
          %one = stablehlo.constant dense<1> : tensor<i32>
          %r = stablehlo.while(%i = %x) : tensor<i32> cond {
            %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do { %j = stablehlo.add %i, %one : tensor<i32> stablehlo.return %j : tensor<i32> }
          return %r : tensor<i32>
        }"""
    )
    assert run(module, [np.int32(3), np.int32(7)])[0] == 7


def test_branches_take_what_they_use() -> None:
    text = """func.func @main(%i: tensor<i32>, %a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
      %r = "stablehlo.case"(%i) ({
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }, {
        stablehlo.return %b : tensor<f32>
      }, {
        %k = stablehlo.constant dense<9.0> : tensor<f32>
        stablehlo.return %k : tensor<f32>
      }) : (tensor<i32>) -> tensor<f32>
      return %r : tensor<f32>
    }"""
    module = module_of(text)
    shapes = [str(o.shape) for o in module.entry.root.operands]
    assert shapes == ["s32[]", "(f32[], f32[])", "f32[]", "()"]
    values = [float(run(module, [np.int32(i), np.float32(1), np.float32(2)])[0]) for i in (0, 1, 2, -1, 7)]
    assert values == [3, 2, 9, 9, 9]


def test_a_capture_passes_through_nested_regions() -> None:
    text = """func.func @main(%p: tensor<i1>, %a: tensor<f32>) -> tensor<f32> {
      %r = "stablehlo.if"(%p) ({
        %q = "stablehlo.if"(%p) ({ stablehlo.return %a : tensor<f32> }, {
          %n = stablehlo.negate %a : tensor<f32>
          stablehlo.return %n : tensor<f32>
        }) : (tensor<i1>) -> tensor<f32>
        stablehlo.return %q : tensor<f32>
      }, { stablehlo.return %a : tensor<f32> }) : (tensor<i1>) -> tensor<f32>
      return %r : tensor<f32>
    }"""
    assert run(module_of(text), [np.bool_(True), np.float32(4)])[0] == 4


def test_reducer_may_use_an_outer_constant() -> None:
    text = """func.func @main(%a: tensor<3xf32>) -> tensor<f32> {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %two = stablehlo.constant dense<2.0> : tensor<f32>
      %r = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
        reducer(%x: tensor<f32>, %y: tensor<f32>) {
          %s = stablehlo.multiply %y, %two : tensor<f32>
          %t = stablehlo.add %x, %s : tensor<f32>
          stablehlo.return %t : tensor<f32>
      }
      return %r : tensor<f32>
    }"""
    reduce = module_of(text).entry.root
    assert any(i.op is ops.CONSTANT for i in reduce.role("to_apply").instructions)


def test_reducer_in_a_wider_type_converts_its_operands() -> None:
    text = """func.func @main(%a: tensor<3xbf16>, %z: tensor<bf16>) -> tensor<f32> {
      %r = "stablehlo.reduce"(%a, %z) <{dimensions = array<i64: 0>}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %t = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %t : tensor<f32>
      }) : (tensor<3xbf16>, tensor<bf16>) -> tensor<f32>
      return %r : tensor<f32>
    }"""
    reduce = module_of(text).entry.root
    assert [o.op for o in reduce.operands] == [ops.CONVERT, ops.CONVERT]


def test_functions_are_converted_once_however_often_they_are_called() -> None:
    """20 levels of functions that each call the next one twice: a million calls, 21 computations."""
    levels = 20
    parts = [
        f"func.func private @f{i}(%a: tensor<f32>) -> tensor<f32> {{ %0 = call @f{i + 1}(%a) : (tensor<f32>) -> "
        f"tensor<f32> %1 = call @f{i + 1}(%0) : (tensor<f32>) -> tensor<f32> return %1 : tensor<f32> }}"
        for i in range(levels)
    ]
    parts.append(f"func.func private @f{levels}(%a: tensor<f32>) -> tensor<f32> {{ return %a : tensor<f32> }}")
    parts.append(
        "func.func public @main(%a: tensor<f32>) -> tensor<f32> { %0 = call @f0(%a) : (tensor<f32>) -> tensor<f32> "
        "return %0 : tensor<f32> }"
    )
    assert len(module_of("\n".join(parts)).computations) == levels + 2


def test_a_long_chain_of_functions_and_of_operations() -> None:
    count = 3000
    calls = [
        f"func.func private @f{i}(%a: tensor<f32>) -> tensor<f32> {{ %0 = call @f{i + 1}(%a) : (tensor<f32>) -> "
        "tensor<f32> return %0 : tensor<f32> }"
        for i in range(count)
    ]
    body = "\n".join(f"%{i + 1} = stablehlo.negate %{i} : tensor<f32>" for i in range(count))
    last = f"func.func private @f{count}(%0: tensor<f32>) -> tensor<f32> {{\n{body}\nreturn %{count} : tensor<f32> }}"
    main = (
        "func.func @main(%a: tensor<f32>) -> tensor<f32> { %0 = call @f0(%a) : (tensor<f32>) -> tensor<f32> return %0 "
        ": tensor<f32> }"
    )
    assert module_of("\n".join([*calls, last, main])).num_instructions == 2 * count + (count + 1) + 2


def test_composite_is_a_call_that_keeps_its_name() -> None:
    text = """func.func @main(%a: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.composite "x.twice" %a {composite_attributes = {n = 2 : i64}, decomposition = @impl, version = 3
        : i32} : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func private @impl(%a: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.add %a, %a : tensor<f32>
      return %0 : tensor<f32>
    }"""
    call = module_of(text).entry.root
    assert call.op is ops.CALL
    assert call.attrs.is_composite
    assert dict(call.frontend_attributes) == {
        "composite.attributes": "{n = 2 : i64}",
        "composite.name": "x.twice",
        "composite.version": "3",
    }


def test_huge_splat_stays_one_element() -> None:
    module = module_of(
        "func.func @main() -> tensor<1000000x1000000xf32> { %0 = stablehlo.constant dense<1.0> : "
        "tensor<1000000x1000000xf32> return %0 : tensor<1000000x1000000xf32> }"
    )
    assert module.entry.root.attrs.literal.array.strides == (0, 0)


def test_scan_matches_a_running_sum() -> None:
    text = """func.func @main(%a: tensor<2x3xi32>, %z: tensor<2xi32>) -> (tensor<2x3xi32>, tensor<2xi32>) {
      %0:2 = chlo.scan(%a) inits(%z) dimension=1 {
      ^bb0(%x: tensor<2xi32>, %c: tensor<2xi32>):
        %1 = stablehlo.add %x, %c : tensor<2xi32>
        stablehlo.return %1, %1 : tensor<2xi32>, tensor<2xi32>
      } : (tensor<2x3xi32>, tensor<2xi32>) -> (tensor<2x3xi32>, tensor<2xi32>)
      return %0#0, %0#1 : tensor<2x3xi32>, tensor<2xi32>
    }"""
    sums, last = run(module_of(text), [np.array([[1, 2, 3], [4, 5, 6]], np.int32), np.zeros(2, np.int32)])
    assert sums.tolist() == [[1, 3, 6], [4, 9, 15]]
    assert last.tolist() == [6, 15]
