"""Sorts of which only the first elements are used become topk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.attr_types import ComparisonDirection, ComparisonType
from xyla.hlo.module import Computation, Instruction, Module
from xyla.passes.building import Builder, Val, non_fusion_computations
from xyla.passes.index_vectors import inverse
from xyla.passes.total_order import total_order_key_of
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import Fp, PassContext
from xyla.passmgr.rules import NotPermitted, Rewrite, erase_dead, fp_allows
from xyla.support.dtypes import S32

VALUE_CHANGING = {
    "float-comparator": (
        Fp.FAST,
        "ties of -0 and +0, and NaN, are ordered as in total order, not by a float comparison",
    ),
}


@register
@dataclass(frozen=True, slots=True)
class TopkRewriter(Pass):
    """Replaces a sort of values (and positions) of which only the first k are sliced out by topk.

    The comparator must order integers, or floats in total order (spelt as such, or through their bits).

        s = (f32[8,99], s32[8,99]) sort(x, iota), dimensions={1}, is_stable=true, to_apply=greater
        ROOT v = f32[8,5] slice(s.0), slice={[0:8], [0:5]}
          ==>  ROOT v = f32[8,5] get-tuple-element(topk(x), k=5, largest=true), index=0
    """

    name: ClassVar[str] = "topk-rewriter"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Each sort once."""
        changed = False
        for comp in non_fusion_computations(module):
            for inst in [i for i in comp.instructions if i.op is ops.SORT]:
                changed |= _rewrite_sort(inst, ctx)
        return changed


def _rewrite_sort(inst: Instruction, ctx: PassContext) -> bool:
    if inst.is_root or inst.shape.is_dynamic or len(inst.operands) > 2:
        return False
    largest = _direction(inst.called[0], ctx)
    slices = _slices(inst)
    if largest is None or not slices or not _is_position(inst):
        return False
    rw = Rewrite(ctx, "topk-of-sort", inst)
    try:
        rw.permit()
    except NotPermitted:
        return False
    dim = inst.attrs.dimension
    b = Builder(rw)
    x = b.val(inst.operands[0])
    order = [*(d for d in range(len(x.dims)) if d != dim), dim]
    k = slices[0][0].shape.dims[dim]
    topk = b.apply(ops.TOPK, x.transpose(*order), attrs=ops.TopKAttrs(k, largest=largest))
    parts: dict[int, Val] = {}
    for old, index in slices:
        if index not in parts:
            parts[index] = topk.element(index).transpose(*inverse(order))
        rewriter.replace_uses(old, parts[index].inst)
        rewriter.move_control_dependencies(old, parts[index].inst)
    erase_dead([old for old, _ in slices])
    ctx.record(topk.inst)
    return True


def _slices(inst: Instruction) -> list[tuple[Instruction, int]]:
    """Every use as (slice of the first k, result index); empty when there is any other use, or none."""
    dim = inst.attrs.dimension
    found: list[tuple[Instruction, int]] = []
    for user in inst.users:
        index, slices = 0, [user]
        if inst.shape.is_tuple:
            if user.op is not ops.GET_TUPLE_ELEMENT or user.is_root:
                return []
            index, slices = user.attrs.index, list(user.users)
        found.extend((s, index) for s in slices)
    if not all(_takes_first(s, dim) for s, _ in found):
        return []
    return found if len({s.shape.dims[dim] for s, _ in found}) == 1 else []


def _takes_first(inst: Instruction, dim: int) -> bool:
    if inst.op is not ops.SLICE:
        return False
    sizes = inst.operands[0].shape.dims
    return all(
        s.start == 0 and s.stride == 1 and (d == dim or s.limit == sizes[d]) for d, s in enumerate(inst.attrs.slice)
    )


def _is_position(inst: Instruction) -> bool:
    """The second operand, if there is one, counts along the sorted dimension."""
    if len(inst.operands) == 1:
        return True
    dim, x = inst.attrs.dimension, inst.operands[1]
    if x.shape.element_type is not S32:
        return False
    if x.op is ops.BROADCAST and x.operands[0].op is ops.IOTA:
        return bool(x.attrs.dimensions[x.operands[0].attrs.iota_dimension] == dim)
    return x.op is ops.IOTA and x.attrs.iota_dimension == dim


def _direction(comp: Computation, ctx: PassContext) -> bool | None:
    """Whether the comparator puts the largest first (False: the smallest); None when it does neither."""
    root = comp.root
    if root.op is not ops.COMPARE:
        return None
    direction = root.attrs.direction
    if direction not in (ComparisonDirection.GT, ComparisonDirection.LT):
        return None
    largest: bool = direction is ComparisonDirection.GT
    sides = root.operands
    et = comp.parameters[0].shape.element_type
    if et.is_float and sides[0].shape.element_type.is_integer:
        keys = [total_order_key_of(s) for s in sides]
    else:
        keys = list(sides)
        total = root.attrs.type is ComparisonType.TOTALORDER or not et.is_float
        if not total and not fp_allows(ctx.fp, VALUE_CHANGING["float-comparator"][0]):
            return None
    if keys == comp.parameters[:2]:
        return largest
    return not largest if keys == comp.parameters[1::-1] else None
