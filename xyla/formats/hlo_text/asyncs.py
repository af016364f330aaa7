"""The sugared form of asynchronous operations: `add-start(a, b)`, `add-update(s)`, `add-done(s)`.

`x-start` stands for an async-start that calls a generated computation which holds one `x` instruction; its shape is
((operand shapes), result shape, context...). The generated computation is named after the instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xyla.formats.hlo_text.attributes import AttrList, scan
from xyla.formats.hlo_text.callees import read_callees
from xyla.formats.hlo_text.operands import read_operands
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef, find_op
from xyla.hlo.ops.basic import ParameterAttrs
from xyla.hlo.shape import Shape

if TYPE_CHECKING:
    from xyla.formats.hlo_text.instructions import InstructionReader


@dataclass(frozen=True, slots=True)
class Sugar:
    """A sugared opcode: the async op and the op it wraps."""

    op: OpDef[Any]
    wrapped: OpDef[Any]


_SUFFIXES = (("-start", ops.ASYNC_START), ("-update", ops.ASYNC_UPDATE), ("-done", ops.ASYNC_DONE))


def split(opcode: str) -> Sugar | None:
    """`add-start` as (async-start, add); None for anything else."""
    for suffix, op in _SUFFIXES:
        if opcode.endswith(suffix) and (wrapped := find_op(opcode.removesuffix(suffix))) is not None:
            return Sugar(op, wrapped)
    return None


def read(
    reader: InstructionReader, comp: Computation, name: str, shape: Shape | None, sugar: Sugar, at: int
) -> Instruction:
    """Reads a sugared instruction after its '('. Raises a located INVALID_ARGUMENT."""
    cursor = reader.cursor
    operands = read_operands(reader, comp)
    if sugar.op is not ops.ASYNC_START:
        return _read_later(reader, comp, name, shape, sugar, operands, at)
    attrs = scan(cursor, sugar.wrapped, reader.shapes)
    own = reader.decode(sugar.op, _take_own(attrs), at)
    record = reader.decode(sugar.wrapped, attrs, at)
    called = read_callees(reader, sugar.wrapped, attrs, at)
    reader.check_arity(sugar.wrapped, operands, at)
    if shape is None or not shape.is_tuple or len(shape.tuple_shapes) < 2 or not shape.tuple_shapes[0].is_tuple:
        raise cursor.error("an async start has shape ((operands), result, ...)", at)
    inner = Computation(reader.free_name(f"{name}.async"), reader.module)
    inner.execution_thread = own.async_execution_thread
    params = [
        inner.add(ops.PARAMETER, (), ParameterAttrs(i), shape=o.shape, name=f"param_{i}")
        for i, o in enumerate(operands)
    ]
    inner.set_root(
        inner.add(sugar.wrapped, params, record, called=called, shape=shape.tuple_shapes[1], name=sugar.wrapped.name)
    )
    inner.span = inner.root.span = cursor.span(at, at + len(sugar.wrapped.name))
    reader.module.computations[inner.name] = inner
    return reader.make(comp, name, sugar.op, shape, operands, own, (inner,), attrs, at)


_OWN_KEYS = frozenset(spec.key for spec in ops.ASYNC_START.specs)


def _take_own(attrs: AttrList) -> AttrList:
    """Moves what belongs to the async op itself (thread, aliasing) from a sugared list to a new one."""
    own, rest = AttrList(), AttrList()
    for i, start in enumerate(attrs.starts):
        target = own if attrs.parts[2 * i] in _OWN_KEYS else rest
        target.parts += attrs.parts[2 * i : 2 * i + 2]
        target.starts.append(start)
    attrs.parts, attrs.starts = rest.parts, rest.starts
    return own


def _read_later(
    reader: InstructionReader, comp: Computation, name: str, shape: Shape | None, sugar: Sugar,
    operands: tuple[Instruction, ...], at: int,
) -> Instruction:  # fmt: skip
    """`x-update` and `x-done`: the chain they continue must have started an `x`."""
    cursor = reader.cursor
    attrs = scan(cursor, sugar.op, reader.shapes)
    own = reader.decode(sugar.op, attrs, at)
    if len(operands) != 1:
        raise cursor.error(f"{sugar.wrapped.name} updates and dones take 1 operand, {len(operands)} given", at)
    start = reader.starts.get(operands[0], operands[0])
    if start.op is not ops.ASYNC_START:
        raise cursor.error(f"the operand is not an asynchronous {sugar.wrapped.name}", at)
    if start.called[0].root.op is not sugar.wrapped:
        raise cursor.error(f"the operand is an asynchronous {start.called[0].root.op.name}", at)
    inst = reader.make(comp, name, sugar.op, shape, operands, own, (), attrs, at)
    if sugar.op is ops.ASYNC_UPDATE:
        reader.starts[inst] = start
    return inst
