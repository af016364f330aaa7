"""Inlining of calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.passes.inlining import drop_if_dead, inline
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext

# Bodies of manually partitioned regions: the partitioner must find them as calls.
_MANUAL = ("shmap_body", "xla.sdy.manual_computation_body")


@register
@dataclass(frozen=True, slots=True)
class CallInliner(Pass):
    """Replaces calls by the bodies they call.

        ROOT c = call(x), to_apply={p -> negate(p)}      ==>      ROOT n = negate(x)

    Everything is inlined if the result has at most `limit` instructions. If not, only callees with one caller and
    those of at most `small` instructions are: deeply shared programs stay linear. Calls marked `inlineable="false"`,
    calls on the host and bodies of manual regions stay; so do composites whose names are in `composites_to_preserve`
    (separated by `;`, `*` for all).

    single_call_site: inlines only callees with one caller.
    """

    name: ClassVar[str] = "call-inliner"
    single_call_site: bool = False
    composites_to_preserve: str = ""
    limit: int = 10000
    small: int = 24

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the size of the result. Callers first: what an inlined body calls is then seen in its new place."""
        plan = _Plan(self, module)
        changed = False
        for comp in reversed(module.computation_post_order()):
            if comp.callers or comp.is_entry:
                changed |= _inline_calls(comp, plan, ctx)
        return changed


def _inline_calls(comp: Computation, plan: _Plan, ctx: PassContext) -> bool:
    work = [i for i in comp.instructions if i.op is ops.CALL]
    work.reverse()
    changed = False
    while work:
        call = work.pop()
        callee = call.called[0]
        if not plan.wants(call):
            continue
        if not ctx.permit("inline-call", call):
            return changed
        copies = inline(call, callee, call.operands)
        drop_if_dead(callee)
        changed = True
        work.extend(i for i in reversed(copies) if i.op is ops.CALL)
    return changed


class _Plan:
    """Decides beforehand which callees are inlined everywhere, from sizes that count what they inline themselves."""

    def __init__(self, options: CallInliner, module: Module) -> None:
        self.options = options
        self.composites = frozenset(filter(None, options.composites_to_preserve.split(";")))
        order = module.computation_post_order()
        self.sites = {c: sum(c.callers.values()) for c in order}
        self.inlined = {c for c in order if self._inlinable(c)}
        if options.single_call_site:
            self.inlined = {c for c in self.inlined if self.sites[c] == 1}
        elif self._total_size(order, self.inlined) > options.limit:
            self.inlined = self._chosen(order)

    def wants(self, call: Instruction) -> bool:
        """Whether a call is to be inlined."""
        return call.called[0] in self.inlined and self._allows(call)

    def _inlinable(self, comp: Computation) -> bool:
        if comp.is_entry or any(word in comp.name for word in _MANUAL):
            return False
        return any(i.op is ops.CALL and self._allows(i) for i in comp.callers)

    def _allows(self, call: Instruction) -> bool:
        if any(i.op.has(Trait.ASYNC_START) for i in call.parent.callers):
            return False  # an asynchronous computation is one call, by definition
        attributes = dict(call.frontend_attributes)
        if attributes.get("inlineable", "").strip('"') == "false":
            return False
        if "host" in attributes.get("_xla_compute_type", ""):
            return False
        if call.attrs.is_composite and self.composites:
            return attributes.get("composite.name", "").strip('"') not in self.composites and "*" not in self.composites
        return True

    def _total_size(self, order: list[Computation], inlined: set[Computation]) -> int:
        sizes = self._sizes(order, inlined)
        return sum(size for comp, size in sizes.items() if comp not in inlined)

    def _sizes(self, order: list[Computation], inlined: set[Computation]) -> dict[Computation, int]:
        sizes: dict[Computation, int] = {}
        for comp in order:
            sizes[comp] = _size(comp, sizes, inlined)
        return sizes

    def _chosen(self, order: list[Computation]) -> set[Computation]:
        """Callees with one caller, and small ones, their own inlined calls counted."""
        chosen: set[Computation] = set()
        sizes: dict[Computation, int] = {}
        for comp in order:
            sizes[comp] = _size(comp, sizes, chosen)
            if comp in self.inlined and (self.sites[comp] == 1 or sizes[comp] <= self.options.small):
                chosen.add(comp)
        return chosen


def _size(comp: Computation, sizes: dict[Computation, int], inlined: set[Computation]) -> int:
    """The instructions of `comp` once its calls of `inlined` computations are bodies (parameters and calls go)."""
    total = 0
    for inst in comp.instructions:
        if inst.op is ops.CALL and inst.called[0] in inlined:
            total += sizes[inst.called[0]]
        elif inst.op is not ops.PARAMETER:
            total += 1
    return total
