"""Operand lists: names, optional types before them, and instructions written in place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xyla.formats.hlo_text.lexer import NAME, Cursor
from xyla.formats.hlo_text.shapes import ARRAY_TEXT
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import all_ops, find_op
from xyla.hlo.ops.basic import ParameterAttrs
from xyla.hlo.shape import Shape
from xyla.support.diagnostics import did_you_mean
from xyla.support.status import XylaError

if TYPE_CHECKING:
    from xyla.formats.hlo_text.instructions import InstructionReader

# Instructions inside operand lists, and computations inside attributes, nest at most this deep.
MAX_NESTING = 32

# A list longer than this is walked name by name, to spare memory; splitting is faster below it.
_LONG = 1 << 16
_BARE_RE = re.compile(NAME)
_PLAIN_RE = re.compile(rf"\s*+((?:%?{NAME}\s*+(?:,\s*+%?{NAME}\s*+)*+)?+)\)")
_TYPED_RE = re.compile(rf"\s*+({ARRAY_TEXT}\s++)?+%?({NAME})\s*+(?=[,)])")
_NAME_RE = re.compile(rf"\s*+%?({NAME})\s*+(?=[,)])")
_NESTED_RE = re.compile(rf"\s*+(?:{ARRAY_TEXT}\s++)?+([a-z][\w\-]++)\s*+\(")


def read_operands(reader: InstructionReader, comp: Computation) -> tuple[Instruction, ...]:
    """The operand list behind a '('. Raises a located INVALID_ARGUMENT for an undefined operand."""
    cursor = reader.cursor
    match = _PLAIN_RE.match(cursor.text, cursor.pos)
    if match is None:
        return _typed_operands(reader, comp)
    inner = match.group(1)
    if not inner:
        cursor.pos = match.end()
        return ()
    names = reader.names
    try:
        if len(inner) > _LONG:
            operands = tuple(names[m.group()] for m in _BARE_RE.finditer(inner))
        else:
            operands = tuple([names[n.strip()] for n in inner.replace("%", "").split(",")])
    except KeyError:
        return _typed_operands(reader, comp)
    cursor.pos = match.end()
    return operands


def _typed_operands(reader: InstructionReader, comp: Computation) -> tuple[Instruction, ...]:
    cursor = reader.cursor
    out: list[Instruction] = []
    while True:
        out.append(_operand(reader, comp))
        if cursor.accept(")"):
            return tuple(out)
        cursor.expect(",", "or ')' after an operand")


def _operand(reader: InstructionReader, comp: Computation) -> Instruction:
    cursor = reader.cursor
    shape: Shape | None = None
    match = _TYPED_RE.match(cursor.text, cursor.pos)
    if match is not None:
        found = reader.names.get(match.group(2))
        if found is None and reader.undeclared and match.group(1):
            shape = reader.shape_at(match.start(1))
            found = _declare(reader, comp, match.group(2), shape)
        if found is None:
            raise undefined(reader, comp, match.group(2), match.start(2))
        cursor.pos = match.end()
        return found
    if _NESTED_RE.match(cursor.text, cursor.pos) is not None:
        return _nested(reader, comp, None)
    shape = reader.shapes.read(cursor)
    name = _NAME_RE.match(cursor.text, cursor.pos)
    if name is None:
        if reader.undeclared and cursor.peek() in (",", ")"):
            return _declare(reader, comp, comp.unique_name("parameter.anon"), shape)
        return _nested(reader, comp, shape)
    operand = reader.names.get(name.group(1))
    if operand is None and reader.undeclared:
        operand = _declare(reader, comp, name.group(1), shape)
    if operand is None:
        raise undefined(reader, comp, name.group(1), name.start(1))
    cursor.pos = name.end()
    return operand


def _declare(reader: InstructionReader, comp: Computation, name: str, shape: Shape) -> Instruction:
    """The parameter that an operand of a lone instruction stands for."""
    inst = comp.add(ops.PARAMETER, (), ParameterAttrs(len(comp.parameters)), shape=shape, name=name)
    reader.names[name] = inst
    return inst


def _nested(reader: InstructionReader, comp: Computation, shape: Shape | None) -> Instruction:
    """An operand written in place, `add(x, f32[] constant(1))`: no attributes, and a generated name."""
    cursor = reader.cursor
    match = _NESTED_RE.match(cursor.text, cursor.pos)
    if match is None:
        raise cursor.error(f"expected an operand name, found {cursor.found()}")
    opcode, at = match.group(1), match.start(1)
    if shape is None and cursor.text[cursor.pos : at].strip():
        shape = reader.shape_at(cursor.pos)
    op = find_op(opcode)
    if op is None:
        raise unknown_opcode(cursor, opcode, at)
    reader.nesting += 1
    if reader.nesting > MAX_NESTING:
        raise cursor.error(f"instructions are nested deeper than {MAX_NESTING}", at)
    cursor.pos = match.end()
    inst = reader.finish(comp, "", op, shape, at, attributes=False)
    inst.span = cursor.span(at, at + len(opcode))
    reader.names[inst.name] = inst
    reader.nesting -= 1
    return inst


def undefined(reader: InstructionReader, comp: Computation, name: str, start: int) -> XylaError:
    """The error for a name that no earlier instruction of the computation has."""
    near = did_you_mean(name, reader.names)
    hint = f"did you mean '%{near}'?" if near else "an instruction must be defined before its uses"
    what = f"instruction '%{name}' is not defined in computation '{comp.name}'"
    return reader.cursor.error(what, start, start + len(name), hint=hint)


def unknown_opcode(cursor: Cursor, opcode: str, at: int) -> XylaError:
    """The error for an opcode that XLA does not have."""
    near = did_you_mean(opcode, [op.name for op in all_ops()])
    hint = f"did you mean '{near}'?" if near else None
    return cursor.error(f"unknown opcode '{opcode}'", at, at + len(opcode), hint=hint)
