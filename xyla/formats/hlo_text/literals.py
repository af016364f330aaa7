"""Literal payloads: `5`, `{1, 2}`, `{ {1, 2}, {3, 4} }`, `(1, -inf)`, `nan(0x7f)`, `{...}`.

Large payloads are split and converted in bulk, and the braces are checked by comparing skeletons (the text without
anything but braces and commas) instead of token by token.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.formats.hlo_text.lexer import Cursor, split_top
from xyla.formats.hlo_text.shapes import ShapeReader
from xyla.hlo.literal import Literal
from xyla.hlo.shape import Shape
from xyla.support.dtypes import U64, ElementType
from xyla.support.status import XylaError, invalid

_ELIDED = re.compile(r"\s*+\{\s*+\.\.\.\s*+\}\s*+\Z")
_OLD_SHAPE = re.compile(r"\s*+\(?\s*+[a-z]\w*+\[")
_PAIR = re.compile(r"\(([^(),]*+),([^(),]*+)\)")
_PLAIN = re.compile(r"[0-9+\-.eE\s,;]*+")
_NAN = re.compile(r"([+-]?)nan\(0x([0-9A-Fa-f]+)\)")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf|nan)")
_INTEGER = re.compile(r"-?[0-9]+")
_KEEP = frozenset(map(ord, "{},"))
_DROP = {c: None for c in range(128) if c not in _KEEP}
# Characters of payload that are converted at a time.
_PIECE = 1 << 20
_NO_BRACES = {ord("{"): " ", ord("}"): " "}
_WORDS = {"true": 1, "false": 0, "1": 1, "0": 0}


def read_literal(shape: Shape, payload: str) -> Literal:
    """The literal of `shape` whose payload is `payload`.

    Raises INVALID_ARGUMENT (not located) for a wrong nesting or element count, a malformed element or one out of range.
    """
    if _ELIDED.match(payload):
        return Literal.elided_of(shape)
    if shape.is_tuple:
        return _tuple(shape, payload)
    if not shape.is_array:
        raise invalid(f"a value of shape {shape} cannot be written as a literal")
    if _OLD_SHAPE.match(payload):
        return _with_own_shape(shape, payload)
    if shape.is_unbounded:
        raise invalid(f"a literal needs bounded dimensions, its shape is {shape}")
    if not payload.strip():
        raise invalid(f"a literal of shape {shape} is missing")
    if shape.rank == 0:
        values = _values(shape.element_type, [payload])
        return Literal(shape, _frozen(values.reshape(())))
    if "{" not in payload:
        # XLA's reader takes a lone value and leaves all elements but the first undefined; here it fills the array.
        values = _frozen(_values(shape.element_type, [payload]).reshape(()))
        return Literal(shape, np.broadcast_to(values, shape.dims))
    return Literal(shape, _frozen(_dense(shape, payload)))


def _tuple(shape: Shape, payload: str) -> Literal:
    """`({1, 2}, 3.0)`. Recurses only as deep as the shape nests, which its reader bounds."""
    text = payload.strip()
    if not (text.startswith("(") and text.endswith(")") and len(text) >= 2):
        raise invalid(f"a literal of shape {shape} looks like (a, b), found '{_shown(text)}'")
    parts = split_top(text[1:-1])
    if len(parts) != len(shape.tuple_shapes):
        raise invalid(f"the literal has {len(parts)} elements, {shape} needs {len(shape.tuple_shapes)}")
    elements = [read_literal(s, part) for s, part in zip(shape.tuple_shapes, parts, strict=True)]
    return Literal(shape, None, tuple(elements))


def _frozen(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    array.flags.writeable = False
    return array


def _with_own_shape(shape: Shape, payload: str) -> Literal:
    """The old form, `constant(f32[2]{0} {1, 2})`."""
    from xyla.support.diagnostics import Source

    cursor = Cursor(Source("", payload), payload)
    try:
        own = ShapeReader().read(cursor)
    except XylaError as error:
        raise invalid(error.message) from None
    if not own.compatible(shape):
        raise invalid(f"the literal has shape {own}, its instruction {shape}")
    return read_literal(shape, payload[cursor.pos :])


def _dense(shape: Shape, payload: str) -> npt.NDArray[np.generic]:
    if shape.element_type.is_complex:
        payload = _PAIR.sub(r"\1;\2", payload)
    skeleton = payload.translate(_DROP)
    if skeleton != _skeleton(shape.dims, len(skeleton)):
        raise invalid(_nesting_message(shape, payload, payload.count(",") + 1 if payload.strip(" \n\t{}") else 0))
    values = np.empty(shape.num_elements, shape.element_type.np)
    text, at, done = payload.translate(_NO_BRACES), 0, 0
    # Piece by piece: a list of all the element texts would take far more memory than the text itself.
    while done < values.size:
        end = text.find(",", at + _PIECE)
        texts = text[at : end if end >= 0 else len(text)].split(",")
        values[done : done + len(texts)] = _values(shape.element_type, texts)
        done += len(texts)
        at = end + 1
    return values.reshape(shape.dims)


def _skeleton(dims: tuple[int, ...], limit: int) -> str:
    """The braces and commas of a literal with these dims; "" as soon as it would be longer than `limit`."""
    if 0 in dims:
        # Nothing nests under a dimension of size zero.
        dims = dims[: dims.index(0) + 1]
    text = ""
    for i, d in enumerate(reversed(dims)):
        if d == 0:
            text = "{}"
            continue
        if d * (len(text) + 1) + 1 > limit:
            return ""
        text = "{" + ",".join([text] * d) + "}" if i else "{" + "," * (d - 1) + "}"
    return text


def _nesting_message(shape: Shape, payload: str, found: int) -> str:
    expected = shape.num_elements
    if found != expected:
        return f"the literal has {found} elements, {shape.to_string(layouts=False)} needs {expected}"
    depth = "one pair of braces a dimension"
    return f"the literal's braces do not follow {shape.to_string(layouts=False)} ({depth})"


def _values(element: ElementType, texts: list[str]) -> npt.NDArray[Any]:
    if element.is_complex:
        return _complex_values(element, texts)
    if element.is_float:
        return _float_values(element, texts)
    if element.is_integer:
        return _int_values(element, texts)
    return _pred_values(texts)


def _pred_values(texts: list[str]) -> npt.NDArray[Any]:
    try:
        return np.array([_WORDS[t.strip()] for t in texts], np.bool_)
    except KeyError as error:
        raise invalid(f"expected true or false, found '{_shown(error.args[0])}'") from None


def _int_values(element: ElementType, texts: list[str]) -> npt.NDArray[Any]:
    try:
        values = np.array(list(map(int, texts)), np.int64 if element.is_signed else np.uint64)
    except (ValueError, OverflowError):
        return _int_values_checked(element, texts)
    if len(texts) and ("_" in "".join(texts) or _out_of_range(element, values)):
        return _int_values_checked(element, texts)
    return values.astype(element.np)


def _int_range(element: ElementType) -> tuple[int, int]:
    if element.is_signed:
        return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
    return 0, (1 << element.bits) - 1


def _out_of_range(element: ElementType, values: npt.NDArray[Any]) -> bool:
    low, high = _int_range(element)
    return int(values.min()) < low or int(values.max()) > high


def _int_values_checked(element: ElementType, texts: list[str]) -> npt.NDArray[Any]:
    """Element by element, to say which one is wrong."""
    low, high = _int_range(element)
    values = []
    for text in map(str.strip, texts):
        word = {"true": "1", "false": "0"}.get(text, text)
        if not _INTEGER.fullmatch(word) or len(word) > 40:
            raise invalid(f"expected an integer for {element}, found '{_shown(text)}'")
        value = int(word)
        if element is U64 and -(1 << 63) <= value < 0:
            # The reference reads a negative u64 as its two's complement.
            value += 1 << 64
        if not low <= value <= high:
            raise invalid(f"value {value} is out of range for {element} ({low} to {high})")
        values.append(value)
    return np.array(values, np.int64 if element.is_signed else np.uint64).astype(element.np)


def _float_values(element: ElementType, texts: list[str]) -> npt.NDArray[Any]:
    joined = ",".join(texts)
    special: dict[int, tuple[str, int]] = {}
    if not _PLAIN.fullmatch(joined):
        texts = _special_floats(texts, special)
    try:
        wide = np.array(list(map(float, texts)), np.float64)
    except ValueError:
        bad = next(t for t in texts if not _NUMBER.fullmatch(t.strip()))
        raise invalid(f"expected a number for {element}, found '{_shown(bad)}'") from None
    with np.errstate(all="ignore"):
        values = wide.astype(element.np)
    _check_overflow(element, wide, values, texts)
    for index, (sign, payload) in special.items():
        _set_nan(element, values, index, sign, payload)
    return values


def _special_floats(texts: list[str], special: dict[int, tuple[str, int]]) -> list[str]:
    """Checks each element's spelling; NaNs with a payload are noted in `special` by index."""
    out = []
    for i, text in enumerate(map(str.strip, texts)):
        nan = _NAN.fullmatch(text)
        if nan:
            special[i] = (nan.group(1), int(nan.group(2)[:20], 16))
            text = "nan"
        elif text == "-nan":
            special[i] = ("-", -1)
        elif not _NUMBER.fullmatch(text):
            raise invalid(f"expected a number, found '{_shown(text)}'")
        out.append(text)
    return out


def _check_overflow(element: ElementType, wide: npt.NDArray[Any], values: npt.NDArray[Any], texts: list[str]) -> None:
    if element.bits == 64:
        return
    back = values.astype(np.float64)
    lost = np.isfinite(wide) & ~np.isfinite(back)
    if lost.any():
        raise invalid(f"value {texts[int(np.argmax(lost))].strip()} is out of range for {element}")


def _set_nan(element: ElementType, values: npt.NDArray[Any], index: int, sign: str, payload: int) -> None:
    """Writes a NaN with this sign and mantissa (-1: the type's usual one)."""
    import ml_dtypes

    width = element.itemsize * 8
    raw = values.view(f"u{element.itemsize}")
    usual = int(raw[index])
    info = ml_dtypes.finfo(element.np)  # type: ignore[no-untyped-call]
    if not (sign or payload >= 0) or info.nmant >= width:
        return
    sign_bit = 1 << (element.bits - 1)
    # Types whose NaN is the pattern of -0 have a single NaN: no sign, no payload.
    if usual == sign_bit or element.name in ("f8e8m0fnu", "f4e2m1fn"):
        return
    bits = usual & (sign_bit - 1)
    if payload >= 0:
        mantissa = (1 << info.nmant) - 1
        if payload == 0 or payload > mantissa:
            raise invalid(f"NaN payload 0x{payload:x} does not fit {element}'s {info.nmant} mantissa bits")
        bits = (bits & ~mantissa) | payload
    raw[index] = bits | (sign_bit if sign == "-" else 0)


def _complex_values(element: ElementType, texts: list[str]) -> npt.NDArray[Any]:
    real, imag = [], []
    for text in texts:
        re_text, _, im_text = text.strip().removeprefix("(").removesuffix(")").replace(";", ",").partition(",")
        real.append(re_text)
        imag.append(im_text or "0")
    part = element.component
    values = np.empty(len(texts), element.np)
    # Assigned part by part: re + im*j would turn inf and -0 parts into something else.
    values.real = _float_values(part, real)
    values.imag = _float_values(part, imag)
    return values


def _shown(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 40 else text[:37] + "..."
