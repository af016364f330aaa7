"""Chains of floating-point conversions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.passes.type_rules import wider
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import Fp, PassContext
from xyla.passmgr.rules import Rewrite, rule_table, run_rules, value_changing


@register
@dataclass(frozen=True, slots=True)
class SimplifyFpConversions(Pass):
    """Shortens chains of conversions between float types.

    A detour through a wider type goes always; one through a narrower type, which rounds, in fast mode only.

        a = f32[4] convert(bf16[4] x)
        ROOT b = bf16[4] convert(a)    ==>   x
    """

    name: ClassVar[str] = "simplify-fp-conversions"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Applies the rules until none matches."""
        return run_rules(module, ctx, _RULES)


def drop_wide_detour(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convert<C>(convert<B>(x: A)) = convert<C>(x) where B holds every value of A."""
    return _shorten(inst, rw, exact=True)


@value_changing(Fp.FAST, "the rounding (and overflow) of a narrower type in the middle of a conversion is left out")
def drop_narrow_detour(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convert<C>(convert<B>(x: A)) = convert<C>(x)."""
    return _shorten(inst, rw, exact=False)


def _shorten(inst: Instruction, rw: Rewrite, *, exact: bool) -> Instruction | None:
    inner = inst.operands[0]
    if inner.op is not ops.CONVERT:
        return None
    x = inner.operands[0]
    types = [i.shape.element_type for i in (x, inner, inst)]
    if not all(t.is_float for t in types) or (exact and types[0] is not types[1] and not wider(types[1], types[0])):
        return None
    if x.shape.compatible(inst.shape):
        return x
    return rw.add(ops.CONVERT, [x], shape=inst.shape)


_RULES = rule_table(([ops.CONVERT], [drop_wide_detour, drop_narrow_detour]))
