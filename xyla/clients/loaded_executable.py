"""Executables on devices: asynchronous executions over buffers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from xyla.clients.buffer import Buffer, Donation
from xyla.compiler.driver import Compilation
from xyla.hlo.module import Module
from xyla.runtime.executable import Executable
from xyla.runtime.program import AllocationKind
from xyla.runtime.rendezvous import World, take_part
from xyla.runtime.run_options import RunOptions
from xyla.support import flags
from xyla.support.status import invalid

if TYPE_CHECKING:
    from xyla.clients.client import Client, Device

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class CompiledMemoryStats:
    """Bytes that one device needs. alias_size: of outputs that lie in donated arguments (counted in both)."""

    generated_code_size: int
    argument_size: int
    output_size: int
    alias_size: int
    temp_size: int


class LoadedExecutable:
    """A compiled program on its devices. Every execution returns at once, with buffers that become ready.

    optimized_module: the HLO that the program was lowered from.
    """

    def __init__(
        self, client: Client, compilation: Compilation, devices: Sequence[Device], replicas: int, partitions: int
    ) -> None:
        self.optimized_module: Module = compilation.optimised
        self.client = client
        self.devices = tuple(devices)
        self.replicas, self.partitions = replicas, partitions
        self._executable: Executable | None = compilation.executable
        self._worlds: dict[int, World] = {}
        self._lock = Lock()

    # -- executing ---------------------------------------------------------------------------------------------

    def execute(self, args: Sequence[Sequence[Buffer]], *, non_donatable: Collection[int] = ()) -> list[list[Buffer]]:
        """Runs on all devices: arguments and results by participant (replica * partitions + partition).

        Arguments whose memory the program's aliasing lets it use are donated, but for those of `non_donatable`
        (positions). Raises INVALID_ARGUMENT for a wrong count, type or device, and for a buffer that is gone.
        """
        if len(args) != len(self.devices):
            raise invalid(f"the program runs on {len(self.devices)} devices, arguments for {len(args)} given")
        kept = frozenset(non_donatable)
        for device, buffers in zip(self.devices, args, strict=True):
            self._check(device, buffers, kept)
        # One launch after the other on all devices: else two could wait for each other's parts in their collectives.
        with self.client.launching:
            run_id = self.client.next_run_id()
            return [self._start(i, buffers, run_id, kept) for i, buffers in enumerate(args)]

    def execute_sharded(
        self, args: Sequence[Buffer], device: Device, run_id: int | None = None, *, non_donatable: Collection[int] = ()
    ) -> list[Buffer]:
        """Runs one device's part. Devices that are to meet in collectives have to be given the same `run_id`.

        Raises as `execute`; a participant that is never launched lets the others fail with DEADLINE_EXCEEDED.
        """
        if device not in self.devices:
            raise invalid(f"the program was not compiled for device {device.id}")
        kept = frozenset(non_donatable)
        self._check(device, args, kept)
        identity = self.client.next_run_id() if run_id is None else run_id
        return self._start(self.devices.index(device), args, identity, kept)

    def __call__(self, *arrays: npt.ArrayLike) -> list[Array]:
        """Runs on arrays, on a program's only device; waits and returns arrays."""
        if len(self.devices) != 1:
            raise invalid(f"the program runs on {len(self.devices)} devices: use execute")
        (results,) = self.execute([[self.client.buffer_from_host(a, self.devices[0]) for a in arrays]])
        return [r.to_numpy() for r in results]

    def _start(self, participant: int, buffers: Sequence[Buffer], run_id: int, kept: frozenset[int]) -> list[Buffer]:
        device, executable = self.devices[participant], self._loaded()
        donations = {i: b.donate() for i, b in enumerate(buffers) if i in self.donatable - kept}
        given: list[Callable[[], Array]] = [
            donations[i].array if i in donations else b.ready_future().result for i, b in enumerate(buffers)
        ]
        world = self._world(run_id)
        options = RunOptions(device.id, run_id, 0, world, participant, device.feeds)
        run = partial(_run, executable, given, options, donations)
        done = device.stream.submit(run)
        done.add_done_callback(lambda _: self._forget(run_id, world))
        memory = device.default_memory
        return [
            Buffer(o.type.dims, o.type.dtype, memory, _part(done, i)) for i, o in enumerate(executable.program.outputs)
        ]

    def _world(self, run_id: int) -> World:
        timeout = flags.current().xla_cpu_collective_call_terminate_timeout_seconds
        with self._lock:
            return self._worlds.setdefault(run_id, World(self.replicas, self.partitions, timeout))

    def _forget(self, run_id: int, world: World) -> None:
        if world.over:
            with self._lock:
                self._worlds.pop(run_id, None)

    def _check(self, device: Device, buffers: Sequence[Buffer], kept: frozenset[int]) -> None:
        wanted = self._loaded().program.arguments
        if len(buffers) != len(wanted):
            raise invalid(f"the program takes {len(wanted)} arguments, {len(buffers)} given")
        donated = {id(b) for i, b in enumerate(buffers) if i in self.donatable - kept}
        for want, buffer in zip(wanted, buffers, strict=True):
            if not isinstance(buffer, Buffer):
                raise invalid(f"{want.name} is a {type(buffer).__name__}, expected a buffer of {want.type_text}")
            if id(buffer) in donated and sum(buffer is b for b in buffers) > 1:
                raise invalid(f"{want.name} is a buffer that is donated, and passed more than once")
            buffer.check_usable()
            if (buffer.dtype, buffer.dims) != (want.type.dtype, want.type.dims):
                raise invalid(f"{want.name} is {buffer}, expected {want.type_text}")
            if buffer.device is not device:
                raise invalid(f"{want.name} is on device {buffer.device.id}, the program runs on {device.id}")

    # -- what it is --------------------------------------------------------------------------------------------

    @cached_property
    def donatable(self) -> frozenset[int]:
        """Positions of the arguments that an output may lie in."""
        program = self._loaded().program
        aliased = (program.allocations[o.slice.allocation] for o in program.outputs)
        return frozenset(a.index for a in aliased if a.kind is AllocationKind.PARAMETER)

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal programs: a hash of the optimised module and the device counts."""
        text = f"{self.replicas} {self.partitions} {self.optimized_module}"
        return hashlib.sha256(text.encode()).hexdigest()

    def memory_analysis(self) -> CompiledMemoryStats:
        """What one device needs."""
        executable = self._loaded()
        program = executable.program
        sizes = dict.fromkeys(AllocationKind, 0)
        for allocation in program.allocations:
            sizes[allocation.kind] += allocation.size
        outputs = sum(o.slice.size for o in program.outputs)
        aliased = outputs - sizes[AllocationKind.OUTPUT]
        return CompiledMemoryStats(
            executable.generated_code_bytes,
            sizes[AllocationKind.PARAMETER],
            outputs,
            aliased,
            sizes[AllocationKind.TEMP],
        )

    def delete(self) -> None:
        """Unloads it once running executions are done; executing it afterwards is INVALID_ARGUMENT."""
        self._executable = None

    def is_deleted(self) -> bool:
        """Whether it was deleted."""
        return self._executable is None

    def _loaded(self) -> Executable:
        if self._executable is None:
            raise invalid("the executable has been deleted")
        return self._executable


def _run(
    executable: Executable,
    given: Sequence[Callable[[], Array]],
    options: RunOptions,
    donations: dict[int, Donation],
) -> list[Array]:
    """One execution, on the device's own thread."""
    world, participant = options.world, options.participant
    assert world is not None
    started = Event()
    options = replace(options, on_start=started.set)

    def part() -> list[Array]:
        return executable.execute([g() for g in given], options, donate=frozenset(donations))

    try:
        results: list[Array] = take_part(world, participant, part)
    except BaseException:  # whatever it was: the buffers are given back
        for donation in donations.values():
            donation.undo(started=started.is_set())
        raise
    return results


def _part(whole: Future[list[Array]], index: int) -> Future[Array]:
    """The future of one element of a future list."""
    part: Future[Array] = Future()

    def done(finished: Future[list[Array]]) -> None:
        error = finished.exception()
        if error is not None:
            part.set_exception(error)
        else:
            part.set_result(finished.result()[index])

    whole.add_done_callback(done)
    return part
