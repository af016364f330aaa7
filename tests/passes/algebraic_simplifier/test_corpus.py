"""XLA's own modules for this pass: it changes those that XLA's tests expect to change, and keeps their values.

The labels are guesses from the tests around the modules: `corpus_labels` says which do not count, and why.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xyla import interp
from xyla.clients.random_args import random_args
from xyla.formats.detect import load_file
from xyla.hlo.module import Module
from xyla.passes.algebraic_simplifier import AlgebraicSimplifier
from xyla.passmgr.context import Fp
from xyla.testing import corpus_labels
from xyla.testing.data import HloCase, hlo_modules
from xyla.testing.pass_check import apply_pass

ELEMENTS = 100_000


def _name(path: Path) -> str:
    return corpus_labels.test_name(path.stem)


def _labelled() -> list[HloCase]:
    """The labelled modules of the pass's own test, exceptions included; the GPU compiler's variant has its own."""
    return [
        c
        for c in hlo_modules()
        if c.loadable and corpus_labels.named(c, "algsimp") and "gpu" not in str(c.path.parent.name)
    ]


def _agrees(case: HloCase) -> bool:
    name = _name(case.path)
    module = load_file(case.path.read_bytes(), case.path.name)
    assert isinstance(module, Module)
    pass_ = AlgebraicSimplifier(**corpus_labels.run_options("algsimp", case.path.stem))
    outcome = apply_pass(pass_, module, checked=False)
    if outcome.changed and "replica_groups" not in case.path.read_text():
        _same_values(name, module, outcome.module)
    return outcome.changed is (case.expect == "changed")


def _same_values(name: str, before: Module, after: Module) -> None:
    if max(i.shape.num_elements for i in before.instructions() if i.shape.is_array) > ELEMENTS:
        return
    args = random_args(before.entry_parameter_shapes(), 0)
    for want, got in zip(interp.run(before, args), interp.run(after, args), strict=True):
        exact = want.dtype.kind in "iub"
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        a, b = (want, got) if exact else (want.astype(wide), got.astype(wide))
        np.testing.assert_allclose(b, a, rtol=0 if exact else 1e-4, atol=0 if exact else 1e-5, err_msg=name)


def test_agreement_with_the_labels(shared: Path) -> None:
    """At least 95% of the labelled modules change, or do not, as XLA's tests expect."""
    cases = [c for c in _labelled() if corpus_labels.expected(c, "algsimp") is not None]
    assert len(cases) > 160
    wrong = [_name(c.path) for c in cases if not _agrees(c)]
    assert len(wrong) <= 0.05 * len(cases), wrong


@pytest.mark.parametrize("name", sorted(corpus_labels.FAST_ONLY["algsimp"]))
def test_unsound_rewrites_need_fast_mode(name: str, shared: Path) -> None:
    """What default mode refuses, fast mode does."""
    (case,) = (c for c in _labelled() if _name(c.path) == name)
    module = load_file(case.path.read_bytes(), name)
    assert isinstance(module, Module)
    assert not apply_pass(AlgebraicSimplifier(), module, checked=False).changed
    assert apply_pass(AlgebraicSimplifier(), module, fp=Fp.FAST, checked=False).changed
