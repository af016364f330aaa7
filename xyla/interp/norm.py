"""batch-norm training, inference and gradient. Spec: XLA operation semantics (BatchNormTraining, ...)."""

from __future__ import annotations

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.interp.numeric import narrow, widen
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array, Kernel
from xyla.support.dtypes import ElementType


class _Shapes:
    """Widening to float64, per-feature broadcasting and the axes that a statistic averages over."""

    def __init__(self, inst: Instruction) -> None:
        self.feature = inst.attrs.feature_index
        self.rank = inst.operands[0].shape.rank
        self.types: list[ElementType] = [o.shape.element_type for o in inst.operands]
        self.epsilon = float(np.float32(inst.attrs.epsilon))
        self.axes = tuple(d for d in range(self.rank) if d != self.feature)

    def wide(self, i: int, x: Array) -> Array:
        return np.asarray(widen(np.asarray(x), self.types[i])).astype(np.float64)

    def spread(self, per_feature: Array) -> Array:
        return per_feature.reshape([-1 if d == self.feature else 1 for d in range(self.rank)])


@EVAL.rule(ops.BATCH_NORM_INFERENCE)
def _inference(inst: Instruction, session: Session) -> Kernel:
    s = _Shapes(inst)

    def kernel(*operands: Array) -> Array:
        x, scale, offset, mean, variance = (s.wide(i, o) for i, o in enumerate(operands))
        normal = (x - s.spread(mean)) / np.sqrt(s.spread(variance) + s.epsilon)
        return narrow(normal * s.spread(scale) + s.spread(offset), s.types[0])

    return kernel


@EVAL.rule(ops.BATCH_NORM_TRAINING)
def _training(inst: Instruction, session: Session) -> Kernel:
    """(normalised, batch mean, batch variance); the variance is the biased one."""
    s = _Shapes(inst)

    def kernel(*operands: Array) -> tuple[Array, ...]:
        x, scale, offset = (s.wide(i, o) for i, o in enumerate(operands))
        mean, variance = x.mean(axis=s.axes), x.var(axis=s.axes)
        normal = (x - s.spread(mean)) / np.sqrt(s.spread(variance) + s.epsilon)
        out = normal * s.spread(scale) + s.spread(offset)
        return narrow(out, s.types[0]), narrow(mean, s.types[1]), narrow(variance, s.types[1])

    return kernel


@EVAL.rule(ops.BATCH_NORM_GRAD)
def _grad(inst: Instruction, session: Session) -> Kernel:
    """(grad operand, grad scale, grad offset)."""
    s = _Shapes(inst)

    def kernel(*operands: Array) -> tuple[Array, ...]:
        x, scale, mean, variance, grad = (s.wide(i, o) for i, o in enumerate(operands))
        root = np.sqrt(variance + s.epsilon)
        normal = (x - s.spread(mean)) / s.spread(root)
        grad_scale, grad_offset = (grad * normal).sum(axis=s.axes), grad.sum(axis=s.axes)
        count = x.size // max(x.shape[s.feature], 1)
        centred = count * grad - s.spread(grad_offset) - normal * s.spread(grad_scale)
        grad_x = s.spread(scale / root) / max(count, 1) * centred
        return narrow(grad_x, s.types[0]), narrow(grad_scale, s.types[1]), narrow(grad_offset, s.types[1])

    return kernel
