"""reduce-window and select-and-scatter.

Small windows fold in order, one window offset at a time on all windows at once. A large window splits by dimension (a
reducer is associative); along one dimension, windows of k elements combine in O(log k) array steps (binary doubling),
so cumulative windows are not quadratic. Padding holds the init value, as the operation semantics say; the init itself
enters each result once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import Window, WindowDim
from xyla.hlo.module import Instruction
from xyla.interp.batched import Batched, batched_or_loop
from xyla.interp.gather_scatter import scatter_values
from xyla.interp.monoid import Monoid, monoid_of
from xyla.interp.movement import pad
from xyla.interp.reduce import SHORT, as_tuple
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array, Kernel, Value

Combine = Callable[[Sequence[Array], Sequence[Array]], Sequence[Array]]
# Up to this many offsets a window is combined one offset at a time.
_DIRECT = 8


@EVAL.rule(ops.REDUCE_WINDOW)
def _reduce_window(inst: Instruction, session: Session) -> Kernel:
    window, comp = inst.attrs.window, inst.called[0]
    small = math.prod(w.size for w in window.dims) <= SHORT
    monoid = monoid_of(comp) if len(inst.operands) == 2 and not small else None
    if monoid is not None:
        return lambda x, init: _monoid_windows(monoid, np.asarray(x), init, window)
    fold = batched_or_loop(comp, session)
    is_tuple = inst.shape.is_tuple

    def combine(a: Sequence[Array], b: Sequence[Array]) -> Sequence[Array]:
        out = as_tuple(fold(*a, *b))
        return [np.broadcast_to(o, x.shape) for o, x in zip(out, a, strict=True)]

    def kernel(*operands: Array) -> Value:
        n = len(operands) // 2
        xs, inits = [np.asarray(x) for x in operands[:n]], operands[n:]
        if small:
            result = tuple(_small_windows(combine, xs, inits, window))
        else:
            out = _windows(combine, xs, inits, window)
            result = tuple(combine([np.broadcast_to(i, o.shape) for i, o in zip(inits, out, strict=True)], out))
        return result if is_tuple else result[0]

    return kernel


def _small_windows(combine: Combine, xs: Sequence[Array], inits: Sequence[Array], window: Window) -> Sequence[Array]:
    """acc = reducer(acc, element) over the window's offsets in row-major order."""
    counts = window.output_dims(xs[0].shape)
    padding = [(w.pad_low, w.pad_high, w.lhs_dilate - 1) for w in window.dims]
    xs = [pad(x, i, padding) for x, i in zip(xs, inits, strict=True)]
    acc: Sequence[Array] = [np.broadcast_to(i, counts) for i in inits]
    if 0 in counts:
        return acc
    for offset in np.ndindex(*[w.size for w in window.dims]):
        at = []
        for o, n, w in zip(offset, counts, window.dims, strict=True):
            start = (w.size - 1 - o if w.reversal else o) * w.rhs_dilate
            at.append(slice(start, start + (n - 1) * w.stride + 1, w.stride))
        acc = combine(acc, [x[tuple(at)] for x in xs])
    return acc


def _monoid_windows(monoid: Monoid, x: Array, init: Array, window: Window) -> Array:
    wide_init = monoid.widen(init)
    combine: Combine = lambda a, b: [monoid.ufunc(a[0], b[0])]  # noqa: E731 - one line, used once
    (out,) = _windows(combine, [monoid.widen(x)], [wide_init], window)
    return monoid.narrow(monoid.ufunc(wide_init, out))


def _windows(combine: Combine, xs: Sequence[Array], inits: Sequence[Array], window: Window) -> Sequence[Array]:
    """The reduction of every window, without the init value. Empty windows do not occur (size >= 1)."""
    for axis, w in enumerate(window.dims):
        if w == WindowDim(1):
            continue
        padding = [(w.pad_low, w.pad_high, w.lhs_dilate - 1) if d == axis else (0, 0, 0) for d in range(xs[0].ndim)]
        xs = [pad(x, i, padding) for x, i in zip(xs, inits, strict=True)]
        if w.reversal:
            xs = [np.flip(x, axis) for x in xs]
        xs = _windows_along(combine, xs, axis, w)
        if w.reversal:
            xs = [np.flip(x, axis) for x in xs]
    return xs


def _windows_along(combine: Combine, xs: Sequence[Array], axis: int, w: WindowDim) -> Sequence[Array]:
    length = xs[0].shape[axis]
    count = 0 if w.dilated_size > length else (length - w.dilated_size) // w.stride + 1
    if count <= 0:
        return [x[_at(axis, 0, 0)] for x in xs]
    if w.size <= _DIRECT:
        last = (count - 1) * w.stride + 1
        parts = [[x[_at(axis, i * w.rhs_dilate, i * w.rhs_dilate + last, w.stride)] for x in xs] for i in range(w.size)]
        acc: Sequence[Array] = parts[0]
        for part in parts[1:]:
            acc = combine(acc, part)
        return acc
    full = _doubling(combine, xs, axis, w)
    return [x[_at(axis, 0, (count - 1) * w.stride + 1, w.stride)] for x in full]


def _doubling(combine: Combine, xs: Sequence[Array], axis: int, w: WindowDim) -> Sequence[Array]:
    """Windows of w.size at stride 1: `power` holds windows of 2^j elements; the size's set bits are joined in order."""
    positions = xs[0].shape[axis] - w.dilated_size + 1
    power, span, done = xs, 1, 0
    result: Sequence[Array] | None = None
    while True:
        if w.size & span:
            lo = done * w.rhs_dilate
            part = [p[_at(axis, lo, lo + positions)] for p in power]
            result = part if result is None else combine(result, part)
            done += span
        if done == w.size:
            assert result is not None
            return result
        shift = span * w.rhs_dilate
        keep = power[0].shape[axis] - shift
        power = combine([p[_at(axis, 0, keep)] for p in power], [p[_at(axis, shift, shift + keep)] for p in power])
        span *= 2


def _at(axis: int, start: int, stop: int, step: int = 1) -> tuple[slice, ...]:
    return (slice(None),) * axis + (slice(start, stop, step),)


# -- select-and-scatter --------------------------------------------------------------------------------------------


@EVAL.rule(ops.SELECT_AND_SCATTER)
def _select_and_scatter(inst: Instruction, session: Session) -> Kernel:
    """Each window picks one element (the first that no later one beats) and the source value is scattered there."""
    window = inst.attrs.window
    select = batched_or_loop(inst.role("select"), session)
    scatter = inst.role("scatter")

    def kernel(x: Array, source: Array, init: Array) -> Array:
        x, source = np.asarray(x), np.asarray(source)
        chosen, valid = _chosen(x, source.shape, window, select)
        target = np.full(x.size, init, x.dtype)
        out = scatter_values([target], chosen[valid], [source[valid]], scatter, session)[0]
        return out.reshape(x.shape)

    return kernel


def _chosen(x: Array, counts: Sequence[int], window: Window, select: Batched) -> tuple[Array, Array]:
    """(flat index of the selected element, whether the window touches the operand at all) for every window."""
    best = np.zeros(counts, np.int64)
    value = np.zeros(counts, x.dtype)
    found = np.zeros(counts, bool)
    flat = np.ascontiguousarray(x).reshape(-1)
    for offset in np.ndindex(*[w.size for w in window.dims]):
        index, inside = _candidate(x.shape, counts, window, offset)
        candidate = flat[np.where(inside, index, 0)] if flat.size else np.zeros(counts, x.dtype)
        keep = found & np.asarray(select(value, candidate)).astype(bool)
        take = inside & ~keep
        best, value, found = np.where(take, index, best), np.where(take, candidate, value), found | inside
    return best, found


def _candidate(dims: Sequence[int], counts: Sequence[int], window: Window, offset: Sequence[int]) -> tuple[Any, Any]:
    """Flat operand index that `offset` of each window names, and whether it exists (not padding, not a hole)."""
    index: Any = np.zeros((1,) * len(dims), np.int64)
    inside: Any = np.ones((1,) * len(dims), bool)
    for d, (n, count, w, o) in enumerate(zip(dims, counts, window.dims, offset, strict=True)):
        at = np.arange(count) * w.stride + o * w.rhs_dilate - w.pad_low
        ok = at % w.lhs_dilate == 0
        at = at // w.lhs_dilate
        ok &= (at >= 0) & (at < n)
        shape = [-1 if i == d else 1 for i in range(len(dims))]
        index = index * n + at.reshape(shape)
        inside = inside & ok.reshape(shape)
    return np.broadcast_to(index, counts), np.broadcast_to(inside, counts)
