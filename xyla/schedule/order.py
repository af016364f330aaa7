"""`schedule`: stores the instructions of every control-flow computation in an order of little peak memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from xyla.analysis.alias import CanShare, share_elementwise
from xyla.analysis.dataflow import Dataflow
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Module
from xyla.hlo.op_def import Trait
from xyla.schedule.graph import Graph, GraphBuilder
from xyla.schedule.heuristics import (
    breadth_first,
    bytes_freed,
    depth_first,
    from_the_end,
    given,
    start_early_finish_late,
)
from xyla.schedule.peak import lower_bound, peak
from xyla.support.status import Status, XylaError

Heuristic = Callable[[Graph], list[int]]

# Beyond so many instructions a computation gets the cheap heuristics only, and beyond that its given order.
SMALL = 20_000
LARGE = 300_000
_CHEAP: tuple[Heuristic, ...] = (given, depth_first, from_the_end)
_ALL: tuple[Heuristic, ...] = (given, depth_first, from_the_end, bytes_freed, breadth_first)
# Overlapping communication with work is worth this much more memory, but never more than the given order takes.
_OVERLAP = 1.1


@dataclass(frozen=True, slots=True)
class Choice:
    """What was decided for one computation: the heuristic's name, and peaks in bytes (callees included)."""

    heuristic: str
    peak: int
    given_peak: int
    lower_bound: int

    def without(self, arguments: int) -> Choice:
        """The same, not counting arguments that are alive all the time."""
        return replace(
            self,
            peak=self.peak - arguments,
            given_peak=self.given_peak - arguments,
            lower_bound=self.lower_bound - arguments,
        )


@dataclass(slots=True)
class Schedule:
    """The choice made for each control-flow computation, callees first."""

    choices: dict[Computation, Choice] = field(default_factory=dict)

    def peak(self, comp: Computation) -> int:
        """Bytes of temporaries that running `comp` needs at once, by the estimate."""
        return self.choices[comp].peak


def schedule(module: Module, can_share: CanShare = share_elementwise, dataflow: Dataflow | None = None) -> Schedule:
    """Orders every control-flow computation of `module` for least peak memory and marks the module as scheduled.

    Several list-scheduling heuristics compete by a memory estimate that counts what callees need; the order the module
    came in competes too, so that the estimate is never worse than it. Operands, control dependencies and the order of
    side effects are kept; asynchronous starts move up and dones down where that costs little memory. A module that is
    scheduled keeps its order. can_share: the target's say on which results may overwrite an operand. dataflow: that of
    `module`, when it is known already (it does not depend on the order).
    Near linear in the module's size. Raises INVALID_ARGUMENT on a cycle.
    """
    dataflow = dataflow or Dataflow(module)
    builder = GraphBuilder(dataflow, can_share)
    calls = dataflow.graph
    keep = module.config.is_scheduled
    found = Schedule()
    peaks: dict[Computation, int] = {}
    for comp in calls.control:
        in_loop = any(site.in_loop for site in calls.sites(comp))
        graph = builder.build(comp, peaks, in_loop=in_loop)
        order, choice = _keep(graph) if keep else _best(graph)
        arguments = sum(graph.sizes[b] for b in graph.given)
        found.choices[comp] = choice.without(arguments) if comp.is_entry else choice
        # A shared computation has memory of its own all the time: its caller needs none for it.
        peaks[comp] = 0 if calls.is_shared(comp) else max(0, choice.peak - arguments)
        rewriter.reorder(comp, [graph.instructions[node] for node in order])
    for comp in module.computations.values():
        # Embedded computations run in no order of their own, but a scheduled module has none that is out of order.
        if comp not in found.choices:
            rewriter.restore_order(comp)
    module.config.is_scheduled = True
    return found


def _keep(graph: Graph) -> tuple[list[int], Choice]:
    order = given(graph)
    bytes_ = peak(graph, order)
    return order, Choice("given", bytes_, bytes_, lower_bound(graph))


def _best(graph: Graph) -> tuple[list[int], Choice]:
    """The order of least peak; the earlier heuristic among equals, so that a good given order stays."""
    bound = lower_bound(graph)
    best, name, least = given(graph), "given", peak(graph, given(graph))
    at_first = least
    heuristics = _ALL if len(graph) <= SMALL else _CHEAP if len(graph) <= LARGE else ()
    for heuristic in heuristics[1:]:
        if least <= bound:
            break
        order = heuristic(graph)
        bytes_ = peak(graph, order)
        if bytes_ < least:
            best, name, least = order, heuristic.__name__, bytes_
    best, least = _overlapped(graph, best, least, at_first)
    return _interface_first(graph, best), Choice(name.replace("_", "-"), least, at_first, bound)


def _overlapped(graph: Graph, order: list[int], least: int, at_first: int) -> tuple[list[int], int]:
    starts = [inst.op.has(Trait.ASYNC_START) for inst in graph.instructions]
    if not any(starts):
        return order, least
    dones = [inst.op.has(Trait.ASYNC_DONE) for inst in graph.instructions]
    moved = start_early_finish_late(graph, order, starts, dones)
    bytes_ = peak(graph, moved)
    return (moved, bytes_) if bytes_ <= max(least, min(at_first, int(least * _OVERLAP))) else (order, least)


def _interface_first(graph: Graph, order: list[int]) -> list[int]:
    """Parameters come first, by number: nothing runs for them, and readers look for them there."""
    parameters = [node for node in order if graph.instructions[node].op is ops.PARAMETER]
    parameters.sort(key=lambda node: int(graph.instructions[node].attrs.number))
    if any(graph.needs[node] for node in parameters):
        return order
    chosen = set(parameters)
    return parameters + [node for node in order if node not in chosen]


def check_limit(module: Module, found: Schedule, limit: int) -> None:
    """Raises RESOURCE_EXHAUSTED when arguments, constants and the estimated peak exceed `limit` bytes."""
    temporaries = found.peak(module.entry)
    arguments = sum(shape.num_bytes for shape in module.entry_parameter_shapes())
    if temporaries + arguments > limit:
        raise XylaError(
            Status.RESOURCE_EXHAUSTED,
            f"module {module.name!r} needs about {temporaries + arguments:,} bytes ({arguments:,} of arguments, "
            f"{temporaries:,} of results and temporaries), more than the limit of {limit:,}",
            hint="`xyla memory` shows what is alive at the peak and what would reduce it",
        )
