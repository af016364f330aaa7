"""ragged-dot: a dot whose left-hand rows (or contracted elements, or batches) fall into groups of given sizes.

Spec: XLA operation semantics (RaggedDot). Group i covers [sum of sizes before i, + size i) of the ragged dimension; a
negative size, of which the semantics say nothing, counts as 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.interp.dot import general, sum_type, to_sum_type
from xyla.interp.numeric import convert
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array, Kernel
from xyla.support.dtypes import ElementType

Pair = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class _RaggedDot:
    """Dimension numbers as (lhs, rhs) pairs. `group` is the rhs group dimension, None outside the ragged-rows mode."""

    batch: Pair
    contract: Pair
    ragged: int
    group: int | None
    total: ElementType

    def evaluate(self, x: Array, y: Array, sizes: Array) -> Array:
        """sizes: [groups], or [batch..., outer..., groups]: own sizes for each batch and each free lhs index before."""
        if sizes.ndim > 1:
            return self._each_batch(x, y, sizes)
        ends = np.minimum(np.cumsum(sizes), x.shape[self.ragged])
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        if self.ragged in self.batch[0]:
            return self._batches(x, y, int(ends[-1]))
        if self.ragged in self.contract[0]:
            return self._contracted(x, y, starts, ends)
        return self._rows(x, y, starts, ends)

    def _batches(self, x: Array, y: Array, used: int) -> Array:
        """A ragged batch dimension: a plain dot; batches past the last group give 0."""
        out = general(x, y, self.total, self.batch, self.contract)
        out[(slice(None),) * self.batch[0].index(self.ragged) + (slice(used, None),)] = 0
        return out

    def _contracted(self, x: Array, y: Array, starts: Array, ends: Array) -> Array:
        """Every group sums over its own part of the contracted dimension: a new leading group dimension."""
        y_dim = self.contract[1][self.contract[0].index(self.ragged)]
        parts = []
        for lo, hi in zip(starts, ends, strict=True):
            own = np.arange(lo, hi)
            xs, ys = np.take(x, own, axis=self.ragged), np.take(y, own, axis=y_dim)
            parts.append(general(xs, ys, self.total, self.batch, self.contract))
        return np.stack(parts)

    def _rows(self, x: Array, y: Array, starts: Array, ends: Array) -> Array:
        """Every group multiplies its rows by its own right-hand side; rows past the last group give 0."""
        assert self.group is not None
        batch = (self.batch[0], _without(self.batch[1], self.group))
        contract = (self.contract[0], _without(self.contract[1], self.group))
        free = [d for d in range(x.ndim) if d not in self.batch[0] and d not in self.contract[0]]
        before = (slice(None),) * (len(self.batch[0]) + free.index(self.ragged))
        out: Array | None = None
        for i, (lo, hi) in enumerate(zip(starts, ends, strict=True)):
            xs = np.take(x, np.arange(lo, hi), axis=self.ragged)
            part = general(xs, np.take(y, i, axis=self.group), self.total, batch, contract)
            if out is None:
                shape = list(part.shape)
                shape[len(before)] = x.shape[self.ragged]
                out = np.zeros(shape, part.dtype)
            out[(*before, slice(lo, hi))] = part
        assert out is not None
        return out

    def _each_batch(self, x: Array, y: Array, sizes: Array) -> Array:
        """One batch index (and one index of the free lhs dimensions that have sizes of their own) at a time."""
        taken = {*self.batch[0], *self.contract[0], self.ragged}
        outer = [d for d in range(x.ndim) if d not in taken][: sizes.ndim - 1 - len(self.batch[0])]
        lhs, rhs = (*self.batch[0], *outer), self.batch[1]
        x = np.moveaxis(x, lhs, range(len(lhs)))
        y = np.moveaxis(y, rhs, range(len(rhs)))
        inner = replace(
            self,
            batch=((), ()),
            contract=(_without(self.contract[0], *lhs), _without(self.contract[1], *rhs)),
            ragged=_without((self.ragged,), *lhs)[0],
            group=None if self.group is None else _without((self.group,), *rhs)[0],
        )
        batch = x.shape[: len(lhs)]
        parts = [inner.evaluate(x[i], y[i[: len(rhs)]], sizes[i]) for i in np.ndindex(*batch)]
        out = np.stack(parts).reshape(*batch, *parts[0].shape)
        # The group dimension of the contracted mode comes before the batch.
        return np.moveaxis(out, len(batch), 0) if self.ragged in self.contract[0] else out


def _without(dims: Sequence[int], *removed: int) -> tuple[int, ...]:
    """Dimension numbers after `removed` are taken out of the shape."""
    return tuple(d - sum(r < d for r in removed) for d in dims)


def _within(sizes: Array, extent: int) -> Array:
    """Group sizes as s64 between 0 and the ragged dimension's: larger ones reach its end all the same."""
    most = min(extent, int(np.iinfo(sizes.dtype).max))
    return np.clip(sizes, 0, most).astype(np.int64)


@EVAL.rule(ops.RAGGED_DOT)
def _ragged_dot(inst: Instruction, session: Session) -> Kernel:
    a = inst.attrs
    types = [o.shape.element_type for o in inst.operands]
    result = inst.shape.element_type
    length = math.prod(inst.operands[0].shape.dims[d] for d in a.lhs_contracting_dims)
    total = sum_type(result, types[:2], length)
    dot = _RaggedDot(
        (a.lhs_batch_dims, a.rhs_batch_dims),
        (a.lhs_contracting_dims, a.rhs_contracting_dims),
        a.lhs_ragged_dims[0],
        a.rhs_group_dims[0] if a.rhs_group_dims else None,
        total,
    )

    extent = inst.operands[0].shape.dims[dot.ragged]

    def kernel(x: Array, y: Array, sizes: Array) -> Array:
        x, y = to_sum_type(x, types[0], total), to_sum_type(y, types[1], total)
        return convert(dot.evaluate(x, y, _within(np.asarray(sizes), extent)), total, result)

    return kernel
