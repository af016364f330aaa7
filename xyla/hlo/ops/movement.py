"""Opcodes that move elements: broadcast, reshape, transpose, slice, pad, concatenate, gather, scatter, dynamic sizes.

Spec: XLA operation semantics, one section an op.
"""

from __future__ import annotations

from dataclasses import dataclass

from xyla.hlo.attr_types import PaddingDim, SliceDim
from xyla.hlo.op_def import AttrKind, Attrs, NoAttrs, OpDef, Trait, attr, define
from xyla.hlo.rules import indexing
from xyla.hlo.rules import movement as rules

_SEM = "operation_semantics#"
_MOVE = Trait.DATA_MOVEMENT


@dataclass(frozen=True, slots=True)
class DimensionsAttrs(Attrs):
    """dimensions={...}: broadcast (operand dim -> result dim), reverse, transpose (result dim -> operand dim), map."""

    dimensions: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)


@dataclass(frozen=True, slots=True)
class DimensionAttrs(Attrs):
    """dimensions={d}: concatenate, get-dimension-size, set-dimension-size."""

    dimension: int = attr(AttrKind.INT_IN_BRACES, key="dimensions")


@dataclass(frozen=True, slots=True)
class ReshapeAttrs(Attrs):
    """inferred_dimension, -1 when absent."""

    inferred_dimension: int = attr(AttrKind.INT, -1)


@dataclass(frozen=True, slots=True)
class SliceAttrs(Attrs):
    """slice={[start:limit:stride], ...}."""

    slice: tuple[SliceDim, ...] = attr(AttrKind.SLICE)


@dataclass(frozen=True, slots=True)
class DynamicSliceAttrs(Attrs):
    """dynamic_slice_sizes={...}."""

    sizes: tuple[int, ...] = attr(AttrKind.INTS, key="dynamic_slice_sizes")


@dataclass(frozen=True, slots=True)
class PadAttrs(Attrs):
    """padding=low_high[_interior]x..."""

    padding: tuple[PaddingDim, ...] = attr(AttrKind.PADDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherAttrs(Attrs):
    """Gather dimension numbers and slice sizes."""

    offset_dims: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)
    collapsed_slice_dims: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)
    start_index_map: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)
    operand_batching_dims: tuple[int, ...] = attr(AttrKind.INTS, ())
    start_indices_batching_dims: tuple[int, ...] = attr(AttrKind.INTS, ())
    index_vector_dim: int = attr(AttrKind.INT)
    slice_sizes: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)
    indices_are_sorted: bool = attr(AttrKind.BOOL, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterAttrs(Attrs):
    """Scatter dimension numbers."""

    update_window_dims: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)
    inserted_window_dims: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)
    scatter_dims_to_operand_dims: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)
    input_batching_dims: tuple[int, ...] = attr(AttrKind.INTS, ())
    scatter_indices_batching_dims: tuple[int, ...] = attr(AttrKind.INTS, ())
    index_vector_dim: int = attr(AttrKind.INT)
    indices_are_sorted: bool = attr(AttrKind.BOOL, False)
    unique_indices: bool = attr(AttrKind.BOOL, False)


@dataclass(frozen=True, slots=True)
class BitcastAttrs(Attrs):
    """result_layout and such hints, kept verbatim."""

    result_layout: str = attr(AttrKind.RAW, "")


BROADCAST = define(
    OpDef("broadcast", 1, DimensionsAttrs, None, _SEM + "broadcast", _MOVE | Trait.LEAF, verify=rules.verify_broadcast)
)
RESHAPE = define(
    OpDef("reshape", 1, ReshapeAttrs, None, _SEM + "reshape", _MOVE | Trait.LEAF, verify=rules.verify_reshape)
)
DYNAMIC_RESHAPE = define(
    OpDef(
        "dynamic-reshape",
        None,
        NoAttrs,
        None,
        _SEM + "dynamicreshape",
        _MOVE | Trait.LEAF,
        min_arity=1,
        verify=rules.verify_dynamic_reshape,
    )
)
BITCAST = define(
    OpDef("bitcast", 1, BitcastAttrs, None, _SEM + "bitcast", _MOVE | Trait.LEAF, verify=rules.verify_bitcast)
)
TRANSPOSE = define(OpDef("transpose", 1, DimensionsAttrs, rules.transpose_shape, _SEM + "transpose", _MOVE))
REVERSE = define(OpDef("reverse", 1, DimensionsAttrs, rules.reverse_shape, _SEM + "rev_reverse", _MOVE))
SLICE = define(OpDef("slice", 1, SliceAttrs, rules.slice_shape, _SEM + "slice", _MOVE))
# dynamic-slice(operand, start0, start1, ...) or, in old texts, dynamic-slice(operand, starts[rank]).
DYNAMIC_SLICE = define(
    OpDef(
        "dynamic-slice", None, DynamicSliceAttrs, rules.dynamic_slice_shape, _SEM + "dynamicslice", _MOVE, min_arity=1
    )
)
DYNAMIC_UPDATE_SLICE = define(
    OpDef(
        "dynamic-update-slice",
        None,
        NoAttrs,
        rules.dynamic_update_slice_shape,
        _SEM + "dynamicupdateslice",
        _MOVE,
        min_arity=2,
    )
)
PAD = define(OpDef("pad", 2, PadAttrs, rules.pad_shape, _SEM + "pad", _MOVE))
CONCATENATE = define(
    OpDef("concatenate", None, DimensionAttrs, rules.concatenate_shape, _SEM + "concatenate", _MOVE, min_arity=1)
)
GATHER = define(OpDef("gather", 2, GatherAttrs, indexing.gather_shape, _SEM + "gather", _MOVE))
# scatter(operand..., indices, update...): 2n+1 operands.
SCATTER = define(
    OpDef("scatter", None, ScatterAttrs, indexing.scatter_shape, _SEM + "scatter", called=("to_apply",), min_arity=3)
)
GET_DIMENSION_SIZE = define(
    OpDef("get-dimension-size", 1, DimensionAttrs, rules.get_dimension_size_shape, _SEM + "getdimensionsize")
)
SET_DIMENSION_SIZE = define(
    OpDef("set-dimension-size", 2, DimensionAttrs, rules.set_dimension_size_shape, _SEM + "setdimensionsize")
)
