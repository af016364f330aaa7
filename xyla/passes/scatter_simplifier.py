"""Scatters in one plain form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.passes.index_shapes import batch_sizes, index_rows, reshape, transpose
from xyla.passes.inlining import copy_body
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, rule_table, run_rules


@register
@dataclass(frozen=True, slots=True)
class ScatterSimplifier(Pass):
    """Makes each scatter take a row of indices and a whole window for each update.

        scatter(x, s32[2,3,1], f32[2,3]), inserted_window_dims={0}, ...
        ==>  scatter(x, s32[6,1], f32[6,1]), update_window_dims={1}, inserted_window_dims={}

    Scatters with batching dimensions and those of dynamic shape stay. Into a scalar, a scatter is its combiner.
    """

    name: ClassVar[str] = "scatter-simplifier"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size."""
        return run_rules(module, ctx, rule_table(([ops.SCATTER], [scatter_into_scalar, plain_scatter])))


def scatter_into_scalar(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """scatter(x, [], u) -> combine(x, u), for scalars x and u and one empty index vector."""
    count = len(inst.operands) // 2
    indices, update = inst.operands[count].shape, inst.operands[-1].shape
    if inst.operands[0].shape.rank or update.rank or indices.dims != (0,):
        return None
    rw.permit()
    values = [*inst.operands[:count], *inst.operands[count + 1 :]]
    root, copies = copy_body(inst.called[0], inst.parent, values)
    rw.made.extend(copies)
    return root


def is_plain_scatter(inst: Instruction) -> bool:
    """Whether a scatter has rows of indices, and updates that are whole windows after the dimension of rows."""
    attrs: ops.ScatterAttrs = inst.attrs
    count = len(inst.operands) // 2
    rows = inst.operands[count].shape.rank == 2 and attrs.index_vector_dim == 1
    windows = attrs.update_window_dims == tuple(range(1, inst.operands[0].shape.rank + 1))
    return rows and windows and not attrs.inserted_window_dims


def plain_scatter(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """scatter(x..., indices, u...) -> scatter(x..., rows, reshape(transpose(u))...), see `ScatterSimplifier`."""
    attrs: ops.ScatterAttrs = inst.attrs
    count = len(inst.operands) // 2
    if attrs.input_batching_dims or any(o.shape.is_dynamic for o in inst.operands) or is_plain_scatter(inst):
        return None
    indices = inst.operands[count]
    if indices.shape.rank == 0:
        return None
    batch = batch_sizes(indices, attrs.index_vector_dim)
    rows = index_rows(indices, attrs.index_vector_dim, rw)
    updates = [_whole_windows(u, attrs, rows.shape.dims[0], len(batch), rw) for u in inst.operands[count + 1 :]]
    rank = inst.operands[0].shape.rank
    plain = replace(attrs, update_window_dims=tuple(range(1, rank + 1)), inserted_window_dims=(), index_vector_dim=1)
    operands = [*inst.operands[:count], rows, *updates]
    new = rw.add(ops.SCATTER, operands, plain, shape=inst.shape, called=inst.called)
    new.backend_config, new.sharding = inst.backend_config, inst.sharding
    return new


def _whole_windows(update: Instruction, attrs: ops.ScatterAttrs, rows: int, batch: int, rw: Rewrite) -> Instruction:
    """An update array as [rows, window over every operand dimension]."""
    window = attrs.update_window_dims
    scatter = [d for d in range(update.shape.rank) if d not in window]
    assert len(scatter) == batch
    ordered = transpose(update, (*scatter, *window), rw)
    sizes = [update.shape.dims[d] for d in window]
    rank = len(window) + len(attrs.inserted_window_dims)
    given = iter(sizes)
    full = [1 if d in attrs.inserted_window_dims else next(given) for d in range(rank)]
    return reshape(ordered, (rows, *full), rw)
