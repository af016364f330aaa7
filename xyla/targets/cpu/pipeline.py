"""The CPU's optimisation pipeline: a table in the order of running, each step with the reason it is there.

Order and reasons follow XLA's OptimizeHloModule (expanders first, then simplification until nothing changes, then clean
up), for a back end that runs most ops natively: an expander is here only where the CPU has no kernel for the op, or
where what it makes simplifies further.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from xyla.passmgr.base import registered
from xyla.passmgr.pipeline import Before, Fixpoint, Pipeline, Step

# Passes that may run by default, by the module that registers each: a run imports these and nothing else. A pass gets
# in when the corpus sweep (bench/passes_corpus.py) finds nothing wrong with it.
READY = {
    "cse": "cse",
    "dce": "dce",
    "tuple-simplifier": "tuple_simplifier",
}


def _step(name: str, why: str, pass_name: str = "", **options: Any) -> Step:
    return Step(name, registered()[pass_name or name](**options), why)


def _present(*rows: tuple[str, str] | tuple[str, str, str]) -> tuple[Step, ...]:
    """Steps of (step name, reason[, pass name]) whose pass is ready."""
    ready = [row for row in rows if (row[2] if len(row) > 2 else row[0]) in READY]
    for row in ready:
        import_module(f"xyla.passes.{READY[row[2] if len(row) > 2 else row[0]]}")
    return tuple(_step(*row) for row in ready)


def _expanders() -> tuple[Step, ...]:
    return _present(
        ("all-gather-decomposer", "an all-gather becomes an all-reduce, which is native"),
        ("comparison-expander", "a total-order compare of floats becomes one of integers"),
        ("zero-sized-hlo-elimination", "no later pass has to think of arrays without elements"),
        ("dynamic-index-splitter", "start indices are scalars from here on, in one form"),
        ("call-inliner", "the passes below work within one computation"),
        ("dot-decomposer", "batch dimensions come first, one contracting dimension: what GEMM kernels take"),
        ("conditional-canonicalizer", "branches return tuples, so that they can be narrowed"),
    )


def _simplification() -> Fixpoint:
    return Fixpoint("simplification", _present(
        ("simplify-zero-sized", "the steps below can make arrays without elements", "zero-sized-hlo-elimination"),
        ("algsimp", "algebra: most of what is redundant in a program is visible to peephole rules"),
        ("simplify-sorts", "sorts of what needs no sorting, and operands that nobody reads"),
        ("tuple-simplifier", "a tuple that is taken apart again hides values from each other"),
        ("while-loop-constant-sinking", "a constant that a loop carries becomes visible in its body"),
        ("simplify-while-loops", "loops of no or one trip vanish; what they carry in vain goes"),
        ("dce", "what the steps above left unused would be simplified again and again"),
        ("reshape-mover", "reshapes meet and cancel when they are moved past element-wise ops"),
        ("constant_folding", "values known now need no code"),
        ("simplify-conditional", "a conditional whose branch is known is that branch"),
    ))  # fmt: skip


def _cleanup() -> tuple[Step, ...]:
    return _present(
        ("transpose-folding", "a GEMM reads a transposed operand for nothing"),
        ("cse", "equal values are computed once"),
        ("final-dce", "the steps above leave the values they replaced", "dce"),
        ("while-loop-trip-count-annotator", "loops of known length are planned better; no step changes loops after it"),
    )


ORDERINGS = (
    Before("zero-sized-hlo-elimination", "algsimp", "peephole rules assume that a dimension divides by another"),
    Before("call-inliner", "algsimp", "rules see one computation only"),
    Before("dynamic-index-splitter", "algsimp", "rules match start indices that are scalars"),
    Before("simplify-while-loops", "while-loop-trip-count-annotator", "an annotation would be wrong after unrolling"),
    Before("cse", "final-dce", "CSE leaves the duplicates without users"),
)


@cache
def pipelines() -> dict[str, Pipeline]:
    """The named pipelines of `xyla opt --pipeline`: `cpu` is what the compiler runs."""
    simplification = Pipeline("simplification", (_simplification(), *_cleanup()), ORDERINGS)
    cpu = Pipeline("cpu", (*_expanders(), _simplification(), *_cleanup()), ORDERINGS)
    return {"simplification": simplification, "cpu": cpu}


def cpu_pipeline() -> Pipeline:
    """What the compiler runs for the host by default."""
    return pipelines()["cpu"]
