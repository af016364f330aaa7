"""The CPU's optimisation pipeline: a table in the order of running, each step with the reason it is there.

Order and reasons follow XLA's OptimizeHloModule: expanders, then simplification until nothing changes, then clean-up.
The CPU runs most ops natively, so only what has no kernel is expanded; `optimization` is XLA's whole list, for a
target that has none of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from xyla import passes
from xyla.passmgr.pipeline import Before, Fixpoint, Pipeline, Step

# (step name, reason, pass when its name is another, its options).
Row = tuple[str, str] | tuple[str, str, str] | tuple[str, str, str, dict[str, Any]]


def _steps(rows: Iterable[Row]) -> tuple[Step, ...]:
    return tuple(_step(*row) for row in rows)


def _step(name: str, why: str, of: str = "", options: dict[str, Any] | None = None) -> Step:
    return Step(name, passes.find(of or name)(**(options or {})), why)


_ZERO_SIZED = ("zero-sized-hlo-elimination", "no later pass has to think of arrays without elements")
_BITCASTS = ("bitcast-expander", "layouts are a choice from here on: nothing reads an operand's")
_INDEX_SPLITTER = ("dynamic-index-splitter", "start indices are scalars from here on, in one form")
_INLINER = ("call-inliner", "the passes below see one computation at a time")
_BATCH_NORM = ("batchnorm-expander", "batch normalisation has no kernel; its parts fuse and simplify")


def _cpu_expanders() -> tuple[Step, ...]:
    return _steps((_BITCASTS, _ZERO_SIZED, _INDEX_SPLITTER, _INLINER, _BATCH_NORM))


def _all_expanders() -> tuple[Step, ...]:
    return _steps((
        _BITCASTS,
        ("all-gather-decomposer", "an all-gather becomes an all-reduce: one collective less to implement"),
        ("all-to-all-decomposer", "the array form becomes the tuple form"),
        ("operand-upcaster", "operands have the type of the accumulator"),
        ("rng-expander", "random numbers come from the bit generator alone"),
        ("rng-bit-generator-expander", "random bits are plain integer arithmetic"),
        ("comparison-expander", "a compare in total order becomes one of integers"),
        _ZERO_SIZED,
        ("scatter-expander", "a scatter becomes a loop of updates"),
        ("qr-expander", "QR becomes Householder reflections"),
        ("eigh-expander", "symmetric eigenvalues by Jacobi rotations"),
        ("cholesky-expander", "Cholesky becomes a loop over columns"),
        ("triangular-solve-expander", "a triangular solve becomes matrix products"),
        _INDEX_SPLITTER,
        _INLINER,
        ("dot-decomposer", "every dot is [batch, m, k] x [batch, k, n]"),
        ("convolution-4d-expander", "spatial dimensions of size one go"),
        ("stable-sort-expander", "sorting need not be stable: the comparator is"),
        _BATCH_NORM,
        ("logistic-expander", "logistic is written with exp"),
    ))  # fmt: skip


def _simplification() -> Fixpoint:
    return Fixpoint("simplification", _steps(_SIMPLIFICATION))


_SIMPLIFICATION: tuple[Row, ...] = (
    ("simplify-zero-sized", "the steps below can make arrays without elements", "zero-sized-hlo-elimination"),
    ("simple-gathers", "a gather of one slice is a dynamic-slice", "gather-expander", {"mode": "simple"}),
    ("simple-scatters", "a scatter of one update is a dynamic-update-slice", "scatter-expander", {"mode": "simple"}),
    (
        "algsimp",
        "most of what is redundant in a program is visible to peephole rules (small dots stay: they have kernels)",
        "algsimp",
        {"enable_dot_strength_reduction": False},
    ),
    ("simplify-sorts", "sorted operands that nobody reads, and sorts that change nothing, go"),
    ("tuple-simplifier", "a tuple that is taken apart again hides values from each other"),
    ("while-loop-constant-sinking", "a constant that a loop carries becomes visible in its body"),
    ("simplify-while-loops", "loops of no or one trip vanish, and what is carried in vain"),
    ("dce", "what the steps above left unused would be simplified again and again"),
    ("reshape-mover", "reshapes meet and cancel when they move past element-wise ops"),
    ("constant-folding", "values known now need no code"),
    ("simplify-conditional", "a conditional whose branch is known is that branch"),
)


def _cleanup() -> tuple[Step, ...]:
    return _steps((
        ("transpose-folding", "a product reads a transposed operand for nothing"),
        ("cse", "equal values are computed once"),
        ("final-dce", "the steps above leave the values they replaced", "dce"),
        ("while-loop-trip-count-annotator", "a loop of known length is planned better"),
    ))  # fmt: skip


ORDERINGS = (
    Before("bitcast-expander", "algsimp", "rules replace values by others of another layout"),
    Before("zero-sized-hlo-elimination", "algsimp", "peephole rules may divide by a dimension's size"),
    Before("dynamic-index-splitter", "algsimp", "rules match start indices that are scalars"),
    Before("call-inliner", "algsimp", "rules see one computation only"),
    Before("rng-expander", "rng-bit-generator-expander", "the first makes what the second expands"),
    Before("cse", "final-dce", "CSE leaves the duplicates without users"),
    Before("simplify-while-loops", "while-loop-trip-count-annotator", "a changed loop would keep a wrong annotation"),
)


@cache
def cpu_pipeline() -> Pipeline:
    """What the compiler runs for the host by default."""
    return Pipeline("cpu", (*_cpu_expanders(), *_end()), ORDERINGS)


def pipelines() -> dict[str, Pipeline]:
    """The pipelines of `xyla opt --pipeline`. `cpu` is what the compiler runs; `optimization` expands every op."""
    return {
        "cpu": cpu_pipeline(),
        "optimization": Pipeline("optimization", (*_all_expanders(), *_end()), ORDERINGS),
        "simplification": Pipeline("simplification", _end(), ORDERINGS),
    }


def _end() -> tuple[Step | Fixpoint, ...]:
    return (_simplification(), *_cleanup())
