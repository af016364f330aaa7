"""Copies, where values that must share memory cannot."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from xyla.analysis.alias import Aliases, CanShare, in_place_pairs, share_elementwise
from xyla.analysis.call_graph import CallGraph
from xyla.analysis.coalescing import Group, Move, Place, find_copies
from xyla.analysis.dataflow import Dataflow, Use, Value
from xyla.analysis.interference import check_sharing
from xyla.analysis.leaves import LeafIndex
from xyla.analysis.timeline import LiveRanges, Timeline
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.ops.basic import IndexAttrs
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.support.status import internal, invalid, unimplemented

# What a copy makes room for may need a copy of its own (state that trades places); more rounds than this never happen.
_ROUNDS = 12


@register
@dataclass(frozen=True, slots=True)
class CopyInsertion(Pass):
    """Inserts the copies without which an update in place, a loop or an output would overwrite what is still needed.

        y = f32[8] dynamic-update-slice(x, u, i)              c = f32[8] copy(x)
        ROOT t = tuple(x, y)                           ==>    y = f32[8] dynamic-update-slice(c, u, i)
                                                              ROOT t = tuple(x, y)

    It works on the schedule and keeps it; a module without one is taken in its stored order, which becomes it.
    `can_share` is the target's hook: which results may be written over an operand, so that `i + 1` can replace `i`.
    The result is proved right by a replay of the program on its buffers. The copies are no option: without them the
    program is wrong, so a rewrite limit does not stop them.
    """

    name: ClassVar[str] = "copy-insertion"
    can_share: CanShare = share_elementwise

    def __post_init__(self) -> None:
        if not callable(self.can_share):
            raise invalid(f"option 'can_share' of pass 'copy-insertion' is a function, not {self.can_share!r}")

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Near linear in the number of values."""
        changed = _take_stored_order(module)
        for _ in range(_ROUNDS):
            graph = CallGraph(module)
            dataflow, timeline = Dataflow(module, graph), Timeline(module, graph)
            ranges = LiveRanges(timeline, dataflow)
            groups = find_copies(dataflow, ranges, self.can_share)
            if not groups:
                check_sharing(timeline, dataflow, Aliases(dataflow, self.can_share))
                return changed
            _Inserter(ctx, dataflow, timeline).insert(groups)
            changed = True
        raise internal(f"copies of module {module.name!r} need copies without end: %{groups[0].anchor.name}")


def _take_stored_order(module: Module) -> bool:
    if module.config.is_scheduled:
        return False
    for comp in module.computations.values():
        rewriter.restore_order(comp)
    module.config.is_scheduled = True
    return True


class _Inserter:
    """One round: makes the copies, then puts them in their places in the schedule."""

    def __init__(self, ctx: PassContext, dataflow: Dataflow, timeline: Timeline) -> None:
        self.ctx = ctx
        self.dataflow = dataflow
        self.timeline = timeline
        self.before: dict[Instruction, list[Instruction]] = {}
        self.tail: dict[Computation, list[Instruction]] = {}
        self.pending: list[Instruction] = []

    def insert(self, groups: list[Group]) -> None:
        """Inserts a round's copies. What concerns memory that a late reader left free is found again next time.

        Raises UNIMPLEMENTED when nothing is left but copies of what is still under way.
        """
        freed: set[int] = set()
        for group in groups:
            if self._spare_late_readers(group):
                freed.update(web for m in group.moves for web in (m.source, m.target))
                group.moves.clear()
        self._defer_last_of_same(groups)
        for group in groups:
            group.moves = [m for m in group.moves if m.source not in freed and m.target not in freed]
            whole = group.anchor.operands[group.number] if group.place is Place.OPERAND else group.anchor
            group.moves = [m for m in group.moves if not self._copy_before_start(whole, m)]
            if group.moves:
                self._insert(group, whole)
        if self.pending and not self.before and not self.tail:
            start = self.pending[0]
            raise unimplemented(
                f"the result of %{start.name} would have to be copied before it is there", span=start.span
            )
        self._place()

    def _defer_last_of_same(self, groups: list[Group]) -> None:
        """One value that an instruction updates in place twice: once the others are copies, the last may need none."""
        same: dict[tuple[Instruction, Value | None], list[Group]] = {}
        for group in groups:
            if group.place is Place.OPERAND and group.anchor.op is not ops.WHILE and len(group.moves) == 1:
                value = self.dataflow.values(group.anchor.operands[group.number])[group.moves[0].leaf]
                same.setdefault((group.anchor, value), []).append(group)
        for found in same.values():
            if len(found) > 1:
                found[-1].moves.clear()

    # -- the old value for those who read it late --------------------------------------------------------------------

    def _spare_late_readers(self, group: Group) -> bool:
        """Loop state that is updated in place and read again later: copies the old value for those who read it.

        The updated value then stays where the state lives; copying it first would need a second copy, back again.
        """
        if group.place is not Place.OPERAND or group.anchor.op is ops.WHILE or len(group.moves) != 1:
            return False
        inst, (move,) = group.anchor, group.moves
        operand = inst.operands[group.number]
        value = self.dataflow.values(operand)[move.leaf]
        loop = value.instruction if value is not None else inst
        if value is None or loop.op is not ops.WHILE or inst.parent is not loop.called[1]:
            return False
        if operand.shape is not value.shape:
            return False
        now, end = self.timeline.start(inst), self.timeline.end(loop)
        late = [u for u in value.uses if now <= self.timeline.start(u.instruction) < end]
        late = [u for u in late if u.instruction is not inst or u.operand_number != group.number]
        if not late or not all(_redirectable(u, value, inst) for u in late) or self._stays_state(value, inst):
            return False
        self.ctx.permit("copy-for-late-readers", inst)
        old = rewriter.create(inst.parent, ops.COPY, [operand], like=operand)
        self.before.setdefault(inst, []).append(old)
        self.ctx.record(old)
        for use in late:
            rewriter.set_operand(use.instruction, use.operand_number, old)
        return True

    def _stays_state(self, value: Value, inst: Instruction) -> bool:
        """Whether the value is handed on to the next trip as well: then it is needed to the end in any case."""
        return value in self.dataflow.values(inst.parent.root)

    # -- what is under way -------------------------------------------------------------------------------------------

    def _copy_before_start(self, whole: Instruction, move: Move) -> bool:
        """What a started operation works on is copied before it starts; its result cannot be before it is there."""
        start, leaf = self._producer(whole, move.leaf)
        if not start.op.has(Trait.ASYNC_START) or not self.dataflow.graph.goes_on(start):
            return False
        if any(operand not in self.dataflow for operand in start.operands):
            return True  # it was given a copy in this round: the next one sees what that leaves to do
        for number, operand in enumerate(start.operands):
            for i, value in enumerate(self.dataflow.values(operand)):
                if value is not None and value is self.dataflow.values(start)[leaf] and operand.op is not ops.COPY:
                    self._insert(Group(Place.OPERAND, start.parent, start, number, [replace(move, leaf=i)]), operand)
                    return True
        self.pending.append(start)
        return True

    def _producer(self, inst: Instruction, leaf: int) -> tuple[Instruction, int]:
        """The instruction, and its leaf, that a leaf was taken from through tuples."""
        index = self.dataflow.index
        while True:
            if inst.op is ops.TUPLE:
                starts = index.starts(inst.shape)
                i = bisect_right(starts, leaf) - 1
                inst, leaf = inst.operands[i], leaf - starts[i]
            elif inst.op is ops.GET_TUPLE_ELEMENT:
                inst, leaf = inst.operands[0], leaf + index.starts(inst.operands[0].shape)[inst.attrs.index]
            elif inst.op is ops.ASYNC_UPDATE:
                inst = inst.operands[0]
            else:
                return inst, leaf

    # -- groups ------------------------------------------------------------------------------------------------------

    def _insert(self, group: Group, whole: Instruction) -> None:
        comp, anchor = group.computation, group.anchor
        self.ctx.permit("insert-copy", anchor)
        made = _Maker(comp, self.dataflow.index)
        sources = {m.leaf: made.leaf(whole, m.leaf) for m in group.moves}
        copies = _in_sequence(group.moves, sources, made.copy)
        new = made.rebuild(whole, copies)
        if group.place is Place.OPERAND:
            rewriter.set_operand(anchor, group.number, new)
            self.before.setdefault(anchor, []).extend(made.out)
        else:
            comp.set_root(new)
            self.tail.setdefault(comp, []).extend(made.out)
            if whole.op is ops.TUPLE and not whole.users and not whole.control_successors:
                rewriter.erase(whole)
        self.ctx.record(new)

    def _place(self) -> None:
        """Stores the computations' instructions in execution order again."""
        new = {i for made in (*self.before.values(), *self.tail.values()) for i in made}
        for comp in dict.fromkeys([*(i.parent for i in self.before), *self.tail]):
            order: list[Instruction] = []
            for inst in comp.instructions:
                if inst not in new:
                    order += self.before.get(inst, ())
                    order.append(inst)
            comp.instructions = dict.fromkeys([*order, *self.tail.get(comp, ())])
            comp.revision += 1


def _redirectable(use: Use, value: Value, inst: Instruction) -> bool:
    """Whether a read can be given a copy instead: a plain operand beside `inst`, not one that is updated in place."""
    reader = use.instruction
    updated = any(number == use.operand_number for number, _, _ in in_place_pairs(reader))
    return reader.parent is inst.parent and reader.operands[use.operand_number].shape is value.shape and not updated


def _in_sequence(
    moves: list[Move], sources: dict[int, Instruction], copy: Callable[[Instruction], Instruction]
) -> dict[int, Instruction]:
    """Copies one after the other what has to happen at once: whatever is read in a web is read before it is written.

    Where they wait for each other in a circle, one value is kept aside first.
    """
    pending = {m.leaf: m for m in moves}
    into = {m.target: m for m in moves}
    readers = Counter(m.source for m in moves)
    ready = deque(m for m in moves if not readers[m.target])
    made: dict[int, Instruction] = {}

    def has_read(web: int, times: int) -> None:
        readers[web] -= times
        waiting = into.get(web)
        if not readers[web] and waiting is not None and waiting.leaf in pending:
            ready.append(waiting)

    aside: set[int] = set()
    while pending:
        if not ready:
            blocked = next(iter(pending.values()))
            reading = [m.leaf for m in pending.values() if m.source == blocked.target and m.leaf not in aside]
            kept = copy(sources[reading[0]])
            sources.update(dict.fromkeys(reading, kept))
            aside.update(reading)
            has_read(blocked.target, len(reading))
        move = ready.popleft()
        del pending[move.leaf]
        made[move.leaf] = copy(sources[move.leaf])
        if move.leaf not in aside:
            has_read(move.source, 1)
    return made


class _Maker:
    """New instructions of one computation, in the order in which they have to run."""

    def __init__(self, comp: Computation, index: LeafIndex) -> None:
        self.comp = comp
        self.index = index
        self.out: list[Instruction] = []
        self._elements: dict[tuple[Instruction, int], Instruction] = {}

    def copy(self, source: Instruction) -> Instruction:
        """A copy of an array."""
        return self._add(rewriter.create(self.comp, ops.COPY, [source], like=source))

    def leaf(self, whole: Instruction, leaf: int) -> Instruction:
        """The array at a leaf of an instruction."""
        while whole.shape.is_tuple:
            starts = self.index.starts(whole.shape)
            i = bisect_right(starts, leaf) - 1
            leaf -= starts[i]
            whole = self.element(whole, i)
        return whole

    def element(self, whole: Instruction, index: int) -> Instruction:
        """Element `index` of a tuple: what was put there, or an instruction that takes it out."""
        if whole.op is ops.TUPLE:
            return whole.operands[index]
        known = self._elements.get((whole, index))
        if known is None:
            attrs = IndexAttrs(index)
            shape = whole.shape.tuple_shapes[index]
            made = rewriter.create(self.comp, ops.GET_TUPLE_ELEMENT, [whole], attrs, shape=shape)
            known = self._elements[whole, index] = self._add(made)
        return known

    def rebuild(self, whole: Instruction, new: dict[int, Instruction]) -> Instruction:
        """`whole` with other arrays at the leaves of `new`; parts without any stay as they are. Iterative."""
        # Post-order: a part's elements are on the result stack when the part itself is met again.
        todo: list[tuple[Instruction, int, bool]] = [(whole, 0, False)]
        results: list[Instruction] = []
        leaves = sorted(new)
        while todo:
            inst, first, ready = todo.pop()
            if not inst.shape.is_tuple:
                results.append(new.get(first, inst))
                continue
            if ready:
                n = len(inst.shape.tuple_shapes)
                elements, results = results[len(results) - n :], results[: len(results) - n]
                results.append(self._add(rewriter.create(self.comp, ops.TUPLE, elements, shape=inst.shape, like=inst)))
                continue
            starts = self.index.starts(inst.shape)
            if not _any_within(leaves, first, first + starts[-1]):
                results.append(inst)
                continue
            todo.append((inst, first, True))
            n = len(inst.shape.tuple_shapes)
            todo.extend((self.element(inst, i), first + starts[i], False) for i in reversed(range(n)))
        return results[0]

    def _add(self, inst: Instruction) -> Instruction:
        self.out.append(inst)
        return inst


def _any_within(numbers: list[int], first: int, end: int) -> bool:
    i = bisect_left(numbers, first)
    return i < len(numbers) and numbers[i] < end
