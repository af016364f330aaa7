"""What describes a module or an instruction without defining it: metadata, frontend attributes, metadata tables."""

from __future__ import annotations

import re

from xyla.formats.hlo_text.codecs import alias_entries, braces, int_list, string
from xyla.formats.hlo_text.lexer import Cursor, checked_int, split_top, unescape
from xyla.hlo.module import BufferDonor, InputOutputAlias, Metadata, StackFrames
from xyla.support.diagnostics import did_you_mean
from xyla.support.status import XylaError, invalid

_META_ITEM = re.compile(
    r'\s*+,?\s*+([A-Za-z_]\w*+)\s*+=\s*+(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"|(\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}|[\w.\-+]++))',
    re.DOTALL,
)
_META_TEXT = frozenset(("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name"))
_META_INT = frozenset(("source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id"))


def read_metadata(text: str) -> Metadata:
    """`{op_type="x" op_name="y" source_line=3}`. Raises INVALID_ARGUMENT (not located)."""
    values: dict[str, str | int] = {}
    extra = []
    end = len(text) - 1
    pos = 1
    match = _META_ITEM.match
    while (found := match(text, pos, end)) is not None:
        key, body, word = found.groups()
        pos = found.end()
        if key in _META_TEXT and body is not None:
            values[key] = unescape(body) if "\\" in body else body
        elif key in _META_INT and word is not None:
            values[key] = checked_int(word)
        elif key in _META_TEXT or key in _META_INT:
            raise invalid(f"metadata {key} takes {'a string' if key in _META_TEXT else 'an integer'}")
        else:
            extra.append((key, text[found.start(1) + len(key) : pos].lstrip().removeprefix("=").strip()))
    if text[pos:end].strip():
        raise invalid(f"expected key=value in the metadata, found '{text[pos:end].strip()[:40]}'")
    return Metadata(**values, extra=tuple(extra))  # type: ignore[arg-type]


_KEY = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s="{},]+)\s*=\s*', re.DOTALL)


def read_frontend_attributes(text: str) -> tuple[tuple[str, str], ...]:
    """`{key="value",other={...}}` as pairs sorted by key; a value in braces stays as text, braces included."""
    pairs: dict[str, str] = {}
    for part in split_top(braces(text)):
        match = _KEY.match(part)
        if match is None:
            raise invalid(f"expected key=value in the frontend attributes, found '{part[:40]}'")
        key = string(match.group(1)) if match.group(1).startswith('"') else match.group(1)
        value = part[match.end() :].strip()
        pairs[key] = string(value) if value.startswith('"') else value
    return tuple(sorted(pairs.items()))


def read_aliases(text: str) -> tuple[InputOutputAlias, ...]:
    """`{ {0}: (1, {}, must-alias) }`; without a word it is may-alias."""
    out = []
    for output, number, index, kind in alias_entries(text):
        if kind not in ("", "may-alias", "must-alias"):
            raise invalid(f"an alias is may-alias or must-alias, not '{kind}'")
        out.append(InputOutputAlias(output, number, index, kind == "must-alias"))
    return tuple(out)


def read_donors(text: str) -> tuple[BufferDonor, ...]:
    """`{ (1, {}), (2, {0}) }`."""
    out = []
    for part in split_top(braces(text)):
        match = re.fullmatch(r"\(\s*([0-9]+)\s*,\s*(\{[^{}]*\})\s*\)", part)
        if match is None:
            raise invalid(f"a buffer donor looks like (1, {{}}), found '{part[:40]}'")
        out.append(BufferDonor(checked_int(match.group(1)), int_list(match.group(2))))
    return tuple(out)


TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_ROW = re.compile(r'\s*+([0-9]++)\s++("[^"\\]*+(?:\\.[^"\\]*+)*+"|\{[^{}]*+\})', re.DOTALL)
_FIELD = re.compile(r"([a-z_]+)\s*=\s*(-?[0-9]+)")
_LOCATION = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
_FRAME = ("file_location_id", "parent_frame_id")


def read_table(cursor: Cursor, title: str, frames: StackFrames) -> None:
    """One metadata table, after its title. Rows must count from 1. Raises a located INVALID_ARGUMENT."""
    rows = 0
    while (match := _ROW.match(cursor.text, cursor.pos)) is not None:
        rows += 1
        start = match.start(1)
        if checked_int(match.group(1)) != rows:
            raise cursor.error(f"{title} counts from 1: expected row {rows}", start, match.end(1))
        try:
            _add_row(frames, title, match.group(2))
        except XylaError as error:
            raise error.located(cursor.span(match.start(2), match.end(2))) from None
        cursor.pos = match.end()


def _add_row(frames: StackFrames, title: str, text: str) -> None:
    if title in ("FileNames", "FunctionNames"):
        name = string(text)
        (frames.file_names if title == "FileNames" else frames.function_names).append(name)
    elif title == "FileLocations":
        frames.locations.append(_fields(text, _LOCATION))
    else:
        location, parent = _fields(text, _FRAME)
        frames.frames.append((location, parent))


def _fields(text: str, names: tuple[str, ...]) -> tuple[int, ...]:
    values = {m.group(1): checked_int(m.group(2)) for m in _FIELD.finditer(braces(text))}
    for key in values:
        if key not in names:
            near = did_you_mean(key, names)
            raise invalid(f"unknown field '{key}'", hint=f"did you mean '{near}'?" if near else None)
    return tuple(values.get(name, 0) for name in names)
