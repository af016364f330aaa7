"""Convolutions: padding that belongs to the window."""

from __future__ import annotations

from dataclasses import replace

from xyla.hlo import ops
from xyla.hlo.attr_types import PaddingDim, Window
from xyla.hlo.module import Instruction
from xyla.passes.algebraic_simplifier.common import either_zero, single_user, when
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


TABLE = rule_table(
    ([ops.CONVOLUTION], (convolution_empty, convolution_of_pad, convolution_of_padded_kernel)),
)
