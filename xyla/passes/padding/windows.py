"""Padding rules of windows: reduce-window, convolution."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.hlo import ops
from xyla.hlo.attr_types import WindowDim
from xyla.hlo.module import Instruction
from xyla.passes.building import Builder, Val
from xyla.passes.padding.rules import again, array, refuse
from xyla.passes.padding.twin import PAD, Padded, Twin, masked


def windowed_size(b: Builder, w: WindowDim, size: Val) -> Val:
    """How many windows a dimension of `size` elements has (s32[])."""
    dilated = b.maximum((size - 1) * w.lhs_dilate + 1, 0)
    room = dilated + (w.pad_low + w.pad_high - w.dilated_size)
    count = b.binary(ops.DIVIDE, b.maximum(room, 0), w.stride) + 1
    return b.select(room.lt(0), 0, count)


@PAD.rule(ops.REDUCE_WINDOW)
def _reduce_window(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """Past the sizes stands what stands in the window's own padding: the initial value."""
    n = len(twins) // 2
    operands, inits = [array(t) for t in twins[:n]], [array(t).value for t in twins[n:]]
    sizes = {d: s for x in reversed(operands) for d, s in x.sizes.items()}
    values = [masked(b, x, list(x.sizes), i) for x, i in zip(operands, inits, strict=True)]
    new = again(b, inst, [*values, *inits])
    out = {d: windowed_size(b, inst.attrs.window.dims[d], s) for d, s in sizes.items()}
    return [Padded(new.element(i), out) for i in range(n)] if inst.shape.is_tuple else Padded(new, out)


@PAD.rule(ops.CONVOLUTION)
def _convolution(b: Builder, inst: Instruction, twins: Sequence[Twin]) -> Twin:
    """Past the sizes of spatial and input feature dimensions stands zero; batches and output features follow along."""
    x, kernel = (array(t) for t in twins)
    a, d = inst.attrs, inst.attrs.dim_labels
    grouped = a.feature_group_count != 1 or a.batch_group_count != 1
    features = (d.input_feature in x.sizes, d.kernel_input_feature in kernel.sizes)
    if any(k in kernel.sizes for k in d.kernel_spatial):
        raise refuse(inst, "a kernel of dynamic spatial size")
    if features[0] != features[1]:
        raise refuse(inst, "only one of both input feature dimensions is dynamic")
    if grouped and (features[0] or d.input_batch in x.sizes or d.kernel_output_feature in kernel.sizes):
        raise refuse(inst, "groups over a dynamic dimension")
    sizes: dict[int, Val] = {}
    if d.input_batch in x.sizes:
        sizes[d.output_batch] = x.sizes[d.input_batch]
    if d.kernel_output_feature in kernel.sizes:
        sizes[d.output_feature] = kernel.sizes[d.kernel_output_feature]
    for source, target, w in zip(d.input_spatial, d.output_spatial, a.window.dims, strict=True):
        if source in x.sizes:
            sizes[target] = windowed_size(b, w, x.sizes[source])
    values = [masked(b, x, [d.input_feature, *d.input_spatial], 0), masked(b, kernel, [d.kernel_input_feature], 0)]
    return Padded(again(b, inst, values), sizes)
