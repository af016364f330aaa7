"""Which element types hold every value of which others. Shared by the passes that change types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from xyla.support.dtypes import PRED, ElementType


def wider(to: ElementType, source: ElementType) -> bool:
    """Whether every value of `source` is a value of `to`, and `to` is another type."""
    if to is source:
        return False
    if source is PRED:
        return True
    if to is PRED:
        return False
    if to.is_complex:
        part = source.component
        return part is to.component or wider(to.component, part)
    if source.is_complex or (to.is_integer and not source.is_integer):
        return False
    if to.is_integer:
        return to.bits > source.bits and (to.is_signed or source.is_unsigned)
    if source.is_integer:
        return _finfo(to).nmant + 1 >= source.bits - source.is_signed and _reaches(to, source)
    return _float_holds(to, source)


def _reaches(to: ElementType, source: ElementType) -> bool:
    return float(_finfo(to).max) >= 2.0 ** (source.bits - source.is_signed)


def _float_holds(to: ElementType, source: ElementType) -> bool:
    a, z = _finfo(to), _finfo(source)
    # Without infinities, NaN or -0 of its own a target would lose the source's.
    if any(_specials(source) & ~_specials(to)):
        return False
    smallest_enough = float(a.smallest_subnormal) <= float(z.smallest_subnormal)
    return bool(a.nmant >= z.nmant and smallest_enough and float(a.max) >= float(z.max))


def _specials(et: ElementType) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    with np.errstate(all="ignore"):
        x = np.array([np.inf, np.nan, -0.0, -1.0]).astype(et.np).astype(np.float64)
    return np.array([np.isposinf(x[0]), np.isnan(x[1]), x[2] == 0 and np.signbit(x[2]), x[3] == -1.0])


def _finfo(et: ElementType) -> Any:
    return ml_dtypes.finfo(et.np)  # type: ignore[no-untyped-call]
