"""Called computations: names under the op's roles, or computations written in place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from xyla.formats.hlo_text.attributes import AttrList, name_list
from xyla.formats.hlo_text.lexer import NAME, Cursor
from xyla.formats.hlo_text.operands import MAX_NESTING
from xyla.hlo import ops
from xyla.hlo.module import Computation
from xyla.hlo.op_def import OpDef
from xyla.support.diagnostics import did_you_mean
from xyla.support.status import XylaError

if TYPE_CHECKING:
    from xyla.formats.hlo_text.instructions import InstructionReader

_INLINE_RE = re.compile(rf"\{{\s*+(?:ROOT\s++)?+%?{NAME}\s*+=")
_INLINE_LIST_RE = re.compile(rf"\{{\s*+(?={_INLINE_RE.pattern})")
# Attributes that updates and dones of old texts repeat from their start.
_REPEATED = (ops.ASYNC_DONE, ops.ASYNC_UPDATE)


def read_callees(reader: InstructionReader, op: OpDef[Any], attrs: AttrList, at: int) -> tuple[Computation, ...]:
    """The called computations in the order of the op's roles. Raises a located INVALID_ARGUMENT."""
    by_role = {key: _named(reader, text, start) for key, text, start in attrs.roles}
    out: list[Computation] = []
    for role in _roles(op, by_role):
        found = by_role.pop(role.rstrip("*"), None)
        if found is None and not role.endswith("*"):
            raise reader.cursor.error(f"{op.name} needs the attribute {role}", at, at + len(op.name))
        out += found or ()
    if by_role and op not in _REPEATED:
        key, _, start = next(item for item in attrs.roles if item[0] in by_role)
        at = reader.cursor.text.rfind(key, 0, start)
        raise reader.cursor.error(f"{op.name} has no attribute '{key}' here", at, at + len(key))
    return tuple(out)


def _roles(op: OpDef[Any], given: dict[str, list[Computation]]) -> tuple[str, ...]:
    """The roles to look for; some ops have a second spelling."""
    if op is ops.CONDITIONAL and ("true_computation" in given or "false_computation" in given):
        return ("true_computation", "false_computation")
    if op is ops.CUSTOM_CALL and "to_apply" in given:
        return ("to_apply",)
    if op.called in (("calls",), ("to_apply",)) and op.called[0] not in given:
        # call(...), calls=f and fusion(...), to_apply=f occur in old texts.
        return tuple(key for key in ("calls", "to_apply") if key in given) or op.called
    return op.called


def _named(reader: InstructionReader, text: str, start: int) -> list[Computation]:
    cursor = reader.cursor
    if _INLINE_RE.match(cursor.text, start):
        return [_inline(reader, start)]
    if (match := _INLINE_LIST_RE.match(cursor.text, start)) is not None:
        return _inline_list(reader, match.end())
    try:
        names = name_list(text)
    except XylaError as error:
        raise error.located(cursor.span(start, start + len(text))) from None
    return [_find(reader, name, start) for name in names]


def _inline_list(reader: InstructionReader, start: int) -> list[Computation]:
    cursor, resume = reader.cursor, reader.cursor.pos
    out: list[Computation] = []
    cursor.pos = start
    while not cursor.accept("}"):
        if out:
            cursor.expect(",", "or '}' after a computation")
        cursor.skip()
        start = cursor.pos
        cursor.expect("{", "to open a computation")
        out.append(_inline(reader, start))
        cursor.pos = cursor.balanced(start)
    cursor.pos = resume
    return out


def _inline(reader: InstructionReader, start: int) -> Computation:
    """A computation written in place, `calls={ ROOT r = ... }`; it gets a generated name."""
    cursor: Cursor = reader.cursor
    names, undeclared, resume = reader.names, reader.undeclared, cursor.pos
    reader.nesting += 1
    if reader.nesting > MAX_NESTING:
        raise cursor.error(f"computations are nested deeper than {MAX_NESTING}", start)
    comp = Computation(reader.free_name("_"), reader.module)
    reader.module.computations[comp.name] = comp
    cursor.pos, reader.undeclared = start + 1, False
    reader.body(comp)
    reader.names, reader.undeclared, cursor.pos = names, undeclared, resume
    reader.nesting -= 1
    return comp


def _find(reader: InstructionReader, name: str, start: int) -> Computation:
    found = reader.computations.get(name)
    if found is not None:
        return found
    near = did_you_mean(name, reader.computations)
    hint = f"did you mean '{near}'?" if near else "a computation must be defined before its uses"
    at = reader.cursor.text.find(name, start)
    raise reader.cursor.error(f"computation '{name}' is not defined", at, at + len(name), hint=hint)
