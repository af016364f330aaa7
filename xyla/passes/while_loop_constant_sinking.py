"""Constants of the caller inside loops and conditionals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.analysis.while_loops import initial_value, invariant_indices, is_canonical, state_elements
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.passes.inlining import own
from xyla.passes.loops import loops_of
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext


@register
@dataclass(frozen=True, slots=True)
class WhileLoopConstantSinking(Pass):
    """Loop state that is a constant is read as that constant inside.

        init = (0, c), body = {(i, k) -> (i + k, k)}      ==>      body = {(i, k) -> (i + c, k)}

    The state element stays; `simplify-while-loops` then removes it. Broadcast constants are sunk too, unless
    sink_broadcast_of_constants is false; sink_only_scalar_constants leaves arrays.
    """

    name: ClassVar[str] = "while-loop-constant-sinking"
    sink_broadcast_of_constants: bool = True
    sink_only_scalar_constants: bool = False

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Outer loops first, so that a constant reaches inner loops in one run. Linear."""
        changed = False
        for loop in reversed(loops_of(module)):
            if is_canonical(loop):
                changed |= self._sink(loop, ctx)
        return changed

    def _sink(self, loop: Instruction, ctx: PassContext) -> bool:
        changed = False
        for index in invariant_indices(loop):
            value = initial_value(loop, index)
            if value is None or not self._sinkable(value) or not _is_read(loop, index):
                continue
            if not ctx.permit("sink-loop-constant", loop):
                return changed
            own(loop)
            for comp in loop.called:
                _read_constant(comp, index, value)
            ctx.record(loop)
            changed = True
        return changed

    def _sinkable(self, value: Instruction) -> bool:
        if self.sink_only_scalar_constants and not value.shape.is_scalar:
            return False
        if value.op is ops.BROADCAST and self.sink_broadcast_of_constants:
            value = value.operands[0]
        return value.op is ops.CONSTANT and value.shape.is_array


def _is_read(loop: Instruction, index: int) -> bool:
    return any(_inner_users(reader) for comp in loop.called for reader in state_elements(comp).get(index, ()))


def _inner_users(reader: Instruction) -> list[Instruction]:
    """Users other than the tuple at the body's end that passes the element on."""
    users = [u for u in reader.users if not (u.is_root and u.op is ops.TUPLE)]
    return users if not reader.is_root else [*users, reader]


def _read_constant(comp: Computation, index: int, value: Instruction) -> None:
    for reader in state_elements(comp).get(index, ()):
        if not _inner_users(reader):
            continue
        new = _copy(value, comp)
        rewriter.replace_uses(reader, new, where=lambda u: not (u.is_root and u.op is ops.TUPLE))
        if reader.is_root:
            comp.set_root(new)


def _copy(value: Instruction, comp: Computation) -> Instruction:
    operands = [rewriter.clone_instruction(o, comp, ()) for o in value.operands]
    return rewriter.clone_instruction(value, comp, operands)
