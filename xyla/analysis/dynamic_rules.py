"""How each op's dynamic dimensions follow from those of its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from xyla.analysis.reshapes import common_factors
from xyla.analysis.sizes import Size, Sizes
from xyla.hlo import ops
from xyla.hlo.attr_types import WindowDim
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import Trait, all_ops
from xyla.hlo.op_table import OpTable
from xyla.hlo.shape import Shape
from xyla.support.status import XylaError, unimplemented

# Sizes by dimension; a list for a tuple's parts.
Known = Mapping[int, Size] | list["Known"]
InferRule = Callable[[Sizes, Instruction, Sequence[Known]], Known]
INFER: OpTable[InferRule] = OpTable("dynamic dimension inference")


def array(known: Known) -> Mapping[int, Size]:
    """What is known of an array (or token)."""
    assert not isinstance(known, list)
    return known


def refuse(inst: Instruction, why: str) -> XylaError:
    """The error for dimensions whose size is not known."""
    return unimplemented(f"{inst.op.name}: {why}", span=inst.span)


def given(sizes: Sizes, inst: Instruction) -> Known:
    """Every dynamic dimension of `inst` has the size that the value brings along."""

    def part(shape: Shape, index: tuple[int, ...]) -> Known:
        if shape.is_tuple:
            return [part(s, (*index, i)) for i, s in enumerate(shape.tuple_shapes)]
        return {d: sizes.given(inst, index, d, shape.dims[d]) for d in range(shape.rank) if shape.is_dynamic_dim(d)}

    return part(inst.shape, ())


@INFER.rule(
    ops.PARAMETER, ops.WHILE, ops.CALL, ops.CONDITIONAL, ops.INFEED, ops.RECV_DONE, ops.FUSION, ops.ASYNC_START,
    ops.ASYNC_UPDATE, ops.ASYNC_DONE,
)  # fmt: skip
def _given(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    """What comes from elsewhere brings its sizes along."""
    return given(sizes, inst)


@INFER.rule(*(op for op in all_ops() if op.has(Trait.ELEMENTWISE)), ops.COPY, ops.OPT_BARRIER, ops.MAP)
def _elementwise(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    """Operands of size one are repeated, the others agree."""
    if any(isinstance(o, list) for o in operands):
        raise refuse(inst, "a tuple with dynamic dimensions")
    out: dict[int, Size] = {}
    for operand in operands:
        for d, size in array(operand).items():
            out[d] = sizes.joint(out[d], size) if d in out else size
    return dict(sorted(out.items()))


@INFER.rule(ops.TUPLE)
def _tuple(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    return list(operands)


@INFER.rule(ops.GET_TUPLE_ELEMENT)
def _element(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    whole = operands[0]
    if not isinstance(whole, list):
        return {}
    index: int = inst.attrs.index
    return whole[index]


@INFER.rule(ops.SET_DIMENSION_SIZE)
def _set_size(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    """The size is clamped to the bound; a constant that is the bound makes the dimension static."""
    d, size = inst.attrs.dimension, sizes.scalar(inst.operands[1])
    bound = inst.operands[0].shape.dims[d]
    rest = {i: s for i, s in array(operands[0]).items() if i != d}
    return rest if size.constant == bound else {**rest, d: sizes.clamp(size, bound)}


@INFER.rule(ops.GET_DIMENSION_SIZE)
def _get_size(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    return {}


@INFER.rule(ops.BROADCAST)
def _broadcast(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    out = {inst.attrs.dimensions[d]: s for d, s in array(operands[0]).items()}
    return need_all(inst, out)


@INFER.rule(ops.CUSTOM_CALL)
def _custom_call(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    """PadToStatic and SliceToDynamic hand sizes over as scalars; other targets bring what they bring."""
    if inst.attrs.custom_call_target == "PadToStatic":
        return [{} for _ in inst.shape.tuple_shapes]
    if inst.attrs.custom_call_target == "SliceToDynamic":
        scalars = [sizes.scalar(o) for o in inst.operands[1:]]
        return {d: s for d, s in enumerate(scalars) if inst.shape.is_dynamic_dim(d)}
    return given(sizes, inst)


@INFER.rule(ops.TRANSPOSE)
def _transpose(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    x = array(operands[0])
    return {i: x[d] for i, d in enumerate(inst.attrs.dimensions) if d in x}


@INFER.rule(ops.REVERSE)
def _same(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    return operands[0]


@INFER.rule(ops.REDUCE)
def _reduce(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    inputs = [array(o) for o in operands[: len(operands) // 2]]
    kept = [d for d in range(inst.operands[0].shape.rank) if d not in inst.attrs.dimensions]
    out = {i: x[d] for x in inputs for i, d in enumerate(kept) if d in x}
    return [out for _ in inst.shape.tuple_shapes] if inst.shape.is_tuple else out


@INFER.rule(ops.DOT)
def _dot(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    if len(operands) > 2:
        raise refuse(inst, "a sparse dot")
    x, y, a = array(operands[0]), array(operands[1]), inst.attrs
    ranks = [o.shape.rank for o in inst.operands]
    free_x = [d for d in range(ranks[0]) if d not in a.lhs_batch_dims and d not in a.lhs_contracting_dims]
    free_y = [d for d in range(ranks[1]) if d not in a.rhs_batch_dims and d not in a.rhs_contracting_dims]
    out: dict[int, Size] = {}
    for i, (p, q) in enumerate(zip(a.lhs_batch_dims, a.rhs_batch_dims, strict=True)):
        found = x.get(p) or y.get(q)
        if found is not None:
            out[i] = found
    lead = len(a.lhs_batch_dims)
    out |= {lead + i: x[d] for i, d in enumerate(free_x) if d in x}
    return out | {lead + len(free_x) + i: y[d] for i, d in enumerate(free_y) if d in y}


@INFER.rule(ops.CONCATENATE)
def _concatenate(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    """The parts' sizes add up."""
    parts, dim = [array(o) for o in operands], inst.attrs.dimension
    out = {d: s for x in reversed(parts) for d, s in x.items() if d != dim}
    if not any(dim in x for x in parts):
        return out
    end = sizes.constant(0)
    for x, operand in zip(parts, inst.operands, strict=True):
        end = sizes.add(end, x[dim] if dim in x else sizes.constant(operand.shape.dims[dim]))
    return {**out, dim: end}


@INFER.rule(ops.PAD)
def _pad(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    """A size grows by the edges and by the interior between its elements."""
    out: dict[int, Size] = {}
    for d, size in array(operands[0]).items():
        p = inst.attrs.padding[d]
        zero = sizes.constant(0)
        between = sizes.maximum(sizes.subtract(size, sizes.constant(1)), zero)
        spread = sizes.add(size, sizes.multiply(between, sizes.constant(p.interior))) if p.interior else size
        out[d] = sizes.maximum(sizes.add(spread, sizes.constant(p.low + p.high)), zero)
    return out


@INFER.rule(ops.SLICE)
def _slice(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    """A dynamic dimension is taken whole, or becomes static."""
    out: dict[int, Size] = {}
    for d, size in array(operands[0]).items():
        s = inst.attrs.slice[d]
        if (s.start, s.limit, s.stride) == (0, inst.operands[0].shape.dims[d], 1):
            out[d] = size
        elif inst.shape.is_dynamic_dim(d):
            raise refuse(inst, f"dynamic dimension {d} is not taken whole")
    return out


@INFER.rule(ops.SORT)
def _sort(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    out = {d: s for x in reversed(operands) for d, s in array(x).items()}
    return [out for _ in inst.shape.tuple_shapes] if inst.shape.is_tuple else out


@INFER.rule(ops.DYNAMIC_SLICE)
def _dynamic_slice(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    """A dynamic dimension is taken whole, or a static part of it."""
    out: dict[int, Size] = {}
    for d, size in array(operands[0]).items():
        if inst.attrs.sizes[d] == inst.operands[0].shape.dims[d]:
            out[d] = size
        elif inst.shape.is_dynamic_dim(d):
            raise refuse(inst, f"a dynamic part of dynamic dimension {d}")
    return out


@INFER.rule(ops.DYNAMIC_UPDATE_SLICE)
def _dynamic_update_slice(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    return operands[0]


@INFER.rule(ops.GATHER)
def _gather(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    """Dynamic batch dimensions of the indices, and dimensions of the operand that are taken whole."""
    x, indices, a = array(operands[0]), array(operands[1]), inst.attrs
    source, rows = (o.shape for o in inst.operands)
    gone = {*a.collapsed_slice_dims, *a.operand_batching_dims}
    windows = [d for d in range(source.rank) if d not in gone]
    batch = [d for d in range(rows.rank) if d != a.index_vector_dim]
    others = [d for d in range(inst.shape.rank) if d not in a.offset_dims]
    if a.index_vector_dim in indices:
        raise refuse(inst, "index vectors of dynamic size")
    out = {others[batch.index(d)]: s for d, s in indices.items()}
    for d, size in x.items():
        if d in a.start_index_map or d not in windows or a.slice_sizes[d] != source.dims[d]:
            raise refuse(inst, f"dynamic dimension {d} of the operand is indexed")
        out[sorted(a.offset_dims)[windows.index(d)]] = size
    return out


@INFER.rule(ops.SCATTER)
def _scatter(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    n = len(operands) // 2
    return operands[0] if n == 1 else [operands[0] for _ in range(n)]


@INFER.rule(ops.RESHAPE)
def _reshape(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    """One dynamic result dimension in each group of dimensions that belong together, or in all: what is left of the
    elements that count.
    """
    x, source = array(operands[0]), inst.operands[0].shape
    out = _group_sizes(sizes, inst, x, common_factors(source.dims, inst.shape.dims))
    if out is None:
        out = _group_sizes(sizes, inst, x, [(list(range(source.rank)), list(range(inst.shape.rank)))])
    if out is None:
        raise refuse(inst, f"{source} to {inst.shape} leaves open which dynamic dimension is which")
    return need_all(inst, out)


def _group_sizes(
    sizes: Sizes, inst: Instruction, x: Mapping[int, Size], groups: Sequence[tuple[list[int], list[int]]]
) -> dict[int, Size] | None:
    """None where a group has several dynamic result dimensions, or none for its dynamic source dimensions."""
    out: dict[int, Size] = {}
    dims = inst.operands[0].shape.dims
    for source, target in groups:
        into = [d for d in target if inst.shape.is_dynamic_dim(d)]
        if not into and not any(d in x for d in source):
            continue
        if len(into) != 1:
            return None
        elements = sizes.constant(math.prod(dims[d] for d in source if d not in x))
        for d in source:
            elements = sizes.multiply(elements, x[d]) if d in x else elements
        others = math.prod(inst.shape.dims[d] for d in target if d != into[0])
        out[into[0]] = sizes.divide(elements, sizes.constant(max(others, 1)))
    return out


@INFER.rule(ops.DYNAMIC_RESHAPE)
def _dynamic_reshape(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    """The sizes are operands, clamped to the bounds."""
    if len(operands) != inst.shape.rank + 1 or any(o.shape.rank for o in inst.operands[1:]):
        raise refuse(inst, "one scalar size for each result dimension is expected")
    return {
        d: sizes.clamp(sizes.scalar(o), inst.shape.dims[d])
        for d, o in enumerate(inst.operands[1:])
        if inst.shape.is_dynamic_dim(d)
    }


def windowed_size(sizes: Sizes, w: WindowDim, size: Size) -> Size:
    """How many windows a dimension of `size` elements has."""
    zero, one = sizes.constant(0), sizes.constant(1)
    dilated = sizes.multiply(sizes.subtract(size, one), sizes.constant(w.lhs_dilate))
    dilated = sizes.maximum(sizes.add(dilated, one), zero)
    # One more window for each stride of room: none when the first does not fit.
    room = sizes.add(dilated, sizes.constant(w.pad_low + w.pad_high - w.dilated_size + w.stride))
    return sizes.divide(sizes.maximum(room, zero), sizes.constant(w.stride))


@INFER.rule(ops.REDUCE_WINDOW)
def _reduce_window(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    inputs = {d: s for x in reversed(operands[: len(operands) // 2]) for d, s in array(x).items()}
    out = {d: windowed_size(sizes, inst.attrs.window.dims[d], s) for d, s in inputs.items()}
    return [out for _ in inst.shape.tuple_shapes] if inst.shape.is_tuple else out


@INFER.rule(ops.CONVOLUTION)
def _convolution(sizes: Sizes, inst: Instruction, operands: Sequence[Known]) -> Known:
    x, kernel, d = array(operands[0]), array(operands[1]), inst.attrs.dim_labels
    if any(k in kernel for k in d.kernel_spatial):
        raise refuse(inst, "a kernel of dynamic spatial size")
    out: dict[int, Size] = {}
    if d.input_batch in x:
        out[d.output_batch] = x[d.input_batch]
    if d.kernel_output_feature in kernel:
        out[d.output_feature] = kernel[d.kernel_output_feature]
    for source, target, w in zip(d.input_spatial, d.output_spatial, inst.attrs.window.dims, strict=True):
        if source in x:
            out[target] = windowed_size(sizes, w, x[source])
    return out


INFER.unsupported(ops.SELECT_AND_SCATTER, "what a window selects would have to be known from the sizes")
INFER.unsupported(ops.IOTA, "no operand says its size")


def need_all(inst: Instruction, out: dict[int, Size]) -> dict[int, Size]:
    """`out`, when every dynamic dimension of the result has a size."""
    missing = [d for d in range(inst.shape.rank) if inst.shape.is_dynamic_dim(d) and d not in out]
    if missing:
        raise refuse(inst, f"dimension {missing[0]} is dynamic, but no operand says its size")
    return out
