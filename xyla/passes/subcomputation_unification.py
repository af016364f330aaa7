"""One of several equal computations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.analysis.equivalence import Equivalence
from xyla.hlo import rewriter
from xyla.hlo.module import Computation, Module
from xyla.passes.inlining import drop_if_dead
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext


@register
@dataclass(frozen=True, slots=True)
class SubcomputationUnification(Pass):
    """Makes calls of computations with the same structure call the same one.

    reduce(x, 0), to_apply=add_1; reduce(y, 0), to_apply=add_2      ==>      ..., to_apply=add_1 for both
    """

    name: ClassVar[str] = "subcomputation-unification"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size; callees first."""
        classes = Equivalence()
        first: dict[int, Computation] = {}
        changed = False
        for comp in module.computation_post_order():
            if comp.is_entry:
                continue
            kept = first.setdefault(classes.class_of(comp), comp)
            if kept is comp:
                continue
            for caller in list(comp.callers):
                if not ctx.permit("unify-computations", caller):
                    return changed
                rewriter.set_called(caller, [kept if c is comp else c for c in caller.called])
                ctx.record(caller)
                changed = True
            drop_if_dead(comp)
        return changed
