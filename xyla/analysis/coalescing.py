"""Which of the values that must share memory cannot, in the given schedule: where copies have to be.

Every value starts in a web of its own. Each edge between two values that must share memory (a phi and an input, an
in-place update and its operand, an output and what is returned) joins their webs, unless two values in them are needed
at one time: then the edge needs a copy. Edges in the innermost computations come first, so that what has to be copied
is copied outside of them.

Source: the idea is that of coalescing in translation out of SSA (Boissinot et al., CGO 2009).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from enum import Enum

from xyla.analysis.alias import CanShare, entry_aliases, in_place_pairs, may_take_over
from xyla.analysis.dataflow import Dataflow, Value
from xyla.analysis.timeline import LiveRanges
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction

_FAR = 1 << 62
# first, last, node: nodes are values by id, then the program's outputs.
_Piece = tuple[int, int, int]


class Place(Enum):
    """Where the copies of a group stand, and which operand they replace."""

    OPERAND = "operand"  # before `anchor`, for its operand number `number`
    ROOT = "root"  # at the end of `computation`, for its root


@dataclass(frozen=True, slots=True)
class Move:
    """Leaf `leaf` of the operand or root has to be copied. source, target: the webs it is read from and lands in."""

    leaf: int
    source: int
    target: int


@dataclass(slots=True)
class Group:
    """Copies that happen at one place, as if all at once: none may overwrite what another still has to read."""

    place: Place
    computation: Computation
    anchor: Instruction
    number: int
    moves: list[Move] = field(default_factory=list)


_Key = tuple[Place, Computation, Instruction, int]


@dataclass(frozen=True, slots=True)
class _Edge:
    source: Value
    target: int
    leaf: int
    group: _Key


class Webs:
    """Values that live in one buffer, and when: joined as long as no two are needed at one time."""

    def __init__(self, dataflow: Dataflow, ranges: LiveRanges, can_share: CanShare) -> None:
        self._dataflow = dataflow
        self._timeline = ranges.timeline
        self._can_share = can_share
        values = dataflow.all_values
        self._parent = list(range(len(values)))
        self._pieces: list[list[_Piece]] = [
            [(first, last, v.id) for first, last in ranges.segments(v)] if v.size else [] for v in values
        ]
        self._outlive(ranges)

    def _outlive(self, ranges: LiveRanges) -> None:
        """What nobody gave up outlives the program: no output may live there."""
        end = self._timeline.size - 1
        for value in self._dataflow.all_values:
            pieces = self._pieces[value.id]
            if pieces and pieces[-1][1] == end and ranges.outlives(value):
                pieces[-1] = (pieces[-1][0], end + 1, value.id)

    def add_output(self, size: int) -> int:
        """A node for an output of the program, alive after everything else."""
        node = len(self._parent)
        self._parent.append(node)
        end = self._timeline.size
        self._pieces.append([(end, end, node)] if size else [])
        return node

    def find(self, node: int) -> int:
        """The web a node is in."""
        parent = self._parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def force(self, a: int, b: int) -> None:
        """Joins two webs whatever they hold."""
        a, b = self.find(a), self.find(b)
        if a != b:
            self._join(a, b)

    def join(self, a: int, b: int) -> bool:
        """Joins two webs; False, with nothing changed, when values of both are needed at one time."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return True
        if len(self._pieces[a]) > len(self._pieces[b]):
            a, b = b, a
        theirs = self._pieces[b]
        if any(self._clashes(piece, theirs) for piece in self._pieces[a]):
            return False
        self._join(a, b)
        return True

    def _join(self, a: int, b: int) -> None:
        if len(self._pieces[a]) > len(self._pieces[b]):
            a, b = b, a
        for piece in self._pieces[a]:
            insort(self._pieces[b], piece)
        self._pieces[a] = []
        self._parent[a] = b

    def _clashes(self, piece: _Piece, others: list[_Piece]) -> bool:
        first, last, _ = piece
        i = bisect_right(others, (last, _FAR, _FAR))
        while i and others[i - 1][1] >= first:
            i -= 1
            if not self._hands_over(piece, others[i]) and not self._hands_over(others[i], piece):
                return True
        return False

    def _hands_over(self, old: _Piece, new: _Piece) -> bool:
        """Whether `new` begins where `old` ends, written over it by the instruction that reads it last."""
        values, at = self._dataflow.all_values, new[0]
        if old[1] != at or old[0] == at or max(old[2], new[2]) >= len(values):
            return False
        value = values[new[2]]
        if self._timeline.at(at) is not value.instruction or self._timeline.end(value.instruction) != at:
            return False
        return may_take_over(value, values[old[2]], self._can_share)


def find_copies(dataflow: Dataflow, ranges: LiveRanges, can_share: CanShare) -> list[Group]:
    """The copies that a scheduled module needs, in a deterministic order; none when all that must share can.

    A loop's state, an update's operand and so on may then need others for the copies themselves: ask again after
    inserting them (see `xyla.passes.copy_insertion`).
    """
    return _Search(dataflow, ranges, can_share).run()


class _Search:
    def __init__(self, dataflow: Dataflow, ranges: LiveRanges, can_share: CanShare) -> None:
        self.dataflow = dataflow
        self.graph = dataflow.graph
        self.webs = Webs(dataflow, ranges, can_share)
        self.edges: list[_Edge] = []

    def run(self) -> list[Group]:
        for comp in self.graph.control:
            for inst in comp.instructions:
                self._edges_of(inst)
        self._outputs()
        failed = [e for e in self.edges if not self.webs.join(e.source.id, e.target)]
        groups: dict[_Key, Group] = {}
        for e in failed:
            group = groups.setdefault(e.group, Group(*e.group))
            group.moves.append(Move(e.leaf, self.webs.find(e.source.id), self.webs.find(e.target)))
        for group in groups.values():
            group.moves.sort(key=lambda m: m.leaf)
        return list(groups.values())

    def _edge(self, source: Value | None, target: int, leaf: int, group: _Key) -> None:
        if source is not None:
            self.edges.append(_Edge(source, target, leaf, group))

    def _edges_of(self, inst: Instruction) -> None:
        values, comp = self.dataflow.values, inst.parent
        if inst.op is ops.WHILE:
            init, body = inst.operands[0], inst.called[1]
            self._into_phis(inst, values(init), (Place.OPERAND, comp, inst, 0))
            if not self.graph.is_shared(body):
                self._into_phis(inst, values(body.root), (Place.ROOT, body, body.root, 0))
        elif inst.op is ops.CONDITIONAL:
            for branch in inst.called:
                if not self.graph.is_shared(branch):
                    self._into_phis(inst, values(branch.root), (Place.ROOT, branch, branch.root, 0))
        for number, leaf, output in in_place_pairs(inst):
            target = values(inst)[output]
            if target is not None:
                group = (Place.OPERAND, comp, inst, number)
                self._edge(values(inst.operands[number])[leaf], target.id, leaf, group)

    def _into_phis(self, inst: Instruction, sources: tuple[Value | None, ...], group: _Key) -> None:
        for leaf, phi in enumerate(self.dataflow.defines(inst)):
            if phi is not None and phi.is_phi:
                self._edge(sources[leaf], phi.id, leaf, group)

    def _outputs(self) -> None:
        module = self.dataflow.module
        entry, values = module.entry, self.dataflow.values
        lives_in = {a.output: values(entry.parameters[a.parameter])[a.leaf] for a in entry_aliases(module)}
        group = (Place.ROOT, entry, entry.root, 0)
        for leaf, value in enumerate(values(entry.root)):
            if value is None:
                continue
            node = self.webs.add_output(value.size)
            parameter = lives_in.get(leaf)
            if parameter is not None:
                self.webs.force(parameter.id, node)
            self._edge(value, node, leaf, group)
