"""Padding rules of windows: reduce-window, convolution."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.passes.building import Builder
from xyla.passes.padding.rules import again, array, array_sizes, refuse, together
from xyla.passes.padding.twin import PAD, Measured, Padded, Twin, masked


@PAD.rule(ops.REDUCE_WINDOW)
def _reduce_window(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """Past the sizes stands what stands in the window's own padding: the initial value."""
    n = len(twins) // 2
    operands, inits = [array(t) for t in twins[:n]], [array(t).value for t in twins[n:]]
    values = [masked(b, x, list(x.sizes), i) for x, i in zip(operands, inits, strict=True)]
    new = again(b, inst, [*values, *inits])
    return together([new.element(i) for i in range(n)] if inst.shape.is_tuple else [new], sizes)


@PAD.rule(ops.CONVOLUTION)
def _convolution(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """Past the sizes of spatial and input feature dimensions stands zero; batches and output features follow along."""
    x, kernel = (array(t) for t in twins)
    a, d = inst.attrs, inst.attrs.dim_labels
    grouped = a.feature_group_count != 1 or a.batch_group_count != 1
    features = (d.input_feature in x.sizes, d.kernel_input_feature in kernel.sizes)
    if features[0] != features[1]:
        raise refuse(inst, "only one of both input feature dimensions is dynamic")
    if grouped and (features[0] or d.input_batch in x.sizes or d.kernel_output_feature in kernel.sizes):
        raise refuse(inst, "groups over a dynamic dimension")
    values = [masked(b, x, [d.input_feature, *d.input_spatial], 0), masked(b, kernel, [d.kernel_input_feature], 0)]
    return Padded(again(b, inst, values), array_sizes(sizes))
