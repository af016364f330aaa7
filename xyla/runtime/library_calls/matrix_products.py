"""`xla.gpu.gemm` and `xla.gpu.gemm.bias`: what BLAS does not do by itself (integers, scales, irregular memory)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from xyla.runtime.custom_calls import Handler
from xyla.runtime.library_calls.common import Array, arithmetic, library_call, plain
from xyla.runtime.program import CustomCallStep
from xyla.support.status import invalid

_INTS = tuple[int, ...]
_GEMM = {
    "uid": (int, 0),
    "algorithm": (int, -1),
    "alpha_imag": (float, 0.0),
    "alpha_real": (float, 1.0),
    "beta": (float, 0.0),
    "lhs_batching_dimensions": (_INTS, ()),
    "lhs_contracting_dimensions": _INTS,
    "rhs_batching_dimensions": (_INTS, ()),
    "rhs_contracting_dimensions": _INTS,
}


@library_call("xla.gpu.gemm", _GEMM)
def _gemm(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """c = alpha lhs rhs + beta c; c is an input too where beta is not zero."""
    out = step.outputs[0][1].dtype

    def run(lhs: Array, rhs: Array, *c: Array) -> list[Array]:
        result = _scale(a, out) * product(lhs, rhs, a)
        if c and a["beta"]:
            result = result + a["beta"] * c[0].astype(result.dtype)
        return [result.astype(out)]

    return plain(run)


@library_call("xla.gpu.gemm.bias", {**_GEMM, "beta": (float, 1.0)})
def _gemm_bias(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """output = alpha lhs rhs + beta bias; the bias may be one row."""
    out = step.outputs[0][1].dtype

    def run(lhs: Array, rhs: Array, bias: Array) -> list[Array]:
        result = _scale(a, out) * product(lhs, rhs, a)
        return [(result + a["beta"] * bias.astype(result.dtype)).astype(out)]

    return plain(run)


def _scale(a: dict[str, Any], out: np.dtype[Any]) -> Any:
    kind = arithmetic(out)
    if kind.kind == "c":
        return kind.type(complex(a["alpha_real"], a["alpha_imag"]))
    if a["alpha_imag"]:
        raise invalid(f"a product of {out} cannot be scaled by the imaginary alpha_imag = {a['alpha_imag']}")
    return kind.type(a["alpha_real"])


def product(lhs: Array, rhs: Array, a: dict[str, Any]) -> Array:
    """The dot of two arrays: batches, what is left of lhs, then of rhs. Raises INVALID_ARGUMENT if they disagree."""
    lb, rb = a["lhs_batching_dimensions"], a["rhs_batching_dimensions"]
    lc, rc = a["lhs_contracting_dimensions"], a["rhs_contracting_dimensions"]
    check_dimensions(lhs.shape, rhs.shape, (lb, rb), (lc, rc))
    lf = [d for d in range(lhs.ndim) if d not in (*lb, *lc)]
    rf = [d for d in range(rhs.ndim) if d not in (*rb, *rc)]
    kind = arithmetic(np.result_type(lhs.dtype, rhs.dtype) if lhs.dtype.kind in "iufcb" else lhs.dtype)
    sizes = [lhs.shape[d] for d in lb]
    k = prod(lhs.shape[d] for d in lc)
    x = lhs.astype(kind).transpose(*lb, *lf, *lc).reshape(*sizes, -1 if k else prod(lhs.shape[d] for d in lf), k)
    y = rhs.astype(kind).transpose(*rb, *rc, *rf).reshape(*sizes, k, -1 if k else prod(rhs.shape[d] for d in rf))
    free = [*(lhs.shape[d] for d in lf), *(rhs.shape[d] for d in rf)]
    return np.asarray(np.matmul(x, y)).reshape(*sizes, *free)


def check_dimensions(
    lhs: tuple[int, ...], rhs: tuple[int, ...], batch: tuple[_INTS, _INTS], contract: tuple[_INTS, _INTS]
) -> None:
    """Raises INVALID_ARGUMENT unless the dimensions exist, are named once, and are of one size on both sides."""
    for shape, mine in ((lhs, (*batch[0], *contract[0])), (rhs, (*batch[1], *contract[1]))):
        if len(set(mine)) != len(mine) or any(not 0 <= d < len(shape) for d in mine):
            raise invalid(f"the dimensions {list(mine)} are not those of an array of {len(shape)} dimensions")
    for (left, right), what in ((batch, "batching"), (contract, "contracting")):
        if [lhs[d] for d in left] != [rhs[d] for d in right]:
            raise invalid(f"the {what} dimensions of {list(lhs)} and {list(rhs)} differ in size")
