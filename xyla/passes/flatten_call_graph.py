"""A call graph without sharing: each computation that control flow calls has one caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext

# These run their callees as programs with buffers of their own; reducers, comparators and fusions are embedded.
_CONTROL = (ops.CALL, ops.WHILE, ops.CONDITIONAL)


@register
@dataclass(frozen=True, slots=True)
class FlattenCallGraph(Pass):
    """Gives each call, while and conditional its own copy of what it calls.

        a = call(x), to_apply=f
        b = call(a), to_apply=f      ==>      b = call(a), to_apply=f.1

    Buffer assignment needs it: an instruction then runs in one place only. A computation that is embedded elsewhere (a
    reducer) is copied for control flow too. At most `limit` instructions are added; past that the rest stays shared
    and a note says so.
    """

    name: ClassVar[str] = "flatten-call-graph"
    limit: int = 20000

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the size of the result; callers first, so that copies are taken apart in turn."""
        work = [c for c in module.computation_post_order() if c.is_entry or not c.callers]
        seen = set(work)
        taken: set[Computation] = set()
        added, changed = 0, False
        while work:
            comp = work.pop()
            for inst in list(comp.instructions):
                if not inst.called:
                    continue
                if not _is_control(inst):
                    _push(inst.called, work, seen)
                    continue
                for role, callee in enumerate(inst.called):
                    if callee not in taken and not _embedded(callee):
                        taken.add(callee)
                        _push([callee], work, seen)
                        continue
                    added += len(callee.instructions)
                    if added > self.limit:
                        ctx.notes.append(
                            f"flatten-call-graph: {callee.name} stays shared: the limit is {self.limit} instructions"
                        )
                        return changed
                    if not ctx.permit("copy-shared-computation", inst):
                        return changed
                    copy = rewriter.clone_computation(callee)
                    called = list(inst.called)
                    called[role] = copy
                    rewriter.set_called(inst, called)
                    ctx.record(inst)
                    taken.add(copy)
                    _push([copy], work, seen)
                    changed = True
        return changed


def _is_control(inst: Instruction) -> bool:
    return inst.op in _CONTROL or inst.op.has(Trait.ASYNC_START)


def _embedded(comp: Computation) -> bool:
    return any(not _is_control(i) for i in comp.callers)


def _push(comps: list[Computation] | tuple[Computation, ...], work: list[Computation], seen: set[Computation]) -> None:
    for comp in comps:
        if comp not in seen:
            seen.add(comp)
            work.append(comp)
