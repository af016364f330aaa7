"""Batch normalisation in terms of element-wise operations and reductions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander, Val
from xyla.passmgr.base import register
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import F32, ElementType


@register
@dataclass(frozen=True, slots=True)
class BatchNormExpander(Expander):
    """Writes batch-norm-training, -inference and -grad out.

    Sums are formed in f32 where the operand is narrower. The variance is the mean of the squared distances from the
    mean, so it is never negative. Rounding differs from a fused evaluation by a few ULP of the largest term.

        ROOT b = f32[8,4] batch-norm-inference(x, scale, offset, mean, variance), epsilon=0.001, feature_index=1
          ==>  ROOT r = (x - mean) * rsqrt(variance + 0.001) * scale + offset
    """

    name: ClassVar[str] = "batchnorm-expander"
    rewrite_training_op: bool = True
    rewrite_inference_op: bool = True
    rewrite_grad_op: bool = True

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The ops and their rules."""
        table: dict[OpDef[Any], Rule] = {}
        if self.rewrite_training_op:
            table[ops.BATCH_NORM_TRAINING] = expand_training
        if self.rewrite_inference_op:
            table[ops.BATCH_NORM_INFERENCE] = expand_inference
        if self.rewrite_grad_op:
            table[ops.BATCH_NORM_GRAD] = expand_grad
        return table


class _Norm:
    """The operands in the type of the computation, and what a feature's statistics need."""

    def __init__(self, inst: Instruction, rw: Rewrite) -> None:
        rw.permit()
        self.b = Builder(rw)
        self.inst = inst
        self.types = [o.shape.element_type for o in inst.operands]
        wide = max(self.types, key=lambda t: t.bits)
        self.et: ElementType = wide if wide.bits >= 32 else F32
        self.operands = [v.convert(self.et) for v in self.b.vals(inst.operands)]
        self.dims = self.operands[0].dims
        self.feature = inst.attrs.feature_index
        self.others = [d for d in range(len(self.dims)) if d != self.feature]
        self.count = math.prod(self.dims[d] for d in self.others)
        self.epsilon = inst.attrs.epsilon

    def spread(self, per_feature: Val) -> Val:
        return per_feature.broadcast(self.dims, [self.feature])

    def sum(self, x: Val) -> Val:
        return self.b.reduce(x, 0.0, self.others)

    def inverse_deviation(self, variance: Val) -> Val:
        return self.b.unary(ops.RSQRT, variance + self.epsilon)

    def results(self, *values: Val) -> Instruction:
        """A tuple of the values in the types that the instruction states."""
        shapes = self.inst.shape.tuple_shapes
        return self.b.tuple([v.convert(s.element_type) for v, s in zip(values, shapes, strict=True)]).inst


@value_changing(Fp.DEFAULT, "batch statistics and normalisation round step by step")
def expand_training(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(normalised x * scale + offset, mean, variance)."""
    n = _Norm(inst, rw)
    x, scale, offset = n.operands
    mean = n.sum(x) / n.count
    centred = x - n.spread(mean)
    variance = n.sum(centred * centred) / n.count
    normal = centred * n.spread(n.inverse_deviation(variance))
    return n.results(normal * n.spread(scale) + n.spread(offset), mean, variance)


@value_changing(Fp.DEFAULT, "the normalisation rounds step by step")
def expand_inference(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(x - mean) * rsqrt(variance + epsilon) * scale + offset."""
    n = _Norm(inst, rw)
    x, scale, offset, mean, variance = n.operands
    normal = (x - n.spread(mean)) * n.spread(n.inverse_deviation(variance))
    return (normal * n.spread(scale) + n.spread(offset)).convert(inst.shape.element_type).inst


@value_changing(Fp.DEFAULT, "gradients of a batch normalisation round step by step")
def expand_grad(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """(grad of x, of scale, of offset), from x, scale, mean, variance and the grad of the output."""
    n = _Norm(inst, rw)
    x, scale, mean, variance, grad = n.operands
    inverse = n.inverse_deviation(variance)
    normal = (x - n.spread(mean)) * n.spread(inverse)
    grad_scale, grad_offset = n.sum(grad * normal), n.sum(grad)
    centred = grad * n.count - n.spread(grad_offset) - normal * n.spread(grad_scale)
    grad_x = n.spread(scale * inverse / max(n.count, 1)) * centred
    return n.results(grad_x, grad_scale, grad_offset)
