"""One program on several host devices, on logical NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.analysis.manual_partitions import logical_partitions
from xyla.hlo import rewriter
from xyla.hlo.module import Module
from xyla.hlo.op_def import Trait
from xyla.runtime.executable import Executable
from xyla.runtime.feeds import Feeds
from xyla.runtime.launch import launch
from xyla.runtime.rendezvous import World
from xyla.support import flags
from xyla.support.status import Status, XylaError

Array = npt.NDArray[Any]
# A device is a thread; beyond this a launch would exhaust the machine rather than answer.
MAX_DEVICES = 256


class Job:
    """A program, the devices it runs on and what the host feeds them.

    replicas, partitions: as in `xyla.run`; a program of logical arrays (`analysis.manual_partitions`) takes and returns
    those, whatever its partition count. `module` is the program for these counts.
    """

    def __init__(
        self, module: Module, replicas: int | None = None, partitions: int | None = None, infeed: Sequence[Any] = ()
    ) -> None:
        self._logical = None if partitions else logical_partitions(module)
        self._replicas = replicas or max(module.config.replica_count, 1)
        self._partitions = partitions or self._logical or max(module.config.num_partitions, 1)
        self.size = self._replicas * self._partitions
        if self.size > MAX_DEVICES:
            raise XylaError(Status.RESOURCE_EXHAUSTED, f"{self.size} host devices; the limit is {MAX_DEVICES}")
        self.module = for_devices(module, self._replicas, self._partitions)
        self.feeds = [Feeds(infeed) for _ in range(self.size)]

    @property
    def plain(self) -> bool:
        """Whether one device runs it and the host has no part in it."""
        return self.size == 1 and not any(
            i.op.has(Trait.COLLECTIVE) or i.op.has(Trait.SIDE_EFFECT) for i in self.module.instructions()
        )

    def run(self, executable: Executable, args: Sequence[npt.ArrayLike]) -> list[Array]:
        """Runs an executable of `module`: arrays with a leading device dimension where there are several devices."""
        from xyla.interp.arguments import bind_leaves

        timeout = flags.current().xla_cpu_collective_call_terminate_timeout_seconds
        world = World(self._replicas, self._partitions, timeout)
        results = launch(executable, bind_leaves(self.module, args, self.size), world, self.feeds)
        if self._logical is not None:
            results = results[:: self._partitions]  # every partition holds the logical results
        if len(results) == 1:
            return results[0]
        return [np.stack(column) for column in zip(*results, strict=True)]


def for_devices(module: Module, replicas: int, partitions: int) -> Module:
    """The module with these counts in its configuration: passes rely on them."""
    config = module.config
    if (max(config.replica_count, 1), max(config.num_partitions, 1)) == (replicas, partitions):
        return module
    copy = rewriter.clone_module(module)
    copy.config = replace(copy.config, replica_count=replicas, num_partitions=partitions)
    return copy
