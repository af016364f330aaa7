"""Depthwise convolutions of random windows and layouts against the evaluator."""

from __future__ import annotations

import random

import numpy as np

from xyla.formats.hlo_text import parse
from xyla.hlo import ops
from xyla.passes.depthwise_convolution_converter import DepthwiseConvolutionConverter
from xyla.support.dtypes import by_name
from xyla.testing.pass_check import check_pass


def random_convolution(seed: int) -> tuple[str, list[np.ndarray]]:
    """Two spatial dimensions, everything that a window has, features and dimensions in any order."""
    rng = random.Random(seed)
    kind = rng.choice(["s32", "f32", "s8", "bf16", "f64"])
    features, times, batch = rng.randint(2, 4), rng.randint(1, 2), rng.randint(1, 2)
    spatial = [rng.randint(3, 6) for _ in range(2)]
    words: dict[str, list[str]] = {w: [] for w in ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")}
    out, kernel = [], []
    for extent in spatial:
        while True:
            size, stride, low, high = rng.randint(1, 3), rng.randint(1, 2), rng.randint(-1, 2), rng.randint(-1, 2)
            left, right = rng.randint(1, 2), rng.randint(1, 2)
            room = (extent - 1) * left + 1 + low + high - ((size - 1) * right + 1)
            if room >= 0:
                break
        values = (size, stride, f"{low}_{high}", left, right, rng.randint(0, 1))
        for word, value in zip(words.values(), values, strict=True):
            word.append(str(value))
        kernel.append(size)
        out.append(room // stride + 1)
    orders = [rng.sample(range(4), 4) for _ in range(3)]
    sizes = ([batch, features, *spatial], [1, features * times, *kernel], [batch, features * times, *out])
    x, k, r = ([s[o] for o in order] for s, order in zip(sizes, orders, strict=True))
    labels = ["".join(text[o] for o in order) for text, order in zip(("bf01", "io01", "bf01"), orders, strict=True)]
    window = " ".join(f"{name}={'x'.join(values)}" for name, values in words.items())

    def shape(dims: list[int]) -> str:
        return f"{kind}[{','.join(map(str, dims))}]"

    text = (
        f"HloModule m\nENTRY e {{\nx = {shape(x)} parameter(0)\nk = {shape(k)} parameter(1)\n"
        f"ROOT r = {shape(r)} convolution(x, k), window={{{window}}}, "
        f"dim_labels={labels[0]}_{labels[1]}->{labels[2]}, feature_group_count={features}\n}}\n"
    )
    values_ = np.random.default_rng(seed)
    return text, [values_.integers(-5, 6, d).astype(by_name(kind).np) for d in (x, k)]


def test_random_windows_give_the_same_values() -> None:
    for seed in range(60):
        text, args = random_convolution(seed)
        outcome = check_pass(DepthwiseConvolutionConverter(), parse(text), args)
        assert outcome.changed
        assert all(i.op is not ops.CONVOLUTION for i in outcome.module.instructions())
