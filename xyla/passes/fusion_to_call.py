"""Fusions that the target has no kernel for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xyla.analysis.call_graph import control_instructions
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Instruction, Module
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.support.status import invalid


def _none(fusion: Instruction) -> bool:
    return False


@register
@dataclass(frozen=True, slots=True)
class FusionToCall(Pass):
    """Turns fusions without a kernel of their own into calls: their instructions run one by one.

    ROOT f = fusion(x), kind=kCustom, calls={...}      ==>      ROOT f = call(x), to_apply={...}

    `has_kernel` is the target's say on which stay fusions (none without it). Fusions inside those that go are asked for
    as well. Code cannot be emitted otherwise: a rewrite limit does not stop it.
    """

    name: ClassVar[str] = "fusion-to-call"
    has_kernel: Callable[[Instruction], bool] = _none

    def __post_init__(self) -> None:
        if not callable(self.has_kernel):
            raise invalid(f"option 'has_kernel' of pass 'fusion-to-call' is a function, not {self.has_kernel!r}")

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size."""
        fusions = [i for i in control_instructions(module) if i.op is ops.FUSION]
        changed = False
        while fusions:
            fusion = fusions.pop()
            if self.has_kernel(fusion):
                continue
            ctx.permit("fusion-to-call", fusion)
            callee = fusion.called
            fusions += [i for i in callee[0].instructions if i.op is ops.FUSION]
            ctx.record(rewriter.replace_with(fusion, ops.CALL, fusion.operands, ops.CallAttrs(), called=callee))
            changed = True
        return changed
