"""Buffers: arrays on a device, perhaps still being computed."""

from __future__ import annotations

from concurrent.futures import Future
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from xyla.support import dtypes
from xyla.support.status import invalid, unimplemented

if TYPE_CHECKING:
    from xyla.clients.client import Device, Memory

Array = npt.NDArray[Any]
_DONATING = Lock()


class _State(Enum):
    LIVE = "live"
    DELETED = "deleted"
    DONATED = "donated"


class Buffer:
    """An immutable array in a memory of a device. Reading it waits until it is ready, and raises what making it raised.

    A buffer is gone once it is deleted or donated to an execution; using it then is INVALID_ARGUMENT. A donation to an
    execution that fails is undone, unless that may have written to the buffer's memory. `borrowed`: its memory is
    somebody else's, who must not write it.
    """

    def __init__(
        self,
        dims: tuple[int, ...],
        dtype: np.dtype[Any],
        memory: Memory,
        future: Future[Array],
        *,
        borrowed: bool = False,
    ) -> None:
        self.dims = dims
        self.dtype = dtype
        self.memory = memory
        self._future = future
        self._state = _State.LIVE
        self._private = not borrowed
        self._copies: list[Future[Array]] = []  # those that may still read it, on other streams

    @classmethod
    def of(cls, array: Array, memory: Memory, *, borrowed: bool = False) -> Buffer:
        """A buffer that is ready. Raises INVALID_ARGUMENT for a dtype that no XLA element type is stored as."""
        try:
            dtypes.by_numpy(array.dtype)
        except KeyError:
            raise invalid(f"no XLA element type is stored as NumPy dtype {array.dtype}") from None
        future: Future[Array] = Future()
        future.set_result(array)
        return cls(array.shape, array.dtype, memory, future, borrowed=borrowed)

    @property
    def device(self) -> Device:
        """The device whose memory it is in."""
        return self.memory.device

    @property
    def on_device_size_in_bytes(self) -> int:
        """Its size in memory."""
        return int(np.prod(self.dims, dtype=object)) * self.dtype.itemsize

    # -- reading -----------------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """Whether its value is there (or is known never to be)."""
        self.check_usable()
        return self._future.done()

    def ready_future(self) -> Future[Array]:
        """The future of its array, for callbacks; the array must not be written."""
        self.check_usable()
        return self._future

    def block_until_ready(self) -> Buffer:
        """Waits for the value; returns the buffer. Raises what the execution that makes it raised."""
        self.array()
        return self

    def array(self) -> Array:
        """The array itself, for executions: waits for it."""
        self.check_usable()
        return self._future.result()

    def to_numpy(self) -> Array:
        """A read-only array over the buffer's own memory, without a copy. It may outlive the buffer.

        Memory that was handed out so is not written again: donating the buffer afterwards costs a copy.
        """
        view = self.array().view()
        view.flags.writeable = False
        self._private = False
        return view

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        view = self.to_numpy()
        return np.array(view, dtype, copy=copy) if copy or dtype is not None else view

    def __dlpack__(self, **options: Any) -> Any:
        self._private = False
        try:
            return self.array().__dlpack__(**options)
        except BufferError as error:
            raise unimplemented(f"DLPack of {self.dtype}: {error}") from None

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        dims = ",".join(map(str, self.dims))
        return f"Buffer({dtypes.by_numpy(self.dtype)}[{dims}], {self.memory}, {self._state.value})"

    # -- its life ----------------------------------------------------------------------------------------------

    def copy_to_device(self, place: Device | Memory) -> Buffer:
        """A copy in another device's memory (or another memory); it is made on that device's stream."""
        self.check_usable()
        memory = place.as_memory()
        source = self._future
        copied = memory.device.stream.submit(lambda: source.result().copy())
        self._copies = [c for c in self._copies if not c.done()] + [copied]
        return Buffer(self.dims, self.dtype, memory, copied)

    def delete(self) -> None:
        """Gives the memory up; deleting again does nothing."""
        if self._state is _State.LIVE:
            self._state = _State.DELETED
            self._future = Future()

    def is_deleted(self) -> bool:
        """Whether it was deleted or donated."""
        return self._state is not _State.LIVE

    def check_usable(self) -> None:
        """Raises INVALID_ARGUMENT when it was deleted or donated."""
        if self._state is not _State.LIVE:
            raise invalid(f"the buffer has been {self._state.value}")

    @property
    def is_private(self) -> bool:
        """Whether nobody else sees its memory, so that an execution may write there."""
        return self._private and all(c.done() for c in self._copies)

    def donate(self) -> Donation:
        """Hands the memory to an execution: to one, whoever else tries at the same time."""
        with _DONATING:
            self.check_usable()
            self._state = _State.DONATED
        return Donation(self, self._future)

    def take_back(self, future: Future[Array]) -> None:
        """Undoes a donation."""
        self._state, self._future = _State.LIVE, future


class Donation:
    """A buffer's memory on its way into an execution."""

    def __init__(self, buffer: Buffer, future: Future[Array]) -> None:
        self._buffer = buffer
        self._future = future
        self._is_given = False

    def array(self) -> Array:
        """The array, writable: a copy when somebody else can see the buffer's own."""
        array = self._future.result()
        self._is_given = self._buffer.is_private and array.flags.writeable
        return array if self._is_given else array.copy()

    def undo(self, *, started: bool) -> None:
        """After an execution that failed: the buffer is as it was, unless steps ran that may have written to it."""
        if not (started and self._is_given):
            self._buffer.take_back(self._future)
