"""convolution: the sum over kernel offsets of (shifted, strided input) x (kernel slice at that offset).

Memory stays bounded: no im2col matrix, one slice at a time. Spec: XLA operation semantics (Conv): negative padding
crops before windows are placed; batch groups split the batch, feature groups split the input features.
"""

from __future__ import annotations

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import Window
from xyla.hlo.module import Instruction
from xyla.interp.dot import product, to_sum_type
from xyla.interp.movement import pad
from xyla.interp.numeric import accumulator, convert
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array, Kernel
from xyla.support.dtypes import F32, F64, ElementType


@EVAL.rule(ops.CONVOLUTION)
def _convolution(inst: Instruction, session: Session) -> Kernel:
    a = inst.attrs
    dims, result = a.dim_labels, inst.shape.element_type
    types = [o.shape.element_type for o in inst.operands]
    if result.is_float:
        total = F64 if any(t.bits >= 32 for t in (result, *types)) else F32
    else:
        total = accumulator(result)
    window = a.window

    def kernel(x: Array, k: Array) -> Array:
        # x -> [batch, feature, spatial...], k -> [out feature, in feature, spatial...]
        x = to_sum_type(x, types[0], total).transpose(dims.input_batch, dims.input_feature, *dims.input_spatial)
        k = to_sum_type(k, types[1], total).transpose(
            dims.kernel_output_feature, dims.kernel_input_feature, *dims.kernel_spatial
        )
        out = convolve(x, k, window, total, a.feature_group_count, a.batch_group_count)
        place = [0] * out.ndim
        for i, d in enumerate((dims.output_batch, dims.output_feature, *dims.output_spatial)):
            place[d] = i
        out = np.transpose(out, place)
        return convert(out, total, result)

    return kernel


def convolve(x: Array, k: Array, window: Window, total: ElementType, feature_groups: int, batch_groups: int) -> Array:
    """[n, c, s...] * [o, i, k...] -> [n / batch_groups, o, out...], everything of the sum type."""
    reverse = tuple(2 + i for i, w in enumerate(window.dims) if w.reversal)
    k = np.flip(k, reverse) if reverse else k
    # pad() applies interior padding first and then crops, so negative edges need no case of their own.
    edges = [(0, 0, 0), (0, 0, 0)] + [(w.pad_low, w.pad_high, w.lhs_dilate - 1) for w in window.dims]
    x = pad(x, np.zeros((), x.dtype), edges)
    out_spatial = [
        0 if w.dilated_size > s or w.size == 0 else (s - w.dilated_size) // w.stride + 1
        for w, s in zip(window.dims, x.shape[2:], strict=True)
    ]
    n, features = x.shape[0] // batch_groups, k.shape[0]
    groups = max(feature_groups, batch_groups)
    dtype = total.np
    acc = np.zeros((groups, n * int(np.prod(out_spatial, dtype=np.int64)), features // groups), dtype)
    if acc.size and x.size and k.size:
        _accumulate(acc, x, k, window, total, (feature_groups, batch_groups), out_spatial)
    out = acc.reshape(groups, n, *out_spatial, features // groups)
    # [g, n, s..., o/g] -> [n, g, o/g, s...] -> [n, o, s...]
    rank = len(out_spatial)
    return out.transpose(1, 0, 2 + rank, *range(2, 2 + rank)).reshape(n, features, *out_spatial)


def _accumulate(
    acc: Array,
    x: Array,
    k: Array,
    window: Window,
    total: ElementType,
    grouping: tuple[int, int],
    out_spatial: list[int],
) -> None:
    feature_groups, batch_groups = grouping
    groups, rank = acc.shape[0], len(out_spatial)
    spatial = tuple(range(2, 2 + rank))
    # Channels last, group first: [g, n, s..., c/g]
    if batch_groups > 1:
        grouped = x.reshape(batch_groups, x.shape[0] // batch_groups, *x.shape[1:])
        grouped = grouped.transpose(0, 1, *[s + 1 for s in spatial], 2)
    else:
        grouped = x.reshape(x.shape[0], feature_groups, x.shape[1] // feature_groups, *x.shape[2:])
        grouped = grouped.transpose(1, 0, *[s + 1 for s in spatial], 2)
    grouped = np.ascontiguousarray(grouped)
    kernels = k.reshape(groups, k.shape[0] // groups, *k.shape[1:]).transpose(0, *[s + 1 for s in spatial], 2, 1)
    for offset in np.ndindex(*kernels.shape[1 : 1 + rank]):
        at = tuple(
            slice(o * w.rhs_dilate, o * w.rhs_dilate + (m - 1) * w.stride + 1, w.stride)
            for o, w, m in zip(offset, window.dims, out_spatial, strict=True)
        )
        part = grouped[(slice(None), slice(None), *at)].reshape(groups, acc.shape[1], -1)
        weights = kernels[(slice(None), *offset)]
        if part.shape[-1] == 1 and total.is_float:
            acc += part * weights
        else:
            acc += product(part, weights, total)
