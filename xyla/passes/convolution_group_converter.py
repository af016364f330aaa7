"""Grouped convolutions as plain ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule


@register
@dataclass(frozen=True, slots=True)
class ConvolutionGroupConverter(Expander):
    """Turns batch groups into feature groups, and feature groups (up to `max_groups`) into one convolution a group.

    Exact, also with infinities: no zero-filled kernel is multiplied in, as XLA's filter expansion does.

        ROOT c = convolution(x, k), feature_group_count=2
          ==>  ROOT r = concatenate(convolution(x[first half], k[first half]), convolution(x[second half], ...))
    """

    name: ClassVar[str] = "convolution-group-converter"
    convert_batch_groups_only: bool = False
    max_groups: int = 64

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""

        def split_groups(inst: Instruction, rw: Rewrite) -> Instruction | None:
            """convolution of groups = concatenate(convolution of each group)."""
            if inst.attrs.batch_group_count > 1:
                rw.permit()
                new = batch_to_feature_groups(Builder(rw), inst)
                return new if self.convert_batch_groups_only else split_feature_groups(new, rw, self.max_groups) or new
            return None if self.convert_batch_groups_only else split_feature_groups(inst, rw, self.max_groups)

        return {ops.CONVOLUTION: split_groups}


def batch_to_feature_groups(b: Builder, inst: Instruction) -> Instruction:
    """The batch's groups moved in front of the input features: group g of the batch meets group g of the kernel."""
    a, d = inst.attrs, inst.attrs.dim_labels
    groups, x = a.batch_group_count, b.val(inst.operands[0])
    split: list[int] = []
    places: dict[int, int] = {}
    for dim, size in enumerate(x.dims):
        places[dim] = len(split)
        split.extend([groups, size // groups] if dim == d.input_batch else [size])
    order: list[int] = []
    for dim in range(len(x.dims)):
        if dim == d.input_batch:
            order.append(places[dim] + 1)
        elif dim == d.input_feature:
            order.extend([places[d.input_batch], places[dim]])
        else:
            order.append(places[dim])
    final = list(x.dims)
    final[d.input_batch] //= groups
    final[d.input_feature] *= groups
    moved = x.reshape(*split).transpose(*order).reshape(*final)
    attrs = replace(a, batch_group_count=1, feature_group_count=groups)
    return b.apply(ops.CONVOLUTION, moved, b.val(inst.operands[1]), attrs=attrs, shape=inst.shape).inst


def split_feature_groups(inst: Instruction, rw: Rewrite, most: int) -> Instruction | None:
    """One convolution a group, joined along the output features."""
    a, d = inst.attrs, inst.attrs.dim_labels
    groups = a.feature_group_count
    if not 1 < groups <= most:
        return None
    rw.permit()
    b = Builder(rw)
    x, k = b.vals(inst.operands)
    inputs, outputs = x.dims[d.input_feature] // groups, k.dims[d.kernel_output_feature] // groups
    attrs = replace(a, feature_group_count=1)
    dims = list(inst.shape.dims)
    dims[d.output_feature] //= groups
    parts = [
        b.apply(
            ops.CONVOLUTION,
            x.slice_dim(d.input_feature, g * inputs, (g + 1) * inputs),
            k.slice_dim(d.kernel_output_feature, g * outputs, (g + 1) * outputs),
            attrs=attrs,
            shape=inst.shape.with_dims(dims),
        )
        for g in range(groups)
    ]
    return b.concat(parts, d.output_feature).inst
