"""`xyla validate`: evaluates a program after every step that changed it, and finds the first that changes the results.

Of the step to blame, each rewrite's old and new instruction are evaluated too, as far as they stand in the entry
computation: the first pair whose values differ is named.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xyla import interp
from xyla.clients.cli.passes import PassOptions, chosen_pipeline, load_passes, print_tables
from xyla.clients.cli.trial_worker import distance, mismatch, program_and_arguments
from xyla.clients.cli.trials import Job
from xyla.clients.compare import compare, reduction_length
from xyla.hlo import rewriter
from xyla.hlo.module import Computation, Module
from xyla.interp.arguments import bind_arguments
from xyla.passmgr.base import canonical
from xyla.passmgr.context import Fp, PassContext, RewriteControl
from xyla.passmgr.pipeline import Run, RunOptions
from xyla.passmgr.report import Table

Array = np.ndarray[Any, np.dtype[Any]]

OK, DIFFERS = 0, 1
_NAME = re.compile(r"(?:ROOT )?%?([^\s=]+) =")


@dataclass(frozen=True, slots=True)
class StepResult:
    """A changing step: how far its results are from the original's at most, and what is wrong if anything."""

    step: str
    rewrites: int
    instructions: int
    farthest: str
    problem: str | None


@dataclass(slots=True)
class Validator:
    """An observer that evaluates the module after each changing step."""

    original: Module
    args: list[Array]
    tolerance: float | None
    control: RewriteControl
    log: io.StringIO
    results: list[StepResult] = field(default_factory=list)
    culprit: str | None = None
    _expected: list[Array] = field(default_factory=list)
    _previous: Module | None = None
    _length: int = 1
    _number: int = 0

    def start(self) -> None:
        """Evaluates the original."""
        self._expected = interp.run(self.original, self.args)
        self._length = reduction_length(self.original)
        self._previous = rewriter.clone_module(self.original)

    def __call__(self, name: str, when: str, module: Module, changed: bool) -> None:
        """Sees a step begin or end; stops judging after the first that differs."""
        if when == "before" or not changed or self.culprit is not None:
            return
        got = interp.run(module, self.args)
        problem = mismatch(got, self._expected, self._length, self.tolerance)
        made = self.control.number - self._number
        self._number = self.control.number
        self.results.append(StepResult(name, made, module.num_instructions, _farthest(got, self._expected), problem))
        if problem is not None:
            self.culprit = self._blame(module)
        self.log.seek(0)
        self.log.truncate()
        self._previous = rewriter.clone_module(module)

    def _blame(self, module: Module) -> str:
        """The first rewrite of the step whose new instruction has another value than the old one."""
        assert self._previous is not None
        before, after = (entry_values(m, self.args) for m in (self._previous, module))
        entries = [json.loads(line) for line in self.log.getvalue().splitlines()]
        for entry in entries:
            old, new = before.get(_name(entry["old"])), after.get(_name(entry["new"] or ""))
            if old is None or new is None or old.shape != new.shape or old.dtype != new.dtype:
                continue
            if not compare(new, old, self._length, self.tolerance).ok:
                source = f"\n  source  {entry['source']}" if entry["source"] else ""
                return (
                    f"rewrite {entry['number']}, by rule {entry['rule']}, {distance(new, old)} apart\n"
                    f"  before  {entry['old']}\n  after   {entry['new']}{source}"
                )
        return f"none of its {len(entries)} rewrites shows it in the entry computation: xyla bisect finds the one"


def _name(text: str) -> str:
    found = _NAME.match(text)
    return found[1] if found else ""


def _farthest(got: Sequence[Array], want: Sequence[Array]) -> str:
    """The distance of the result that is farthest from what it should be."""
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(got, want, strict=True)]
    worst = max(pairs, key=lambda pair: compare(*pair).max_ulp, default=None)
    return "0" if worst is None else distance(*worst)


def entry_values(module: Module, args: Sequence[Any]) -> dict[str, Array]:
    """The value of every array instruction of the entry computation, by name."""
    (bound,) = bind_arguments(module, args)
    return _values(module.entry, bound)


def _values(comp: Computation, args: Sequence[Any]) -> dict[str, Array]:
    evaluator = interp.Evaluator()
    values: dict[Any, Any] = {}
    for inst in comp.post_order():
        if inst.op.name == "parameter":
            values[inst] = args[inst.attrs.number]
        else:
            values[inst] = evaluator.evaluate_instruction(inst, [values[o] for o in inst.operands])
    return {inst.name: np.asarray(value) for inst, value in values.items() if inst.shape.is_array}


def execute(job: Job) -> int:
    """Runs the pipeline and prints a row a changing step. Returns 1 when one changes the results."""
    from pathlib import Path

    load_passes([Path(p) for p in job.load])
    pipeline = chosen_pipeline(PassOptions(passes=job.passes, pipeline=job.pipeline))
    module, args = program_and_arguments(job.file, job.source, job.args, job.seed)
    log = io.StringIO()
    control = RewriteControl(log=log)
    validator = Validator(module, args, job.tolerance, control, log)
    validator.start()
    options = RunOptions(frozenset(map(canonical, job.disabled)), observers=[validator])
    run = Run(rewriter.clone_module(module), PassContext(Fp(job.fp), control), options)
    run.pipeline(pipeline)
    print_tables([_table(validator.results)], sys.stdout)
    if validator.culprit is None:
        sys.stdout.write(f"steps that changed the program: {len(validator.results)}; none changed its results\n")
        return OK
    bad = validator.results[-1]
    sys.stdout.write(f"step {bad.step} changes the results: {bad.problem}\n{validator.culprit}\n")
    return DIFFERS


def _table(results: Sequence[StepResult]) -> Table:
    rows = tuple(
        (r.step, str(r.rewrites), str(r.instructions), r.farthest, "differs" if r.problem else "ok") for r in results
    )
    return Table("results after each step that changed the program, against the original's", (
        "step", "rewrites", "instructions", "farthest", "verdict",
    ), rows)  # fmt: skip
