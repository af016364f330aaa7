"""Refinement of dynamic programs: shapes bind `?`, sizes are folded, functions are specialised, assertions checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xyla
from xyla import interp
from xyla.formats.stablehlo import StablehloProgram, load
from xyla.hlo.module import Module
from xyla.hlo.shape import Shape
from xyla.support import dtypes
from xyla.support.dtypes import F32, S64
from xyla.support.status import Status, XylaError

D = "tensor<?xf32>"
DD = "tensor<?x?xf32>"


def program(text: str) -> StablehloProgram:
    """The text as a program that waits for argument shapes."""
    loaded = load(text, "t.mlir")
    assert isinstance(loaded, StablehloProgram)
    return loaded


def refined(text: str, *dims: tuple[int, ...]) -> Module:
    """The text refined for f32 arguments of these dims."""
    return program(text).refine([Shape.array(F32, d) for d in dims])


def main(params: str, result: str, body: str) -> str:
    return f"func.func @main({params}) -> {result} {{\n{body}\n  return %r : {result}\n}}"


def ramp(*dims: int) -> np.ndarray:
    return np.arange(np.prod(dims), dtype=np.float32).reshape(dims)


# (what, parameters, result type, body, argument dims, the value expected of ramp arguments)
RULES: list[tuple[str, str, str, str, list[tuple[int, ...]], Any]] = [
    (
        "elementwise",
        f"%a: {DD}, %b: {DD}",
        DD,
        f"  %r = stablehlo.add %a, %b : {DD}",
        [(2, 3), (2, 3)],
        lambda a, b: a + b,
    ),
    (
        "select with a scalar predicate",
        f"%a: {D}",
        D,
        f"  %p = stablehlo.constant dense<true> : tensor<i1>\n  %n = stablehlo.negate %a : {D}\n"
        f"  %r = stablehlo.select %p, %n, %a : tensor<i1>, {D}",
        [(3,)],
        lambda a: -a,
    ),
    (
        "transpose",
        f"%a: {DD}",
        DD,
        f"  %r = stablehlo.transpose %a, dims = [1, 0] : ({DD}) -> {DD}",
        [(2, 3)],
        lambda a: a.T,
    ),
    (
        "reshape with one unknown",
        f"%a: {DD}",
        "tensor<?x2xf32>",
        f"  %r = stablehlo.reshape %a : ({DD}) -> tensor<?x2xf32>",
        [(4, 3)],
        lambda a: a.reshape(6, 2),
    ),
    (
        "concatenate",
        f"%a: {DD}, %b: {DD}",
        DD,
        f"  %r = stablehlo.concatenate %a, %b, dim = 1 : ({DD}, {DD}) -> {DD}",
        [(2, 3), (2, 1)],
        lambda a, b: np.concatenate([a, b], 1),
    ),
    (
        "dot_general",
        f"%a: {DD}, %b: {DD}",
        DD,
        f"  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({DD}, {DD}) -> {DD}",
        [(2, 3), (3, 4)],
        lambda a, b: a @ b,
    ),
    (
        "reduce",
        f"%a: {DD}",
        D,
        "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f"  %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : "
        f"({DD}, tensor<f32>) -> {D}",
        [(2, 3)],
        lambda a: a.sum(0),
    ),
    (
        "reduce_window",
        f"%a: {D}",
        D,
        "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f'  %r = "stablehlo.reduce_window"(%a, %z) <{{window_dimensions = array<i64: 3>, window_strides = array<i64: 2>'
        f", padding = dense<[[1, 0]]> : tensor<1x2xi64>}}> ({{\n  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
        f"    %s = stablehlo.add %x, %y : tensor<f32>\n    stablehlo.return %s : tensor<f32>\n"
        f"  }}) : ({D}, tensor<f32>) -> {D}",
        [(6,)],
        # Windows of [0, 0..5] with a zero in front: (0,0,1) (1,2,3) (3,4,5).
        lambda a: np.array([1, 6, 12], np.float32),
    ),
    (
        "slice and pad",
        "%a: tensor<6x?xf32>",
        DD,
        "  %z = stablehlo.constant dense<9.0> : tensor<f32>\n"
        f'  %s = "stablehlo.slice"(%a) <{{start_indices = array<i64: 1, 0>, limit_indices = array<i64: 5, 2>, '
        f"strides = array<i64: 2, 1>}}> : (tensor<6x?xf32>) -> {DD}\n"
        f"  %r = stablehlo.pad %s, %z, low = [0, 1], high = [0, 0], interior = [0, 0] : ({DD}, tensor<f32>) -> {DD}",
        [(6, 2)],
        lambda a: np.pad(a[1:5:2], ((0, 0), (1, 0)), constant_values=9),
    ),
    (
        "while",
        f"%a: {D}",
        D,
        "  %i = stablehlo.constant dense<0> : tensor<i32>\n  %n = stablehlo.constant dense<3> : tensor<i32>\n"
        "  %k = stablehlo.constant dense<1> : tensor<i32>\n"
        f"  %o:2 = stablehlo.while(%x = %a, %j = %i) : {D}, tensor<i32>\n   cond {{\n"
        "    %c = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "    stablehlo.return %c : tensor<i1>\n  } do {\n"
        f"    %y = stablehlo.add %x, %x : {D}\n    %l = stablehlo.add %j, %k : tensor<i32>\n"
        f"    stablehlo.return %y, %l : {D}, tensor<i32>\n  }}\n  %r = stablehlo.negate %o#0 : {D}",
        [(4,)],
        lambda a: -8 * a,
    ),
    (
        "if",
        f"%a: {D}",
        D,
        "  %p = stablehlo.constant dense<false> : tensor<i1>\n"
        f'  %r = "stablehlo.if"(%p) ({{\n    stablehlo.return %a : {D}\n  }}, {{\n'
        f"    %n = stablehlo.negate %a : {D}\n    stablehlo.return %n : {D}\n  }}) : (tensor<i1>) -> {D}",
        [(2,)],
        lambda a: -a,
    ),
    (
        "sizes from dimensions",
        f"%a: {D}",
        DD,
        f"  %n = stablehlo.get_dimension_size %a, dim = 0 : ({D}) -> tensor<i32>\n"
        "  %c = stablehlo.constant dense<2> : tensor<i32>\n  %m = stablehlo.subtract %n, %c : tensor<i32>\n"
        "  %p = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>\n"
        "  %q = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
        "  %s = stablehlo.concatenate %p, %q, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
        f"  %r = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : ({D}, tensor<2xi32>) -> {DD}",
        [(5,)],
        lambda a: np.broadcast_to(a, (3, 5)),
    ),
    (
        "a slice that starts at data and has static sizes",
        f"%a: {D}, %b: tensor<?xf32>",
        "tensor<2xf32>",
        f"  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f"  %m = stablehlo.reduce(%b init: %z) applies stablehlo.add across dimensions = [0] : ({D}, tensor<f32>) -> "
        "tensor<f32>\n  %i = stablehlo.convert %m : (tensor<f32>) -> tensor<i32>\n"
        "  %s = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>\n"
        "  %c = stablehlo.constant dense<2> : tensor<1xi32>\n  %o = stablehlo.constant dense<1> : tensor<1xi32>\n"
        "  %l = stablehlo.add %s, %c : tensor<1xi32>\n"
        f"  %r = stablehlo.real_dynamic_slice %a, %s, %l, %o : ({D}, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> "
        "tensor<2xf32>",
        [(9,), (3,)],
        # 0 + 1 + 2 is the start.
        lambda a, b: a[3:5],
    ),
    (
        "implicit broadcasting",
        f"%a: {DD}, %b: {D}",
        DD,
        f'  %r = "chlo.broadcast_add"(%a, %b) : ({DD}, {D}) -> {DD}',
        [(2, 3), (3,)],
        lambda a, b: a + b,
    ),
    (
        "shape dialect",
        f"%a: {DD}, %b: {DD}",
        DD,
        f"  %s = shape.shape_of %a : {DD} -> tensor<2xindex>\n  %t = shape.shape_of %b : {DD} -> tensor<2xindex>\n"
        "  %w = shape.cstr_broadcastable %s, %t : tensor<2xindex>, tensor<2xindex>\n"
        "  %u = shape.broadcast %s, %t : tensor<2xindex>, tensor<2xindex> -> tensor<2xindex>\n"
        f"  %r = stablehlo.dynamic_broadcast_in_dim %b, %u, dims = [0, 1] : ({DD}, tensor<2xindex>) -> {DD}",
        [(2, 1), (1, 3)],
        lambda a, b: np.broadcast_to(b, (2, 3)),
    ),
]


@pytest.mark.parametrize(
    ("params", "result", "body", "dims", "expected"), [r[1:] for r in RULES], ids=[r[0] for r in RULES]
)
def test_result_shapes_follow_from_operands(
    params: str, result: str, body: str, dims: list[tuple[int, ...]], expected: Any
) -> None:
    args = [ramp(*d) for d in dims]
    (out,) = interp.run(program(main(params, result, body)), args)
    np.testing.assert_array_equal(out, expected(*args))


CALLS = f"""
module {{
  func.func @main(%a: {D}, %b: {D}) -> ({D}, {D}, {D}) {{
    %n = stablehlo.get_dimension_size %a, dim = 0 : ({D}) -> tensor<i32>
    %0 = call @f(%a) : ({D}) -> {D}
    %1 = call @f(%b) : ({D}) -> {D}
    %2 = call @f(%0) : ({D}) -> {D}
    %m = call @half(%n) : (tensor<i32>) -> tensor<1xi32>
    %3 = stablehlo.dynamic_iota %m, dim = 0 : (tensor<1xi32>) -> {D}
    return %1, %2, %3 : {D}, {D}, {D}
  }}
  func.func private @f(%x: {D}) -> {D} {{
    %0 = stablehlo.negate %x : {D}
    return %0 : {D}
  }}
  func.func private @half(%n: tensor<i32>) -> tensor<1xi32> {{
    %c = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.divide %n, %c : tensor<i32>
    %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    return %1 : tensor<1xi32>
  }}
}}
"""


def test_functions_are_copied_once_for_each_shape_and_sizes_pass_through_calls() -> None:
    module = refined(CALLS, (6,), (3,))
    assert sorted(c for c in module.computations if c.startswith("f")) == ["f", "f_1"]
    one, two, three = interp.run(module, [ramp(6), ramp(3)])
    assert one.tolist() == [-0.0, -1.0, -2.0]
    assert two.tolist() == ramp(6).tolist()
    assert three.tolist() == [0.0, 1.0, 2.0]


def test_a_long_chain_of_calls_does_not_recurse() -> None:
    count = 3000
    lines = [f"func.func @main(%a: {D}) -> {D} {{\n  %r = call @f0(%a) : ({D}) -> {D}\n  return %r : {D}\n}}"]
    for i in range(count):
        step = f"call @f{i + 1}(%a) : ({D}) -> {D}" if i + 1 < count else f"stablehlo.negate %a : {D}"
        lines.append(f"func.func private @f{i}(%a: {D}) -> {D} {{\n  %r = {step}\n  return %r : {D}\n}}")
    module = refined("\n".join(lines), (2,))
    assert module.entry.root.shape.dims == (2,)
    assert len(module.computations) == count + 1


ASSERTION = f"""
func.func @main(%a: {D}) -> {D} {{
  %n = stablehlo.get_dimension_size %a, dim = 0 : ({D}) -> tensor<i32>
  %c = stablehlo.constant dense<3> : tensor<i32>
  %p = stablehlo.compare GE, %n, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%p, %n, %c) {{
    api_version = 2 : i32, error_message = "size {{0}} is less than {{1}}; {{7}}", has_side_effect = true
  }} : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
  return %a : {D}
}}
"""


def test_shape_assertions_are_checked_and_vanish() -> None:
    module = refined(ASSERTION, (3,))
    assert not any(i.op.name == "custom-call" for i in module.instructions())
    with pytest.raises(XylaError, match=r"size 2 is less than 3; \{7\}") as caught:
        refined(ASSERTION, (2,))
    assert caught.value.status is Status.INVALID_ARGUMENT
    assert caught.value.span is not None
    assert caught.value.span.where().startswith("t.mlir:6:")


def test_static_programs_are_checked_when_they_load() -> None:
    static = ASSERTION.replace("?", "3")
    assert isinstance(load(static), Module)
    with pytest.raises(XylaError, match="size 2 is less than 3"):
        load(ASSERTION.replace("?", "2"))


VALUES = f"""
func.func @main(%n: tensor<i64>, %a: {D}) -> {DD} {{
  %s = stablehlo.reshape %n : (tensor<i64>) -> tensor<1xi64>
  %c = stablehlo.constant dense<2> : tensor<1xi64>
  %t = stablehlo.concatenate %c, %s, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %r = stablehlo.dynamic_broadcast_in_dim %a, %t, dims = [1] : ({D}, tensor<2xi64>) -> {DD}
  return %r : {DD}
}}
"""


@pytest.mark.parametrize("run", [interp.run, xyla.run])
def test_dimension_variables_may_be_arguments(run: Any) -> None:
    for n in (3, 4):
        (out,) = run(VALUES, [np.int64(n), ramp(n)])
        np.testing.assert_array_equal(out, np.stack([ramp(n), ramp(n)]))


def test_shapes_alone_do_not_give_values() -> None:
    shapes = [Shape.array(S64, ()), Shape.array(F32, (3,))]
    with pytest.raises(XylaError, match="does not follow from the argument shapes") as caught:
        program(VALUES).refine(shapes)
    assert caught.value.status is Status.UNIMPLEMENTED
    assert caught.value.span is not None
    with pytest.raises(XylaError, match="does not follow"):
        xyla.compile(VALUES, args=[np.int64(3), ramp(3)])


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ([(2,)], "takes 2 arguments, the shapes of 1"),
        ([(2,), (2, 2)], "argument 1 has shape"),
        ([(2,), (3,)], "add"),
    ],
)
def test_arguments_that_do_not_fit(dims: list[tuple[int, ...]], message: str) -> None:
    text = main(f"%a: {D}, %b: {D}", D, f"  %r = stablehlo.add %a, %b : {D}")
    with pytest.raises(XylaError, match=message) as caught:
        refined(text, *dims)
    assert caught.value.status is Status.INVALID_ARGUMENT


def test_sizes_that_contradict_the_program() -> None:
    body = (
        f"  %n = stablehlo.get_dimension_size %a, dim = 0 : ({D}) -> tensor<i32>\n"
        "  %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
        "  %r = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<4xf32>"
    )
    text = main(f"%a: {D}", "tensor<4xf32>", body)
    assert refined(text, (4,)).entry.root.shape.dims == (4,)
    with pytest.raises(XylaError, match=r"gives a result of shape \[5\], its type says tensor<4xf32>"):
        refined(text, (5,))


def test_experimental_custom_calls() -> None:
    text = main(
        "%a: tensor<2x?xf32>, %k: tensor<ui64>",
        "tensor<2x?xi32>",
        "  %n = stablehlo.get_dimension_size %a, dim = 1 : (tensor<2x?xf32>) -> tensor<i32>\n"
        "  %c = stablehlo.constant dense<1> : tensor<i32>\n  %m = stablehlo.subtract %n, %c : tensor<i32>\n"
        "  %v, %r = stablehlo.custom_call @stablehlo.dynamic_top_k(%a, %m) : "
        "(tensor<2x?xf32>, tensor<i32>) -> (tensor<2x?xf32>, tensor<2x?xi32>)",
    )
    (out,) = interp.run(text, [ramp(2, 3), np.uint64(0)])
    assert out.tolist() == [[2, 1], [2, 1]]


@pytest.mark.parametrize(
    "name",
    [
        "stablehlo_dynamic_approx_top_k__data_2024_05_30",
        "stablehlo_dynamic_rng_bit_generator__data_2023_06_17",
        "stablehlo_dynamic_top_k__data_2023_07_16",
        "tpu_stablehlo_dynamic_reduce_window__data_unary_2023_06_17",
    ],
)
def test_exported_polymorphic_programs(shared: Path, name: str) -> None:
    path = shared / "corpus" / "jax_exports" / f"{name}.mlir"
    with np.load(path.with_suffix(".npz")) as data:
        args = [data[k] for k in sorted(data.files) if k.startswith("in")]
        wanted = [data[k] for k in sorted(data.files) if k.startswith("out")]
    for got, want in zip(interp.run(path, args), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


# One stride too many for a one-dimensional convolution.
FAULTY = {"conv_general_dilated_1d_stride_2_even_dynamic", "conv_general_dilated_1d_stride_2_odd_dynamic"}


def test_every_dynamic_program_of_the_corpus_runs(shared: Path) -> None:
    folder = shared / "corpus" / "stablehlo" / "testdata" / "dynamic"
    for path in sorted(folder.glob("*.mlir")):
        found = program(path.read_text())
        args = [_made_up(kind) for kind in found.parameter_types]
        if path.stem in FAULTY:
            with pytest.raises(XylaError, match="window_strides"):
                interp.run(found, args)
            continue
        assert all(a.size for a in interp.run(found, args)), path.stem


def _made_up(kind: Any) -> np.ndarray:
    """Two in each open dimension; integer scalars are dimension variables."""
    element = dtypes.by_mlir(str(kind.element))
    dims = [2 if d < 0 else d for d in kind.dims]
    if not dims and element is S64:
        return np.array(2, np.int64)
    return (np.arange(np.prod(dims)).reshape(dims) % 3).astype(element.np)
