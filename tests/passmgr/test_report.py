from __future__ import annotations

import json

from tests.passmgr.passes import Simple, module
from xyla.passes.dce import Dce
from xyla.passmgr.context import PassContext
from xyla.passmgr.pipeline import Fixpoint, Pipeline, Run, Step
from xyla.passmgr.report import chrome_trace, stats_tables, time_table, totals


def finished() -> Run:
    """A run of a fixpoint over the test module."""
    run = Run(module(), PassContext())
    run.pipeline(Pipeline("test", (Fixpoint("loop", (Step("simple", Simple()), Step("dce", Dce()))),)))
    return run


def test_totals_join_the_executions_of_a_step() -> None:
    rows = {t.name: t for t in totals(finished().records)}
    assert list(rows) == ["simple", "dce"]
    assert rows["simple"].changed == 1
    assert rows["simple"].runs + rows["simple"].skipped == 2
    assert rows["simple"].delta + rows["dce"].delta == 2 - 8


def test_tables() -> None:
    run = finished()
    times = time_table(run.records)
    assert {row[0] for row in times.rows} == {"simple", "dce", "all"}
    assert times.rows[-1][0] == "all"
    steps, rules = stats_tables(run.records, run.ctx.control.counts)
    assert steps.title == "instructions: 8 before, 2 after"
    assert ("simple", "multiply_by_one", "2") in rules.rows
    assert rules.title == f"rewrites: {run.ctx.control.number}"


def test_the_trace_is_chromes() -> None:
    run = finished()
    events = json.loads(chrome_trace(run.records, "test"))["traceEvents"]
    assert events[0]["name"] == "test"
    assert [e["name"] for e in events[1:3]] == ["simple", "dce"]
    for event in events:
        assert event["ph"] == "X"
        assert 0 <= event["ts"] <= event["ts"] + event["dur"] <= events[0]["dur"] + 1
    assert events[1]["args"]["changed"] is True
