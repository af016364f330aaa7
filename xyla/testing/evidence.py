"""What became of the rewrites that real compilers got wrong: which rules fired on a program, and which held back.

The table of rules in question, beside the regression tests, has a section a case of the bug collection:

    [log_exp_overflow]
    wrong = "log(exp x) became x, also where exp x overflows"
    rules = { "algsimp/log_exp" = "refused" }

A rule is `pass/rule`, or a pass alone. What is said of each:

- `sound`: it fired, and the program is still right.
- `refused`: the rewrite log has it as forbidden by the floating-point mode; or it was asked, and its conditions do not
  hold; or the pass ran and changed nothing. A pass outside the pipeline is run by itself.
- `wrong`: it fired, and the program is wrong.
- `not met`: nothing in the program is what the rule looks at.
"""

from __future__ import annotations

import io
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xyla import passes
from xyla.hlo import rewriter
from xyla.hlo.module import Module
from xyla.passes.algebraic_simplifier import AlgebraicSimplifier
from xyla.passes.algebraic_simplifier.simplifier import rules as rules_of
from xyla.passmgr.context import Fp, PassContext, RewriteControl
from xyla.passmgr.pipeline import Pipeline, Run, RunOptions
from xyla.passmgr.rules import Rewrite
from xyla.testing.bugs import wrong_after
from xyla.testing.data import REPOSITORY, Bug
from xyla.testing.pass_check import apply_pass

TABLE = REPOSITORY / "tests" / "regressions" / "rules_in_question.toml"


@dataclass(frozen=True, slots=True)
class Question:
    """What a compiler did wrong, and the rules of ours that do the like, each with the outcome that a test expects."""

    wrong: str
    rules: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """One rule's outcome ("sound", "refused", "wrong", "not met") and how that is known."""

    rule: str
    outcome: str
    how: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The rewrites of a whole pipeline by (step, rule), the module it left, and the rules in question."""

    fired: Mapping[tuple[str, str], int]
    answers: tuple[Answer, ...]


def questions(path: Path = TABLE) -> dict[str, Question]:
    """The table of rules in question, by case."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Question(row["wrong"], row.get("rules", {})) for name, row in table.items()}


def evidence(bug: Bug, module: Module, pipeline: Pipeline, question: Question) -> Evidence:
    """Runs `pipeline` on a copy of `module` with the rewrite log on and answers for each rule in question."""
    trail = _Trail(bug, module, pipeline)
    return Evidence(dict(trail.context.control.counts), tuple(trail.answer(rule) for rule in question.rules))


class _Trail:
    """A logged run of a pipeline over one program."""

    def __init__(self, bug: Bug, module: Module, pipeline: Pipeline) -> None:
        self.bug, self.module = bug, module
        self.names = {step.name: step.run.name for step in pipeline.flat()}
        self.simplifier = next(s.run for s in pipeline.flat() if isinstance(s.run, AlgebraicSimplifier))
        # What each run of the simplifier saw.
        self.seen: list[Module] = []
        log = io.StringIO()
        self.context = PassContext(Fp.DEFAULT, RewriteControl(log=log))
        self.after = rewriter.clone_module(module)
        Run(self.after, self.context, RunOptions(observers=[self._observe])).pipeline(pipeline)
        entries: list[dict[str, Any]] = [json.loads(line) for line in log.getvalue().splitlines()]
        self.refused = {e["rule"]: e for e in entries if "refused" in e}
        self.complaint = wrong_after(bug, self.after)

    def _observe(self, step: str, when: str, module: Module, changed: bool) -> None:
        if when == "before" and self.names[step] == self.simplifier.name:
            self.seen.append(rewriter.clone_module(module))

    def answer(self, name: str) -> Answer:
        """What became of one rule."""
        owner, _, rule = name.partition("/")
        fired = [(step, r) for step, r in self.context.control.counts if self.names[step] == owner]
        fired = [(step, r) for step, r in fired if not rule or r == rule]
        if fired:
            count = sum(self.context.control.counts[key] for key in fired)
            return Answer(name, "wrong" if self.complaint else "sound", self.complaint or f"fired {count} times")
        if rule in self.refused:
            entry = self.refused[rule]
            return Answer(name, "refused", f"needs fp={entry['needs']}: {entry['refused']}")
        if rule:
            asked = _asked(rule, self.seen, self.simplifier)
            how = f"asked at {asked}: its conditions do not hold" if asked else "no instruction of its op"
            return Answer(name, "refused" if asked else "not met", how)
        if owner in self.names.values():
            return Answer(name, "refused", "the pass ran and changed nothing")
        return self._alone(owner)

    def _alone(self, owner: str) -> Answer:
        outcome = apply_pass(passes.find(owner)(), self.module)
        if not outcome.changed:
            return Answer(owner, "refused", "by itself it changes nothing")
        complaint = wrong_after(self.bug, outcome.module)
        return Answer(owner, "wrong" if complaint else "sound", complaint or "fired by itself")


def _asked(name: str, modules: list[Module], simplifier: AlgebraicSimplifier) -> str:
    """The instruction at which a simplifier's rule was asked and said no; "" where it never was."""
    found = ""
    table = rules_of(simplifier, Fp.FAST)
    for module in modules:
        for inst in [i for c in module.computations.values() for i in c.post_order()]:
            for rule in table.get(inst.op, ()):
                if rule.__name__ != name:
                    continue
                trial = Rewrite(PassContext(Fp.FAST), name, inst)
                if rule(inst, trial) is None:
                    found = f"%{inst.name}"
                trial.abandon()
    return found
