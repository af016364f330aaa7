"""Recognising dots that are a plain (batched) matrix product, for BLAS."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.runtime.program import GemmCall
from xyla.support import dtypes

# Up to this many multiplications our own tiled kernel is as fast as a library call, or faster.
WORTH = 200**3


@dataclass(frozen=True, slots=True)
class Side:
    """One matrix of a batched product: (stride of rows, stride of columns, stride of batches)."""

    rows: int
    cols: int
    batch: int


def collapse(shape: Shape, dims: Sequence[int]) -> tuple[int, int] | None:
    """(size, stride) of several dimensions seen as one, the first the slowest; None when memory is not that regular."""
    strides = shape.strides()
    live = [d for d in dims if shape.dims[d] != 1]
    if not live:
        return 1, 0
    for a, b in itertools.pairwise(live):
        if strides[a] != strides[b] * shape.dims[b]:
            return None
    return prod(shape.dims[d] for d in live), strides[live[-1]]


@dataclass(frozen=True, slots=True)
class DotDims:
    """Which dimensions of its two operands a dot takes batch by batch, and which it sums over."""

    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]


def gemm_of(inst: Instruction) -> GemmCall | None:
    """The library call for a dot of f32 or f64 that is large and regular enough, or None."""
    a, lhs, rhs, out = inst.attrs, inst.operands[0].shape, inst.operands[1].shape, inst.shape
    if a.sparsity:
        return None
    dims = DotDims(a.lhs_batch_dims, a.rhs_batch_dims, a.lhs_contracting_dims, a.rhs_contracting_dims)
    call = product_of(lhs, rhs, out, dims)
    # Matrix times vector is bound by memory: the library's matrix product is slow at it.
    if call is None or call.m * call.n * call.k < WORTH or min(call.m, call.n) == 1:
        return None
    return call


def product_of(lhs: Shape, rhs: Shape, out: Shape, dims: DotDims) -> GemmCall | None:
    """The library call for a dot of any size; None when the types or the memory are not what BLAS takes."""
    et = out.element_type
    if et not in (dtypes.F32, dtypes.F64) or lhs.element_type is not et or rhs.element_type is not et:
        return None
    nb = len(dims.lhs_batch)
    lhs_free = [d for d in range(lhs.rank) if d not in (*dims.lhs_batch, *dims.lhs_contracting)]
    rhs_free = [d for d in range(rhs.rank) if d not in (*dims.rhs_batch, *dims.rhs_contracting)]
    # Any order of the contracting dimensions will do, as long as it is the same on both sides.
    pairs = sorted(zip(dims.lhs_contracting, dims.rhs_contracting, strict=True), key=lambda p: -lhs.strides()[p[0]])
    m_out, n_out = range(nb, nb + len(lhs_free)), range(nb + len(lhs_free), out.rank)
    x = _side(lhs, lhs_free, [p[0] for p in pairs], dims.lhs_batch)
    y = _side(rhs, [p[1] for p in pairs], rhs_free, dims.rhs_batch)
    c = _side(out, m_out, n_out, range(nb))
    if x is None or y is None or c is None:
        return None
    m, n = prod(lhs.dims[d] for d in lhs_free), prod(rhs.dims[d] for d in rhs_free)
    k, batch = prod(lhs.dims[p[0]] for p in pairs), prod(out.dims[:nb])
    if not all(0 < size < 1 << 31 for size in (m, n, k)):
        return None
    if c.cols == 1 or n == 1:
        return _call(m, n, k, batch, x, y, c, swap=False)
    flip = [Side(s.cols, s.rows, s.batch) for s in (y, x, c)]
    return _call(n, m, k, batch, *flip, swap=True) if c.rows == 1 or m == 1 else None


def _side(shape: Shape, rows: Sequence[int], cols: Sequence[int], batch: Sequence[int]) -> Side | None:
    parts = [collapse(shape, dims) for dims in (rows, cols, batch)]
    strides = [p[1] for p in parts if p is not None]
    return Side(*strides) if len(strides) == 3 else None


def _call(m: int, n: int, k: int, batch: int, x: Side, y: Side, c: Side, *, swap: bool) -> GemmCall | None:
    """x is [m,k], y is [k,n], c is [m,n] with unit column stride."""
    first, second = _stored(x, m, k), _stored(y, k, n)
    if first is None or second is None:
        return None
    (trans_a, lda), (trans_b, ldb) = first, second
    ldc = max(c.rows, n) if m == 1 else c.rows
    if ldc < n:
        return None
    return GemmCall(m, n, k, trans_a, trans_b, lda, ldb, ldc, batch, x.batch, y.batch, c.batch, swap)


def _stored(s: Side, rows: int, cols: int) -> tuple[bool, int] | None:
    """(stored transposed, row stride) of a matrix, when one of its strides is 1."""
    if (s.cols == 1 or cols == 1) and (rows == 1 or s.rows >= cols):
        return False, max(s.rows, cols)
    if (s.rows == 1 or rows == 1) and (cols == 1 or s.cols >= rows):
        return True, max(s.cols, rows)
    return None
