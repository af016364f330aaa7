"""LMHLO as text: every operation reads, prints and reads back equal; mlir-opt takes it; faults are located."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from xyla.hlo.attr_types import ConvDims, Precision
from xyla.lowering import lmhlo
from xyla.lowering.lmhlo_reader import parse
from xyla.lowering.lmhlo_text import print_module
from xyla.lowering.lmhlo_verify import verify
from xyla.runtime.program import ArrayType, Slice
from xyla.support.status import Status, XylaError
from xyla.testing.mutate import mutate

EVERY_OP = (Path(__file__).parent / "lmhlo_every_op.txt").read_text()
MLIR_OPT = next((p for name in ("mlir-opt-19", "mlir-opt") if (p := shutil.which(name))), None)


def everything() -> lmhlo.Module:
    return parse(EVERY_OP, "every_op.mlir")


def found(cls: type[lmhlo.Op]) -> lmhlo.Op:
    return next(op for f in everything().functions for op in f.body.walk() if type(op) is cls)


def test_the_sample_has_every_operation() -> None:
    present = {type(op) for f in everything().functions for op in f.body.walk()}
    assert present == set(lmhlo.all_ops())


def test_text_reads_back_equal_and_prints_the_same() -> None:
    module = everything()
    text = print_module(module)
    again = parse(text)
    assert again == module
    assert print_module(again) == text


@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt is not installed (Debian: mlir-19-tools)")
def test_mlir_opt_accepts_the_text(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(print_module(everything()))
    assert MLIR_OPT is not None
    done = subprocess.run([MLIR_OPT, "--allow-unregistered-dialect", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    generic = subprocess.run(
        [MLIR_OPT, "--allow-unregistered-dialect", "--mlir-print-op-generic", "--mlir-print-debuginfo", path],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert len(list(parse(generic.stdout).entry.body.walk())) == len(list(everything().entry.body.walk()))


def test_memory_is_read_through_views_casts_globals_and_typed_arguments() -> None:
    gemm = found(lmhlo.Gemm)
    assert isinstance(gemm, lmhlo.Gemm)
    f32 = np.dtype(np.float32)
    assert gemm.b == lmhlo.View(Slice(2, 64, 80), ArrayType(f32, (4, 5), (4, 16)))
    assert gemm.dot_dimension_numbers == lmhlo.DotDims((), (), (1,), (0,))
    conv = found(lmhlo.ConvForward)
    assert isinstance(conv, lmhlo.ConvForward)
    assert conv.input.type.strides == (32768, 8, 2, 32)
    assert conv.input.slice == Slice(0, 0, 32768)
    assert conv.dimension_numbers == ConvDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    assert (conv.padding, conv.window_reversal) == (((0, 1), (0, 0)), (False, False))
    assert conv.precision_config == (Precision.HIGH, Precision.DEFAULT)
    launch = found(lmhlo.LaunchFunc)
    assert isinstance(launch, lmhlo.LaunchFunc)
    assert (launch.grid, launch.block, launch.kernel) == ((64, 1, 1), (1, 1, 1), "fn")
    copy = found(lmhlo.Memcpy)
    assert isinstance(copy, lmhlo.Memcpy)
    assert (copy.dst.space, copy.src.space) == (lmhlo.Space.HOST, lmhlo.Space.ARGUMENT)


def test_argument_attributes_say_what_each_allocation_is() -> None:
    x, y, _, few, out = everything().entry.arguments
    assert (x.params, x.name, str(x.shape)) == (0, "x", "f32[4,5]{1,0}")
    assert (y.param_shape_index, y.must_alias, y.output_index) == ((1, 0), True, ((0,),))
    assert (few.constant_name, few.alloc) == ("few", 3)
    assert out.output_index == ((), (1, 2))
    constants = {g.name: g.literal for g in everything().globals}
    np.testing.assert_array_equal(constants["few"].array, [[1, 2, 3], [4, 5, -6]])
    assert constants["turned"].shape.strides() == (1, 2)


def test_replica_groups_of_unequal_size_are_filled_up() -> None:
    reduce = found(lmhlo.AllReduce)
    assert isinstance(reduce, lmhlo.AllReduce)
    assert reduce.replica_groups == ((0, 1), (2,))
    assert reduce.computation == lmhlo.Reducer("maximum")
    assert reduce.channel_id == lmhlo.ChannelHandle(1)


def test_equality_looks_at_attributes_regions_and_names() -> None:
    def change(cls: type[lmhlo.Op], **values: object) -> lmhlo.Module:
        module = everything()
        op = next(o for f in module.functions for o in f.body.walk() if type(o) is cls)
        for name, value in values.items():
            setattr(op, name, value)
        return module

    assert change(lmhlo.While) == everything()
    assert change(lmhlo.While, trip_count=8) != everything()
    assert change(lmhlo.Launch, name="other") != everything()
    nested = change(lmhlo.Case, branches=(lmhlo.Block(), lmhlo.Block(), lmhlo.Block()))
    assert nested != everything()
    assert change(lmhlo.AllReduce, computation=lmhlo.Reducer("add")) != everything()


def test_the_entry_is_the_first_public_function() -> None:
    private = "func.func private @inner(%x: memref<4xf32>)"
    public = "func.func @outer(%x: memref<4xf32>)"
    module = parse(f"{private} {{{TAIL}{public} {{{TAIL}")
    assert [f.name for f in module.functions] == ["outer", "inner"]
    assert module.functions[1].arguments is module.entry.arguments


HEAD = """func.func @f(%x: memref<16xi8>, %y: memref<4xf32>, %n: memref<i64>) {
  %c8 = arith.constant 8 : index
"""
TAIL = '\n  "lmhlo.terminator"() : () -> ()\n}\n'


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ('"lmhlo.sotr"(%y) : (memref<4xf32>) -> ()', Status.UNIMPLEMENTED, "lmhlo.sotr has no 'hlo' attribute"),
        ('"other.op"(%y) : (memref<4xf32>) -> ()', Status.INVALID_ARGUMENT, "other.op is no operation"),
        ('"lmhlo.copy"(%y) : (memref<4xf32>) -> ()', Status.INVALID_ARGUMENT, "takes 2 operands, not 1"),
        ('"lmhlo.while"(%y) : (memref<4xf32>) -> ()', Status.INVALID_ARGUMENT, "needs a region 'condition'"),
        ('"lmhlo.fft"(%y, %y) : (memref<4xf32>, memref<4xf32>) -> ()', Status.INVALID_ARGUMENT, "'fft_type'"),
        (
            '"lmhlo.custom_call"(%y) {call_target_name = "t"} : (memref<4xf32>) -> ()',
            Status.INVALID_ARGUMENT,
            "needs operand_segment_sizes",
        ),
        (
            "%v = memref.view %x[%c8][] : memref<16xi8> to memref<4xf32>",
            Status.INVALID_ARGUMENT,
            "bytes 8 to 24 of 16 are outside",
        ),
        ("%g = memref.get_global @none : memref<4xf32>", Status.INVALID_ARGUMENT, "@none is not defined"),
        ("return %y : memref<4xf32>", Status.INVALID_ARGUMENT, "func.return is no operation"),
    ],
)
def test_faults_are_located(line: str, status: Status, text: str) -> None:
    with pytest.raises(XylaError) as caught:
        parse(f"{HEAD}  {line}{TAIL}", "f.mlir")
    assert caught.value.status is status
    assert text in str(caught.value)
    assert caught.value.span is not None


def test_damaged_texts_are_refused_or_make_sense() -> None:
    data = EVERY_OP.split("\n  func.func private", maxsplit=1)[0].encode() + b"}\n"
    statuses = {seed: _status_of(mutate(data, seed)[1].decode("utf-8", "surrogateescape")) for seed in range(150)}
    allowed = {Status.OK, Status.INVALID_ARGUMENT, Status.UNIMPLEMENTED}
    assert not {seed: status for seed, status in statuses.items() if status not in allowed}


def _status_of(text: str) -> Status:
    try:
        module = parse(text, "damaged.mlir")
        verify(module)
        again = parse(print_module(module))
    except XylaError as error:
        return error.status
    return Status.OK if again == module else Status.INTERNAL


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("strided<[8, 1]>", "elements that do not lie side by side"),
        ("strided<[2, 1], offset: 3>", "a layout with an offset"),
        ("affine_map<(d0, d1) -> (d0 mod 2)>", "not a sum of dimensions"),
    ],
)
def test_layouts_with_gaps_are_refused(layout: str, text: str) -> None:
    with pytest.raises(XylaError) as caught:
        parse(f"func.func @f(%x: memref<2x2xf32, {layout}>) {{{TAIL}")
    assert caught.value.status is Status.UNIMPLEMENTED
    assert text in caught.value.message


def test_reductions_that_are_no_single_operation_are_refused() -> None:
    reduce = EVERY_OP.index('"mhlo.maximum"')
    text = EVERY_OP[:reduce] + '"mhlo.subtract"' + EVERY_OP[reduce + len('"mhlo.maximum"') :]
    with pytest.raises(XylaError, match="none of add, multiply, minimum, maximum, and, or") as caught:
        parse(text)
    assert caught.value.status is Status.UNIMPLEMENTED


def test_dimension_numbers_name_each_dimension_once() -> None:
    text = EVERY_OP.replace("raw input_batch_dimension = 0", "raw input_batch_dimension = 7")
    with pytest.raises(XylaError, match="each dimension of three arrays"):
        parse(text)


def test_dynamic_buffers_are_refused() -> None:
    with pytest.raises(XylaError, match="static shape") as caught:
        parse("func.func @f(%x: memref<?xf32>) {" + TAIL)
    assert caught.value.status is Status.UNIMPLEMENTED
