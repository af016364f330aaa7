"""Decoding dense payloads to NumPy.

Decimal floats go through binary64 and then to the element type, as MLIR does. A splat stays one element (a zero-stride
view), so a huge shape allocates nothing. Source: the MLIR language reference, "DenseIntOrFPElementsAttr".
"""

from __future__ import annotations

import re
from binascii import a2b_hex
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.formats.mlir.attributes import Attribute, DenseArrayAttr, DenseAttr
from xyla.formats.mlir.types import ComplexType, IndexType, ScalarType, TensorType, Type, VectorType
from xyla.support import dtypes
from xyla.support.diagnostics import Source, Span
from xyla.support.status import XylaError, invalid, unimplemented

Array = npt.NDArray[Any]

_WORD = re.compile(r"[^\[\],\s]+")
_COMPLEX = re.compile(r"\(([^()]*)\)")
_KEEP_STRUCTURE = {i: None for i in range(128) if chr(i) not in "[],"}
_HEX = re.compile(r"-?0x[0-9a-fA-F]+\Z")
_INT = re.compile(r"-?\d+\Z")


def element_type(type_: Type) -> dtypes.ElementType:
    """The element type that stores MLIR scalar type `type_` (index is stored as s64). Raises UNIMPLEMENTED."""
    if isinstance(type_, IndexType):
        return dtypes.S64
    try:
        return dtypes.by_mlir(str(type_))
    except KeyError:
        raise unimplemented(f"no XLA element type corresponds to {type_}") from None


def shape_of(type_: Type) -> tuple[tuple[int, ...], Type]:
    """The static dims and scalar type of a tensor or vector type. Raises INVALID_ARGUMENT otherwise."""
    if isinstance(type_, TensorType | VectorType) and all(d >= 0 for d in type_.dims):
        return type_.dims, type_.element
    raise invalid(f"a dense constant needs a tensor of static shape, not {type_}")


def decode(attr: DenseAttr, source: Source | None = None) -> Array:
    """The value of a dense attribute: an array of its shape (a zero-stride view for a splat).

    Raises INVALID_ARGUMENT, located when `source` is given, if the payload does not fit the type.
    """
    try:
        return _decode(attr)
    except XylaError as error:
        if source is not None and attr.start >= 0:
            error.located(Span(source, attr.start, attr.start + max(1, min(len(attr.body), 40))))
        raise


def ints(attr: Attribute | None) -> tuple[int, ...] | None:
    """The flat integers of a dense constant or a dense array; None for anything else."""
    if isinstance(attr, DenseArrayAttr):
        return tuple(int(v) for v in attr.values)
    if isinstance(attr, DenseAttr):
        dims, _ = shape_of(attr.type)
        if _product(dims) > 1 << 20:
            raise invalid("an attribute of more than a million integers")
        return tuple(int(v) for v in decode(attr).reshape(-1))
    return None


def _decode(attr: DenseAttr) -> Array:
    dims, scalar = shape_of(attr.type)
    et = element_type(scalar)
    count = _product(dims)
    if _product(tuple(d for d in dims if d)) * et.itemsize >= 1 << 62:
        raise invalid(f"a constant of shape [{', '.join(map(str, dims))}] is too large for any machine")
    if attr.hex:
        return _decode_hex(attr.body, dims, count, et)
    body = attr.body.strip()
    if body == "":
        if count:
            raise invalid(f"an empty dense constant for {count} elements")
        return np.zeros(dims, et.np)
    if et.is_complex:
        return _decode_complex(body, dims, count, et)
    if body[0] != "[":
        return np.broadcast_to(_convert([body], et)[0], dims)
    words = _WORD.findall(body)
    _check_nesting(body, dims, count, len(words))
    return _convert(words, et).reshape(dims)


def _decode_complex(body: str, dims: tuple[int, ...], count: int, et: dtypes.ElementType) -> Array:
    pairs = _COMPLEX.findall(body)
    words = [w.strip() for pair in pairs for w in pair.split(",")]
    rest = _COMPLEX.sub("c", body)
    if not pairs and body[0] != "[":
        real = _convert([body], et.component)
        return np.broadcast_to(real.astype(et.np)[0], dims)
    if len(words) != 2 * len(pairs):
        raise invalid("a complex element is (real, imaginary)")
    values = _convert(words, et.component).view(et.np)
    if body[0] != "[":
        if rest.strip() != "c":
            raise invalid(f"'{body[:40]}' is not one complex value")
        return np.broadcast_to(values[0], dims)
    _check_nesting(rest, dims, count, len(pairs))
    return values.reshape(dims)


def _check_nesting(body: str, dims: tuple[int, ...], count: int, found: int) -> None:
    """The brackets must spell exactly the shape. Compared as text, which is linear and fast."""
    if found != count:
        raise invalid(f"{found} elements for shape [{', '.join(map(str, dims))}], which has {count}")
    if not body.isascii():
        raise invalid("a dense constant has only ASCII characters")
    want = ""
    for level, size in enumerate(reversed(dims)):
        if size * (len(want) + 1) > len(body) + 2:
            raise invalid(f"the nesting of the elements does not match shape [{', '.join(map(str, dims))}]")
        want = "[" + ("," * max(size - 1, 0) if level == 0 else ",".join([want] * size)) + "]"
    if body.translate(_KEEP_STRUCTURE) != want:
        raise invalid(f"the nesting of the elements does not match shape [{', '.join(map(str, dims))}]")


def _decode_hex(body: str, dims: tuple[int, ...], count: int, et: dtypes.ElementType) -> Array:
    try:
        raw = np.frombuffer(a2b_hex(body), np.uint8)
    except ValueError:
        raise invalid("the hexadecimal payload of a dense constant is malformed") from None
    if et is dtypes.PRED:
        return _decode_bits(raw, dims, count)
    size = et.itemsize
    if raw.size not in (size, count * size) or raw.size == 0 != count:
        raise invalid(f"{raw.size} bytes of payload for {count} elements of {size} bytes")
    if et.is_integer and et.bits < 8:
        # One byte an element, its upper bits undefined.
        values = _sub_byte(raw, et)
    else:
        values = raw.view(et.np)
    if raw.size == size and count != 1:
        return np.broadcast_to(values[0], dims)
    return values.reshape(dims)


def _sub_byte(raw: Array, et: dtypes.ElementType) -> Array:
    masked = raw & ((1 << et.bits) - 1)
    if et.is_unsigned:
        return masked.astype(et.np)
    sign = 1 << (et.bits - 1)
    return ((masked.astype(np.int8) ^ sign) - sign).astype(et.np)


def _decode_bits(raw: Array, dims: tuple[int, ...], count: int) -> Array:
    """i1: one byte an element, one byte for a splat, or (older text) eight elements a byte, low bit first."""
    if raw.size == count:
        return np.asarray(raw != 0).reshape(dims)
    if raw.size == 1 and raw[0] in (0, 1, 0xFF):
        return np.broadcast_to(np.bool_(raw[0] != 0), dims)
    if raw.size == (count + 7) // 8:
        return np.unpackbits(raw, count=count, bitorder="little").astype(np.bool_).reshape(dims)
    raise invalid(f"{raw.size} bytes of payload for {count} elements of i1")


def _convert(words: list[str], et: dtypes.ElementType) -> Array:
    """Values of element texts."""
    if et is dtypes.PRED:
        return np.array([_bool(w) for w in words], np.bool_)
    if et.is_integer:
        return _integers(words, et)
    try:
        values = [float(w) if "x" not in w else None for w in words]
    except ValueError:
        bad = next(w for w in words if not _is_float(w))
        raise invalid(f"'{bad[:40]}' is not a value of type {et.mlir}") from None
    with np.errstate(all="ignore"):
        out = np.array([0.0 if v is None else v for v in values], np.float64).astype(et.np)
    for i, value in enumerate(values):
        if value is None:
            out[i] = _float_bits(words[i], et)
    return out


def _is_float(word: str) -> bool:
    try:
        float(word if "x" not in word else "0")
    except ValueError:
        return False
    return True


def _bool(word: str) -> bool:
    if word in ("true", "false"):
        return word == "true"
    if _INT.match(word) and len(word) < 20:
        return int(word) != 0
    raise invalid(f"'{word[:40]}' is not true or false")


def _integers(words: list[str], et: dtypes.ElementType) -> Array:
    bits = et.bits
    low, high = -(1 << (bits - 1)), (1 << bits) - 1
    out = []
    for word in words:
        if len(word) > 80 or not (_INT.match(word) or _HEX.match(word)):
            if word in ("true", "false"):
                out.append(int(word == "true"))
                continue
            raise invalid(f"'{word[:40]}' is not a value of type {et.mlir}")
        value = int(word, 0) if "x" in word else int(word)
        if not low <= value <= high:
            raise invalid(f"{word} does not fit {et.mlir}")
        out.append(value & high)
    if et.bits < 8:
        return _sub_byte(np.array(out, np.uint8), et)
    return np.array(out, f"u{et.itemsize}").view(et.np)


def _float_bits(word: str, et: dtypes.ElementType) -> Any:
    if not _HEX.match(word):
        raise invalid(f"'{word[:40]}' is not a value of type {et.mlir}")
    bits = int(word.lstrip("-")[:80], 16)
    if bits >> et.bits:
        raise invalid(f"{word[:40]} has more bits than {et.mlir}")
    return np.array([bits], f"u{et.itemsize}").view(et.np)[0]


def _product(dims: tuple[int, ...]) -> int:
    count = 1
    for d in dims:
        count *= d
    return count


def scalar_text(value: Any, type_: Type) -> str:
    """One element as dense text; non-finite floats are written as bits."""
    if isinstance(type_, ComplexType):
        return f"({scalar_text(value.real, type_.element)}, {scalar_text(value.imag, type_.element)})"
    if isinstance(type_, ScalarType) and not type_.is_integer:
        if not np.isfinite(np.float64(value)):
            item = np.asarray(value)
            bits = int(item.view(f"u{item.dtype.itemsize}"))
            return f"0x{bits:0{item.dtype.itemsize * 2}X}"
        return f"{float(value):.17e}"
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return str(int(value))
