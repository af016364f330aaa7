"""Convolutions with four spatial dimensions, some of them trivial, as ones with fewer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.attr_types import ConvDims, Window
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander, Val
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule


@register
@dataclass(frozen=True, slots=True)
class Convolution4DExpander(Expander):
    """Drops the spatial dimensions of size one (in input, kernel and result, unpadded) of a 4D convolution.

    ROOT c = f32[15,1,9,1,7,5] convolution(f32[1,10,1,10,5,20] x, f32[20,1,2,1,4,15] k), dim_labels=0123bf_...
      ==>  c = f32[15,9,7,5] convolution(reshape(x), reshape(k)), dim_labels=01bf_i01o->f01b
           ROOT r = f32[15,1,9,1,7,5] reshape(c)
    """

    name: ClassVar[str] = "convolution-4d-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.CONVOLUTION: drop_trivial_spatial_dims}


def drop_trivial_spatial_dims(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convolution over (1, a, 1, b) = convolution over (a, b)."""
    a = inst.attrs
    spatial = len(a.dim_labels.input_spatial)
    if spatial != 4:
        return None
    dropped = {i for i in range(spatial) if _is_trivial(inst, i)}
    if not dropped:
        return None
    rw.permit()
    b, d = Builder(rw), a.dim_labels
    gone = [{dims[i] for i in dropped} for dims in (d.input_spatial, d.kernel_spatial, d.output_spatial)]
    operands = [_without(v, g) for v, g in zip(b.vals(inst.operands), gone, strict=False)]
    window = Window(tuple(w for i, w in enumerate(a.window.dims) if i not in dropped))
    attrs = replace(a, window=window, dim_labels=_renumber(d, dropped, gone))
    shape = inst.shape.with_dims([s for i, s in enumerate(inst.shape.dims) if i not in gone[2]])
    return b.apply(ops.CONVOLUTION, *operands, attrs=attrs, shape=shape).reshape(*inst.shape.dims).inst


def _is_trivial(inst: Instruction, i: int) -> bool:
    d, w = inst.attrs.dim_labels, inst.attrs.window.dims[i]
    sizes = (
        inst.operands[0].shape.dims[d.input_spatial[i]],
        inst.operands[1].shape.dims[d.kernel_spatial[i]],
        inst.shape.dims[d.output_spatial[i]],
    )
    # Padding could move the one output element off the one input element.
    return sizes == (1, 1, 1) and w.pad_low == w.pad_high == 0


def _without(x: Val, gone: set[int]) -> Val:
    return x.reshape(*[s for i, s in enumerate(x.dims) if i not in gone])


def _renumber(d: ConvDims, dropped: set[int], gone: list[set[int]]) -> ConvDims:
    def new(side: int, dim: int) -> int:
        return dim - sum(g < dim for g in gone[side])

    def kept(side: int, dims: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(new(side, s) for i, s in enumerate(dims) if i not in dropped)

    return ConvDims(
        input_batch=new(0, d.input_batch),
        input_feature=new(0, d.input_feature),
        input_spatial=kept(0, d.input_spatial),
        kernel_input_feature=new(1, d.kernel_input_feature),
        kernel_output_feature=new(1, d.kernel_output_feature),
        kernel_spatial=kept(1, d.kernel_spatial),
        output_batch=new(2, d.output_batch),
        output_feature=new(2, d.output_feature),
        output_spatial=kept(2, d.output_spatial),
    )
