"""Imports every module that registers evaluator rules, so that `EVAL` is complete."""

from xyla.interp import (
    collectives,
    control,
    conv,
    custom_calls,
    dot,
    elementwise,
    fft,
    gather_scatter,
    linalg,
    movement,
    norm,
    ragged,
    reduce,
    rng,
    sort,
    window,
)

__all__ = [
    "collectives",
    "control",
    "conv",
    "custom_calls",
    "dot",
    "elementwise",
    "fft",
    "gather_scatter",
    "linalg",
    "movement",
    "norm",
    "ragged",
    "reduce",
    "rng",
    "sort",
    "window",
]
