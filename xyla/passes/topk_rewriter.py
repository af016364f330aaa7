"""Sorts of which only the front is read become top-k."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.attr_types import ComparisonDirection, ComparisonType
from xyla.hlo.module import Computation, Instruction, Module
from xyla.passes.building import Builder, Val, non_fusion_computations
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import Fp, PassContext
from xyla.passmgr.rules import NotPermitted, Rewrite, fp_allows, is_splat, splat_value

# A comparator that is not a total order leaves the place of NaN and the order of zeros open.
VALUE_CHANGING: Mapping[str, tuple[Fp, str]] = {
    "sort_by_plain_comparison_to_topk": (Fp.FAST, "NaN and -0 come in total order, not in the sort's"),
}
_DIRECTIONS = {ComparisonDirection.GT: True, ComparisonDirection.LT: False}


@register
@dataclass(frozen=True, slots=True)
class TopkRewriter(Pass):
    """Replaces a sort of which every user reads the first k positions by topk.

    The sort has one operand, or a second one that counts positions; its comparator orders by the first operand's total
    order. Source: XLA's TopkRewriter.

        s = (f32[8,99], s32[8,99]) sort(x, iota), dimensions={1}, is_stable=true, to_apply=greater
        a = f32[8,99] get-tuple-element(s), index=0
        ROOT r = f32[8,5] slice(a), slice={[0:8], [0:5]}
          ==>  t = (f32[8,5], s32[8,5]) topk(x), k=5, largest=true
               ROOT r = f32[8,5] get-tuple-element(t), index=0
    """

    name: ClassVar[str] = "topk-rewriter"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Each sort once."""
        changed = False
        for comp in non_fusion_computations(module):
            for inst in [i for i in comp.post_order() if i.op is ops.SORT]:
                changed |= _rewrite(inst, ctx)
        return changed


def _rewrite(sort: Instruction, ctx: PassContext) -> bool:
    order = order_of(sort.called[0])
    if order is None or not _operands_fit(sort) or sort.control_predecessors or sort.control_successors:
        return False
    slices = _front_slices(sort)
    if not slices:
        return False
    rule = "sort_to_topk" if order.total else "sort_by_plain_comparison_to_topk"
    if not order.total and not fp_allows(ctx.fp, VALUE_CHANGING[rule][0]):
        return False
    k = slices[0][0].shape.dims[sort.attrs.dimension]
    try:
        rw = Rewrite(ctx, rule, sort)
        parts = _topk(rw, k, order.largest)
    except NotPermitted:
        return False
    ctx.record(parts[0].inst)
    for piece, index in slices:
        rewriter.replace_uses(piece, parts[index].inst)
    _erase_front(sort, [piece for piece, _ in slices])
    return True


def _topk(rw: Rewrite, k: int, largest: bool) -> list[Val]:
    """Values and, for sorts of two operands, positions, the sorted dimension back in its place."""
    sort = rw.inst
    rw.permit()
    b = Builder(rw)
    x, dim = b.val(sort.operands[0]), sort.attrs.dimension
    rank = len(x.dims)
    there = [*(d for d in range(rank) if d != dim), dim]
    back = [there.index(d) for d in range(rank)]
    both = b.apply(ops.TOPK, x.transpose(*there), attrs=ops.TopKAttrs(k, largest))
    parts = [both.element(0).transpose(*back)]
    if len(sort.operands) == 2:
        index = both.element(1).convert(sort.operands[1].shape.element_type)
        parts.append(index.transpose(*back))
    return parts


def _operands_fit(sort: Instruction) -> bool:
    x = sort.operands[0].shape
    if x.is_dynamic or x.element_type.is_complex or x.dims[sort.attrs.dimension] > 2**31 - 1:
        return False
    if len(sort.operands) == 1:
        return True
    return len(sort.operands) == 2 and counts_along(sort.operands[1], sort.attrs.dimension)


def counts_along(inst: Instruction, dim: int) -> bool:
    """Whether element [..., i, ...] is i, with i at `dim`: an iota, or one broadcast along other dimensions."""
    et = inst.shape.element_type
    if not et.is_integer or inst.shape.dims[dim] > 1 << (et.bits - et.is_signed):
        return False
    while inst.op is ops.BROADCAST and dim in inst.attrs.dimensions:
        dim = inst.attrs.dimensions.index(dim)
        inst = inst.operands[0]
    return inst.op is ops.IOTA and inst.attrs.iota_dimension == dim


def _front_slices(sort: Instruction) -> list[tuple[Instruction, int]]:
    """(slice, sort result) of every user, when all of them read the same first k < n positions; else []."""
    dim, n = sort.attrs.dimension, sort.operands[0].shape.dims[sort.attrs.dimension]
    results = [(sort, 0)]
    if sort.shape.is_tuple:
        if sort.is_root or any(u.op is not ops.GET_TUPLE_ELEMENT for u in sort.users):
            return []
        results = [(u, u.attrs.index) for u in sort.users]
    found: list[tuple[Instruction, int]] = []
    for result, index in results:
        if result.is_root:
            return []
        found.extend((user, index) for user in result.users)
    k = found[0][0].shape.dims[dim] if found and found[0][0].op is ops.SLICE else n
    return found if 0 < k < n and all(_is_front(piece, dim, k) for piece, _ in found) else []


def _is_front(inst: Instruction, dim: int, k: int) -> bool:
    if inst.op is not ops.SLICE or inst.control_predecessors or inst.control_successors:
        return False
    whole = inst.operands[0].shape.dims
    wanted = [k if d == dim else size for d, size in enumerate(whole)]
    return all(s.start == 0 and s.stride == 1 and s.limit == z for s, z in zip(inst.attrs.slice, wanted, strict=True))


def _erase_front(sort: Instruction, slices: list[Instruction]) -> None:
    middle = dict.fromkeys(o for piece in slices for o in piece.operands if o is not sort)
    for inst in (*slices, *middle, sort):
        rewriter.erase(inst)


# -- comparators -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Order:
    """What a comparator sorts by: its first operand, largest first or smallest first, in total order or not."""

    largest: bool
    total: bool


def order_of(comp: Computation) -> Order | None:
    """The order a sort comparator puts its first operand's elements in; None when it is another comparator."""
    root = comp.root
    if root.op is not ops.COMPARE or root.attrs.direction not in _DIRECTIONS:
        return None
    largest = _DIRECTIONS[root.attrs.direction]
    left, right = (_compared(o) for o in root.operands)
    if left is None or right is None or {left[0], right[0]} != {0, 1} or left[1] != right[1]:
        return None
    # greater(right, left) puts the smallest first.
    largest = largest if left[0] == 0 else not largest
    if left[1]:
        signed = root.attrs.type in (None, ComparisonType.SIGNED)
        return Order(largest, True) if signed else None
    et = root.operands[0].shape.element_type
    if et.is_complex:
        return None
    return Order(largest, not et.is_float or root.attrs.type is ComparisonType.TOTALORDER)


def _compared(side: Instruction) -> tuple[int, bool] | None:
    """(parameter number, whether as an integer key in total order) of one side of the comparison."""
    if side.op is ops.PARAMETER:
        return side.attrs.number, False
    number = _total_order_key(side)
    return None if number is None else (number, True)


def _total_order_key(side: Instruction) -> int | None:
    """Parameter p of select(i(p) < 0, i(max - u(p)), i(p)): i and u its bits as signed and unsigned integers."""
    if side.op is not ops.SELECT:
        return None
    negative, flipped, same = side.operands
    p = _bits_of(same, signed=True)
    if p is None or negative.op is not ops.COMPARE or negative.attrs.direction is not ComparisonDirection.LT:
        return None
    if _bits_of(negative.operands[0], signed=True) is not p or not is_splat(negative.operands[1], 0):
        return None
    if flipped.op is not ops.BITCAST_CONVERT or flipped.operands[0].op is not ops.SUBTRACT:
        return None
    limit, bits = flipped.operands[0].operands
    if _bits_of(bits, signed=False) is not p or not _is_signed_max(limit):
        return None
    number: int = p.attrs.number
    return number


def _bits_of(inst: Instruction, *, signed: bool) -> Instruction | None:
    """The float parameter whose bits `inst` is, as an integer of the same width."""
    et = inst.shape.element_type
    if inst.op is not ops.BITCAST_CONVERT or not et.is_integer or et.is_signed is not signed:
        return None
    p = inst.operands[0]
    fits = p.op is ops.PARAMETER and p.shape.element_type.is_float and p.shape.element_type.bits == et.bits
    return p if fits else None


def _is_signed_max(inst: Instruction) -> bool:
    bits = inst.shape.element_type.bits
    if inst.op is ops.CONVERT and inst.operands[0].shape.element_type.bits == bits:
        inst = inst.operands[0]
    value = splat_value(inst)
    return value is not None and int(value.real) == 2 ** (bits - 1) - 1
