"""StableHLO operations that compute over whole arrays: dot, convolution, reductions, sort, fft, solvers, RNG.

Source: the StableHLO specification, one section an op.
"""

from __future__ import annotations

from collections.abc import Sequence

from xyla.formats.mlir.ir import Operation
from xyla.formats.stablehlo import decode_attrs as read
from xyla.formats.stablehlo.body import Body, Result, Rule, arity, at_least, regions
from xyla.formats.stablehlo.einsum import einsum, unary_einsum
from xyla.hlo import ops
from xyla.hlo.attr_types import FftType, RandomAlgorithm, RandomDistribution, Transpose, Window
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.shape import Shape
from xyla.support.status import invalid

FFT_TYPES = {t.name: t for t in FftType}
DISTRIBUTIONS = {"UNIFORM": RandomDistribution.UNIFORM, "NORMAL": RandomDistribution.NORMAL}
ALGORITHMS = {a.name: a for a in RandomAlgorithm}
TRANSPOSES = {
    "TRANSPOSE_INVALID": Transpose.INVALID,
    "NO_TRANSPOSE": Transpose.NO_TRANSPOSE,
    "TRANSPOSE": Transpose.TRANSPOSE,
    "ADJOINT": Transpose.ADJOINT,
}

# -- dot and convolution ---------------------------------------------------------------------------------------


def _dot_general(body: Body, op: Operation) -> Result:
    arity(op, 2)
    entries = read.fields(op, "dot_dimension_numbers")
    attrs = ops.DotAttrs(
        read.field_ints(entries, "lhs_batching_dimensions"),
        read.field_ints(entries, "lhs_contracting_dimensions"),
        read.field_ints(entries, "rhs_batching_dimensions"),
        read.field_ints(entries, "rhs_contracting_dimensions"),
        read.precision(op),
        read.dot_algorithm(op),
    )
    return body.add(ops.DOT, body.operands(op), attrs, shape=body.result(op))


def _dot(body: Body, op: Operation) -> Result:
    """The old dot: the last dimension of the left operand with the first of the right one."""
    arity(op, 2)
    lhs, rhs = body.operands(op)
    if not 1 <= lhs.shape.rank <= 2 or not 1 <= rhs.shape.rank <= 2:
        raise invalid(f"stablehlo.dot takes vectors and matrices, not {lhs.shape} and {rhs.shape}")
    attrs = ops.DotAttrs((), (lhs.shape.rank - 1,), (), (0,), read.precision(op))
    return body.add(ops.DOT, [lhs, rhs], attrs, shape=body.result(op))


def _convolution(body: Body, op: Operation) -> Result:
    arity(op, 2)
    return convolution(body, op, body.operands(op), None)


def convolution(
    body: Body, op: Operation, operands: Sequence[Instruction], padding: tuple[tuple[int, int], ...] | None
) -> Instruction:
    """HLO convolution with the attributes of `op`; `padding` replaces its padding attribute."""
    dims = read.conv_dims(op)
    kernel = operands[1].shape
    if max((*dims.kernel_spatial, dims.kernel_input_feature, dims.kernel_output_feature)) >= kernel.rank:
        raise invalid(f"the dimension numbers of {op.name} do not fit a kernel of shape {kernel}")
    window = read.window(
        op,
        tuple(kernel.dims[d] for d in dims.kernel_spatial),
        lhs_dilations="lhs_dilation",
        rhs_dilations="rhs_dilation",
        reversal="window_reversal",
        padding=padding,
    )
    attrs = ops.ConvolutionAttrs(
        window=window,
        dim_labels=dims,
        feature_group_count=read.integer(op, "feature_group_count", 1),
        batch_group_count=read.integer(op, "batch_group_count", 1),
        operand_precision=read.precision(op),
    )
    return body.add(ops.CONVOLUTION, operands, attrs, shape=body.result(op))


# -- reductions ------------------------------------------------------------------------------------------------


def promoted(body: Body, operands: Sequence[Instruction], comp: Computation, first: int = 0) -> list[Instruction]:
    """Operands converted to the element types of the computation's parameters from `first` on.

    StableHLO lets a reducer work in a wider type than its operands; HLO does not.
    """
    shapes = [p.shape for p in comp.parameters[first : first + len(operands)]]
    if len(shapes) != len(operands):
        raise invalid(f"the region takes {len(comp.parameters)} arguments, too few for {len(operands)} operands")
    return [body.convert(o, s) for o, s in zip(operands, shapes, strict=True)]


def _reduce(body: Body, op: Operation) -> Result:
    comp, inputs, inits = _reduction(body, op)
    attrs = ops.ReduceAttrs(read.ints(op, "dimensions"))
    return body.add(ops.REDUCE, [*inputs, *inits], attrs, shape=body.packed_result(op), called=[comp])


def _reduction(body: Body, op: Operation) -> tuple[Computation, list[Instruction], list[Instruction]]:
    """The reducer, inputs and init values of a reduce or reduce_window."""
    at_least(op, 2)
    regions(op, 1)
    if len(op.operands) % 2:
        raise invalid(f"{op.name} needs as many init values as inputs")
    comp = body.converter.region(body, op, 0)
    operands = body.operands(op)
    half = len(operands) // 2
    return comp, promoted(body, operands[:half], comp), promoted(body, operands[half:], comp)


def _reduce_window(body: Body, op: Operation) -> Result:
    comp, inputs, inits = _reduction(body, op)
    window = read.window(
        op, read.ints(op, "window_dimensions"), lhs_dilations="base_dilations", rhs_dilations="window_dilations"
    )
    return reduce_window(body, comp, [*inputs, *inits], window, body.packed_result(op))


def reduce_window(
    body: Body, comp: Computation, operands: Sequence[Instruction], window: Window, shape: Shape
) -> Instruction:
    """HLO reduce-window."""
    return body.add(ops.REDUCE_WINDOW, operands, ops.WindowAttrs(window), shape=shape, called=[comp])


def _select_and_scatter(body: Body, op: Operation) -> Result:
    arity(op, 3)
    regions(op, 2)
    select, scatter = (body.converter.region(body, op, i) for i in range(2))
    operand, source, init = body.operands(op)
    [operand] = promoted(body, [operand], select)
    source, init = promoted(body, [source, init], scatter)
    ones = (1,) * operand.shape.rank
    window = read.window(op, read.ints(op, "window_dimensions", ones))
    return body.add(
        ops.SELECT_AND_SCATTER,
        [operand, source, init],
        ops.WindowAttrs(window),
        shape=body.result(op),
        called=[select, scatter],
    )


def _scatter(body: Body, op: Operation) -> Result:
    at_least(op, 3)
    regions(op, 1)
    count = len(op.results)
    if len(op.operands) != 2 * count + 1:
        raise invalid(f"{op.name} with {count} results needs {2 * count + 1} operands, has {len(op.operands)}")
    comp = body.converter.region(body, op, 0)
    entries = read.fields(op, "scatter_dimension_numbers")
    attrs = ops.ScatterAttrs(
        update_window_dims=read.field_ints(entries, "update_window_dims"),
        inserted_window_dims=read.field_ints(entries, "inserted_window_dims"),
        scatter_dims_to_operand_dims=read.field_ints(entries, "scatter_dims_to_operand_dims"),
        input_batching_dims=read.field_ints(entries, "input_batching_dims"),
        scatter_indices_batching_dims=read.field_ints(entries, "scatter_indices_batching_dims"),
        index_vector_dim=read.field_int(entries, "index_vector_dim"),
        indices_are_sorted=read.boolean(op, "indices_are_sorted"),
        unique_indices=read.boolean(op, "unique_indices"),
    )
    operands = body.operands(op)
    inputs = promoted(body, operands[:count], comp)
    updates = promoted(body, operands[count + 1 :], comp, count)
    return body.add(
        ops.SCATTER, [*inputs, operands[count], *updates], attrs, shape=body.packed_result(op), called=[comp]
    )


def _sort(body: Body, op: Operation) -> Result:
    at_least(op, 1)
    regions(op, 1)
    operands = body.operands(op)
    dim = read.integer(op, "dimension", -1)
    attrs = ops.SortAttrs(dim if dim >= 0 else dim + operands[0].shape.rank, read.boolean(op, "is_stable"))
    comp = body.converter.region(body, op, 0)
    return body.add(ops.SORT, operands, attrs, shape=body.packed_result(op), called=[comp])


def _map(body: Body, op: Operation) -> Result:
    at_least(op, 1)
    regions(op, 1)
    comp = body.converter.region(body, op, 0)
    attrs = ops.DimensionsAttrs(read.ints(op, "dimensions"))
    return body.add(ops.MAP, body.operands(op), attrs, shape=body.result(op), called=[comp])


# -- transforms and solvers ------------------------------------------------------------------------------------


def _fft(body: Body, op: Operation) -> Result:
    arity(op, 1)
    attrs = ops.FftAttrs(read.enum(op, "fft_type", FFT_TYPES), read.ints(op, "fft_length"))
    return body.add(ops.FFT, body.operands(op), attrs, shape=body.result(op))


def _cholesky(body: Body, op: Operation) -> Result:
    arity(op, 1)
    attrs = ops.CholeskyAttrs(read.boolean(op, "lower"))
    return body.add(ops.CHOLESKY, body.operands(op), attrs, shape=body.result(op))


def _triangular_solve(body: Body, op: Operation) -> Result:
    arity(op, 2)
    attrs = ops.TriangularSolveAttrs(
        read.boolean(op, "left_side"),
        read.boolean(op, "lower"),
        read.boolean(op, "unit_diagonal"),
        read.enum(op, "transpose_a", TRANSPOSES),
    )
    return body.add(ops.TRIANGULAR_SOLVE, body.operands(op), attrs, shape=body.result(op))


def _batch_norm(body: Body, op: Operation) -> Result:
    target, count, results = {
        "stablehlo.batch_norm_training": (ops.BATCH_NORM_TRAINING, 3, 3),
        "stablehlo.batch_norm_inference": (ops.BATCH_NORM_INFERENCE, 5, 1),
        "stablehlo.batch_norm_grad": (ops.BATCH_NORM_GRAD, 5, 3),
    }[op.name]
    arity(op, count, results)
    attrs = ops.BatchNormAttrs(read.floating(op, "epsilon"), read.integer(op, "feature_index"))
    return body.add(target, body.operands(op), attrs, shape=body.packed_result(op))


# -- random numbers --------------------------------------------------------------------------------------------


def _rng(body: Body, op: Operation) -> Result:
    """The shape operand is what the result type says already."""
    arity(op, 3)
    attrs = ops.RngAttrs(read.enum(op, "rng_distribution", DISTRIBUTIONS))
    return body.add(ops.RNG, body.operands(op)[:2], attrs, shape=body.result(op))


def _rng_bit_generator(body: Body, op: Operation) -> Result:
    arity(op, 1, 2)
    attrs = ops.RngBitGeneratorAttrs(read.enum(op, "rng_algorithm", ALGORITHMS, RandomAlgorithm.DEFAULT))
    return body.add(ops.RNG_BIT_GENERATOR, body.operands(op), attrs, shape=body.packed_result(op))


# -- chlo operations that are HLO opcodes ----------------------------------------------------------------------


def _top_k(body: Body, op: Operation) -> Result:
    arity(op, 1, 2)
    attrs = ops.TopKAttrs(read.integer(op, "k"), read.boolean(op, "largest", True))
    return body.add(ops.TOPK, body.operands(op), attrs, shape=body.packed_result(op))


def _ragged_dot(body: Body, op: Operation) -> Result:
    arity(op, 3)
    entries = read.fields(op, "ragged_dot_dimension_numbers")
    attrs = ops.RaggedDotAttrs(
        read.field_ints(entries, "lhs_batching_dimensions"),
        read.field_ints(entries, "lhs_contracting_dimensions"),
        read.field_ints(entries, "rhs_batching_dimensions"),
        read.field_ints(entries, "rhs_contracting_dimensions"),
        read.field_ints(entries, "lhs_ragged_dimensions"),
        read.field_ints(entries, "rhs_group_dimensions"),
        read.precision(op),
    )
    return body.add(ops.RAGGED_DOT, body.operands(op), attrs, shape=body.result(op))


def _scan(body: Body, op: Operation) -> Result:
    """Inputs, then carries; the results are the outputs and the final carries."""
    at_least(op, 1)
    regions(op, 1)
    sizes = read.ints(op, "operandSegmentSizes")
    if len(sizes) != 2 or sum(sizes) != len(op.operands):
        raise read.missing(op, "operandSegmentSizes", "the number of inputs and of inits")
    attrs = ops.ScanAttrs(
        read.integer(op, "dimension"), sizes[1], read.boolean(op, "is_reverse"), read.boolean(op, "is_associative")
    )
    comp = body.converter.region(body, op, 0)
    return body.add(ops.SCAN, body.operands(op), attrs, shape=body.packed_result(op), called=[comp])


RULES: dict[str, Rule] = {
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dot": _dot,
    "stablehlo.einsum": einsum,
    "stablehlo.unary_einsum": unary_einsum,
    "stablehlo.convolution": _convolution,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.scatter": _scatter,
    "stablehlo.sort": _sort,
    "stablehlo.map": _map,
    "stablehlo.fft": _fft,
    "stablehlo.cholesky": _cholesky,
    "stablehlo.triangular_solve": _triangular_solve,
    "stablehlo.batch_norm_training": _batch_norm,
    "stablehlo.batch_norm_inference": _batch_norm,
    "stablehlo.batch_norm_grad": _batch_norm,
    "stablehlo.rng": _rng,
    "stablehlo.rng_bit_generator": _rng_bit_generator,
    "chlo.top_k": _top_k,
    "chlo.scan": _scan,
    "chlo.ragged_dot": _ragged_dot,
}
