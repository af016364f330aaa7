"""Literals as text, exact: integers, shortest round-trip floats, `nan(0x...)`, `(re, im)`, `{ {1, 2}, {3, 4} }`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from xyla.hlo.literal import Literal
from xyla.support.dtypes import ElementType
from xyla.support.status import Status, XylaError

# More elements than this are not written out: a constant of one value may claim any size without holding it.
MAX_PRINTED = 1 << 26


def literal_text(literal: Literal) -> str:
    """What stands between the parentheses of `constant(...)`. Tuple literals nest as their shape does."""
    if literal.elided:
        return "{...}"
    if literal.shape.is_tuple:
        return "(" + ", ".join(literal_text(e) for e in literal.elements) + ")"
    array, shape = literal.array, literal.shape
    if array.size > MAX_PRINTED:
        raise XylaError(Status.RESOURCE_EXHAUSTED, f"a constant {shape} is too large to print")
    if array.size > 1 and not any(array.strides):
        # A value stored once is formatted once.
        texts = element_texts(shape.element_type, array.reshape(-1)[:1], scalar=False) * array.size
        return _nested(texts, shape.dims)
    texts = element_texts(shape.element_type, np.ascontiguousarray(array).reshape(-1), scalar=not shape.rank)
    return _nested(texts, shape.dims)


def shaped_literal_text(literal: Literal) -> str:
    """The literal with its shapes: `s32[2]{0} {1, 2}`, `( s32[] 1, pred[] true )`."""
    if literal.shape.is_tuple and not literal.elided:
        return "( " + ", ".join(shaped_literal_text(e) for e in literal.elements) + " )"
    return f"{literal.shape} {literal_text(literal)}"


def _nested(texts: list[str], dims: tuple[int, ...]) -> str:
    if not dims:
        return texts[0]
    if 0 in dims:
        # Nothing nests under a dimension of size zero.
        dims = dims[: dims.index(0) + 1]
        count, rows = 1, ["{}"]
        for d in dims[:-1]:
            count *= d
        rows *= count
    else:
        n = dims[-1]
        # XLA sets rows of several elements off with spaces from rank 2 on.
        left, right = ("{ ", " }") if len(dims) > 1 and n > 1 else ("{", "}")
        rows = [left + ", ".join(texts[i : i + n]) + right for i in range(0, len(texts), n)]
    for n in reversed(dims[:-1]):
        rows = ["{ " + ", ".join(rows[i : i + n]) + " }" for i in range(0, len(rows), n)]
    return rows[0]


def element_texts(element: ElementType, flat: npt.NDArray[Any], *, scalar: bool) -> list[str]:
    """The text of each element of a flat, contiguous array. Predicates are words only when `scalar`."""
    if element.is_complex:
        part = element.component
        real = element_texts(part, np.ascontiguousarray(flat.real), scalar=True)
        imag = element_texts(part, np.ascontiguousarray(flat.imag), scalar=True)
        return [f"({r}, {i})" for r, i in zip(real, imag, strict=True)]
    if element.is_float:
        return _float_texts(element, flat)
    if element.is_integer:
        # int2, int4 and the like have no tolist of their own.
        return list(map(str, flat.astype(np.int64 if element.is_signed else np.uint64).tolist()))
    words = ("false", "true") if scalar else ("0", "1")
    return [words[bool(v)] for v in flat.tolist()]


def _float_texts(element: ElementType, flat: npt.NDArray[Any]) -> list[str]:
    raw = flat.view(f"u{element.itemsize}")
    if element.bits == 64:
        texts = [_trimmed(repr(v)) for v in flat.tolist()]
    elif element.bits == 32:
        texts = [_trimmed(str(v)) for v in flat]
    else:
        # Narrow types have few distinct values: each is worked out once.
        unique, inverse = np.unique(raw, return_inverse=True)
        table = [_narrow_text(element, value) for value in unique.view(element.np)]
        return [table[i] for i in inverse.tolist()]
    for i in np.flatnonzero(np.isnan(flat)).tolist():
        texts[i] = _nan_text(element, int(raw[i]))
    return texts


def _trimmed(text: str) -> str:
    # NumPy writes 16777216 as 1.6777216e+07; C's %.9g, which XLA uses, does not.
    if text.endswith(("e+07", "e+08")):
        return f"{float(text):.0f}"
    return text.removesuffix(".0")


def _narrow_text(element: ElementType, value: Any) -> str:
    """Shortest decimal that reads back as the same 4- to 16-bit value."""
    wide = float(value)
    unsigned = f"u{element.itemsize}"
    bits = int(np.asarray(value).view(unsigned))
    if wide != wide:
        return _nan_text(element, bits)
    if wide.is_integer() and abs(wide) < 1e5:
        return f"{wide:.0f}" if wide else ("-0" if bits else "0")
    # A short text may lie past the largest finite value and still round to it: readers refuse that.
    largest = float(ml_dtypes.finfo(element.np).max)  # type: ignore[no-untyped-call]
    for digits in range(1, 18):
        text = f"{wide:.{digits}g}"
        with np.errstate(all="ignore"):
            narrow = np.asarray(float(text)).astype(element.np)
        if int(narrow.view(unsigned)) == bits and (abs(float(text)) <= largest or np.isinf(wide)):
            break
    return text


def _nan_text(element: ElementType, bits: int) -> str:
    usual = int(np.asarray(np.nan).astype(element.np).view(f"u{element.itemsize}"))
    sign_bit = 1 << (element.bits - 1)
    if bits == usual:
        return "nan"
    sign = "-" if bits & sign_bit else ""
    if bits & (sign_bit - 1) == usual & (sign_bit - 1):
        return f"{sign}nan"
    mantissa = int(ml_dtypes.finfo(element.np).nmant)  # type: ignore[no-untyped-call]
    return f"{sign}nan(0x{bits & ((1 << mantissa) - 1):x})"
