"""maximum and minimum of IEEE 754-2019: a NaN wins, and -0 is less than +0 (which NumPy leaves to the machine)."""

from __future__ import annotations

from typing import Any

import numpy as np

from xyla.interp.table import Array


class Extremum:
    """One of the two, with the parts of a ufunc's interface that the evaluator uses."""

    def __init__(self, ufunc: np.ufunc, zero: float) -> None:
        """`zero`: the one that wins over the other."""
        self._ufunc = ufunc
        self._zero = zero

    def __call__(self, x: Any, y: Any) -> Any:
        """Element by element."""
        out = self._ufunc(x, y)
        return self._settled(out, lambda: self._wins(x) | self._wins(y))

    def reduce(self, x: Array, axis: tuple[int, ...]) -> Any:
        """Along axes, which are not empty."""
        out = self._ufunc.reduce(x, axis=axis)
        return self._settled(out, lambda: np.logical_or.reduce(self._wins(x), axis=axis))

    def reduceat(self, x: Array, indices: Array, axis: int) -> Any:
        """Of the slices between consecutive indices."""
        out = self._ufunc.reduceat(x, indices, axis=axis)
        return self._settled(out, lambda: np.logical_or.reduceat(self._wins(x), indices, axis=axis))

    def _wins(self, x: Any) -> Any:
        return (x == 0) & (np.signbit(x) == np.signbit(self._zero))

    def _settled(self, out: Any, winner: Any) -> Any:
        """Zeros of `out` with their sign: the winning zero's where one took part."""
        if out.dtype.kind != "f":
            return out
        zeros = out == 0
        if not zeros.any():
            return out
        signed = np.where(winner(), out.dtype.type(self._zero), out.dtype.type(-self._zero))
        return np.where(zeros, signed, out)[()]


MAXIMUM = Extremum(np.maximum, 0.0)
MINIMUM = Extremum(np.minimum, -0.0)
