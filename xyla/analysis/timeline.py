"""When things run: a position for every instruction of a scheduled module, and how long each value is alive.

Positions count up in execution order through nested computations; each body of a loop and each branch counts once.

    start(w) enter(condition) ... exit(condition) enter(body) ... exit(body) end(w)

An instruction that enters nothing starts and ends at one position: it reads its operands and writes its result there.
One that does reads its operands at its start and has its result at its end. Regions (the entry and each shared
computation) follow one another; between regions positions say nothing: a shared computation may run anywhere.

Source: XLA's HloLiveRange (behaviour).
"""

from __future__ import annotations

from bisect import bisect_right

from xyla.analysis.alias import Aliases, donated_leaves, entry_aliases, in_place_pairs
from xyla.analysis.call_graph import CONTROL_OPS, CallGraph
from xyla.analysis.dataflow import OPERANDS_IN, Dataflow, Use, Value
from xyla.analysis.nesting import Nested, drive
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.support.status import internal

Segment = tuple[int, int]  # positions, both included


class Timeline:
    """Positions of a scheduled module. A snapshot. Raises INTERNAL when the module is not scheduled."""

    def __init__(self, module: Module, graph: CallGraph | None = None) -> None:
        if not module.config.is_scheduled:
            raise internal(f"module {module.name!r} is not scheduled")
        self.module = module
        self.graph = graph or CallGraph(module)
        self.size = 0
        self._start: dict[Instruction, int] = {}
        self._end: dict[Instruction, int] = {}
        self._enter: dict[Computation, int] = {}
        self._exit: dict[Computation, int] = {}
        self._region: dict[Computation, Computation] = {}
        self._at: list[Instruction | None] = []
        for root in self.graph.regions:
            drive(self._number(root, root))
            # After everything: what must outlive the region is alive here.
            self._tick(None)

    def _tick(self, inst: Instruction | None) -> int:
        self._at.append(inst)
        self.size += 1
        return self.size - 1

    def _number(self, comp: Computation, region: Computation) -> Nested:
        self._region[comp] = region
        self._enter[comp] = self._tick(None)
        for inst in comp.instructions:
            self._start[inst] = self._end[inst] = self._tick(inst)
            if inst.op in CONTROL_OPS:
                for callee in inst.called:
                    if not self.graph.is_shared(callee):
                        yield self._number(callee, region)
                self._end[inst] = self._tick(inst)
        self._exit[comp] = self._tick(None)

    def start(self, inst: Instruction) -> int:
        """When `inst` reads its operands. Raises KeyError for an instruction that control flow does not reach."""
        return self._start[inst]

    def end(self, inst: Instruction) -> int:
        """When `inst` has its result; equal to its start unless it enters computations."""
        return self._end[inst]

    def enter(self, comp: Computation) -> int:
        """The position before `comp`'s first instruction."""
        return self._enter[comp]

    def exit(self, comp: Computation) -> int:
        """The position after `comp`'s last instruction: its root is alive here."""
        return self._exit[comp]

    def at(self, position: int) -> Instruction | None:
        """The instruction that starts or ends at a position; None where a computation is entered or left."""
        return self._at[position]

    def region(self, comp: Computation) -> Computation:
        """The region that `comp` runs in: the entry or a shared computation."""
        return self._region[comp]

    def span(self, region: Computation) -> Segment:
        """First and last position of a region; the last one comes after its exit."""
        return self._enter[region], self._exit[region] + 1


class LiveRanges:
    """How long each value's contents are needed, on a timeline, loops closed over. A snapshot.

    A value is alive from where it is written to where it was last read. One that is read in a loop it does not belong
    to lives as long as the loop; one that a branch reads does not live in the other branches, unless it is needed after
    them. Loop state (a phi) lives through the condition, to its last read in the body, and again after the loop.
    Constants and the caller's parameters live throughout, unless the caller gives a parameter up.
    """

    def __init__(self, timeline: Timeline, dataflow: Dataflow) -> None:
        self.timeline = timeline
        self.dataflow = dataflow
        self._graph = timeline.graph
        self._block = self._blocks()
        self._roots: dict[Value, list[tuple[Computation, int]]] = {}
        self._until = self._async_spans()
        self._note_roots()
        self._given_up, self._donated = self._parameters()
        self._segments: list[list[Segment]] = [self._live(value) for value in dataflow.all_values]

    # -- questions ---------------------------------------------------------------------------------------------------

    def segments(self, value: Value) -> list[Segment]:
        """When the value is alive: sorted, disjoint, both ends included."""
        return self._segments[value.id]

    def range(self, value: Value) -> Segment:
        """From the first to the last position at which it is alive."""
        segments = self._segments[value.id]
        return segments[0][0], segments[-1][1]

    def works(self, inst: Instruction) -> Segment:
        """When `inst` may be at work, at its latest until the asynchronous work that it is part of is over."""
        until = self._until.get(inst.parent)
        return self.timeline.start(inst), self.timeline.end(inst) if until is None else until[1]

    def region(self, value: Value) -> Computation:
        """The region it lives in."""
        return self.timeline.region(value.instruction.parent)

    def outlives(self, value: Value) -> bool:
        """Whether its memory is not the program's to give away at the end: a constant's, and a parameter's unless an
        output is to live there.
        """
        return value.instruction.op in (ops.CONSTANT, ops.PARAMETER) and value not in self._given_up

    def overlap(self, a: Value, b: Value) -> bool:
        """Whether both are alive at one time; values of different regions always are."""
        if self.region(a) is not self.region(b):
            return True
        return overlaps(self._segments[a.id], self._segments[b.id])

    def peak(self, aliases: Aliases | None = None) -> int:
        """The most bytes alive at one position, the shared computations' own peaks added.

        With `aliases`, values that share memory count once, from the first to the last position of any of them.
        """
        values = self.dataflow.all_values
        groups = [s.values for s in aliases.sets] if aliases else [[v] for v in values]
        change: dict[Computation, dict[int, int]] = {}
        for group in groups:
            first = min(self.range(v)[0] for v in group)
            last = max(self.range(v)[1] for v in group)
            size = max(v.size for v in group)
            steps = change.setdefault(self.region(group[0]), {})
            steps[first] = steps.get(first, 0) + size
            steps[last + 1] = steps.get(last + 1, 0) - size
        return sum(_highest(steps) for steps in change.values())

    # -- what keeps values alive besides reads -----------------------------------------------------------------------

    def _note_roots(self) -> None:
        """What roots are needed for: the next state of a loop, its predicate, a conditional's results, ..."""
        for comp in self._graph.control:
            place = (comp, self.timeline.exit(comp))
            site = self._graph.site(comp)
            keep = self.dataflow.values(comp.root)
            if site is None:
                place = (comp, self.timeline.span(comp)[1])
            elif site.instruction.op is ops.ASYNC_START:
                # Whoever waits gets all of it.
                place = self._done(site.instruction)
            elif site.instruction.op is ops.CALL:
                continue
            elif site.instruction.op is ops.CONDITIONAL or site.role == 1:
                merged = self.dataflow.defines(site.instruction)
                keep = tuple(r if m is not None else None for r, m in zip(keep, merged, strict=True))
            for value in keep:
                if value is not None:
                    self._roots.setdefault(value, []).append(place)

    def _async_spans(self) -> dict[Computation, tuple[Computation, int]]:
        """For computations that run asynchronously: where and when they are over for certain."""
        until: dict[Computation, tuple[Computation, int]] = {}
        for comp in reversed(self._graph.control):
            site = self._graph.site(comp)
            if site is None:
                continue
            caller = site.instruction
            outer = until.get(caller.parent)
            if outer is not None:
                until[comp] = outer
            elif caller.op is ops.ASYNC_START and self._graph.goes_on(caller):
                until[comp] = self._done(caller)
        return until

    def _done(self, start: Instruction) -> tuple[Computation, int]:
        # Where it travels on in a tuple, its computation's end has to do. What nobody waits for is done at once.
        if not start.users and not start.is_root:
            return start.parent, self.timeline.end(start)
        return self._wait_for(start) or (start.parent, self.timeline.exit(start.parent))

    def _wait_for(self, start: Instruction) -> tuple[Computation, int] | None:
        """Where and when the op that waits for a started one stands, if that is beside it."""
        inst = start
        while len(inst.users) == 1:
            (inst,) = inst.users
            if inst.op.has(Trait.ASYNC_DONE):
                return inst.parent, self.timeline.start(inst)
            if inst.op is not ops.ASYNC_UPDATE:
                break
        return None

    def _parameters(self) -> tuple[set[Value], set[Value]]:
        """Entry parameters that may be overwritten: those that an output lives in, and those merely donated."""
        entry, values = self.dataflow.module.entry, self.dataflow.values
        aliased = {(a.parameter, a.leaf) for a in entry_aliases(self.dataflow.module)}
        donated = set(donated_leaves(self.dataflow.module)) - aliased

        def found(leaves: set[tuple[int, int]]) -> set[Value]:
            at = (values(entry.parameters[number])[leaf] for number, leaf in leaves)
            return {v for v in at if v is not None}

        return found(aliased), found(donated)

    # -- segments ----------------------------------------------------------------------------------------------------

    def _blocks(self) -> dict[Computation, Computation]:
        """For each computation the one whose positions it shares: what it only calls runs in line with it.

        Loops and branches are blocks of their own. A value may leave a call, never a block (a phi takes over there).
        """
        block: dict[Computation, Computation] = {}
        for comp in reversed(self._graph.control):
            site = self._graph.site(comp)
            own = site is None or site.instruction.op in (ops.WHILE, ops.CONDITIONAL)
            block[comp] = comp if own or site is None else block[site.instruction.parent]
        return block

    def _live(self, value: Value) -> list[Segment]:
        inst = value.instruction
        first, last = self.timeline.span(self.region(value))
        if self.outlives(value) and value not in self._donated:
            return [(first, last)]
        if value.is_phi and inst.op is ops.WHILE:
            segments = self._live_state(value)
        else:
            home = self._block[inst.parent]
            born = first if inst.op is ops.PARAMETER else self.timeline.end(inst)
            segments = self._spread(value, {home: born}, {home: born})
        until = self._until.get(inst.parent)
        if until is not None and not self._taken_over(value):
            segments = merged([*segments, (segments[0][0], until[1])])
        if value in self._donated:
            # Its memory may be written to, but no output can live in it.
            segments = merged([*segments, (last, last)])
        return segments

    def _live_state(self, value: Value) -> list[Segment]:
        loop, timeline = value.instruction, self.timeline
        condition, body = loop.called
        home = self._block[loop.parent]
        firsts, lasts = {home: timeline.end(loop)}, {home: timeline.end(loop)}
        if not self._graph.is_shared(condition):
            firsts[condition], lasts[condition] = timeline.enter(condition), timeline.exit(condition)
        if self._graph.is_shared(body):
            # It gets the state copied in, and out again, on every trip.
            firsts[home] = timeline.start(loop) + 1
        else:
            firsts[body] = timeline.enter(body)
            if self._graph.is_shared(condition):
                # The state is copied in before each trip.
                lasts[body] = timeline.enter(body)
        return self._spread(value, firsts, lasts)

    def _spread(self, value: Value, firsts: dict[Computation, int], lasts: dict[Computation, int]) -> list[Segment]:
        """Segments from where a value is born (`firsts`, by block) to its reads; fills in `lasts`, by block."""
        for use in value.uses:
            inst = use.instruction
            self._reach(self._block[inst.parent], self.timeline.start(inst), firsts, lasts)
            over = self._over(use)
            if over is not None and not self._taken_over(value):
                self._reach(self._block[over[0]], over[1], firsts, lasts)
        for inst, _ in value.positions:
            if inst.op is ops.ASYNC_START and self._graph.goes_on(inst) and not self._taken_over(value):
                over = self._done(inst)
                self._reach(self._block[over[0]], over[1], firsts, lasts)
        for comp, tick in self._roots.get(value, ()):
            self._reach(self._block[comp], tick, firsts, lasts)
        enter = self.timeline.enter
        return merged([(firsts[block] if block in firsts else enter(block), last) for block, last in lasts.items()])

    def _over(self, use: Use) -> tuple[Computation, int] | None:
        """Where and when a read that goes on asynchronously is over; None for others."""
        inst = use.instruction
        if inst.op.has(Trait.ASYNC_START) and inst.op is not ops.ASYNC_START:
            if _updates(use):
                return None
            # An operand that travels on in the tuple is read there by whoever waits.
            return self._wait_for(inst) if inst.op in OPERANDS_IN else self._done(inst)
        return self._until.get(inst.parent)

    def _taken_over(self, value: Value) -> bool:
        """Whether asynchronous work updates a value in place: then the new one keeps the memory until that is over."""
        return any(u.instruction.parent in self._until and _updates(u) for u in value.uses)

    def _reach(
        self, block: Computation, tick: int, firsts: dict[Computation, int], lasts: dict[Computation, int]
    ) -> None:
        """Keeps a value alive up to `tick` in a block, and in the blocks around it up to where that is entered."""
        while True:
            known = lasts.get(block)
            if known is None or tick > known:
                lasts[block] = tick
            if known is not None or block in firsts:
                return
            site = self._graph.site(block)
            if site is None:
                raise internal(f"a value is read in {block.name!r}, outside of where it lives")
            caller = site.instruction
            tick = self.timeline.end(caller) if site.in_loop else self.timeline.start(caller)
            block = self._block[caller.parent]


def _updates(use: Use) -> bool:
    """Whether it is an update in place of what it reads."""
    pairs = in_place_pairs(use.instruction)
    return any((number, leaf) == (use.operand_number, use.operand_leaf) for number, leaf, _ in pairs)


def merged(segments: list[Segment]) -> list[Segment]:
    """Sorted, with segments that touch or overlap joined."""
    if len(segments) == 1:
        return segments
    out: list[Segment] = []
    for first, last in sorted(segments):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return out


def overlaps(a: list[Segment], b: list[Segment]) -> bool:
    """Whether two sorted lists of disjoint segments share a position."""
    if len(a) > len(b):
        a, b = b, a
    for first, last in a:
        i = bisect_right(b, (last, 1 << 62))
        if i and b[i - 1][1] >= first:
            return True
    return False


def _highest(steps: dict[int, int]) -> int:
    now = most = 0
    for position in sorted(steps):
        now += steps[position]
        most = max(most, now)
    return most
