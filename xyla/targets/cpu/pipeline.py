"""The CPU's optimisation pipeline: a table in the order of running, each step with the reason it is there.

Order and reasons follow XLA's OptimizeHloModule: expanders, then simplification until nothing changes, then clean-up.
The CPU runs most ops natively, so only what has no kernel is expanded; `optimization` is XLA's whole list, for a
target that has none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from xyla import passes
from xyla.analysis.alias import CanShare
from xyla.hlo.module import Instruction
from xyla.passes.copy_insertion import CopyInsertion
from xyla.passes.fusion_to_call import FusionToCall
from xyla.passmgr.pipeline import Before, Fixpoint, Pipeline, Step
from xyla.schedule.passes import HloMemoryScheduler

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
_MAPS = ("map-inline", "the function of a map is plain element-wise work, which simplifies and fuses")
_BATCH_NORM = ("batchnorm-expander", "batch normalisation has no kernel; its parts fuse and simplify")


def _cpu_expanders() -> tuple[Step, ...]:
    return _steps((_BITCASTS, _ZERO_SIZED, _INDEX_SPLITTER, _INLINER, _MAPS, _BATCH_NORM))


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
        _MAPS,
        ("dot-decomposer", "every dot is [batch, m, k] x [batch, k, n]"),
        ("convolution-4d-expander", "spatial dimensions of size one go"),
        ("stable-sort-expander", "sorting need not be stable: the comparator is"),
        ("element-type-converter", "bf16 is stored, and computed in f32"),
        _BATCH_NORM,
        ("logistic-expander", "logistic is written with exp"),
        ("conditional-canonicalizer", "every conditional returns a tuple, also for the padder"),
        ("dynamic-dimension-simplifier", "sizes that cancel need no padding"),
        ("dynamic-padder", "every shape is static; what lies beyond a size is made harmless"),
    ))  # fmt: skip


def _simplification(canonical_dots: bool) -> Fixpoint:
    """canonical_dots: for a target whose dots are all [batch, m, k] x [batch, k, n]."""
    rows: list[Row] = []
    for row in _SIMPLIFICATION:
        if row[0] == "algsimp" and canonical_dots:
            rows += [("algsimp", row[1], "algsimp", {"supports_non_canonical_dots": False}), _DOTS_AGAIN]
        else:
            rows.append(row)
    return Fixpoint("simplification", _steps(rows))


_DOTS_AGAIN = ("canonical-dots", "algsimp may add contracting dimensions to a dot", "dot-decomposer")
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
    (
        "while-loop-invariant-code-motion",
        "what a loop computes alike each time is computed once (what is larger than its operands stays: it fuses)",
        "while-loop-invariant-code-motion",
        {"hoist_size_inflating_ops": False},
    ),
    ("slice-sinker", "like work on all slices of an array is one kernel, not one a slice"),
    ("dce", "what the steps above left unused would be simplified again and again"),
    ("reshape-mover", "reshapes meet and cancel when they move past element-wise ops"),
    ("constant-folding", "values known now need no code"),
    ("conditional-code-motion", "work on the edge of a conditional meets what it cancels with, or fuses, on one side"),
    ("simplify-conditional", "a conditional whose branch is known is that branch"),
)

# Passes of XLA's pipelines that the CPU leaves out, with the reason.
LEFT_OUT = {
    "gather-simplifier": "the kernels take gathers of every form; reordered results would be copied back",
    "scatter-simplifier": "the kernels take scatters of every form",
    "while-loop-unroller": "a loop of a few steps costs microseconds, its copies cost compile time",
    "reduce-window-rewriter": "prefix sums have a kernel of their own",
    "optimization-barrier-expander": "barriers cost nothing at run time, and fusion has to see them",
    "subcomputation-unification": "equal functions already give the same kernel",
}


def _cleanup() -> tuple[Step, ...]:
    return _steps((
        ("convert-mover", "data moves in the narrower type (after algsimp, which moves conversions the other way)"),
        ("transpose-folding", "a product reads a transposed operand for nothing"),
        ("cse", "equal values are computed once"),
        ("hlo-module-dce", "loops that have to stay as they are need not compute what nobody reads"),
        ("final-dce", "the steps above leave the values they replaced", "dce"),
        ("while-loop-trip-count-annotator", "a loop of known length is planned better"),
    ))  # fmt: skip


ORDERINGS = (
    Before("bitcast-expander", "algsimp", "rules replace values by others of another layout"),
    Before("zero-sized-hlo-elimination", "algsimp", "peephole rules may divide by a dimension's size"),
    Before("dynamic-index-splitter", "algsimp", "rules match start indices that are scalars"),
    Before("call-inliner", "algsimp", "rules see one computation only"),
    Before("conditional-canonicalizer", "dynamic-padder", "the padder adds sizes to the branches' results"),
    Before("algsimp", "convert-mover", "each would undo what the other did"),
    Before("hlo-module-dce", "final-dce", "a loop's dead state leaves dead instructions"),
    Before("rng-expander", "rng-bit-generator-expander", "the first makes what the second expands"),
    Before("cse", "final-dce", "CSE leaves the duplicates without users"),
    Before("simplify-while-loops", "while-loop-trip-count-annotator", "a changed loop would keep a wrong annotation"),
)


@cache
def cpu_pipeline() -> Pipeline:
    """What the compiler runs for the host by default."""
    return Pipeline("cpu", (*_cpu_expanders(), *_end()), ORDERINGS)


# Steps without which nothing can be emitted: no flag disables them.
NEEDED = frozenset({FusionToCall.name, HloMemoryScheduler.name, CopyInsertion.name})


def emit_preparation(can_share: CanShare, has_kernel: Callable[[Instruction], bool]) -> Pipeline:
    """What the compiler runs on an optimised module before buffers: the result is scheduled, with the copies it needs.

    The order of XLA's PrepareHloModuleForIrEmitting, but for the copies: they are inserted into a schedule.
    """
    first = ("dce", "what nobody needs is neither emitted nor given memory")
    passed_on = "an argument that is returned need not be copied, where the module asks for that"
    rows: tuple[Row, ...] = (
        ("alias-passthrough-params", passed_on, "alias-passthrough-params", {"when_asked": True}),
        ("loop-schedule-linearizer", "who reads a loop's state after its update would need a copy of it"),
        ("sanitize-constant-names", "constants become symbols, each of its own name"),
    )
    steps = (
        *_steps((first,)),
        Step(FusionToCall.name, FusionToCall(has_kernel), "what has no kernel runs by parts"),
        *_steps(rows),
        Step(HloMemoryScheduler.name, HloMemoryScheduler(can_share), "memory is planned for one order of little need"),
        Step(CopyInsertion.name, CopyInsertion(can_share), "values that have to share memory overwrite one another"),
    )
    return Pipeline("emit-preparation", steps, _PREPARATION)


_PREPARATION = (
    Before("dce", "fusion-to-call", "units are made for fusions as they are now: they must not lose operands"),
    Before("fusion-to-call", "hlo-memory-scheduler", "a called computation needs an order"),
    Before("loop-schedule-linearizer", "hlo-memory-scheduler", "the order has to keep what the linearizer asks for"),
    Before("hlo-memory-scheduler", "copy-insertion", "which copies are needed depends on the order"),
)


def _native(fusion: Instruction) -> bool:
    """Whether the CPU has a kernel, or a library call, for a fusion."""
    from xyla.targets.cpu.emit import CpuEmitter

    return not isinstance(CpuEmitter().emit(fusion), str)


def pipelines() -> dict[str, Pipeline]:
    """The pipelines of `xyla opt --pipeline`.

    `cpu` is what the compiler runs, and `emit-preparation` after it; `optimization` expands every op.
    """
    from xyla.targets.cpu.sharing import can_share

    return {
        "cpu": cpu_pipeline(),
        "emit-preparation": emit_preparation(can_share, _native),
        "optimization": Pipeline("optimization", (*_all_expanders(), *_end(canonical_dots=True)), ORDERINGS),
        "simplification": Pipeline("simplification", _end(), ORDERINGS),
    }


def _end(canonical_dots: bool = False) -> tuple[Step | Fixpoint, ...]:
    return (_simplification(canonical_dots), *_cleanup())
