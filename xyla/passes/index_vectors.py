"""The index vectors of gather and scatter as rows, and the window each of them names. Shared by their expanders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xyla.passes.building import Builder, Val
from xyla.support.dtypes import S32, S64


@dataclass(frozen=True, slots=True)
class IndexNumbers:
    """What gather's and scatter's dimension numbers have in common.

    to_operand: the operand dimension of each index component. operand_batching[i] goes with dimension
    indices_batching[i] of the indices.
    """

    index_vector_dim: int
    to_operand: tuple[int, ...]
    operand_batching: tuple[int, ...]
    indices_batching: tuple[int, ...]

    def batch_dims(self, indices: Sequence[int]) -> tuple[int, ...]:
        """The dimensions of the indices less the index vector's, in order."""
        return tuple(d for i, d in enumerate(indices) if i != self.index_vector_dim)


def signed(x: Val) -> Val:
    """Indices as s32 or s64; unsigned ones past the signed range stay past every bound."""
    if x.et.is_signed:
        return x if x.et.bits >= 32 else x.convert(S32)
    if x.et.bits < 32:
        return x.convert(S32)
    if x.et.bits == 32:
        return x.convert(S64)
    return x.b.minimum(x, 2**63 - 1).convert(S64)


def index_rows(b: Builder, indices: Val, numbers: IndexNumbers) -> Val:
    """[N, components]: one row an index vector, in row-major order of the batch dimensions.

    Batching dimensions become components, after the index vector's own (their value is the position itself).
    """
    x = signed(indices)
    rank, at = len(x.dims), numbers.index_vector_dim
    if at == rank:
        x = x.reshape(*x.dims, 1)
        rank += 1
    batch = numbers.batch_dims(indices.dims)
    x = x.transpose(*[i for i in range(rank) if i != at], at)
    count = math.prod(batch)
    x = x.reshape(count, len(numbers.to_operand))
    if not numbers.indices_batching:
        return x
    position = {d: i for i, d in enumerate(k for k in range(rank) if k != at)}
    columns = [x]
    for d in numbers.indices_batching:
        k = position[d]
        columns.append(b.iota(x.et, batch, k).reshape(count, 1))
    return b.concat(columns, 1)


def window_start(b: Builder, row: Val, numbers: IndexNumbers, rank: int) -> list[Val | int]:
    """The operand position that a row [components] names: 0 in dimensions without a component."""
    start: list[Val | int] = [b.scalar(0, row.et)] * rank
    for i, d in enumerate((*numbers.to_operand, *numbers.operand_batching)):
        start[d] = row.slice([i], [i + 1]).reshape()
    return start


def row_at(b: Builder, rows: Val, i: Val) -> Val:
    """Row i (s32) as a vector."""
    width = rows.dims[1]
    return b.dynamic_slice(rows, [i, b.scalar(0, i.et)], [1, width]).reshape(width)


def permutation_to(front: Sequence[int], rank: int) -> tuple[int, ...]:
    """The transpose that brings dimensions `front` to the front and keeps the others in order behind them."""
    rest = [i for i in range(rank) if i not in set(front)]
    return (*front, *rest)


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The inverse permutation."""
    return tuple(int(i) for i in np.argsort(np.asarray(order, int)))
