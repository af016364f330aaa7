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
from xyla.passmgr.base import parse_passes
from xyla.passmgr.context import Fp
from xyla.passmgr.pipeline import Pipeline, Step, pipeline_of
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


# Updates through an empty index vector all go to the same window.
UNINDEXED = """HloModule m
f {{
  a = {T}[] parameter(0)
  b = {T}[] parameter(1)
  ROOT c = {T}[] {op}(a, b)
}}
ENTRY e {{
  x = {T}[2] parameter(0)
  i = s32[3,0] parameter(1)
  u = {T}[3,2] parameter(2)
  ROOT r = {T}[2] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{}},
    scatter_dims_to_operand_dims={{}}, index_vector_dim=1, to_apply=f
}}"""


@pytest.mark.parametrize("passes", ["cpu", "scatter-expander", "scatter-expander{mode=indeterministic}"])
@pytest.mark.parametrize("name", ["s32", "f32", "u8"])
@pytest.mark.parametrize("op", ["add", "multiply", "minimum"])
def test_every_update_through_an_empty_index_counts(passes: str, name: str, op: str) -> None:
    module = parse(UNINDEXED.format(T=name, op=op))
    pipeline = cpu_pipeline() if passes == "cpu" else pipeline_of(parse_passes(passes))
    kind = module.entry.root.shape.element_type.np
    x, u = np.array([5, 7]).astype(kind), np.array([[1, 2], [3, 4], [5, 6]]).astype(kind)
    expected = {"add": x + u.sum(0, kind), "multiply": x * u.prod(0, kind), "minimum": np.minimum(x, u.min(0))}[op]
    outcome = apply_pass(pipeline, module)
    np.testing.assert_array_equal(interp.run(outcome.module, [x, np.zeros((3, 0), np.int32), u])[0], expected)


# What a negative edge crops is gone before the window's own padding is added.
CROPPED = """HloModule m
add {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}}
ENTRY e {{
  x = s32[6] parameter(0)
  z = s32[] constant(0)
  p = s32[{size}] pad(x, z), padding={low}_{high}
  ROOT r = s32[{size}] reduce-window(p, z), window={{size=3 pad={wlow}_{whigh}}}, to_apply=add
}}"""


@pytest.mark.parametrize(("low", "high"), [(-2, 0), (-1, 2), (2, -3), (1, 1), (-6, 3)])
@pytest.mark.parametrize(("wlow", "whigh"), [(1, 1), (2, 0), (0, 2)])
def test_negative_padding_under_a_windows_padding(low: int, high: int, wlow: int, whigh: int) -> None:
    size = 6 + low + high
    module = parse(CROPPED.format(size=size, low=low, high=high, wlow=wlow, whigh=whigh))
    x = np.arange(1, 7, dtype=np.int32)
    padded = np.concatenate([np.zeros(max(low, 0), np.int32), x[max(-low, 0) : 6 + min(high, 0)]])
    padded = np.concatenate([padded, np.zeros(max(high, 0), np.int32)])
    wide = np.concatenate([np.zeros(wlow, np.int32), padded, np.zeros(whigh, np.int32)])
    expected = [wide[i : i + 3].sum() for i in range(size)]
    outcome = apply_pass(cpu_pipeline(), module)
    np.testing.assert_array_equal(interp.run(outcome.module, [x])[0], expected)
