"""Attribute values, by kind: the parsing half of the codec table (the printing half is xyla.hlo.printer_attrs).

A codec turns the text of one value into the attribute's value and raises an INVALID_ARGUMENT that is not located:
the caller knows where the text stood.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any

from xyla.formats.hlo_text.groups import read_replica_groups
from xyla.formats.hlo_text.lexer import Cursor, checked_int, split_top, unescape
from xyla.formats.hlo_text.literals import read_literal
from xyla.formats.hlo_text.shapes import ShapeReader
from xyla.hlo.attr_types import (
    ConvDims,
    OutputOperandAlias,
    PaddingDim,
    Precision,
    SliceDim,
    Sparsity,
    Window,
    WindowDim,
)
from xyla.hlo.literal import Literal
from xyla.hlo.op_def import AttrKind, AttrSpec
from xyla.hlo.shape import Shape
from xyla.support.diagnostics import Source, did_you_mean
from xyla.support.status import XylaError, invalid

_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)


def braces(text: str) -> str:
    """What stands between the outer braces. Raises INVALID_ARGUMENT when there are none."""
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}") and len(text) >= 2):
        raise invalid(f"expected a list in braces, found '{text[:40]}'")
    return text[1:-1]


def int_list(text: str) -> tuple[int, ...]:
    """`{0,1}` as a tuple."""
    body = braces(text)
    return tuple(map(checked_int, body.split(","))) if body.strip() else ()


def _bool(text: str, spec: AttrSpec) -> bool:
    if text in ("true", "false"):
        return text == "true"
    if text in ("0", "1"):
        return text == "1"
    raise invalid(f"{spec.key} takes true or false, found '{text[:40]}'")


def _int(text: str, spec: AttrSpec) -> int:
    return checked_int(text)


def _ints(text: str, spec: AttrSpec) -> tuple[int, ...]:
    return int_list(text)


def _int_in_braces(text: str, spec: AttrSpec) -> int:
    values = int_list(text)
    if len(values) != 1:
        raise invalid(f"{spec.key} takes exactly one value, {len(values)} given")
    return values[0]


def _float(text: str, spec: AttrSpec) -> float:
    if not re.fullmatch(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-?inf|-?nan", text):
        raise invalid(f"{spec.key} takes a number, found '{text[:40]}'")
    return float(text)


def string(text: str) -> str:
    """The text of a quoted string."""
    match = _STRING.fullmatch(text)
    if match is None:
        raise invalid(f"expected a string in quotes, found '{text[:40]}'")
    return unescape(match.group(1))


def _string(text: str, spec: AttrSpec) -> str:
    return string(text)


def _word_of(enum: type[Enum], text: str, what: str) -> Enum:
    for member in enum:
        if member.value == text:
            return member
    words = [str(m.value) for m in enum]
    near = did_you_mean(text, words)
    hint = f"did you mean '{near}'?" if near else f"one of {', '.join(words)}"
    raise invalid(f"{what} has no value '{text[:40]}'", hint=hint)


def _enum(text: str, spec: AttrSpec) -> Enum:
    assert spec.enum is not None
    return _word_of(spec.enum, string(text) if text.startswith('"') else text, spec.key)


def _precision(text: str, spec: AttrSpec) -> tuple[Enum, ...]:
    return tuple(_word_of(Precision, word.lower(), spec.key) for word in split_top(braces(text)))


def _cursor(text: str) -> Cursor:
    return Cursor(Source("", text), text)


def parse_shape(text: str) -> Shape:
    """The shape that `text` says: `f32[4,2]{0,1}`, `(s32[], token[])`. Raises INVALID_ARGUMENT."""
    cursor = _cursor(text)
    try:
        shape = ShapeReader().read(cursor)
    except XylaError as error:
        raise invalid(error.message, hint=error.hint) from None
    if cursor.peek():
        raise invalid(f"unexpected text after shape {shape}")
    return shape


def _shape(text: str, spec: AttrSpec) -> Shape:
    return parse_shape(text)


def _shapes(text: str, spec: AttrSpec) -> tuple[Shape, ...]:
    return tuple(_shape(part, spec) for part in split_top(braces(text)))


def _literal(text: str, spec: AttrSpec) -> Literal:
    """`s32[] 1`, or `( s32[2] {1, 2}, pred[] true )`, nested over an explicit stack."""
    stack: list[list[Literal]] = []
    cursor = _cursor(text)
    reader = ShapeReader()
    while True:
        if cursor.accept("("):
            stack.append([])
            if cursor.peek() != ")":
                continue
            done: Literal | None = None
        else:
            done = _leaf_literal(cursor, reader)
        while stack:
            if done is not None:
                stack[-1].append(done)
            if cursor.accept(","):
                break
            cursor.expect(")", "or ',' in a tuple literal")
            done = Literal.tuple_of(stack.pop())
        else:
            if cursor.peek() or done is None:
                raise invalid(f"unexpected text in a literal: {cursor.found()}")
            return done


def _leaf_literal(cursor: Cursor, reader: ShapeReader) -> Literal:
    try:
        shape = reader.read(cursor)
    except XylaError as error:
        raise invalid(error.message, hint=error.hint) from None
    cursor.skip()
    start = cursor.pos
    if cursor.peek() in ("{", "("):
        cursor.pos = cursor.balanced(start)
    else:
        match = re.compile(r"[^,)\s]*(?:\(0x[0-9A-Fa-f]+\))?").match(cursor.text, start)
        cursor.pos = match.end() if match else start
    return read_literal(shape, cursor.text[start : cursor.pos])


_WINDOW_ITEM = re.compile(r"\s*([a-z_]+)\s*=\s*([0-9x_\-]+)")
_WINDOW_KEYS = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")


def _window(text: str, spec: AttrSpec) -> Window:
    body, pos, items = braces(text).replace(",", " "), 0, {}
    while body[pos:].strip():
        match = _WINDOW_ITEM.match(body, pos)
        if match is None:
            raise invalid(f"expected size=, stride=, pad= or such in the window, found '{body[pos:].strip()[:40]}'")
        key, value = match.groups()
        if key not in _WINDOW_KEYS or key in items:
            near = did_you_mean(key, _WINDOW_KEYS)
            raise invalid(
                f"a window has no second or unknown '{key}'", hint=f"did you mean '{near}'?" if near else None
            )
        items[key] = value.split("x")
        pos = match.end()
    rank = len(items.get("size", ()))
    for key, values in items.items():
        if len(values) != rank:
            raise invalid(f"window {key} has {len(values)} dimensions, size has {rank}")
    return Window(tuple(_window_dim(items, i) for i in range(rank)))


def _window_dim(items: dict[str, list[str]], i: int) -> WindowDim:
    def one(key: str, default: int) -> int:
        return checked_int(items[key][i]) if key in items else default

    low = high = 0
    if "pad" in items:
        parts = items["pad"][i].split("_")
        if len(parts) != 2:
            raise invalid(f"window pad takes low_high, found '{items['pad'][i][:40]}'")
        low, high = map(checked_int, parts)
    dim = WindowDim(
        one("size", 1), one("stride", 1), low, high, one("lhs_dilate", 1), one("rhs_dilate", 1),
        one("rhs_reversal", 0) != 0,
    )  # fmt: skip
    if dim.size < 0 or dim.stride < 1 or dim.lhs_dilate < 1 or dim.rhs_dilate < 1:
        raise invalid("window sizes must not be negative; strides and dilations must be positive")
    return dim


def _conv_dims(text: str, spec: AttrSpec) -> ConvDims:
    match = re.fullmatch(r"([0-9a-z?]+)_([0-9a-z?]+)->([0-9a-z?]+)", text)
    if match is None:
        raise invalid(f"dim_labels looks like b01f_01io->b01f, found '{text[:40]}'")
    lhs, rhs, out = match.groups()
    rank = sum(c.isdigit() for c in lhs)
    ib, if_, isp = _labels(lhs, "bf", rank, "input")
    ki, ko, ksp = _labels(rhs, "io", rank, "kernel")
    ob, of, osp = _labels(out, "bf", rank, "output")
    return ConvDims(ib, if_, isp, ki, ko, ksp, ob, of, osp)


def _labels(text: str, letters: str, rank: int, what: str) -> tuple[int, int, tuple[int, ...]]:
    """Positions of the two letters and of the spatial digits 0..rank-1; `?` stands for a dimension without a part."""
    where = {c: i for i, c in enumerate(text) if c != "?"}
    wanted = [*letters, *map(str, range(rank))]
    if sorted(where) != sorted(wanted) or len(where) != len(text) - text.count("?"):
        raise invalid(f"dim_labels: {what} '{text[:40]}' must have each of {', '.join(wanted)} once")
    return where[letters[0]], where[letters[1]], tuple(where[str(i)] for i in range(rank))


def _padding(text: str, spec: AttrSpec) -> tuple[PaddingDim, ...]:
    dims = []
    for part in text.split("x") if text else ():
        numbers = [checked_int(n) for n in part.split("_")]
        if len(numbers) not in (2, 3):
            raise invalid(f"padding takes low_high or low_high_interior a dimension, found '{part[:40]}'")
        if len(numbers) == 3 and numbers[2] < 0:
            raise invalid(f"interior padding {numbers[2]} is negative")
        dims.append(PaddingDim(*numbers))
    return tuple(dims)


def _slice(text: str, spec: AttrSpec) -> tuple[SliceDim, ...]:
    dims = []
    for part in split_top(braces(text)):
        if not (part.startswith("[") and part.endswith("]")):
            raise invalid(f"slice takes [start:limit] or [start:limit:stride], found '{part[:40]}'")
        numbers = [checked_int(n) for n in part[1:-1].split(":")]
        if len(numbers) not in (2, 3):
            raise invalid(f"slice takes [start:limit] or [start:limit:stride], found '{part[:40]}'")
        dims.append(SliceDim(*numbers))
    return tuple(dims)


def _pairs(text: str, spec: AttrSpec) -> tuple[tuple[int, ...], ...]:
    rows = tuple(int_list(part) for part in split_top(braces(text)))
    if spec.key == "source_target_pairs" and any(len(row) != 2 for row in rows):
        raise invalid("source_target_pairs takes pairs {source,target}")
    return rows


def _sparsity(text: str, spec: AttrSpec) -> tuple[Sparsity, ...]:
    out = []
    for part in text.split("_"):
        match = re.fullmatch(r"([LR])\.([0-9]+)@([0-9]+):([0-9]+)", part)
        if match is None:
            raise invalid(f"sparsity looks like L.1@2:4, found '{part[:40]}'")
        side, dim, n, m = match.groups()
        out.append(Sparsity(0 if side == "L" else 1, checked_int(dim), checked_int(n), checked_int(m)))
    return tuple(out)


def _aliasing(text: str, spec: AttrSpec) -> tuple[OutputOperandAlias, ...]:
    return tuple(OutputOperandAlias(out, number, index) for out, number, index, _ in alias_entries(text))


def alias_entries(text: str) -> list[tuple[tuple[int, ...], int, tuple[int, ...], str]]:
    """`{ {0}: (1, {}, may-alias), ... }` as (output index, number, index, kind word)."""
    out = []
    for part in split_top(braces(text)):
        match = re.fullmatch(r"(\{[^{}]*\})\s*:\s*\(([^{}]*?)(?:,\s*(\{[^{}]*\})\s*(?:,\s*([\w\-]+)\s*)?)?\)", part)
        if match is None:
            raise invalid(f"aliasing looks like {{0}}: (1, {{}}), found '{part[:40]}'")
        output, number, index, kind = match.groups()
        out.append((int_list(output), checked_int(number), int_list(index) if index else (), kind or ""))
    return out


def _raw(text: str, spec: AttrSpec) -> str:
    return text


Codec = Callable[[str, AttrSpec], Any]
CODECS: dict[AttrKind, Codec] = {
    AttrKind.BOOL: _bool,
    AttrKind.INT: _int,
    AttrKind.INTS: _ints,
    AttrKind.INT_IN_BRACES: _int_in_braces,
    AttrKind.FLOAT: _float,
    AttrKind.STRING: _string,
    AttrKind.ENUM: _enum,
    AttrKind.SHAPE: _shape,
    AttrKind.SHAPES: _shapes,
    AttrKind.LITERAL: _literal,
    AttrKind.WINDOW: _window,
    AttrKind.CONV_DIMS: _conv_dims,
    AttrKind.PADDING: _padding,
    AttrKind.SLICE: _slice,
    AttrKind.REPLICA_GROUPS: lambda text, spec: read_replica_groups(text),
    AttrKind.PAIRS: _pairs,
    AttrKind.PRECISION: _precision,
    AttrKind.SPARSITY: _sparsity,
    AttrKind.ALIASING: _aliasing,
    AttrKind.BIJECTIONS: _raw,
    AttrKind.RAW: _raw,
}
