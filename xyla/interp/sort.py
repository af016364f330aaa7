"""sort and topk.

A comparator of the form key(a) < key(b), or a lexicographic chain of such, sorts by computed keys. Any other comparator
runs a merge sort whose comparisons are evaluated on whole arrays; one that is not a strict weak order falls back to an
insertion-stable sequential sort, which ends whatever the comparator answers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.interp.batched import batched
from xyla.interp.numeric import total_order_key, widen
from xyla.interp.session import Session
from xyla.interp.sort_keys import sort_keys
from xyla.interp.table import EVAL, Array, Kernel, Value

# compare(left values..., right values...) -> bool array, vectorised.
Compare = Callable[[Sequence[Array], Sequence[Array]], Array]


@EVAL.rule(ops.SORT)
def _sort(inst: Instruction, session: Session) -> Kernel:
    comp, is_tuple = inst.called[0], inst.shape.is_tuple
    axis = inst.attrs.dimension if inst.attrs.dimension >= 0 else inst.operands[0].shape.rank - 1
    order_of = sorter(comp, session)

    def kernel(*xs: Array) -> Value:
        arrays = [np.asarray(x) for x in xs]
        out = tuple(sort_arrays(arrays, axis, order_of))
        return out if is_tuple else out[0]

    return kernel


def sort_arrays(arrays: list[Array], axis: int, order_of: Callable[[list[Array]], Array]) -> list[Array]:
    """`arrays` permuted together along `axis`; `order_of` gives each row's order."""
    if arrays[0].size == 0 or arrays[0].shape[axis] < 2:
        return arrays
    rows = [np.ascontiguousarray(np.moveaxis(a, axis, -1)) for a in arrays]
    shape = rows[0].shape
    flat = [r.reshape(-1, shape[-1]) for r in rows]
    order = order_of(flat)
    return [np.moveaxis(np.take_along_axis(f, order, axis=-1).reshape(shape), -1, axis) for f in flat]


def sorter(comp: Computation, session: Session) -> Callable[[list[Array]], Array]:
    """A function from rows [r, n] (one array an operand) to the stable order of each row."""
    keys = sort_keys(comp, session)
    if keys is not None:
        return lambda rows: _lexsort(keys(rows))
    vector = batched(comp, session)
    if vector is None:
        return lambda rows: _sequential(rows, comp, session)

    def compare(left: Sequence[Array], right: Sequence[Array]) -> Array:
        pairs = [x for pair in zip(left, right, strict=True) for x in pair]
        return np.broadcast_to(np.asarray(vector(*pairs), dtype=bool), left[0].shape)

    def order_of(rows: list[Array]) -> Array:
        order = _merge_sort(rows, compare)
        return order if _is_permutation(order) else _sequential(rows, comp, session)

    return order_of


def _lexsort(keys: Sequence[Array]) -> Array:
    """Stable order by keys, most significant first."""
    if len(keys) == 1:
        return np.argsort(keys[0], axis=-1, kind="stable")
    return np.lexsort(tuple(reversed(keys)), axis=-1)


def _is_permutation(order: Array) -> bool:
    return bool((np.sort(order, axis=-1) == np.arange(order.shape[-1])).all())


def _merge_sort(rows: list[Array], compare: Compare) -> Array:
    """Bottom-up: an element's place in a merged run is its own index plus its rank in the other run (binary search)."""
    r, n = rows[0].shape
    order = np.broadcast_to(np.arange(n), (r, n)).copy()
    position = np.arange(n)
    width = 1
    while width < n:
        block = position // width
        base = (block ^ 1) * width  # where the sibling run starts
        end = np.minimum(base + width, n)
        lo = np.broadcast_to(np.minimum(base, n), (r, n)).copy()
        hi = np.broadcast_to(np.maximum(end, np.minimum(base, n)), (r, n)).copy()
        is_left = np.broadcast_to((block & 1) == 0, (r, n))
        while (lo < hi).any():
            open_ = lo < hi
            mid = np.where(open_, (lo + hi) // 2, np.minimum(lo, n - 1))
            mine = [np.take_along_axis(x, order, -1) for x in rows]
            other = [np.take_along_axis(x, np.take_along_axis(order, mid, -1), -1) for x in rows]
            # A left element passes right ones that are smaller; a right element passes left ones that are not larger.
            passes = np.where(is_left, compare(other, mine), ~compare(mine, other))
            lo = np.where(open_ & passes, mid + 1, lo)
            hi = np.where(open_ & ~passes, mid, hi)
        start = (block & ~1) * width
        place = start + (position - block * width) + (lo - np.minimum(base, n))
        # Where the comparator contradicts itself two elements claim one place: what no one claims must stay an index.
        merged = np.zeros_like(order)
        np.put_along_axis(merged, np.clip(place, 0, n - 1), order, -1)
        order = merged
        width *= 2
    return order


def _sequential(rows: list[Array], comp: Computation, session: Session) -> Array:
    """Python's merge sort with the comparator called on scalars."""

    def less(row: list[Array], i: int, j: int) -> bool:
        return bool(session.call(comp, [x for a in row for x in (a[i], a[j])]))

    def compare(row: list[Array], i: int, j: int) -> int:
        return -1 if less(row, i, j) else int(less(row, j, i))

    out = np.empty(rows[0].shape, np.int64)
    for k in range(rows[0].shape[0]):
        row = [a[k] for a in rows]
        out[k] = sorted(range(rows[0].shape[1]), key=functools.cmp_to_key(functools.partial(compare, row)))
    return out


@EVAL.rule(ops.TOPK)
def _topk(inst: Instruction, session: Session) -> Kernel:
    """(values, s32 indices) of the k largest (smallest) along the last dimension, ties by lower index."""
    a, et = inst.attrs, inst.operands[0].shape.element_type
    return lambda x: top_k(np.asarray(x), a.k, largest=a.largest, key=lambda v: order_key(v, et))


def order_key(x: Array, et: Any) -> Array:
    """Keys that order like `et` does, NaN above all numbers for floats."""
    return total_order_key(x, et) if et.is_float else widen(x, et)


def top_k(x: Array, k: int, *, largest: bool, key: Callable[[Array], Array]) -> tuple[Array, Array]:
    """The k largest or smallest along the last axis, in order; equal elements by index."""
    keys = key(x)
    if largest:  # ~k reverses the order without overflow, for signed and unsigned alike
        keys = np.invert(keys)
    n = x.shape[-1]
    if 0 < k < n // 8:
        # Narrow the field first: everything up to the k-th smallest key, ties included, then order what is left.
        kth = np.partition(keys, k - 1, axis=-1)[..., k - 1 : k]
        order = _first_k(keys, kth, k)
    else:
        order = np.argsort(keys, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


def _first_k(keys: Array, kth: Array, k: int) -> Array:
    flat, limit = keys.reshape(-1, keys.shape[-1]), kth.reshape(-1, 1)
    out = np.empty((flat.shape[0], k), np.int64)
    for i in range(flat.shape[0]):
        field = np.flatnonzero(flat[i] <= limit[i])
        out[i] = field[np.argsort(flat[i][field], kind="stable")[:k]]
    return out.reshape(*keys.shape[:-1], k)
