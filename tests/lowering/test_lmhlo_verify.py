"""Each rule of LMHLO is enforced: one program that breaks it, and the same without the fault passes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xyla.lowering import lmhlo
from xyla.lowering.lmhlo_reader import parse
from xyla.lowering.lmhlo_verify import verify
from xyla.runtime.program import ArrayType, Slice
from xyla.support.status import Status, XylaError

HEAD = """func.func @main(%b: memref<64xi8>, %v: memref<4xf32>, %w: memref<8xf32>, %d: memref<4xf64>,
    %m: memref<2x2xf32>, %p: memref<i1>, %i: memref<i32>, %u: memref<ui32>) {
  %c1 = arith.constant 1 : index
  %c0 = arith.constant 0 : index
"""
TAIL = """
  "lmhlo.terminator"() : () -> ()
}
func.func private @shared(%b: memref<64xi8>, %v: memref<4xf32>, %w: memref<8xf32>, %d: memref<4xf64>,
    %m: memref<2x2xf32>, %p: memref<i1>, %i: memref<i32>, %u: memref<ui32>) {
  "lmhlo.terminator"() : () -> ()
}
"""
BLOCK = '{ "lmhlo.terminator"() : () -> () }'
ALL = "%b, %v, %w, %d, %m, %p, %i, %u"
TYPES = (
    "memref<64xi8>, memref<4xf32>, memref<8xf32>, memref<4xf64>, memref<2x2xf32>, memref<i1>, memref<i32>, memref<ui32>"
)
V, W, D, M = "memref<4xf32>", "memref<8xf32>", "memref<4xf64>", "memref<2x2xf32>"
GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
GATHER = f"{{{GROUPS}, all_gather_dimension = 0 : i64}} : ({V}, {V}) -> !mhlo.token"
START = f'%t = "lmhlo_gpu.all_gather_start"(%v, %v) {GATHER}'
DONE = '"lmhlo_gpu.all_gather_done"(%t) : (!mhlo.token) -> ()'
MAP = "num_args = 3, num_results = 1, args_to_target_args = {}, results_to_target_results = [0]"


def call(mapping: str) -> str:
    return (
        '"lmhlo.custom_call"(%v, %v, %v) {call_target_name = "t", operand_segment_sizes = array<i32: 2, 1>, '
        f"target_arg_mapping = #lmhlo.custom_call_target_arg_mapping<{MAP.format(mapping)}>}} : ({V}, {V}, {V}) -> ()"
    )


def gemm(lhs: int, rhs: int, out: str = "%m", type_: str = M) -> str:
    dims = f"#mhlo.dot<lhs_contracting_dimensions = [{lhs}], rhs_contracting_dimensions = [{rhs}]>"
    return f'"lmhlo_gpu.gemm"(%m, %m, {out}) {{dot_dimension_numbers = {dims}}} : ({M}, {M}, {type_}) -> ()'


def permute(pairs: str) -> str:
    attributes = f"{{source_target_pairs = dense<{pairs}> : tensor<2x2xi64>}}"
    return f'"lmhlo.collective_permute"(%v, %v) {attributes} : ({V}, {V}) -> ()'


def fft(length: str) -> str:
    attributes = f"{{fft_type = #mhlo<fft_type FFT>, fft_length = dense<{length}xi64>}}"
    return f'"lmhlo.fft"(%v, %v) {attributes} : ({V}, {V}) -> ()'


RULES = {
    "copy": (f'"lmhlo.copy"(%v, %w) : ({V}, {W}) -> ()', "16 and 32 bytes", f'"lmhlo.copy"(%v, %v) : ({V}, {V}) -> ()'),
    "memcpy": (f"gpu.memcpy %v, %w : {V}, {W}", "32 and 16 bytes", f"gpu.memcpy %v, %v : {V}, {V}"),
    "while": (
        f'"lmhlo.while"(%i) ({BLOCK}, {BLOCK}) : (memref<i32>) -> ()',
        "predicate is an i1",
        f'"lmhlo.while"(%p) ({BLOCK}, {BLOCK}) : (memref<i1>) -> ()',
    ),
    "case": (
        f'"lmhlo.case"(%v) ({BLOCK}) : ({V}) -> ()',
        "index is an i1 or i32",
        f'"lmhlo.case"(%i) ({BLOCK}) : (memref<i32>) -> ()',
    ),
    "case of a predicate": (
        f'"lmhlo.case"(%p) ({BLOCK}) : (memref<i1>) -> ()',
        "between two branches, not 1",
        f'"lmhlo.case"(%p) ({BLOCK}, {BLOCK}) : (memref<i1>) -> ()',
    ),
    "call of nothing": (
        f'"lmhlo.call"({ALL}) {{callee = @none}} : ({TYPES}) -> ()',
        "no function @none",
        f'"lmhlo.call"({ALL}) {{callee = @shared}} : ({TYPES}) -> ()',
    ),
    "call of the entry": (
        f'"lmhlo.call"({ALL}) {{callee = @main}} : ({TYPES}) -> ()',
        "@main is not a shared function",
        f'"lmhlo.call"({ALL}, %v, %v) {{callee = @shared}} : ({TYPES}, {V}, {V}) -> ()',
    ),
    "mapping of few": (call("[0]"), "places 1 arguments, but it has 2", call("[0, 2]")),
    "mapping outside": (call("[0, 3]"), "outside of the target's 3", call("[2, 0]")),
    "mapping of two": (call("[1, 1]"), "two arguments at one place", call("[1, 2]")),
    "groups": (
        f'"lmhlo.all_to_all"(%v, %v) {{replica_groups = dense<[[0, 0]]> : tensor<1x2xi64>}} : ({V}, {V}) -> ()',
        "a device is in two groups",
        f'"lmhlo.all_to_all"(%v, %v) {{{GROUPS}}} : ({V}, {V}) -> ()',
    ),
    "types of a collective": (
        f'"lmhlo.all_to_all"(%v, %d) {{{GROUPS}}} : ({V}, {D}) -> ()',
        "different element types",
        f'"lmhlo.all_to_all"(%d, %d) {{{GROUPS}}} : ({D}, {D}) -> ()',
    ),
    "peers": (permute("[[0, 1], [2, 1]]"), "equal targets", permute("[[0, 1], [2, 3]]")),
    "a token that nothing waits for": (START, "nothing waits for it", f"{START}\n{DONE}"),
    "a token used twice": (f"{START}\n{DONE}\n{DONE}", "has several uses", f"{START}\n{DONE}"),
    "a done of another kind": (
        f"{START}\n{DONE.replace('gather', 'reduce')}",
        "waits for lmhlo_gpu.all_gather_start",
        f"{START}\n{DONE}",
    ),
    "dimension numbers": (gemm(2, 0), "dimension numbers [2]", gemm(1, 0)),
    "result of a product": (gemm(1, 0, "%v", V), "the result is (4,), expected (2, 2)", gemm(0, 1)),
    "a factor of a vector": (
        f'"lmhlo.cholesky"(%v, %v) : ({V}, {V}) -> ()',
        "square matrix, not (4,)",
        f'"lmhlo.cholesky"(%m, %m) : ({M}, {M}) -> ()',
    ),
    "lengths of a transform": (fft("2> : tensor<2"), "2 lengths for 1 dimensions", fft("4> : tensor<1")),
    "an empty grid": (
        f"gpu.launch_func @m::@f blocks in (%c1, %c0, %c1) threads in (%c1, %c1, %c1) args(%v : {V})",
        "grid (1, 0, 1)",
        f"gpu.launch_func @m::@f blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%v : {V})",
    ),
    "an identity": (
        '"lmhlo.replica_id"(%i) : (memref<i32>) -> ()',
        "a ui32 scalar",
        '"lmhlo.replica_id"(%u) : (memref<ui32>) -> ()',
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_a_located_error(rule: str) -> None:
    bad, text, good = RULES[rule]
    verify(parse(HEAD + good + TAIL))
    with pytest.raises(XylaError) as caught:
        verify(parse(HEAD + bad + TAIL, "m.mlir"))
    assert caught.value.status is Status.INVALID_ARGUMENT
    assert text in caught.value.message
    assert caught.value.span is not None


def test_the_sample_of_every_operation_keeps_them() -> None:
    module = parse((Path(__file__).parent / "lmhlo_every_op.txt").read_text())
    module.functions = [f for f in module.functions if f.name != "typed"]
    verify(module)


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (Slice(3, 0, 4), "allocation 3, but there are 1"),
        (Slice(0, 6, 4), "bytes 6 to 10 of 8"),
        (Slice(0, 0, 2), "4 bytes in a slice of 2"),
    ],
)
def test_views_lie_inside_their_memory(view: Slice, text: str) -> None:
    inside = lmhlo.View(Slice(0, 0, 4), ArrayType(np.dtype(np.float32), (), ()))
    outside = lmhlo.View(view, inside.type)
    main = lmhlo.Function("main", [lmhlo.Argument(8)], lmhlo.Block([lmhlo.Copy(inside, outside, name="c")]))
    with pytest.raises(XylaError, match=r"lmhlo\.copy") as caught:
        verify(lmhlo.Module("m", [main]))
    assert text in caught.value.message
