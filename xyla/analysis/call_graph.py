"""Which computations run as control flow, and from where.

Control flow enters a computation through call, while, conditional and async-start. Everything else that an instruction
calls (reducers, comparators, fusions) is embedded: part of one unit of work, never entered.

A computation that control flow enters at more than one place is *shared*: it has a frame of its own, which each place
copies arguments into and results out of, so that a DAG of calls costs its nodes and not its paths. Analyses follow
values through unshared computations only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import OpDef
from xyla.support.status import invalid

CONTROL_OPS: frozenset[OpDef[Any]] = frozenset({ops.CALL, ops.WHILE, ops.CONDITIONAL, ops.ASYNC_START})


@dataclass(frozen=True, slots=True)
class Site:
    """One place where control flow enters a computation: `instruction.called[role]`."""

    instruction: Instruction
    role: int

    @property
    def in_loop(self) -> bool:
        """Whether the place is a while's condition or body."""
        return self.instruction.op is ops.WHILE


def control_instructions(module: Module) -> list[Instruction]:
    """Every instruction that control flow runs, computation by computation, callees first."""
    return [inst for comp in CallGraph(module).control for inst in comp.instructions]


class CallGraph:
    """The control-flow call graph of a module, from its entry. A snapshot: make a new one after a change.

    control: every computation that control flow reaches, callees before callers; the entry is last.
    regions: the entry and the shared ones, callees first: every other one runs inside exactly one of them.
    Raises INVALID_ARGUMENT when a computation calls itself.
    """

    __slots__ = ("_depth", "_forks", "_sites", "control", "module", "regions")

    def __init__(self, module: Module) -> None:
        self.module = module
        self._sites: dict[Computation, list[Site]] = {module.entry: []}
        self.control = self._visit(module.entry)
        self.regions = [c for c in self.control if c is module.entry or self.is_shared(c)]
        self._depth: dict[Computation, int] = {}
        for comp in reversed(self.control):
            sites = self._sites[comp]
            self._depth[comp] = max((self._depth[s.instruction.parent] + s.in_loop for s in sites), default=0)
        self._forks: set[Computation] = set()
        for comp in self.control:
            if any(i.op in CONTROL_OPS and self._forks_in(i) for i in comp.instructions):
                self._forks.add(comp)

    def _visit(self, entry: Computation) -> list[Computation]:
        """Post order over an explicit stack; records the sites on the way."""
        out: list[Computation] = []
        done: set[Computation] = set()
        open_ = {entry}
        stack = [(entry, iter(self._scan(entry)))]
        while stack:
            comp, callees = stack[-1]
            for callee in callees:
                if callee in open_:
                    raise invalid(f"computation {callee.name!r} calls itself", span=callee.span)
                if callee not in done:
                    open_.add(callee)
                    stack.append((callee, iter(self._scan(callee))))
                    break
            else:
                stack.pop()
                open_.discard(comp)
                done.add(comp)
                out.append(comp)
        return out

    def _scan(self, comp: Computation) -> list[Computation]:
        callees: list[Computation] = []
        for inst in comp.instructions:
            if inst.op in CONTROL_OPS:
                for role, callee in enumerate(inst.called):
                    self._sites.setdefault(callee, []).append(Site(inst, role))
                    callees.append(callee)
        return callees

    def _forks_in(self, inst: Instruction) -> bool:
        return inst.op in (ops.WHILE, ops.CONDITIONAL) or any(
            c in self._forks or self.is_shared(c) for c in inst.called
        )

    def goes_on(self, start: Instruction) -> bool:
        """Whether what an async-start begins may go on while other instructions run, until it is waited for.

        A computation with loops, branches or shared functions does not: it is run to its end where it is started. So is
        one that nobody beside the start waits for.
        """
        if start.op is ops.ASYNC_START and not _is_awaited(start):
            return False
        return not any(c in self._forks or self.is_shared(c) for c in start.called)

    def sites(self, comp: Computation) -> tuple[Site, ...]:
        """Where control flow enters `comp`; empty for the entry and for what is not control flow."""
        return tuple(self._sites.get(comp, ()))

    def site(self, comp: Computation) -> Site | None:
        """The one place where `comp` is entered; None for the entry and for shared computations."""
        sites = self._sites[comp]
        return sites[0] if len(sites) == 1 else None

    def is_shared(self, comp: Computation) -> bool:
        """Whether control flow enters `comp` at more than one place."""
        return len(self._sites.get(comp, ())) > 1

    def depth(self, comp: Computation) -> int:
        """How many loops `comp` runs in, at the deepest of its places."""
        return self._depth[comp]

    def __contains__(self, comp: object) -> bool:
        return comp in self._depth


def _is_awaited(start: Instruction) -> bool:
    inst = start
    while len(inst.users) == 1:
        (inst,) = inst.users
        if inst.op is not ops.ASYNC_UPDATE:
            return inst.op is ops.ASYNC_DONE
    return False
