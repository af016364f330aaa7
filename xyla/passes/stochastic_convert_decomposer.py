"""stochastic-convert in terms of truncation and comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import F64


@register
@dataclass(frozen=True, slots=True)
class StochasticConvertDecomposer(Expander):
    """Rounds |x| down, and up where the random bits are below its fraction times 2^bits. Exact.

    ROOT r = s8[4] stochastic-convert(bf16[4] x, u16[4] random)
      ==>  a = abs(x); f = floor(a)
           ROOT r = s8[4] convert(copy-sign(f + (random < (a - f) * 2^16), x))
    """

    name: ClassVar[str] = "stochastic-convert-decomposer"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.STOCHASTIC_CONVERT: decompose_stochastic_convert}


def decompose_stochastic_convert(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """stochastic-convert(x, random) = convert(sign(x) * (floor(|x|) + (random < fraction * 2^bits)))."""
    x_shape, to, bits = inst.operands[0].shape, inst.shape.element_type, inst.operands[1].shape.element_type.bits
    # 64 random bits would round when they become a float.
    if not to.is_integer or not x_shape.element_type.is_float or bits > 32 or inst.shape.is_dynamic:
        return None
    rw.permit()
    b = Builder(rw)
    x, random = b.vals(inst.operands)
    x = x.convert(F64)
    size = b.unary(ops.ABS, x)
    whole = b.unary(ops.FLOOR, size)
    threshold = (size - whole) * float(2**bits)
    up = random.convert(F64).lt(threshold) & b.unary(ops.IS_FINITE, size)
    rounded = whole + up.convert(F64)
    return b.select(x.lt(0), -rounded, rounded).convert(to).inst
