"""The work-list that applies rules."""

from __future__ import annotations

import xyla
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, rule_table, run_rules

TEXT = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  ROOT r = f32[2] add(x, y)
}
"""


def swap(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """x + y = y + x."""
    x, y = inst.operands
    return rw.binary(ops.ADD, y, x)


def test_rules_that_undo_one_another_end() -> None:
    module = xyla.load(TEXT)
    ctx = PassContext(pass_name="swapping")
    assert run_rules(module, ctx, rule_table(([ops.ADD], (swap,))))
    assert ctx.notes == ["swapping: too many rewrites in %e: the rules undo one another"]
    assert module.entry.root.op is ops.ADD
