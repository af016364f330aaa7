"""Each rewrite by itself: the value it replaced against the value it put there, on the same arguments.

A whole program may blow one rounding up into anything; the two sides of a single rewrite may not differ by more than
its floating-point mode allows. That makes random programs usable as a test of the modes' promises.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xyla import interp
from xyla.hlo import rewriter
from xyla.hlo.module import Module
from xyla.passmgr.base import Pass
from xyla.passmgr.context import Fp, PassContext, RewriteControl

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One rewrite: its rule, the module before and after it, and the names of the values it swapped."""

    rule: str
    before: Module
    old: str
    after: Module
    new: str


def rewrites(pass_: Pass, module: Module, fp: Fp) -> list[Rewritten]:
    """Every rewrite that a pass makes on a copy of `module`, each in the entry computation."""
    copy = rewriter.clone_module(module)
    stages: dict[int, Module] = {}  # by number: one that is taken back gives its number to the next
    log = io.StringIO()

    def watch(number: int, *_: object) -> None:
        stages[number] = rewriter.clone_module(copy)

    control = RewriteControl(log=log, watch=watch)
    context = PassContext(fp, control, pass_.name)
    pass_.run(copy, context)
    context.flush()
    entries = [e for e in map(json.loads, log.getvalue().splitlines()) if "refused" not in e]
    stages[len(entries) + 1] = copy
    return [
        Rewritten(e["rule"], stages[n], _name(e["old"]), stages[n + 1], _name(e["new"]))
        for n, e in enumerate(entries, 1)
    ]


def _name(text: str) -> str:
    """`x` of the line `ROOT %x = ...`."""
    return text.removeprefix("ROOT ").split(" = ")[0].lstrip("%")


def broken_promise(step: Rewritten, args: Sequence[Array], fp: Fp) -> str | None:
    """How the two sides of a rewrite differ beyond what `fp` allows; None when they do not."""
    old, new = _value(step.before, step.old, args), _value(step.after, step.new, args)
    wrong = forbidden(new, old, fp)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{step.rule}: {old[at]!r} became {new[at]!r} at {list(at)} of\n{step.before}\n-- and --\n{step.after}"


def _value(module: Module, name: str, args: Sequence[Array]) -> Array:
    copy = rewriter.clone_module(module)
    inst = copy.entry.find(name)
    assert inst is not None
    copy.entry.set_root(inst)
    return np.asarray(interp.run(copy, args)[0])


def forbidden(got: Array, want: Array, fp: Fp) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where `got` may not stand for `want`: any bit in strict mode; else NaN, infinities and the signs of zeros."""
    if got.dtype.kind in "iub":
        return np.asarray(got != want)
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), want.astype(np.float64)
    nans = np.isnan(a) & np.isnan(b)
    if fp is Fp.STRICT:
        return np.asarray(~(((a == b) & (np.signbit(a) == np.signbit(b))) | nans))
    other = (np.isnan(a) != np.isnan(b)) | (np.isinf(a) != np.isinf(b))
    infinite = np.isinf(a) & np.isinf(b) & (a != b)
    zeros = (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    return np.asarray(other | infinite | zeros)
