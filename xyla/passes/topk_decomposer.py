"""top-k as a sort and slices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection, ComparisonType
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Expander, Val
from xyla.passes.total_order import total_order_key_of
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import S32, ElementType


@register
@dataclass(frozen=True, slots=True)
class TopkDecomposer(Expander):
    """Replaces topk, and custom calls of "TopK", by a stable sort with positions, sliced.

    Exact: floats in total order, equal elements by position.

        ROOT t = (f32[8,5], s32[8,5]) topk(f32[8,99] x), k=5, largest=true
          ==>  s = (f32[8,99], s32[8,99]) sort(x, iota), dimensions={1}, is_stable=true, to_apply=greater
               ROOT t = (f32[8,5], s32[8,5]) tuple(slice(s.0), slice(s.1))
    """

    name: ClassVar[str] = "topk-decomposer"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The ops and their rules."""
        return {ops.TOPK: topk_to_sort, ops.CUSTOM_CALL: custom_call_to_sort}


def topk_to_sort(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """topk(x) = (sort(x, iota).0[:k], sort(x, iota).1[:k])."""
    return _expand(inst, rw, inst.attrs.k, inst.attrs.largest)


def custom_call_to_sort(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """custom-call "TopK"(x) = topk(x), by the direction of its comparator."""
    if inst.attrs.custom_call_target != "TopK" or len(inst.operands) != 1 or not _is_topk(inst.shape):
        return None
    largest = True
    if inst.called:
        direction = _direction(inst.called[0])
        if direction is None:
            return None
        largest = direction
    return _expand(inst, rw, inst.shape.tuple_shapes[0].dims[-1], largest)


def _direction(comp: Computation) -> bool | None:
    """Whether a comparator puts the largest of its first operand first (False: the smallest), in total order."""
    root = comp.root
    ways = {ComparisonDirection.GT: True, ComparisonDirection.LT: False}
    if root.op is not ops.COMPARE or root.attrs.direction not in ways:
        return None
    keys = [total_order_key_of(side) or side for side in root.operands]
    is_key = keys[0] is not root.operands[0]
    total = is_key or root.attrs.type is ComparisonType.TOTALORDER or not keys[0].shape.element_type.is_float
    if not total or keys[:2] != comp.parameters[:2]:
        return None
    return ways[root.attrs.direction]


def _is_topk(shape: Shape) -> bool:
    return len(shape.tuple_shapes) == 2 and shape.tuple_shapes[1].element_type is S32


def _expand(inst: Instruction, rw: Rewrite, k: int, largest: bool) -> Instruction | None:
    shape = inst.operands[0].shape
    if shape.is_dynamic or shape.dims[-1] > 2**31 - 1:
        return None
    rw.permit()
    b = Builder(rw)
    x, dim = b.val(inst.operands[0]), shape.rank - 1
    iota = b.iota(S32, x.dims, dim)
    called = [_comparator(b, x.et, "GT" if largest else "LT")]
    both = b.apply(ops.SORT, x, iota, attrs=ops.SortAttrs(dim, True), called=called)
    parts = [both.element(i).slice_dim(dim, 0, k) for i in (0, 1)]
    return b.tuple(parts).inst


def _comparator(b: Builder, et: ElementType, direction: str) -> Computation:
    """(x, y, i, j) -> x direction y, floats in total order."""
    inner = b.inner("compare")
    x, y, *_ = (inner.parameter(Shape.array(t, ())) for t in (et, et, S32, S32))
    answer: Val = x.compare(direction, y, ComparisonType.TOTALORDER if et.is_float else None)
    return inner.finish(answer)
