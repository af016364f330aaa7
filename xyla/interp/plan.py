"""Plans: a computation flattened once into steps over numbered slots.

A plan holds only what the root needs and what has side effects; constants and views of them are filled in when it is
made; a value is dropped after its last use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import Trait
from xyla.interp.chains import chained
from xyla.interp.steps import BROKEN, Step, broken, failure
from xyla.interp.table import TOKEN, Kernel, Value
from xyla.support.status import Status, XylaError

_EFFECTS = Trait.SIDE_EFFECT | Trait.COLLECTIVE
# Views of constants, made once when the plan is.
_FREE = (ops.BROADCAST, ops.IOTA)


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
            plan.template[slot] = located(inst, lambda i: literal_value(i.attrs.literal))
        else:
            kernel = located(inst, kernel_of)
            ins = tuple(slots[o] for o in inst.operands)
            if inst.op in _FREE and all(plan.template[i] is not None for i in ins):
                values = [plan.template[i] for i in ins]
                plan.template[slot] = located(inst, functools.partial(_apply, kernel, values))
                continue
            plan.steps.append(Step(inst, kernel, ins, slot))
    plan.root = slots[comp.root]
    plan.steps = chained(plan.steps, plan.template, plan.root)
    _mark_last_uses(plan)
    return plan


def located(inst: Instruction, fn: Callable[[Instruction], Any]) -> Any:
    """fn(inst), with every error turned into one that is located at `inst`."""
    try:
        return fn(inst)
    except XylaError as e:
        raise e.located(inst.span) from None
    except MemoryError:
        raise failure(inst, Status.RESOURCE_EXHAUSTED, "out of memory") from None
    except BROKEN as e:
        raise broken(inst, e) from e


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
