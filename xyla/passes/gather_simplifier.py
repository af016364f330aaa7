"""Gathers in one plain form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.passes.index_shapes import batch_sizes, index_rows, reshape, transpose
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, rule_table, run_rules


@register
@dataclass(frozen=True, slots=True)
class GatherSimplifier(Pass):
    """Makes each gather take a row of start indices for each slice, and give whole slices in order.

        gather(x, s32[2,3,1]), offset_dims={0}, collapsed_slice_dims={0}
        ==>  g = gather(x, reshape(indices) s32[6,1]), offset_dims={1,2}, collapsed_slice_dims={}
             transpose(reshape(g))

    Gathers with batching dimensions and those of dynamic shape stay.
    """

    name: ClassVar[str] = "gather-simplifier"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size."""
        return run_rules(module, ctx, rule_table(([ops.GATHER], [gather_from_scalar, plain_gather])))


def gather_from_scalar(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """gather(scalar, indices) -> broadcast(scalar): every slice is the scalar."""
    operand, _ = inst.operands
    if operand.shape.rank or inst.shape.is_dynamic:
        return None
    if not inst.shape.rank:
        return operand
    return rw.add(ops.BROADCAST, [operand], ops.DimensionsAttrs(()), shape=inst.shape)


def is_plain_gather(inst: Instruction) -> bool:
    """Whether a gather has rows of start indices, offset dimensions after the one of rows, and collapses nothing."""
    attrs: ops.GatherAttrs = inst.attrs
    rows = inst.operands[1].shape.rank == 2 and attrs.index_vector_dim == 1
    return rows and not attrs.collapsed_slice_dims and attrs.offset_dims == tuple(range(1, inst.shape.rank))


def plain_gather(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """gather(x, indices) -> transpose(reshape(gather(x, rows))), see `GatherSimplifier`."""
    attrs: ops.GatherAttrs = inst.attrs
    operand, indices = inst.operands
    if attrs.operand_batching_dims or any(i.shape.is_dynamic for i in (inst, operand, indices)):
        return None
    if is_plain_gather(inst) or not all(attrs.slice_sizes):
        return None
    batch = batch_sizes(indices, attrs.index_vector_dim)
    rows = index_rows(indices, attrs.index_vector_dim, rw)
    sizes = attrs.slice_sizes
    plain = replace(attrs, offset_dims=tuple(range(1, len(sizes) + 1)), collapsed_slice_dims=(), index_vector_dim=1)
    whole = rw.add(ops.GATHER, [operand, rows], plain, shape=inst.shape.with_dims((rows.shape.dims[0], *sizes)))
    kept = tuple(s for d, s in enumerate(sizes) if d not in attrs.collapsed_slice_dims)
    spread = reshape(whole, (*batch, *kept), rw)
    # Result dims: the offset dims where they are asked for, the batch dims in the places left.
    order = [-1] * inst.shape.rank
    for k, d in enumerate(attrs.offset_dims):
        order[d] = len(batch) + k
    free = iter(range(len(batch)))
    final = transpose(spread, tuple(next(free) if o < 0 else o for o in order), rw)
    return final if inst.shape.layout is None else rw.add(ops.COPY, [final], shape=inst.shape)
