"""The `, key=value` list after an instruction's operands: scanning, sorting into kinds, decoding.

Attribute records are interned by (op, key and value texts): most instructions of a module share few of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xyla.formats.hlo_text.codecs import CODECS, braces
from xyla.formats.hlo_text.lexer import Cursor, split_top
from xyla.formats.hlo_text.shapes import ShapeReader
from xyla.hlo.op_def import NO_ATTRS, AttrKind, Attrs, AttrSpec, NoAttrs, OpDef
from xyla.support.diagnostics import did_you_mean
from xyla.support.status import XylaError, unimplemented

ATTR_RE = re.compile(r"\s*+,\s*+([A-Za-z_][\w\-]*+)\s*+=\s*+")
VALUE_RE = re.compile(
    r'\{[^{}"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^{}"]*+)*+\}|"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\w.\-+:>?%@/#*$]++(?![\[(])',
    re.DOTALL,
)
_GROUPS_RE = re.compile(
    r"\[[^\]]*+\]\s*+<=\s*+\[[^\]]*+\](?:\s*+T\([^)]*+\))?|mesh\s*+\[[^\[\]]*+(?:\[[^\[\]]*+\][^\[\]]*+)*+\]\s*+\{[^{}]*+\}"
    r"|@[\w.\-]++\s*+\{[^{}]*+\}"
)
_TEXT_RE = re.compile(r"[^\s,(){}\[\]\"]*+")

# Annotations: what any instruction may carry.
ANNOTATIONS = frozenset(
    ("sharding", "metadata", "backend_config", "frontend_attributes", "control-predecessors", "origin", "statistics")
)
# Roles of called computations, as the text spells them.
ROLES = frozenset(
    ("to_apply", "calls", "condition", "body", "select", "scatter", "branch_computations", "true_computation",
     "false_computation", "called_computations")
)  # fmt: skip
# Accepted and dropped: hints of old versions that changed nothing.
IGNORED = {"convolution": frozenset(("convolution_kind",)), "async-start": frozenset(("async_group_id",))}


@dataclass(slots=True)
class AttrList:
    """One instruction's attribute list, sorted: (key, text, offset) each. `parts` are the op's own, flattened texts."""

    parts: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    roles: list[tuple[str, str, int]] = field(default_factory=list)
    annotations: list[tuple[str, str, int]] = field(default_factory=list)


def scan(cursor: Cursor, op: OpDef[Any], shapes: ShapeReader) -> AttrList:
    """Reads the list at the cursor. Raises a located INVALID_ARGUMENT for a malformed value."""
    text = cursor.text
    out = AttrList()
    match_attr, match_value = ATTR_RE.match, VALUE_RE.match
    while (match := match_attr(text, cursor.pos)) is not None:
        key, start = match.group(1), match.end()
        value = match_value(text, start)
        if value is not None:
            body = value.group()
            cursor.pos = value.end()
        else:
            cursor.pos = start
            _skip_value(cursor, key, op, shapes)
            body = text[start : cursor.pos].rstrip()
        if key in ANNOTATIONS:
            out.annotations.append((key, body, start))
        elif key in ROLES and _is_role(key, op):
            out.roles.append((key, body, start))
        else:
            out.parts += (key, body)
            out.starts.append(start)
    return out


def _is_role(key: str, op: OpDef[Any]) -> bool:
    # `dimensions`-like names never collide with roles; `scatter` and `select` are roles of one op only.
    return bool(op.called) or op.name.startswith("async-")


def _skip_value(cursor: Cursor, key: str, op: OpDef[Any], shapes: ShapeReader) -> None:
    """Moves past a value that the simple pattern does not cover."""
    kind = next((s.kind for s in op.specs if s.key == key), AttrKind.RAW)
    char = cursor.peek()
    if kind is AttrKind.SHAPE:
        shapes.read(cursor)
    elif kind is AttrKind.LITERAL:
        _skip_literal(cursor, shapes)
    elif (match := _GROUPS_RE.match(cursor.text, cursor.pos)) is not None:
        cursor.pos = match.end()
    elif char and char in "{[(":
        cursor.pos = cursor.balanced(cursor.pos)
    elif char == '"':
        raise cursor.error("this string has no closing quote")
    else:
        match = _TEXT_RE.match(cursor.text, cursor.pos)
        if (match is None or not match.group()) and kind is not AttrKind.PADDING:
            raise cursor.error(f"expected a value for {key}, found {cursor.found()}")
        cursor.pos = match.end() if match else cursor.pos


def _skip_literal(cursor: Cursor, shapes: ShapeReader) -> None:
    if cursor.peek() == "(":
        cursor.pos = cursor.balanced(cursor.pos)
        return
    shapes.read(cursor)
    char = cursor.peek()
    if char and char in "{(":
        cursor.pos = cursor.balanced(cursor.pos)
    elif (match := re.compile(r"[\w.\-+]*(?:\(0x[0-9A-Fa-f]+\))?").match(cursor.text, cursor.pos)) is not None:
        cursor.pos = match.end()


class AttrDecoder:
    """Decodes attribute lists into interned records."""

    __slots__ = ("_records", "_values")

    def __init__(self) -> None:
        self._records: dict[tuple[object, ...], Attrs] = {}
        self._values: dict[tuple[AttrSpec, str], Any] = {}

    def decode(self, cursor: Cursor, op: OpDef[Any], attrs: AttrList, at: int) -> Attrs:
        """The record of `op`. `at` locates a missing attribute. Raises a located INVALID_ARGUMENT."""
        if not attrs.parts and op.attrs is NoAttrs:
            return NO_ATTRS
        key = (op, *attrs.parts)
        record = self._records.get(key)
        if record is None:
            values = self.values(cursor, op, attrs)
            record = self._records[key] = build(cursor, op, values, at)
        return record

    def values(self, cursor: Cursor, op: OpDef[Any], attrs: AttrList) -> dict[str, Any]:
        """Field values by field name. Raises a located INVALID_ARGUMENT for unknown, repeated or malformed ones."""
        specs = {s.key: s for s in op.specs if s.kind is not AttrKind.OPERAND}
        values: dict[str, Any] = {}
        for i, start in enumerate(attrs.starts):
            key, text = attrs.parts[2 * i], attrs.parts[2 * i + 1]
            spec = specs.get(key)
            if spec is None:
                if key in IGNORED.get(op.name, ()):
                    continue
                raise _unknown(cursor, op, key, start)
            if spec.name in values:
                raise cursor.error(f"{op.name} has {key} twice", start, start + len(text))
            values[spec.name] = self._value(cursor, spec, text, start)
        return values

    def _value(self, cursor: Cursor, spec: AttrSpec, text: str, start: int) -> Any:
        codec = CODECS.get(spec.kind)
        if codec is None:
            raise unimplemented(f"attribute {spec.key} of kind {spec.kind.name} in text")
        try:
            if spec.kind is AttrKind.RAW:
                return cursor.source.text[start : start + len(text)]
            return codec(text, spec)
        except XylaError as error:
            raise error.located(cursor.span(start, start + max(1, len(text)))) from None


def build(cursor: Cursor, op: OpDef[Any], values: dict[str, Any], at: int) -> Attrs:
    """The record from its field values. Raises a located INVALID_ARGUMENT for a missing attribute."""
    for spec in op.specs:
        if spec.required and spec.name not in values:
            what = spec.key if spec.kind not in (AttrKind.OPERAND, AttrKind.LITERAL) else "value"
            raise cursor.error(f"{op.name} needs the attribute {what}", at, at + len(op.name))
    record: Attrs = op.attrs(**values)
    return record


def _unknown(cursor: Cursor, op: OpDef[Any], key: str, start: int) -> XylaError:
    allowed = [s.key for s in op.specs if s.kind is not AttrKind.OPERAND]
    allowed += [role.rstrip("*") for role in op.called]
    near = did_you_mean(key, [*allowed, *sorted(ANNOTATIONS)])
    if near:
        hint = f"did you mean '{near}'?"
    else:
        hint = f"{op.name} takes {', '.join(allowed)}" if allowed else f"{op.name} has no attributes of its own"
    key_start = cursor.text.rfind(key, 0, start)
    return cursor.error(f"{op.name} has no attribute '{key}'", key_start, key_start + len(key), hint=hint)


def name_list(text: str) -> Sequence[str]:
    """`{%a, %b}` or `%a` as names without `%`."""
    parts = split_top(braces(text)) if text.startswith("{") else [text]
    return [p.removeprefix("%") for p in parts]
