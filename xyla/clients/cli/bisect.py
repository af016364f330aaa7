"""`xyla bisect`: the one rewrite after which a program goes wrong.

The pipeline runs on copies of the program, each time with another limit on the number of rewrites; a binary search
finds the first limit that fails. Failures: a result that differs from the evaluator's on the original, a module
that does not verify, an error, a crash, a hang. Each trial runs in a process that may be lost.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xyla.clients.cli.trials import CRASH, ERROR, GOOD, HANG, ILL_FORMED, WRONG, Job, Outcome, Request, Trials
from xyla.support.status import invalid

Array = np.ndarray[Any, np.dtype[Any]]

FOUND, NOTHING = 1, 0
# A trial past this many times the slowest good one (and some seconds) is taken to hang, once a hang was seen.
PATIENCE, LEAST_SECONDS = 8.0, 3.0
# Of rewriting without end, so many rewrites show which rules take part.
ENDLESS_SAMPLE = 2000


@dataclass(frozen=True, slots=True)
class Options:
    """The command's options; `out` is the folder for the modules and arguments."""

    job: Job
    timeout: float
    out: Path


@dataclass(frozen=True, slots=True)
class Finding:
    """What went wrong, and where.

    first_bad: the least rewrite limit that fails; None when the failure does not depend on rewrites. culprit: the
    number of the rewrite to blame, 0 when none was made before the failure. endless: of a rewriting without end,
    (step, rule, count) over a sample of `culprit` rewrites.
    """

    failure: Outcome
    total: int
    first_bad: int | None = None
    culprit: int = 0
    step: str = ""
    endless: tuple[tuple[str, str, int], ...] = ()


def execute(options: Options) -> int:
    """Searches and reports. Returns 1 when a failure was found, 0 when the pipeline is right; raises XylaError."""
    start = time.perf_counter()
    if options.job.file == "-":
        raise invalid("every trial reads the program again: give a file, not standard input")
    with Trials(options.job, options.timeout) as trials:
        failure = trials.run(Request())
        if failure.kind == GOOD:
            _say(f"no difference: {failure.number} rewrites in {failure.steps} steps keep the results")
            return NOTHING
        _say(f"{failure.kind}: {failure.message}")
        finding = search(trials, failure)
        _report(options, trials, finding)
        _say(f"{trials.count} trials in {time.perf_counter() - start:.1f} s")
    return FOUND


def search(trials: Trials, failure: Outcome) -> Finding:
    """Finds what to blame for `failure`, the outcome of the whole pipeline."""
    kind = failure.kind
    early = kind in (WRONG, ILL_FORMED)
    if failure.busy:
        return _endless(trials, failure)
    none = trials.run(Request(limit=0))
    if none.kind == kind:
        return _by_steps(trials, failure)
    if kind == HANG:
        trials.timeout = min(trials.timeout, max(LEAST_SECONDS, PATIENCE * none.seconds))
    # What fails while it looks for its next rewrite does so only when that rewrite would be allowed.
    high = failure.number + (not early)
    whole = trials.run(Request(limit=high, early=early))
    if whole.kind != kind:
        return _by_steps(trials, failure) if early else _endless(trials, failure)
    low, outcome = 0, whole
    while high - low > 1:
        middle, got = _probe(trials, low, high, early, kind)
        if got.kind == kind:
            high, outcome = middle, got
        else:
            low = middle
    culprit = high if early else min(outcome.number, high)
    return Finding(dataclasses.replace(outcome), failure.number, high, culprit, outcome.step)


def _probe(trials: Trials, low: int, high: int, early: bool, kind: str) -> tuple[int, Outcome]:
    """A trial between the limits that is good or fails like the whole: a pass stopped half-way may fail otherwise."""
    middle = (low + high) // 2
    near = sorted(range(max(low + 1, middle - 4), min(high, middle + 5)), key=lambda n: (abs(n - middle), n))
    for limit in near:
        got = trials.run(Request(limit=limit, early=early))
        if got.kind in (GOOD, kind):
            return limit, got
    return middle, got


def _by_steps(trials: Trials, failure: Outcome) -> Finding:
    """The step to blame when no rewrite is: the first after which the failure shows."""
    if failure.kind in (CRASH, HANG, ERROR):
        return Finding(failure, failure.number, None, failure.number, failure.step)
    low, high, outcome = 0, failure.steps, failure
    while high - low > 1:
        middle = (low + high) // 2
        got = trials.run(Request(steps=middle))
        if got.kind == failure.kind:
            high, outcome = middle, got
        else:
            low = middle
    return Finding(outcome, failure.number, None, 0, outcome.step)


def _endless(trials: Trials, failure: Outcome) -> Finding:
    """The rules of a rewriting that stops only because a limit stops it."""
    most = min(failure.number, ENDLESS_SAMPLE)
    half, whole = (trials.run(Request(limit=n, log=True)) for n in (most // 2, most))
    before = {(step, rule): n for step, rule, n in half.counts}
    growing = [(s, r, n - before.get((s, r), 0)) for s, r, n in whole.counts if n > before.get((s, r), 0)]
    growing.sort(key=lambda entry: -entry[2])
    return Finding(failure, failure.number, None, most - most // 2, failure.step, tuple(growing))


# -- the report ------------------------------------------------------------------------------------------------------


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _report(options: Options, trials: Trials, finding: Finding) -> None:
    failure = finding.failure
    if finding.endless:
        _say(f"step {finding.step} goes on rewriting: {finding.total} rewrites so far. Rules still at work:")
        for step, rule, count in finding.endless[:10]:
            _say(f"  {rule} in step {step}: {count} of {finding.culprit} rewrites")
        return
    if finding.first_bad is None and failure.kind in (WRONG, ILL_FORMED):
        _say(
            f"step {finding.step} is to blame, but not by a numbered rewrite: it changes the module without permission"
        )
        return
    if finding.culprit == 0:
        _say(f"step {finding.step} fails before it, or any step before it, has changed anything")
        _save(options, trials, {"after": Request(limit=0, early=True)} if failure.kind == ERROR else {})
        return
    last = trials.run(Request(limit=finding.culprit, early=True, log=True)).last or {}
    _say(f"rewrite {finding.culprit} of {finding.total}, by rule {last.get('rule')} in step {last.get('pass')}")
    _say(f"  before  {last.get('old')}")
    _say(f"  after   {last.get('new') or '(nothing recorded)'}")
    if last.get("source"):
        _say(f"  source  {last['source']}")
    if failure.kind not in (WRONG, ILL_FORMED):
        _say(f"after it, step {finding.step} ends in {'an error' if failure.kind == ERROR else 'a ' + failure.kind}")
    requests = {
        "before": Request(limit=finding.culprit - 1, early=True),
        "after": Request(limit=finding.culprit, early=True),
    }
    if finding.culprit == 1:
        requests["before"] = Request(steps=0)
    _save(options, trials, requests)
    _say(f"reproduce: {_command(options.job, finding)}")


def _save(options: Options, trials: Trials, requests: dict[str, Request]) -> None:
    """Writes before.hlo, after.hlo and args.npz (with the right results)."""
    options.out.mkdir(parents=True, exist_ok=True)
    for name, request in requests.items():
        trials.run(dataclasses.replace(request, dump=str((options.out / f"{name}.hlo").resolve())))
    names = [f"{name}.hlo" for name in requests]
    archive = _arguments(options.job)
    with (options.out / "args.npz").open("wb") as stream:
        np.savez(stream, allow_pickle=False, **archive)
    _say(f"written to {options.out}: {', '.join([*names, 'args.npz'])}")


def _arguments(job: Job) -> dict[str, Array]:
    from xyla import interp
    from xyla.clients.cli.trial_worker import program_and_arguments

    module, args = program_and_arguments(job.file, job.source, job.args, job.seed)
    expected = interp.run(module, args)
    return {f"arg{i}": a for i, a in enumerate(args)} | {f"expected{i}": e for i, e in enumerate(expected)}


def _command(job: Job, finding: Finding) -> str:
    words = ["xyla", "opt", job.file]
    words += [f"--passes={job.passes}"] if job.passes is not None else [f"--pipeline={job.pipeline}"]
    words += [f"--load-pass={p}" for p in job.load] + [f"--disable-pass={p}" for p in job.disabled]
    words += [] if job.fp == "default" else [f"--fp={job.fp}"]
    return shlex.join([*words, f"--rewrite-limit={finding.first_bad}"])
