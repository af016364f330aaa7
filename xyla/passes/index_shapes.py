"""Index arrays of gathers and scatters in one plain form: a row an index (shared by their simplifiers)."""

from __future__ import annotations

from math import prod

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.passmgr.rules import Rewrite


def index_rows(indices: Instruction, vector_dim: int, rw: Rewrite) -> Instruction:
    """`indices` as s[N, k]: one row for each index vector, in row-major order of the other dimensions."""
    shape = indices.shape
    dims = shape.dims
    if vector_dim == shape.rank:
        return reshape(indices, (prod(dims), 1), rw)
    if vector_dim != shape.rank - 1:
        order = (*(d for d in range(shape.rank) if d != vector_dim), vector_dim)
        indices = transpose(indices, order, rw)
        dims = indices.shape.dims
    return reshape(indices, (prod(dims[:-1]), dims[-1]), rw)


def reshape(inst: Instruction, dims: tuple[int, ...], rw: Rewrite) -> Instruction:
    """`inst` with other dims; itself when they are its own."""
    if inst.shape.dims == dims:
        return inst
    return rw.add(ops.RESHAPE, [inst], ops.ReshapeAttrs(), shape=inst.shape.with_dims(dims))


def transpose(inst: Instruction, order: tuple[int, ...], rw: Rewrite) -> Instruction:
    """`inst` transposed (result dim i is operand dim order[i]); itself for the identity."""
    if order == tuple(range(len(order))):
        return inst
    shape = inst.shape.with_dims([inst.shape.dims[d] for d in order])
    return rw.add(ops.TRANSPOSE, [inst], ops.DimensionsAttrs(order), shape=shape)


def batch_sizes(indices: Instruction, vector_dim: int) -> tuple[int, ...]:
    """The dimensions of an index array without the one that holds index vectors."""
    return tuple(d for i, d in enumerate(indices.shape.dims) if i != vector_dim)
