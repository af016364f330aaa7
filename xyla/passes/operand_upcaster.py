"""Contractions whose result is wider than their operands get operands of the result's type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander
from xyla.passes.type_rules import wider
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import ElementType


@register
@dataclass(frozen=True, slots=True)
class OperandUpcaster(Expander):
    """Converts the operands of dot and convolution to the result's type where that is wider.

    Exact: products and sums are formed in the result's type by definition.

        ROOT d = s32[2,2] dot(s8[2,3] x, s8[3,2] y)
          ==>  ROOT d = s32[2,2] dot(s32[2,3] convert(x), s32[3,2] convert(y))
    """

    name: ClassVar[str] = "operand-upcaster"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The ops and their rule."""
        return dict.fromkeys((ops.DOT, ops.CONVOLUTION), upcast_operands)


def upcast_operands(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """op(x, y): T = op(convert<T>(x), convert<T>(y)), when T is wider than both."""
    to = inst.shape.element_type
    types = [o.shape.element_type for o in inst.operands[:2]]
    # Sparse operands keep their metadata operand; it has nothing to convert.
    if all(t is to for t in types) or not all(_fits(t, to) for t in types):
        return None
    rw.permit()
    b = Builder(rw)
    operands = [v.convert(to).inst for v in b.vals(inst.operands[:2])]
    return rw.like([*operands, *inst.operands[2:]])


def _fits(source: ElementType, to: ElementType) -> bool:
    return source is to or wider(to, source)
