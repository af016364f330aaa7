"""Dots without batch dimensions of size one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
class BatchDotSimplification(Expander):
    """Drops the batch dimensions of size one of a dot.

    ROOT d = f32[1,9,7] dot(f32[1,9,3] x, f32[1,3,7] y)   ==>   ROOT r = reshape(f32[9,7] dot(reshape(x), reshape(y)))
    """

    name: ClassVar[str] = "batch-dot-simplification"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.DOT: elide_degenerate_batch_dims}


def elide_degenerate_batch_dims(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(x, y) with a batch dimension of size one = reshape(dot(reshape(x), reshape(y)))."""
    a: ops.DotAttrs = inst.attrs
    if a.sparsity or inst.shape.is_dynamic or any(o.shape.is_dynamic for o in inst.operands):
        return None
    x, y = inst.operands
    gone = [i for i, d in enumerate(a.lhs_batch_dims) if x.shape.dims[d] == 1]
    if not gone:
        return None
    rw.permit()
    b = Builder(rw)
    left, right = {a.lhs_batch_dims[i] for i in gone}, {a.rhs_batch_dims[i] for i in gone}

    def without(dims: Sequence[int], dropped: set[int]) -> tuple[int, ...]:
        return tuple(d - sum(g < d for g in dropped) for d in dims if d not in dropped)

    attrs = replace(
        a,
        lhs_batch_dims=without(a.lhs_batch_dims, left),
        rhs_batch_dims=without(a.rhs_batch_dims, right),
        lhs_contracting_dims=without(a.lhs_contracting_dims, left),
        rhs_contracting_dims=without(a.rhs_contracting_dims, right),
    )
    operands = [
        b.val(o).reshape(*(s for d, s in enumerate(o.shape.dims) if d not in dropped))
        for o, dropped in ((x, left), (y, right))
    ]
    shape = inst.shape.with_dims([s for i, s in enumerate(inst.shape.dims) if i not in gone])
    return b.apply(ops.DOT, *operands, attrs=attrs, shape=shape).reshape(*inst.shape.dims).inst
