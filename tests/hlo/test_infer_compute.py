"""Shapes of contractions, reductions, sorts and transforms, by hand from the operation semantics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xyla.hlo import ops
from xyla.hlo.attr_types import (
    ComparisonDirection,
    ConvDims,
    FftType,
    RandomAlgorithm,
    RandomDistribution,
    Sparsity,
    Transpose,
    Window,
    WindowDim,
)
from xyla.hlo.module import Module
from xyla.hlo.ops.compute import (
    BatchNormAttrs,
    CholeskyAttrs,
    ConvolutionAttrs,
    DeltaAttrs,
    DotAttrs,
    FftAttrs,
    RaggedDotAttrs,
    ReduceAttrs,
    RngAttrs,
    RngBitGeneratorAttrs,
    ScanAttrs,
    SortAttrs,
    TopKAttrs,
    TriangularSolveAttrs,
    WindowAttrs,
)
from xyla.hlo.ops.elementwise import CompareAttrs
from xyla.hlo.ops.movement import DimensionsAttrs
from xyla.hlo.rules.common import higher_precision
from xyla.hlo.verifier import check_instruction
from xyla.support.dtypes import BF16, F32, F64, S32
from xyla.support.status import XylaError
from xyla.testing.build import comparator, computation, infer, parameter, reducer, shape, single_op

MATMUL = DotAttrs(lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
BATCHED = DotAttrs((0,), (2,), (0,), (1,))


def fails(want, *args):
    with pytest.raises(XylaError) as caught:
        infer(*args)
    assert want in caught.value.message


def test_dot():
    assert infer(ops.DOT, ["f32[2,3]", "f32[3,4]"], MATMUL) == "f32[2,4]"
    assert infer(ops.DOT, ["bf16[2,3]", "f32[3,4]"], MATMUL) == "f32[2,4]"
    assert infer(ops.DOT, ["f32[7,2,3]", "f32[7,3,4]"], BATCHED) == "f32[7,2,4]"
    assert infer(ops.DOT, ["f32[2]", "f32[3]"], DotAttrs()) == "f32[2,3]"
    assert infer(ops.DOT, ["f32[<=2,3]", "f32[3,4]"], MATMUL) == "f32[<=2,4]"
    assert infer(ops.DOT, ["f32[2,?]", "f32[3,4]"], MATMUL) == "f32[2,4]"


def test_dot_errors():
    fails("contracting dimension 1 of operand 0, f32[2,3], has size 3", ops.DOT, ["f32[2,3]", "f32[4,4]"], MATMUL)
    fails("batch dimension 0 of operand 0", ops.DOT, ["f32[7,2,3]", "f32[6,3,4]"], BATCHED)
    fails("differ in length", ops.DOT, ["f32[2,3]", "f32[3,4]"], DotAttrs(lhs_contracting_dims=(1,)))
    fails("repeats a dimension", ops.DOT, ["f32[2,3]", "f32[3,4]"], DotAttrs((1,), (1,), (0,), (0,)))
    fails("out of range for rank 2", ops.DOT, ["f32[2,3]", "f32[3,4]"], DotAttrs((), (2,), (), (0,)))
    fails("rhs_batch_dims {} differ in length", ops.DOT, ["f32[2,3]", "f32[3,4]"], DotAttrs((0,), (1,), (), (0,)))
    fails("operand 1 is token[], expected an array", ops.DOT, ["f32[2,3]", "token[]"], MATMUL)
    fails("has size 3", ops.DOT, ["f32[<=2,3]", "f32[4,4]"], MATMUL)


def test_dot_element_type_is_the_authors():
    check_instruction(single_op(ops.DOT, ["s8[2,3]", "s8[3,4]"], "s32[2,4]", MATMUL))
    with pytest.raises(XylaError, match=r"result is c64\[2,4\], expected s8\[2,4\]"):
        check_instruction(single_op(ops.DOT, ["s8[2,3]", "s8[3,4]"], "c64[2,4]", MATMUL))


def test_sparse_dot():
    attrs = DotAttrs((), (1,), (), (0,), sparsity=(Sparsity(0, 1, 2, 4),))
    assert infer(ops.DOT, ["f32[2,16]", "f32[32,4]", "u16[2,2]"], attrs) == "f32[2,4]"
    fails("2 operands, expected 2 and one", ops.DOT, ["f32[2,16]", "f32[32,4]"], attrs)
    fails("sparsity 2:4 does not fit", ops.DOT, ["f32[2,15]", "f32[32,4]", "u16[2,2]"], attrs)


def test_scaled_dot():
    assert infer(ops.SCALED_DOT, ["f8e4m3fn[2,32]", "f8e4m3fn[32,4]", "f32[2,1]", "f32[]"], MATMUL) == "f8e4m3fn[2,4]"
    fails("operand 2 is f32[2,3]", ops.SCALED_DOT, ["f32[2,32]", "f32[32,4]", "f32[2,3]", "f32[]"], MATMUL)


def test_ragged_dot():
    free = RaggedDotAttrs((), (1,), (), (1,), (0,), (0,))
    assert infer(ops.RAGGED_DOT, ["f32[11,5]", "f32[3,5,7]", "s32[3]"], free) == "f32[11,7]"
    contracting = RaggedDotAttrs((), (1,), (), (0,), (1,), ())
    assert infer(ops.RAGGED_DOT, ["f32[11,5]", "f32[5,7]", "s32[3]"], contracting) == "f32[3,11,7]"
    fails(
        "expected exactly one", ops.RAGGED_DOT, ["f32[11,5]", "f32[5,7]", "s32[3]"], RaggedDotAttrs((), (1,), (), (0,))
    )
    fails("operand 2 is f32[3]", ops.RAGGED_DOT, ["f32[11,5]", "f32[3,5,7]", "f32[3]"], free)
    fails(
        "rhs_group_dims {}, expected exactly one",
        ops.RAGGED_DOT,
        ["f32[11,5]", "f32[5,7]", "s32[3]"],
        RaggedDotAttrs((), (1,), (), (0,), (0,)),
    )
    fails(
        "rhs_group_dims {0}, expected none",
        ops.RAGGED_DOT,
        ["f32[11,5]", "f32[3,5,7]", "s32[3]"],
        RaggedDotAttrs((), (1,), (), (1,), (1,), (0,)),
    )
    fails("contracting dimension 1 of operand 0", ops.RAGGED_DOT, ["f32[11,5]", "f32[3,6,7]", "s32[3]"], free)


NHWC = ConvDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))


def conv(*windows, **more):
    return ConvolutionAttrs(window=Window(tuple(WindowDim(*w) for w in windows)), dim_labels=NHWC, **more)


def conv_with(**changes):
    return replace(conv((3,), (3,)), dim_labels=replace(NHWC, **changes))


def test_convolution():
    operands = ["f32[8,10,12,4]", "f32[3,3,4,16]"]
    assert infer(ops.CONVOLUTION, operands, conv((3,), (3,))) == "f32[8,8,10,16]"
    assert infer(ops.CONVOLUTION, operands, conv((3, 2, 1, 1), (3, 2, 1, 0))) == "f32[8,5,6,16]"
    # dilated: base 10 -> 19, kernel 3 -> 5
    assert infer(ops.CONVOLUTION, operands, conv((3, 1, 0, 0, 2, 2), (3,))) == "f32[8,15,10,16]"
    grouped = ["f32[8,10,12,4]", "f32[3,3,1,16]"]
    assert infer(ops.CONVOLUTION, grouped, conv((3,), (3,), feature_group_count=4)) == "f32[8,8,10,16]"
    assert infer(ops.CONVOLUTION, operands, conv((3,), (3,), batch_group_count=4)) == "f32[2,8,10,16]"


def test_convolution_errors():
    operands = ["f32[8,10,12,4]", "f32[3,3,4,16]"]
    fails("window has 1 dimensions, expected 2", ops.CONVOLUTION, operands, conv((3,)))
    fails("window size of spatial dimension 1 is 2", ops.CONVOLUTION, operands, conv((3,), (2,)))
    fails("stride 0", ops.CONVOLUTION, operands, conv((3, 0), (3,)))
    fails(
        "operand 0 has 4 input features, expected 8", ops.CONVOLUTION, operands, conv((3,), (3,), feature_group_count=2)
    )
    fails("16 output features do not divide", ops.CONVOLUTION, operands, conv((3,), (3,), batch_group_count=3))
    fails("must be positive", ops.CONVOLUTION, operands, conv((3,), (3,), batch_group_count=0))
    fails("input batch 8 does not divide into 16", ops.CONVOLUTION, operands, conv((3,), (3,), batch_group_count=16))
    fails("each kernel dimension once", ops.CONVOLUTION, operands, conv_with(kernel_spatial=(0, 0)))
    fails("name 1 spatial dimensions", ops.CONVOLUTION, operands, conv_with(input_spatial=(1,)))
    fails("cannot both", ops.CONVOLUTION, operands, conv((3,), (3,), batch_group_count=2, feature_group_count=2))
    fails("operand 1 is f32[3,3,4], expected rank 4", ops.CONVOLUTION, [operands[0], "f32[3,3,4]"], conv((3,), (3,)))


def test_reduce():
    add = reducer(Module("m"), F32)
    assert infer(ops.REDUCE, ["f32[2,3,4]", "f32[]"], ReduceAttrs((1,)), [add]) == "f32[2,4]"
    assert infer(ops.REDUCE, ["f32[2,<=3]", "f32[]"], ReduceAttrs((0,)), [add]) == "f32[<=3]"
    assert infer(ops.REDUCE, ["bf16[2]", "bf16[]"], ReduceAttrs((0,)), [add]) == "f32[]"
    fails("dimensions {2} holds 2", ops.REDUCE, ["f32[2,3]", "f32[]"], ReduceAttrs((2,)), [add])
    fails("operand 1 is f32[1], expected a scalar", ops.REDUCE, ["f32[2]", "f32[1]"], ReduceAttrs((0,)), [add])
    fails("returns f32[], expected s32[]", ops.REDUCE, ["s32[2]", "s32[]"], ReduceAttrs((0,)), [add])
    fails("operand 1 is token[], expected an array", ops.REDUCE, ["f32[2]", "token[]"], ReduceAttrs((0,)), [add])
    fails("3 operands, expected as many", ops.REDUCE, ["f32[2]", "f32[2]", "f32[]"], ReduceAttrs((0,)), [add])


def argmax_like(module):
    comp = module.add_computation("pair")
    params = [parameter(comp, t) for t in ("f32[]", "s32[]", "f32[]", "s32[]")]
    comp.set_root(comp.add(ops.TUPLE, params[:2]))
    return comp


def test_variadic_reduce():
    pair = argmax_like(Module("m"))
    operands = ["f32[2,3]", "s32[2,3]", "f32[]", "s32[]"]
    assert infer(ops.REDUCE, operands, ReduceAttrs((0,)), [pair]) == "(f32[3], s32[3])"
    fails("operand 1 is s32[3,3]", ops.REDUCE, ["f32[2,3]", "s32[3,3]", *operands[2:]], ReduceAttrs((0,)), [pair])
    fails("takes 4 parameters, expected 2", ops.REDUCE, ["f32[2]", "f32[]"], ReduceAttrs((0,)), [pair])


def window(*dims):
    return WindowAttrs(Window(tuple(WindowDim(*d) for d in dims)))


def test_reduce_window():
    add = reducer(Module("m"), F32)
    assert infer(ops.REDUCE_WINDOW, ["f32[8,9]", "f32[]"], window((2, 2), (3, 1, 1, 1)), [add]) == "f32[4,9]"
    assert infer(ops.REDUCE_WINDOW, ["f32[3]", "f32[]"], window((4,)), [add]) == "f32[0]"
    fails("window has 1 dimensions", ops.REDUCE_WINDOW, ["f32[8,9]", "f32[]"], window((2,)), [add])
    fails("has size 0", ops.REDUCE_WINDOW, ["f32[8]", "f32[]"], window((0,)), [add])
    fails("window dilation -1", ops.REDUCE_WINDOW, ["f32[8]", "f32[]"], window((2, 1, 0, 0, 1, -1)), [add])


def test_select_and_scatter():
    module = Module("m")
    ge = computation(module, ["f32[]", "f32[]"], ops.COMPARE, CompareAttrs(ComparisonDirection.GE))
    add = reducer(module, F32)
    called = [ge, add]
    assert infer(ops.SELECT_AND_SCATTER, ["f32[8]", "f32[4]", "f32[]"], window((2, 2)), called) == "f32[8]"
    fails(
        "operand 1 is f32[3], expected f32[4]",
        ops.SELECT_AND_SCATTER,
        ["f32[8]", "f32[3]", "f32[]"],
        window((2, 2)),
        called,
    )
    fails("expected pred[]", ops.SELECT_AND_SCATTER, ["f32[8]", "f32[4]", "f32[]"], window((2, 2)), [add, add])


def test_select_and_scatter_signatures():
    module = Module("m")
    add = reducer(module, F32)
    ge = computation(module, ["f32[]", "f32[]"], ops.COMPARE, CompareAttrs(ComparisonDirection.GE))
    ints = computation(module, ["s32[]", "s32[]"], ops.COMPARE, CompareAttrs(ComparisonDirection.GE))
    operands = ["f32[8]", "f32[4]", "f32[]"]
    fails("parameter 0 of computation", ops.SELECT_AND_SCATTER, operands, window((2, 2)), [ints, add])
    fails("operand 2 is f32[1]", ops.SELECT_AND_SCATTER, [*operands[:2], "f32[1]"], window((2, 2)), [ge, add])


def test_map():
    module = Module("m")
    to_pred = computation(module, ["f32[]", "f32[]"], ops.COMPARE, CompareAttrs(ComparisonDirection.GE))
    assert infer(ops.MAP, ["f32[2,3]", "f32[2,3]"], DimensionsAttrs((0, 1)), [to_pred]) == "pred[2,3]"
    fails("operand 1 is f32[3,2]", ops.MAP, ["f32[2,3]", "f32[3,2]"], DimensionsAttrs((0, 1)), [to_pred])
    pair = argmax_like(module)
    operands = ["f32[2]", "s32[2]", "f32[2]", "s32[2]"]
    fails("returns (f32[], s32[]), expected a scalar", ops.MAP, operands, DimensionsAttrs((0,)), [pair])
    fails("dimensions {1,0}", ops.MAP, ["f32[2,3]", "f32[2,3]"], DimensionsAttrs((1, 0)), [to_pred])
    fails("takes 2 parameters", ops.MAP, ["f32[2,3]"], DimensionsAttrs((0, 1)), [to_pred])
    fails("parameter 0 of", ops.MAP, ["s32[2]", "s32[2]"], DimensionsAttrs((0,)), [to_pred])


def test_sort():
    module = Module("m")
    less, less2 = comparator(module, [F32]), comparator(module, [F32, S32])
    assert infer(ops.SORT, ["f32[2,3]"], SortAttrs(1), [less]) == "f32[2,3]"
    assert infer(ops.SORT, ["f32[2,3]", "s32[2,3]"], SortAttrs(1), [less2]) == "(f32[2,3], s32[2,3])"
    fails("dimension 2 is out of range", ops.SORT, ["f32[2,3]"], SortAttrs(2), [less])
    fails("operand 1 is s32[2]", ops.SORT, ["f32[2,3]", "s32[2]"], SortAttrs(1), [less2])
    fails("takes 4 parameters, expected 2", ops.SORT, ["f32[2,3]"], SortAttrs(1), [less2])
    fails("parameter 0 of", ops.SORT, ["s32[2]"], SortAttrs(0), [less])
    fails("expected pred[]", ops.SORT, ["f32[2]"], SortAttrs(0), [reducer(module, F32)])


def three(module):
    """A scan body that takes three carries and returns two values."""
    comp = module.add_computation("three")
    params = [parameter(comp, "f32[4]") for _ in range(4)]
    comp.set_root(comp.add(ops.TUPLE, params[:2]))
    return comp


def test_scan():
    module = Module("m")
    body = module.add_computation("body")
    x, carry = parameter(body, "f32[4]"), parameter(body, "f32[4]")
    total = body.add(ops.ADD, [x, carry])
    body.set_root(body.add(ops.TUPLE, [total, total]))
    attrs = ScanAttrs(dimension=1, num_carries=1)
    assert infer(ops.SCAN, ["f32[4,7]", "f32[4]"], attrs, [body]) == "(f32[4,7], f32[4])"
    fails("parameter 1 of computation", ops.SCAN, ["f32[4,7]", "f32[5]"], attrs, [body])
    fails(
        "returns 2 values, expected 3 carries",
        ops.SCAN,
        ["f32[4,7]", *["f32[4]"] * 3],
        ScanAttrs(1, 3),
        [three(module)],
    )
    swapped = module.add_computation("swapped")
    y, start = parameter(swapped, "f32[4]"), parameter(swapped, "f32[5]")
    swapped.set_root(swapped.add(ops.TUPLE, [start, y]))
    fails("returns carry f32[4], expected f32[5]", ops.SCAN, ["f32[4,7]", "f32[5]"], attrs, [swapped])
    fails("num_carries 2 is out of range", ops.SCAN, ["f32[4,7]", "f32[4]"], ScanAttrs(1, 2), [body])


def test_topk():
    assert infer(ops.TOPK, ["f32[2,9]"], TopKAttrs(3)) == "(f32[2,3], s32[2,3])"
    fails("k is 10", ops.TOPK, ["f32[2,9]"], TopKAttrs(10))
    fails("at least one dimension", ops.TOPK, ["f32[]"], TopKAttrs(0))


def test_fft():
    assert infer(ops.FFT, ["c64[2,8]"], FftAttrs(FftType.FFT, (8,))) == "c64[2,8]"
    assert infer(ops.FFT, ["f32[2,8]"], FftAttrs(FftType.RFFT, (8,))) == "c64[2,5]"
    assert infer(ops.FFT, ["c128[2,5]"], FftAttrs(FftType.IRFFT, (9,))) == "f64[2,9]"
    fails("operand 0 is f32[8]", ops.FFT, ["f32[8]"], FftAttrs(FftType.FFT, (8,)))
    fails("operand 0 is c64[8]", ops.FFT, ["c64[8]"], FftAttrs(FftType.RFFT, (8,)))
    fails("expected size 9", ops.FFT, ["f32[8]"], FftAttrs(FftType.RFFT, (9,)))
    fails("expected size 6", ops.FFT, ["c64[5]"], FftAttrs(FftType.IRFFT, (10,)))
    fails("fft_length has 4 entries", ops.FFT, ["c64[1,1,1,1]"], FftAttrs(FftType.FFT, (1, 1, 1, 1)))


def test_solvers():
    solve = TriangularSolveAttrs(True, True, False, Transpose.NO_TRANSPOSE)
    assert infer(ops.CHOLESKY, ["f32[5,3,3]{1,2,0}"], CholeskyAttrs()) == "f32[5,3,3]"
    assert infer(ops.TRIANGULAR_SOLVE, ["f32[5,3,3]", "f32[5,3,2]"], solve) == "f32[5,3,2]"
    fails("expected square matrices", ops.CHOLESKY, ["f32[3,4]"], CholeskyAttrs())
    fails("operand 0 is s32[3,3]", ops.CHOLESKY, ["s32[3,3]"], CholeskyAttrs())
    fails("expected rank 2 or more", ops.CHOLESKY, ["f32[3]"], CholeskyAttrs())
    fails("expected size 3 in the dimension shared", ops.TRIANGULAR_SOLVE, ["f32[3,3]", "f32[2,3]"], solve)
    fails("the batch dims", ops.TRIANGULAR_SOLVE, ["f32[5,3,3]", "f32[4,3,2]"], solve)
    fails("element type f32", ops.TRIANGULAR_SOLVE, ["f32[3,3]", "f64[3,2]"], solve)
    fails("transpose_a", ops.TRIANGULAR_SOLVE, ["f32[3,3]", "f32[3,2]"], TriangularSolveAttrs(True))


def test_batch_norm():
    attrs = BatchNormAttrs(0.001, 1)
    x, v = "f32[2,3,4]", "f32[3]"
    assert infer(ops.BATCH_NORM_TRAINING, [x, v, v], attrs) == f"({x}, {v}, {v})"
    assert infer(ops.BATCH_NORM_INFERENCE, [x, v, v, v, v], attrs) == x
    assert infer(ops.BATCH_NORM_GRAD, [x, v, v, v, x], attrs) == f"({x}, {v}, {v})"
    fails("operand 2 is f32[4], expected f32[3]", ops.BATCH_NORM_TRAINING, [x, v, "f32[4]"], attrs)
    fails("operand 4 is f32[3], expected f32[2,3,4]", ops.BATCH_NORM_GRAD, [x, v, v, v, v], attrs)
    fails("feature_index 3", ops.BATCH_NORM_TRAINING, [x, v, v], BatchNormAttrs(0.1, 3))
    fails(
        "expected a floating-point array",
        ops.BATCH_NORM_TRAINING,
        ["s32[3]", "s32[3]", "s32[3]"],
        BatchNormAttrs(0.1, 0),
    )


NORMAL = RngAttrs(RandomDistribution.NORMAL)
BITS = RngBitGeneratorAttrs(RandomAlgorithm.PHILOX)


@pytest.mark.parametrize(
    ("op", "operands", "result", "attrs", "want"),
    [
        (ops.RNG, ["f32[]", "f32[]"], "f32[2,3]", NORMAL, None),
        (ops.RNG, ["f32[]", "s32[]"], "f32[2,3]", NORMAL, "operand 1 is s32[], expected f32[]"),
        (ops.RNG, ["s32[]", "s32[]"], "s32[2]", NORMAL, "expected floating-point numbers"),
        (ops.RNG_BIT_GENERATOR, ["u64[3]"], "(u64[3], u32[7])", BITS, None),
        (ops.RNG_BIT_GENERATOR, ["u64[3]"], "u32[7]", BITS, None),
        (ops.RNG_BIT_GENERATOR, ["u64[3]"], "(u64[2], u32[7])", BITS, "expected (u64[3], bits)"),
        (ops.RNG, ["c64[]", "c64[]"], "c64[2]", NORMAL, "expected an array of real numbers"),
        (ops.RNG, ["f32[]", "f32[]", "s32[2]"], "f32[2,3]", NORMAL, None),
        (ops.RNG, ["f32[]", "f32[]", "f32[2]"], "f32[2,3]", NORMAL, "operand 2 is f32[2]"),
        (ops.RNG_BIT_GENERATOR, ["u64[3]"], "token[]", BITS, "expected bits or (state, bits)"),
        (ops.RNG_GET_AND_UPDATE_STATE, [], "u64[2]", DeltaAttrs(1), None),
        (ops.RNG_GET_AND_UPDATE_STATE, [], "u64[3]", DeltaAttrs(1), "expected u64[2]"),
    ],
)
def test_random(op, operands, result, attrs, want):
    inst = single_op(op, operands, result, attrs)
    if want is None:
        check_instruction(inst)
        return
    with pytest.raises(XylaError) as caught:
        check_instruction(inst)
    assert want in caught.value.message


def test_reducer_signature():
    module = Module("m")
    mixed = module.add_computation("mixed")
    wide = mixed.add(ops.CONVERT, [parameter(mixed, "bf16[]")], shape=shape("f32[]"))
    parameter(mixed, "bf16[]")
    mixed.set_root(wide)
    fails("returns f32[] but takes bf16[]", ops.REDUCE, ["bf16[2]", "bf16[]"], ReduceAttrs((0,)), [mixed])
    rows = computation(module, ["f32[2]", "f32[2]"], ops.ADD)
    narrow = module.add_computation("narrow")
    first = parameter(narrow, "f32[]")
    parameter(narrow, "s32[]")
    narrow.set_root(narrow.add(ops.NEGATE, [first]))
    fails("parameter 1 of computation 'narrow' is s32[]", ops.REDUCE, ["f32[2]", "f32[]"], ReduceAttrs((0,)), [narrow])
    fails("returns f32[2], expected a scalar", ops.REDUCE, ["f32[2]", "f32[]"], ReduceAttrs((0,)), [rows])


def test_element_types_are_ranked():
    assert higher_precision(F32, BF16) is F32
    assert higher_precision(F32, F64) is F64
