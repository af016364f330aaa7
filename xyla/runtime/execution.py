"""One execution: what its steps and custom calls know of it, and the memory it runs in."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.runtime.allocator import Lease
from xyla.runtime.custom_calls import CallContext, handler_of
from xyla.runtime.host_program import HostProgram
from xyla.runtime.host_program_ir import Word
from xyla.runtime.numpy_layout import HEAD, ITEMS
from xyla.runtime.program import ArrayType, CustomCallStep, Program
from xyla.runtime.run_options import RunOptions
from xyla.support.status import internal

Array = npt.NDArray[Any]
# A custom call, ready to run: it finds its arrays by the execution's table.
Action = Callable[["Execution"], None]


class State:
    """The memory that one execution at a time uses: the native engine's frame, and the temporary allocations.

    `words` is the frame (see `Word`); behind it lie the bases, the table, the stack and the marks of what ran. Entries
    of the table that stay the same from run to run are filled here.
    """

    __slots__ = ("_memory", "address", "bases", "table", "temps", "words")

    def __init__(self, program: Program, code: HostProgram, temps: dict[int, Lease]) -> None:
        """`temps`: memory of the TEMP allocations, by number."""
        self.temps = temps
        count, slots = len(program.allocations), len(code.allocation_of)
        # One base more than there are allocations: that of arguments which nothing reads.
        sizes = [len(Word), count + 1, slots, code.num_shared + 1, -(-code.num_shared // 8) + 1]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self._memory = np.zeros(sum(sizes), np.int64)
        base = int(self._memory.ctypes.data)
        self.address = base
        self.words = self._memory.data[: len(Word)]
        self.bases = self._memory[starts[1] : starts[1] + count + 1]
        self.table = self._memory[starts[2] : starts[2] + slots]
        for i, allocation in enumerate(program.allocations):
            if allocation.data is not None:
                self.bases[i] = allocation.data.ctypes.data
        for i, lease in temps.items():
            self.bases[i] = lease.address
        self.table[:] = self.bases[code.allocation_of] + code.offset_of
        words = self.words
        words[Word.CODE] = int(code.code.ctypes.data)
        words[Word.BASES], words[Word.TABLE] = base + 8 * starts[1], base + 8 * starts[2]
        words[Word.STACK], words[Word.RAN] = base + 8 * starts[3], base + 8 * starts[4]
        words[Word.RAN_BYTES] = code.num_shared
        words[Word.ARRAY_TYPE], words[Word.HEAD], words[Word.ITEMS] = id(np.ndarray), HEAD, ITEMS

    def release(self) -> None:
        """Gives the temporary memory back. The state may not be used again."""
        for lease in self.temps.values():
            lease.release()


class Execution:
    """One run. `shared`: what the handlers of custom calls keep for one another (a random state)."""

    __slots__ = ("calls", "error", "options", "shared", "state")

    def __init__(self, state: State, options: RunOptions, calls: list[Action]) -> None:
        self.state = state
        self.options = options
        self.calls = calls
        self.shared: dict[object, Any] = {}
        self.error: BaseException | None = None


def custom_call(step: CustomCallStep, slot: int) -> Action:
    """The action of a custom call; its first slice has table entry `slot`."""
    handler, name = handler_of(step), step.name
    types = [t for _, t in (*step.inputs, *step.outputs)]
    count = len(step.inputs)

    def handle(execution: Execution) -> None:
        addresses = execution.state.table[slot : slot + len(types)].tolist()
        views = [view_at(address, t) for address, t in zip(addresses, types, strict=True)]
        results = handler(CallContext(execution.options, name, execution.shared), views[:count])
        for target, result in zip(views[count:], results, strict=True):
            if np.shape(result) != target.shape:
                raise internal(f"{name} gave an array of shape {np.shape(result)}, planned {target.shape}")
            target[...] = result

    return handle


def view_at(address: int, t: ArrayType) -> Array:
    """A NumPy view of memory; writes go through. The memory must outlive it."""
    size = t.num_bytes
    if size == 0:
        return np.empty(t.dims, t.dtype)
    # ndarray takes any buffer; the stubs list only some.
    raw: Any = (ctypes.c_char * size).from_address(address)
    return np.ndarray(t.dims, t.dtype, buffer=raw, strides=t.strides)
