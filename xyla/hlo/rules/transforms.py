"""Rules of fft, cholesky, triangular-solve, batch norms and random numbers.

Source: XLA operation semantics, one section an op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xyla.hlo.op_def import Attrs
from xyla.hlo.rules.common import (
    COMPLEX,
    FLOATS,
    bare,
    dims_match,
    higher_precision,
    need_array,
    need_arrays,
    need_dim,
    same_but_precision,
    wrong_operand,
)
from xyla.hlo.shape import UNBOUNDED, Shape
from xyla.support.dtypes import C64, C128, F32, U64, ElementType
from xyla.support.status import invalid

if TYPE_CHECKING:
    from xyla.hlo.module import Computation, Instruction
    from xyla.hlo.ops.compute import BatchNormAttrs, FftAttrs

_STATE = Shape.array(U64, (2,))


def fft_shape(shapes: Sequence[Shape], attrs: FftAttrs, called: Sequence[Computation]) -> Shape:
    """fft: same dims; RFFT keeps n // 2 + 1 of the last one, IRFFT restores n."""
    shape, length = need_array(shapes), attrs.fft_length
    kind = attrs.fft_type.value
    if not 1 <= len(length) <= 3 or len(length) > shape.rank:
        raise invalid(f"fft_length has {len(length)} entries, expected 1 to {min(3, shape.rank)}")
    et = shape.element_type
    if kind == "RFFT":
        if et not in FLOATS or et.bits < 32:
            raise wrong_operand(0, shape, "an f32 or f64 array")
        _check_lengths(shape, length, length[-1])
        return _with_last(shape, C64 if et is F32 else C128, length[-1] // 2 + 1 if length[-1] else 0)
    if et not in COMPLEX:
        raise wrong_operand(0, shape, "a complex array")
    if kind == "IRFFT":
        _check_lengths(shape, length, length[-1] // 2 + 1 if length[-1] else 0)
        return _with_last(shape, et.component, length[-1])
    # As XLA does, a plain transform takes its extents from the operand whatever fft_length says.
    return bare(shape)


def _check_lengths(shape: Shape, length: tuple[int, ...], last: int) -> None:
    wants = (*length[:-1], last)
    for i, want in enumerate(wants):
        dim = shape.rank - len(wants) + i
        if shape.dims[dim] not in (want, UNBOUNDED):
            raise wrong_operand(0, shape, f"size {want} in dimension {dim}")


def _with_last(shape: Shape, et: ElementType, size: int) -> Shape:
    return Shape.array(et, (*shape.dims[:-1], size), None, shape.dynamic)


def _need_matrices(shapes: Sequence[Shape], index: int) -> Shape:
    shape = need_array(shapes, index)
    if shape.element_type not in FLOATS and shape.element_type not in COMPLEX:
        raise wrong_operand(index, shape, "a floating-point or complex array")
    if shape.rank < 2:
        raise wrong_operand(index, shape, "rank 2 or more")
    return shape


def _need_square(shapes: Sequence[Shape]) -> Shape:
    shape = _need_matrices(shapes, 0)
    if shape.dims[-1] != shape.dims[-2] and UNBOUNDED not in shape.dims[-2:]:
        raise wrong_operand(0, shape, "square matrices")
    return shape


def cholesky_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """cholesky: the shape of the square matrices."""
    return bare(_need_square(shapes))


def triangular_solve_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """triangular-solve(a, b): the shape of b; batches and the shared dimension agree."""
    a, b = _need_square(shapes), _need_matrices(shapes, 1)
    if a.element_type is not b.element_type:
        raise wrong_operand(1, b, f"element type {a.element_type}")
    if a.rank != b.rank or not dims_match(_batch(a), _batch(b)):
        raise wrong_operand(1, b, f"the batch dims of {bare(a)}")
    shared = b.dims[-2] if attrs.left_side else b.dims[-1]  # type: ignore[attr-defined]
    if shared != a.dims[-1] and UNBOUNDED not in (shared, a.dims[-1]):
        raise wrong_operand(1, b, f"size {a.dims[-1]} in the dimension shared with {bare(a)}")
    if attrs.transpose_a.value == "TRANSPOSE_INVALID":  # type: ignore[attr-defined]
        raise invalid("transpose_a is not given")
    return bare(b)


def _batch(shape: Shape) -> Shape:
    return shape.with_dims(shape.dims[:-2], shape.dynamic[:-2])


def _batch_norm(shapes: Sequence[Shape], attrs: BatchNormAttrs, vectors: Sequence[int]) -> tuple[Shape, Shape]:
    """Checks (operand, per-feature vector shape); `vectors` are the operands that hold one value a feature."""
    operand = need_array(shapes)
    need_arrays(shapes)
    if operand.element_type not in FLOATS:
        raise wrong_operand(0, operand, "a floating-point array")
    need_dim("feature_index", attrs.feature_index, operand.rank)
    feature = Shape.array(operand.element_type, (operand.dims[attrs.feature_index],), None, _dyn(operand, attrs))
    et = operand.element_type
    for i in vectors:
        if not same_but_precision(shapes[i], feature):
            raise wrong_operand(i, shapes[i], feature)
        et = higher_precision(et, shapes[i].element_type)
    return bare(operand), feature.with_type(shapes[vectors[0]].element_type)


def _dyn(operand: Shape, attrs: BatchNormAttrs) -> tuple[bool, ...]:
    return (operand.dynamic[attrs.feature_index],) if operand.dynamic else ()


def batch_norm_training_shape(shapes: Sequence[Shape], attrs: BatchNormAttrs, called: Sequence[Computation]) -> Shape:
    """batch-norm-training(operand, scale, offset): (output, mean, variance)."""
    operand, feature = _batch_norm(shapes, attrs, (1, 2))
    return Shape.tuple_of([operand, feature, feature])


def batch_norm_inference_shape(shapes: Sequence[Shape], attrs: BatchNormAttrs, called: Sequence[Computation]) -> Shape:
    """batch-norm-inference(operand, scale, offset, mean, variance): the operand's shape."""
    return _batch_norm(shapes, attrs, (1, 2, 3, 4))[0]


def batch_norm_grad_shape(shapes: Sequence[Shape], attrs: BatchNormAttrs, called: Sequence[Computation]) -> Shape:
    """batch-norm-grad(operand, scale, mean, variance, grad_output): (grad operand, grad scale, grad offset)."""
    operand, feature = _batch_norm(shapes, attrs, (1, 2, 3))
    if not same_but_precision(shapes[4], operand):
        raise wrong_operand(4, shapes[4], operand)
    return Shape.tuple_of([operand, feature, feature])


def verify_rng(inst: Instruction) -> None:
    """rng(a, b), or with the dims as a third operand: a and b are scalars of the result's element type.

    Only floats are normally distributed.
    """
    if not inst.shape.is_array or inst.shape.element_type in COMPLEX:
        raise invalid(f"result is {bare(inst.shape)}, expected an array of real numbers")
    if inst.attrs.distribution.value == "rng_normal" and inst.shape.element_type not in FLOATS:
        raise invalid(f"result is {bare(inst.shape)}, expected floating-point numbers of rng_normal")
    want = Shape.array(inst.shape.element_type, ())
    for i, operand in enumerate(inst.operands[:2]):
        if not same_but_precision(operand.shape, want):
            raise wrong_operand(i, operand.shape, want)
    for i, operand in enumerate(inst.operands[2:], 2):
        if not operand.shape.element_type.is_integer or operand.shape.rank != 1:
            raise wrong_operand(i, operand.shape, "the result's dims as an integer vector")


def verify_rng_bit_generator(inst: Instruction) -> None:
    """rng-bit-generator(state): (state, bits), bits integers or floats of any dims; old texts return the bits alone."""
    state, result = inst.operands[0].shape, inst.shape
    if not result.is_tuple:
        if not result.is_array:
            raise invalid(f"result is {bare(result)}, expected bits or (state, bits)")
        return
    parts = result.tuple_shapes
    if len(parts) != 2 or not parts[1].is_array or not same_but_precision(parts[0], state):
        raise invalid(f"result is {bare(result)}, expected ({bare(state)}, bits)")


def rng_state_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """rng-get-and-update-state: u64[2]."""
    return _STATE
