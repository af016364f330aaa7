"""What a trial process does: the program once, and then the pipeline on copies of it, each judged by the evaluator."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from xyla import interp
from xyla.clients.cli import inputs
from xyla.clients.cli.passes import PassOptions, chosen_pipeline, load_passes
from xyla.clients.cli.trials import ERROR, GOOD, ILL_FORMED, WRONG, Job, Outcome, Progress, Request
from xyla.clients.compare import compare, reduction_length
from xyla.clients.random_args import random_args
from xyla.hlo import rewriter
from xyla.hlo.module import Instruction, Module
from xyla.hlo.verifier import verify
from xyla.passmgr.base import canonical
from xyla.passmgr.context import Fp, PassContext, RewriteControl
from xyla.passmgr.pipeline import Run, RunOptions
from xyla.support.status import XylaError

Array = np.ndarray[Any, np.dtype[Any]]


def program_and_arguments(file: str, source: str | None, args: str, seed: int) -> tuple[Module, list[Array]]:
    """The verified module of a file, and arguments: of an .npz file, or from a seed when `args` is ""."""
    program = inputs.read_program(file, source)
    given = inputs.numbered(inputs.read_arrays(Path(args)), "arg", "in") if args else []
    module = inputs.as_module(program, given)
    verify(module)
    shapes = module.entry_parameter_shapes()
    return module, inputs.bind_types(given, shapes, "argument") if args else random_args(shapes, seed)


def mismatch(got: Sequence[Array], want: Sequence[Array], length: int, tolerance: float | None) -> str | None:
    """The first result that is out of tolerance, in words; None when all are within."""
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        result = compare(np.asarray(a), np.asarray(b), length, tolerance)
        if result.ok:
            continue
        if result.problem:
            return f"result {i} {result.problem}"
        with np.errstate(all="ignore"):
            apart = np.asarray(a != b) & ~(np.asarray(a != a) & np.asarray(b != b))
        at = tuple(int(k) for k in np.argwhere(apart)[0]) if a.ndim else ()
        return (
            f"result {i}{list(at) if at else ''} is {a[at]}, expected {b[at]}; "
            f"{result.mismatches} of {a.size} differ, by at most {distance(a, b)}"
        )
    return None


def distance(got: Array, want: Array) -> str:
    """How far two arrays of one type are apart at most, in words: ULP for floats, else the difference."""
    result = compare(got, want)
    exact = want.dtype.kind in "iub" or "int" in want.dtype.name
    return f"{result.max_abs:.6g}" if exact else f"{result.max_ulp:.3g} ULP"


class _Enough(Exception):
    """The trial has run as far as it was asked to."""


class Worker:
    """One job, loaded: its program, arguments, right results, and pipeline."""

    def __init__(self, job: Job, progress: Progress) -> None:
        """Raises XylaError when the program cannot be read or evaluated, or the pipeline is unknown."""
        self.job = job
        self.progress = progress
        load_passes([Path(p) for p in job.load])
        self.pipeline = chosen_pipeline(PassOptions(passes=job.passes, pipeline=job.pipeline))
        self.module, self.args = program_and_arguments(job.file, job.source, job.args, job.seed)
        self.length = reduction_length(self.module)
        self.expected = interp.run(self.module, self.args)

    def trial(self, request: Request) -> Outcome:
        """Runs the pipeline on a copy as far as asked, and judges the result. Never raises."""
        copy = rewriter.clone_module(self.module)
        log = io.StringIO() if request.log else None
        control = RewriteControl(request.limit, log, self._watch, budgeted=False)
        run = Run(copy, PassContext(Fp(self.job.fp), control), RunOptions(frozenset(map(canonical, self.job.disabled))))
        run.options.observers = [lambda name, when, _, __: self._observe(run, request, name, when)]
        self._steps = 0
        try:
            with suppress(_Enough):
                run.pipeline(self.pipeline)
            kind, message = self._judged(copy)
        except XylaError as error:
            kind = ILL_FORMED if "broke the module" in error.message else ERROR
            message = error.render()
        run.ctx.flush()
        if request.dump:
            Path(request.dump).write_text(_text(copy), encoding="utf-8")
        number, steps, step = self.progress.read()
        out = Outcome(kind, message, number, steps, step)
        if log is not None:
            lines = log.getvalue().splitlines()
            out.last = json.loads(lines[-1]) if lines else None
            out.counts = [(s, rule, n) for (s, rule), n in sorted(control.counts.items(), key=lambda c: -c[1])]
        return out

    def _judged(self, module: Module) -> tuple[str, str]:
        if self.job.engine == "reference":
            got = interp.run(module, self.args)
        else:
            from xyla.compiler.driver import compile_module

            got = compile_module(module, passes="none")(*self.args)
        problem = mismatch(got, self.expected, self.length, self.job.tolerance)
        return (GOOD, "") if problem is None else (WRONG, problem)

    def _watch(self, number: int, pass_name: str, rule: str, inst: Instruction) -> None:
        self.progress.set_number(number)

    def _observe(self, run: Run, request: Request, name: str, when: str) -> None:
        if when == "before":
            if request.steps is not None and self._steps >= request.steps:
                raise _Enough
            self._steps += 1
            self.progress.set_step(self._steps, name)
        elif request.early and run.ctx.control.stopped:
            raise _Enough


def _text(module: Module) -> str:
    try:
        return module.to_string()
    except XylaError as error:  # a broken module may not print: what is wrong with it is all there is to show
        return f"// {error.message}\n"
