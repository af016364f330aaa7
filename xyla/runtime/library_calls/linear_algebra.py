"""`xla.gpu.fft`, `xla.gpu.cholesky` and `xla.gpu.triangular_solve`."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from xyla.runtime.call_types import AttributeType, Kind
from xyla.runtime.custom_calls import Handler
from xyla.runtime.library_calls.common import Array, arithmetic, batched, library_call, plain, unused
from xyla.runtime.program import CustomCallStep
from xyla.support.status import invalid

_I32 = AttributeType(Kind.I32)


class Fft(Enum):
    """fft_type, by MHLO's numbers."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


class Transpose(Enum):
    """transpose_a, by MHLO's numbers."""

    INVALID = 0
    NO_TRANSPOSE = 1
    TRANSPOSE = 2
    ADJOINT = 3


_SOLVE = {"left_side": bool, "lower": bool, "unit_diagonal": bool, "transpose_a": _I32}


@library_call("xla.gpu.fft", {"fft_length": tuple[int, ...], "fft_type": _I32})
def _fft(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """The transform of the last dimensions; inverse ones divide by the length."""
    kind, length, out = Fft(a["fft_type"]), a["fft_length"], step.outputs[0][1]
    axes = tuple(range(-len(length), 0))

    def run(x: Array) -> list[Array]:
        from scipy import fft

        if x.size == 0 or 0 in out.dims:
            return [np.zeros(out.dims, out.dtype)]
        function = {Fft.FFT: fft.fftn, Fft.IFFT: fft.ifftn, Fft.RFFT: fft.rfftn, Fft.IRFFT: fft.irfftn}[kind]
        return [np.asarray(function(x, s=length, axes=axes)).astype(out.dtype)]

    return plain(run)


@library_call("xla.gpu.cholesky", {"batch_size": (int, 1), "n": int, "uplo": int})
def _cholesky(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """Outputs: the factor, then (where the call has them) work space and a status word a matrix.

    uplo: 1 for the lower factor, 0 for the upper. A matrix that is not positive definite gives NaN and a status that
    is not zero.
    """
    (_, out), *rest = step.outputs
    n, lower = a["n"], a["uplo"] == 1
    if out.dims[-2:] != (n, n):
        raise invalid(f"n is {n}, but the result is {list(out.dims)}")

    def run(x: Array) -> list[Array]:
        matrices = batched(x.astype(arithmetic(x.dtype)))
        factors, status = np.empty_like(matrices), np.zeros(len(matrices), np.int32)
        for i, matrix in enumerate(matrices):
            factors[i], status[i] = _factor(matrix, lower)
        info = [status.reshape(t.dims) if i == len(rest) - 1 else unused(t) for i, (_, t) in enumerate(rest)]
        return [factors.reshape(out.dims).astype(out.dtype), *info]

    return plain(run)


def _factor(matrix: Array, lower: bool) -> tuple[Array, int]:
    """(factor, status) of a matrix of which one triangle counts."""
    triangle = np.tril(matrix) if lower else np.triu(matrix).conj().T
    full = triangle + np.tril(triangle, -1).conj().T
    try:
        factor = np.linalg.cholesky(full)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan), 1
    return (factor if lower else factor.conj().T), 0


@library_call("xla.gpu.triangular_solve", _SOLVE)
def _triangular_solve(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """Solves op(a) x = b, or x op(a) = b where left_side is not set."""
    (_, out), *rest = step.outputs
    how = Transpose(a["transpose_a"])

    def run(matrix: Array, b: Array) -> list[Array]:
        from scipy.linalg import solve_triangular

        kind = arithmetic(b.dtype)
        lhs, rhs = batched(matrix.astype(kind)), batched(b.astype(kind))
        found = np.empty_like(rhs)
        for i in range(len(rhs)):
            m, lower = lhs[i], a["lower"]
            if how in (Transpose.TRANSPOSE, Transpose.ADJOINT):
                m, lower = (m.conj().T if how is Transpose.ADJOINT else m.T), not lower
            if a["left_side"]:
                found[i] = solve_triangular(m, rhs[i], lower=lower, unit_diagonal=a["unit_diagonal"])
            else:
                found[i] = solve_triangular(m.T, rhs[i].T, lower=not lower, unit_diagonal=a["unit_diagonal"]).T
        return [found.reshape(out.dims).astype(out.dtype), *(unused(t) for _, t in rest)]

    return plain(run)
