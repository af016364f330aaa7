"""Reshapes and transposes after element-wise work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, run_rules

_REARRANGES = (ops.RESHAPE, ops.TRANSPOSE)


@register
@dataclass(frozen=True, slots=True)
class ReshapeMover(Pass):
    """Moves like reshapes (or transposes) of an element-wise op's operands to its result.

        add(reshape(x), reshape(y))      ==>      reshape(add(x, y))

    Constants and broadcast scalars count as rearranged already. Done only when the reshapes have no other use, so that
    fewer are left.
    """

    name: ClassVar[str] = "reshape-mover"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Near linear: each reshape moves past each op once."""
        table = {op: (move_rearrangement,) for op in dict.fromkeys(i.op for i in module.instructions())}
        return run_rules(module, ctx, {op: rules for op, rules in table.items() if op.has(Trait.ELEMENTWISE)})


def move_rearrangement(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """op(reshape(x), reshape(y), c) -> reshape(op(x, y, c')), for equal reshapes or transposes."""
    first = next((o for o in inst.operands if o.op in _REARRANGES), None)
    if first is None or inst.shape.is_dynamic or first.operands[0].shape.is_dynamic:
        return None
    if first.shape.is_scalar or first.operands[0].shape.is_scalar:
        return None
    if not all(_like(o, first, inst) or _trivial(o) for o in inst.operands):
        return None
    source = first.operands[0].shape
    operands = [_source(o, first, source, rw) for o in inst.operands]
    inner = rw.like(operands, shape=source.with_type(inst.shape.element_type))
    inner.sharding = ""
    return rw.add(first.op, [inner], first.attrs, shape=inst.shape)


def _like(operand: Instruction, first: Instruction, user: Instruction) -> bool:
    """Whether an operand is rearranged as `first` is, for this use alone."""
    return (
        operand.op is first.op
        and (operand.op is ops.RESHAPE or operand.attrs == first.attrs)
        and operand.operands[0].shape.with_type(first.shape.element_type)
        is first.operands[0].shape.with_type(first.shape.element_type)
        and list(operand.users) == [user]
        and not operand.is_root
    )


def _trivial(operand: Instruction) -> bool:
    if operand.op is ops.CONSTANT:
        return not operand.attrs.literal.elided
    return operand.shape.is_scalar or (operand.op is ops.BROADCAST and operand.operands[0].shape.is_scalar)


def _source(operand: Instruction, first: Instruction, source: Shape, rw: Rewrite) -> Instruction:
    if operand.op is first.op:
        return operand.operands[0]
    if operand.shape.is_scalar:
        return operand  # the scalar operand of a select or a clamp, or everything is scalar
    shape = source.with_type(operand.shape.element_type)
    if operand.op is ops.BROADCAST:
        return rw.add(ops.BROADCAST, operand.operands, operand.attrs, shape=shape)
    array = operand.attrs.literal.array
    if first.op is ops.TRANSPOSE:
        array = np.transpose(array, np.argsort(first.attrs.dimensions))
    return rw.constant(Literal(shape, array.reshape(shape.dims)))
