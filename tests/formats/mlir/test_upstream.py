"""The assembly of upstream dialects: what is read equals the generic form, and faults are located."""

from __future__ import annotations

import pytest

from xyla.formats.mlir.parser import parse_module
from xyla.formats.mlir.printer import print_module
from xyla.formats.mlir.upstream import UPSTREAM
from xyla.support.status import XylaError

PRETTY = """
memref.global "private" constant @c : memref<2xf32> = dense<[1.0, 2.0]>
memref.global @later : memref<2xf32> = uninitialized
func.func @f(%m: memref<64xi8>, %p: memref<i1>) {
  %c0 = arith.constant 0 : index
  %t = arith.constant true
  %i = arith.index_cast %c0 : index to i32
  %j = arith.addi %i, %i : i32
  %lt = arith.cmpi slt, %i, %j : i32
  %s = arith.select %lt, %i, %j : i32
  %v = memref.view %m[%c0][] : memref<64xi8> to memref<16xf32>
  %r = memref.reinterpret_cast %v to offset: [0], sizes: [4, 4], strides: [1, 4]
    : memref<16xf32> to memref<4x4xf32, strided<[1, 4]>>
  %g = memref.get_global @c : memref<2xf32>
  %h = memref.alloca() {alignment = 64 : i64} : memref<i1>
  gpu.memcpy %h, %p : memref<i1>, memref<i1>
  scf.while : () -> () {
    %b = memref.load %h[] : memref<i1>
    scf.condition(%b)
  } do {
  }
  scf.index_switch %c0
  case 3 { scf.yield }
  default { }
  return
}
"""


def test_assembly_reads_as_the_generic_form() -> None:
    module = parse_module(PRETTY, "m.mlir", UPSTREAM)
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    ops = {op.name: op for op in module.op.walk()}
    assert str(ops["arith.cmpi"].get("predicate")) == "2 : i64"
    assert [str(t) for t in ops["arith.select"].operand_types] == ["i1", "i32", "i32"]
    assert str(ops["memref.reinterpret_cast"].get("static_strides")) == "array<i64: 1, 4>"
    assert str(ops["memref.load"].results[0].type) == "i1"
    assert str(ops["scf.index_switch"].get("cases")) == "array<i64: 3>"
    assert [len(r.blocks[0].operations) for r in ops["scf.index_switch"].regions] == [1, 1]
    assert [r.blocks[0].operations[-1].name for r in ops["scf.while"].regions] == ["scf.condition", "scf.yield"]
    first, second = (op for op in module.body if op.name == "memref.global")
    assert str(first.get("initial_value")) == "dense<[1.0, 2.0]> : tensor<2xf32>"
    assert str(second.get("initial_value")) == "unit"


def test_kernels_of_gpu_modules() -> None:
    module = parse_module(
        """gpu.module @m attributes {binary = "b"} {
          gpu.func @f(%x: memref<4xf32>) kernel { gpu.return }
        }
        func.func @g(%x: memref<4xf32>) {
          %c = arith.constant 2 : index
          gpu.launch_func @m::@f blocks in (%c, %c, %c) threads in (%c, %c, %c) args(%x : memref<4xf32>)
          return
        }""",
        "m.mlir",
        UPSTREAM,
    )
    launch = next(op for op in module.op.walk() if op.name == "gpu.launch_func")
    assert str(launch.get("kernel")) == "@m::@f"
    assert len(launch.operands) == 7


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("%a = arith.cmpi near, %c, %c : index", "'near' is none of eq, ne"),
        ("%a = arith.constant @x", "expected a typed constant"),
        ("%a = memref.reinterpret_cast %m to offset: [%c], sizes: [1], strides: [1] : T to T", "only static offsets"),
        ("%a = memref.load %c[] : index", "expected a memref, got index"),
        ("scf.while : (i32) -> () { } do { }", "only loops without values"),
        ("gpu.launch_func @m::@f blocks in (%c) threads in (%c, %c, %c)", "three sizes each"),
        ("memref.global @x : memref<*xf32>", "a ranked memref"),
    ],
)
def test_faults_are_located(line: str, text: str) -> None:
    with pytest.raises(XylaError) as caught:
        parse_module(
            f"func.func @f(%m: memref<4xf32>) {{\n  %c = arith.constant 0 : index\n  {line}\n  return\n}}",
            "m",
            UPSTREAM,
        )
    assert text in str(caught.value)
    assert caught.value.span is not None
