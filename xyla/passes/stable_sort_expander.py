"""Stable sorts by means of a tie-breaking index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Expander
from xyla.passes.inlining import copy_body
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import S32, S64, ElementType


@register
@dataclass(frozen=True, slots=True)
class StableSortExpander(Expander):
    """Makes every stable sort one whose comparator decides ties by the original position.

    The position is an iota operand (one already there is used); where the comparator says the same of (x, y) and
    (y, x) the positions are compared.

        ROOT s = f32[9] sort(x), is_stable=true, to_apply=less
          ==>  s = (f32[9], s32[9]) sort(x, iota), to_apply=less_or_tie
               ROOT r = f32[9] get-tuple-element(s), index=0
    """

    name: ClassVar[str] = "stable-sort-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.SORT: break_ties}


def break_ties(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """stable sort(x...) = sort(x..., position) by less(a, b) == less(b, a) ? a.position < b.position : less(a, b)."""
    if not inst.attrs.is_stable or any(o.shape.is_dynamic for o in inst.operands):
        return None  # of dynamic shapes the padder makes static ones
    rw.permit()
    b = Builder(rw)
    operands = b.vals(inst.operands)
    dim = inst.attrs.dimension
    at = next((i for i, o in enumerate(inst.operands) if _is_position(o, dim)), len(operands))
    if at == len(operands):
        et = S64 if operands[0].dims[dim] > 2**31 - 1 else S32
        operands.append(b.iota(et, operands[0].dims, dim))
    comparator = _with_ties(inst.called[0], at, operands[at].et)
    attrs = replace(inst.attrs, is_stable=False)
    new = b.apply(ops.SORT, *operands, attrs=attrs, called=[comparator])
    if len(operands) == len(inst.operands):
        return new.inst
    if not inst.shape.is_tuple:
        return new.element(0).inst
    return b.tuple([new.element(i) for i in range(len(inst.operands))]).inst


def _is_position(inst: Instruction, dim: int) -> bool:
    """An operand that counts along the sorted dimension without wrapping round."""
    et = inst.shape.element_type
    if inst.op is not ops.IOTA or inst.attrs.iota_dimension != dim or not et.is_integer:
        return False
    return inst.shape.dims[dim] <= 1 << (et.bits - et.is_signed)


def _with_ties(comparator: Computation, at: int, et: ElementType) -> Computation:
    """A copy of the comparator that falls back on parameters 2*at and 2*at+1."""
    new = rewriter.clone_computation(comparator, name=f"{comparator.name}_or_tie")
    b = Builder(new)
    while len(new.parameters) < 2 * at + 2:
        b.parameter(Shape.array(et, ()))
    params = b.vals(new.parameters)
    swapped = [params[i ^ 1] for i in range(len(comparator.parameters))]
    forward = b.val(new.root)
    # In full, not as a call: only so can those who know plain comparators see that this one is a chain of such.
    backward = b.val(copy_body(comparator, new, [p.inst for p in swapped])[0])
    tie = params[2 * at].lt(params[2 * at + 1])
    new.set_root(b.select(forward.eq(backward), tie, forward).inst)
    return new
