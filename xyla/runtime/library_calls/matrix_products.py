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
    out = _checked(step, a)

    def run(lhs: Array, rhs: Array, *c: Array) -> list[Array]:
        result = _scale(a, out) * product(lhs, rhs, a)
        if c and a["beta"]:
            result = result + a["beta"] * c[0].astype(result.dtype)
        return [result.astype(out)]

    return plain(run)


@library_call("xla.gpu.gemm.bias", {**_GEMM, "beta": (float, 1.0)})
def _gemm_bias(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """output = alpha lhs rhs + beta bias; the bias may be one row."""
    out = _checked(step, a)

    def run(lhs: Array, rhs: Array, bias: Array) -> list[Array]:
        result = _scale(a, out) * product(lhs, rhs, a)
        return [(result + a["beta"] * bias.astype(result.dtype)).astype(out)]

    return plain(run)


def _checked(step: CustomCallStep, a: dict[str, Any]) -> np.dtype[Any]:
    """The result's type. Raises INVALID_ARGUMENT when the arrays are not those of a product."""
    if len(step.inputs) < 2 or len(step.outputs) != 1:
        raise invalid(f"a product has two operands and a result, not {len(step.inputs)} and {len(step.outputs)}")
    (_, lhs), (_, rhs), (_, out) = *step.inputs[:2], step.outputs[0]
    batch = a["lhs_batching_dimensions"], a["rhs_batching_dimensions"]
    contract = a["lhs_contracting_dimensions"], a["rhs_contracting_dimensions"]
    check_dimensions(lhs.dims, rhs.dims, batch, contract, out.dims)
    return out.dtype


def _scale(a: dict[str, Any], out: np.dtype[Any]) -> Any:
    kind = arithmetic(out)
    if kind.kind == "c":
        return kind.type(complex(a["alpha_real"], a["alpha_imag"]))
    if a["alpha_imag"]:
        raise invalid(f"a product of {out} cannot be scaled by the imaginary alpha_imag = {a['alpha_imag']}")
    return kind.type(a["alpha_real"])


def product(lhs: Array, rhs: Array, a: dict[str, Any]) -> Array:
    """The dot of two arrays: batches, what is left of lhs, then of rhs."""
    lb, rb = a["lhs_batching_dimensions"], a["rhs_batching_dimensions"]
    lc, rc = a["lhs_contracting_dimensions"], a["rhs_contracting_dimensions"]
    lf, rf = _others(lhs.shape, lb, lc), _others(rhs.shape, rb, rc)
    kind = arithmetic(np.result_type(lhs.dtype, rhs.dtype) if lhs.dtype.kind in "iufcb" else lhs.dtype)
    sizes = [lhs.shape[d] for d in lb]
    k = prod(lhs.shape[d] for d in lc)
    x = lhs.astype(kind).transpose(*lb, *lf, *lc).reshape(*sizes, -1 if k else prod(lhs.shape[d] for d in lf), k)
    y = rhs.astype(kind).transpose(*rb, *rc, *rf).reshape(*sizes, k, -1 if k else prod(rhs.shape[d] for d in rf))
    free = [*(lhs.shape[d] for d in lf), *(rhs.shape[d] for d in rf)]
    return np.asarray(np.matmul(x, y)).reshape(*sizes, *free)


def check_dimensions(
    lhs: _INTS, rhs: _INTS, batch: tuple[_INTS, _INTS], contract: tuple[_INTS, _INTS], out: _INTS | None = None
) -> None:
    """Raises INVALID_ARGUMENT unless the dimensions exist, are named once, and are of one size on both sides.

    out: the result's dimensions, which must then follow from them.
    """
    for shape, mine in ((lhs, (*batch[0], *contract[0])), (rhs, (*batch[1], *contract[1]))):
        if len(set(mine)) != len(mine) or any(not 0 <= d < len(shape) for d in mine):
            raise invalid(f"the dimensions {list(mine)} are not those of an array of {len(shape)} dimensions")
    for (left, right), what in ((batch, "batching"), (contract, "contracting")):
        if [lhs[d] for d in left] != [rhs[d] for d in right]:
            raise invalid(f"the {what} dimensions of {list(lhs)} and {list(rhs)} differ in size")
    free = [shape[d] for shape, b, c in zip((lhs, rhs), batch, contract, strict=True) for d in _others(shape, b, c)]
    wanted = (*(lhs[d] for d in batch[0]), *free)
    if out is not None and out != wanted:
        raise invalid(f"the product is {list(wanted)}, the result {list(out)}")


def _others(shape: _INTS, *named: _INTS) -> list[int]:
    """The dimensions that are not named."""
    return [d for d in range(len(shape)) if not any(d in dims for dims in named)]
