"""Running plans on an explicit stack of frames.

Calls, loops and branches push frames, so neither long chains nor deep call graphs grow Python's stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xyla.hlo.module import Computation, Instruction, Module
from xyla.interp.mixed import adapted
from xyla.interp.plan import Plan, build_plan, has_effect, located
from xyla.interp.steps import BROKEN, Step, broken, failure
from xyla.interp.table import EVAL, Array, Kernel, Value
from xyla.runtime.feeds import Feeds
from xyla.runtime.rendezvous import SINGLE, World
from xyla.support.status import Status, XylaError

# Nested evaluations (a reducer that sorts, a comparator that scatters, ...) recurse; more than this is a mistake.
MAX_NESTING = 60


@dataclass(slots=True)
class RandomState:
    """What random ops of one execution on one device remember: each execution starts with a new one, so that it gives
    the same numbers again.

    draws: fresh random streams that each rng instruction has used. counter: of rng-get-and-update-state, 128 bits.
    """

    draws: dict[Instruction, int] = field(default_factory=dict)
    counter: int = 0


class Session:
    """One evaluation: plans, the device it runs on, its feeds, its random state, the memo of pure calls."""

    def __init__(self, *, host: Feeds | None = None, world: World = SINGLE, device: int = 0) -> None:
        self.host = host or Feeds()
        self.world = world
        self.device = device
        self.effects: dict[Computation, bool] = {}
        self._plans: dict[Computation, Plan] = {}
        self._modules: dict[Module, None] = {}
        self._single: dict[Instruction, tuple[tuple[int, ...], Plan]] = {}
        self._depth = 0
        self.random = RandomState()
        self.receiving: set[int] = set()  # channels with a recv from another device that is not done
        self.sent: dict[int, tuple[Value, tuple[tuple[int, int], ...]]] = {}  # by channel, until its recv completes
        self.memo: dict[tuple[object, ...], tuple[tuple[Value, ...], Value]] = {}

    def plan(self, comp: Computation) -> Plan:
        """The plan of `comp`, built on first use."""
        plan = self._plans.get(comp)
        if plan is None or plan.revision != comp.revision:
            self._find_effects(comp.module)
            plan = self._plans[comp] = build_plan(comp, self.kernel, self.effects)
        return plan

    def _find_effects(self, module: Module) -> None:
        if module in self._modules:
            return
        self._modules[module] = None
        for comp in module.computation_post_order():
            self.effects[comp] = any(has_effect(i, self.effects) for i in comp.instructions)

    def kernel(self, inst: Instruction) -> Kernel:
        """Binds the rule of one instruction. Raises UNIMPLEMENTED when there is none."""
        return adapted(inst, EVAL[inst.op](inst, self))

    def call(self, comp: Computation, args: Sequence[Value]) -> Value:
        """Evaluates `comp` on `args` (one value a parameter)."""
        if self._depth >= MAX_NESTING:
            raise XylaError(
                Status.RESOURCE_EXHAUSTED, f"evaluations nest more than {MAX_NESTING} deep at {comp.name!r}"
            )
        self._depth += 1
        try:
            with np.errstate(all="ignore"):
                return _run(self, self.plan(comp), args)
        finally:
            self._depth -= 1

    def instruction(self, inst: Instruction, operands: Sequence[Value]) -> Value:
        """Evaluates one instruction on operand values; its kernel is kept for the next time."""
        key = (inst.parent.revision, *(c.revision for c in inst.called))
        known = self._single.get(inst)
        if known is None or known[0] != key:
            self._find_effects(inst.module)
            n = len(inst.operands)
            plan = Plan(inst.parent)
            plan.params = [(i, i) for i in range(n)]
            plan.template = [None] * (n + 1)
            plan.steps, plan.root = [Step(inst, located(inst, self.kernel), tuple(range(n)), n)], n
            known = self._single[inst] = (key, plan)
        with np.errstate(all="ignore"):
            return _run(self, known[1], operands)


class _Frame:
    """A plan in progress: the generator waiting for a callee's result belongs to `step`."""

    __slots__ = ("env", "gen", "plan", "rest", "step")

    def __init__(self, plan: Plan, args: Sequence[Value]) -> None:
        self.plan = plan
        self.env = plan.bind(args)
        self.rest: Iterator[Step] = iter(plan.steps)
        self.step: Step | None = None
        self.gen: Any = None


def _run(session: Session, plan: Plan, args: Sequence[Value]) -> Value:
    frames = [_Frame(plan, args)]
    while True:
        frame = frames[-1]
        try:
            request = _advance(frame)
            while request is None:  # the frame is done: give its result to its caller
                result = frame.env[frame.plan.root]
                frames.pop()
                if not frames:
                    return result
                frame = frames[-1]
                request = _resume(frame, result) or _advance(frame)
            frames.append(_Frame(session.plan(request[0]), request[1]))
        except XylaError as e:
            raise e.located(frame.step.inst.span if frame.step else None) from None
        except MemoryError:
            raise failure(_current(frame), Status.RESOURCE_EXHAUSTED, "out of memory") from None
        except RecursionError:
            raise failure(_current(frame), Status.RESOURCE_EXHAUSTED, "evaluations nest too deep") from None
        except BROKEN as e:
            raise broken(_current(frame), e) from e


def _current(frame: _Frame) -> Instruction | None:
    return frame.step.inst if frame.step else None


def _advance(frame: _Frame) -> Any:
    """Runs steps until the plan ends (None) or a kernel asks for a call (computation, args)."""
    env = frame.env
    for step in frame.rest:
        frame.step = step
        ins = step.ins
        if step.calls:
            frame.gen = step.kernel(*[env[i] for i in ins])
            for i in step.dead:
                env[i] = None
            request = _resume(frame, None)
            if request is not None:
                return request
            continue
        # One and two operands are nearly all there is: loops of small bodies live on this.
        arity = len(ins)
        if arity == 2:
            env[step.out] = step.kernel(env[ins[0]], env[ins[1]])
        elif arity == 1:
            env[step.out] = step.kernel(env[ins[0]])
        else:
            env[step.out] = step.kernel(*[env[i] for i in ins])
        for i in step.dead:
            env[i] = None
    return None


def _resume(frame: _Frame, result: Value) -> Any:
    """Sends a callee's result to the waiting kernel; None when the kernel has finished."""
    assert frame.step is not None
    try:
        return frame.gen.send(result)
    except StopIteration as stop:
        frame.env[frame.step.out] = stop.value
        frame.gen = None
        return None


def as_array(value: Value) -> Array:
    """A value that is an array or NumPy scalar, as an array."""
    return np.asarray(value)
