"""Chains of rolls, nested windows, crops and overlapping updates come out bit for bit, whatever passes do to them.

The siblings of: nested dynamic-slices of a concatenation (each clamps for itself), negative padding under a window's
padding, scatters through narrow or empty indices, windows forwarded past updates.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from xyla import interp
from xyla.formats.hlo_text import parse
from xyla.passes.algebraic_simplifier import AlgebraicSimplifier
from xyla.passmgr.context import Fp
from xyla.passmgr.pipeline import Pipeline, Step
from xyla.support.dtypes import ElementType
from xyla.targets.cpu.pipeline import cpu_pipeline
from xyla.testing.movement import ELEMENT_TYPES, random_movement
from xyla.testing.pass_check import apply_pass, difference

SIMPLIFIER = Pipeline("algsimp", (Step("algsimp", AlgebraicSimplifier()),))


@pytest.mark.parametrize("et", ELEMENT_TYPES, ids=str)
@pytest.mark.parametrize("pipeline", [SIMPLIFIER, cpu_pipeline()], ids=lambda p: p.name)
def test_random_chains(pipeline: Pipeline, et: ElementType) -> None:
    met: set[str] = set()
    for seed in range(30):
        module, args = random_movement(seed, et)
        outcome = apply_pass(pipeline, module, fp=Fp.STRICT)
        met |= {rule for _, rule in outcome.counts}
        problem = difference(interp.run(outcome.module, args), interp.run(module, args))
        assert problem is None, f"seed {seed}: {problem}\n{module}"
    assert len(met) >= 25  # otherwise nothing is there to simplify


ROLLED = """HloModule m
ENTRY e {{
  x = s32[{n}] parameter(0)
  i = {index}[] parameter(1)
  j = {index}[] parameter(2)
  tail = s32[{cut}] slice(x), slice={{[{rest}:{n}]}}
  head = s32[{rest}] slice(x), slice={{[0:{rest}]}}
  roll = s32[{n}] concatenate(tail, head), dimensions={{0}}
  outer = s32[{outer}] dynamic-slice(roll, i), dynamic_slice_sizes={{{outer}}}
  ROOT inner = s32[{inner}] dynamic-slice(outer, j), dynamic_slice_sizes={{{inner}}}
}}"""


@pytest.mark.parametrize("index", [np.int32, np.int8, np.uint8])
@pytest.mark.parametrize("cut", [1, 3, 6])
def test_each_of_nested_windows_clamps_for_itself(index: type[np.integer[Any]], cut: int) -> None:
    x = np.arange(7, dtype=np.int32)
    rolled = np.roll(x, cut)
    name = {np.int32: "s32", np.int8: "s8", np.uint8: "u8"}[index]
    for outer, inner in ((5, 2), (7, 6), (1, 1)):
        text = ROLLED.format(n=7, index=name, cut=cut, rest=7 - cut, outer=outer, inner=inner)
        after = apply_pass(cpu_pipeline(), parse(text)).module
        for i, j in itertools.product((0, 1, 3, 6, 100, -1, -100), repeat=2):
            if min(i, j) < 0 and name == "u8":
                continue
            first, second = min(max(i, 0), 7 - outer), min(max(j, 0), outer - inner)
            (got,) = interp.run(after, [x, index(i), index(j)])
            np.testing.assert_array_equal(got, rolled[first : first + outer][second : second + inner])
