"""A rule that builds something and then gives up has rewritten nothing: no number, no count, no line in the log."""

from __future__ import annotations

import io
import json

from xyla.formats.hlo_text import parse
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.passmgr.context import PassContext, RewriteControl
from xyla.passmgr.rules import Rewrite, rule_table, run_rules

TEXT = "HloModule m\nENTRY e {\n x = s32[] parameter(0)\n y = s32[] negate(x)\n ROOT z = s32[] abs(y)\n}"


def gives_up(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """Builds and finds that it does not match."""
    rw.unary(ops.ABS, inst.operands[0])
    return None


def without_sign(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """|-x| = |x|."""
    x = inst.operands[0]
    return rw.unary(ops.ABS, x.operands[0]) if x.op is ops.NEGATE else None


def test_only_what_happened_is_numbered() -> None:
    module = parse(TEXT)
    log = io.StringIO()
    context = PassContext(control=RewriteControl(log=log), pass_name="p")
    assert run_rules(module, context, rule_table(([ops.ABS], [gives_up, without_sign])))
    context.flush()
    entries = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(e["number"], e["rule"]) for e in entries] == [(1, "without_sign")]
    assert dict(context.control.counts) == {("p", "without_sign"): 1}
    assert len(module.entry.instructions) == 2


def test_a_limit_counts_only_what_happened() -> None:
    module = parse(TEXT)
    context = PassContext(control=RewriteControl(limit=1), pass_name="p")
    assert run_rules(module, context, rule_table(([ops.ABS], [gives_up, without_sign])))
    assert context.control.number == 1
    assert module.entry.root.operands[0].op is ops.PARAMETER
