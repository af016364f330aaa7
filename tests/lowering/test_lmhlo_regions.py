"""Launches as the LMHLO dialect writes them: operations on memrefs, fusions with a region of MHLO."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.hlo import ops
from xyla.lowering import lmhlo
from xyla.lowering.lmhlo_reader import parse
from xyla.lowering.lmhlo_text import print_module
from xyla.support.status import Status, XylaError
from xyla.testing.lmhlo_machine import Machine

TAIL = '\n  "lmhlo.terminator"() : () -> ()\n}\n'
X = np.arange(6, dtype=np.float32).reshape(2, 3)
COLUMNS = "strided<[1, 2]>"


def run(arguments: str, line: str, *args: np.ndarray, result: str = "f32[2,3]") -> list[np.ndarray]:
    """Runs a function of one line, from its text and from the text that it prints as."""
    text = f'func.func @main({arguments}) attributes {{result_xla_shape = "{result}"}} {{\n  {line}{TAIL}'
    module = parse(text, "m.mlir")
    again = parse(print_module(module))
    found = [Machine(m).run(*args) for m in (module, again)]
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)
    return found[0]


def argument(name: str, memref: str, shape: str, number: int) -> str:
    return f'%{name}: memref<{memref}> {{lmhlo.params = {number} : index, xla.shape = "{shape}"}}'


def output(memref: str = "2x3xf32", index: str = "dense<> : tensor<0xindex>", name: str = "out") -> str:
    return f"%{name}: memref<{memref}> {{lmhlo.output_index = {index}}}"


IN = argument("x", "2x3xf32", "f32[2,3]", 0)


def test_an_operation_on_memrefs_is_a_launch() -> None:
    line = '"lmhlo.add"(%x, %x, %out) : (memref<2x3xf32>, memref<2x3xf32>, memref<2x3xf32>) -> () loc("twice")'
    (got,) = run(f"{IN}, {output()}", line, X)
    np.testing.assert_array_equal(got, X + X)
    (launch,) = parse(f"func.func @main({IN}, {output()}) {{\n{line}{TAIL}").entry.body.ops
    assert isinstance(launch, lmhlo.Launch)
    assert (launch.opcode, launch.name) == ("add", "twice")
    assert launch.hlo.instruction.op is ops.ADD


def test_attributes_and_regions_of_mhlo_are_understood() -> None:
    line = """"lmhlo.sort"(%x, %out) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %0 = "mhlo.compare"(%a, %b) {comparison_direction = #mhlo<comparison_direction GT>}
        : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "mhlo.return"(%0) : (tensor<i1>) -> ()
    }) {dimension = 1 : i64, is_stable = true} : (memref<2x3xf32>, memref<2x3xf32>) -> ()"""
    (got,) = run(f"{IN}, {output()}", line, X)
    np.testing.assert_array_equal(got, X[:, ::-1])


def test_several_results_are_the_last_operands() -> None:
    line = """"lmhlo.sort"(%x, %y, %out, %second) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %0 = mhlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      mhlo.return %0 : tensor<i1>
    }) {dimension = 0 : i64} : (memref<3xf32>, memref<3xi32>, memref<3xf32>, memref<3xi32>) -> ()"""
    arguments = ", ".join([
        argument("x", "3xf32", "f32[3]", 0), argument("y", "3xi32", "s32[3]", 1),
        output("3xf32", "dense<0> : tensor<1xindex>"), output("3xi32", "dense<1> : tensor<1xindex>", "second"),
    ])  # fmt: skip
    keys, values = np.array([3, 1, 2], np.float32), np.array([10, 20, 30], np.int32)
    first, second = run(arguments, line, keys, values, result="(f32[3], s32[3])")
    np.testing.assert_array_equal(first, [1, 2, 3])
    np.testing.assert_array_equal(second, [20, 30, 10])
    (launch,) = parse(f"func.func @main({arguments}) {{\n{line}{TAIL}").entry.body.ops
    assert isinstance(launch, lmhlo.Launch)
    assert launch.hlo.instruction.op is ops.SORT


FUSION = """"lmhlo.fusion"() ({
    %a = bufferization.to_tensor %x : memref<2x3xf32>
    %two = mhlo.constant dense<2.0> : tensor<2x3xf32>
    %b = mhlo.multiply %a, %two : tensor<2x3xf32>
    memref.tensor_store %b, %out : memref<2x3xf32>
    "lmhlo.terminator"() : () -> ()
  }) : () -> () loc("fusion.7")"""


def test_a_fusion_is_its_region() -> None:
    (got,) = run(f"{IN}, {output()}", FUSION, X)
    np.testing.assert_array_equal(got, 2 * X)
    (launch,) = parse(f"func.func @main({IN}, {output()}) {{\n{FUSION}{TAIL}").entry.body.ops
    assert isinstance(launch, lmhlo.Launch)
    assert launch.mnemonic == "lmhlo.fusion"
    assert [i.op for i in launch.hlo.instruction.called[0].instructions][-1] is ops.MULTIPLY


def test_layouts_of_memory_are_those_of_the_views() -> None:
    text = FUSION.replace("%x : memref<2x3xf32>", f"%x : memref<2x3xf32, {COLUMNS}>").replace(
        "%out : memref<2x3xf32>", f"%out : memref<2x3xf32, {COLUMNS}>"
    )
    given = argument("x", f"2x3xf32, {COLUMNS}", "f32[2,3]{0,1}", 0)
    made = output(f"2x3xf32, {COLUMNS}")
    (got,) = run(f"{given}, {made}", text, X, result="f32[2,3]{0,1}")
    np.testing.assert_array_equal(got, 2 * X)
    (launch,) = parse(f"func.func @main({given}, {made}) {{\n{text}{TAIL}").entry.body.ops
    assert isinstance(launch, lmhlo.Launch)
    fusion = launch.hlo.instruction
    shapes = (fusion.operands[0].shape, fusion.shape, fusion.called[0].root.shape)
    assert [str(s) for s in shapes] == ["f32[2,3]{0,1}"] * 3


def test_a_fusion_may_store_several_results() -> None:
    text = FUSION.replace(
        "memref.tensor_store", "memref.tensor_store %a, %second : memref<2x3xf32>\n    memref.tensor_store"
    )
    outputs = (
        f"{output(index='dense<1> : tensor<1xindex>')}, {output(index='dense<0> : tensor<1xindex>', name='second')}"
    )
    first, second = run(f"{IN}, {outputs}", text, X, result="(f32[2,3], f32[2,3])")
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, 2 * X)


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ('"lmhlo.add"(%x) : (memref<2x3xf32>) -> ()', Status.INVALID_ARGUMENT, "stablehlo.add"),
        ('"lmhlo.nothing"(%x) : (memref<2x3xf32>) -> ()', Status.UNIMPLEMENTED, "lmhlo.nothing has no 'hlo' attribute"),
        ('"lmhlo.sort"() : () -> ()', Status.INVALID_ARGUMENT, "none is left for its results"),
        ('"lmhlo.fusion"() : () -> ()', Status.INVALID_ARGUMENT, "a region of one block"),
        (
            '"lmhlo.fusion"() ({ "lmhlo.terminator"() : () -> () }) : () -> ()',
            Status.INVALID_ARGUMENT,
            "stores nothing",
        ),
    ],
)
def test_faults_are_located(line: str, status: Status, text: str) -> None:
    with pytest.raises(XylaError) as caught:
        parse(f"func.func @main(%x: memref<2x3xf32>) {{\n  {line}{TAIL}", "f.mlir")
    assert caught.value.status is status
    assert text in str(caught.value)
    assert caught.value.span is not None
