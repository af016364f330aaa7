"""gather and scatter.

Both see the operand with its indexed dimensions first and its untouched ("full") dimensions last, so that one index
moves a whole row. Spec: XLA operation semantics (Gather, Scatter): gather clamps starts, scatter skips a window that
is out of bounds anywhere, and all updates of one element count, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.interp.batched import batched_or_loop
from xyla.interp.monoid import monoid_of, returned_parameter
from xyla.interp.reduce import SHORT, as_tuple
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array, Kernel, Value

# Past this many updates of one element, sums of narrow floats are wide: one by one they would take too long.
ONE_BY_ONE = 1 << 13


def _index_columns(indices: Array, vector_dim: int, count: int) -> list[Array]:
    """The `count` components of the index vectors, each of the batch shape, as int64 (huge u64 stay out of bounds)."""
    indices = np.asarray(indices)
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(2**62))
    wide = indices.astype(np.int64)
    if vector_dim == wide.ndim:
        return [wide] * count
    return [np.take(wide, i, axis=vector_dim) for i in range(count)]


def _batch_index(shape: Sequence[int], axis: int) -> Array:
    """iota along `axis` of the batch shape."""
    return np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])


@EVAL.rule(ops.GATHER)
def _gather(inst: Instruction, session: Session) -> Kernel:
    a = inst.attrs
    gone = (*a.collapsed_slice_dims, *a.operand_batching_dims)

    def kernel(operand: Array, indices: Array) -> Array:
        operand = np.asarray(operand)
        sizes = [min(s, d) for s, d in zip(a.slice_sizes, operand.shape, strict=True)]  # a dynamic operand may be less
        if 0 in inst.shape.dims:
            return np.zeros(inst.shape.dims, operand.dtype)
        columns = _index_columns(indices, a.index_vector_dim, len(a.start_index_map))
        batch = tuple(d for i, d in enumerate(np.shape(indices)) if i != a.index_vector_dim)
        starts: dict[int, Array] = {}
        for d, column in zip(a.start_index_map, columns, strict=True):
            starts[d] = np.clip(column, 0, operand.shape[d] - sizes[d])
        for d, where in zip(a.operand_batching_dims, a.start_indices_batching_dims, strict=True):
            starts[d] = _batch_index(batch, where - (where > a.index_vector_dim))
        return _take(operand, sizes, starts, batch)

    def _take(operand: Array, sizes: list[int], starts: dict[int, Array], batch: tuple[int, ...]) -> Array:
        window = [d for d in range(operand.ndim) if d not in gone]
        full = [d for d in window if sizes[d] == operand.shape[d]]
        indexed = [d for d in range(operand.ndim) if d not in full]
        partial = [d for d in window if d not in full]
        index = _grid(indexed, partial, starts, [sizes[d] for d in partial], len(batch))
        source = np.transpose(operand, (*indexed, *full))
        rows = source[tuple(index)] if index else source
        grid = (*batch, *(sizes[d] for d in partial))
        rows = np.broadcast_to(rows, (*grid, *(operand.shape[d] for d in full)))
        # Now: batch, partial window dims, full window dims. The result interleaves window dims at offset_dims.
        place = {d: len(batch) + i for i, d in enumerate((*partial, *full))}
        out_rank = len(batch) + len(window)
        batch_axes, window_axes = iter(range(len(batch))), iter(place[d] for d in window)
        return np.transpose(rows, [next(window_axes if i in a.offset_dims else batch_axes) for i in range(out_rank)])

    return kernel


def _grid(
    indexed: Sequence[int], partial: Sequence[int], starts: dict[int, Array], sizes: Sequence[int], batch_rank: int
) -> list[Array]:
    """Broadcastable index arrays of shape batch + partial window dims, one per indexed operand dimension."""
    out = []
    for d in indexed:
        start = np.asarray(starts.get(d, np.zeros((1,) * batch_rank, np.int64)))
        index = start.reshape((*start.shape, *([1] * len(partial))))
        if d in partial:
            i = partial.index(d)
            step = np.arange(sizes[i]).reshape([-1 if j == i else 1 for j in range(len(partial))])
            index = index + step
        out.append(index)
    return out


# -- scatter -------------------------------------------------------------------------------------------------------


@EVAL.rule(ops.SCATTER)
def _scatter(inst: Instruction, session: Session) -> Kernel:
    a, comp = inst.attrs, inst.called[0]
    n = len(inst.operands) // 2
    is_tuple = inst.shape.is_tuple

    def kernel(*values: Any) -> Value:
        operands = [np.asarray(v) for v in values[:n]]
        indices, updates = values[n], [np.asarray(v) for v in values[n + 1 :]]
        out = _apply(operands, indices, updates)
        return tuple(out) if is_tuple else out[0]

    def _apply(operands: list[Array], indices: Array, updates: list[Array]) -> list[Array]:
        dims = operands[0].shape
        skipped = (*a.inserted_window_dims, *a.input_batching_dims)
        window = [d for d in range(len(dims)) if d not in skipped]
        sizes = dict(zip(window, (updates[0].shape[i] for i in a.update_window_dims), strict=True))
        batch_axes = [i for i in range(updates[0].ndim) if i not in a.update_window_dims]
        batch = tuple(updates[0].shape[i] for i in batch_axes)
        full = [d for d in window if sizes[d] == dims[d] and d not in a.scatter_dims_to_operand_dims]
        indexed = [d for d in range(len(dims)) if d not in full]
        partial = [d for d in window if d not in full]
        starts, inside = _starts(indices, dims, sizes, batch)
        index = _grid(indexed, partial, starts, [sizes[d] for d in partial], len(batch))
        grid = (*batch, *(sizes[d] for d in partial))
        flat: Any = np.zeros((1,) * len(grid), np.int64)
        for d, column in zip(indexed, index, strict=True):
            flat = flat * dims[d] + column
        keep = np.broadcast_to(inside.reshape((*inside.shape, *([1] * len(partial)))), grid).reshape(-1)
        flat = np.broadcast_to(flat, grid).reshape(-1)[keep]
        order = (*indexed, *full)
        row = int(np.prod([dims[d] for d in full], dtype=np.int64))
        update_axes = [*batch_axes, *(a.update_window_dims[window.index(d)] for d in (*partial, *full))]
        rows = [np.transpose(u, update_axes).reshape(int(np.prod(grid, dtype=np.int64)), row)[keep] for u in updates]
        count = int(np.prod([dims[d] for d in indexed], dtype=np.int64))
        targets = [np.transpose(o, order).reshape(count, row) for o in operands]
        done = scatter_values(targets, flat, rows, comp, session)
        back = np.argsort(order) if order else ()
        shape = [dims[d] for d in order]
        return [np.transpose(t.reshape(shape), back) for t in done]

    def _starts(
        indices: Array, dims: Sequence[int], sizes: dict[int, int], batch: tuple[int, ...]
    ) -> tuple[dict[int, Array], Array]:
        """Window starts by operand dimension, and which windows lie inside the operand."""
        columns = _index_columns(indices, a.index_vector_dim, len(a.scatter_dims_to_operand_dims))
        starts: dict[int, Array] = dict(zip(a.scatter_dims_to_operand_dims, columns, strict=True))
        for d, where in zip(a.input_batching_dims, a.scatter_indices_batching_dims, strict=True):
            starts[d] = _batch_index(batch, where - (where > a.index_vector_dim))
        inside = np.ones(batch, bool)
        for d, start in starts.items():
            inside &= (start >= 0) & (start <= dims[d] - sizes.get(d, 1))
        if any(size > dims[d] for d, size in sizes.items()):
            inside[...] = False
        return starts, inside

    return kernel


def scatter_values(
    targets: Sequence[Array], index: Array, updates: Sequence[Array], comp: Computation, session: Session
) -> list[Array]:
    """Combines updates[i] into targets[index[i]] for every i in order; copies, does not write to `targets`.

    Targets: [n] or [n, row]; updates: [m] or [m, row]; index: [m], all in range.
    """
    out = [np.array(t) for t in targets]
    if index.size == 0 or out[0].size == 0:
        return out
    n = len(out)
    kept = returned_parameter(comp)
    if n == 1 and kept is not None:
        if kept == 1:
            last = _last_of_each(index)
            out[0][index[last]] = updates[0][last]
        return out
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    counts = np.diff(np.concatenate([first, [index.size]]))
    monoid = monoid_of(comp) if n == 1 and counts.max() > SHORT else None
    # Few enough updates of narrow floats are rounded one by one, as the definition says (and as compiled code does).
    narrow = out[0].dtype.itemsize < 4 and counts.max() <= ONE_BY_ONE
    if monoid is not None and not narrow:
        sums = monoid.ufunc.reduceat(monoid.widen(updates[0])[order], first, axis=0)
        where = ordered[first]
        out[0][where] = monoid.narrow(monoid.ufunc(monoid.widen(out[0][where]), sums))
        return out
    _by_rounds(out, [u[order] for u in updates], ordered, (first, counts), comp, session)
    return out


def _last_of_each(index: Array) -> Array:
    """Positions of the last occurrence of each value."""
    reverse = index[::-1]
    _, at = np.unique(reverse, return_index=True)
    return np.asarray(index.size - 1 - at)


def _by_rounds(
    out: list[Array],
    updates: list[Array],
    index: Array,
    groups: tuple[Array, Array],
    comp: Computation,
    session: Session,
) -> None:
    """Any combiner: round r applies the r-th update of every element that has one, all elements at once.

    groups: where each element's updates start in `index`, and how many there are.
    """
    combine = batched_or_loop(comp, session)
    first, counts = groups
    for r in range(int(counts.max())):
        at = first[counts > r] + r
        where = index[at]
        results = as_tuple(combine(*[o[where] for o in out], *[u[at] for u in updates]))
        for o, value in zip(out, results, strict=True):
            o[where] = value
