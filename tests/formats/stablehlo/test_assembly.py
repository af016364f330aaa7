"""Each custom form means what its generic form means."""

from __future__ import annotations

import pytest

from xyla.formats.mlir.parser import parse_module
from xyla.formats.mlir.printer import print_module
from xyla.formats.stablehlo.dialect import STABLEHLO
from xyla.support.status import XylaError

ARGUMENTS = {
    "%f": "tensor<4x6xf32>",
    "%g": "tensor<6x8xf32>",
    "%i": "tensor<4x6xi32>",
    "%p": "tensor<4x6xi1>",
    "%c": "tensor<4x6xcomplex<f32>>",
    "%s": "tensor<f32>",
    "%n": "tensor<i32>",
    "%t": "!stablehlo.token",
    "%k": "tensor<2xui64>",
    "%v": "tensor<2xi64>",
    "%u": "tuple<tensor<f32>, tensor<i32>>",
    "%b": "tensor<2x4x6xf32>",
    "%x": "tensor<1x8x8x3xf32>",
    "%w": "tensor<3x3x3x5xf32>",
}
F, N, P, C = (ARGUMENTS["%" + k] for k in "fipc")
FF = f"({F}) -> {F}"

PAIRS = [
    (f"%0 = stablehlo.add %f, %f : {F}", f'%0 = "stablehlo.add"(%f, %f) : ({F}, {F}) -> {F}'),
    (f"%0 = stablehlo.tanh %f {{a}} : {F}", f'%0 = "stablehlo.tanh"(%f) {{a}} : {FF}'),
    (f"%0 = stablehlo.abs %c : ({C}) -> {F}", f'%0 = "stablehlo.abs"(%c) : ({C}) -> {F}'),
    (f"%0 = stablehlo.is_finite %f : ({F}) -> {P}", f'%0 = "stablehlo.is_finite"(%f) : ({F}) -> {P}'),
    (f"%0 = stablehlo.complex %f, %f : {C}", f'%0 = "stablehlo.complex"(%f, %f) : ({F}, {F}) -> {C}'),
    (f"%0 = stablehlo.select %p, %f, %f : {P}, {F}", f'%0 = "stablehlo.select"(%p, %f, %f) : ({P}, {F}, {F}) -> {F}'),
    (f"%0 = stablehlo.clamp %f, %f, %f : {F}", f'%0 = "stablehlo.clamp"(%f, %f, %f) : ({F}, {F}, {F}) -> {F}'),
    (
        f"%0 = stablehlo.compare LT, %i, %i, SIGNED : ({N}, {N}) -> {P}",
        '%0 = "stablehlo.compare"(%i, %i) <{comparison_direction = #stablehlo<comparison_direction LT>, '
        f"compare_type = #stablehlo<comparison_type SIGNED>}}> : ({N}, {N}) -> {P}",
    ),
    (
        "%0 = stablehlo.constant dense<1> : tensor<2xi32>",
        '%0 = "stablehlo.constant"() <{value = dense<1> : tensor<2xi32>}> : () -> tensor<2xi32>',
    ),
    (
        "%0 = stablehlo.constant() <{value = dense<1> : tensor<2xi8>}> : () -> tensor<2xi8>",
        '%0 = "stablehlo.constant"() <{value = dense<1> : tensor<2xi8>}> : () -> tensor<2xi8>',
    ),
    ("%0 = stablehlo.iota dim = 1 : " + F, f'%0 = "stablehlo.iota"() <{{iota_dimension = 1 : i64}}> : () -> {F}'),
    (
        f"%0 = stablehlo.dynamic_iota %v, dim = 0 : (tensor<2xi64>) -> {F}",
        f'%0 = "stablehlo.dynamic_iota"(%v) <{{iota_dimension = 0 : i64}}> : (tensor<2xi64>) -> {F}',
    ),
    (
        "%0 = stablehlo.slice %f [1:3, 0:6:2] : (" + F + ") -> tensor<2x3xf32>",
        '%0 = "stablehlo.slice"(%f) <{start_indices = array<i64: 1, 0>, limit_indices = array<i64: 3, 6>, '
        f"strides = array<i64: 1, 2>}}> : ({F}) -> tensor<2x3xf32>",
    ),
    (
        f"%0 = stablehlo.pad %f, %s, low = [1, -1], high = [0, 0], interior = [0, 1] : ({F}, tensor<f32>) -> "
        "tensor<5x10xf32>",
        '%0 = "stablehlo.pad"(%f, %s) <{edge_padding_low = array<i64: 1, -1>, edge_padding_high = array<i64: 0, 0>, '
        f"interior_padding = array<i64: 0, 1>}}> : ({F}, tensor<f32>) -> tensor<5x10xf32>",
    ),
    (
        f"%0 = stablehlo.transpose %f, dims = [1, 0] : ({F}) -> tensor<6x4xf32>",
        f'%0 = "stablehlo.transpose"(%f) <{{permutation = array<i64: 1, 0>}}> : ({F}) -> tensor<6x4xf32>',
    ),
    (
        f"%0 = stablehlo.reverse %f, dims = [] : {F}",
        f'%0 = "stablehlo.reverse"(%f) <{{dimensions = array<i64>}}> : {FF}',
    ),
    (
        f"%0 = stablehlo.concatenate %f, %f, dim = 0 : ({F}, {F}) -> tensor<8x6xf32>",
        f'%0 = "stablehlo.concatenate"(%f, %f) <{{dimension = 0 : i64}}> : ({F}, {F}) -> tensor<8x6xf32>',
    ),
    (
        f"%0 = stablehlo.broadcast_in_dim %f, dims = [1, 2] : ({F}) -> tensor<2x4x6xf32>",
        f'%0 = "stablehlo.broadcast_in_dim"(%f) <{{broadcast_dimensions = array<i64: 1, 2>}}> : ({F}) -> '
        "tensor<2x4x6xf32>",
    ),
    (
        f"%0 = stablehlo.dynamic_slice %f, %n, %n, sizes = [1, 2] : ({F}, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>",
        f'%0 = "stablehlo.dynamic_slice"(%f, %n, %n) <{{slice_sizes = array<i64: 1, 2>}}> : ({F}, tensor<i32>, '
        "tensor<i32>) -> tensor<1x2xf32>",
    ),
    (
        f"%0 = stablehlo.get_dimension_size %f, dim = 1 : ({F}) -> tensor<i32>",
        f'%0 = "stablehlo.get_dimension_size"(%f) <{{dimension = 1 : i64}}> : ({F}) -> tensor<i32>',
    ),
    (
        f"%0 = stablehlo.reduce_precision %f, format = e8m7 : {F}",
        f'%0 = "stablehlo.reduce_precision"(%f) <{{exponent_bits = 8 : i32, mantissa_bits = 7 : i32}}> : {FF}',
    ),
    (
        f"%0 = stablehlo.fft %c, type =  FFT, length = [6] : ({C}) -> {C}",
        '%0 = "stablehlo.fft"(%c) <{fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 6>}> : '
        f"({C}) -> {C}",
    ),
    (
        "%0, %1 = stablehlo.rng_bit_generator %k, algorithm =  THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, "
        "tensor<3xui32>)",
        '%0, %1 = "stablehlo.rng_bit_generator"(%k) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : '
        "(tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)",
    ),
    (
        f"%0 = stablehlo.dot_general %f, %g, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : ({F}, "
        "tensor<6x8xf32>) -> tensor<4x8xf32>",
        '%0 = "stablehlo.dot_general"(%f, %g) <{precision_config = [#stablehlo<precision HIGHEST>, '
        "#stablehlo<precision DEFAULT>], dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], "
        "rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : "
        f"({F}, tensor<6x8xf32>) -> tensor<4x8xf32>",
    ),
    (
        f'%0 = stablehlo.einsum %f, %g, config = "ab,bc->ac" : ({F}, tensor<6x8xf32>) -> tensor<4x8xf32>',
        f'%0 = "stablehlo.einsum"(%f, %g) <{{einsum_config = "ab,bc->ac"}}> : ({F}, tensor<6x8xf32>) -> '
        "tensor<4x8xf32>",
    ),
    (
        "%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = "
        "[1, 2], pad = [[1, 1], [0, 2]], lhs_dilate = [1, 1], rhs_dilate = [2, 1], reverse = [false, true]} "
        "{feature_group_count = 1 : i64} : (tensor<1x8x8x3xf32>, tensor<3x3x3x5xf32>) -> tensor<1x6x4x5xf32>",
        '%0 = "stablehlo.convolution"(%x, %w) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->'
        "[b, 0, 1, f]>, window_strides = array<i64: 1, 2>, padding = dense<[[1, 1], [0, 2]]> : tensor<2x2xi64>, "
        "lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 2, 1>, window_reversal = array<i1: false, true>}> "
        "{feature_group_count = 1 : i64} : (tensor<1x8x8x3xf32>, tensor<3x3x3x5xf32>) -> tensor<1x6x4x5xf32>",
    ),
    (
        f'%0 = stablehlo.custom_call @"a b"(%f) {{has_side_effect = true}} : ({F}) -> {F}',
        f'%0 = "stablehlo.custom_call"(%f) <{{call_target_name = "a b"}}> {{has_side_effect = true}} : {FF}',
    ),
    (
        f'%0 = stablehlo.composite "n.m" %f {{decomposition = @main}} : ({F}) -> {F}',
        f'%0 = "stablehlo.composite"(%f) <{{name = "n.m"}}> {{decomposition = @main}} : {FF}',
    ),
    (
        "%0 = stablehlo.get_tuple_element %u[1] : (tuple<tensor<f32>, tensor<i32>>) -> tensor<i32>",
        '%0 = "stablehlo.get_tuple_element"(%u) <{index = 1 : i32}> : (tuple<tensor<f32>, tensor<i32>>) -> tensor<i32>',
    ),
    (
        "%0 = stablehlo.tuple %s, %n : tuple<tensor<f32>, tensor<i32>>",
        '%0 = "stablehlo.tuple"(%s, %n) : (tensor<f32>, tensor<i32>) -> tuple<tensor<f32>, tensor<i32>>',
    ),
    (
        "%0 = stablehlo.after_all %t, %t : !stablehlo.token",
        '%0 = "stablehlo.after_all"(%t, %t) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token',
    ),
    (
        f"%0:2 = stablehlo.optimization_barrier %f, %i : {F}, {N}",
        f'%0:2 = "stablehlo.optimization_barrier"(%f, %i) : ({F}, {N}) -> ({F}, {N})',
    ),
    ("stablehlo.optimization_barrier()", '"stablehlo.optimization_barrier"() : () -> ()'),
    (f'stablehlo.trace %f, "tag" : {F}', f'"stablehlo.trace"(%f) <{{tag = "tag"}}> : ({F}) -> ()'),
    (
        f"%0 = stablehlo.reduce(%f init: %s) applies stablehlo.add across dimensions = [0] : ({F}, tensor<f32>) -> "
        "tensor<6xf32>",
        '%0 = "stablehlo.reduce"(%f, %s) <{dimensions = array<i64: 0>}> ({ ^bb0(%a: tensor<f32>, %z: tensor<f32>): '
        '%r = "stablehlo.add"(%a, %z) : (tensor<f32>, tensor<f32>) -> tensor<f32> "stablehlo.return"(%r) : '
        f"(tensor<f32>) -> () }}) : ({F}, tensor<f32>) -> tensor<6xf32>",
    ),
    (
        f"%0:2 = stablehlo.reduce(%f init: %s), (%i init: %n) across dimensions = [1] : ({F}, {N}, tensor<f32>, "
        "tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>) reducer(%a0: tensor<f32>, %b0: tensor<f32>) (%a1: tensor<i32>, "
        "%b1: tensor<i32>) { stablehlo.return %b0, %a1 : tensor<f32>, tensor<i32> }",
        '%0:2 = "stablehlo.reduce"(%f, %i, %s, %n) <{dimensions = array<i64: 1>}> ({ ^bb0(%a0: tensor<f32>, %a1: '
        'tensor<i32>, %b0: tensor<f32>, %b1: tensor<i32>): "stablehlo.return"(%b0, %a1) : (tensor<f32>, tensor<i32>) '
        f"-> () }}) : ({F}, {N}, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)",
    ),
    (
        "%0:2 = stablehlo.while(%a = %n, %z = %s) : tensor<i32>, tensor<f32> attributes {q} cond { %y = "
        '"t.p"() : () -> tensor<i1> stablehlo.return %y : tensor<i1> } do { stablehlo.return %a, %z : '
        "tensor<i32>, tensor<f32> }",
        '%0:2 = "stablehlo.while"(%n, %s) ({ ^bb0(%a: tensor<i32>, %z: tensor<f32>): %y = "t.p"() : () -> tensor<i1> '
        '"stablehlo.return"(%y) : (tensor<i1>) -> () }, { ^bb0(%a: tensor<i32>, %z: tensor<f32>): '
        '"stablehlo.return"(%a, %z) : (tensor<i32>, tensor<f32>) -> () }) {q} : (tensor<i32>, tensor<f32>) -> '
        "(tensor<i32>, tensor<f32>)",
    ),
    (f"%0 = chlo.erf %f : {F} -> {F}", f'%0 = "chlo.erf"(%f) : {FF}'),
    (
        f"%0, %1 = chlo.top_k(%f, k = 2) : {F} -> (tensor<4x2xf32>, tensor<4x2xi32>)",
        f'%0, %1 = "chlo.top_k"(%f) <{{k = 2 : i64}}> : ({F}) -> (tensor<4x2xf32>, tensor<4x2xi32>)',
    ),
    (
        f"%0:2 = chlo.scan(%f) inits(%s) dimension=0 attributes {{is_reverse = true}} {{ ^bb0(%a: tensor<6xf32>, "
        "%z: tensor<f32>): stablehlo.return %a, %z : tensor<6xf32>, tensor<f32> } : "
        f"({F}, tensor<f32>) -> ({F}, tensor<f32>)",
        '%0:2 = "chlo.scan"(%f, %s) <{dimension = 0 : i64, operandSegmentSizes = array<i32: 1, 1>}> ({ ^bb0(%a: '
        'tensor<6xf32>, %z: tensor<f32>): "stablehlo.return"(%a, %z) : (tensor<6xf32>, tensor<f32>) -> () }) '
        f"{{is_reverse = true}} : ({F}, tensor<f32>) -> ({F}, tensor<f32>)",
    ),
    (
        "check.expect_eq_const %n, dense<1> : tensor<i32>",
        '"check.expect_eq_const"(%n) <{value = dense<1> : tensor<i32>}> : (tensor<i32>) -> ()',
    ),
    (
        f"check.expect_close %f, %f, max_ulp_difference = 3 : {F}, {F}",
        f'"check.expect_close"(%f, %f) <{{max_ulp_difference = 3 : i64}}> : ({F}, {F}) -> ()',
    ),
    (
        f"check.expect_almost_eq %f, %f, tolerance = 0.1 : {F}",
        f'"check.expect_almost_eq"(%f, %f) <{{tolerance = 0.1 : f64}}> : ({F}, {F}) -> ()',
    ),
    (
        f'%0 = sdy.sharding_constraint %f <@mesh, [{{"a"}}, {{}}]> : {F}',
        f'%0 = "sdy.sharding_constraint"(%f) <{{sharding = #sdy.sharding<@mesh, [{{"a"}}, {{}}]>}}> : {FF}',
    ),
    (
        f'%0 = sdy.manual_computation(%f) in_shardings=[<@m, [{{}}]>] out_shardings=[<@m, [{{}}]>] manual_axes={{"a"}} '
        f"(%a: {F}) {{ sdy.return %a : {F} }} : {FF}",
        f'%0 = "sdy.manual_computation"(%f) <{{in_shardings = "[<@m, [{{}}]>]", out_shardings = "[<@m, [{{}}]>]", '
        f'manual_axes = "{{\\22a\\22}}"}}> ({{ ^bb0(%a: {F}): "sdy.return"(%a) : ({F}) -> () }}) : {FF}',
    ),
    (
        "%0 = shape.shape_of %f : tensor<4x6xf32> -> tensor<2xindex>",
        '%0 = "shape.shape_of"(%f) : (tensor<4x6xf32>) -> tensor<2xindex>',
    ),
]


def wrapped(line: str) -> str:
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in ARGUMENTS.items())
    return f"func.func @main({arguments}) {{\n{line}\nreturn\n}}"


def generic(line: str) -> str:
    return print_module(parse_module(wrapped(line), "t.mlir", STABLEHLO))


@pytest.mark.parametrize(("custom", "plain"), PAIRS, ids=[c.split("(")[0][:50] for c, _ in PAIRS])
def test_custom_form_means_the_generic_form(custom: str, plain: str) -> None:
    assert generic(custom) == generic(plain)


BAD = [
    ("%0 = stablehlo.add %f, %f 3", "expected ':'"),
    ("%0 = stablehlo.add %f, %nothing : " + F, "value %nothing is not defined"),
    ("%0 = stablehlo.pad %f, %s, lo = [0, 0] : " + F, "expected 'low =' or 'high =' or 'interior =', found 'lo'"),
    ("%0 = stablehlo.slice %f [0:1, 2] : " + F, "expected ':', found ']'"),
    (f"%0 = stablehlo.reduce_precision %f, format = e8x7 : {F}", "expected a format such as e8m7"),
    (f"%0 = stablehlo.compare LT %f, %f : {F}", "expected ','"),
    ("%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0] : " + F, "expected dimension numbers"),
    (f"%0 = stablehlo.cholesky %f, lower = maybe : {F}", "expected 'true' or 'false'"),
    (f"%0 = stablehlo.reduce(%f init: %s) applies stablehlo.ad across dimensions = [0] : {FF}", "2 operands but 1"),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=[m for _, m in BAD])
def test_faults_are_located(line: str, message: str) -> None:
    with pytest.raises(XylaError) as caught:
        generic(line)
    assert message in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.where().startswith("t.mlir:2:")
