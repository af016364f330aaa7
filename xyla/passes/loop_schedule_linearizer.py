"""Readers of an old value before the instruction that writes the new one in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xyla.analysis.alias import in_place_pairs
from xyla.analysis.call_graph import CallGraph
from xyla.analysis.dataflow import Dataflow, Value
from xyla.analysis.reachability import Reachability
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext


@register
@dataclass(frozen=True, slots=True)
class LoopScheduleLinearizer(Pass):
    """Makes whoever reads a value run before what replaces it, by control dependencies, where that is possible.

        i = get-tuple-element(state), index=0                i = get-tuple-element(state), index=0
        next = add(i, one)                                   row = dynamic-slice(x, i)
        row = dynamic-slice(x, i)                      ==>   next = add(i, one), control-predecessors={row}
        ROOT t = tuple(next, row)                            ROOT t = tuple(next, row)

    A loop's next state can then be written over the present one, and an update over what it updates, without a copy.
    Replaced are a loop's state, by the value that the body returns for it, and the operand of an update in place.
    """

    name: ClassVar[str] = "loop-schedule-linearizer"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Near linear in the number of reads."""
        if not any(inst.op is ops.WHILE or in_place_pairs(inst) for inst in module.instructions()):
            return False
        graph = CallGraph(module)
        dataflow = Dataflow(module, graph)
        order = _Order(graph)
        changed = False
        for value, writer in _replacements(dataflow):
            for first, then in order.before_writer([u.instruction for u in value.uses], writer):
                if first in then.control_predecessors or first in then.operands or not order.require(first, then):
                    continue
                if not ctx.permit("read-before-write", then):
                    return _keep_order(module, changed)
                rewriter.add_control_dependency(first, then)
                ctx.record(then)
                changed = True
        return _keep_order(module, changed)


class _Order:
    """Orders of the computations, made when first asked for."""

    def __init__(self, graph: CallGraph) -> None:
        self._graph = graph
        self._orders: dict[Computation, Reachability] = {}

    def require(self, first: Instruction, then: Instruction) -> bool:
        """As `Reachability.require`, of the computation that both are in."""
        return self._of(first.parent).require(first, then)

    def before_writer(self, readers: list[Instruction], writer: Instruction) -> list[tuple[Instruction, Instruction]]:
        """For each reader the two instructions of one computation in which it and the writer run.

        The last readers come first: what comes after those then comes after the others too.
        """
        at = self._enclosing(writer)
        pairs: dict[tuple[Instruction, Instruction], int] = {}
        for reader in readers:
            outer: Instruction | None = reader
            while outer is not None and outer.parent not in at:
                outer = self._outside(outer)
            if outer is not None and outer is not at[outer.parent]:
                pairs[outer, at[outer.parent]] = self._of(outer.parent).position(outer)
        return sorted(pairs, key=lambda pair: -pairs[pair])

    def _enclosing(self, inst: Instruction) -> dict[Computation, Instruction]:
        """The instruction of each computation around `inst` in which it runs, through plain calls."""
        at = {inst.parent: inst}
        outer = self._outside(inst)
        while outer is not None and outer.op is ops.CALL:
            at[outer.parent] = outer
            outer = self._outside(outer)
        return at

    def _outside(self, inst: Instruction) -> Instruction | None:
        site = self._graph.site(inst.parent)
        return None if site is None else site.instruction

    def _of(self, comp: Computation) -> Reachability:
        found = self._orders.get(comp)
        if found is None:
            found = self._orders[comp] = Reachability(comp)
        return found


def _keep_order(module: Module, changed: bool) -> bool:
    if changed and module.config.is_scheduled:
        for comp in module.computations.values():
            rewriter.restore_order(comp)
    return changed


def _replacements(dataflow: Dataflow) -> Iterator[tuple[Value, Instruction]]:
    """(value, instruction that writes another one in its place)."""
    for comp in dataflow.graph.control:
        for inst in comp.instructions:
            for number, leaf, _ in in_place_pairs(inst):
                value = dataflow.values(inst.operands[number])[leaf]
                if value is not None and value.instruction.op is not ops.CONSTANT:
                    yield value, inst
            if inst.op is ops.WHILE and not dataflow.graph.is_shared(inst.called[1]):
                yield from _next_states(dataflow, inst)


def _next_states(dataflow: Dataflow, loop: Instruction) -> Iterator[tuple[Value, Instruction]]:
    body = loop.called[1]
    for phi, root in zip(dataflow.defines(loop), dataflow.values(body.root), strict=True):
        if phi is None or root is None:
            continue
        first = _first_version(dataflow, root)
        outer = first.instruction
        # A value that a call returns is written inside of it.
        while (
            outer.parent is not body and (site := dataflow.graph.site(outer.parent)) and site.instruction.op is ops.CALL
        ):
            outer = site.instruction
        if first is not phi and outer.parent is body and outer.op is not ops.CONSTANT:
            yield phi, first.instruction


def _first_version(dataflow: Dataflow, value: Value) -> Value:
    """What a chain of updates in place started from: the memory is first written there."""
    while True:
        inst = value.instruction
        sources = [(number, leaf) for number, leaf, output in in_place_pairs(inst) if output == value.leaf]
        if not sources:
            return value
        number, leaf = sources[0]
        source = dataflow.values(inst.operands[number])[leaf]
        if source is None:
            return value
        value = source
