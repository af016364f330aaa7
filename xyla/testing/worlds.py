"""On how many devices a program wants to run, read off its collectives; and arguments that differ by device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from xyla import interp
from xyla.analysis.manual_partitions import logical_partitions
from xyla.hlo.attr_types import ReplicaGroups
from xyla.hlo.module import Instruction, Module
from xyla.hlo.op_def import Trait

Array = np.ndarray[Any, np.dtype[Any]]
# Every device is a thread of the evaluator.
MOST_DEVICES = 16


@dataclass(frozen=True, slots=True)
class Devices:
    """Replicas and partitions of one run; `several`: arguments and results have a leading dimension of devices."""

    replicas: int = 1
    partitions: int = 1

    @property
    def count(self) -> int:
        """All devices."""
        return self.replicas * self.partitions

    @property
    def several(self) -> bool:
        """Whether there is more than one."""
        return self.count > 1

    def arguments(self, make: Callable[[int], list[Array]]) -> list[Array]:
        """`make(seed)` for each device, stacked."""
        if not self.several:
            return make(0)
        return [np.stack(column) for column in zip(*(make(seed) for seed in range(self.count)), strict=True)]

    def run(self, module: Module, args: list[Array]) -> list[Array]:
        """The results of all devices. Raises what the evaluator raises."""
        if not self.several:
            return interp.run(module, args)
        return interp.run(module, args, replicas=self.replicas, partitions=self.partitions)


def worlds(module: Module) -> Iterator[Devices]:
    """What to try, in order: the module's own counts, else one device, else as many as its collectives name."""
    config = module.config
    replicas, partitions = max(config.replica_count, 1), max(config.num_partitions, 1)
    if (logical_partitions(module) or 1) > 1:
        yield Devices()  # its arguments and results are logical: partitions are the evaluator's affair
        return
    own = Devices(replicas, partitions)
    if own.count <= MOST_DEVICES:
        yield own
    collectives = [i for i in module.instructions() if i.op.has(Trait.COLLECTIVE)]
    if own.several or not collectives:
        return
    named = [device for inst in collectives for device in _named(inst)]
    for count in (max(named) + 1,) if named else (2, 4):
        if 1 < count <= MOST_DEVICES:
            yield Devices(count, 1)
            yield Devices(1, count)


def _named(inst: Instruction) -> Iterator[int]:
    groups = getattr(inst.attrs, "replica_groups", None)
    if isinstance(groups, ReplicaGroups):
        for group in groups.groups:
            yield from group
    for pair in getattr(inst.attrs, "source_target_pairs", ()):
        yield from pair
