"""One computation as the scheduler sees it: numbered nodes, and buffers of known sizes that nodes define and use.

Numbers are positions in the given order (a valid one), so plain lists hold everything. The view is local to one
computation: what its callees need while they run is a number a node, computed before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xyla.analysis.alias import CanShare, Pair, entry_aliases, in_place_pairs
from xyla.analysis.call_graph import CONTROL_OPS
from xyla.analysis.dataflow import Dataflow, Leaves, Value, forwards
from xyla.analysis.purity import Purity
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef, Trait

NO_BUFFER = -1
_ASYNC = Trait.ASYNC_START | Trait.ASYNC_DONE | Trait.COLLECTIVE
# They run nothing.
_FREE: frozenset[OpDef[Any]] = frozenset({
    ops.PARAMETER, ops.CONSTANT, ops.TUPLE, ops.GET_TUPLE_ELEMENT, ops.AFTER_ALL, ops.ASYNC_UPDATE, ops.OPT_BARRIER,
})  # fmt: skip


@dataclass(slots=True)
class Graph:
    """Nodes 0..n-1 in the given order.

    needs, feeds: nodes before and after (operands, control dependencies, the order of effects).
    sizes: bytes of each buffer. users: the nodes that use it; one in `kept` is needed to the end.
    defines, uses: the buffers of each node. born, wasted: bytes that it defines, and those of them that nothing uses.
    in_place: node -> pairs (old, new): `new` may take over the memory of `old` when the node is the last to use that;
    a buffer takes part once.
    inner: bytes that a node's callees need while it runs; `holds_results`: they include the node's results.
    given: buffers that exist at the start (a callee's arguments, those of the entry that are given up).
    free: whether a node runs nothing.
    """

    instructions: list[Instruction]
    needs: list[list[int]] = field(default_factory=list)
    feeds: list[list[int]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    defines: list[list[int]] = field(default_factory=list)
    uses: list[list[int]] = field(default_factory=list)
    users: list[list[int]] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)
    born: list[int] = field(default_factory=list)
    wasted: list[int] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    in_place: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    inner: list[int] = field(default_factory=list)
    holds_results: list[bool] = field(default_factory=list)
    free: list[bool] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.instructions)


class GraphBuilder:
    """Makes the graphs of one module's computations from its dataflow."""

    def __init__(self, dataflow: Dataflow, can_share: CanShare) -> None:
        self._dataflow = dataflow
        self._can_share = can_share
        self._purity = Purity()
        self._effects: dict[OpDef[Any], bool] = {}
        parameters = dataflow.module.entry.parameters
        # Arguments that an output is written over: two are alive at once when one is read after that.
        self._given_up = {dataflow.values(parameters[a.parameter])[a.leaf] for a in entry_aliases(dataflow.module)}

    def build(self, comp: Computation, peaks: Mapping[Computation, int], *, in_loop: bool) -> Graph:
        """The graph of `comp`. `peaks`: bytes that each callee needs beside its arguments.

        in_loop: `comp` is a while's body, which owns its arguments: each dies at its last use.
        """
        order = comp.post_order()
        graph = Graph(order)
        numbers: dict[Value, int] = {}
        for node, inst in enumerate(order):
            graph.free.append(inst.op in _FREE or (forwards(inst) and not inst.op.has(Trait.ASYNC_DONE)))
            fresh = self._add_buffers(graph, numbers, self._dataflow.values(inst))
            if inst.op is ops.PARAMETER:
                graph.given += fresh
                fresh = []
            graph.defines.append(fresh)
            if fresh and (pairs := self._pairs(graph, inst, numbers, set(fresh))):
                graph.in_place[node] = pairs
            self._add_inner(graph, inst, peaks)
        self._add_uses(graph, numbers)
        self._add_edges(graph)
        graph.kept.update(b for b in self._buffers(comp.root, numbers) if b != NO_BUFFER)
        if not in_loop and not comp.is_entry:
            graph.kept.update(graph.given)
        self._add_sums(graph)
        return graph

    @staticmethod
    def _add_sums(graph: Graph) -> None:
        sizes, users, kept = graph.sizes, graph.users, graph.kept
        for defined in graph.defines:
            graph.born.append(sum([sizes[b] for b in defined]))
            graph.wasted.append(sum([sizes[b] for b in defined if not users[b] and b not in kept]))

    # -- buffers -----------------------------------------------------------------------------------------------

    def _add_buffers(self, graph: Graph, numbers: dict[Value, int], values: Leaves) -> list[int]:
        """Numbers the values that are met for the first time; those of them that take memory of a run."""
        fresh = []
        for value in values:
            if value is None or value in numbers:
                continue
            if value not in self._given_up and _is_external(value):
                numbers[value] = NO_BUFFER
                continue
            number = numbers[value] = len(graph.sizes)
            graph.sizes.append(value.size)
            graph.users.append([])
            fresh.append(number)
        return fresh

    def _buffers(self, inst: Instruction, numbers: Mapping[Value, int]) -> list[int]:
        """A number a leaf; NO_BUFFER for what takes no memory of a run."""
        return [NO_BUFFER if v is None else numbers[v] for v in self._dataflow.values(inst)]

    def _pairs(
        self, graph: Graph, inst: Instruction, numbers: Mapping[Value, int], fresh: set[int]
    ) -> list[tuple[int, int]]:
        """Which of the `fresh` buffers may take over which operand's memory: (old, new), each pair once."""
        outputs = self._buffers(inst, numbers)
        operands = [self._buffers(o, numbers) for o in inst.operands]
        pairs: dict[tuple[int, int], None] = {}
        for operand, leaf, out in self._candidates(graph, inst, operands, outputs):
            old, new = operands[operand][leaf], outputs[out]
            if old != NO_BUFFER and new in fresh:
                pairs[old, new] = None
        return list(pairs)

    def _candidates(
        self, graph: Graph, inst: Instruction, operands: Sequence[Sequence[int]], outputs: Sequence[int]
    ) -> Sequence[Pair]:
        if inst.op is ops.WHILE:
            return [(0, leaf, leaf) for leaf in range(len(outputs))]
        found = in_place_pairs(inst)
        if found or len(outputs) != 1 or outputs[0] == NO_BUFFER:
            return found
        size = graph.sizes[outputs[0]]
        alike = [n for n, o in enumerate(operands) if len(o) == 1 and o[0] != NO_BUFFER and graph.sizes[o[0]] == size]
        return [(n, 0, 0) for n in alike if self._can_share(inst, n, 0, 0)]

    @staticmethod
    def _add_inner(graph: Graph, inst: Instruction, peaks: Mapping[Computation, int]) -> None:
        inner = max((peaks.get(c, 0) for c in inst.called), default=0) if inst.op in CONTROL_OPS else 0
        graph.inner.append(inner)
        graph.holds_results.append(inner > 0 and inst.op is not ops.WHILE)

    def _add_uses(self, graph: Graph, numbers: Mapping[Value, int]) -> None:
        for node, inst in enumerate(graph.instructions):
            if graph.free[node]:
                graph.uses.append([])
                continue
            used = dict.fromkeys(b for o in inst.operands for b in self._buffers(o, numbers) if b != NO_BUFFER)
            graph.uses.append(list(used))
            for b in used:
                graph.users[b].append(node)

    # -- order that any schedule keeps ---------------------------------------------------------------------------

    def _add_edges(self, graph: Graph) -> None:
        number = {inst: node for node, inst in enumerate(graph.instructions)}
        graph.feeds = [[] for _ in graph.instructions]
        last_effect = -1
        for node, inst in enumerate(graph.instructions):
            before = dict.fromkeys(number[o] for o in (*inst.operands, *inst.control_predecessors))
            if self._has_effect(inst):
                if last_effect >= 0:
                    before[last_effect] = None
                last_effect = node
            graph.needs.append(list(before))
            for need in before:
                graph.feeds[need].append(node)

    def _has_effect(self, inst: Instruction) -> bool:
        """Effects stay in their order; collectives and asynchronous pairs are free to move against one another."""
        op = inst.op
        if not inst.called and op is not ops.CUSTOM_CALL:
            known = self._effects.get(op)
            if known is None:
                known = self._effects[op] = bool(op.traits & (Trait.SIDE_EFFECT | Trait.STATEFUL_RNG))
            return known
        return op.has(Trait.SIDE_EFFECT) or (not op.traits & _ASYNC and not self._purity.pure(inst))


def _is_external(value: Value) -> bool:
    """Constants and the entry's parameters lie in memory that no schedule changes."""
    inst = value.instruction
    return inst.op is ops.CONSTANT or (inst.op is ops.PARAMETER and inst.parent.is_entry)
