"""dot and scaled-dot as batched matrix products.

f16, bf16 and fp8 accumulate in float32 and round once; integers wrap. f32, f64 and complex sums of a few products are
formed in order in the result's own type, exactly as the specification's loop does; longer ones, whose order XLA leaves
open, accumulate one type wider and round once. The `algorithm` and `operand_precision` attributes permit a backend to
be less exact: the evaluator gives the best result either way.
Spec: XLA operation semantics (DotGeneral), StableHLO dot_general.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import Sparsity
from xyla.hlo.module import Instruction
from xyla.interp.numeric import accumulator, convert, narrow, widen
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array, Kernel
from xyla.support.dtypes import F32, F64, PRED, ElementType

# Up to this many products a sum is formed in order.
_IN_ORDER = 16


def sum_type(result: ElementType, operands: Sequence[ElementType], length: int) -> ElementType:
    """The type in which `length` products are formed and summed."""
    if result.is_float and all(t.bits < 32 for t in (result, *operands)):
        return F32
    if length <= _IN_ORDER and (result.is_complex or result.bits >= 32):
        return result
    return accumulator(result)


def product(x: Array, y: Array, total: ElementType, *, in_order: bool = False) -> Array:
    """Batched matrix product [b,m,k] x [b,k,n] in dtype `total`, the sum type."""
    if total is PRED:
        return np.asarray(np.matmul(x.astype(np.float32), y.astype(np.float32)) > 0)
    if total.is_integer:
        return _integer_product(x, y, total)
    if in_order and x.shape[-1] <= _IN_ORDER:
        return _in_order(x, y)
    return np.asarray(np.matmul(x, y))


def _in_order(x: Array, y: Array) -> Array:
    acc = np.zeros((*x.shape[:-1], y.shape[-1]), x.dtype)
    for k in range(x.shape[-1]):
        acc += x[..., k, None] * y[..., k, None, :]
    return acc


def _integer_product(x: Array, y: Array, total: ElementType) -> Array:
    """Integer matrix products wrap; when no sum can leave float64's exact range, its fast product is used."""
    if x.size and y.size and total.bits <= 32:
        largest = _magnitude(x) * _magnitude(y) * x.shape[-1]
        if largest < 2**53:
            exact = np.asarray(np.matmul(x.astype(np.float64), y.astype(np.float64)))
            return exact.astype(np.int64).astype(total.np)
    wide = np.int64 if total.is_signed else np.uint64
    return np.asarray(np.matmul(x.astype(wide), y.astype(wide))).astype(total.np)


def _magnitude(x: Array) -> int:
    return max(abs(int(x.max())), abs(int(x.min())))


def general(
    x: Array,
    y: Array,
    total: ElementType,
    batch: tuple[Sequence[int], Sequence[int]],
    contract: tuple[Sequence[int], Sequence[int]],
) -> Array:
    """DotGeneral on arrays already of the sum type; result dims: batch, lhs free, rhs free."""
    free_x = [d for d in range(x.ndim) if d not in batch[0] and d not in contract[0]]
    free_y = [d for d in range(y.ndim) if d not in batch[1] and d not in contract[1]]
    shape = [x.shape[d] for d in (*batch[0], *free_x)] + [y.shape[d] for d in free_y]
    b = math.prod(x.shape[d] for d in batch[0])
    m = math.prod(x.shape[d] for d in free_x)
    n = math.prod(y.shape[d] for d in free_y)
    k = math.prod(x.shape[d] for d in contract[0])
    x3 = np.transpose(x, (*batch[0], *free_x, *contract[0])).reshape(b, m, k)
    y3 = np.transpose(y, (*batch[1], *contract[1], *free_y)).reshape(b, k, n)
    if k == 0:
        return np.zeros(shape, total.np)
    return product(x3, y3, total, in_order=True).reshape(shape)


def to_sum_type(x: Array, et: ElementType, total: ElementType) -> Array:
    """An operand in the sum type; a complex or float total takes anything."""
    wide = np.asarray(widen(np.asarray(x), et))
    return wide if wide.dtype == total.np else wide.astype(total.np)


@EVAL.rule(ops.DOT)
def _dot(inst: Instruction, session: Session) -> Kernel:
    a = inst.attrs
    types = [o.shape.element_type for o in inst.operands]
    result = inst.shape.element_type
    length = math.prod(inst.operands[0].shape.dims[d] for d in a.lhs_contracting_dims)
    total = sum_type(result, types[:2], length)
    batch, contract = (a.lhs_batch_dims, a.rhs_batch_dims), (a.lhs_contracting_dims, a.rhs_contracting_dims)

    def kernel(x: Array, y: Array, *metadata: Array) -> Array:
        for sparsity, meta in zip(a.sparsity, metadata, strict=True):
            x, y = (x, _expand(y, sparsity, meta)) if sparsity.index else (_expand(x, sparsity, meta), y)
        x, y = to_sum_type(x, types[0], total), to_sum_type(y, types[1], total)
        return convert(general(x, y, total, batch, contract), total, result)

    return kernel


def _expand(x: Array, sparsity: Sparsity, metadata: Array) -> Array:
    """Structured sparsity: of every m elements n are stored; metadata holds log2(m)-bit positions, lowest first."""
    d, n, m = sparsity.dimension, sparsity.n, sparsity.m
    width = (m - 1).bit_length()
    per_word = 8 * metadata.dtype.itemsize // width
    words = np.moveaxis(np.asarray(metadata), d, -1).astype(np.uint64)
    shifts = np.arange(per_word, dtype=np.uint64) * np.uint64(width)
    at = (words[..., None] >> shifts) & np.uint64(m - 1)
    stored = np.moveaxis(np.asarray(x), d, -1)
    at = at.reshape(*words.shape[:-1], -1)[..., : stored.shape[-1]].astype(np.int64)
    group = np.arange(stored.shape[-1]) // n * m
    out = np.zeros((*stored.shape[:-1], stored.shape[-1] // n * m), stored.dtype)
    np.put_along_axis(out, np.broadcast_to(at + group, stored.shape), stored, axis=-1)
    return np.moveaxis(out, -1, d)


@EVAL.rule(ops.SCALED_DOT)
def _scaled_dot(inst: Instruction, session: Session) -> Kernel:
    """dot(lhs * scale, rhs * scale): along a dimension where a scale is smaller, its elements cover blocks."""
    a = inst.attrs
    types = [o.shape.element_type for o in inst.operands]
    result = inst.shape.element_type
    batch, contract = (a.lhs_batch_dims, a.rhs_batch_dims), (a.lhs_contracting_dims, a.rhs_contracting_dims)

    def scaled(x: Array, et: ElementType, scale: Array, scale_type: ElementType) -> Array:
        wide, s = to_sum_type(x, et, F64), to_sum_type(scale, scale_type, F64)
        for d in range(s.ndim):
            if s.shape[d] != wide.shape[d]:
                s = np.repeat(s, wide.shape[d] // s.shape[d], axis=d)
        return wide * s

    def kernel(x: Array, y: Array, x_scale: Array, y_scale: Array) -> Array:
        lhs = scaled(x, types[0], x_scale, types[2]) if inst.operands[2].shape.rank else to_sum_type(x, types[0], F64)
        rhs = scaled(y, types[1], y_scale, types[3]) if inst.operands[3].shape.rank else to_sum_type(y, types[1], F64)
        return narrow(general(lhs, rhs, F64, batch, contract), result)

    return kernel
