"""cholesky and triangular-solve through LAPACK in float64 (complex128), rounded once.

Spec: XLA operation semantics (Cholesky, TriangularSolve): only one triangle of the input is read; a matrix that is not
positive definite gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import Transpose
from xyla.hlo.module import Instruction
from xyla.interp.numeric import widen
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array, Kernel
from xyla.support.dtypes import ElementType
from xyla.support.status import unimplemented


def to_double(x: Array, et: ElementType) -> Array:
    """float64 or complex128."""
    return np.asarray(widen(np.asarray(x), et)).astype(np.complex128 if et.is_complex else np.float64)


def for_each_matrix(fn: Callable[..., Array], *xs: Array) -> Array:
    """fn on every pair of trailing matrices; leading dimensions are a batch."""
    batch = xs[0].shape[:-2]
    flat = [x.reshape(-1, *x.shape[-2:]) for x in xs]
    parts = [fn(*[f[i] for f in flat]) for i in range(flat[0].shape[0])]
    if not parts:
        return np.zeros(xs[-1].shape, xs[-1].dtype)
    return np.stack(parts).reshape(*batch, *parts[0].shape)


@EVAL.rule(ops.CHOLESKY)
def _cholesky(inst: Instruction, session: Session) -> Kernel:
    et, lower = inst.operands[0].shape.element_type, inst.attrs.lower

    def one(a: Array) -> Array:
        return cholesky(a, lower=lower)

    return lambda a: for_each_matrix(one, to_double(a, et)).astype(et.np)


def cholesky(a: Array, *, lower: bool) -> Array:
    """The factor of one matrix, zeros in the other triangle; all NaN where it does not exist."""
    from scipy.linalg import lapack

    if a.shape[0] == 0:
        return a
    potrf = lapack.zpotrf if a.dtype.kind == "c" else lapack.dpotrf
    factor, info = potrf(a, lower=int(lower), clean=1)
    if info != 0:
        return np.tril(np.full_like(a, np.nan)) if lower else np.triu(np.full_like(a, np.nan))
    return np.asarray(factor)


_TRANS = {Transpose.INVALID: 0, Transpose.NO_TRANSPOSE: 0, Transpose.TRANSPOSE: 1, Transpose.ADJOINT: 2}


@EVAL.rule(ops.TRIANGULAR_SOLVE)
def _triangular_solve(inst: Instruction, session: Session) -> Kernel:
    a, et = inst.attrs, inst.operands[0].shape.element_type
    if not (et.is_float or et.is_complex):
        raise unimplemented(f"triangular-solve of {et}", span=inst.span)

    def one(m: Array, b: Array) -> Array:
        return solve_triangular(m, b, a.left_side, a.lower, a.unit_diagonal, _TRANS[a.transpose_a])

    return lambda m, b: for_each_matrix(one, to_double(m, et), to_double(b, et)).astype(et.np)


def solve_triangular(m: Array, b: Array, left: bool, lower: bool, unit: bool, trans: int) -> Array:
    """x with op(m) x = b, or x op(m) = b. trans: 0 none, 1 transpose, 2 adjoint. A zero pivot gives inf or NaN."""
    from scipy.linalg import blas

    if b.size == 0:
        return b
    trsm = blas.ztrsm if m.dtype.kind == "c" else blas.dtrsm
    return np.asarray(trsm(1.0, m, b, side=0 if left else 1, lower=int(lower), trans_a=trans, diag=int(unit)))
