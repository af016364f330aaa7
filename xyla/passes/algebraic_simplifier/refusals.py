"""What the floating-point mode forbids, for the rewrite log: rules that match, tried on a copy of the module."""

from __future__ import annotations

from collections.abc import Iterable

from xyla.hlo import rewriter
from xyla.hlo.module import Instruction, Module
from xyla.passmgr.context import Fp, PassContext
from xyla.passmgr.marks import mark_of
from xyla.passmgr.rules import Rewrite, Rule, RuleTable


def log_refusals(module: Module, ctx: PassContext, table: RuleTable, computations: Iterable[str]) -> None:
    """Logs where a rule of `table`, which all are marked with a mode beyond `ctx.fp`, would have matched.

    computations: the names of those to look at. The module is left alone: also names that rules use up stay free.
    """
    copy = rewriter.clone_module(module)
    trial = PassContext(Fp.FAST, pass_name=ctx.pass_name)
    for name in computations:
        for inst in copy.computations[name].post_order():
            for rule in table.get(inst.op, ()):
                _try(rule, inst, trial, ctx)


def _try(rule: Rule, inst: Instruction, trial: PassContext, ctx: PassContext) -> None:
    mark = mark_of(rule)
    assert mark is not None
    rw = Rewrite(trial, rule.__name__, inst)
    new = rule(inst, rw)
    if new is not None and new is not inst:
        ctx.refuse(rule.__name__, inst, new, mark.least, mark.what)
    rw.abandon()
