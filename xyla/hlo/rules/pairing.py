"""Rules of operations that are split in two: a start op and the done op that waits for it.

Source: XLA's async documentation. A start may reach its done through a loop (tuple, parameter, get-tuple-element): only
what is connected directly is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xyla.hlo.op_def import Trait
from xyla.support.status import invalid

if TYPE_CHECKING:
    from xyla.hlo.module import Instruction

# Ops through which a started operation travels to where it ends.
_CARRIERS = frozenset({"parameter", "get-tuple-element", "opt-barrier", "while", "conditional", "call", "fusion"})


def verify_start(inst: Instruction) -> None:
    """A start op: at most one op waits for it."""
    waiting = [user.name for user in inst.users if user.op.has(Trait.ASYNC_DONE)]
    if len(waiting) > 1:
        raise invalid(f"%{waiting[0]} and %{waiting[1]} both wait for it")


def verify_done(inst: Instruction) -> None:
    """A done op: its operand is the start op of its kind."""
    operand = inst.operands[0].op.name
    want = inst.op.name.removesuffix("-done").removesuffix("-update")
    if operand in _CARRIERS or operand in (want, f"{want}-start", f"{want}-update"):
        return
    raise invalid(f"operand 0 is {operand}, expected {want if want in ('send', 'recv') else want + '-start'}")
