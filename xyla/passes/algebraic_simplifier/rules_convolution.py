"""Convolutions: padding that belongs to the window."""

from __future__ import annotations

import math
from dataclasses import replace

from xyla.hlo import ops
from xyla.hlo.attr_types import ConvDims, PaddingDim, Window, WindowDim
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.passes.algebraic_simplifier.common import (
    broadcast,
    either_zero,
    is_constant,
    kept,
    logical,
    reshape,
    scalar_splat,
    single_user,
    transpose,
    when,
)
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, rule_table


def convolution_empty(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convolution(x, k) = 0, where an operand has no elements."""
    if all(o.shape.num_elements for o in inst.operands):
        return None
    return rw.splat(0, inst.shape)


@when("enable_conv_simplification")
def convolution_of_pad(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convolution(pad(x, 0), k) = convolution(x, k), spatial edges and interior moved into the window."""
    source = inst.operands[0]
    if source.op is not ops.PAD or not either_zero(source.operands[1]) or not single_user(source):
        return None
    spatial = inst.attrs.dim_labels.input_spatial
    padding = source.attrs.padding
    if any(p != PaddingDim(0, 0, 0) for d, p in enumerate(padding) if d not in spatial):
        return None
    dims = list(inst.attrs.window.dims)
    for i, d in enumerate(spatial):
        w, p = dims[i], padding[d]
        # A negative edge crops before any padding is added, so only what grows may be joined.
        if min(p.low, p.high, w.pad_low, w.pad_high) < 0 or (p.interior and w.lhs_dilate != 1):
            return None
        if source.operands[0].shape.dims[d] == 0:
            return None
        dims[i] = replace(
            w,
            pad_low=w.pad_low + p.low * w.lhs_dilate,
            pad_high=w.pad_high + p.high * w.lhs_dilate,
            lhs_dilate=w.lhs_dilate * (p.interior + 1),
        )
    attrs = replace(inst.attrs, window=Window(tuple(dims)))
    operands = [source.operands[0], inst.operands[1]]
    return rw.add(ops.CONVOLUTION, operands, attrs, shape=inst.shape.without_layout())


@value_changing(Fp.FAST, "zeros inside a kernel become dilation: they no longer meet infinities")
@when("enable_conv_simplification")
def convolution_of_padded_kernel(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convolution(x, pad(k, 0)) = convolution(x, k) with a dilated window, for interior padding only."""
    kernel = inst.operands[1]
    if kernel.op is not ops.PAD or not either_zero(kernel.operands[1]) or not single_user(kernel):
        return None
    spatial = inst.attrs.dim_labels.kernel_spatial
    dims = list(inst.attrs.window.dims)
    for d, p in enumerate(kernel.attrs.padding):
        if p.low or p.high or (p.interior and d not in spatial):
            return None
    for i, d in enumerate(spatial):
        interior = kernel.attrs.padding[d].interior
        if interior and dims[i].rhs_dilate != 1:
            return None
        size = kernel.operands[0].shape.dims[d]
        dims[i] = replace(dims[i], size=size, rhs_dilate=dims[i].rhs_dilate * (interior + 1))
    attrs = replace(inst.attrs, window=Window(tuple(dims)))
    operands = [inst.operands[0], kernel.operands[0]]
    return rw.add(ops.CONVOLUTION, operands, attrs, shape=inst.shape.without_layout())


@logical
@when("enable_conv_to_dot")
def convolution_to_dot(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convolution(x, k) = dot(x, k), transposed, for windows of one element that take every element of x once."""
    x, kernel = inst.operands
    a, d = inst.attrs, inst.attrs.dim_labels
    if a.feature_group_count != 1 or a.batch_group_count != 1:
        return None
    if any((w.size, w.stride, w.pad_low, w.pad_high, w.lhs_dilate) != (1, 1, 0, 0, 1) for w in a.window.dims):
        return None
    sizes = [kernel.shape.dims[d.kernel_input_feature], kernel.shape.dims[d.kernel_output_feature]]
    into_out = d.kernel_input_feature < d.kernel_output_feature
    matrix = reshape(rw, kernel, sizes if into_out else sizes[::-1])
    numbers = ops.DotAttrs((), (d.input_feature,), (), (0 if into_out else 1,), a.operand_precision)
    own = kept(x.shape.rank, (d.input_feature,))
    dims = [*(x.shape.dims[i] for i in own), sizes[1]]
    dot = rw.add(ops.DOT, [x, matrix], numbers, shape=Shape.array(inst.shape.element_type, dims))
    order = [0] * x.shape.rank
    order[d.output_batch], order[d.output_feature] = own.index(d.input_batch), len(own)
    for source, result in zip(d.input_spatial, d.output_spatial, strict=True):
        order[result] = own.index(source)
    return transpose(rw, dot, order)


@value_changing(Fp.FAST, "the other operand is padded: other elements meet the padding's zeros")
@when("enable_conv_operand_swap")
def convolution_swap(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convolution(x, k) = convolution(reverse(k), x), where the kernel is spatially larger than the input."""
    x, kernel = inst.operands
    a, d = inst.attrs, inst.attrs.dim_labels
    dims = a.window.dims
    if a.feature_group_count != 1 or a.batch_group_count != 1 or any(w.stride != 1 for w in dims):
        return None
    sizes = [x.shape.dims[i] for i in d.input_spatial]
    if math.prod(w.size for w in dims) <= math.prod(sizes) or inst.shape.num_elements == 0:
        return None
    swapped = []
    for w, size in zip(dims, sizes, strict=True):
        shift = (size - 1) * w.lhs_dilate + 1 - w.dilated_size
        if min(w.pad_low, w.pad_high, w.pad_low + shift, w.pad_high + shift) < 0:
            return None
        swapped.append(
            WindowDim(size, 1, w.pad_low + shift, w.pad_high + shift, w.rhs_dilate, w.lhs_dilate, reversal=True)
        )
    mirrored = tuple(k for k, w in zip(d.kernel_spatial, dims, strict=True) if not w.reversal and w.size > 1)
    base = rw.add(ops.REVERSE, [kernel], ops.DimensionsAttrs(mirrored)) if mirrored else kernel
    attrs = replace(
        a,
        window=Window(tuple(swapped)),
        dim_labels=_swapped_labels(d),
        operand_precision=a.operand_precision[::-1],
    )
    return rw.add(ops.CONVOLUTION, [base, x], attrs, shape=inst.shape.without_layout())


def _swapped_labels(d: ConvDims) -> ConvDims:
    return ConvDims(
        input_batch=d.kernel_output_feature,
        input_feature=d.kernel_input_feature,
        input_spatial=d.kernel_spatial,
        kernel_input_feature=d.input_feature,
        kernel_output_feature=d.input_batch,
        kernel_spatial=d.input_spatial,
        output_batch=d.output_feature,
        output_feature=d.output_batch,
        output_spatial=d.output_spatial,
    )


@value_changing(Fp.FAST, "a factor of each output feature moves into the kernel: overflows elsewhere")
@when("enable_conv_simplification")
def multiply_convolution(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(convolution(x, k) + b) * c = convolution(x, k * c) + b * c, for constant k and a c of the output features."""
    for total, factor in (inst.operands, inst.operands[::-1]):
        if total.op is not ops.ADD or not single_user(total) or factor.op is not ops.BROADCAST:
            continue
        for conv, bias in (total.operands, total.operands[::-1]):
            if conv.op is not ops.CONVOLUTION or not single_user(conv) or not is_constant(conv.operands[1]):
                continue
            d = conv.attrs.dim_labels
            if factor.attrs.dimensions != (d.output_feature,) or factor.operands[0].op is not ops.CONSTANT:
                continue
            kernel = conv.operands[1]
            scale = broadcast(rw, factor.operands[0], [d.kernel_output_feature], kernel.shape)
            operands = [conv.operands[0], rw.binary(ops.MULTIPLY, kernel, scale)]
            scaled = rw.add(ops.CONVOLUTION, operands, conv.attrs, shape=conv.shape.without_layout())
            return rw.binary(ops.ADD, scaled, rw.binary(ops.MULTIPLY, bias, factor))
    return None


@value_changing(Fp.FAST, "a scalar factor moves behind the sum of products: overflows elsewhere")
@when("enable_scalar_multiply_reduction")
def scalar_behind_contraction(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(x * broadcast(s), y) = dot(x, y) * broadcast(s), where the result is smaller; convolutions too."""
    for side, o in enumerate(inst.operands[:2]):
        if o.op is not ops.MULTIPLY or o.shape.num_elements <= inst.shape.num_elements or not single_user(o):
            continue
        for x, factor in (o.operands, o.operands[::-1]):
            scalar = scalar_splat(factor)
            if scalar is None or scalar.shape.element_type is not inst.shape.element_type:
                continue
            operands = [x if i == side else other for i, other in enumerate(inst.operands)]
            plain = rw.add(inst.op, operands, inst.attrs, shape=inst.shape.without_layout())
            return rw.binary(ops.MULTIPLY, plain, broadcast(rw, scalar, (), inst.shape))
    return None


TABLE = rule_table(
    (
        [ops.CONVOLUTION],
        (convolution_empty, convolution_of_pad, convolution_of_padded_kernel, convolution_to_dot, convolution_swap),
    ),
    ([ops.CONVOLUTION, ops.DOT], (scalar_behind_contraction,)),
    ([ops.MULTIPLY], (multiply_convolution,)),
)
