"""Whether a pass keeps what a program computes: evaluator(before) against evaluator(after).

    check_pass(TupleSimplifier(), module)                      # arguments from a seed, bit for bit
    check_pass(LogisticExpander(), module, [x], ulp=4)         # an expander that approximates

Also checked: the verifier's rules before and after, the changed bit against the fingerprint, and that an idempotent
pass does not change its own result. The module that is passed in is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xyla import interp
from xyla.clients.compare import max_ulp
from xyla.clients.random_args import random_args
from xyla.hlo import rewriter
from xyla.hlo.module import Module
from xyla.passmgr.base import Pass
from xyla.passmgr.context import Fp, PassContext, RewriteControl
from xyla.passmgr.pipeline import Pipeline, Run, RunOptions, Step

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass did: whether it changed anything, its result, and rewrites by (pass, rule)."""

    changed: bool
    module: Module
    counts: dict[tuple[str, str], int]
    notes: tuple[str, ...]


def apply_pass(
    pass_: Pass | Pipeline, module: Module, *, fp: Fp = Fp.DEFAULT, limit: int | None = None, checked: bool = True
) -> Outcome:
    """Runs a pass or a pipeline on a copy of `module`, in checked mode. Raises what the pass or a check raises."""
    copy = rewriter.clone_module(module)
    context = PassContext(fp, RewriteControl(limit))
    run = Run(copy, context, RunOptions(checked=checked))
    pipeline = pass_ if isinstance(pass_, Pipeline) else Pipeline("check", (Step(pass_.name, pass_),))
    changed = run.pipeline(pipeline)
    return Outcome(changed, copy, dict(context.control.counts), tuple(context.notes))


def check_pass(
    pass_: Pass | Pipeline,
    module: Module,
    args: Sequence[Any] | None = None,
    *,
    fp: Fp = Fp.DEFAULT,
    ulp: float = 0,
    seeds: Sequence[int] = (0,),
) -> Outcome:
    """Runs a pass on a copy of `module` and evaluates both. Raises AssertionError where the results differ.

    args: one array a parameter leaf; without them arguments are made from each of `seeds`. ulp: how many representable
    values apart floats may be (0: the same bits, any NaN equal to any other).
    """
    outcome = apply_pass(pass_, module, fp=fp)
    if not outcome.changed:
        return outcome
    trials = [list(args)] if args is not None else [random_args(module.entry_parameter_shapes(), s) for s in seeds]
    for trial in trials:
        want, got = interp.run(module, trial), interp.run(outcome.module, trial)
        problem = difference(got, want, ulp)
        assert problem is None, f"{_name(pass_)} changes what {module.name} computes: {problem}\n{outcome.module}"
    return outcome


def _name(pass_: Pass | Pipeline) -> str:
    return pass_.name


def difference(got: Sequence[Array], want: Sequence[Array], ulp: float = 0) -> str | None:
    """The first difference between two lists of results, in words; None when they agree (see `check_pass`)."""
    if len(got) != len(want):
        return f"{len(got)} results, expected {len(want)}"
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i} is {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}"
        wrong = _wrong_elements(np.asarray(a), np.asarray(b), ulp)
        if wrong.any():
            at = tuple(int(k) for k in np.argwhere(wrong)[0])
            count = int(np.count_nonzero(wrong))
            return f"result {i}{list(at)} is {a[at]!r}, expected {b[at]!r} ({count} of {wrong.size} differ)"
    return None


def _wrong_elements(got: Array, want: Array, ulp: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if got.dtype.kind == "c":
        part = np.float32 if got.dtype == np.complex64 else np.float64
        pairs = (np.ascontiguousarray(x).reshape(*x.shape, 1).view(part) for x in (got, want))
        one, two = pairs
        return np.asarray(_wrong_elements(one, two, ulp).any(axis=-1))
    same = np.asarray(got == want)
    if got.dtype.kind in "iub" or "int" in got.dtype.name:
        return np.asarray(~same)
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), want.astype(np.float64)
        nan = np.isnan(a) & np.isnan(b)
        wrong = np.asarray(~((same & (np.signbit(a) == np.signbit(b))) | nan))
    if not ulp:
        return wrong
    for at in np.argwhere(wrong):
        key = tuple(at)
        zeros = a[key] == 0 and b[key] == 0  # the sign of a zero is not rounding
        if not zeros and max_ulp(got[key].reshape(1), want[key].reshape(1)) <= ulp:
            wrong[key] = False
    return wrong
