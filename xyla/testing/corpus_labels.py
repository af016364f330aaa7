"""What XLA's own tests expected of a pass on the corpus modules that stand in them, as far as the text can tell.

The labels of the corpus are guesses from the code around each module. A module counts for a pass only when it comes
from that pass's own test file, and its test ran that pass. `run_options` says how the test sets the pass up where that
is not the default; `EXCEPTIONS` are the modules that are left out of the count, each with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from xyla.testing.data import HloCase

# Our pass's name: (the names under which XLA's tests run it, their files, the part before `_test`).
TESTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "algsimp": (("AlgebraicSimplifier",), ("algebraic_simplifier",)),
    "all-gather-decomposer": (("AllGatherDecomposer",), ("all_gather_decomposer",)),
    "batchnorm-expander": (("BatchNormExpander",), ("batchnorm_expander",)),
    "bitcast-dtypes-expander": (("BitcastDtypesExpander",), ("bitcast_dtypes_expander",)),
    "call-inliner": (("CallInliner",), ("call_inliner",)),
    "conditional-code-motion": (("ConditionalCodeMotion",), ("conditional_code_motion",)),
    "constant-folding": (("HloConstantFolding",), ("hlo_constant_folding",)),
    "convert-mover": (("ConvertMover",), ("convert_mover",)),
    "convolution-4d-expander": (("Convolution4DExpander",), ("convolution_4d_expander",)),
    "convolution-group-converter": (("ConvolutionGroupConverter",), ("convolution_group_converter",)),
    "cse": (("HloCSE",), ("hlo_cse",)),
    "dce": (("HloDCE",), ("hlo_dce",)),
    "dot-decomposer": (("DotDecomposer",), ("dot_decomposer",)),
    "dot-merger": (("DotMerger",), ("dot_merger",)),
    "dynamic-dimension-simplifier": (("DynamicDimensionSimplifier",), ("dynamic_dimension_simplifier",)),
    "dynamic-padder": (("DynamicPadder",), ("dynamic_padder",)),
    "flatten-call-graph": (("FlattenCallGraph",), ("flatten_call_graph",)),
    "gather-expander": (("GatherExpander",), ("gather_expander",)),
    "gather-simplifier": (("GatherSimplifier",), ("gather_simplifier",)),
    "hlo-module-dce": (("HloModuleDCE",), ("hlo_module_dce",)),
    "logistic-expander": (("LogisticExpander",), ("logistic_expander",)),
    "ragged-dot-rewriter": (("RaggedDotRewriter",), ("ragged_dot_rewriter",)),
    "real-imag-expander": (("RealImagExpander",), ("real_imag_expander",)),
    "reduce-window-rewriter": (("ReduceWindowRewriter",), ("reduce_window_rewriter",)),
    "reshape-mover": (("ReshapeMover",), ("reshape_mover",)),
    "scan-expander": (("ScanExpander",), ("scan_expander",)),
    "scatter-determinism-expander": (("ScatterDeterminismExpander",), ("scatter_determinism_expander",)),
    "scatter-expander": (("ScatterExpander",), ("scatter_expander",)),
    "scatter-simplifier": (("ScatterSimplifier",), ("scatter_simplifier",)),
    "scatter-slice-simplifier": (("ScatterSliceSimplifier",), ("scatter_slice_simplifier",)),
    "simplify-conditional": (("ConditionalSimplifier",), ("conditional_simplifier",)),
    "simplify-fp-conversions": (("SimplifyFPConversions",), ("simplify_fp_conversions",)),
    "simplify-sorts": (("SortSimplifier",), ("sort_simplifier",)),
    "simplify-while-loops": (("WhileLoopSimplifier",), ("while_loop_simplifier",)),
    "slice-sinker": (("SliceSinker",), ("slice_sinker",)),
    "stable-sort-expander": (("StableSortExpander",), ("stable_sort_expander",)),
    "stochastic-convert-decomposer": (("StochasticConvertDecomposer",), ("stochastic_convert_decomposer",)),
    "topk-decomposer": (("TopkDecomposer",), ("topk_rewriter",)),
    "topk-rewriter": (("TopkRewriter",), ("topk_rewriter",)),
    "transpose-folding": (("TransposeFolding",), ("transpose_folding",)),
    "triangular-solve-expander": (("TriangularSolveExpander",), ("triangular_solve_expander",)),
    "tuple-simplifier": (("TupleSimplifier",), ("tuple_simplifier",)),
    "while-loop-constant-sinking": (("WhileLoopConstantSinking",), ("while_loop_constant_sinking",)),
    "while-loop-invariant-code-motion": (("WhileLoopInvariantCodeMotion",), ("while_loop_invariant_code_motion",)),
    "while-loop-trip-count-annotator": (("WhileLoopTripCountAnnotator",), ("while_loop_trip_count_annotator",)),
    "while-loop-unroller": (("WhileLoopUnroller",), ("while_loop_unroller",)),
    "zero-sized-hlo-elimination": (("ZeroSizedHloElimination",), ("zero_sized_hlo_elimination",)),
}

# Modules whose tests run the pass with other options: (pass, which tests, options).
_OPTIONS: tuple[tuple[str, re.Pattern[str], Mapping[str, object]], ...] = (
    (
        "algsimp",
        re.compile(
            "LayoutSensitive|LayoutConstraint|CopyBitcast|BitcastCopyChain|CopyReshape|BitcastBroadcastDiff"
            "|NonPackedDim|WiderBitwidth|NarrowerBitwidth|RootCopy|LayoutCheck|BitcastElementwise|NegLayout"
        ),
        {"layout_sensitive": True},
    ),
    ("algsimp", re.compile("^SwapDotOperands$"), {"enable_move_dot_param_to_rhs": True}),
    ("algsimp", re.compile("^FoldTransposeIntoScatter$"), {"fold_transpose_into_scatter": True}),
    (
        "batchnorm-expander",
        re.compile("DisabledFlagsAreNoop"),
        {"rewrite_training_op": False, "rewrite_inference_op": False, "rewrite_grad_op": False},
    ),
    (
        "dce",
        re.compile("RemoveDeadEntryParameters"),
        {"remove_dead_parameters_from_entry_computation": True},
    ),
    ("scatter-expander", re.compile("EliminateSimple"), {"mode": "simple"}),
    ("scatter-expander", re.compile("Indeterministic|Associative"), {"mode": "indeterministic"}),
    ("transpose-folding", re.compile("FoldTransposeOfBatchWhenPermitted"), {"fold_batch": True}),
)

_FAST_ONLY = {
    "AddSubSameCommutative": "(y - x) + x is not y where y - x rounds or overflows",
    "DivideByBroadcast": "1/s overflows for a subnormal s",
    "DotPadLeftReorder": "zeros that meet infinities make NaN",
    "DotPadRightReorder": "zeros that meet infinities make NaN",
    "DotRightDotSharedBatchReorder": "the product of the other two matrices overflows where the whole does not",
    "FactorFpAdditionWithBroadcast": "x + y overflows where x/8 + y/8 does not",
    "MultiplyBroadcastReassoc": "the product of the scalars overflows where the whole does not",
    "MultiplyOfConvertedPred": "x * 0 is NaN for infinite x, and -0 for negative x",
    "ReorderConvAddMul": "the scaled kernel overflows where the scaled sum does not",
    "ReplaceSubtractOfEqualOperandsWithBroadcastZero": "x - x is NaN for infinite x",
    "ReplaceSubtractOfEqualOperandsWithZero": "x - x is NaN for infinite x",
    "ScatterAddCombined": "(x + a) + b is not x + (a + b)",
    "ScatterAddCombinedSwapped": "(x + a) + b is not x + (a + b)",
    "SubSubSame": "x - (x - y) is not y where x - y rounds or overflows",
}
# XLA's rewrite, and what it loses. Those of FAST_ONLY fire with --fp=fast; the others are not done at all.
FAST_ONLY: dict[str, dict[str, str]] = {
    "algsimp": _FAST_ONLY,
    "simplify-fp-conversions": {"SimplifiesF32ToBF16ToF32": "the conversion to bf16 rounds"},
}
_REFUSED = {
    "ScalarMultiplyReduction": "an option; the scalar moves past a sum, which overflows elsewhere",
    "SquaredComplexSqrtIsFloat": "the square root of z*z is z or -z, not |z|",
}
_FLAG = "the test sets a debugging flag of the GPU compiler that keeps the op"
# Tests whose text does not show what decides.
_UNSEEN: dict[str, dict[str, str]] = {
    "algsimp": {
        "ConcatIntoScalarDot": "the test forbids the rewrite by an option",
        "RespectHostOffloadingcopies": "the module's types contradict one another",
    },
    "ragged-dot-rewriter": {
        "DontRewriteIfUsingRaggedDotFusion": _FLAG,
        "DontRewriteIfUsingRaggedDotFusionRocm": _FLAG,
        "DontRewriteIfUsingRaggedDotGroupedGemm": _FLAG,
    },
    "scatter-simplifier": {
        "1x1d": "the test asserts that this scatter is simple already, and runs the evaluator only",
        "2x2d": "the test asserts that this scatter is simple already, and runs the evaluator only",
    },
    "while-loop-unroller": {
        "GetUnrollableLoops": "the test asks which loops can be unrolled, and runs no pass",
        "MatchShapeCoveringDSShapeMismatch": "the test asks an analysis, and runs no pass",
    },
}


def _merged(*tables: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    names = sorted({name for table in tables for name in table})
    return {name: {k: v for table in tables for k, v in table.get(name, {}).items()} for name in names}


# Pass: {test: why its label does not count}.
EXCEPTIONS = _merged(FAST_ONLY, {"algsimp": _REFUSED}, _UNSEEN)


def test_name(stem: str) -> str:
    """`Foo` of `some_pass_test__Foo`."""
    return stem.partition("__")[2]


def run_options(name: str, stem: str) -> dict[str, Any]:
    """The options with which the test of the module `stem` runs the pass `name`; empty for the defaults."""
    if not _own_file(name, stem):
        return {}
    return {
        key: value
        for of, which, options in _OPTIONS
        if of == name and which.search(test_name(stem))
        for key, value in options.items()
    }


def expected(case: HloCase, name: str) -> bool | None:
    """Whether the module's own test expected the pass `name` to change it; None where that does not count or is not
    known.
    """
    if not named(case, name) or test_name(case.path.stem) in EXCEPTIONS.get(name, {}):
        return None
    return not case.expect.startswith("not")


def named(case: HloCase, name: str) -> bool:
    """Whether the module comes from a test of the pass `name` that expected a change, or none: exceptions included."""
    if case.expect.removesuffix("+run_compare") not in ("changed", "not_changed"):
        return False
    if not _own_file(name, case.path.stem):
        return False
    # A file may test several passes, and run others before or after: then the test must name this one.
    known = {one for theirs, _ in TESTS.values() for one in theirs}
    return not set(case.passes) & known or bool(set(case.passes) & set(TESTS[name][0]))


def _own_file(name: str, stem: str) -> bool:
    return name in TESTS and stem.partition("_test__")[0] in TESTS[name][1]
