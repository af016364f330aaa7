"""Total-order comparison of floats as integer comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonType
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander, Val
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import F32, find


@register
@dataclass(frozen=True, slots=True)
class ComparisonExpander(Expander):
    """Compares floats in total order (-NaN < -inf < ... < -0 < +0 < ... < inf < NaN) through their bits.

    Read as a signed integer, the bits of a positive float are in order already; those of a negative one are in
    reverse, which flipping all bits but the sign repairs. Exact.

        ROOT c = pred[4] compare(f32[4] x, y), direction=LT, type=TOTALORDER
          ==>  ROOT c = pred[4] compare(key(x), key(y)), direction=LT
               key(x) = bits(x) ^ ((bits(x) >> 31 arithmetic) >> 1 logical)
    """

    name: ClassVar[str] = "comparison-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.COMPARE: expand_total_order}


def expand_total_order(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """compare(x, y, TOTALORDER) = compare(key(x), key(y))."""
    if inst.attrs.type is not ComparisonType.TOTALORDER or not inst.operands[0].shape.element_type.is_float:
        return None
    rw.permit()
    b = Builder(rw)
    x, y = (_key(b, v) for v in b.vals(inst.operands))
    return x.compare(inst.attrs.direction.value, y).inst


def _key(b: Builder, x: Val) -> Val:
    if x.et.bits < 8:
        x = x.convert(F32)  # exact, and these types have no NaN
    signed = find(f"s{x.et.bits}")
    assert signed is not None
    bits = x.bitcast(signed)
    return bits ^ (b.shift_arithmetic(bits, x.et.bits - 1) >> 1)
