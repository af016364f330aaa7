"""topk as a stable sort and slices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection, ComparisonType
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Expander
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import S32, ElementType


@register
@dataclass(frozen=True, slots=True)
class TopkDecomposer(Expander):
    """Turns topk (and the custom call `TopK`) into a sort in total order, and slices of its first k elements.

    Where only the values are used, only they are sorted.

        ROOT t = (f32[8,3], s32[8,3]) topk(f32[8,9] x), k=3, largest=true
          ==>  s = (f32[8,9], s32[8,9]) sort(x, iota), dimensions={1}, is_stable=true, to_apply=greater
               ROOT r = (f32[8,3], s32[8,3]) tuple(s.0[:, 0:3], s.1[:, 0:3])
    """

    name: ClassVar[str] = "topk-decomposer"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The ops and their rule."""
        return {ops.TOPK: decompose_topk, ops.CUSTOM_CALL: decompose_topk_call}


def decompose_topk(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """topk(x) = the first k of sort(x, iota)."""
    return _decompose(inst, rw, largest=inst.attrs.largest)


def decompose_topk_call(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """custom-call TopK(x) = the first k of sort(x, iota), by its comparator's direction."""
    if inst.attrs.custom_call_target != "TopK" or len(inst.operands) != 1 or len(inst.shape.tuple_shapes) != 2:
        return None
    root = inst.called[0].root if inst.called else None
    smallest = root is not None and root.op is ops.COMPARE and root.attrs.direction is ComparisonDirection.LT
    return _decompose(inst, rw, largest=not smallest)


def _decompose(inst: Instruction, rw: Rewrite, *, largest: bool) -> Instruction | None:
    if inst.shape.is_dynamic or inst.operands[0].shape.is_dynamic:
        return None
    rw.permit()
    b = Builder(rw)
    x = b.val(inst.operands[0])
    dim = len(x.dims) - 1
    k = inst.shape.tuple_shapes[0].dims[dim]
    index_type = inst.shape.tuple_shapes[1].element_type
    attrs = ops.SortAttrs(dim, is_stable=True)
    only_values = not inst.is_root and all(u.op is ops.GET_TUPLE_ELEMENT and u.attrs.index == 0 for u in inst.users)
    comparator = _comparator(b, x.et, largest, with_index=not only_values)
    if only_values:
        values = b.apply(ops.SORT, x, attrs=attrs, called=[comparator]).slice_dim(dim, 0, k)
        # Nothing reads the indices: any will do.
        return b.tuple([values, b.full(0, index_type, values.dims)]).inst
    sorted_ = b.apply(ops.SORT, x, b.iota(S32, x.dims, dim), attrs=attrs, called=[comparator])
    values, indices = (sorted_.element(i).slice_dim(dim, 0, k) for i in range(2))
    return b.tuple([values, indices.convert(index_type)]).inst


def _comparator(b: Builder, et: ElementType, largest: bool, *, with_index: bool) -> Computation:
    inner = b.inner("topk_order")
    x, y = inner.parameter(Shape.array(et, ())), inner.parameter(Shape.array(et, ()))
    for _ in range(2 if with_index else 0):
        inner.parameter(Shape.array(S32, ()))
    kind = ComparisonType.TOTALORDER if et.is_float else None
    return inner.finish(x.compare("GT" if largest else "LT", y, kind))
