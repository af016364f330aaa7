"""The native engine: a program as host code, run by the interpreter of `host_program_ir` without Python between steps.

An execution costs one call into native code, which checks the arguments, fills the table of addresses and runs the
steps. Custom calls come back into Python through one callback; what they raise is raised again when the run is over.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

import numpy as np

from xyla.runtime.blas import blas_threads
from xyla.runtime.execution import Execution, State, custom_call
from xyla.runtime.host_program import Encoder, Words
from xyla.runtime.host_program_ir import Failure, Word, interpreter_source
from xyla.runtime.objects import Kernel, KernelSource, default_store
from xyla.runtime.pool import shared_pool
from xyla.runtime.pool_ir import worker_source
from xyla.runtime.program import AllocationKind, KernelStep, Program, all_steps
from xyla.support.status import Status, XylaError, internal

# Programs of this many steps over this many bytes at most are over sooner than the interpreter lock is handed over.
_SHORT_STEPS, _SHORT_BYTES = 64, 1 << 16


@cache
def _interpreter() -> Kernel:
    (kernel,) = default_store().load([interpreter_source()])
    return kernel


def support_sources() -> list[KernelSource]:
    """What running any program needs besides its kernels; saved executables hold it too."""
    return [interpreter_source(), worker_source()]


def _run_custom_call(execution: Execution, index: int) -> int:
    try:
        execution.calls[index](execution)
    except BaseException as error:  # raised again by the engine, on the other side of the native frames
        execution.error = error
        return 1
    return 0


@cache
def _callback() -> ctypes._FuncPointer:
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_int64)(_run_custom_call)


class NativeEngine:
    """One program's host code, and what every state of it points to."""

    def __init__(self, program: Program, functions: Sequence[int]) -> None:
        """`functions`: kernel addresses, in the order of `program.kernel_names`."""
        self.program = program
        self.functions = tuple(functions)
        self.code = Encoder(program, functions).encode()
        self.calls = [custom_call(s, self.code.slots[id(s)]) for s in self.code.custom_calls]
        self._interpreter = _interpreter()
        self._callback = _callback()
        self._pool = shared_pool()
        self._fixups = self._moving_slices()
        self._arg_spec, self._out_spec = _argument_spec(program), _output_spec(program)
        kind = ctypes.PYFUNCTYPE if self._is_short() else ctypes.CFUNCTYPE
        self.enter = kind(None, ctypes.c_void_p)(self._interpreter.address)

    def _is_short(self) -> bool:
        """Whether the interpreter lock may be held: straight-line kernels over little memory."""
        steps = all_steps(self.program)
        if len(steps) > _SHORT_STEPS or not all(isinstance(s, KernelStep) for s in steps):
            return False
        return sum(a.size for a in self.program.allocations) <= _SHORT_BYTES

    def _moving_slices(self) -> Words:
        """(slot, allocation, offset) of the table entries that each run fills."""
        moves = [a.kind in (AllocationKind.PARAMETER, AllocationKind.OUTPUT) for a in self.program.allocations]
        code = self.code
        slots = np.flatnonzero(np.array(moves, bool)[code.allocation_of]) if moves else np.zeros(0, np.int64)
        return np.ascontiguousarray(np.stack([slots, code.allocation_of[slots], code.offset_of[slots]], axis=1))

    def prepare(self, state: State) -> None:
        """Points a new state to what is the same for all."""
        words = state.words
        words[Word.FIXUPS], words[Word.NUM_FIXUPS] = int(self._fixups.ctypes.data), len(self._fixups)
        words[Word.ARG_SPEC], words[Word.OUT_SPEC] = int(self._arg_spec.ctypes.data), int(self._out_spec.ctypes.data)
        words[Word.POOL] = self._pool.address
        callback = ctypes.cast(self._callback, ctypes.c_void_p).value
        words[Word.CALLBACK] = callback or 0

    def run(self, execution: Execution) -> int:
        """Runs from the state's start; returns its status. What a custom call raised is raised."""
        state = execution.state
        words = state.words
        words[Word.OWNER] = id(execution)
        if self.code.uses_blas:
            with blas_threads().one():
                self.enter(state.address)
        else:
            self.enter(state.address)
        status: int = words[Word.STATUS]
        if status == Failure.CALLBACK and execution.error is not None:
            raise execution.error
        if status == Failure.OPCODE:
            raise internal("host code with an unknown instruction")
        if status == Failure.NATIVE:
            text = ctypes.string_at(int(words[Word.TEXT])).decode("utf-8", "replace")
            raise XylaError(Status.UNKNOWN, f"{self.code.native_calls[int(words[Word.WHICH])].failure}: {text}")
        return status


class Fragments:
    """Every step as host code of its own, for the interpreted engine: the same native code does the same work."""

    def __init__(self, engine: NativeEngine) -> None:
        encoder = Encoder(engine.program, engine.functions)
        self._engine = engine
        self._code, self._starts = encoder.fragments()
        self._keep_alive = encoder.records

    def bind(self, execution: Execution) -> int:
        """Only reads the arguments and fills the table; returns the status."""
        return self._from(execution, int(self._code.ctypes.data))

    def run(self, execution: Execution, step: object) -> None:
        """Does one step."""
        self._from(execution, self._starts[id(step)])

    def _from(self, execution: Execution, start: int) -> int:
        words = execution.state.words
        whole = words[Word.CODE]
        words[Word.CODE] = start
        try:
            return self._engine.run(execution)
        finally:
            words[Word.CODE] = whole


def _argument_spec(program: Program) -> Words:
    """See `Word.ARG_SPEC`. The dtypes are the program's own, which outlive it."""
    where = {a.index: i for i, a in enumerate(program.allocations) if a.kind is AllocationKind.PARAMETER}
    words = [len(program.arguments)]
    for i, argument in enumerate(program.arguments):
        t = argument.type
        strided = t.minor_to_major[::-1] != tuple(range(len(t.dims)))
        words += (where.get(i, len(program.allocations)), id(t.dtype), len(t.dims), int(strided), *t.dims, *t.strides)
    return np.array(words, np.int64)


def _output_spec(program: Program) -> Words:
    return np.array([len(program.outputs), *(o.slice.allocation for o in program.outputs)], np.int64)
