"""Factorisations and solvers: Cholesky, LU, QR, triangular and tridiagonal solves, by LAPACK in the operand's own type.

Targets: JAX's `lapack_*_ffi`, the GPU libraries' `cusolver_*_ffi` and `hipsolver_*_ffi`, and the TPU names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xyla.hlo.module import Instruction
from xyla.interp.custom_calls.batch import lapack_names, over_batch, result_shapes, routine
from xyla.interp.custom_calls.table import config, letter, target
from xyla.interp.session import Session
from xyla.interp.table import Array, Kernel

# LAPACK's block sizes are at most this.
_BLOCK = 64


def is_lower(inst: Instruction) -> bool:
    """uplo = "L" (LAPACK) or lower = true (GPU solvers)."""
    options = config(inst)
    return bool(options["lower"]) if "lower" in options else letter(inst, "uplo", "L") == "L"


@target(*lapack_names("lapack_?potrf_ffi", "cusolver_potrf_ffi", "hipsolver_potrf_ffi"))
def _potrf(inst: Instruction, session: Session) -> Kernel:
    lower = is_lower(inst)

    def one(a: Array) -> Sequence[Any]:
        factor, info = routine("potrf", a)(a, lower=int(lower), clean=0)
        return factor, info

    return lambda a: over_batch(inst, one, [a], [2])


@target(*lapack_names("lapack_?getrf_ffi", "cusolver_getrf_ffi", "hipsolver_getrf_ffi"))
def _getrf(inst: Instruction, session: Session) -> Kernel:
    """(LU, pivots counted from 1, info)."""

    def one(a: Array) -> Sequence[Any]:
        lu, pivots, info = routine("getrf", a)(a)
        return lu, pivots + 1, info

    return lambda a: over_batch(inst, one, [a], [2])


@target("LuDecomposition")
def _lu_decomposition(inst: Instruction, session: Session) -> Kernel:
    """(LU, pivots counted from 0, permutation)."""

    def one(a: Array) -> Sequence[Any]:
        lu, pivots, _ = routine("getrf", a)(a)
        return lu, pivots, permutation(pivots, a.shape[0])

    return lambda a: over_batch(inst, one, [a], [2])


def permutation(pivots: Array, size: int) -> Array:
    """The permutation that successive row swaps (i, pivots[i]) amount to; a pivot past the end swaps nothing."""
    out = np.arange(size, dtype=np.int32)
    for i, p in enumerate(np.asarray(pivots).tolist()):
        if 0 <= p < size:
            out[i], out[p] = out[p], out[i]
    return out


@target("cu_lu_pivots_to_permutation", "hip_lu_pivots_to_permutation")
def _pivots_to_permutation(inst: Instruction, session: Session) -> Kernel:
    size = inst.shape.dims[-1]
    return lambda pivots: over_batch(inst, lambda p: [permutation(p, size)], [pivots], [1])


@target(*lapack_names("lapack_?geqrf_ffi", "cusolver_geqrf_ffi", "hipsolver_geqrf_ffi", "Qr"))
def _geqrf(inst: Instruction, session: Session) -> Kernel:
    """(R above, Householder vectors below; tau)."""

    def one(a: Array) -> Sequence[Any]:
        # The default workspace makes LAPACK work column by column: ask for one that lets it block.
        qr, tau, _, _ = routine("geqrf", a)(a, lwork=_BLOCK * max(a.shape[1], 1))
        return qr, tau

    return lambda a: over_batch(inst, one, [a], [2])


@target(
    *lapack_names(
        "lapack_sorgqr_ffi", "lapack_dorgqr_ffi", "lapack_cungqr_ffi", "lapack_zungqr_ffi", "cusolver_orgqr_ffi",
        "hipsolver_orgqr_ffi", "ProductOfElementaryHouseholderReflectors",
    )
)  # fmt: skip
def _orgqr(inst: Instruction, session: Session) -> Kernel:
    def one(a: Array, tau: Array) -> Sequence[Any]:
        name = "ungqr" if a.dtype.kind == "c" else "orgqr"
        q, _, _ = routine(name, a)(a, tau, lwork=_BLOCK * max(a.shape[1], 1))
        return [q]

    return lambda a, tau: over_batch(inst, one, [a, tau], [2, 1])


@target(*lapack_names("lapack_?trsm_ffi"))
def _trsm(inst: Instruction, session: Session) -> Kernel:
    """op(a) x = b (side L) or x op(a) = b."""
    options = {
        "side": int(letter(inst, "side", "L") == "R"),
        "lower": int(letter(inst, "uplo", "L") == "L"),
        "trans_a": {"N": 0, "T": 1, "C": 2}[letter(inst, "trans_x", "N")],
        "diag": int(letter(inst, "diag", "N") == "U"),
    }

    def one(a: Array, b: Array) -> Sequence[Any]:
        from scipy.linalg import blas

        trsm = {"f": blas.strsm, "d": blas.dtrsm, "F": blas.ctrsm, "D": blas.ztrsm}[a.dtype.char]
        return [trsm(1.0, a, b, **options)]

    # Old programs pass a scale, alpha, as a third operand.
    return lambda a, b, *alpha: over_batch(inst, one, [a, b if not alpha else b * alpha[0]], [2, 2])


@target(*lapack_names("lapack_?gtsv_ffi", "cusparse_gtsv2_ffi", "hipsparse_gtsv2_ffi"))
def _gtsv(inst: Instruction, session: Session) -> Kernel:
    """Tridiagonal solve; dl[0] and du[-1] are padding. LAPACK's form returns the factored diagonals as well."""
    only_solution = len(result_shapes(inst)) == 1

    def one(dl: Array, d: Array, du: Array, b: Array) -> Sequence[Any]:
        du2, d_out, du_out, x, info = routine("gtsv", b)(dl[1:], d, du[:-1], b)
        if only_solution:
            return [x]
        # LAPACK leaves its second superdiagonal in dl; the padding stays where it was.
        return [np.concatenate([dl[:1], du2]), d_out, np.concatenate([du_out, du[-1:]]), x, info]

    return lambda dl, d, du, b: over_batch(inst, one, [dl, d, du, b], [1, 1, 1, 2])
