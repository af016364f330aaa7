"""reduce and scan: folding along dimensions.

A short reduction is folded in order, in the element type, as the specification's loop does. A long one, whose order XLA
leaves open, uses NumPy's reductions in a wide accumulator when the reducer is a known monoid. Any other reducer is
evaluated on whole slices, in order or (past some thousands) pairwise: a reducer is associative by contract.
Spec: XLA operation semantics (Reduce): the init value enters each result once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.interp.batched import Batched, batched, batched_or_loop
from xyla.interp.monoid import Monoid, monoid_of
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array, Kernel, Value

# Past this many steps along the reduced dimension, fold pairwise: log2(n) evaluations on arrays instead of n.
_IN_ORDER = 4096
# Up to this many elements, sums are exactly the sequential ones.
SHORT = 32


@EVAL.rule(ops.REDUCE)
def _reduce(inst: Instruction, session: Session) -> Kernel:
    dims, comp = inst.attrs.dimensions, inst.called[0]
    shape = inst.operands[0].shape
    short = math.prod(shape.dims[d] for d in dims) <= SHORT
    monoid = monoid_of(comp) if len(inst.operands) == 2 and not short else None
    if monoid is not None:
        return lambda x, init: _reduce_monoid(monoid, x, init, dims)
    fold = batched_or_loop(comp, session)
    is_tuple = inst.shape.is_tuple

    def kernel(*operands: Array) -> Value:
        n = len(operands) // 2
        out = reduce_general(fold, operands[:n], operands[n:], dims)
        return out if is_tuple else out[0]

    return kernel


def _reduce_monoid(monoid: Monoid, x: Array, init: Array, dims: Sequence[int]) -> Array:
    axes = tuple(dims)
    x = np.asarray(x)
    if axes == () or x.size == 0:
        kept = tuple(d for i, d in enumerate(x.shape) if i not in axes)
        if x.size == 0:
            return np.broadcast_to(init, kept).astype(monoid.element_type.np)
        return monoid.narrow(monoid.ufunc(monoid.widen(init), monoid.widen(x)))
    if isinstance(monoid.ufunc, np.ufunc) and monoid.ufunc in (np.add, np.multiply):
        if x.dtype.kind == "V":
            x = monoid.widen(x)
        folded = monoid.ufunc.reduce(x, axis=axes, dtype=monoid.dtype)
    else:
        folded = monoid.ufunc.reduce(monoid.widen(x), axis=axes)
    return monoid.narrow(monoid.ufunc(monoid.widen(init), folded))


def reduce_general(
    fold: Batched, xs: Sequence[Array], inits: Sequence[Array], dims: Sequence[int]
) -> tuple[Array, ...]:
    """Folds along `dims`, first gathered into one leading dimension (row-major, as the sequential loop goes)."""
    arrays = [np.asarray(x) for x in xs]
    kept = [d for d in range(arrays[0].ndim) if d not in dims]
    shape = tuple(arrays[0].shape[d] for d in kept)
    count = int(np.prod([arrays[0].shape[d] for d in dims], dtype=np.int64))
    rows = [np.transpose(a, (*sorted(dims), *kept)).reshape(count, *shape) for a in arrays]
    acc = tuple(np.broadcast_to(i, shape) for i in inits)
    if count and all(shape):
        acc = fold_rows(fold, acc, rows)
    return tuple(np.broadcast_to(a, shape).astype(r.dtype) for a, r in zip(acc, rows, strict=True))


def fold_rows(fold: Batched, acc: tuple[Array, ...], rows: Sequence[Array]) -> tuple[Array, ...]:
    """acc = fold(acc, row) over the leading dimension of `rows`."""
    while rows[0].shape[0] > _IN_ORDER:
        rows = _halve(fold, rows)
    for i in range(rows[0].shape[0]):
        acc = as_tuple(fold(*acc, *[r[i] for r in rows]))
    return acc


def _halve(fold: Batched, rows: Sequence[Array]) -> list[Array]:
    n = rows[0].shape[0]
    even = [r[0 : n - n % 2 : 2] for r in rows]
    odd = [r[1:n:2] for r in rows]
    paired = as_tuple(fold(*even, *odd))
    full = [np.broadcast_to(p, e.shape) for p, e in zip(paired, even, strict=True)]
    if n % 2:
        full = [np.concatenate([f, r[n - 1 :]]) for f, r in zip(full, rows, strict=True)]
    return full


def as_tuple(value: Value) -> tuple[Any, ...]:
    """A reducer's result as a tuple, also when it is one value."""
    return value if isinstance(value, tuple) else (value,)


@EVAL.rule(ops.SCAN)
def _scan(inst: Instruction, session: Session) -> Kernel:
    """Operands: inputs then initial carries; to_apply(inputs at i, carries) -> (outputs at i, carries).

    The result is (outputs..., final carries...).
    """
    a, comp = inst.attrs, inst.called[0]
    n_carry, axis = a.num_carries, a.dimension
    fast = batched(comp, session)
    step = fast or (lambda *xs: session.call(comp, xs))
    n_in = len(inst.operands) - n_carry
    leaves = [s for _, s in inst.shape.leaves()]
    is_tuple = inst.shape.is_tuple

    def kernel(*operands: Array) -> Value:
        inputs, carries = operands[:n_in], tuple(operands[n_in:])
        n_out = len(leaves) - n_carry
        outs = [np.empty(s.dims, s.element_type.np) for s in leaves[:n_out]]
        length = inputs[0].shape[axis] if inputs else outs[0].shape[axis]
        order = range(length - 1, -1, -1) if a.is_reverse else range(length)
        for i in order:
            at = (slice(None),) * axis + (i,)
            results = as_tuple(step(*[x[at] for x in inputs], *carries))
            for out, value in zip(outs, results[:n_out], strict=True):
                out[at] = value
            carries = tuple(results[n_out:])
        carries = tuple(np.broadcast_to(c, s.dims) for c, s in zip(carries, leaves[n_out:], strict=True))
        values = (*outs, *carries)
        return values if is_tuple else values[0]

    return kernel
