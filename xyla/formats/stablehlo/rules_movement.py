"""StableHLO operations that move or index data. Source: the StableHLO specification."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.formats.mlir.ir import Operation
from xyla.formats.stablehlo import decode_attrs as read
from xyla.formats.stablehlo.body import Body, Result, Rule, arity, at_least
from xyla.hlo import ops
from xyla.hlo.attr_types import PaddingDim, SliceDim
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.support.dtypes import S32
from xyla.support.status import invalid


def _constant(body: Body, op: Operation) -> Result:
    return body.converter.constant(body, op)


def _iota(body: Body, op: Operation) -> Result:
    arity(op, 0)
    return iota(body, read.integer(op, "iota_dimension"), body.result(op))


def iota(body: Body, dim: int, shape: Shape) -> Instruction:
    """An iota along `dim`."""
    if not 0 <= dim < shape.rank:
        raise invalid(f"iota_dimension {dim} is not a dimension of {shape}")
    return body.add(ops.IOTA, (), ops.IotaAttrs(dim), shape=shape)


def _reshape(body: Body, op: Operation) -> Result:
    arity(op, 1)
    return body.add(ops.RESHAPE, body.operands(op), ops.ReshapeAttrs(), shape=body.result(op))


def _broadcast_in_dim(body: Body, op: Operation) -> Result:
    arity(op, 1)
    dims = read.ints(op, "broadcast_dimensions")
    return broadcast_in_dim(body, body.get(op.operands[0]), dims, body.result(op))


def broadcast_in_dim(body: Body, operand: Instruction, dims: Sequence[int], shape: Shape) -> Instruction:
    """Broadcast that also stretches dimensions of size 1: those are reshaped away first, HLO does not stretch.

    Raises INVALID_ARGUMENT when the sizes do not fit.
    """
    source = operand.shape
    if len(dims) != source.rank or len(set(dims)) != len(dims) or any(not 0 <= d < shape.rank for d in dims):
        raise invalid(f"broadcast_dimensions {list(dims)} do not map {source} into {shape}")
    for i, d in enumerate(dims):
        if source.dims[i] not in (1, shape.dims[d]):
            raise invalid(f"dimension {i} of {source} cannot become dimension {d} of {shape}")
    if list(dims) != sorted(dims):
        order = sorted(range(len(dims)), key=lambda i: dims[i])
        moved = Shape.array(source.element_type, [source.dims[i] for i in order], None, _pick(source.dynamic, order))
        operand = body.add(ops.TRANSPOSE, [operand], ops.DimensionsAttrs(tuple(order)), shape=moved)
        dims, source = sorted(dims), moved
    kept = [i for i, d in enumerate(dims) if source.dims[i] == shape.dims[d]]
    if len(kept) != source.rank:
        operand = body.reshape(operand, [source.dims[i] for i in kept])
    return body.broadcast(operand, [dims[i] for i in kept], shape)


def _pick(flags: tuple[bool, ...], order: list[int]) -> tuple[bool, ...]:
    return tuple(flags[i] for i in order) if flags else ()


def _broadcast(body: Body, op: Operation) -> Result:
    """The old broadcast: new dimensions come first."""
    arity(op, 1)
    operand = body.get(op.operands[0])
    count = len(read.ints(op, "broadcast_sizes"))
    return body.broadcast(operand, range(count, count + operand.shape.rank), body.result(op))


def _transpose(body: Body, op: Operation) -> Result:
    arity(op, 1)
    attrs = ops.DimensionsAttrs(read.ints(op, "permutation"))
    return body.add(ops.TRANSPOSE, body.operands(op), attrs, shape=body.result(op))


def _reverse(body: Body, op: Operation) -> Result:
    arity(op, 1)
    attrs = ops.DimensionsAttrs(read.ints(op, "dimensions"))
    return body.add(ops.REVERSE, body.operands(op), attrs, shape=body.result(op))


def _slice(body: Body, op: Operation) -> Result:
    arity(op, 1)
    starts, limits = read.ints(op, "start_indices"), read.ints(op, "limit_indices")
    strides = read.ints(op, "strides", (1,) * len(starts))
    return static_slice(body, body.get(op.operands[0]), starts, limits, strides, body.result(op))


def static_slice(
    body: Body,
    operand: Instruction,
    starts: Sequence[int],
    limits: Sequence[int],
    strides: Sequence[int],
    shape: Shape,
) -> Instruction:
    """operand[starts:limits:strides]."""
    if not len(starts) == len(limits) == len(strides):
        raise invalid("start_indices, limit_indices and strides have different lengths")
    dims = tuple(SliceDim(*t) for t in zip(starts, limits, strides, strict=True))
    return body.add(ops.SLICE, [operand], ops.SliceAttrs(dims), shape=shape)


def _pad(body: Body, op: Operation) -> Result:
    arity(op, 2)
    low, high = read.ints(op, "edge_padding_low"), read.ints(op, "edge_padding_high")
    interior = read.ints(op, "interior_padding", (0,) * len(low))
    return pad(body, body.operands(op), low, high, interior, body.result(op))


def pad(
    body: Body,
    operands: Sequence[Instruction],
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
    shape: Shape,
) -> Instruction:
    """HLO pad of (operand, value)."""
    if not len(low) == len(high) == len(interior):
        raise invalid("the low, high and interior padding have different lengths")
    dims = tuple(PaddingDim(*t) for t in zip(low, high, interior, strict=True))
    return body.add(ops.PAD, operands, ops.PadAttrs(dims), shape=shape)


def _concatenate(body: Body, op: Operation) -> Result:
    at_least(op, 1)
    attrs = ops.DimensionAttrs(read.integer(op, "dimension"))
    return body.add(ops.CONCATENATE, body.operands(op), attrs, shape=body.result(op))


def _dynamic_slice(body: Body, op: Operation) -> Result:
    at_least(op, 1)
    attrs = ops.DynamicSliceAttrs(read.ints(op, "slice_sizes"))
    return body.add(ops.DYNAMIC_SLICE, body.operands(op), attrs, shape=body.result(op))


def _dynamic_update_slice(body: Body, op: Operation) -> Result:
    at_least(op, 2)
    return body.add(ops.DYNAMIC_UPDATE_SLICE, body.operands(op), shape=body.result(op))


def _gather(body: Body, op: Operation) -> Result:
    arity(op, 2)
    return gather(body, op, body.operands(op), read.ints(op, "slice_sizes"))


def gather(body: Body, op: Operation, operands: Sequence[Instruction], sizes: tuple[int, ...]) -> Instruction:
    """HLO gather with the dimension numbers of `op`."""
    entries = read.fields(op, "dimension_numbers")
    attrs = ops.GatherAttrs(
        offset_dims=read.field_ints(entries, "offset_dims"),
        collapsed_slice_dims=read.field_ints(entries, "collapsed_slice_dims"),
        start_index_map=read.field_ints(entries, "start_index_map"),
        operand_batching_dims=read.field_ints(entries, "operand_batching_dims"),
        start_indices_batching_dims=read.field_ints(entries, "start_indices_batching_dims"),
        index_vector_dim=read.field_int(entries, "index_vector_dim"),
        slice_sizes=sizes,
        indices_are_sorted=read.boolean(op, "indices_are_sorted"),
    )
    return body.add(ops.GATHER, operands, attrs, shape=body.result(op))


def _get_dimension_size(body: Body, op: Operation) -> Result:
    """A static dimension's size is a constant."""
    arity(op, 1)
    operand, dim = body.get(op.operands[0]), read.integer(op, "dimension")
    if not 0 <= dim < operand.shape.rank:
        raise invalid(f"dimension {dim} is not a dimension of {operand.shape}")
    if not operand.shape.is_dynamic_dim(dim):
        return body.constant(Literal.scalar(operand.shape.dims[dim], S32))
    return body.add(ops.GET_DIMENSION_SIZE, [operand], ops.DimensionAttrs(dim), shape=body.result(op))


def _set_dimension_size(body: Body, op: Operation) -> Result:
    arity(op, 2)
    attrs = ops.DimensionAttrs(read.integer(op, "dimension"))
    return body.add(ops.SET_DIMENSION_SIZE, body.operands(op), attrs, shape=body.result(op))


def _torch_index_select(body: Body, op: Operation) -> Result:
    """out[b, i..., j] = operand[b, index[b, i...], j] with the indexed dimension `dim` and leading batch dimensions."""
    arity(op, 2)
    operand, index = body.operands(op)
    dim, batch = read.integer(op, "dim"), read.integer(op, "batch_dims", 0)
    rank, shape = operand.shape.rank, body.result(op)
    if not 0 <= batch <= dim < rank or batch > index.shape.rank:
        raise invalid(f"dim {dim} and batch_dims {batch} do not fit {operand.shape}")
    sizes = tuple(1 if d == dim or d < batch else s for d, s in enumerate(operand.shape.dims))
    inserted = index.shape.rank - batch
    offset = tuple(d for d in range(shape.rank) if not d < batch and not dim <= d < dim + inserted)
    attrs = ops.GatherAttrs(
        offset_dims=offset,
        collapsed_slice_dims=(dim,),
        start_index_map=(dim,),
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
        index_vector_dim=index.shape.rank,
        slice_sizes=sizes,
    )
    return body.add(ops.GATHER, [operand, index], attrs, shape=shape)


RULES: dict[str, Rule] = {
    "stablehlo.constant": _constant,
    "chlo.constant": _constant,
    "stablehlo.iota": _iota,
    "stablehlo.reshape": _reshape,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.broadcast": _broadcast,
    "stablehlo.transpose": _transpose,
    "stablehlo.reverse": _reverse,
    "stablehlo.slice": _slice,
    "stablehlo.pad": _pad,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
    "stablehlo.get_dimension_size": _get_dimension_size,
    "stablehlo.set_dimension_size": _set_dimension_size,
    "stablehlo.torch_index_select": _torch_index_select,
}
