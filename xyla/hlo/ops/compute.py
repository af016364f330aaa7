"""Opcodes that contract, reduce, sort, transform or draw: dot, convolution, reduce, windows, sort, fft, solvers, RNG.

Spec: XLA operation semantics, one section an op.
"""

from __future__ import annotations

from dataclasses import dataclass

from xyla.hlo.attr_types import (
    ConvDims,
    DotAlgorithm,
    FftType,
    PaddingType,
    Precision,
    RandomAlgorithm,
    RandomDistribution,
    Sparsity,
    Transpose,
    Window,
)
from xyla.hlo.op_def import AttrKind, Attrs, OpDef, Trait, attr, define
from xyla.hlo.rules import contraction, reduction, transforms

_SEM = "operation_semantics#"


@dataclass(frozen=True, slots=True)
class DotAttrs(Attrs):
    """Dot dimension numbers. Result dims: batch, lhs free, rhs free."""

    lhs_batch_dims: tuple[int, ...] = attr(AttrKind.INTS, ())
    lhs_contracting_dims: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)
    rhs_batch_dims: tuple[int, ...] = attr(AttrKind.INTS, ())
    rhs_contracting_dims: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)
    operand_precision: tuple[Precision, ...] = attr(AttrKind.PRECISION, ())
    algorithm: DotAlgorithm = attr(AttrKind.ENUM, DotAlgorithm.UNSET)
    sparsity: tuple[Sparsity, ...] = attr(AttrKind.SPARSITY, ())


@dataclass(frozen=True, slots=True)
class RaggedDotAttrs(Attrs):
    """Dot dimension numbers plus the ragged lhs dimension and the rhs group dimensions."""

    lhs_batch_dims: tuple[int, ...] = attr(AttrKind.INTS, ())
    lhs_contracting_dims: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)
    rhs_batch_dims: tuple[int, ...] = attr(AttrKind.INTS, ())
    rhs_contracting_dims: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)
    lhs_ragged_dims: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)
    rhs_group_dims: tuple[int, ...] = attr(AttrKind.INTS, ())
    operand_precision: tuple[Precision, ...] = attr(AttrKind.PRECISION, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionAttrs(Attrs):
    """Window, dimension numbers and group counts."""

    window: Window = attr(AttrKind.WINDOW, Window())
    dim_labels: ConvDims = attr(AttrKind.CONV_DIMS)
    feature_group_count: int = attr(AttrKind.INT, 1)
    batch_group_count: int = attr(AttrKind.INT, 1)
    operand_precision: tuple[Precision, ...] = attr(AttrKind.PRECISION, ())
    padding_type: PaddingType = attr(AttrKind.ENUM, PaddingType.INVALID)


@dataclass(frozen=True, slots=True)
class ReduceAttrs(Attrs):
    """dimensions={...}: the reduced ones."""

    dimensions: tuple[int, ...] = attr(AttrKind.INTS, (), always=True)


@dataclass(frozen=True, slots=True)
class WindowAttrs(Attrs):
    """The window over every dimension: reduce-window, select-and-scatter."""

    window: Window = attr(AttrKind.WINDOW, Window())


@dataclass(frozen=True, slots=True)
class SortAttrs(Attrs):
    """The sorted dimension (always printed) and stability."""

    dimension: int = attr(AttrKind.INT_IN_BRACES, -1, key="dimensions", always=True)
    is_stable: bool = attr(AttrKind.BOOL, False)


@dataclass(frozen=True, slots=True)
class ScanAttrs(Attrs):
    """scan: the scanned dimension, carries, direction."""

    dimension: int = attr(AttrKind.INT_IN_BRACES, key="dimensions")
    num_carries: int = attr(AttrKind.INT, 0, always=True)
    is_reverse: bool = attr(AttrKind.BOOL, False)
    is_associative: bool = attr(AttrKind.BOOL, False)


@dataclass(frozen=True, slots=True)
class TopKAttrs(Attrs):
    """k along the last dimension; largest or smallest."""

    k: int = attr(AttrKind.INT)
    largest: bool = attr(AttrKind.BOOL, False, always=True)


@dataclass(frozen=True, slots=True)
class FftAttrs(Attrs):
    """fft_type and the lengths of the transformed minor dimensions."""

    fft_type: FftType = attr(AttrKind.ENUM)
    fft_length: tuple[int, ...] = attr(AttrKind.INTS)


@dataclass(frozen=True, slots=True)
class CholeskyAttrs(Attrs):
    """lower: which triangle is read and written."""

    lower: bool = attr(AttrKind.BOOL, False)


@dataclass(frozen=True, slots=True)
class TriangularSolveAttrs(Attrs):
    """op(a) x = b (left_side) or x op(a) = b."""

    left_side: bool = attr(AttrKind.BOOL, False)
    lower: bool = attr(AttrKind.BOOL, False)
    unit_diagonal: bool = attr(AttrKind.BOOL, False)
    transpose_a: Transpose = attr(AttrKind.ENUM, Transpose.INVALID)


@dataclass(frozen=True, slots=True)
class BatchNormAttrs(Attrs):
    """epsilon and the feature dimension."""

    epsilon: float = attr(AttrKind.FLOAT)
    feature_index: int = attr(AttrKind.INT, always=True)


@dataclass(frozen=True, slots=True)
class RngAttrs(Attrs):
    """Distribution of rng."""

    distribution: RandomDistribution = attr(AttrKind.ENUM)


@dataclass(frozen=True, slots=True)
class RngBitGeneratorAttrs(Attrs):
    """Algorithm of rng-bit-generator."""

    algorithm: RandomAlgorithm = attr(AttrKind.ENUM)


@dataclass(frozen=True, slots=True)
class DeltaAttrs(Attrs):
    """rng-get-and-update-state."""

    delta: int = attr(AttrKind.INT)


_APPLY = ("to_apply",)
DOT = define(OpDef("dot", None, DotAttrs, contraction.dot_shape, _SEM + "dotgeneral", min_arity=2))
RAGGED_DOT = define(OpDef("ragged-dot", 3, RaggedDotAttrs, contraction.ragged_dot_shape, _SEM + "raggeddot"))
SCALED_DOT = define(OpDef("scaled-dot", 4, DotAttrs, contraction.scaled_dot_shape, _SEM + "scaleddot"))
CONVOLUTION = define(
    OpDef("convolution", 2, ConvolutionAttrs, contraction.convolution_shape, _SEM + "conv_convolution")
)
REDUCE = define(OpDef("reduce", None, ReduceAttrs, reduction.reduce_shape, _SEM + "reduce", called=_APPLY, min_arity=2))
REDUCE_WINDOW = define(
    OpDef(
        "reduce-window",
        None,
        WindowAttrs,
        reduction.reduce_window_shape,
        _SEM + "reducewindow",
        called=_APPLY,
        min_arity=2,
    )
)
SELECT_AND_SCATTER = define(
    OpDef(
        "select-and-scatter",
        3,
        WindowAttrs,
        reduction.select_and_scatter_shape,
        _SEM + "selectandscatter",
        called=("select", "scatter"),
    )
)
SORT = define(OpDef("sort", None, SortAttrs, reduction.sort_shape, _SEM + "sort", called=_APPLY, min_arity=1))
SCAN = define(OpDef("scan", None, ScanAttrs, reduction.scan_shape, "xla/hlo/ir scan", called=_APPLY, min_arity=1))
TOPK = define(OpDef("topk", 1, TopKAttrs, reduction.topk_shape, "xla/hlo/ir topk"))
FFT = define(OpDef("fft", 1, FftAttrs, transforms.fft_shape, _SEM + "fft"))
CHOLESKY = define(OpDef("cholesky", 1, CholeskyAttrs, transforms.cholesky_shape, _SEM + "cholesky"))
TRIANGULAR_SOLVE = define(
    OpDef("triangular-solve", 2, TriangularSolveAttrs, transforms.triangular_solve_shape, _SEM + "triangularsolve")
)
BATCH_NORM_TRAINING = define(
    OpDef("batch-norm-training", 3, BatchNormAttrs, transforms.batch_norm_training_shape, _SEM + "batchnormtraining")
)
BATCH_NORM_INFERENCE = define(
    OpDef("batch-norm-inference", 5, BatchNormAttrs, transforms.batch_norm_inference_shape, _SEM + "batchnorminference")
)
BATCH_NORM_GRAD = define(
    OpDef("batch-norm-grad", 5, BatchNormAttrs, transforms.batch_norm_grad_shape, _SEM + "batchnormgrad")
)
# rng(a, b); some texts give the result's dims as a third operand.
RNG = define(
    OpDef(
        "rng",
        None,
        RngAttrs,
        None,
        _SEM + "rngnormal",
        Trait.STATEFUL_RNG | Trait.LEAF,
        verify=transforms.verify_rng,
        min_arity=2,
    )
)
RNG_BIT_GENERATOR = define(
    OpDef(
        "rng-bit-generator",
        1,
        RngBitGeneratorAttrs,
        None,
        _SEM + "rngbitgenerator",
        Trait.LEAF,
        verify=transforms.verify_rng_bit_generator,
    )
)
RNG_GET_AND_UPDATE_STATE = define(
    OpDef("rng-get-and-update-state", 0, DeltaAttrs, transforms.rng_state_shape, "hlo rng-get-and-update-state",
          Trait.STATEFUL_RNG | Trait.SIDE_EFFECT | Trait.LEAF)
)  # fmt: skip
