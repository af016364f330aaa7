"""Conversions moved to where they have less to convert, and data movement to where there is less to move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction, Module
from xyla.hlo.shape import Shape
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, rule_table, run_rules
from xyla.support.dtypes import ElementType

_MOVES = (
    ops.BROADCAST, ops.CONCATENATE, ops.COPY, ops.PAD, ops.RESHAPE, ops.SLICE, ops.TRANSPOSE, ops.REVERSE,
)  # fmt: skip


@register
@dataclass(frozen=True, slots=True)
class ConvertMover(Pass):
    """Moves data in the narrower type: widening conversions go after the movement, narrowing ones before it.

        concatenate(convert(a), convert(b))      ==>      convert(concatenate(a, b))        (a, b narrower)
        convert(pad(x, c))                       ==>      pad(convert(x), convert(c))       (the result narrower)

    Exact: data movement does not look at values. Constants among the operands of the first form must fit.
    """

    name: ClassVar[str] = "convert-mover"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Near linear: a conversion moves past each instruction once."""
        return run_rules(module, ctx, rule_table((_MOVES, [widen_late]), ([ops.CONVERT], [narrow_early])))


def widen_late(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """move(convert(a), ...) -> convert(move(a, ...)), for conversions to a wider type."""
    narrow = _common_source(inst.operands)
    if narrow is None or inst.shape.is_dynamic:
        return None
    wide = inst.shape.element_type
    if not _loses_nothing(narrow, wide):
        return None
    sources: list[Instruction | Literal] = []
    for operand in inst.operands:
        if operand.op is ops.CONVERT:
            sources.append(operand.operands[0])
            continue
        literal = _narrowed(operand, narrow, wide)
        if literal is None:
            return None
        sources.append(literal)
    operands = [rw.constant(s) if isinstance(s, Literal) else s for s in sources]
    moved = rw.like(operands, shape=inst.shape.with_type(narrow))
    return rw.add(ops.CONVERT, [moved], shape=inst.shape)


def _common_source(operands: Sequence[Instruction]) -> ElementType | None:
    """The one type that every operand is converted from (constants apart; each conversion used only here)."""
    types = set()
    for operand in operands:
        if operand.op is ops.CONVERT:
            if len(operand.users) != 1:
                return None
            types.add(operand.operands[0].shape.element_type)
        elif operand.op is not ops.CONSTANT:
            return None
    return types.pop() if len(types) == 1 else None


def _loses_nothing(narrow: ElementType, wide: ElementType) -> bool:
    """Whether every value of `narrow` is one of `wide`, which takes more room."""
    if narrow.bits >= wide.bits:
        return False
    if narrow.is_complex or wide.is_complex:
        part = wide.bits // 2
        return wide.is_complex and (narrow.bits // 2 < part if narrow.is_complex else narrow.bits <= part)
    if narrow.is_float:
        return wide.is_float
    if wide.is_float:
        return False
    return wide.is_integer and not (narrow.is_signed and not wide.is_signed)


def _narrowed(operand: Instruction, narrow: ElementType, wide: ElementType) -> Literal | None:
    """A constant in the narrow type, when that keeps every bit."""
    literal: Literal = operand.attrs.literal
    if literal.elided or narrow.is_complex != wide.is_complex:
        return None
    with np.errstate(all="ignore"):
        small = literal.array.astype(narrow.np)
        back = small.astype(wide.np)
    if back.tobytes() != np.ascontiguousarray(literal.array).tobytes():
        return None
    return Literal(operand.shape.with_type(narrow), small)


def narrow_early(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convert(move(a, ...)) -> move(convert(a), ...), for a conversion to a narrower type."""
    move = inst.operands[0]
    if move.op not in _MOVES or len(move.users) != 1 or move.shape.is_dynamic:
        return None
    narrow = inst.shape.element_type
    if narrow.bits >= move.shape.element_type.bits or move.shape.element_type.is_complex:
        return None
    if move.control_predecessors or move.control_successors:
        return None
    if move.op is ops.BROADCAST and move.operands[0].op is ops.CONSTANT:
        return None  # nothing moves: it is a splat
    operands = [rw.add(ops.CONVERT, [o], shape=_typed(o.shape, narrow)) for o in move.operands]
    return rw.add(move.op, operands, move.attrs, shape=inst.shape)


def _typed(shape: Shape, element_type: ElementType) -> Shape:
    return shape.with_type(element_type)
