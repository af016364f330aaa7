"""Contractions whose result is narrower than their operands compute in the operands' type."""

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


@register
@dataclass(frozen=True, slots=True)
class ResultCaster(Expander):
    """Computes dot and convolution in the type of their operands and converts the result, where the two differ.

    ROOT d = bf16[2,2] dot(f32[2,3] x, f32[3,2] y)
      ==>  d = f32[2,2] dot(x, y)
           ROOT r = bf16[2,2] convert(d)
    """

    name: ClassVar[str] = "result-caster"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The ops and their rule."""
        return dict.fromkeys((ops.DOT, ops.CONVOLUTION), cast_result)


def cast_result(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """op(x, y): T = convert<T>(op(x, y): W), when the operands' joint type W is wider than T."""
    x, y = (o.shape.element_type for o in inst.operands[:2])
    to = inst.shape.element_type
    joint = x if x is y or wider(x, y) else y if wider(y, x) else None
    if joint is None or not wider(joint, to):
        return None
    rw.permit()
    new = rw.like(inst.operands, shape=inst.shape.with_type(joint))
    return Builder(rw).val(new).convert(to).inst
