"""Shapes of data movement, gather and scatter, by hand from the operation semantics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xyla.hlo import ops
from xyla.hlo.attr_types import PaddingDim, SliceDim
from xyla.hlo.module import Module
from xyla.hlo.op_def import NO_ATTRS
from xyla.hlo.ops.movement import (
    DimensionAttrs,
    DimensionsAttrs,
    DynamicSliceAttrs,
    GatherAttrs,
    PadAttrs,
    ReshapeAttrs,
    ScatterAttrs,
    SliceAttrs,
)
from xyla.hlo.verifier import check_instruction
from xyla.support.dtypes import F32
from xyla.support.status import XylaError
from xyla.testing.build import infer, parameter, reducer, single_op


def dims(*of):
    return DimensionsAttrs(of)


def slices(*ranges):
    return SliceAttrs(tuple(SliceDim(*r) for r in ranges))


def pad(*edges):
    return PadAttrs(tuple(PaddingDim(*e) for e in edges))


GOOD = [
    (ops.TRANSPOSE, ["f32[2,3,4]"], dims(2, 0, 1), "f32[4,2,3]"),
    (ops.TRANSPOSE, ["f32[2,<=3]{1,0}"], dims(1, 0), "f32[<=3,2]"),
    (ops.REVERSE, ["f32[2,3]{0,1}"], dims(0), "f32[2,3]"),
    (ops.SLICE, ["f32[10,4]"], slices((1, 8, 3), (0, 4)), "f32[3,4]"),
    (ops.SLICE, ["f32[10]"], slices((5, 5)), "f32[0]"),
    (ops.SLICE, ["f32[<=10,<=4]"], slices((0, 10), (2, 3)), "f32[<=10,1]"),
    (ops.DYNAMIC_SLICE, ["f32[4,5]", "s32[]", "s32[]"], DynamicSliceAttrs((1, 5)), "f32[1,5]"),
    (ops.DYNAMIC_SLICE, ["f32[4,5]", "s64[2]"], DynamicSliceAttrs((1, 5)), "f32[1,5]"),
    (ops.DYNAMIC_SLICE, ["f32[]"], DynamicSliceAttrs(()), "f32[]"),
    (ops.DYNAMIC_UPDATE_SLICE, ["f32[4,5]{0,1}", "f32[1,5]", "s32[]", "s32[]"], NO_ATTRS, "f32[4,5]{0,1}"),
    (ops.PAD, ["f32[3,0]", "f32[]"], pad((1, 2, 2), (0, 0, 5)), "f32[10,0]"),
    (ops.PAD, ["f32[5]", "f32[]"], pad((-2, -3)), "f32[0]"),
    (ops.CONCATENATE, ["f32[2,3]", "f32[4,3]"], DimensionAttrs(0), "f32[6,3]"),
    (ops.CONCATENATE, ["f32[2,3]"], DimensionAttrs(1), "f32[2,3]"),
    (ops.CONCATENATE, ["f32[<=2,3]", "f32[4,3]"], DimensionAttrs(0), "f32[<=6,3]"),
    (ops.GET_DIMENSION_SIZE, ["f32[2,3]"], DimensionAttrs(1), "s32[]"),
    (ops.SET_DIMENSION_SIZE, ["f32[2,3]", "s32[]"], DimensionAttrs(1), "f32[2,<=3]"),
]

BAD = [
    (ops.TRANSPOSE, ["f32[2,3]"], dims(0, 0), "dimensions {0,0} is not a permutation"),
    (ops.REVERSE, ["f32[2,3]"], dims(2), "dimensions {2} holds 2, out of range for rank 2"),
    (ops.REVERSE, ["f32[2,3]"], dims(1, 1), "dimensions {1,1} repeats a dimension"),
    (ops.SLICE, ["f32[10]"], slices((1, 11)), "slice [1:11] of dimension 0 leaves its size 10"),
    (ops.SLICE, ["f32[10]"], slices((5, 4)), "slice [5:4]"),
    (ops.SLICE, ["f32[10]"], slices((0, 4, 0)), "has stride 0"),
    (ops.SLICE, ["f32[10,2]"], slices((0, 4)), "slice has 1 ranges for the 2 dimensions"),
    (ops.DYNAMIC_SLICE, ["f32[4]", "s32[]"], DynamicSliceAttrs((5,)), "slice size 5 of dimension 0 does not fit"),
    (ops.DYNAMIC_SLICE, ["f32[4,4]", "s32[]"], DynamicSliceAttrs((1, 1)), "1 start indices for 2 dimensions"),
    (ops.DYNAMIC_SLICE, ["f32[4]", "f32[]"], DynamicSliceAttrs((1,)), "operand 1 is f32[], expected an integer scalar"),
    (ops.DYNAMIC_SLICE, ["f32[4,4]", "s32[]", "s64[]"], DynamicSliceAttrs((1, 1)), "expected s32[] like operand 1"),
    (ops.DYNAMIC_UPDATE_SLICE, ["f32[4]", "f32[5]", "s32[]"], NO_ATTRS, "at most 4 elements in dimension 0"),
    (ops.DYNAMIC_UPDATE_SLICE, ["f32[4]", "s32[4]", "s32[]"], NO_ATTRS, "operand 1 is s32[4], expected an update"),
    (ops.DYNAMIC_SLICE, ["f32[4,4]", "s32[]", "s32[]"], DynamicSliceAttrs((1,)), "has 1 sizes for rank 2"),
    (ops.DYNAMIC_SLICE, ["f32[4,4]", "s32[3]"], DynamicSliceAttrs((1, 1)), "operand 1 is s32[3], expected 2 start"),
    (ops.PAD, ["f32[3,3]", "f32[]"], pad((0, 0)), "padding has 1 dimensions for rank 2"),
    (ops.PAD, ["f32[3]", "f32[1]"], pad((0, 0)), "operand 1 is f32[1], expected f32[]"),
    (ops.PAD, ["f32[3]", "f32[]"], pad((0, -4)), "leaves size -1"),
    (ops.PAD, ["f32[3]", "f32[]"], pad((0, 0, -1)), "interior padding of dimension 0 is -1"),
    (ops.CONCATENATE, ["f32[2,3]", "f32[4,4]"], DimensionAttrs(0), "operand 1 is f32[4,4], expected size 3"),
    (ops.CONCATENATE, ["f32[2,3]", "s32[4,3]"], DimensionAttrs(0), "operand 1 is s32[4,3]"),
    (ops.CONCATENATE, ["f32[2,3]"], DimensionAttrs(2), "dimension 2 is out of range for rank 2"),
    (ops.GET_DIMENSION_SIZE, ["f32[2]"], DimensionAttrs(1), "dimension 1 is out of range"),
    (ops.SET_DIMENSION_SIZE, ["f32[2]", "f32[]"], DimensionAttrs(0), "operand 1 is f32[], expected s32[]"),
]


@pytest.mark.parametrize(("op", "operands", "attrs", "want"), GOOD)
def test_shape(op, operands, attrs, want):
    assert infer(op, operands, attrs) == want


@pytest.mark.parametrize(("op", "operands", "attrs", "want"), BAD)
def test_error(op, operands, attrs, want):
    with pytest.raises(XylaError) as caught:
        infer(op, operands, attrs)
    assert want in caught.value.message


STATED = [
    (ops.BROADCAST, ["f32[3]"], dims(1), "f32[2,3]", None),
    (ops.BROADCAST, ["f32[3,2]"], dims(1, 0), "f32[2,3]", None),
    (ops.BROADCAST, ["f32[3]"], dims(0), "f32[2,3]", "dimension 0 of operand 0 has size 3 but becomes dimension 0"),
    (ops.BROADCAST, ["f32[3]"], dims(), "f32[2,3]", "names 0 dimensions of operand 0"),
    (ops.BROADCAST, ["f32[3]"], dims(2), "f32[2,3]", "out of range for rank 2"),
    (ops.BROADCAST, ["f32[3]"], dims(1), "s32[2,3]", "expected element type f32"),
    (ops.RESHAPE, ["f32[6]"], ReshapeAttrs(), "f32[2,3]", None),
    (ops.RESHAPE, ["f32[6]"], ReshapeAttrs(), "f32[2,2]", "result f32[2,2] has 4 elements, operand 0 f32[6] has 6"),
    (ops.RESHAPE, ["f32[6]"], ReshapeAttrs(2), "f32[2,3]", "inferred_dimension 2 is out of range"),
    (ops.DYNAMIC_RESHAPE, ["f32[6]", "s32[]", "s32[]"], NO_ATTRS, "f32[<=2,3]", None),
    (ops.DYNAMIC_RESHAPE, ["f32[6]", "s32[]"], NO_ATTRS, "f32[<=2,3]", "1 sizes for the 2 dimensions"),
    (ops.BITCAST, ["f32[6]"], NO_ATTRS, "s32[3,2]", None),
    (ops.BITCAST, ["f32[6]"], NO_ATTRS, "s8[3,2]", "has 6 bytes, operand 0 f32[6] has 24"),
    (ops.BITCAST, ["f32[6]"], NO_ATTRS, "(f32[6])", "expected a bitcast of f32[6]"),
    (ops.BITCAST, ["(f32[6])"], NO_ATTRS, "(f32[6])", None),
    (ops.BITCAST, ["(f32[6])"], NO_ATTRS, "(f32[5])", "result is (f32[5]), expected (f32[6])"),
]


@pytest.mark.parametrize(("op", "operands", "attrs", "result", "want"), STATED)
def test_stated_shape(op, operands, attrs, result, want):
    inst = single_op(op, operands, result, attrs)
    if want is None:
        check_instruction(inst)
        return
    with pytest.raises(XylaError) as caught:
        check_instruction(inst)
    assert want in caught.value.message


def gather(**changes):
    values = {
        "offset_dims": (2,),
        "collapsed_slice_dims": (0,),
        "start_index_map": (0,),
        "index_vector_dim": 2,
        "slice_sizes": (1, 8),
    }
    return GatherAttrs(**{**values, **changes})


def test_gather_of_rows():
    assert infer(ops.GATHER, ["f32[10,8]", "s32[4,5]"], gather()) == "f32[4,5,8]"
    assert infer(ops.GATHER, ["f32[10,8]", "s32[4,5]"], gather(offset_dims=(0,))) == "f32[8,4,5]"


def test_gather_with_batching_dims():
    attrs = gather(
        offset_dims=(),
        collapsed_slice_dims=(1,),
        start_index_map=(1,),
        operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
        slice_sizes=(1, 1),
    )
    assert infer(ops.GATHER, ["f32[10,8]", "s32[10,5]"], attrs) == "f32[10,5]"
    with pytest.raises(XylaError, match="batching dimension 0 of the operand has size 10"):
        infer(ops.GATHER, ["f32[10,8]", "s32[9,5]"], attrs)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"slice_sizes": (1, 9)}, "slice size 9 of dimension 1 does not fit"),
        ({"slice_sizes": (2, 8)}, "slice size 2 of dropped dimension 0"),
        ({"slice_sizes": (1,)}, "slice_sizes {1} has 1 sizes for rank 2"),
        ({"offset_dims": (1, 2)}, "has 2 entries for 1 window dimensions"),
        ({"offset_dims": (3,)}, "offset_dims {3} holds 3, out of range for rank 3"),
        ({"start_index_map": (0, 1)}, "has 2 entries, indices have 1"),
        ({"index_vector_dim": 3}, "index_vector_dim 3 is out of range"),
        ({"operand_batching_dims": (0,)}, "collapsed_slice_dims and operand_batching_dims share a dimension"),
        (
            {"operand_batching_dims": (0,), "collapsed_slice_dims": ()},
            "start_index_map and operand_batching_dims share a dimension",
        ),
        ({"start_indices_batching_dims": (2,), "index_vector_dim": 2}, "start_indices_batching_dims {2} holds 2"),
        ({"start_indices_batching_dims": (1,), "index_vector_dim": 1}, "holds index_vector_dim 1"),
        ({"start_indices_batching_dims": (0,)}, "differ in length"),
        (
            {"collapsed_slice_dims": (1, 0), "offset_dims": (), "slice_sizes": (1, 1)},
            "collapsed_slice_dims {1,0} must be ascending",
        ),
        ({"collapsed_slice_dims": (2,)}, "collapsed_slice_dims {2} holds 2"),
    ],
)
def test_gather_errors(changes, want):
    with pytest.raises(XylaError) as caught:
        infer(ops.GATHER, ["f32[10,8]", "s32[4,5]"], gather(**changes))
    assert want in caught.value.message


def test_gather_needs_integer_indices():
    with pytest.raises(XylaError, match="operand 1 is f32"):
        infer(ops.GATHER, ["f32[10,8]", "f32[4,5]"], gather())


SCATTER = ScatterAttrs(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), index_vector_dim=1
)


def test_scatter():
    add = reducer(Module("m"), F32)
    assert infer(ops.SCATTER, ["f32[10,8]{0,1}", "s32[4]", "f32[4,8]"], SCATTER, [add]) == "f32[10,8]{0,1}"
    # A narrower window than the operand's is allowed.
    assert infer(ops.SCATTER, ["f32[10,8]", "s32[4]", "f32[4,3]"], SCATTER, [add]) == "f32[10,8]"


@pytest.mark.parametrize(
    ("operands", "want"),
    [
        (["f32[10,8]", "s32[4]", "f32[4,9]"], "at most 8 elements in dimension 1"),
        (["f32[10,8]", "s32[4]", "f32[5,8]"], "the dims {4} of the indices"),
        (["f32[10,8]", "s32[4]", "f32[4,8,1]"], "expected rank 2"),
        (["f32[10,8]", "s32[4]", "s32[4,8]"], "expected element type f32"),
        (["f32[10,8]", "f32[4]", "f32[4,8]"], "operand 1 is f32[4], expected integer indices"),
        (["f32[10,8]", "s32[4]"], "2 operands, expected n inputs"),
    ],
)
def test_scatter_errors(operands, want):
    with pytest.raises(XylaError) as caught:
        infer(ops.SCATTER, operands, SCATTER, [reducer(Module("m"), F32)])
    assert want in caught.value.message


def test_variadic_scatter():
    module = Module("m")
    keep = module.add_computation("keep")
    params = [parameter(keep, of) for of in ("f32[]", "s32[]", "f32[]", "s32[]")]
    keep.set_root(keep.add(ops.TUPLE, params[2:]))
    updates = ["f32[4,8]", "s32[4,8]"]
    operands = ["f32[10,8]", "s32[10,8]", "s32[4]", *updates]
    assert infer(ops.SCATTER, operands, SCATTER, [keep]) == "(f32[10,8], s32[10,8])"
    with pytest.raises(XylaError, match=r"operand 1 is s32\[9,8\], expected the dims of f32\[10,8\]"):
        infer(ops.SCATTER, ["f32[10,8]", "s32[9,8]", "s32[4]", *updates], SCATTER, [keep])


def test_scatter_window_dims():
    attrs = ScatterAttrs(update_window_dims=(0, 1), scatter_dims_to_operand_dims=(0,), index_vector_dim=1)
    with pytest.raises(XylaError, match="has 1 entries for 2 window dimensions"):
        infer(
            ops.SCATTER,
            ["f32[10,8]", "s32[4]", "f32[4,8]"],
            replace(attrs, update_window_dims=(1,)),
            [reducer(Module("m"), F32)],
        )
