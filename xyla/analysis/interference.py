"""A proof that values which share memory never get in each other's way: the program is replayed on its buffers.

Every alias set is one buffer, which holds one value at a time. The replay walks the schedule and asserts for every read
that the buffer holds what is read, and for every write that what it replaces is not read by the same instruction in a
way that the write could disturb. A loop's body is walked once, from a state in which everything that any trip writes is
unknown, except the loop's own state. The replay knows nothing of live ranges or of how copies were chosen.
"""

from __future__ import annotations

from bisect import bisect_left

from xyla.analysis.alias import Aliases, donated_leaves, entry_aliases, may_take_over
from xyla.analysis.call_graph import CONTROL_OPS, CallGraph
from xyla.analysis.dataflow import Dataflow, Value
from xyla.analysis.nesting import Nested, drive
from xyla.analysis.timeline import Timeline
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.support.status import XylaError, internal

# Their values lie in memory before anything runs.
_NEVER_WRITTEN = frozenset({ops.PARAMETER, ops.CONSTANT})


def check_sharing(timeline: Timeline, dataflow: Dataflow, aliases: Aliases) -> None:
    """Raises INTERNAL, naming both values, where one is written over another that is still to be read.

    Also when an output of the program would live in memory that is not its own (a constant's, another output's, a
    parameter's that was not given up). Linear in the program's size times the depth of its loops.
    """
    replay = _Replay(timeline, dataflow, aliases)
    for region in timeline.graph.regions:
        drive(replay.region(region))
    _check_outputs(dataflow, aliases)


class _Replay:
    """`holds[set]`: the value that a buffer holds, or None where that depends on the path taken."""

    def __init__(self, timeline: Timeline, dataflow: Dataflow, aliases: Aliases) -> None:
        self.timeline = timeline
        self.graph: CallGraph = timeline.graph
        self.dataflow = dataflow
        self.aliases = aliases
        self.holds: list[Value | None] = [None] * len(aliases.sets)
        # Who wrote there last, for messages: also known where what is held is not.
        self.wrote: list[Value | None] = [None] * len(aliases.sets)
        self.undo: list[tuple[int, Value | None]] = []
        self.reads: dict[Instruction, list[Value]] = {}
        for value in dataflow.all_values:
            for use in value.uses:
                self.reads.setdefault(use.instruction, []).append(value)
        written = [v for v in dataflow.all_values if v.size and v.instruction.op not in _NEVER_WRITTEN]
        births = sorted((timeline.end(v.instruction), aliases.set_of(v).id) for v in written)
        self.birth_times = [t for t, _ in births]
        self.birth_sets = [s for _, s in births]

    # -- buffers -----------------------------------------------------------------------------------------------------

    def put(self, place: int, value: Value | None) -> None:
        self.undo.append((place, self.holds[place]))
        self.holds[place] = value
        if value is not None:
            self.wrote[place] = value

    def back_to(self, mark: int) -> dict[int, None]:
        """Takes back everything since `mark`; returns the buffers that it concerned."""
        touched: dict[int, None] = {}
        while len(self.undo) > mark:
            place, value = self.undo.pop()
            self.holds[place] = value
            touched[place] = None
        return touched

    def expect(self, value: Value, reader: str) -> None:
        if not value.size:
            return
        place = self.aliases.set_of(value).id
        if self.holds[place] is not value:
            raise self.clash(value, self.holds[place] or self.wrote[place], reader)

    def clash(self, value: Value, other: Value | None, reader: str) -> XylaError:
        by = f"overwritten by {other.name} of {other.instruction.parent.name!r}" if other is not None else "not there"
        where = value.instruction.parent.name
        return internal(f"{value.name} of {where!r} is {by} before {reader} reads it", span=value.instruction.span)

    def write(self, value: Value) -> None:
        if value.size:
            self.put(self.aliases.set_of(value).id, value)

    # -- the walk ----------------------------------------------------------------------------------------------------

    def region(self, root: Computation) -> Nested:
        """One region, from what lies in memory before it starts to what has to be there at its end."""
        given_up = self.given_up() if root is self.timeline.module.entry else set()
        fixed: list[Value] = []
        for value in self.dataflow.all_values:
            inst = value.instruction
            if inst.op not in _NEVER_WRITTEN or self.timeline.region(inst.parent) is not root:
                continue
            place = self.aliases.set_of(value).id
            other = self.holds[place]
            if other is not None and value.size:
                raise self.clash(other, value, "anything")
            self.write(value)
            if value not in given_up:
                fixed.append(value)
        yield self.walk(root)
        for result in self.dataflow.values(root.root):
            if result is not None:
                self.expect(result, f"the caller of {root.name!r}")
        for value in fixed:
            self.expect(value, "the next run")

    def given_up(self) -> set[Value]:
        module = self.timeline.module
        places = {(a.parameter, a.leaf) for a in entry_aliases(module)} | set(donated_leaves(module))
        found = (self.dataflow.values(module.entry.parameters[n])[leaf] for n, leaf in places)
        return {v for v in found if v is not None}

    def walk(self, comp: Computation) -> Nested:
        for inst in comp.instructions:
            if inst.op is ops.WHILE:
                yield self.loop(inst)
            elif inst.op is ops.CONDITIONAL:
                yield self.choice(inst)
            elif inst.op in CONTROL_OPS and not self.graph.is_shared(inst.called[0]):
                yield self.walk(inst.called[0])
            elif inst.op is ops.ASYNC_DONE:
                self.wait(inst)
            elif inst.op not in _NEVER_WRITTEN:
                self.work(inst)

    def wait(self, inst: Instruction) -> None:
        """What work was started with is there still when it is waited for, unless it updated that; so is its result."""
        for value in (*self.reads.get(inst, ()), *self.dataflow.values(inst)):
            if value is not None:
                self.expect(value, f"%{inst.name}")
        start = inst.operands[0]
        while start.op is ops.ASYNC_UPDATE:
            start = start.operands[0]
        if start.op is not ops.ASYNC_START or not self.graph.goes_on(start):
            return
        for given in self.dataflow.values(start):
            held = self.holds[self.aliases.set_of(given).id] if given is not None else None
            if given is not None and (held is None or not self.runs_in(held.instruction.parent, start.called[0])):
                self.expect(given, f"%{inst.name}")

    def runs_in(self, comp: Computation, outer: Computation) -> bool:
        """Whether `comp` is `outer`, or entered from within it."""
        while comp is not outer:
            site = self.graph.site(comp)
            if site is None:
                return False
            comp = site.instruction.parent
        return True

    def work(self, inst: Instruction) -> None:
        reads = self.reads.get(inst, ())
        for value in reads:
            self.expect(value, f"%{inst.name}")
        written: set[int] = set()
        results = [v for v in self.dataflow.defines(inst) if v is not None and v.size]
        for result in results:
            place = self.aliases.set_of(result).id
            old = self.holds[place]
            if place in written:
                raise self.clash(result, result, f"a user of %{inst.name}")
            written.add(place)
            # Control flow that enters a shared computation has copied its operands by the time it has results.
            mixed = old is not None and any(r is old for r in reads) and inst.op not in CONTROL_OPS
            if mixed and old is not None and not may_take_over(result, old, self.aliases.can_share):
                raise self.clash(old, result, f"%{inst.name} itself")
        for result in results:
            self.write(result)

    def loop(self, inst: Instruction) -> Nested:
        condition, body = inst.called
        for value in self.reads.get(inst, ()):
            self.expect(value, f"%{inst.name}")
        phis = self.dataflow.defines(inst)
        for phi in phis:
            if phi is not None:
                self.write(phi)
        state = {self.aliases.set_of(p).id for p in phis if p is not None}
        for place in self.written_in(inst):
            if place not in state:
                self.put(place, None)
        if not self.graph.is_shared(condition):
            yield self.walk(condition)
            predicate = self.dataflow.value(condition.root)
            self.expect(predicate, f"%{inst.name}'s condition")
        mark = len(self.undo)
        if not self.graph.is_shared(body):
            yield self.walk(body)
            for phi, root in zip(phis, self.dataflow.values(body.root), strict=True):
                if phi is not None and root is not None:
                    self.expect(root, f"the next trip of %{inst.name}")
        self.back_to(mark)

    def written_in(self, inst: Instruction) -> dict[int, None]:
        """The buffers that some trip of a loop writes."""
        first = bisect_left(self.birth_times, self.timeline.start(inst))
        last = bisect_left(self.birth_times, self.timeline.end(inst))
        return dict.fromkeys(self.birth_sets[first:last])

    def choice(self, inst: Instruction) -> Nested:
        for value in self.reads.get(inst, ()):
            self.expect(value, f"%{inst.name}")
        phis = self.dataflow.defines(inst)
        touched: dict[int, None] = {}
        for branch in inst.called:
            if self.graph.is_shared(branch):
                continue
            mark = len(self.undo)
            yield self.walk(branch)
            for phi, root in zip(phis, self.dataflow.values(branch.root), strict=True):
                if phi is not None and root is not None:
                    self.expect(root, f"the result of %{inst.name}")
            touched |= self.back_to(mark)
        for place in touched:
            self.put(place, None)
        for phi in phis:
            if phi is not None:
                self.write(phi)


def _check_outputs(dataflow: Dataflow, aliases: Aliases) -> None:
    """Each output of the program is alone in its buffer, or in that of a parameter that was given up for it."""
    module = dataflow.module
    entry = module.entry
    lives_in = {a.output: dataflow.values(entry.parameters[a.parameter])[a.leaf] for a in entry_aliases(module)}
    seen: dict[int, Value] = {}
    fixed: dict[int, Value] = {}
    for value in dataflow.all_values:
        if value.instruction.op is ops.CONSTANT or (value.instruction.op is ops.PARAMETER and _of_entry(value)):
            fixed.setdefault(aliases.set_of(value).id, value)
    for leaf, result in enumerate(dataflow.values(entry.root)):
        if result is None or not result.size:
            continue
        place = aliases.set_of(result).id
        other = seen.get(place) or fixed.get(place)
        if other is not None and other is not lives_in.get(leaf):
            raise internal(f"output {leaf} ({result.name}) would live in the memory of {other.name}")
        seen[place] = result


def _of_entry(value: Value) -> bool:
    return value.instruction.parent.is_entry
