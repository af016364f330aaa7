"""Which calls of `xla.gpu.gemm` the engines do by BLAS themselves, without a handler."""

from __future__ import annotations

from xyla.codegen.kernels.gemm import DotDims, product_of
from xyla.hlo.shape import Layout, Shape
from xyla.runtime.custom_calls import attributes_of
from xyla.runtime.library_calls.matrix_products import check_dimensions
from xyla.runtime.program import ArrayType, CustomCallStep, GemmStep
from xyla.support import dtypes


def shape_of(t: ArrayType) -> Shape | None:
    """The HLO shape of an array, or None when its strides are those of no layout."""
    shape = Shape.array(dtypes.by_numpy(t.dtype), t.dims, Layout(t.minor_to_major))
    size = t.dtype.itemsize
    same = all(n <= 1 or s == w * size for n, s, w in zip(t.dims, t.strides, shape.strides(), strict=True))
    return shape if same else None


def gemm_step(step: CustomCallStep) -> GemmStep | None:
    """The step that does `step`'s product by BLAS, or None when only the handler can.

    Raises INVALID_ARGUMENT when the attributes are not those of a gemm.
    """
    attributes = attributes_of(step)
    if len(step.inputs) != 2 or len(step.outputs) != 1:
        return None
    if (attributes["alpha_real"], attributes["alpha_imag"], attributes["beta"]) != (1.0, 0.0, 0.0):
        return None
    (a, lhs), (b, rhs), (c, out) = *step.inputs, step.outputs[0]
    shapes = [shape_of(t) for t in (lhs, rhs, out)]
    dims = DotDims(
        attributes["lhs_batching_dimensions"],
        attributes["rhs_batching_dimensions"],
        attributes["lhs_contracting_dimensions"],
        attributes["rhs_contracting_dimensions"],
    )
    check_dimensions(
        lhs.dims, rhs.dims, (dims.lhs_batch, dims.rhs_batch), (dims.lhs_contracting, dims.rhs_contracting), out.dims
    )
    if shapes[0] is None or shapes[1] is None or shapes[2] is None:
        return None
    call = product_of(shapes[0], shapes[1], shapes[2], dims)
    if call is None:
        return None
    first, second = (b, a) if call.swap else (a, b)
    return GemmStep(step.name, out.dtype, call, first, second, c, step)
