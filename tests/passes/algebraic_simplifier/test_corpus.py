"""XLA's own modules for this pass: it changes those that XLA's tests expect to change, and keeps their values.

The labels are guesses from the tests around the modules. Left out of the count are those where XLA's rule changes
values that default mode must keep (`UNSOUND`), and modules whose test sets an option that its text does not show.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from xyla import interp
from xyla.clients.random_args import random_args
from xyla.formats.detect import load_file
from xyla.hlo.module import Module
from xyla.passes.algebraic_simplifier import AlgebraicSimplifier
from xyla.passmgr.context import Fp
from xyla.testing.data import HloCase, hlo_modules
from xyla.testing.pass_check import apply_pass

# XLA's rewrite, and what it loses. All of them but the complex root fire with --fp=fast.
UNSOUND = {
    "AddSubSameCommutative": "(y - x) + x is not y where y - x rounds or overflows",
    "DivideByBroadcast": "1/s overflows for a subnormal s",
    "DotPadLeftReorder": "zeros that meet infinities make NaN",
    "DotPadRightReorder": "zeros that meet infinities make NaN",
    "FactorFpAdditionWithBroadcast": "x + y overflows where x/8 + y/8 does not",
    "MultiplyBroadcastReassoc": "the product of the scalars overflows where the whole does not",
    "MultiplyOfConvertedPred": "x * 0 is NaN for infinite x, and -0 for negative x",
    "ReorderConvAddMul": "the scaled kernel overflows where the scaled sum does not",
    "ReplaceSubtractOfEqualOperandsWithBroadcastZero": "x - x is NaN for infinite x",
    "ReplaceSubtractOfEqualOperandsWithZero": "x - x is NaN for infinite x",
    "ScalarMultiplyReduction": "an option; the scalar moves past a sum, which overflows elsewhere",
    "ScatterAddCombined": "(x + a) + b is not x + (a + b)",
    "ScatterAddCombinedSwapped": "(x + a) + b is not x + (a + b)",
    "SquaredComplexSqrtIsFloat": "the square root of z*z is z or -z, not |z|",
    "SubSubSame": "x - (x - y) is not y where x - y rounds or overflows",
}
# The test sets an option that forbids or demands the change; the text alone cannot tell.
OPTIONS = {"ConcatIntoScalarDot", "FoldTransposeIntoScatter"}
# Their tests run the pass with layouts.
LAYOUTS = re.compile(
    "LayoutSensitive|LayoutConstraint|CopyBitcast|BitcastCopyChain|CopyReshape|BitcastBroadcastDiff|NonPackedDim"
    "|WiderBitwidth|NarrowerBitwidth|RootCopy|LayoutCheck|BitcastElementwise"
)
ELEMENTS = 100_000


def _name(path: Path) -> str:
    return path.stem.split("__", 1)[1]


def _labelled() -> list[HloCase]:
    return [
        c
        for c in hlo_modules()
        if c.loadable
        and c.expect in ("changed", "not_changed")
        and c.path.name.startswith("algebraic_simplifier_test__")
        and "gpu" not in str(c.path.parent.name)
        # This module's types contradict one another.
        and _name(c.path) != "RespectHostOffloadingcopies"
    ]


def _agrees(case: HloCase) -> bool:
    name = _name(case.path)
    module = load_file(case.path.read_bytes(), case.path.name)
    assert isinstance(module, Module)
    pass_ = AlgebraicSimplifier(layout_sensitive=bool(LAYOUTS.search(name)))
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
    cases = [c for c in _labelled() if _name(c.path) not in UNSOUND and _name(c.path) not in OPTIONS]
    assert len(cases) > 160
    wrong = [_name(c.path) for c in cases if not _agrees(c)]
    assert len(wrong) <= 0.05 * len(cases), wrong


@pytest.mark.parametrize("name", sorted(set(UNSOUND) - {"ScalarMultiplyReduction", "SquaredComplexSqrtIsFloat"}))
def test_unsound_rewrites_need_fast_mode(name: str, shared: Path) -> None:
    """What default mode refuses, fast mode does."""
    (case,) = (c for c in _labelled() if _name(c.path) == name)
    module = load_file(case.path.read_bytes(), name)
    assert isinstance(module, Module)
    assert not apply_pass(AlgebraicSimplifier(), module, checked=False).changed
    assert apply_pass(AlgebraicSimplifier(), module, fp=Fp.FAST, checked=False).changed
