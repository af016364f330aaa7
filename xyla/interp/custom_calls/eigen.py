"""Eigenvalues, singular values and the reductions behind them, by LAPACK in the operand's own type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xyla.hlo.module import Instruction
from xyla.interp.custom_calls.batch import lapack_names, over_batch, result_shapes, routine
from xyla.interp.custom_calls.factor import is_lower
from xyla.interp.custom_calls.table import config, letter, target
from xyla.interp.session import Session
from xyla.interp.table import Array, Kernel
from xyla.support.status import unimplemented


@target(
    *lapack_names(
        "lapack_ssyevd_ffi", "lapack_dsyevd_ffi", "lapack_cheevd_ffi", "lapack_zheevd_ffi",
        "cusolver_syevd_ffi", "hipsolver_syevd_ffi", "cusolver_syevj_ffi", "hipsolver_syevj_ffi",
        "hipsolver_syevd", "hipsolver_syevj", "cusolver_syevd", "cusolver_syevj",
    )
)  # fmt: skip
def _syevd(inst: Instruction, session: Session) -> Kernel:
    """(eigenvectors in columns, ascending eigenvalues, info)."""
    lower = is_lower(inst)

    def one(a: Array) -> Sequence[Any]:
        name = "heevd" if a.dtype.kind == "c" else "syevd"
        w, v, info = routine(name, a)(a, compute_v=1, lower=int(lower))
        return v, w, info

    return lambda a: over_batch(inst, one, [a], [2])


@target("Eigh")
def _eigh(inst: Instruction, session: Session) -> Kernel:
    """The TPU form: (eigenvectors, eigenvalues); backend_config "lower,sort,max_iter,tolerance"."""
    lower = inst.backend_config.strip('"{}').split(",")[0].strip() != "0"

    def one(a: Array) -> Sequence[Any]:
        w, v, _ = routine("heevd" if a.dtype.kind == "c" else "syevd", a)(a, compute_v=1, lower=int(lower))
        return v, w

    return lambda a: over_batch(inst, one, [a], [2])


@target(*lapack_names("lapack_?geev_ffi"))
def _geev(inst: Instruction, session: Session) -> Kernel:
    """Real: (re w, im w, left, right, info); complex: (w, left, right, info). Eigenvectors are complex."""
    left = letter(inst, "compute_left", "V") == "V"
    right = letter(inst, "compute_right", "V") == "V"

    def one(a: Array) -> Sequence[Any]:
        if a.dtype.kind == "c":
            w, vl, vr, info = routine("geev", a)(a, compute_vl=int(left), compute_vr=int(right))
            return w, vl if left else 0, vr if right else 0, info
        wr, wi, vl, vr, info = routine("geev", a)(a, compute_vl=int(left), compute_vr=int(right))
        return wr, wi, _complex_vectors(vl, wi) if left else 0, _complex_vectors(vr, wi) if right else 0, info

    return lambda a: over_batch(inst, one, [a], [2])


def _complex_vectors(v: Array, wi: Array) -> Array:
    """LAPACK stores a conjugate pair's vectors as (real part, imaginary part) in two columns."""
    out = v.astype(np.result_type(v.dtype, np.complex64))
    j = 0
    while j < wi.size:
        if wi[j] != 0 and j + 1 < wi.size:
            out[:, j] = v[:, j] + 1j * v[:, j + 1]
            out[:, j + 1] = v[:, j] - 1j * v[:, j + 1]
            j += 2
        else:
            j += 1
    return out


@target(*lapack_names("lapack_?gees_ffi"))
def _gees(inst: Instruction, session: Session) -> Kernel:
    """Schur form. Real: (T, Z, re w, im w, selected, info); complex: (T, Z, w, selected, info)."""
    vectors = letter(inst, "mode", "V") == "V"
    if letter(inst, "sort", "N") != "N":
        raise unimplemented("gees with eigenvalue sorting: the selection function is not in the program")

    def one(a: Array) -> Sequence[Any]:
        def select(*_: Any) -> bool:
            return False

        results = routine("gees", a)(select, a, compute_v=int(vectors), sort_t=0)
        t, selected, w, vs, info = results[0], results[1], results[2:-3], results[-3], results[-1]
        return (t, vs, *w, selected, info)

    return lambda a: over_batch(inst, one, [a], [2])


@target(
    *lapack_names(
        "lapack_?gesdd_ffi", "cusolver_gesvd_ffi", "hipsolver_gesvd_ffi", "cusolver_gesvdj_ffi", "hipsolver_gesvdj_ffi"
    )
)
def _gesdd(inst: Instruction, session: Session) -> Kernel:
    """(overwritten input, s, U, V^H, info); the Jacobi form gives V instead of V^H."""
    options = config(inst)
    if "mode" in options:
        mode = letter(inst, "mode", "A")
        compute, full = mode != "N", mode == "A"
    else:
        compute, full = bool(options.get("compute_uv", 1)), bool(options.get("full_matrices", 1))
    jacobi, transposed = "gesvdj" in inst.attrs.custom_call_target, bool(options.get("transposed", 0))

    def one(a: Array) -> Sequence[Any]:
        source = a.T if transposed else a
        u, s, vh, info = routine("gesdd", a)(source, compute_uv=int(compute), full_matrices=int(full))
        if not compute:
            return a, s, 0, 0, info
        if transposed:
            u, vh = vh.T, u.T
        return a, s, u, vh.conj().T if jacobi else vh, info

    return lambda a: over_batch(inst, one, [a], [2])


@target(*lapack_names("lapack_?gehrd_ffi"))
def _gehrd(inst: Instruction, session: Session) -> Kernel:
    """(Hessenberg form with its reflectors below, tau, info); low and high count from 1."""
    options = config(inst)
    low, high = int(options.get("low", 1)), options.get("high")

    def one(a: Array) -> Sequence[Any]:
        top = int(high) if high is not None else a.shape[0]
        return routine("gehrd", a)(a, lo=low - 1, hi=top - 1)  # type: ignore[no-any-return]

    return lambda a: over_batch(inst, one, [a], [2])


@target(
    *lapack_names(
        "lapack_ssytrd_ffi", "lapack_dsytrd_ffi", "lapack_chetrd_ffi", "lapack_zhetrd_ffi", "cusolver_sytrd_ffi",
        "hipsolver_sytrd_ffi",
    )
)  # fmt: skip
def _sytrd(inst: Instruction, session: Session) -> Kernel:
    """(reflectors and tridiagonal, d, e, tau, info)."""
    lower = is_lower(inst)
    info_wanted = len(result_shapes(inst)) > 4

    def one(a: Array) -> Sequence[Any]:
        c, d, e, tau, info = routine("hetrd" if a.dtype.kind == "c" else "sytrd", a)(a, lower=int(lower))
        return (c, d, e, tau, info) if info_wanted else (c, d, e, tau)

    return lambda a: over_batch(inst, one, [a], [2])
