"""Element types that a target lacks are computed in another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo.module import Instruction, Module
from xyla.passes.building import expand_one, non_fusion_computations
from xyla.passes.retyping import TypeMap, is_arithmetic, run_in, uses
from xyla.passes.type_rules import wider
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import Fp, PassContext
from xyla.passmgr.rules import Rewrite, Rule, fp_allows
from xyla.support.dtypes import find
from xyla.support.status import invalid

VALUE_CHANGING = {
    "reduce_in_wider_type": (Fp.DEFAULT, "a reduction of a narrow float rounds once, at its end, not at every step"),
}


@register
@dataclass(frozen=True, slots=True)
class ElementTypeConverter(Pass):
    """Computes in `replace_with` what is written in `eliminate`: converts operands, and the result back.

    Data keeps its type where it is only moved or stored. A reduction accumulates in `replace_with` and rounds once, at
    its end (unless fp is strict: then it stays); what other ops call is converted on its own, so that each operation
    there still rounds. `replace_with` must hold every value of `eliminate`.

        ROOT a = bf16[4] add(x, y)
          ==>  s = f32[4] add(convert(x), convert(y))
               ROOT r = bf16[4] convert(s)
    """

    name: ClassVar[str] = "element-type-converter"
    eliminate: str = "bf16"
    replace_with: str = "f32"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Each instruction once."""
        return convert_types(module, ctx, type_map(self.eliminate, self.replace_with), is_arithmetic)


def type_map(eliminate: str, replace_with: str) -> TypeMap:
    """{type: replacement}. Raises INVALID_ARGUMENT for unknown types or a replacement that loses values."""
    low, high = find(eliminate), find(replace_with)
    if low is None or high is None:
        raise invalid(f"unknown element type {eliminate if low is None else replace_with!r}")
    if not wider(high, low):
        raise invalid(f"{high} does not hold every value of {low}")
    return {low: high}


def convert_types(module: Module, ctx: PassContext, types: TypeMap, wanted: Callable[[Instruction], bool]) -> bool:
    """Runs every wanted instruction that uses one of the types in its replacement; returns whether any did."""

    def run_in_wider_type(inst: Instruction, rw: Rewrite) -> Instruction | None:
        """op(x: low) = convert<low>(op(convert<high>(x)))."""
        return run_in(inst, rw, types)

    def reduce_in_wider_type(inst: Instruction, rw: Rewrite) -> Instruction | None:
        """reduce(x: low, add) = convert<low>(reduce(convert<high>(x), add in high))."""
        return run_in(inst, rw, types)

    reductions = fp_allows(ctx.fp, VALUE_CHANGING["reduce_in_wider_type"][0])
    changed = False
    for comp in non_fusion_computations(module):
        for inst in comp.post_order():
            if ctx.control.stopped:
                return changed
            if uses(inst, types) and wanted(inst) and (reductions or not inst.called):
                rule: Rule = reduce_in_wider_type if inst.called else run_in_wider_type
                changed |= expand_one(inst, ctx, rule)
    return changed
