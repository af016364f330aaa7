"""Pipelines: named steps over a module, with checks, dumps, timing and skipping.

A pipeline is a tree of `Step`s and `Fixpoint`s with unique step names. Running one honours the options of
`RunOptions`; nothing else decides what runs, so the same input and options give the same module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from xyla.hlo import rewriter
from xyla.hlo.equality import fingerprint
from xyla.hlo.module import Computation, Module
from xyla.hlo.verifier import verify
from xyla.passmgr.base import Pass
from xyla.passmgr.context import PassContext
from xyla.support.status import XylaError, internal


@dataclass(frozen=True, slots=True)
class Step:
    """One pass in a pipeline. `name` is unique in it; `why` says what would go wrong without it."""

    name: str
    run: Pass
    why: str = ""


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """Steps repeated until none changes anything, at most `limit` times."""

    name: str
    steps: tuple[Step, ...]
    limit: int = 25


@dataclass(frozen=True, slots=True)
class Before:
    """Step `first` must come before step `then` wherever both are, because `why`."""

    first: str
    then: str
    why: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Steps in order, and the orderings that must hold. Raises ValueError when a name repeats or an ordering fails."""

    name: str
    steps: tuple[Step | Fixpoint, ...]
    orderings: tuple[Before, ...] = ()

    def __post_init__(self) -> None:
        names = [s.name for s in self.flat()]
        repeated = {n for n in names if names.count(n) > 1}
        if repeated:
            raise ValueError(f"pipeline {self.name}: step names repeat: {', '.join(sorted(repeated))}")
        at = {n: i for i, n in enumerate(names)}
        for o in self.orderings:
            if o.first in at and o.then in at and at[o.first] > at[o.then]:
                raise ValueError(f"pipeline {self.name}: {o.first} must come before {o.then}: {o.why}")

    def flat(self) -> Iterator[Step]:
        """Every step, those of fixpoints included."""
        for item in self.steps:
            if isinstance(item, Step):
                yield item
            else:
                yield from item.steps


def pipeline_of(passes: Iterable[Pass], name: str = "passes") -> Pipeline:
    """A pipeline of these passes, a step each; the second `dce` is the step `dce.2`."""
    seen: Counter[str] = Counter()
    steps = []
    for one in passes:
        seen[one.name] += 1
        steps.append(Step(one.name if seen[one.name] == 1 else f"{one.name}.{seen[one.name]}", one))
    return Pipeline(name, tuple(steps))


@dataclass(slots=True)
class StepRecord:
    """What one execution of a step did. `start`: when it began, in `perf_counter` seconds."""

    name: str
    changed: bool
    seconds: float
    instructions_before: int
    instructions_after: int
    skipped: bool = False
    start: float = 0.0


# Called before and after each executed step: (step name, "before" or "after", module, changed).
Observer = Callable[[str, str, Module, bool], None]


@dataclass(slots=True)
class RunOptions:
    """How to run. disabled: step or pass names to leave out. stop_after: the last step to run.

    checked: verify after every step, check the changed bit by fingerprint and, for idempotent passes, a second run.
    """

    disabled: frozenset[str] = frozenset()
    stop_after: str | None = None
    checked: bool = False
    observers: Sequence[Observer] = ()


@dataclass(slots=True)
class Run:
    """A pipeline at work on one module."""

    module: Module
    ctx: PassContext
    options: RunOptions = field(default_factory=RunOptions)
    records: list[StepRecord] = field(default_factory=list)
    _settled: dict[str, int] = field(default_factory=dict)
    _verified: dict[Computation, int] = field(default_factory=dict)
    _stopped: bool = False

    def pipeline(self, pipeline: Pipeline) -> bool:
        """Runs all steps; returns whether anything changed. Raises what a pass raises, with the step's name."""
        changed = False
        for item in pipeline.steps:
            changed |= self.step(item) if isinstance(item, Step) else self.fixpoint(item)
        self.ctx.flush()
        return changed

    def fixpoint(self, item: Fixpoint) -> bool:
        """Repeats the steps until none changes. Past the limit those that still do are named: in checked mode by
        INTERNAL, else by a note, as every round leaves a right program."""
        changed = False
        for _ in range(item.limit):
            active = [s.name for s in item.steps if self.step(s)]
            if not active or self._stopped:
                return changed
            changed = True
        message = f"{item.name} does not settle in {item.limit} rounds: {', '.join(active)} undo one another"
        if self.options.checked:
            raise internal(message)
        self.ctx.notes.append(message)
        return changed

    def step(self, step: Step) -> bool:
        """Runs one step, unless it is disabled or the module has not changed since it last had nothing to do."""
        if self._stopped or {step.name, step.run.name} & self.options.disabled:
            return False
        before = self._revision()
        count = self.module.num_instructions
        if self._settled.get(step.name) == before:
            self.records.append(StepRecord(step.name, False, 0.0, count, count, skipped=True))
            return False
        start = perf_counter()
        changed, seconds = self._execute(step)
        if not changed:
            self._settled[step.name] = self._revision()
        after = self.module.num_instructions
        self.records.append(StepRecord(step.name, changed, seconds, count, after, start=start))
        self._stopped = self.options.stop_after in (step.name, step.run.name)
        return changed

    def _execute(self, step: Step) -> tuple[bool, float]:
        self.ctx.pass_name = step.name
        self._observe(step.name, "before", False)
        mark = _mark(self.module) if self.options.checked else ""
        start = perf_counter()
        try:
            changed = step.run.run(self.module, self.ctx)
        except XylaError as error:
            error.message = f"step {step.name}: {error.message}"
            raise
        except (RecursionError, MemoryError):
            raise
        except Exception as error:  # a pass may be anyone's code: whatever it raises, its step is named
            raise internal(f"step {step.name} failed: {type(error).__name__}: {error}") from error
        if changed and self.module.config.is_scheduled:
            for comp in self._touched():
                rewriter.restore_order(comp)
        seconds = perf_counter() - start
        self._check(step, changed, mark)
        self._observe(step.name, "after", changed)
        return changed, seconds

    def _check(self, step: Step, changed: bool, mark: str) -> None:
        """The invariants after a step: what it touched verifies; when checked, the changed bit and idempotence too."""
        if not changed and not self.options.checked:
            return
        touched = None if self.options.checked else self._touched()
        try:
            verify(self.module, computations=touched)
        except XylaError as error:
            error.message = f"step {step.name} broke the module: {error.message}"
            raise
        self._verified = {c: c.revision for c in self.module.computations.values()}
        if not self.options.checked:
            return
        after = _mark(self.module)
        if changed != (after != mark):
            raise internal(
                f"step {step.name} says changed={changed}, but the module did{'' if after != mark else ' not'}"
            )
        if changed and step.run.idempotent and not self.ctx.control.stopped and step.run.run(self.module, self.ctx):
            raise internal(f"step {step.name} still changes its own result")

    def _touched(self) -> list[Computation]:
        return [c for c in self.module.computations.values() if self._verified.get(c) != c.revision]

    def _revision(self) -> int:
        """Grows with every change to the module: revisions only grow, and computations come and go."""
        comps = self.module.computations.values()
        return hash((len(comps), sum(c.revision for c in comps), id(self.module.entry_or_none)))

    def _observe(self, name: str, when: str, changed: bool) -> None:
        for observer in self.options.observers:
            observer(name, when, self.module, changed)


def _mark(module: Module) -> str:
    """Differs between modules that differ in anything that a pass may change, names included."""
    return fingerprint(module, names=True, annotations=True)
