"""Runs a scheduled module on real memory: one buffer for each set of values that must share one, and no other.

Instructions are the evaluator's; where values live is the analysis's. A copy that is missing shows as a wrong result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xyla.analysis.alias import Aliases, CanShare
from xyla.analysis.dataflow import Dataflow, Value
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.shape import Shape
from xyla.interp import Evaluator

Array = np.ndarray[Any, np.dtype[Any]]
_PASSED_ON = frozenset({
    ops.PARAMETER, ops.CONSTANT, ops.TUPLE, ops.GET_TUPLE_ELEMENT, ops.ASYNC_START, ops.ASYNC_DONE
})  # fmt: skip


class BufferMachine:
    """The memory of one run. late: asynchronous work happens when it is waited for, not when it is started."""

    def __init__(self, module: Module, can_share: CanShare, *, late: bool = False) -> None:
        self.module = module
        self.late = late
        self.flow = Dataflow(module)
        self.aliases = Aliases(self.flow, can_share)
        self.evaluator = Evaluator()
        self.memory = [np.full(s.size, 0xA5, np.uint8) for s in self.aliases.sets]
        for value in self.flow.all_values:
            if value.instruction.op is ops.CONSTANT:
                self.write(value, value.instruction.attrs.literal.array)

    def read(self, value: Value) -> Array:
        """What lies in a value's buffer."""
        raw = self.memory[self.aliases.set_of(value).id][: value.size]
        return raw.copy().view(value.shape.element_type.np).reshape(value.shape.dims)

    def write(self, value: Value, array: Array) -> None:
        """Overwrites a value's buffer."""
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.memory[self.aliases.set_of(value).id][: value.size] = raw

    def leaves(self, inst: Instruction) -> list[Array]:
        """The arrays of an instruction, from memory."""
        return [self.read(v) for v in self.flow.values(inst) if v is not None]

    def run(self, arguments: Sequence[Array]) -> list[Array]:
        """The entry's results, as found in memory at the end."""
        entry = self.module.entry
        for p, array in zip(entry.parameters, arguments, strict=True):
            self.write(self.flow.value(p), array)
        self.walk(entry)
        return self.leaves(entry.root)

    def walk(self, comp: Computation) -> None:
        """Runs a computation's instructions in their order."""
        for inst in comp.instructions:
            if inst.op is ops.WHILE:
                while self.enter(inst, 0, inst) or self.truth(inst.called[0]):
                    self.enter(inst, 1, inst, back=True)
            elif inst.op is ops.CONDITIONAL:
                self.choose(inst)
            elif inst.op is ops.CALL or (inst.op is ops.ASYNC_START and not self.late):
                self.call(inst)
            elif inst.op is ops.ASYNC_DONE and self.late:
                self.call(inst.operands[0])
            elif inst.op not in _PASSED_ON:
                self.work(inst)

    def work(self, inst: Instruction) -> None:
        """One instruction: reads everything, then writes."""
        operands = [_tree(o.shape, iter(self.leaves(o))) for o in inst.operands]
        results = flat(self.evaluator.evaluate_instruction(inst, operands))
        values = [v for v in self.flow.values(inst) if v is not None]
        for value, array in zip(values, results, strict=True):
            if value.instruction is inst:
                self.write(value, array)

    # -- control flow ------------------------------------------------------------------------------------------------

    def truth(self, condition: Computation) -> bool:
        return bool(self.read(self.flow.value(condition.root)))

    def enter(self, inst: Instruction, role: int, state: Instruction, *, back: bool = False) -> bool:
        """Runs a callee; a shared one gets its arguments copied in and, if `back`, its results copied out."""
        callee = inst.called[role]
        shared = self.flow.graph.is_shared(callee)
        if shared:
            for p in callee.parameters:
                self.put(self.flow.values(p), self.leaves(state))
        self.walk(callee)
        if shared and back:
            self.put(self.flow.values(inst), self.leaves(callee.root))
        return False

    def put(self, targets: Sequence[Value | None], arrays: Sequence[Array]) -> None:
        for value, array in zip((v for v in targets if v is not None), arrays, strict=True):
            self.write(value, array)

    def choose(self, inst: Instruction) -> None:
        (selector,) = self.leaves(inst.operands[0])
        last = len(inst.called) - 1
        role = int(selector) if 0 <= int(selector) <= last else last
        self.enter(inst, role, inst.operands[role + 1], back=True)

    def call(self, inst: Instruction) -> None:
        (callee,) = inst.called
        if not self.flow.graph.is_shared(callee):
            return self.walk(callee)
        arguments = [self.leaves(o) for o in inst.operands]
        for p, arrays in zip(callee.parameters, arguments, strict=True):
            self.put(self.flow.values(p), arrays)
        self.walk(callee)
        results = self.flow.values(inst)
        if inst.op is ops.ASYNC_START:
            results = self.flow.index.element(inst.shape, results, 1)
        return self.put(results, self.leaves(callee.root))


def _tree(shape: Shape, leaves: Any) -> Any:
    return tuple(_tree(s, leaves) for s in shape.tuple_shapes) if shape.is_tuple else next(leaves)


def flat(value: Any) -> list[Array]:
    """The arrays of a value, in order."""
    return [leaf for v in value for leaf in flat(v)] if isinstance(value, tuple) else [np.asarray(value)]
