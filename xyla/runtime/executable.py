"""Running a program: addresses, arguments, outputs, and the step interpreter.

Each step becomes one Python closure over a `Run` (the addresses of one execution), so an executable can run on many
threads at once: nothing else is mutable. Scratch memory is kept in a small pool, because fresh pages are slow.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.runtime.blas import gemm_call
from xyla.runtime.custom_calls import CallContext, handler_of
from xyla.runtime.program import (
    Allocation,
    AllocationKind,
    ArrayType,
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
    slices_of,
)
from xyla.runtime.run_options import DEFAULT_OPTIONS, RunOptions
from xyla.runtime.threads import host_threads, run_parts
from xyla.support.status import Status, XylaError, internal, invalid

ALIGNMENT = 64
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
# Below this many bytes touched, handing half of a kernel to another thread costs more than it saves.
SPLIT_BYTES = 1 << 20

Array = npt.NDArray[Any]
Action = Callable[["Run"], None]


class Run:
    """One execution: `table` holds the address of every slice of every step; `base` is the table's own address.

    `ran`: the shared sequences (by id) that have run, whose arguments and results lie in their frames. `shared`: what
    the handlers of custom calls keep for one another (a random state).
    """

    __slots__ = ("base", "options", "ran", "shared", "table")

    def __init__(self, table: npt.NDArray[np.int64], options: RunOptions) -> None:
        self.options = options
        self.table = table
        self.base = table.ctypes.data
        self.ran: set[int] = set()
        self.shared: dict[object, Any] = {}


@dataclass(slots=True)
class Stats:
    """What compiling and running cost. `handlers`: (instruction, reason) of each step that runs in Python.

    pass_times: milliseconds by optimisation step; rewrites: how many they made; passes_ms: optimisation in all.
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
    compile_ms: float = 0.0
    temp_bytes: int = 0
    converted_arguments: int = 0


class Executable:
    """A compiled program. Call it with one array a parameter leaf; it returns one array an output leaf."""

    def __init__(self, program: Program, kernels: Sequence[int], stats: Stats, keep_alive: object = None) -> None:
        """`kernels`: addresses, in the order of `program.kernel_names`. `keep_alive` owns their code."""
        self.program = program
        self.stats = stats
        self._keep_alive = keep_alive
        self._functions = [_KERNEL(address) for address in kernels]
        self._pool: list[npt.NDArray[np.uint8]] = []
        self._lock = Lock()
        self._slots: dict[int, int] = {}
        self._layout_table()
        self._bodies: dict[int, list[Action]] = {}
        self._actions = self._sequence(program.body)
        self._params = [a for a in program.allocations if a.kind is AllocationKind.PARAMETER]

    def __call__(self, *args: npt.ArrayLike) -> list[Array]:
        """Runs the program on logical arrays, one a parameter leaf in order; see `execute`."""
        return self.execute(args)

    def execute(self, args: Sequence[npt.ArrayLike], options: RunOptions = DEFAULT_OPTIONS) -> list[Array]:
        """Runs the program on logical arrays, one a parameter leaf in order.

        Raises INVALID_ARGUMENT naming the parameter on a wrong count, dtype or shape.
        """
        arrays = self._arguments(args)
        outputs = [_empty(o.type) for o in self.program.outputs]
        temp = self._take_temp()
        try:
            bases = np.array([self._address(a, arrays, outputs, temp) for a in self.program.allocations], np.int64)
            run = Run(bases[self._allocation_of] + self._offset_of, options)
            for action in self._actions:
                action(run)
        finally:
            with self._lock:
                self._pool.append(temp)
        return [_logical(o, t.type) for o, t in zip(outputs, self.program.outputs, strict=True)]

    # -- memory ------------------------------------------------------------------------------------------------

    def _layout_table(self) -> None:
        slices: list[Slice] = []
        for step in all_steps(self.program):
            self._slots[id(step)] = len(slices)
            slices.extend(slices_of(step))
        self._allocation_of = np.array([s.allocation for s in slices], np.int64)
        self._offset_of = np.array([s.offset for s in slices], np.int64)

    def _take_temp(self) -> npt.NDArray[np.uint8]:
        with self._lock:
            if self._pool:
                return self._pool.pop()
        size = sum(a.size for a in self.program.allocations if a.kind is AllocationKind.TEMP)
        return _aligned(size)

    def _address(self, a: Allocation, args: list[Array], outputs: list[Array], temp: Array) -> int:
        match a.kind:
            case AllocationKind.PARAMETER:
                return args[a.index].ctypes.data
            case AllocationKind.OUTPUT:
                return outputs[a.index].ctypes.data
            case AllocationKind.TEMP:
                return temp.ctypes.data
            case AllocationKind.CONSTANT:
                if a.data is None:
                    raise internal("a constant allocation without data")
                return a.data.ctypes.data

    def _arguments(self, args: Sequence[npt.ArrayLike]) -> list[Array]:
        wanted = self.program.arguments
        if len(args) != len(wanted):
            raise invalid(f"{self.program.name} takes {len(wanted)} arguments, {len(args)} given")
        return [self._argument(i, a) for i, a in enumerate(args)]

    def _argument(self, index: int, value: npt.ArrayLike) -> Array:
        want = self.program.arguments[index]
        array = np.asarray(value)
        if array.dtype != want.type.dtype:
            same_width = array.dtype.kind == "V" and array.dtype.itemsize == want.type.dtype.itemsize
            if not same_width:
                raise invalid(f"{want.name} has dtype {array.dtype}, expected {want.type_text}")
            array = array.view(want.type.dtype)
        if array.shape != want.type.dims:
            raise invalid(f"{want.name} has shape {list(array.shape)}, expected {want.type_text}")
        physical = array.transpose(want.type.minor_to_major[::-1])
        if not physical.flags.c_contiguous or not physical.flags.aligned:
            self.stats.converted_arguments += 1
            physical = np.require(physical, requirements=["C", "ALIGNED"])
        return physical

    # -- steps -------------------------------------------------------------------------------------------------

    def _sequence(self, steps: StepList) -> list[Action]:
        """Closures of a sequence; a shared sequence is made once."""
        found = self._bodies.get(id(steps))
        if found is None:
            found = self._bodies[id(steps)] = []
            found.extend(self._action(s) for s in steps.steps)
        return found

    def _action(self, step: Step) -> Action:
        slot = self._slots[id(step)]
        match step:
            case KernelStep():
                return self._kernel(step, slot)
            case CopyStep():
                return _copy(step, slot)
            case GemmStep():
                return _gemm(step, slot)
            case CustomCallStep():
                return _custom_call(step, slot)
            case CallStep():
                return _call(step, self._sequence(step.body), slot)
            case WhileStep():
                return _while(self._sequence(step.condition), self._sequence(step.body), slot)
            case SwitchStep():
                return _switch(step, [self._sequence(b) for b in step.branches], slot)

    def _kernel(self, step: KernelStep, slot: int) -> Action:
        function, offset, size = self._functions[step.kernel], slot * 8, step.launch_size
        threads = host_threads()
        if threads == 1 or size < 2 or sum(s.size for s in step.args) < SPLIT_BYTES:

            def whole(run: Run) -> None:
                function(run.base + offset, 0, size)

            return whole
        parts = min(threads, size)
        bounds = [(size * i // parts, size * (i + 1) // parts) for i in range(parts)]

        def split(run: Run) -> None:
            address = run.base + offset
            run_parts([partial(function, address, lo, hi) for lo, hi in bounds])

        return split


def _call(step: CallStep, body: list[Action], slot: int) -> Action:
    sizes, key, pure = [source.size for source, _ in step.arguments], id(step.body), step.pure
    same, move = ctypes.CDLL(None).memcmp, ctypes.memmove
    same.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

    def call(run: Run) -> None:
        addresses = run.table[slot : slot + 2 * len(sizes)].tolist()
        known = pure and key in run.ran
        for source, target, size in zip(addresses[::2], addresses[1::2], sizes, strict=True):
            known = known and not same(source, target, size)
            if not known:
                move(target, source, size)
        if known:
            return
        run.ran.add(key)
        for action in body:
            action(run)

    return call


def _copy(step: CopyStep, slot: int) -> Action:
    size, move = step.source.size, ctypes.memmove

    def copy(run: Run) -> None:
        table = run.table
        move(int(table[slot + 1]), int(table[slot]), size)

    return copy


def _gemm(step: GemmStep, slot: int) -> Action:
    call = gemm_call(step)

    def gemm(run: Run) -> None:
        a, b, c = run.table[slot : slot + 3].tolist()
        call(a, b, c)

    return gemm


def _custom_call(step: CustomCallStep, slot: int) -> Action:
    handler, name = handler_of(step), step.name
    types = [t for _, t in (*step.inputs, *step.outputs)]
    count = len(step.inputs)

    def handle(run: Run) -> None:
        views = [view_at(int(run.table[slot + i]), t) for i, t in enumerate(types)]
        results = handler(CallContext(run.options, name, run.shared), views[:count])
        for target, result in zip(views[count:], results, strict=True):
            if np.shape(result) != target.shape:
                raise internal(f"{name} gave an array of shape {np.shape(result)}, planned {target.shape}")
            target[...] = result

    return handle


def _while(condition: list[Action], body: list[Action], slot: int) -> Action:
    byte = ctypes.c_uint8.from_address

    def loop(run: Run) -> None:
        predicate = byte(int(run.table[slot]))
        while True:
            for action in condition:
                action(run)
            if not predicate.value:
                return
            for action in body:
                action(run)

    return loop


def _switch(step: SwitchStep, branches: list[list[Action]], slot: int) -> Action:
    last = len(branches) - 1

    def switch(run: Run) -> None:
        address = int(run.table[slot])
        if step.is_predicate:
            index = 0 if ctypes.c_uint8.from_address(address).value else 1
        else:
            index = ctypes.c_int32.from_address(address).value
            index = index if 0 <= index <= last else last
        for action in branches[index]:
            action(run)

    return switch


def view_at(address: int, t: ArrayType) -> Array:
    """A NumPy view of memory; writes go through. The memory must outlive it."""
    size = t.num_bytes
    if size == 0:
        return np.empty(t.dims, t.dtype)
    # ndarray takes any buffer; the stubs list only some.
    raw: Any = (ctypes.c_char * size).from_address(address)
    return np.ndarray(t.dims, t.dtype, buffer=raw, strides=t.strides)


def _aligned(size: int) -> npt.NDArray[np.uint8]:
    try:
        raw = np.empty(size + ALIGNMENT, np.uint8)
    except MemoryError:
        raise XylaError(Status.RESOURCE_EXHAUSTED, f"{size} bytes of memory are not to be had") from None
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def _empty(t: ArrayType) -> Array:
    """Fresh aligned memory of a type, as its physical (row-major) array."""
    order = t.minor_to_major[::-1]
    return _aligned(t.num_bytes).view(t.dtype).reshape([t.dims[d] for d in order])


def _logical(physical: Array, t: ArrayType) -> Array:
    return physical.transpose(np.argsort(t.minor_to_major[::-1])) if t.dims else physical
