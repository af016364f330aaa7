"""The interpreted engine: the same program step by step from Python, so that each step can be watched.

Control flow is Python's; kernels, copies and matrix products are the very instructions that the native engine runs,
one at a time, so the results are bit-equal.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from xyla.runtime.execution import Execution, view_at
from xyla.runtime.program import (
    ArrayType,
    CallStep,
    CopyStep,
    CustomCallStep,
    GemmStep,
    KernelStep,
    Slice,
    Step,
    StepList,
    SwitchStep,
    WhileStep,
)

if TYPE_CHECKING:
    from xyla.runtime.engine_native import Fragments, NativeEngine

Array = npt.NDArray[Any]
_Sequence = Generator["_Sequence", None, None]


class Arrays:
    """The arrays of a step, looked at only while the step is watched: their memory is reused."""

    def __init__(self, step: Step, addresses: list[int]) -> None:
        self._step = step
        self._addresses = addresses

    @property
    def inputs(self) -> list[Array]:
        """What the step reads, where its types are known."""
        types, count = types_of(self._step)
        return [view_at(a, t) for a, t in zip(self._addresses[:count], types[:count], strict=True)]

    @property
    def outputs(self) -> list[Array]:
        """What the step writes, where its types are known."""
        types, count = types_of(self._step)
        return [view_at(a, t) for a, t in zip(self._addresses[count : len(types)], types[count:], strict=True)]


class Watcher(Protocol):
    """Looks at steps that are no control flow. What it raises ends the run."""

    def before(self, step: Step, arrays: Arrays) -> None:
        """The step is about to run."""
        ...

    def after(self, step: Step, arrays: Arrays, nanoseconds: int) -> None:
        """The step has run."""
        ...


class Interpreter:
    """Runs programs from Python and shows each step to the watchers."""

    def __init__(self, watchers: Sequence[Watcher] = ()) -> None:
        self.watchers = tuple(watchers)

    def run(self, engine: NativeEngine, fragments: Fragments, execution: Execution) -> int:
        """One execution; the state's bases are set. Returns native code's status, raises what a step raises."""
        status = fragments.bind(execution)
        if status:
            return status
        run = _Run(self.watchers, engine, fragments, execution)
        stack = [run.sequence(engine.program.body)]
        while stack:
            inner = next(stack[-1], None)
            if inner is None:
                stack.pop()
            else:
                stack.append(inner)
        return 0


class _Run:
    """One interpreted execution. Sequences are generators that yield the sequences to run in between."""

    def __init__(
        self, watchers: tuple[Watcher, ...], engine: NativeEngine, fragments: Fragments, execution: Execution
    ) -> None:
        self._watchers = watchers
        self._slots = engine.code.slots
        self._calls = {id(s): call for s, call in zip(engine.code.custom_calls, engine.calls, strict=True)}
        self._fragments = fragments
        self._execution = execution
        self._table = execution.state.table
        self._ran: set[int] = set()

    def sequence(self, body: StepList) -> _Sequence:
        """Runs the steps of a sequence."""
        for step in body.steps:
            match step:
                case WhileStep():
                    yield self._while(step)
                case SwitchStep():
                    yield self.sequence(step.branches[self._branch(step)])
                case CallStep():
                    if not self._copy_arguments(step):
                        yield self.sequence(step.body)
                case _:
                    self._work(step)

    def _while(self, step: WhileStep) -> _Sequence:
        predicate = ctypes.c_uint8.from_address(self._address(step))
        while True:
            yield self.sequence(step.condition)
            if not predicate.value:
                return
            yield self.sequence(step.body)

    def _branch(self, step: SwitchStep) -> int:
        address, last = self._address(step), len(step.branches) - 1
        if step.is_predicate:
            return 0 if ctypes.c_uint8.from_address(address).value else 1
        index = ctypes.c_int32.from_address(address).value
        return index if 0 <= index <= last else last

    def _copy_arguments(self, step: CallStep) -> bool:
        """Copies into the frame of a shared sequence; True when it need not run, as it ran on the same arguments."""
        key, slot = id(step.body), self._slots[id(step)]
        known = step.pure and key in self._ran
        addresses = self._table[slot : slot + 2 * len(step.arguments)].tolist()
        for (source, _), here, there in zip(step.arguments, addresses[::2], addresses[1::2], strict=True):
            known = known and ctypes.string_at(here, source.size) == ctypes.string_at(there, source.size)
            if not known:
                ctypes.memmove(there, here, source.size)
        self._ran.add(key)
        return known

    def _work(self, step: Step) -> None:
        arrays = Arrays(step, self._addresses(step)) if self._watchers else None
        for watcher in self._watchers:
            assert arrays is not None
            watcher.before(step, arrays)
        start = perf_counter_ns()
        if id(step) in self._calls:
            self._calls[id(step)](self._execution)
        else:
            self._fragments.run(self._execution, step)
        spent = perf_counter_ns() - start
        for watcher in self._watchers:
            assert arrays is not None
            watcher.after(step, arrays, spent)

    def _address(self, step: Step) -> int:
        return int(self._table[self._slots[id(step)]])

    def _addresses(self, step: Step) -> list[int]:
        slot = self._slots[id(step)]
        found: list[int] = self._table[slot : slot + len(types_of(step)[0])].tolist()
        return found


def types_of(step: Step) -> tuple[tuple[ArrayType, ...], int]:
    """(types of the arrays that a step names first, how many of them it reads)."""
    match step:
        case KernelStep():
            return step.types, step.num_inputs
        case CustomCallStep():
            return tuple(t for _, t in (*step.inputs, *step.outputs)), len(step.inputs)
        case CopyStep():
            return (_bytes(step.source), _bytes(step.target)), 1
        case GemmStep():
            return tuple(_elements(s, step.dtype) for s in (step.a, step.b, step.c)), 2
        case _:
            return (), 0


def _bytes(s: Slice) -> ArrayType:
    return ArrayType(np.dtype(np.uint8), (s.size,), (1,))


def _elements(s: Slice, dtype: np.dtype[np.generic]) -> ArrayType:
    return ArrayType(dtype, (s.size // dtype.itemsize,), (dtype.itemsize,))
