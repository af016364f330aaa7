"""Names of constants that every assembler and linker takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Instruction, Module
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext

_OTHER = re.compile(r"[^A-Za-z0-9_]")


@register
@dataclass(frozen=True, slots=True)
class SanitizeConstantNames(Pass):
    """Makes the names of constants identifiers, each of them once in the module: constants become global symbols.

    c.1-a = f32[] constant(1)      ==>      c_1_a = f32[] constant(1)
    """

    name: ClassVar[str] = "sanitize-constant-names"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size."""
        constants = [i for c in module.computations.values() for i in c.instructions if i.op is ops.CONSTANT]
        # Those with good names come first: they keep them.
        constants.sort(key=lambda inst: _OTHER.search(inst.name) is not None)
        taken: dict[str, int] = {}
        changed = False
        for inst in constants:
            name = _free(inst, _OTHER.sub("_", inst.name), taken)
            taken[name] = 0
            if name == inst.name:
                continue
            if not ctx.permit("sanitize-constant-name", inst):
                return changed
            rewriter.rename(inst, name)
            ctx.record(inst)
            changed = True
        return changed


def _free(inst: Instruction, base: str, taken: dict[str, int]) -> str:
    """`base`, or `base__N` where another constant or a neighbour is called that."""
    name = base
    while name in taken or inst.parent.find(name) not in (None, inst):
        taken[base] = taken.get(base, 0) + 1
        name = f"{base}__{taken[base]}"
    return name
