"""Running computations: each becomes a flat plan once, an explicit stack of frames runs plans.

Plans hold only what the root needs and what has side effects; a value is dropped after its last use. Calls, loops and
branches push frames, so neither long chains nor deep call graphs grow Python's stack.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from inspect import isgeneratorfunction
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.interp.table import EVAL, TOKEN, Array, Kernel, Value
from xyla.interp.world import SINGLE, Host, World
from xyla.support.status import Status, XylaError, internal

_EFFECTS = Trait.SIDE_EFFECT | Trait.COLLECTIVE
# NumPy refuses when the module broke an invariant that the verifier states. Users never see a traceback.
_BROKEN = (ValueError, TypeError, IndexError, KeyError, AttributeError, AssertionError, ArithmeticError)
# How NumPy says that no memory could hold an array.
_TOO_LARGE = ("too big", "too large", "Maximum allowed")
# Views of constants, made once when the plan is.
_FREE = (ops.BROADCAST, ops.IOTA)
# Nested evaluations (a reducer that sorts, a comparator that scatters, ...) recurse; more than this is a mistake.
MAX_NESTING = 60


class Step:
    """One instruction of a plan: `kernel(values in ins) -> slot out`, then `dead` slots are dropped."""

    __slots__ = ("calls", "dead", "ins", "inst", "kernel", "out")

    def __init__(self, inst: Instruction, kernel: Kernel, ins: tuple[int, ...], out: int) -> None:
        self.inst, self.kernel, self.ins, self.out = inst, kernel, ins, out
        self.dead: tuple[int, ...] = ()
        self.calls = isgeneratorfunction(kernel)


class Plan:
    """A computation ready to run: slots with the constants filled in, parameter slots, steps, the root's slot."""

    __slots__ = ("comp", "params", "revision", "root", "steps", "template")

    def __init__(self, comp: Computation) -> None:
        self.comp = comp
        self.revision = comp.revision  # a plan of an older revision is rebuilt
        self.params: list[tuple[int, int]] = []  # (parameter number, slot)
        self.steps: list[Step] = []
        self.template: list[Value] = []
        self.root = 0

    def bind(self, args: Sequence[Value]) -> list[Value]:
        """A fresh environment for these arguments."""
        env = self.template.copy()
        for number, slot in self.params:
            env[slot] = args[number]
        return env


def literal_value(literal: Literal) -> Value:
    """The evaluator's value of a constant. Raises INVALID_ARGUMENT for an elided one."""
    if literal.shape.is_token:
        return TOKEN
    if not literal.shape.is_tuple:
        return literal.array
    return tuple(literal_value(e) for e in literal.elements)


def build_plan(comp: Computation, kernel_of: Callable[[Instruction], Kernel], effects: dict[Computation, bool]) -> Plan:
    """Flattens `comp`. `kernel_of(inst)` binds an instruction that is not a parameter or a constant."""
    plan = Plan(comp)
    needed = _needed(comp, effects)
    slots: dict[Instruction, int] = {}
    for inst in comp.post_order():
        if inst not in needed:
            continue
        slot = slots[inst] = len(plan.template)
        plan.template.append(None)
        if inst.op is ops.PARAMETER:
            plan.params.append((inst.attrs.number, slot))
        elif inst.op is ops.CONSTANT:
            plan.template[slot] = _located(inst, lambda i: literal_value(i.attrs.literal))
        else:
            kernel = _located(inst, kernel_of)
            ins = tuple(slots[o] for o in inst.operands)
            if inst.op in _FREE and all(plan.template[i] is not None for i in ins):
                values = [plan.template[i] for i in ins]
                plan.template[slot] = _located(inst, functools.partial(_apply, kernel, values))
                continue
            plan.steps.append(Step(inst, kernel, ins, slot))
    plan.root = slots[comp.root]
    _mark_last_uses(plan)
    return plan


def _located(inst: Instruction, fn: Callable[[Instruction], Any]) -> Any:
    try:
        return fn(inst)
    except XylaError as e:
        raise e.located(inst.span) from None
    except MemoryError:
        raise _failure(inst, Status.RESOURCE_EXHAUSTED, "out of memory") from None
    except _BROKEN as e:
        raise _broken(inst, e) from e


def _apply(kernel: Kernel, values: list[Value], inst: Instruction) -> Value:
    return kernel(*values)


def _needed(comp: Computation, effects: dict[Computation, bool]) -> set[Instruction]:
    seen = {comp.root}
    stack = [comp.root]
    for inst in comp.instructions:
        if has_effect(inst, effects) and inst not in seen:
            seen.add(inst)
            stack.append(inst)
    while stack:
        inst = stack.pop()
        for o in inst.operands:
            if o not in seen:
                seen.add(o)
                stack.append(o)
    return seen


def has_effect(inst: Instruction, effects: dict[Computation, bool]) -> bool:
    """Whether dropping an unused `inst` could be noticed."""
    if inst.op.traits & _EFFECTS:
        return True
    if inst.op is ops.CUSTOM_CALL:
        return bool(inst.attrs.custom_call_has_side_effect)
    return any(effects.get(c, True) for c in inst.called)


def _mark_last_uses(plan: Plan) -> None:
    keep = {plan.root}
    constants = {i for i, v in enumerate(plan.template) if v is not None}
    for step in reversed(plan.steps):
        step.dead = tuple(i for i in dict.fromkeys(step.ins) if i not in keep and i not in constants)
        keep.update(step.dead)


class Session:
    """One evaluation: plans, the device it runs on, its feeds, the memo of pure calls."""

    def __init__(self, *, host: Host | None = None, world: World = SINGLE, device: int = 0) -> None:
        self.host = host or Host()
        self.world = world
        self.device = device
        self.effects: dict[Computation, bool] = {}
        self._plans: dict[Computation, Plan] = {}
        self._modules: dict[Module, None] = {}
        self._single: dict[Instruction, tuple[tuple[int, ...], Plan]] = {}
        self._depth = 0
        self.draws: dict[Instruction, int] = {}  # fresh random streams that each rng instruction has used
        self.rng_state = 0  # the counter of rng-get-and-update-state
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
        return EVAL[inst.op](inst, self)

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
            plan.steps, plan.root = [Step(inst, _located(inst, self.kernel), tuple(range(n)), n)], n
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
            raise _failure(_current(frame), Status.RESOURCE_EXHAUSTED, "out of memory") from None
        except RecursionError:
            raise _failure(_current(frame), Status.RESOURCE_EXHAUSTED, "evaluations nest too deep") from None
        except _BROKEN as e:
            raise _broken(_current(frame), e) from e


def _current(frame: _Frame) -> Instruction | None:
    return frame.step.inst if frame.step else None


def _broken(inst: Instruction | None, error: Exception) -> XylaError:
    if any(words in str(error) for words in _TOO_LARGE):
        return _failure(inst, Status.RESOURCE_EXHAUSTED, "an array too large to hold")
    return _failure(inst, Status.INTERNAL, f"{type(error).__name__}: {error}")


def _failure(inst: Instruction | None, status: Status, why: str) -> XylaError:
    if inst is None:
        return internal(why)
    return XylaError(status, f"while evaluating %{inst.name} = {inst.op.name}: {why}", span=inst.span)


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
