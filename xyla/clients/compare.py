"""How far a result is from the right one: absolute, relative and ULP error, and whether that is close enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.support.dtypes import by_numpy

Array = np.ndarray[Any, np.dtype[Any]]

# How many roundings' worth of error a mismatch may have and still prove nothing (see is_rounding).
ROUNDINGS = 8

_TOLERANCE = {
    "float64": 1e-10,
    "complex128": 1e-10,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float16": 1e-2,
    "bfloat16": 1e-2,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Errors of one array against another. `max_*` are over elements; infinite where only one side is finite.

    `max_rel` is over the elements that should not be 0.
    """

    max_abs: float
    max_rel: float
    max_ulp: float
    tolerance: float
    mismatches: int
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Every element is within tolerance (integers: equal), and shapes and types agree."""
        return self.mismatches == 0 and not self.problem


def default_tolerance(dtype: np.dtype[Any], reduction_length: int = 1) -> float:
    """The tolerance for results of `dtype`: 0 for integers, 1e-4 (f32), 1e-10 (f64), 1e-2 (f16, bf16).

    f32 is scaled by the square root of the longest reduction; floats of 8 bits and fewer allow one step.
    """
    if dtype.name in ("float32", "complex64"):
        # A sum's rounding errors add up like a random walk.
        return _TOLERANCE[dtype.name] * math.sqrt(max(reduction_length, 1))
    if dtype.name in _TOLERANCE:
        return _TOLERANCE[dtype.name]
    return _epsilon(dtype) if _is_float(dtype) else 0.0


def compare(got: Array, want: Array, reduction_length: int = 1, tolerance: float | None = None) -> Comparison:
    """Compares two arrays of one shape and type.

    An element is right when equal, both NaN, or within tolerance * max(|want|, s), where s is the root mean square
    of `want`'s finite elements: rounding errors are of the size of what was summed, not of what is left after
    cancellation, and an output of tiny numbers is held to its own scale.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        text = f"is {got.dtype.name}{list(got.shape)}, expected {want.dtype.name}{list(want.shape)}"
        return Comparison(math.inf, math.inf, math.inf, 0.0, max(want.size, 1), text)
    if tolerance is None:
        tolerance = default_tolerance(want.dtype, reduction_length)
    if not _is_float(want.dtype):
        return _compare_exactly(got, want)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        return _compare_floats(got, want, got.astype(wide).ravel(), want.astype(wide).ravel(), tolerance)


def _compare_exactly(got: Array, want: Array) -> Comparison:
    if want.size == 0:
        return Comparison(0.0, 0.0, 0.0, 0.0, 0)
    wrong = got != want
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return Comparison(0.0, 0.0, 0.0, 0.0, 0)
    # Python integers: a 64-bit difference need not fit 64 bits.
    pairs = zip(got[wrong].ravel().tolist(), want[wrong].ravel().tolist(), strict=True)
    errors = [(abs(int(a) - int(b)), abs(int(b))) for a, b in pairs]
    relative = max(error / size if size else 0.0 for error, size in errors)
    return Comparison(float(max(error for error, _ in errors)), relative, math.inf, 0.0, count)


def _compare_floats(got: Array, want: Array, a: Array, b: Array, tolerance: float) -> Comparison:
    if a.size == 0:
        return Comparison(0.0, 0.0, 0.0, tolerance, 0)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    size = np.abs(b)
    error = np.where(same, 0.0, np.where(finite, np.abs(a - b), np.inf))
    known = size[np.isfinite(size)]
    largest = float(known.max(initial=0.0))
    # Scaled by the largest, so that the squares neither overflow nor vanish.
    scale = largest * float(np.sqrt(np.mean((known / largest) ** 2))) if largest > 0 else 0.0
    allowed = tolerance * np.maximum(np.where(np.isfinite(size), size, 0.0), scale)
    wrong = int(np.count_nonzero(~(same | (error <= allowed))))
    relative = np.where((error == 0) | (size == 0), 0.0, error / size)
    return Comparison(float(error.max()), float(relative.max()), max_ulp(got, want), tolerance, wrong)


def max_ulp(got: Array, want: Array) -> float:
    """The largest distance in representable values; 0 for NaN against NaN and +0 against -0; the parts of complex.

    Both arrays have one floating or complex dtype and one shape. Infinite where only one side is finite.
    """
    if want.dtype.kind == "c":
        part = np.float32 if want.dtype == np.complex64 else np.float64
        got, want = np.ascontiguousarray(got).view(part), np.ascontiguousarray(want).view(part)
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        comparable = ~same & np.isfinite(a) & np.isfinite(b)
        if np.any(~same & ~comparable):
            return math.inf
        if not np.any(comparable):
            return 0.0
        one, two = _ordinal(got.ravel()[comparable]), _ordinal(want.ravel()[comparable])
        # Of opposite signs, f64 distances pass int64: there a float's rounding of so large a sum does not matter.
        across = np.abs(one.astype(np.float64) - two.astype(np.float64))
        return float(np.max(np.where((one < 0) == (two < 0), np.abs(one - two), across)))


def _ordinal(values: Array) -> Array:
    """Each float's place in the order of its representable values, as int64; both zeros are 0."""
    bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    if values.dtype.name == "float8_e8m0fnu":  # it has no sign bit
        return bits.astype(np.int64)
    sign = bits.dtype.type(1 << (by_numpy(values.dtype).bits - 1))
    magnitude = (bits & (sign - bits.dtype.type(1))).astype(np.int64)
    return np.asarray(np.where(bits & sign != 0, -magnitude, magnitude))


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "fc" or (dtype.kind == "V" and dtype.name.startswith(("bfloat", "float")))


def _epsilon(dtype: np.dtype[Any]) -> float:
    finfo: Any = ml_dtypes.finfo  # its own annotations leave the call untyped
    return float(finfo(dtype).eps)


def perturbed(args: Sequence[Array], seed: int = 0) -> list[Array]:
    """The arguments with every finite f32 and f64 element moved to a neighbouring value, up or down by chance.

    How far this moves a program's results tells how far apart two right ways to compute them may be
    (`is_rounding`).
    """
    rng = np.random.default_rng(seed)
    return [_moved(np.asarray(arg), rng) for arg in args]


def is_rounding(result: Comparison, moved: Comparison) -> bool:
    """Whether an error is no larger than what rounding explains: `moved` compares perturbed results with true ones.

    Perturbing the arguments is one rounding; a program makes many, each amplified by what follows it, hence the factor.
    """
    return math.isfinite(result.max_abs) and result.max_abs <= ROUNDINGS * moved.max_abs


def _moved(array: Array, rng: np.random.Generator) -> Array:
    if array.dtype not in (np.float32, np.float64):
        return array
    towards = np.where(rng.integers(0, 2, array.shape) == 1, np.inf, -np.inf).astype(array.dtype)
    return np.asarray(np.where(np.isfinite(array), np.nextafter(array, towards), array))


def reduction_length(module: Module) -> int:
    """The most elements that any one instruction of `module` folds into one output element; at least 1."""
    return max((_folded(inst) for inst in module.instructions()), default=1)


def _folded(inst: Instruction) -> int:
    if inst.op is ops.DOT:
        dims = inst.operands[0].shape.dims
        return math.prod(dims[d] for d in inst.attrs.lhs_contracting_dims)
    if inst.op is ops.CONVOLUTION:
        kernel = inst.operands[1].shape
        features = kernel.dims[inst.attrs.dim_labels.kernel_output_feature]
        return int(kernel.num_elements // max(features, 1))
    if inst.op is ops.REDUCE:
        dims = inst.operands[0].shape.dims
        return math.prod(dims[d] for d in inst.attrs.dimensions)
    if inst.op is ops.REDUCE_WINDOW:
        return math.prod(dim.size for dim in inst.attrs.window.dims)
    return 1
