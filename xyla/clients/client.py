"""The client: devices, their memories, compiled programs on them. The vocabulary is PJRT's.

    client = xyla.Client()
    program = client.compile(text)
    (y,) = program.execute([client.buffer_from_host(x)])
    y.to_numpy()

Executing returns at once: a device works through its stream, and a buffer is ready when what makes it is done. An
error of an execution is raised by whoever reads one of its results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.clients.buffer import Buffer
from xyla.clients.devices import for_devices
from xyla.clients.loaded_executable import LoadedExecutable
from xyla.compiler.driver import Compilation
from xyla.hlo.module import Module
from xyla.runtime.feeds import Feeds
from xyla.runtime.streams import Stream
from xyla.support import flags
from xyla.support.status import invalid

# How long a program or the host waits for what the other side feeds, in seconds.
FEED_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """A memory space of a device. kind: "device" or "unpinned_host" (on the host both are its main memory)."""

    device: Device
    kind: str

    def as_memory(self) -> Memory:
        """Itself: a place may be given as a memory or as a device."""
        return self

    def __repr__(self) -> str:
        return f"Memory({self.kind}, device {self.device.id})"


class Device:
    """One host device: its memories, its stream, its feeds."""

    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.id = number
        self.kind = "cpu"
        self.default_memory = Memory(self, "device")
        self.memories = (self.default_memory, Memory(self, "unpinned_host"))
        self.stream = Stream(f"xyla-device-{number}")
        self.feeds = Feeds(timeout=FEED_TIMEOUT)

    def as_memory(self) -> Memory:
        """The memory that is meant where a device is given as a place."""
        return self.default_memory

    def memory(self, kind: str) -> Memory:
        """The memory of a kind. Raises INVALID_ARGUMENT for an unknown one."""
        for memory in self.memories:
            if memory.kind == kind:
                return memory
        known = ", ".join(m.kind for m in self.memories)
        raise invalid(f"device {self.id} has no memory {kind!r}", hint=f"one of {known}")

    def transfer_to_infeed(self, value: Any) -> None:
        """Feeds an array, or a (nested) tuple of arrays, to the device's next infeed."""
        self.feeds.put_infeed(_as_arrays(value))

    def transfer_from_outfeed(self) -> Any:
        """Takes what the device fed out first. Raises DEADLINE_EXCEEDED when nothing comes within a minute."""
        return self.feeds.take_outfeed()

    def synchronize(self) -> None:
        """Waits until the device has done all it was given."""
        self.stream.synchronize()

    def __repr__(self) -> str:
        return f"Device(cpu:{self.id})"


def _as_arrays(value: Any) -> Any:
    return tuple(map(_as_arrays, value)) if isinstance(value, tuple) else np.asarray(value)


@dataclass(frozen=True, slots=True)
class DeviceAssignment:
    """Which device each participant runs on: `device_ids[replica][partition]`."""

    device_ids: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        ids = list(self)
        if not ids or len({len(row) for row in self.device_ids}) != 1:
            raise invalid("a device assignment needs a row a replica, all with as many partitions")
        if len(set(ids)) != len(ids):
            raise invalid(f"a device assignment names a device twice: {ids}")

    @property
    def replicas(self) -> int:
        """How many replicas."""
        return len(self.device_ids)

    @property
    def partitions(self) -> int:
        """How many partitions each replica has."""
        return len(self.device_ids[0])

    def __iter__(self) -> Iterator[int]:
        """Device ids by participant (replica * partitions + partition)."""
        return (device for row in self.device_ids for device in row)


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to compile. Counts and assignment of None: what the program says, on the first devices.

    passes, fp: as in `xyla.compile`.
    """

    num_replicas: int | None = None
    num_partitions: int | None = None
    device_assignment: DeviceAssignment | None = None
    passes: str = "default"
    fp: str = "default"


class Client:
    """The host and its devices: as many as `device_count`, or as --xla_force_host_platform_device_count says."""

    platform = "cpu"
    process_index = 0

    def __init__(self, device_count: int | None = None) -> None:
        wanted = flags.current().xla_force_host_platform_device_count if device_count is None else device_count
        if wanted < 1:
            raise invalid(f"a client needs at least one device, not {wanted}")
        self.devices = tuple(Device(self, i) for i in range(wanted))
        self._run_ids = count(1)
        self.launching = Lock()

    def device(self, number: int) -> Device:
        """The device with an id. Raises INVALID_ARGUMENT for an unknown one."""
        if not 0 <= number < len(self.devices):
            raise invalid(f"there is no device {number}: the client has {len(self.devices)}")
        return self.devices[number]

    def next_run_id(self) -> int:
        """An id for one launch of one program on its devices."""
        return next(self._run_ids)

    def default_device_assignment(self, replicas: int = 1, partitions: int = 1) -> DeviceAssignment:
        """The first devices, in order. Raises INVALID_ARGUMENT when there are too few."""
        if replicas * partitions > len(self.devices):
            raise invalid(
                f"{replicas} replicas x {partitions} partitions need {replicas * partitions} devices; "
                f"there are {len(self.devices)}",
                hint=f"XLA_FLAGS=--xla_force_host_platform_device_count={replicas * partitions}",
            )
        ids = iter(range(replicas * partitions))
        return DeviceAssignment(tuple(tuple(next(ids) for _ in range(partitions)) for _ in range(replicas)))

    def buffer_from_host(self, array: npt.ArrayLike, device: Device | Memory | None = None) -> Buffer:
        """A buffer that holds a copy of an array (so the caller may change the array)."""
        try:
            copied = np.array(array, copy=True, order="C")
        except ValueError as error:
            raise invalid(f"cannot take a {type(array).__name__} as an array: {error}") from None
        return Buffer.of(copied, self._memory(device))

    def buffer_from_view(self, array: npt.NDArray[Any], device: Device | Memory | None = None) -> Buffer:
        """A buffer over the array's own memory: the caller must not change it while the buffer lives.

        Such a buffer is never written, also when it is donated.
        """
        return Buffer.of(np.asarray(array), self._memory(device), borrowed=True)

    def buffer_from_dlpack(self, source: Any, device: Device | Memory | None = None) -> Buffer:
        """A buffer over the memory of another library's array (DLPack, host memory), as `buffer_from_view`."""
        try:
            return self.buffer_from_view(np.from_dlpack(source), device)
        except (BufferError, TypeError, AttributeError) as error:
            raise invalid(f"cannot take a {type(source).__name__} by DLPack: {error}") from None

    def compile(self, program: Any, options: CompileOptions | None = None) -> LoadedExecutable:
        """Compiles a program (module, text, path) for devices of this client.

        Raises INVALID_ARGUMENT for a malformed program, or when there are too few devices.
        """
        from xyla.clients.api import as_module, compiler_options

        options = options or CompileOptions()
        module: Module = as_module(program)
        assignment = self._assignment(module, options)
        module = for_devices(module, assignment.replicas, assignment.partitions)
        compilation = Compilation(module, compiler_options(options.passes, options.fp))
        devices = [self.device(i) for i in assignment]
        return LoadedExecutable(self, compilation, devices, assignment.replicas, assignment.partitions)

    def _memory(self, place: Device | Memory | None) -> Memory:
        return (place or self.devices[0]).as_memory()

    def _assignment(self, module: Module, options: CompileOptions) -> DeviceAssignment:
        replicas = options.num_replicas or max(module.config.replica_count, 1)
        partitions = options.num_partitions or max(module.config.num_partitions, 1)
        chosen = options.device_assignment or self.default_device_assignment(replicas, partitions)
        if (chosen.replicas, chosen.partitions) != (replicas, partitions):
            raise invalid(
                f"the device assignment has {chosen.replicas} replicas x {chosen.partitions} partitions, "
                f"the program {replicas} x {partitions}"
            )
        return chosen
