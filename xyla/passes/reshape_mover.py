"""Reshapes and transposes after element-wise work."""

from __future__ import annotations

from collections.abc import Sequence
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
# Ops that move together at most: each is asked for all of its group.
_GROUP = 16


@register
@dataclass(frozen=True, slots=True)
class ReshapeMover(Pass):
    """Moves like reshapes (or transposes) of an element-wise op's operands to its result.

        add(reshape(x), reshape(y))      ==>      reshape(add(x, y))

    Constants count as rearranged already, and so do broadcasts whose dimensions stay whole and in order. Done only when
    all users of the reshapes move, and are no more than the reshapes, so that no more are left. Source: XLA's
    ReshapeMover, which lets them become more.
    """

    name: ClassVar[str] = "reshape-mover"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Near linear: each reshape moves past each op once."""
        table = {op: (move_rearrangement,) for op in dict.fromkeys(i.op for i in module.instructions())}
        return run_rules(module, ctx, {op: rules for op, rules in table.items() if op.has(Trait.ELEMENTWISE)})


def move_rearrangement(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """op(reshape(x), reshape(y), c) -> reshape(op(x, y, c')), for equal reshapes or transposes."""
    first = next((o for o in inst.operands if _counts(o)), None)
    if first is None or not _movable(inst, first) or not _all_move(inst, first):
        return None
    source = first.operands[0].shape
    operands = [_source(o, first, source, rw) for o in inst.operands]
    inner = rw.like(operands, shape=source.with_type(inst.shape.element_type))
    inner.sharding = ""
    return rw.add(first.op, [inner], first.attrs, shape=inst.shape)


def _counts(inst: Instruction) -> bool:
    """A rearrangement that is worth moving: of a constant it is none, and random numbers can be drawn in any shape."""
    if inst.op not in _REARRANGES or inst.shape.is_scalar or inst.operands[0].shape.is_scalar:
        return False
    return inst.operands[0].op not in (ops.CONSTANT, ops.RNG)


def _all_move(inst: Instruction, first: Instruction) -> bool:
    """Whether all users of the rearranged operands, and of those users' own, can move; and are no more than these."""
    movers, rearranged, work = {inst}, set(), [inst]
    while work:
        for operand in work.pop().operands:
            if operand in rearranged or not _is_like(operand, first):
                continue
            if operand.is_root:
                return False
            rearranged.add(operand)
            for user in operand.users:
                if user in movers:
                    continue
                if len(movers) == _GROUP or not _movable(user, first):
                    return False
                movers.add(user)
                work.append(user)
    return len(movers) <= len(rearranged)


def _movable(user: Instruction, first: Instruction) -> bool:
    """Whether an element-wise op can be done before a rearrangement like `first`, of all that it reads."""
    if not user.op.has(Trait.ELEMENTWISE) or user.shape.is_dynamic or first.operands[0].shape.is_dynamic:
        return False
    return all(_is_like(o, first) or _is_trivial(o, first) for o in user.operands)


def _is_like(operand: Instruction, first: Instruction) -> bool:
    return (
        operand.op is first.op
        and _counts(operand)
        and (operand.op is ops.RESHAPE or operand.attrs == first.attrs)
        and operand.shape.dims == first.shape.dims
        and operand.operands[0].shape.with_type(first.shape.element_type)
        is first.operands[0].shape.with_type(first.shape.element_type)
    )


def _is_trivial(operand: Instruction, first: Instruction) -> bool:
    """Whether the operand's elements can be had in the source's order for nothing."""
    if operand.op is ops.CONSTANT or operand.shape.is_scalar:
        return True
    return operand.op is ops.BROADCAST and _source_dims(operand.attrs.dimensions, first) is not None


def _source_dims(dims: Sequence[int], first: Instruction) -> tuple[int, ...] | None:
    """The dimensions of the source of `first` that its result's `dims` are; None unless they stay whole, in order."""
    if first.op is ops.TRANSPOSE:
        found = [first.attrs.dimensions[d] for d in dims]
        return tuple(found) if found == sorted(found) else None
    return _unmodified(dims, first.operands[0].shape.dims, first.shape.dims)


def _unmodified(dims: Sequence[int], source: Sequence[int], result: Sequence[int]) -> tuple[int, ...] | None:
    """Where result dimensions are source dimensions: equal, with as many elements before them."""
    before = {(int(np.prod(source[:d])), size): d for d, size in reversed(list(enumerate(source)))}
    found = [before.get((int(np.prod(result[:d])), result[d])) for d in dims]
    kept = [d for d in found if d is not None]
    return tuple(kept) if len(kept) == len(found) and len(set(kept)) == len(kept) and 0 not in result else None


def _source(operand: Instruction, first: Instruction, source: Shape, rw: Rewrite) -> Instruction:
    if _is_like(operand, first):
        return operand.operands[0]
    if operand.shape.is_scalar:
        return operand  # the scalar operand of a select or a clamp, or everything is scalar
    shape = source.with_type(operand.shape.element_type)
    if operand.op is ops.BROADCAST:
        dims = _source_dims(operand.attrs.dimensions, first)
        assert dims is not None
        return rw.add(ops.BROADCAST, operand.operands, ops.DimensionsAttrs(dims), shape=shape)
    literal = operand.attrs.literal
    order = np.argsort(first.attrs.dimensions) if first.op is ops.TRANSPOSE else None
    if literal.elided:
        attrs = ops.ReshapeAttrs() if order is None else ops.DimensionsAttrs(tuple(int(d) for d in order))
        return rw.add(first.op, [operand], attrs, shape=shape)
    array = literal.array if order is None else np.transpose(literal.array, order)
    return rw.constant(Literal(shape, array.reshape(shape.dims)))
