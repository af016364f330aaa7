"""Small pieces of dense linear algebra over batches [N, rows, columns]. Shared by the expanders of solvers."""

from __future__ import annotations

import math

from xyla.hlo import ops
from xyla.hlo.attr_types import Precision
from xyla.passes.building import Builder, Val
from xyla.support.dtypes import F32, S32, ElementType

_HIGHEST = (Precision.HIGHEST, Precision.HIGHEST)


def compute_type(et: ElementType) -> ElementType:
    """The type to factor in: f32 for narrower floats."""
    return F32 if et.is_float and et.bits < 32 else et


def batched(x: Val) -> Val:
    """[..., m, n] as [N, m, n]."""
    return x.reshape(math.prod(x.dims[:-2]), *x.dims[-2:])


def conj(x: Val) -> Val:
    """The complex conjugate; itself when real."""
    if not x.et.is_complex:
        return x
    return x.b.apply(ops.COMPLEX, real(x), -x.b.unary(ops.IMAG, x))


def real(x: Val) -> Val:
    """The real part; itself when real."""
    return x.b.unary(ops.REAL, x) if x.et.is_complex else x


def adjoint(x: Val) -> Val:
    """The conjugate transpose of each matrix."""
    return conj(x.transpose(0, 2, 1))


def matmul(x: Val, y: Val) -> Val:
    """[N, m, k] x [N, k, n]."""
    return x.b.dot(x, y, ([2], [1]), batch=1, operand_precision=_HIGHEST)


def column(x: Val, j: Val) -> Val:
    """[N, m, 1]: column j (s32) of each matrix."""
    return x.b.dynamic_slice(x, [0, 0, j], [x.dims[0], x.dims[1], 1])


def row(x: Val, i: Val) -> Val:
    """[N, 1, n]: row i (s32) of each matrix."""
    return x.b.dynamic_slice(x, [0, i, 0], [x.dims[0], 1, x.dims[2]])


def triangle(b: Builder, dims: tuple[int, ...], *, lower: bool, strict: bool = False) -> Val:
    """pred[N, m, n]: whether an element lies in the triangle (the diagonal with it unless strict)."""
    i, j = b.iota(S32, dims, 1), b.iota(S32, dims, 2)
    if strict:
        return i.gt(j) if lower else i.lt(j)
    return i.ge(j) if lower else i.le(j)


def identity(b: Builder, et: ElementType, dims: tuple[int, ...]) -> Val:
    """The identity in each matrix [N, m, n]."""
    return b.iota(S32, dims, 1).eq(b.iota(S32, dims, 2)).convert(et)
