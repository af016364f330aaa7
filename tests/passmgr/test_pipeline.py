from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tests.passmgr.passes import Breaks, Liar, Marked, Raises, Rename, Simple, module
from xyla.passes.dce import Dce
from xyla.passmgr.context import Fp, PassContext, RewriteControl
from xyla.passmgr.marks import all_marks, fp_allows, value_changing
from xyla.passmgr.pipeline import Before, Fixpoint, Pipeline, Run, RunOptions, Step, pipeline_of
from xyla.support.status import XylaError


def run(*steps: Any, control: RewriteControl | None = None, fp: Fp = Fp.DEFAULT, **options: Any) -> Run:
    """Runs steps (or passes) over the test module."""
    whole = Pipeline("test", steps) if isinstance(steps[0], (Step, Fixpoint)) else pipeline_of(steps)
    result = Run(module(), PassContext(fp, control or RewriteControl()), RunOptions(**options))
    result.pipeline(whole)
    return result


def ops_of(run: Run) -> list[str]:
    return [i.op.name for i in run.module.entry.instructions]


def test_a_step_settles_and_is_skipped_then() -> None:
    done = run(Fixpoint("again", (Step("simple", Simple()), Step("dce", Dce()))))
    assert ops_of(done) == ["parameter", "add"]
    first, rest = done.records[:2], done.records[2:]
    assert [(r.name, r.changed, r.skipped) for r in first] == [("simple", True, False), ("dce", False, False)]
    assert not any(r.changed for r in rest)
    counts = [(r.instructions_before, r.instructions_after) for r in done.records]
    assert counts[0][0] == 8
    assert counts[-1][1] == 2


def test_rewrites_are_numbered_logged_and_limited() -> None:
    log = io.StringIO()
    full = run(Simple(), control=RewriteControl(log=log))
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["number"] for line in lines] == [1, 2, 3]
    assert lines[0]["pass"] == "simple"
    assert lines[0]["rule"] == "multiply_by_one"
    assert "multiply(%x, %one)" in lines[0]["old"]
    assert "parameter(0)" in lines[0]["new"]
    assert lines[0]["source"] == "model.py:8"
    assert lines[2]["source"].startswith("sums.hlo:")
    assert full.ctx.control.counts == {("simple", "multiply_by_one"): 2, ("simple", "double_negation"): 1}
    for limit, muls in ((0, 2), (1, 1), (2, 0), (3, 0)):
        part = run(Simple(), control=RewriteControl(limit=limit))
        assert part.ctx.control.number == limit
        assert ops_of(part).count("multiply") == muls


def test_disabled_steps_and_passes_do_not_run() -> None:
    for name in ("first", "simple"):
        done = run(Step("first", Simple()), Step("second", Dce()), disabled=frozenset([name]))
        assert [r.name for r in done.records] == ["second"]


def test_stop_after_is_the_last_step() -> None:
    done = run(Step("first", Simple()), Step("second", Dce()), stop_after="first")
    assert [r.name for r in done.records] == ["first"]


def test_names_are_unique_and_orderings_hold() -> None:
    with pytest.raises(ValueError, match="step names repeat: a"):
        Pipeline("p", (Step("a", Simple()), Step("a", Dce())))
    rule = Before("b", "a", "because a needs b")
    with pytest.raises(ValueError, match="b must come before a: because a needs b"):
        Pipeline("p", (Step("a", Simple()), Fixpoint("f", (Step("b", Dce()),))), (rule,))
    assert [s.name for s in pipeline_of([Simple(), Dce(), Simple()]).flat()] == ["simple", "dce", "simple.2"]


def test_passes_that_undo_each_other_are_named() -> None:
    steps = (Step("there", Rename()), Step("dce", Dce()), Step("back", Rename("subtract", "add")))
    with pytest.raises(XylaError, match="loop does not settle in 4 rounds: there, back undo one another"):
        run(Fixpoint("loop", steps, limit=4), checked=True)
    # Outside checked mode the program, right after every round, is kept.
    assert "loop does not settle in 4 rounds" in run(Fixpoint("loop", steps, limit=4)).ctx.notes[0]
    # A rewrite limit ends such a loop quietly: that is what lets it be bisected.
    done = run(Fixpoint("loop", steps, limit=4), control=RewriteControl(limit=3))
    assert done.ctx.control.number == 3


@pytest.mark.parametrize(
    ("culprit", "checked", "message"),
    [
        (Breaks(), False, "step second broke the module: %r = add: operand 1"),
        (Raises(), False, "step second failed: KeyError: 'absent'"),
        (Liar(says=False, does=True), True, "step second says changed=False, but the module did"),
        (Liar(says=True, does=False), True, "step second says changed=True, but the module did not"),
        (Liar(says=True, does=True), True, "step second still changes its own result"),
    ],
)
def test_the_culprit_is_named(culprit: Any, checked: bool, message: str) -> None:
    with pytest.raises(XylaError) as caught:
        run(Step("first", Dce()), Step("second", culprit), checked=checked)
    assert message in caught.value.message


def test_a_scheduled_module_stays_in_order() -> None:
    text = module()
    text.config.is_scheduled = True
    Run(text, PassContext(Fp.FAST)).pipeline(pipeline_of([Marked(), Dce()]))
    order = list(text.entry.instructions)
    assert all(order.index(o) < order.index(i) for i in order for o in i.operands)


@pytest.mark.parametrize(("fp", "rules"), [(Fp.STRICT, []), (Fp.DEFAULT, ["rounds"]), (Fp.FAST, ["add_is_maximum"])])
def test_marked_rules_need_their_mode(fp: Fp, rules: list[str]) -> None:
    done = run(Marked(), fp=fp, control=RewriteControl(limit=1))
    assert [rule for _, rule in done.ctx.control.counts] == rules


def test_marks_are_listed() -> None:
    found = {m.rule: (m.least, m.what) for m in all_marks("tests.passmgr.passes")}
    assert found == {"rounds": (Fp.DEFAULT, "rounds twice"), "add_is_maximum": (Fp.FAST, "loses NaN")}
    with pytest.raises(ValueError, match="needs Fp"):
        value_changing(Fp.STRICT, "nothing")
    assert fp_allows(Fp.FAST, Fp.DEFAULT)
    assert not fp_allows(Fp.STRICT, Fp.DEFAULT)
