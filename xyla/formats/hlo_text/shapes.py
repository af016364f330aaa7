"""Shapes and layouts in text: `f32[2,<=3]{1,0:T(8,128)S(1)}`, `(s32[], /*index=1*/token[])`, `b(f32[4])`."""

from __future__ import annotations

import re
from typing import Any

from xyla.formats.hlo_text.lexer import MAX_DEPTH, Cursor, checked_int
from xyla.hlo.shape import OPAQUE_SHAPE, TOKEN_SHAPE, UNBOUNDED, Layout, Shape, SplitConfig
from xyla.support import dtypes
from xyla.support.diagnostics import did_you_mean
from xyla.support.dtypes import OPAQUE, TOKEN
from xyla.support.status import XylaError, invalid

# An array shape as a whole; `{...}` is taken only when it directly follows, as a layout does.
ARRAY_TEXT = r"[a-z]\w*+\[[^\[\](){}]*+\](?:\{(?:[0-9:][^{}=]*+)?\})?"
ARRAY_RE = re.compile(r"\s*+(" + ARRAY_TEXT + ")")
_PARTS = re.compile(r"([a-z]\w*+)\s*+\[([^\[\](){}]*+)\]")
_TYPE_WORD = re.compile(r"\s*+([A-Za-z]\w*+)\s*+\[")
_LAYOUT_ITEM = re.compile(r"\s*+(SC|[DTLESPM#*])\s*+(?=\()")


class ShapeReader:
    """Reads shapes; array shapes are cached by their text, which repeats thousands of times in one module."""

    __slots__ = ("_arrays", "_tuples")

    def __init__(self) -> None:
        self._arrays: dict[str, Shape] = {}
        self._tuples: dict[str, Shape] = {}

    def read(self, cursor: Cursor) -> Shape:
        """The shape at the cursor. Raises a located INVALID_ARGUMENT when there is none or it is malformed."""
        match = ARRAY_RE.match(cursor.text, cursor.pos)
        if match is None:
            return self._read_nested(cursor)
        text = match.group(1)
        shape = self._arrays.get(text)
        # A layout with a nested physical shape does not fit the pattern: then `{` is still ahead.
        if shape is None or cursor.text[match.end() : match.end() + 1] == "{":
            return self._read_array(cursor)
        cursor.pos = match.end()
        return shape

    def array(self, text: str) -> Shape | None:
        """The shape of an array text seen before."""
        return self._arrays.get(text)

    def _read_array(self, cursor: Cursor) -> Shape:
        cursor.skip()
        start = cursor.pos
        match = _PARTS.match(cursor.text, start)
        if match is None:
            raise cursor.error(f"expected a shape such as f32[2,3], found {cursor.found()}")
        cursor.pos = match.end()
        try:
            shape = _array_shape(match.group(1), match.group(2))
        except XylaError as error:
            raise error.located(cursor.span(start, match.end())) from None
        # The layout follows at once: after a space, `{` opens something else.
        if cursor.text.startswith("{", cursor.pos) and _opens_layout(cursor.text, cursor.pos):
            layout = read_layout(cursor, self)
            shape = self._with_layout(cursor, shape, layout, start)
        self._arrays[cursor.text[start : cursor.pos]] = shape
        return shape

    @staticmethod
    def _with_layout(cursor: Cursor, shape: Shape, layout: Layout, start: int) -> Shape:
        if not shape.is_array:
            return shape
        try:
            return shape.with_layout(layout)
        except XylaError as error:
            raise error.located(cursor.span(start, cursor.pos)) from None

    def _read_nested(self, cursor: Cursor) -> Shape:
        """A tuple or buffer, over an explicit stack."""
        stack: list[tuple[str, list[Shape]]] = []
        while True:
            opener = _opener(cursor)
            if opener:
                stack.append((opener, []))
                if len(stack) > MAX_DEPTH:
                    raise cursor.error(f"tuple shapes are nested deeper than {MAX_DEPTH}")
                if opener == "(" and cursor.accept(")"):
                    shape = Shape.tuple_of(())
                    stack.pop()
                else:
                    continue
            elif stack and ARRAY_RE.match(cursor.text, cursor.pos):
                shape = self.read(cursor)
            else:
                shape = self._read_array(cursor)
            while stack and not cursor.accept(","):
                kind, shapes = stack.pop()
                shapes.append(shape)
                cursor.expect(")", "or ',' in a tuple shape")
                shape = Shape.tuple_of(shapes) if kind == "(" else Shape.buffer(shapes[0])
            if not stack:
                return shape
            stack[-1][1].append(shape)


def _opener(cursor: Cursor) -> str:
    if cursor.accept("("):
        return "("
    if cursor.accept("b("):
        return "b"
    return ""


def _opens_layout(text: str, pos: int) -> bool:
    """Whether `{` starts a layout: digits, a colon or an immediate `}`."""
    return re.compile(r"\{\s*+(?:[0-9]|:|\})").match(text, pos) is not None


# NumPy's limit, and far more than any real program has.
MAX_RANK = 64


def _array_shape(type_name: str, dims_text: str) -> Shape:
    element = dtypes.find(type_name)
    if element is None:
        near = did_you_mean(type_name, [t.name for t in dtypes.all_types()])
        hint = f"did you mean '{near}'?" if near else None
        raise invalid(f"unknown element type '{type_name}'", hint=hint)
    if dims_text.count(",") >= MAX_RANK:
        raise invalid(f"a shape of rank {dims_text.count(',') + 1}; the most is {MAX_RANK}")
    dims: list[int] = []
    dynamic: list[bool] = []
    for part in dims_text.split(",") if dims_text.strip() else ():
        text = part.strip()
        bounded = text.startswith("<=")
        dims.append(UNBOUNDED if text == "?" else _dimension(text[2:] if bounded else text))
        dynamic.append(bounded or text == "?")
    if element is TOKEN or element is OPAQUE:
        if dims:
            raise invalid(f"{type_name} takes no dimensions")
        return TOKEN_SHAPE if element is TOKEN else OPAQUE_SHAPE
    return Shape.array(element, dims, None, dynamic)


def _dimension(text: str) -> int:
    if not text.strip():
        raise invalid("a dimension is missing")
    value = checked_int(text)
    if value < 0:
        raise invalid(f"dimension {value} is negative")
    return value


def read_layout(cursor: Cursor, shapes: ShapeReader) -> Layout:
    """A layout with its braces: `{1,0:T(8,128)(2,1)E(4)S(1)}`. Raises a located INVALID_ARGUMENT."""
    start = cursor.pos
    end = cursor.balanced(start)
    text = cursor.text[start + 1 : end - 1]
    order_text, colon, _ = text.partition(":")
    try:
        order = tuple(checked_int(d) for d in order_text.split(",")) if order_text.strip() else ()
    except XylaError as error:
        raise error.located(cursor.span(start, end)) from None
    options: dict[str, Any] = {}
    if colon:
        cursor.pos = start + 1 + len(order_text) + 1
        while cursor.peek() not in ("}", ""):
            _layout_item(cursor, shapes, options)
    cursor.pos = end
    return Layout(order, **options).interned()


def _layout_item(cursor: Cursor, shapes: ShapeReader, options: dict[str, Any]) -> None:
    match = _LAYOUT_ITEM.match(cursor.text, cursor.pos)
    if match is None:
        raise cursor.error(f"expected a layout property such as T(8,128) or S(1), found {cursor.found()}")
    cursor.pos = match.end()
    kind, first = match.group(1), True
    while first or (kind in ("T", "SC") and cursor.peek() == "("):
        first = False
        start = cursor.pos
        end = cursor.balanced(start)
        body = cursor.text[start + 1 : end - 1].strip()
        try:
            _set_item(kind, body, options, cursor, shapes)
        except XylaError as error:
            raise error.located(cursor.span(start, end)) from None
        cursor.pos = end


_INT_ITEMS = {
    "L": "tail_padding_alignment",
    "E": "element_size_bits",
    "S": "memory_space",
    "M": "dynamic_shape_metadata_prefix_bytes",
}
_TYPE_ITEMS = {"#": "index_primitive_type", "*": "pointer_primitive_type"}


def _set_item(kind: str, body: str, options: dict[str, Any], cursor: Cursor, shapes: ShapeReader) -> None:
    if kind in _INT_ITEMS:
        options[_INT_ITEMS[kind]] = checked_int(body)
    elif kind in _TYPE_ITEMS:
        if dtypes.find(body) is None:
            raise invalid(f"unknown element type '{body}' in a layout")
        options[_TYPE_ITEMS[kind]] = body
    elif kind == "T":
        dims = tuple(-1 if d.strip() == "*" else checked_int(d) for d in body.split(",")) if body else ()
        options["tiles"] = (*options.get("tiles", ()), dims)
    elif kind == "SC":
        dim, _, indices = body.partition(":")
        split = SplitConfig(checked_int(dim), tuple(checked_int(i) for i in indices.split(",")))
        options["split_configs"] = (*options.get("split_configs", ()), split)
    elif kind == "D":
        options["dim_level_types"] = body
    else:
        cursor.pos += 1
        options["physical_shape"] = shapes.read(cursor)
