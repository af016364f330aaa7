"""Removal of optimization barriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, rule_table, run_rules


@register
@dataclass(frozen=True, slots=True)
class OptimizationBarrierExpander(Pass):
    """Replaces barriers by what they hold back, once nothing is left that they hold it back from.

    b = opt-barrier(x)      ==>      x
    """

    name: ClassVar[str] = "optimization-barrier-expander"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size."""
        return run_rules(module, ctx, rule_table(([ops.OPT_BARRIER], [barrier])))


def barrier(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """opt-barrier(x) -> x."""
    return inst.operands[0]
