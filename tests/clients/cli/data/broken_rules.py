"""Passes that are wrong on purpose, for the tests of bisect and validate. Loaded with --load-pass only."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, is_splat, rule_table, run_rules


def multiply_by_two_is_add(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x * 2 = x + x."""
    x, y = inst.operands
    return rw.binary(ops.ADD, x, x) if is_splat(y, 2) else None


def abs_of_square(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """|x * x| = x * x: wrong for integers that wrap around."""
    (x,) = inst.operands
    return x if x.op is ops.MULTIPLY and x.operands[0] is x.operands[1] else None


def subtract_commutes(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x - 3 = 3 - x: wrong."""
    x, y = inst.operands
    return rw.binary(ops.SUBTRACT, y, x) if is_splat(y, 3) else None


def transpose_forgets_shape(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """transpose(x) = x: does not even have the shape."""
    return inst.operands[0]


def crashes_on_xor(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """Dies where the first operand is an and."""
    if inst.operands[0].op is ops.AND:
        os._exit(70)
    return None


def or_of_same_is_and(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x | x = x & x."""
    x, y = inst.operands
    return rw.binary(ops.AND, x, y) if x is y else None


def hangs_on_xor(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """Never comes back where the first operand is an and."""
    while inst.operands[0].op is ops.AND:
        time.sleep(0.01)
    return None


def add_commutes(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x + y = y + x, for ever."""
    x, y = inst.operands
    return rw.binary(ops.ADD, y, x)


_TABLES = {
    "square": rule_table(([ops.MULTIPLY], [multiply_by_two_is_add]), ([ops.ABS], [abs_of_square])),
    "subtract": rule_table(([ops.MULTIPLY], [multiply_by_two_is_add]), ([ops.SUBTRACT], [subtract_commutes])),
    "transpose": rule_table(([ops.MULTIPLY], [multiply_by_two_is_add]), ([ops.TRANSPOSE], [transpose_forgets_shape])),
    "crash": rule_table(([ops.OR], [or_of_same_is_and]), ([ops.XOR], [crashes_on_xor])),
    "hang": rule_table(([ops.OR], [or_of_same_is_and]), ([ops.XOR], [hangs_on_xor])),
    "endless": rule_table(([ops.ADD], [add_commutes])),
}


@register
@dataclass(frozen=True, slots=True)
class Broken(Pass):
    """Applies right rules and a wrong one, which `rules` chooses."""

    name: ClassVar[str] = "broken"
    idempotent: ClassVar[bool] = False
    rules: str = "square"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Runs the chosen table."""
        return run_rules(module, ctx, _TABLES[self.rules])


@register
@dataclass(frozen=True, slots=True)
class Unpermitted(Pass):
    """Changes every subtract of 3 without asking."""

    name: ClassVar[str] = "unpermitted"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Swaps operands behind the manager's back."""
        from xyla.hlo import rewriter

        found = [i for i in module.instructions() if i.op is ops.SUBTRACT and is_splat(i.operands[1], 3)]
        for inst in found:
            rewriter.set_operands(inst, reversed(inst.operands))
        return bool(found)
