"""logistic in terms of exponential."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander
from xyla.passmgr.base import register
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, Rule


@register
@dataclass(frozen=True, slots=True)
class LogisticExpander(Expander):
    """Turns logistic into an expression of one exponential that cannot overflow.

    With z = exp(-|x|): logistic(x) = 1/(1+z) for x >= 0 and z/(1+z) below. Within 3 ULP of the exact value where it is
    a normal number (XLA's own 1/(1+exp(-x)) loses the whole denormal range). Complex operands take 1/(1+exp(-x)).

        ROOT r = f32[4] logistic(x)
          ==>  z = f32[4] exponential(-abs(x))
               ROOT r = f32[4] divide(select(x < 0, z, 1), 1 + z)
    """

    name: ClassVar[str] = "logistic-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.LOGISTIC: expand_logistic}


@value_changing(Fp.DEFAULT, "logistic is computed from exponential, within 3 ULP")
def expand_logistic(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """logistic(x) = select(x < 0, z, 1) / (1 + z), z = exp(-|x|)."""
    rw.permit()
    b = Builder(rw)
    x = b.val(inst.operands[0])
    if x.et.is_complex:
        return (1 / (b.unary(ops.EXP, -x) + 1)).inst
    z = b.unary(ops.EXP, -b.unary(ops.ABS, x))
    return (b.select(x.lt(0), z, 1) / (z + 1)).inst
