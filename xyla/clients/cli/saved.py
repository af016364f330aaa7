"""Saved executables as the command line reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xyla.hlo.shape import Shape
from xyla.runtime.aot import MAGIC, is_saved
from xyla.runtime.dynamic import DynamicExecutable
from xyla.runtime.executable import Executable
from xyla.runtime.launch import launch
from xyla.runtime.program import CustomCallStep, all_steps
from xyla.runtime.rendezvous import World
from xyla.support import flags
from xyla.support.dtypes import by_numpy

Array = np.ndarray[Any, np.dtype[Any]]


def is_saved_file(file: str) -> bool:
    """Whether a file is an executable that xyla saved, whole or damaged."""
    path = Path(file)
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return path.suffix == ".xyla" or is_saved(stream.read(len(MAGIC)))


def parameter_shapes(executable: Executable) -> list[Shape]:
    """The shapes of an executable's arguments, one a leaf; the bounds of dynamic ones."""
    arguments = executable.program.arguments
    if isinstance(executable, DynamicExecutable):
        arguments = arguments[: len(executable.interface.arguments)]
    return [Shape.array(by_numpy(a.type.dtype), a.type.dims) for a in arguments]


def call_of(executable: Executable) -> Callable[[Sequence[Array]], Sequence[Array]]:
    """What runs an executable on all its devices: arrays with a leading device dimension where there are several."""
    devices = executable.devices
    count = devices.replicas * devices.partitions
    if count == 1 and not any(isinstance(step, CustomCallStep) for step in all_steps(executable.program)):
        return lambda args: executable(*args)
    ranks = [len(shape.dims) for shape in parameter_shapes(executable)]

    def call(args: Sequence[Array]) -> Sequence[Array]:
        timeout = flags.current().xla_cpu_collective_call_terminate_timeout_seconds
        world = World(devices.replicas, devices.partitions, timeout)
        given = [
            [_part(np.asarray(a), i, count, rank) for a, rank in zip(args, ranks, strict=True)] for i in range(count)
        ]
        results = launch(executable, given, world)
        if devices.is_logical:
            results = results[:: devices.partitions]  # every partition holds the logical results
        if len(results) == 1:
            return results[0]
        return [np.stack(column) for column in zip(*results, strict=True)]

    return call


def _part(array: Array, device: int, count: int, rank: int) -> Array:
    """A device's share: an array without the device dimension is the same for all."""
    return array[device] if count > 1 and array.ndim == rank + 1 and len(array) == count else array
