"""Programs as host code: words that the native interpreter runs (`host_program_ir`).

Control flow becomes jumps, sequences that several places share become subroutines, and every slice gets a slot in the
table of addresses that each execution fills. Making it costs a few microseconds a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.runtime.blas import gemm_parts, gemm_record
from xyla.runtime.custom_calls import NativeCall, native_of
from xyla.runtime.host_program_ir import Op
from xyla.runtime.pool import host_threads
from xyla.runtime.program import (
    CallStep,
    CopyStep,
    CustomCallStep,
    GemmStep,
    KernelStep,
    Program,
    Slice,
    Step,
    StepList,
    SwitchStep,
    WhileStep,
    all_steps,
    nested,
    slices_of,
)

# Below this many bytes touched, handing a part of a kernel to another thread costs more than it saves.
SPLIT_BYTES = 1 << 20
# Chunks a thread: a thread that the machine takes away for a while costs the others little.
CHUNKS = 4

Words = npt.NDArray[np.int64]
# What remains to be done of a sequence: the rest of its steps, or something to do once those are written.
_Task = Iterator[Step] | Callable[[], None]


@dataclass(slots=True)
class HostProgram:
    """code: starts with BIND and ends with RETURN. slots: the first table entry of each step, by id.

    allocation_of, offset_of: of every table entry. custom_calls: by the index that `Op.CUSTOM` hands out; native_calls:
    likewise of `Op.NATIVE`.
    num_shared: subroutines, which bounds the depth of calls. uses_blas: whether a matrix product is among the steps.
    """

    code: Words
    slots: dict[int, int]
    allocation_of: Words
    offset_of: Words
    custom_calls: list[CustomCallStep]
    native_calls: list[NativeCall]
    num_shared: int
    uses_blas: bool
    keep_alive: list[npt.NDArray[Any]]


class Encoder:
    """Writes the host code of one program. `functions`: kernel addresses by number."""

    def __init__(self, program: Program, functions: Sequence[int]) -> None:
        self._program = program
        self._functions = functions
        self._words: list[int] = []
        self._addresses: list[int] = []  # positions of words that hold a position in the code
        self._records: list[npt.NDArray[Any]] = []
        self._custom_calls: list[CustomCallStep] = []
        self._native_calls: list[NativeCall] = []
        self._native: dict[int, int] = {}  # its index, by id of the step
        self._slots: dict[int, int] = {}
        self._slices: list[Slice] = []
        self._shared: dict[int, int] = {}  # subroutines: number by id of the sequence
        self._bodies: list[StepList] = []
        self._uses_blas = False
        self._assign_slots()

    def _assign_slots(self) -> None:
        steps = all_steps(self._program)
        uses: Counter[int] = Counter()
        for step in steps:
            self._slots[id(step)] = len(self._slices)
            self._slices.extend(slices_of(step))
            uses.update(id(body) for body in nested(step))
            native = native_of(step) if isinstance(step, CustomCallStep) else None
            if native is not None:
                self._native[id(step)] = len(self._native_calls)
                self._native_calls.append(native)
        for step in steps:
            for body in nested(step):
                if (isinstance(step, CallStep) or uses[id(body)] > 1) and id(body) not in self._shared:
                    self._shared[id(body)] = len(self._bodies)
                    self._bodies.append(body)

    def encode(self) -> HostProgram:
        """The whole program."""
        self._words.append(Op.BIND)
        self._sequence(self._program.body)
        starts = []
        for body in self._bodies:
            starts.append(len(self._words))
            self._sequence(body)
        code = np.array(self._words, np.int64)
        for at in self._addresses:
            target = code[at]
            # A subroutine that was not written yet is named by -1 - its number.
            code[at] = code.ctypes.data + 8 * (starts[-1 - target] if target < 0 else target)
        return HostProgram(
            code,
            self._slots,
            np.array([s.allocation for s in self._slices], np.int64),
            np.array([s.offset for s in self._slices], np.int64),
            self._custom_calls,
            self._native_calls,
            len(self._bodies),
            self._uses_blas,
            self._records,
        )

    def fragments(self) -> tuple[Words, dict[int, int]]:
        """Each step that is no control flow as host code of its own; and where it starts, by id of the step."""
        starts: dict[int, int] = {}
        for step in all_steps(self._program):
            if not nested(step) and (not isinstance(step, CustomCallStep) or id(step) in self._native):
                starts[id(step)] = len(self._words)
                self._step(step)
                self._words.append(Op.RETURN)
        code = np.array([Op.BIND, Op.RETURN, *self._words], np.int64)
        base = int(code.ctypes.data)
        return code, {key: base + 8 * (at + 2) for key, at in starts.items()}

    @property
    def records(self) -> list[npt.NDArray[Any]]:
        """Memory that the code points to."""
        return self._records

    def _sequence(self, body: StepList) -> None:
        """A sequence and its RETURN. Loops in loops cost no Python stack."""
        tasks: list[_Task] = [iter(body.steps)]
        while tasks:
            task = tasks[-1]
            if callable(task):
                tasks.pop()
                task()
                continue
            step = next(task, None)
            if step is None:
                tasks.pop()
            else:
                tasks.extend(reversed(self._step(step)))
        self._words.append(Op.RETURN)

    def _step(self, step: Step) -> list[_Task]:
        """Writes a step, or its start; returns what is to be written behind it."""
        slot = self._slots[id(step)]
        match step:
            case KernelStep():
                self._kernel(step, slot)
            case CopyStep():
                self._words += (Op.COPY, slot, step.source.size)
            case GemmStep():
                self._gemm(step, slot)
            case CustomCallStep():
                self._custom_call(step, slot)
            case CallStep():
                number = self._shared[id(step.body)]
                self._words += (Op.CALL, self._here(1, -1 - number), number if step.pure else -1, slot)
                self._words += (len(step.arguments), *(source.size for source, _ in step.arguments))
            case WhileStep():
                return self._while(step, slot)
            case SwitchStep():
                return self._switch(step, slot)
        return []

    def _custom_call(self, step: CustomCallStep, slot: int) -> None:
        index = self._native.get(id(step))
        if index is None:
            self._words += (Op.CUSTOM, len(self._custom_calls))
            self._custom_calls.append(step)
            return
        native = self._native_calls[index]
        config = np.frombuffer(native.config, np.uint8)
        self._records.append(config)
        self._words += (Op.NATIVE, native.address, slot, int(config.ctypes.data), config.size - 1, index)

    def _here(self, ahead: int, target: int) -> int:
        """`target`, a position in the code, as the word `ahead` words from here."""
        self._addresses.append(len(self._words) + ahead)
        return target

    def _kernel(self, step: KernelStep, slot: int) -> None:
        address, size = self._functions[step.kernel], step.launch_size
        parts = size // step.grain
        if host_threads() == 1 or parts < 2 or sum(s.size for s in step.args) < SPLIT_BYTES:
            self._words += (Op.LAUNCH, address, slot, size)
            return
        chunks = min(parts, host_threads() * CHUNKS)
        self._words += (Op.SPLIT, address, slot, size, -(-size // chunks))

    def _gemm(self, step: GemmStep, slot: int) -> None:
        record = np.array(gemm_record(step), np.int64)
        self._records.append(record)
        self._uses_blas = True
        _, units, grain = gemm_parts(step)
        self._words += (Op.GEMM, int(record.ctypes.data), slot, units, grain)

    def _inner(self, body: StepList) -> Iterator[Step] | Callable[[], None]:
        """A sequence inside another: written in place, or called when several places have it."""
        number = self._shared.get(id(body))
        if number is None:
            return iter(body.steps)

        def call() -> None:
            self._words += (Op.CALL, self._here(1, -1 - number), -1, 0, 0)

        return call

    def _while(self, step: WhileStep, slot: int) -> list[_Task]:
        start = len(self._words)
        exit_at = 0

        def test() -> None:
            nonlocal exit_at
            self._words += (Op.JUMP_IF_ZERO, slot, self._here(2, 0))
            exit_at = len(self._words) - 1

        def close() -> None:
            self._words += (Op.JUMP, self._here(1, start))
            self._words[exit_at] = len(self._words)

        return [self._inner(step.condition), test, self._inner(step.body), close]

    def _switch(self, step: SwitchStep, slot: int) -> list[_Task]:
        count = len(step.branches)
        if step.is_predicate:
            self._words += (Op.SWITCH_PRED, slot)
        else:
            self._words += (Op.SWITCH, slot, count)
        first = len(self._words)
        self._addresses += range(first, first + count)
        self._words += [0] * count
        exits: list[int] = []
        tasks: list[_Task] = []

        def opener(branch: int) -> Callable[[], None]:
            def enter() -> None:
                self._words[first + branch] = len(self._words)

            return enter

        def leave() -> None:
            self._words += (Op.JUMP, self._here(1, 0))
            exits.append(len(self._words) - 1)

        def close() -> None:
            for at in exits:
                self._words[at] = len(self._words)

        for i, branch in enumerate(step.branches):
            tasks += [opener(i), self._inner(branch), leave]
        return [*tasks, close]
