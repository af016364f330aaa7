"""Gathers of whole slices: merged with one another, and put after the work on what they gather."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xyla.analysis.indexed_arrays import Indexed, Label, indexed_array
from xyla.analysis.reshapes import common_factors
from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, RuleTable, run_rules


@register
@dataclass(frozen=True, slots=True)
class IndexedArraySimplifier(Pass):
    """Gathers once what is gathered twice, and computes before gathering where the source is smaller than the result.

        gather(gather(x, i), j)                  ==>   gather(x, gather(i, j))
        op(gather(x, i), broadcast(c))           ==>   gather(op(x, broadcast(c)), i)
        dot(gather(x, i), y)                     ==>   gather(dot(x, y), i)
        reshape(gather(x, i))                    ==>   gather(reshape(x), reshape(i))

    Gathers of whole slices along one dimension (analysis.indexed_arrays) that nothing else uses. Indices are clamped as
    before: every gather that is left meets its indices in a dimension of the same size. Exact, the order of a dot's own
    sum aside. Acts on what XLA prints in its indexed-array-analysis-printer-pass.
    """

    name: ClassVar[str] = "indexed-array-simplifier"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Near linear: each gather moves past each op once."""
        if not any(i.op is ops.GATHER for i in module.instructions()):
            return False
        table: RuleTable = {op: (move_gather_after_op,) for op in dict.fromkeys(i.op for i in module.instructions())}
        table = {op: rules for op, rules in table.items() if op.has(Trait.ELEMENTWISE)}
        table |= {
            ops.GATHER: (gather_of_gather,),
            ops.DOT: (move_gather_after_dot,),
            ops.RESHAPE: (move_gather_after_reshape,),
        }
        return run_rules(module, ctx, table)


# -- rules -------------------------------------------------------------------------------------------------------------


def gather_of_gather(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """gather(gather(x, i), j) -> gather(x, gather(i, j)), when j indexes what i put there.

    Done where the merged indices are no larger than the slices that need not be stored.
    """
    outer = indexed_array(inst)
    inner = _only_used_by(inst, inst.operands[0]) if outer is not None else None
    if outer is None or inner is None:
        return None
    kind, place = inner.labels[outer.source_dim]
    if kind != "index":
        return None
    # What each dimension of the result comes from: x, i or j.
    through = [label for d, label in enumerate(inner.labels) if d != outer.source_dim]
    kept = iter(through)
    origin = [next(kept) if label[0] == "source" else ("outer", label[1]) for label in outer.labels]
    of_indices = [o for o in origin if o[0] != "source"]
    sizes = {("index", k): d for k, d in enumerate(inner.index_dims)}
    sizes |= {("outer", k): d for k, d in enumerate(outer.index_dims)}
    dims = [sizes[o] for o in of_indices]
    if math.prod(dims) > inner.gather.shape.num_elements:
        return None
    merged = _gather(
        rw,
        _plain_indices(inner, rw),
        outer.indices,
        place,
        outer.vector_dim,
        [("source" if kind == "index" else "index", k) for kind, k in of_indices],
        dims,
    )
    labels: list[Label] = [(kind if kind == "source" else "index", k) for kind, k in origin]
    return _gather(rw, inner.source, merged, inner.source_dim, None, labels, inst.shape.dims, like=inst)


def move_gather_after_op(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """op(gather(x, i), gather(y, i), broadcast(c)) -> gather(op(x, y, broadcast(c)), i), for c along x's dimensions."""
    if not inst.op.has(Trait.ELEMENTWISE) or not inst.shape.is_array or inst.shape.is_dynamic:
        return None
    found = [_only_used_by(inst, o) if o.op is ops.GATHER else None for o in inst.operands]
    first = next((f for f in found if f is not None), None)
    if first is None or not _shrinks(first):
        return None
    alike = [f if f is not None and _alike(f, first) else None for f in found]
    if not all(f is not None or _along_source(o, first) for o, f in zip(inst.operands, alike, strict=True)):
        return None
    rw.permit()
    operands = [f.source if f is not None else _spread(o, first, rw) for o, f in zip(inst.operands, alike, strict=True)]
    shape = first.source.shape.without_layout().with_type(inst.shape.element_type)
    inner = rw.like(operands, shape=shape)
    inner.sharding = ""
    return _again(rw, first, inner, inst.shape.dims)


def move_gather_after_dot(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(gather(x, i), y) -> gather(dot(x, y), i), where x is contracted in whole dimensions only."""
    attrs: ops.DotAttrs = inst.attrs
    if attrs.lhs_batch_dims or attrs.sparsity or inst.shape.is_dynamic or inst.operands[0] is inst.operands[1]:
        return None
    for side in (0, 1):
        found = _only_used_by(inst, inst.operands[side])
        contracted = (attrs.lhs_contracting_dims, attrs.rhs_contracting_dims)[side]
        if found is None or not _shrinks(found) or any(found.labels[d][0] != "source" for d in contracted):
            continue
        rw.permit()
        return _dot_of_source(inst, found, side, contracted, rw)
    return None


def move_gather_after_reshape(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reshape(gather(x, i)) -> gather(reshape(x), reshape(i)), where each group of dimensions is of x or of i."""
    found = _only_used_by(inst, inst.operands[0])
    if found is None or inst.shape.is_dynamic or not _shrinks(found) or 0 in inst.shape.dims:
        return None
    labels = _reshaped_labels(found, inst.shape.dims)
    if labels is None:
        return None
    rw.permit()
    # The source's dimensions before and after the one that is indexed are reshaped each for itself.
    before = [d for (kind, k), d in zip(labels, inst.shape.dims, strict=True) if kind == "source" and k == 0]
    after = [d for (kind, k), d in zip(labels, inst.shape.dims, strict=True) if kind == "source" and k == 1]
    size = found.source.shape.dims[found.source_dim]
    source = _reshape(rw, found.source, [*before, size, *after])
    indices = _reshape(
        rw, found.indices, [d for (kind, _), d in zip(labels, inst.shape.dims, strict=True) if kind == "index"]
    )
    return _gather(rw, source, indices, len(before), None, labels, inst.shape.dims, like=found.gather)


# -- questions ---------------------------------------------------------------------------------------------------------


def _only_used_by(user: Instruction, operand: Instruction) -> Indexed | None:
    """`operand` as an indexed array that nothing but `user` reads."""
    if operand.op is not ops.GATHER or list(operand.users) != [user] or operand.is_root or _ordered(operand):
        return None
    return indexed_array(operand)


def _ordered(inst: Instruction) -> bool:
    return bool(inst.control_predecessors or inst.control_successors or inst.sharding)


def _shrinks(array: Indexed) -> bool:
    """Whether the source has fewer elements than what is gathered from it."""
    return array.source.shape.num_elements < array.gather.shape.num_elements


def _alike(one: Indexed, other: Indexed) -> bool:
    same = one.indices is other.indices and one.vector_dim == other.vector_dim and one.source_dim == other.source_dim
    return same and one.labels == other.labels and one.source.shape.dims == other.source.shape.dims


def _along_source(operand: Instruction, array: Indexed) -> bool:
    """Whether an operand is a scalar, or the same for all indices: broadcast along dimensions of the source."""
    if operand.shape.is_scalar:
        return True
    if operand.op is not ops.BROADCAST:
        return False
    return all(array.labels[d][0] == "source" for d in operand.attrs.dimensions)


# -- building ----------------------------------------------------------------------------------------------------------


def _spread(operand: Instruction, array: Indexed, rw: Rewrite) -> Instruction:
    """A broadcast operand in the shape of the source."""
    if operand.shape.is_scalar:
        return operand
    dims = tuple(array.labels[d][1] for d in operand.attrs.dimensions)
    shape = Shape.array(operand.shape.element_type, array.source.shape.dims)
    return rw.add(ops.BROADCAST, [operand.operands[0]], ops.DimensionsAttrs(dims), shape=shape)


def _plain_indices(array: Indexed, rw: Rewrite) -> Instruction:
    """The indices without the dimension of index vectors."""
    return array.indices if array.vector_dim is None else _reshape(rw, array.indices, array.index_dims)


def _reshape(rw: Rewrite, inst: Instruction, dims: Sequence[int]) -> Instruction:
    if inst.shape.dims == tuple(dims):
        return inst
    return rw.add(ops.RESHAPE, [inst], ops.ReshapeAttrs(), shape=inst.shape.with_dims(dims))


def _gather(
    rw: Rewrite,
    source: Instruction,
    indices: Instruction,
    dim: int,
    vector_dim: int | None,
    labels: Sequence[Label],
    dims: Sequence[int],
    like: Instruction | None = None,
) -> Instruction:
    """The array of `labels` (their order says which dimensions are whose) that `indices` make of `source`."""
    sizes = tuple(1 if d == dim else size for d, size in enumerate(source.shape.dims))
    attrs = ops.GatherAttrs(
        offset_dims=tuple(d for d, (kind, _) in enumerate(labels) if kind == "source"),
        collapsed_slice_dims=(dim,),
        start_index_map=(dim,),
        index_vector_dim=indices.shape.rank if vector_dim is None else vector_dim,
        slice_sizes=sizes,
    )
    new = rw.add(ops.GATHER, [source, indices], attrs, shape=source.shape.with_dims(dims))
    if like is not None:
        new.metadata = like.metadata
    return new


def _again(rw: Rewrite, array: Indexed, source: Instruction, dims: Sequence[int]) -> Instruction:
    """`array`'s gather of another source."""
    return _gather(rw, source, array.indices, array.source_dim, array.vector_dim, array.labels, dims, like=array.gather)


def _dot_of_source(inst: Instruction, array: Indexed, side: int, contracted: Sequence[int], rw: Rewrite) -> Instruction:
    other = inst.operands[1 - side]
    inner_dims = tuple(array.labels[d][1] for d in contracted)
    fields = ("lhs_contracting_dims", "rhs_contracting_dims")
    attrs = replace(inst.attrs, **{fields[side]: inner_dims})
    source = array.source
    free = [d for d in range(source.shape.rank) if d not in inner_dims]
    other_dims = [d for i, d in enumerate(other.shape.dims) if i not in getattr(inst.attrs, fields[1 - side])]
    own = [source.shape.dims[d] for d in free]
    dims = [*own, *other_dims] if side == 0 else [*other_dims, *own]
    operands = [source, other] if side == 0 else [other, source]
    product = rw.add(ops.DOT, operands, attrs, shape=Shape.array(inst.shape.element_type, dims))
    mine = [label for d, label in enumerate(array.labels) if d not in contracted]
    theirs: list[Label] = [("source", -1)] * len(other_dims)
    labels = [*mine, *theirs] if side == 0 else [*theirs, *mine]
    dim = free.index(array.source_dim) + (0 if side == 0 else len(other_dims))
    return _gather(rw, product, array.indices, dim, array.vector_dim, labels, inst.shape.dims, like=array.gather)


def _reshaped_labels(array: Indexed, dims: Sequence[int]) -> list[Label] | None:
    """What each dimension of a reshape to `dims` comes from, ("source", 0 or 1) for the dimensions before or after the
    one that is indexed; None when a group of dimensions that the reshape keeps together mixes those.
    """
    kinds: list[Label] = [
        (kind, int(k > array.source_dim)) if kind == "source" else (kind, 0) for kind, k in array.labels
    ]
    out: list[Label] = []
    last: Label = ("source", 0)
    for old, new in common_factors(array.gather.shape.dims, dims):
        own = list(dict.fromkeys(kinds[d] for d in old if array.gather.shape.dims[d] != 1))
        if len(own) > 1:
            return None
        # Dimensions of size one go with their neighbours.
        last = own[0] if own else (kinds[old[0]] if old else last)
        out += [last] * len(new)
    if [k for kind, k in out if kind == "source"] != sorted(k for kind, k in out if kind == "source"):
        return None
    return out
