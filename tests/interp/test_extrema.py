"""Zeros of both signs in maximum, minimum, clamp and their reductions: -0 is less than +0, in whatever order."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import xyla
from xyla.support import dtypes

KINDS = ["f16", "bf16", "f32", "f64"]


def signs(x: Any) -> list[bool]:
    return [bool(s) for s in np.signbit(np.asarray(x).astype(np.float64)).reshape(-1)]


@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_of_zeros(kind: str, engine: str) -> None:
    pairs = np.array(list(product([0.0, -0.0], repeat=2))).astype(dtypes.by_name(kind).np)
    text = f"""HloModule m
ENTRY e {{ x = {kind}[4] parameter(0)
          y = {kind}[4] parameter(1)
          a = {kind}[4] maximum(x, y)
          b = {kind}[4] minimum(x, y)
          c = {kind}[4] clamp(x, y, x)
          ROOT t = ({kind}[4], {kind}[4], {kind}[4]) tuple(a, b, c) }}
"""
    largest, least, clamped = xyla.run(text, [pairs[:, 0].copy(), pairs[:, 1].copy()], engine=engine)
    assert signs(largest) == [False, False, False, True]
    assert signs(least) == [False, True, True, True]
    assert signs(clamped) == signs(pairs[:, 0])


@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize(("op", "init", "want"), [("maximum", "-inf", False), ("minimum", "inf", True)])
def test_reductions_of_zeros(op: str, init: str, want: bool, engine: str) -> None:
    text = f"""HloModule m
r {{ a = f32[] parameter(0)
    b = f32[] parameter(1)
    ROOT c = f32[] {op}(a, b) }}
ENTRY e {{ x = f32[6,37] parameter(0)
          i = f32[] constant({init})
          ROOT y = f32[6] reduce(x, i), dimensions={{1}}, to_apply=r }}
"""
    x = np.full((6, 37), 0.0 if want else -0.0, np.float32)
    x[np.arange(6), [0, 1, 8, 17, 35, 36]] *= -1
    (y,) = xyla.run(text, [x], engine=engine)
    assert signs(y) == [want] * 6
