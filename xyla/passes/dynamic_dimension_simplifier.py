"""Clean-up of the small integer arithmetic that computes dynamic sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite, rule_table, run_rules


@register
@dataclass(frozen=True, slots=True)
class DynamicDimensionSimplifier(Pass):
    """Forwards concatenations, slices, reshapes and conversions that dynamic sizes pass through.

    c = s32[2] concatenate(a, b)
    ROOT d = s32[3] concatenate(c, e)   ==>   ROOT d = s32[3] concatenate(a, b, e)
    """

    name: ClassVar[str] = "dynamic-dimension-simplifier"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Applies the rules until none matches."""
        return run_rules(module, ctx, _RULES)


def flatten_concatenate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """concatenate(concatenate(a, b), c) = concatenate(a, b, c) along one dimension."""
    dim = inst.attrs.dimension
    nested = [o for o in inst.operands if o.op is ops.CONCATENATE and o.attrs.dimension == dim and len(o.users) == 1]
    if not nested:
        return None
    parts = [p for o in inst.operands for p in (o.operands if o in nested else (o,))]
    return rw.like(parts)


def slice_of_concatenate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """slice(concatenate(..., x, ...)) = x where the slice takes all of x."""
    whole = inst.operands[0]
    if whole.op is not ops.CONCATENATE or any(s.stride != 1 for s in inst.attrs.slice) or whole.shape.is_dynamic:
        return None
    dim, start = whole.attrs.dimension, 0
    for part in whole.operands:
        end = start + part.shape.dims[dim]
        if (start, end) == (inst.attrs.slice[dim].start, inst.attrs.slice[dim].limit):
            return part if part.shape.compatible(inst.shape) else None
        start = end
    return None


def reshape_of_reshape(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reshape(reshape(x)) = x, or reshape(x)."""
    inner = inst.operands[0]
    if inner.op is not ops.RESHAPE or any(s.is_dynamic for s in (inst.shape, inner.shape, inner.operands[0].shape)):
        return None
    x = inner.operands[0]
    return x if x.shape.compatible(inst.shape) else rw.like([x])


def identity_reshape(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reshape(x) = x to x's own shape."""
    return _same(inst)


def identity_convert(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convert(x) = x to x's own type."""
    return _same(inst)


def _same(inst: Instruction) -> Instruction | None:
    x = inst.operands[0]
    return x if x.shape.compatible(inst.shape) and not inst.shape.is_dynamic else None


_RULES = rule_table(
    ([ops.CONCATENATE], [flatten_concatenate]),
    ([ops.SLICE], [slice_of_concatenate]),
    ([ops.RESHAPE], [identity_reshape, reshape_of_reshape]),
    ([ops.CONVERT], [identity_convert]),
)
