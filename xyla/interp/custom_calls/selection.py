"""Custom calls that select: TopK, ApproxTopK (exact here), PartialReduce."""

from __future__ import annotations

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection
from xyla.hlo.module import Instruction
from xyla.interp.custom_calls.table import config, target
from xyla.interp.session import Session
from xyla.interp.sort import order_key, sort_arrays, sorter, top_k
from xyla.interp.table import Array, Kernel, Value


@target("TopK", "__gpu$TopK")
def _topk(inst: Instruction, session: Session) -> Kernel:
    """(values, s32 indices) of the k largest along the last dimension; k is the result's size."""
    et, k = inst.operands[0].shape.element_type, inst.shape.tuple_shapes[0].dims[-1]
    largest = True
    if inst.called:
        root = inst.called[0].root
        largest = root.op is not ops.COMPARE or root.attrs.direction is not ComparisonDirection.LT
    return lambda x, *rest: top_k(np.asarray(x), k, largest=largest, key=lambda v: order_key(v, et))


@target("ApproxTopK", "PartialReduce", "stablehlo.dynamic_approx_top_k")
def _approx_topk(inst: Instruction, session: Session) -> Kernel:
    """Operands (x..., init...): the first elements in the comparator's order along reduction_dim. Recall is 1 here."""
    n = len(inst.shape.tuple_shapes)
    axis = int(config(inst).get("reduction_dim", inst.shape.tuple_shapes[0].rank - 1))
    sizes = [s.dims[axis] for s in inst.shape.tuple_shapes]
    order_of = sorter(inst.called[0], session)

    def kernel(*operands: Array) -> Value:
        ordered = sort_arrays([np.asarray(x) for x in operands[:n]], axis, order_of)
        at = (slice(None),) * axis
        return tuple(x[(*at, slice(0, k))] for x, k in zip(ordered, sizes, strict=True))

    return kernel
