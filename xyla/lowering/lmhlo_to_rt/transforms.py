"""fft, cholesky and triangular solve."""

from __future__ import annotations

from math import prod

from xyla.lowering import lmhlo
from xyla.lowering.lmhlo_to_rt.table import Context, malformed, rule
from xyla.runtime.library_calls.linear_algebra import Fft, Transpose


@rule(lmhlo.Fft)
def _fft(op: lmhlo.Fft, context: Context) -> None:
    given = {"fft_length": op.fft_length, "fft_type": Fft[op.fft_type.name].value}
    context.library_call(op, "xla.gpu.fft", (op.input,), (op.output,), given)


@rule(lmhlo.GpuCholesky)
def _gpu_cholesky(op: lmhlo.GpuCholesky, context: Context) -> None:
    _factor(op, op.input, (op.output, op.scratch, op.info), op.is_lower, context)


@rule(lmhlo.Cholesky)
def _cholesky(op: lmhlo.Cholesky, context: Context) -> None:
    _factor(op, op.a, (op.output,), op.lower, context)


def _factor(op: lmhlo.Op, a: lmhlo.View, outputs: tuple[lmhlo.View, ...], lower: bool, context: Context) -> None:
    dims = a.type.dims
    if len(dims) < 2:
        raise malformed(op, f"Input's dimension count ({len(dims)}) must be 2 or greater.")
    given = {"batch_size": prod(dims[:-2]), "n": dims[-1], "uplo": int(lower)}
    context.library_call(op, "xla.gpu.cholesky", (a,), outputs, given)


@rule(lmhlo.TriangularSolve)
def _triangular_solve(op: lmhlo.TriangularSolve, context: Context) -> None:
    given = {
        "left_side": op.left_side,
        "lower": op.lower,
        "unit_diagonal": op.unit_diagonal,
        "transpose_a": Transpose[op.transpose_a.name].value,
    }
    context.library_call(op, "xla.gpu.triangular_solve", (op.a, op.b), (op.output,), given)
