"""Arguments made from a seed: the same numbers for the same (seed, position, shape) on every machine and run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from xyla.hlo.shape import Shape
from xyla.support.dtypes import F8E8M0FNU, PRED
from xyla.support.status import Status, XylaError, invalid

Array = np.ndarray[Any, np.dtype[Any]]

# Integers are drawn below this bound, so that they make sense as indices and do not overflow products at once.
INTEGER_BOUND = 8


def leaf_shapes(shapes: Iterable[Shape]) -> list[Shape]:
    """The array shapes of `shapes` in order, tuples flattened; an argument or a result is one array a leaf.

    Tokens carry no data and are left out. Raises INVALID_ARGUMENT for an opaque or buffer leaf.
    """
    leaves: list[Shape] = []
    for shape in shapes:
        for _, leaf in shape.leaves():
            if leaf.is_array:
                leaves.append(leaf)
            elif not leaf.is_token:
                raise invalid(f"a value of shape {leaf} cannot be passed as an array")
    return leaves


def random_args(shapes: Iterable[Shape], seed: int) -> list[Array]:
    """One array a leaf of `shapes`: floats N(0, 1), integers uniform in [0, 8), pred uniform.

    An integer type too narrow for [0, 8) is drawn from [0, its maximum]; complex parts are each N(0, 1).
    Bounded dynamic dimensions are filled to their bound. Raises INVALID_ARGUMENT for an unbounded dimension and
    RESOURCE_EXHAUSTED when the arrays would not fit this machine's memory.
    """
    leaves = leaf_shapes(shapes)
    _check_memory(leaves)
    return [_random_array(leaf, np.random.default_rng([seed, index])) for index, leaf in enumerate(leaves)]


def _check_memory(leaves: list[Shape]) -> None:
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    total = 0
    for index, leaf in enumerate(leaves):
        if leaf.is_unbounded:
            raise invalid(f"argument {index} has the unbounded shape {leaf}: pass arguments that fix it")
        total += leaf.num_bytes
        if total > available:
            what = f"arguments 0 to {index} take {total:,} bytes; this machine has {available:,}"
            raise XylaError(Status.RESOURCE_EXHAUSTED, what)


def _random_array(shape: Shape, rng: np.random.Generator) -> Array:
    kind, dtype, dims = shape.element_type, shape.element_type.np, shape.dims
    if kind is PRED:
        return rng.integers(0, 2, dims).astype(np.bool_)
    if kind.is_integer:
        high = min(INTEGER_BOUND, 2 ** (kind.bits - kind.is_signed))
        return rng.integers(0, high, dims).astype(dtype)
    if kind.is_complex:
        real, imaginary = rng.standard_normal(dims), rng.standard_normal(dims)
        return np.asarray(real + 1j * imaginary, dtype)
    if dtype == np.float64:
        return np.asarray(rng.standard_normal(dims))
    values = np.asarray(rng.standard_normal(dims, dtype=np.float32))
    # An unsigned float has no negative values: a draw below zero would be NaN.
    return (np.abs(values) if kind is F8E8M0FNU else values).astype(dtype, copy=False)
