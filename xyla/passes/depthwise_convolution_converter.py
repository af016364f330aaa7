"""Depthwise convolutions as element-wise work."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander, Val
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import F32, F64, ElementType


@register
@dataclass(frozen=True, slots=True)
class DepthwiseConvolutionConverter(Expander):
    """Computes a convolution in which each input feature has its own kernel as a sum of shifted products.

    Wanted where a target's convolution is a matrix product: that has nothing to do here. Kernels of more than
    `max_window` positions stay. Exact: sums are formed one type wider, as the evaluator forms them.

        ROOT r = f32[1,6,8] convolution(x f32[1,8,8], k f32[3,1,8]), feature_group_count=8
          ==>  x[0:6] * k[0] + x[1:7] * k[1] + x[2:8] * k[2]
    """

    name: ClassVar[str] = "depthwise-convolution-converter"
    max_window: int = 64

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""

        def depthwise_as_products(inst: Instruction, rw: Rewrite) -> Instruction | None:
            """conv(x, k) = sum over window positions p of shift(x, p) * k[p], feature by feature."""
            if not is_depthwise(inst) or math.prod(w.size for w in inst.attrs.window.dims) > self.max_window:
                return None
            rw.permit()
            return _sum_of_products(Builder(rw), inst).inst

        return {ops.CONVOLUTION: depthwise_as_products}


def is_depthwise(inst: Instruction) -> bool:
    """Whether each input feature of a convolution of static shape is a group of its own, and there are several."""
    a, shapes = inst.attrs, [inst.shape, *(o.shape for o in inst.operands)]
    if any(s.is_dynamic or s.element_type.is_complex for s in shapes) or a.batch_group_count != 1:
        return False
    groups: int = a.feature_group_count
    return groups > 1 and inst.operands[0].shape.dims[a.dim_labels.input_feature] == groups


def _work_type(inst: Instruction) -> ElementType:
    """The type of the sum: wider than f32 and narrower floats, so that nothing overflows on the way to the result."""
    et = inst.shape.element_type
    if not et.is_float:
        return et
    return F64 if any(s.element_type.bits >= 32 for s in (inst.shape, *(o.shape for o in inst.operands))) else F32


def _sum_of_products(b: Builder, inst: Instruction) -> Val:
    a, labels, et = inst.attrs, inst.attrs.dim_labels, _work_type(inst)
    dims = inst.shape.dims
    x, kernel = (b.val(o).convert(et) for o in inst.operands)
    spread = _features(b, _in_result_order(x, inst), inst)
    edges = [(0, 0, 0)] * len(dims)
    for place, w in zip(labels.output_spatial, a.window.dims, strict=True):
        edges[place] = (w.pad_low, w.pad_high, w.lhs_dilate - 1)
    padded = b.pad(spread, 0, edges)
    # A sum begins with 0: what adds nothing but -0 gives 0.
    total = b.full(0, et, dims)
    if inst.shape.num_elements:
        for position in itertools.product(*(range(w.size) for w in a.window.dims)):
            part = _shifted(padded, inst, position) * _weights(kernel, inst, position).broadcast(
                dims, [labels.output_feature]
            )
            total = total + part
    return total.convert(inst.shape.element_type)


def _in_result_order(x: Val, inst: Instruction) -> Val:
    """The input with its dimensions where the result has them."""
    d = inst.attrs.dim_labels
    order = [0] * len(x.dims)
    sources = (d.input_batch, d.input_feature, *d.input_spatial)
    for place, source in zip((d.output_batch, d.output_feature, *d.output_spatial), sources, strict=True):
        order[place] = source
    return x.transpose(*order)


def _features(b: Builder, x: Val, inst: Instruction) -> Val:
    """Each feature repeated for every kernel that it has."""
    at = inst.attrs.dim_labels.output_feature
    times = inst.shape.dims[at] // x.dims[at]
    if times == 1:
        return x
    wide = (*x.dims[: at + 1], times, *x.dims[at + 1 :])
    spread = x.broadcast(wide, [d for d in range(len(wide)) if d != at + 1])
    return spread.reshape(*x.dims[:at], x.dims[at] * times, *x.dims[at + 1 :])


def _shifted(x: Val, inst: Instruction, position: tuple[int, ...]) -> Val:
    """What meets one position of the window."""
    starts, limits, strides = [0] * len(x.dims), list(x.dims), [1] * len(x.dims)
    places = inst.attrs.dim_labels.output_spatial
    for place, w, p in zip(places, inst.attrs.window.dims, position, strict=True):
        starts[place] = p * w.rhs_dilate
        limits[place] = starts[place] + (inst.shape.dims[place] - 1) * w.stride + 1
        strides[place] = w.stride
    return x.slice(starts, limits, strides)


def _weights(kernel: Val, inst: Instruction, position: tuple[int, ...]) -> Val:
    """The kernel at one position, a number for each output feature."""
    d = inst.attrs.dim_labels
    starts, limits = [0] * len(kernel.dims), list(kernel.dims)
    for place, w, p in zip(d.kernel_spatial, inst.attrs.window.dims, position, strict=True):
        starts[place] = w.size - 1 - p if w.reversal else p
        limits[place] = starts[place] + 1
    return kernel.slice(starts, limits).reshape(kernel.dims[d.kernel_output_feature])
