"""A compiled program, ready to run on arrays.

The usual run makes its result arrays, and everything else in one call of native code. Runs with donated arguments,
results in parameters' memory or an allocator of the caller's go through `Binder`. One executable runs on many threads
at once: an execution's only state is its `State`, of which idle ones are kept, because fresh pages are slow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from time import perf_counter_ns
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from xyla.runtime.aliasing import AliasPlan
from xyla.runtime.allocator import Allocator, Lease, host_allocator
from xyla.runtime.aot_codec import fingerprint
from xyla.runtime.binding import Binder, Bound, empty_type, finish
from xyla.runtime.constants import POOL
from xyla.runtime.engine_interpreted import Interpreter
from xyla.runtime.engine_native import Fragments, NativeEngine
from xyla.runtime.execution import Execution, State
from xyla.runtime.gate import EXECUTIONS
from xyla.runtime.host_program_ir import Word
from xyla.runtime.llvm_compile import KernelSource
from xyla.runtime.numpy_layout import readable
from xyla.runtime.objects import default_store
from xyla.runtime.pool import host_threads
from xyla.runtime.program import AllocationKind, ArrayType, Deferred, Program
from xyla.runtime.run_options import DEFAULT_OPTIONS, RunOptions
from xyla.runtime.streams import Stream
from xyla.support.status import Status, XylaError, invalid

# Results up to this size are NumPy's own memory; larger ones come from the allocator, which reuses pages.
SMALL_RESULT = 1 << 18
# Idle states are kept while their temporary memory is at most this.
_IDLE_BYTES = 1 << 28

Array = npt.NDArray[Any]


@dataclass(slots=True)
class Stats:
    """What compiling and running cost. `handlers`: (instruction, reason) of each step that runs in Python.

    pass_times: milliseconds by optimisation step; rewrites: how many they made; passes_ms: optimisation in all.
    preparation_times, preparation_ms: the same for the steps before code is emitted (schedule, copies).
    """

    instructions: int = 0
    kernels: int = 0
    unique_kernels: int = 0
    cache_hits: int = 0
    library_calls: int = 0
    handlers: list[tuple[str, str]] = field(default_factory=list)
    rewrites: int = 0
    pass_times: dict[str, float] = field(default_factory=dict)
    passes_ms: float = 0.0
    preparation_times: dict[str, float] = field(default_factory=dict)
    preparation_ms: float = 0.0
    compile_ms: float = 0.0
    temp_bytes: int = 0
    converted_arguments: int = 0


@dataclass(frozen=True, slots=True)
class Devices:
    """How many devices a program is for. is_logical: it takes and returns whole arrays, whatever its partitions."""

    replicas: int = 1
    partitions: int = 1
    is_logical: bool = False

    @property
    def count(self) -> int:
        """How many run at once."""
        return self.replicas * self.partitions


class Executable:
    """A compiled program. Call it with one array a parameter leaf; it returns one array an output leaf."""

    def __init__(
        self,
        program: Program,
        kernels: Sequence[int],
        stats: Stats,
        keep_alive: object = None,
        sources: Sequence[KernelSource] = (),
    ) -> None:
        """`kernels`: addresses, in the order of `program.kernel_names`. `keep_alive` owns their code.

        sources: the kernels' text, in the same order; without it the executable cannot be saved.
        """
        self.program = program
        self.stats = stats
        self.sources = tuple(sources)
        self._keep_alive = keep_alive
        program.allocations[:] = [
            a if a.data is None else replace(a, data=POOL.share(a.data)) for a in program.allocations
        ]
        self._native = NativeEngine(program, kernels)
        self._enter = self._native.enter
        self._binder = Binder(program)
        self._idle: list[State] = []
        self._temps = {i: a.size for i, a in enumerate(program.allocations) if a.kind is AllocationKind.TEMP}
        heavy = sum(self._temps.values()) * 2 * host_threads() > _IDLE_BYTES
        self._max_idle = 1 if heavy else 2 * host_threads()
        self._makers = [_maker(o.type) for o in program.outputs]
        self._is_plain = self._binder.is_plain
        self._aliases = AliasPlan(program, self._makers)
        self._is_readable = readable()
        self._is_direct = False  # whether one call of native code does everything
        self.use(None)
        self.devices = Devices()
        self.report: Deferred | None = None
        self.ir_text = ""  # the kernels' LLVM IR, for whom asked the compiler to keep it
        self.saved: memoryview | None = None  # the file that it was loaded from
        _ALIVE.add(self)

    def __call__(self, *args: npt.ArrayLike) -> list[Array]:
        """Runs the program on logical arrays, one a parameter leaf in order; see `execute`."""
        if not self._is_plain:
            return self.execute(args)
        if not self._is_direct:
            return self._run_plain(args, DEFAULT_OPTIONS)
        try:
            state = self._idle.pop()
        except IndexError:
            state = self._new_state()
        outs = tuple([make() for make in self._makers])
        words = state.words
        words[0] = id(args)  # Word.ARGS, OUTS and STATUS: looking up the names would double the cost of these lines
        words[1] = id(outs)
        EXECUTIONS.enter()
        self._enter(state.address)
        EXECUTIONS.running.pop()
        status = words[2]
        self._keep(state)
        return self.execute(args) if status else list(outs)

    def execute(
        self,
        args: Sequence[npt.ArrayLike],
        options: RunOptions = DEFAULT_OPTIONS,
        *,
        donate: Collection[int] = (),
    ) -> list[Array]:
        """Runs the program on logical arrays, one a parameter leaf in order.

        donate: leaves whose memory the program may keep for results. Raises INVALID_ARGUMENT naming the parameter on a
        wrong count, dtype or shape, or when an argument that must be donated is not; RESOURCE_EXHAUSTED when there is
        no memory, with what the program needs. Arguments are as they were when it fails before the first step; what
        was allocated is given back.
        """
        if options.allocator is None:
            if self._is_plain and not donate:
                return self._run_plain(tuple(args), options)
            if self._aliases.is_possible and self._is_readable:
                results = self._run_aliased(args, options, frozenset(donate))
                if results is not None:
                    return results
        bound, state = Bound([]), None
        allocator: Allocator = options.allocator or host_allocator()
        try:
            self._binder.arguments(args, bound, donated=donate)
            state = self._take_state(options)
            self._binder.results(bound, allocator, options.device_ordinal, donate)
            self._place(state, bound)
            self._run(Execution(state, options, self._native.calls))
        except BaseException as error:
            bound.release()
            self._explain(error)
            raise
        finally:
            self.stats.converted_arguments += bound.converted
            if state is not None:
                self._give_back(state, options)
        return finish(self.program, bound)

    def execute_async(
        self,
        args: Sequence[npt.ArrayLike],
        stream: Stream,
        options: RunOptions = DEFAULT_OPTIONS,
        *,
        donate: Collection[int] = (),
    ) -> Future[list[Array]]:
        """Queues `execute` on a stream; the future is the event of its end, and holds what it returns or raises.

        Blocks until then when the allocator does not allow asynchronous deallocation. The arguments must not be written
        to in the meantime.
        """
        done = stream.submit(lambda: self.execute(args, options, donate=donate))
        if options.allocator is not None and not options.allocator.allows_asynchronous_deallocation:
            wait([done])
        return done

    def use(self, interpreter: Interpreter | None) -> None:
        """From now on runs the steps one by one from Python; None: natively again."""
        self._interpreter = interpreter
        code = self._native.code
        simple = self._is_plain and not code.uses_blas and not code.custom_calls and not code.native_calls
        self._is_direct = simple and self._is_readable and interpreter is None

    @cached_property
    def _fragments(self) -> Fragments:
        return Fragments(self._native)

    def _run_plain(self, args: tuple[npt.ArrayLike, ...], options: RunOptions) -> list[Array]:
        """A run whose results are new arrays: native code looks at the arguments, Python only at unusual ones."""
        state = self._take_state(options)
        try:
            outs = tuple([make() for make in self._makers])
            if self._is_readable:
                state.words[Word.ARGS], state.words[Word.OUTS] = id(args), id(outs)
                status = self._run(Execution(state, options, self._native.calls))
                if status == 0:
                    return list(outs)
            bound = Bound([])
            self._binder.arguments(args, bound)
            self.stats.converted_arguments += bound.converted
            for i, output in enumerate(self.program.outputs):
                bound.bases[output.slice.allocation] = outs[i].ctypes.data
            self._place(state, bound)
            self._run(Execution(state, options, self._native.calls))
            return list(outs)
        except MemoryError as error:
            self._explain(error)
            raise
        finally:
            self._keep(state)

    def _run_aliased(
        self, args: Sequence[npt.ArrayLike], options: RunOptions, donated: frozenset[int]
    ) -> list[Array] | None:
        """A run with results in arguments' memory; None, before anything has run, when arguments are unusual."""
        state = self._take_state(options)
        try:
            placed = self._aliases.place(args, donated)
            if placed is None:
                return None
            used, outs = placed
            execution = Execution(state, options, self._native.calls)
            state.words[Word.ARGS], state.words[Word.OUTS] = id(used), id(outs)
            if self._fragments.bind(execution) or (donated and not self._aliases.are_apart(state.bases)):
                return None
            state.words[Word.ARGS] = state.words[Word.OUTS] = 0
            self._run(execution)
            return list(outs)
        except MemoryError as error:
            self._explain(error)
            raise
        finally:
            self._keep(state)

    def _run(self, execution: Execution) -> int:
        """Runs; a status other than 0 says that native code does not take the arguments as they are."""
        if execution.calls and execution.options.world is None and self.devices.count > 1:
            raise invalid(
                f"{self.program.name} is for {self.devices.count} devices",
                hint="xyla.run and xyla.Client run it on all of them",
            )
        profile = execution.options.profile
        if execution.options.on_start is not None:
            execution.options.on_start()
        EXECUTIONS.enter()
        start = perf_counter_ns() if profile is not None else 0
        try:
            if self._interpreter is None:
                status = self._native.run(execution)
            else:
                status = self._interpreter.run(self._native, self._fragments, execution)
        finally:
            EXECUTIONS.running.pop()
        if profile is not None:
            profile.record(self.program.name, start, perf_counter_ns())
        return status

    # -- memory ------------------------------------------------------------------------------------------------

    def _place(self, state: State, bound: Bound) -> None:
        """Tells a state where arguments and results lie, instead of native code finding out."""
        state.words[Word.ARGS] = state.words[Word.OUTS] = 0
        for number, base in bound.bases.items():
            state.bases[number] = base

    def _take_state(self, options: RunOptions) -> State:
        if options.allocator is not None:
            return self._new_state(options.allocator, options.device_ordinal)
        try:
            return self._idle.pop()
        except IndexError:
            return self._new_state()

    def _new_state(self, allocator: Allocator | None = None, device: int = 0) -> State:
        leases: dict[int, Lease] = {}
        try:
            for number, size in self._temps.items():
                leases[number] = Lease(allocator or host_allocator(), size, device)
            state = State(self.program, self._native.code, leases)
        except BaseException as error:
            for lease in leases.values():
                lease.release()
            self._explain(error)
            raise
        self._native.prepare(state)
        return state

    def _give_back(self, state: State, options: RunOptions) -> None:
        if options.allocator is not None:
            state.release()
        else:
            self._keep(state)

    def _keep(self, state: State) -> None:
        """Keeps a state for the next run, unless there are enough: then its memory goes back to the allocator."""
        idle = self._idle
        if len(idle) < self._max_idle:
            idle.append(state)

    def _explain(self, error: BaseException) -> None:
        """Raises an error that says what the program needs, if it is one about missing memory."""
        if isinstance(error, MemoryError):
            raise XylaError(Status.RESOURCE_EXHAUSTED, f"no memory for a result\n{self.memory_report()}") from None
        if isinstance(error, XylaError) and error.status is Status.RESOURCE_EXHAUSTED:
            raise XylaError(error.status, f"{error.message}\n{self.memory_report()}", span=error.span) from None

    # -- what it is --------------------------------------------------------------------------------------------

    def memory_report(self) -> str:
        """Bytes by kind of allocation; or, first, the report that the compiler left."""
        if self.report is not None:
            return self.report.text
        lines = [f"{self.program.name} needs:"]
        for kind in AllocationKind:
            sizes = [a.size for a in self.program.allocations if a.kind is kind]
            if sizes:
                lines.append(f"  {kind.value}: {sum(sizes)} bytes in {len(sizes)} allocations")
        return "\n".join(lines)

    @cached_property
    def fingerprint(self) -> str:
        """Equal for programs that do the same with the same kernels and constants."""
        return fingerprint(self.program)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file that `xyla.load_executable` and `xyla run` load without compiling; see `aot.save`."""
        from xyla.runtime import aot

        aot.save(self, path)

    @property
    def generated_code_bytes(self) -> int:
        """Machine code of the kernels, host code and constants."""
        constants = sum(a.size for a in self.program.allocations if a.kind is AllocationKind.CONSTANT)
        kernels = default_store().code_bytes(self.program.kernel_names)
        return kernels + int(self._native.code.code.nbytes) + constants


_ALIVE: WeakSet[Executable] = WeakSet()


def alive() -> list[Executable]:
    """The executables that exist, by name: for debugging."""
    return sorted(_ALIVE, key=lambda e: e.program.name)


def _maker(t: ArrayType) -> Callable[[], Array]:
    """What makes an array of a type for a result."""
    dims, order = empty_type(t)
    if t.num_bytes > SMALL_RESULT:
        return lambda: Lease(host_allocator(), t.num_bytes).array(t)
    if order is None:
        return partial(np.empty, dims, t.dtype)
    return lambda: np.empty(dims, t.dtype).transpose(order)
