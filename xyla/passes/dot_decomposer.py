"""Dots in canonical form: batch dimensions first, one contracting dimension, at most one free dimension a side."""

from __future__ import annotations

import math
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
class DotDecomposer(Expander):
    """Brings a dot to the form [batch..., M, K] x [batch..., K, N] by transposes and reshapes.

    Dots of matrices, and those whose batch dimensions lead and which have one contracting and at most one free
    dimension a side, stay as they are. Exact: the sum runs over the same products in the same order.

        ROOT d = f32[2,3,5] dot(f32[4,2,3] x, f32[5,4] y), lhs_contracting_dims={0}, rhs_contracting_dims={1}
          ==>  p = f32[6,4] reshape(transpose(x)); q = f32[4,5] transpose(y)
               ROOT r = f32[2,3,5] reshape(dot(p, q)), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    """

    name: ClassVar[str] = "dot-decomposer"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.DOT: canonicalize_dot}


def canonicalize_dot(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(x, y) = reshape(dot(x as [batch, M, K], y as [batch, K, N]))."""
    if is_canonical(inst) or inst.attrs.sparsity or any(o.shape.is_dynamic for o in inst.operands):
        return None
    rw.permit()
    b, a = Builder(rw), inst.attrs
    x, y = b.vals(inst.operands)
    batch = [x.dims[d] for d in a.lhs_batch_dims]
    free_x = _free(len(x.dims), a.lhs_batch_dims, a.lhs_contracting_dims)
    free_y = _free(len(y.dims), a.rhs_batch_dims, a.rhs_contracting_dims)
    k = math.prod(x.dims[d] for d in a.lhs_contracting_dims)
    m = [math.prod(x.dims[d] for d in free_x)] if free_x else []
    n = [math.prod(y.dims[d] for d in free_y)] if free_y else []
    x3 = x.transpose(*a.lhs_batch_dims, *free_x, *a.lhs_contracting_dims).reshape(*batch, *m, k)
    y3 = y.transpose(*a.rhs_batch_dims, *a.rhs_contracting_dims, *free_y).reshape(*batch, k, *n)
    lead = tuple(range(len(batch)))
    attrs = replace(
        a,
        lhs_batch_dims=lead,
        rhs_batch_dims=lead,
        lhs_contracting_dims=(len(batch) + len(m),),
        rhs_contracting_dims=(len(batch),),
    )
    out = b.apply(ops.DOT, x3, y3, attrs=attrs, shape=inst.shape.with_dims((*batch, *m, *n)))
    return out.reshape(*inst.shape.dims).inst


def is_canonical(inst: Instruction) -> bool:
    """Whether a dot has one contracting dimension, leading batch dimensions and one free dimension a side at most."""
    a = inst.attrs
    if len(a.lhs_contracting_dims) != 1:
        return False
    batch = len(a.lhs_batch_dims)
    if any(o.shape.rank > batch + 2 for o in inst.operands[:2]):
        return False
    lead = tuple(range(batch))
    return tuple(a.lhs_batch_dims) == lead and tuple(a.rhs_batch_dims) == lead


def _free(rank: int, batch: tuple[int, ...], contracting: tuple[int, ...]) -> list[int]:
    return [d for d in range(rank) if d not in batch and d not in contracting]
