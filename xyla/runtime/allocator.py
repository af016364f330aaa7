"""Where an execution's memory comes from: the interface, the host's own allocator, and arrays that give memory back.

Fresh pages are slow (2 to 6 GB/s), so the host's allocator keeps what it is given back, up to a limit, and hands it out
again. Memory that a caller holds as an array goes back when the last array over it dies.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from functools import cache
from sys import is_finalizing
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from xyla.runtime.program import ArrayType
from xyla.support.status import Status, XylaError

ALIGNMENT = 64
_PAGE = 4096
# Blocks are rounded up so that similar sizes share them: to an eighth of their size at most.
_SHARES = 8

Block = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]


class Allocator(Protocol):
    """What gives executions their memory. Blocks are 64-byte aligned arrays of bytes.

    allows_asynchronous_deallocation: whether memory may be given back while work that uses it is still queued; where
    it may not, an asynchronous execution blocks until it is done.
    """

    @property
    def allows_asynchronous_deallocation(self) -> bool:
        """See the class."""
        ...

    def allocate(self, size: int, device_ordinal: int) -> Block:
        """`size` bytes. Raises RESOURCE_EXHAUSTED when they are not to be had."""
        ...

    def deallocate(self, block: Block, device_ordinal: int) -> None:
        """Takes back what `allocate` gave."""
        ...


class HostAllocator:
    """Process memory, with freed blocks kept for reuse: `limit` bytes of them at most, the oldest dropped first."""

    allows_asynchronous_deallocation = True

    def __init__(self, limit: int | None = None) -> None:
        """`limit`: None is a quarter of the machine's memory."""
        self._limit = _quarter_of_memory() if limit is None else limit
        self._lock = Lock()
        self._free: OrderedDict[int, tuple[int, Block]] = OrderedDict()  # serial -> (class, block)
        self._by_class: dict[int, list[int]] = {}
        self._serial = 0
        self.kept_bytes = 0

    def allocate(self, size: int, device_ordinal: int = 0) -> Block:
        """`size` bytes, reused or fresh."""
        rounded = size_class(size)
        with self._lock:
            serials = self._by_class.get(rounded)
            if serials:
                _, block = self._free.pop(serials.pop())
                self.kept_bytes -= rounded
                return block[:size]
        try:
            return fresh_block(rounded)[:size]
        except XylaError:
            self.trim()
            return fresh_block(rounded)[:size]

    def deallocate(self, block: Block, device_ordinal: int = 0) -> None:
        """Keeps the block for the next that asks for its size."""
        rounded = size_class(block.size)
        if rounded > self._limit:
            return
        start = block.ctypes.data
        raw: Any = block.base
        offset = start - raw.ctypes.data
        whole = raw[offset : offset + rounded]
        with self._lock:
            self._serial += 1
            self._free[self._serial] = (rounded, whole)
            self._by_class.setdefault(rounded, []).append(self._serial)
            self.kept_bytes += rounded
            while self.kept_bytes > self._limit:
                self._drop_oldest()

    def trim(self) -> None:
        """Gives all kept memory back to the system."""
        with self._lock:
            self._free.clear()
            self._by_class.clear()
            self.kept_bytes = 0

    def _drop_oldest(self) -> None:
        serial, (rounded, _) = self._free.popitem(last=False)
        self._by_class[rounded].remove(serial)
        self.kept_bytes -= rounded


def size_class(size: int) -> int:
    """Bytes that a block for `size` really has: whole pages, and few different sizes."""
    step = _PAGE
    while step * _SHARES * 2 <= size:
        step *= 2
    return max(-(-size // step), 1) * step


def fresh_block(size: int) -> Block:
    """New aligned memory of the process. Raises RESOURCE_EXHAUSTED when there is none."""
    try:
        raw = np.empty(size + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):
        raise out_of_memory(size) from None
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def out_of_memory(size: int) -> XylaError:
    """The error to raise."""
    return XylaError(Status.RESOURCE_EXHAUSTED, f"{size} bytes of memory are not to be had")


def _quarter_of_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


@cache
def host_allocator() -> HostAllocator:
    """The process's allocator."""
    return HostAllocator()


class Lease:
    """Memory that arrays lie in: it goes back to its allocator when none is left, or at `release`."""

    __slots__ = ("__array_interface__", "__weakref__", "_allocator", "_block", "_device")

    def __init__(self, allocator: Allocator, size: int, device_ordinal: int = 0) -> None:
        """Allocates `size` bytes; raises what the allocator raises."""
        self._allocator = allocator
        self._device = device_ordinal
        self._block: Block | None = None
        block = allocator.allocate(size, device_ordinal)
        self._block = block
        self.__array_interface__ = block.__array_interface__

    @property
    def address(self) -> int:
        """Where the memory starts."""
        start: int = self.__array_interface__["data"][0]
        return start

    def array(self, t: ArrayType, offset: int = 0) -> Array:
        """The logical array of a type at `offset` of the memory."""
        raw = np.asarray(self)[offset : offset + t.num_bytes]
        return typed(raw, t)

    def release(self) -> None:
        """Gives the memory back now. No array over it may be used any more."""
        block, self._block = self._block, None
        if block is not None:
            self._allocator.deallocate(block, self._device)

    def __del__(self) -> None:
        if not is_finalizing():  # the process is ending: nobody allocates again, and modules are half gone
            self.release()


def typed(raw: Array, t: ArrayType) -> Array:
    """Bytes as the logical array of a type (a view)."""
    order = t.minor_to_major[::-1]
    physical = raw.view(t.dtype).reshape([t.dims[d] for d in order])
    return physical.transpose(np.argsort(order)) if t.dims else physical
