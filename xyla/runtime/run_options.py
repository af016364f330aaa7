"""What one execution is told: its device, its identity, and whom it meets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xyla.runtime.allocator import Allocator
from xyla.runtime.feeds import Feeds
from xyla.runtime.profile import ExecutionProfile
from xyla.runtime.rendezvous import World


@dataclass(frozen=True, slots=True)
class RunOptions:
    """One record for a whole execution on one device.

    device_ordinal: the local device it runs on. run_id: equal for all devices of one launch. rng_seed: 0 leaves the
    choice to the program. world: the devices of the launch, None for a single one; participant: this device's id in
    it. feeds: the device's infeed and outfeed queues; None when the host feeds nothing. allocator: where memory comes
    from; None is the host's own. profile: what the execution reports its times to. on_start: called when the first step
    is about to run: what was donated may be overwritten from then on.
    """

    device_ordinal: int = 0
    run_id: int = 0
    rng_seed: int = 0
    world: World | None = None
    participant: int = 0
    feeds: Feeds | None = None
    allocator: Allocator | None = None
    profile: ExecutionProfile | None = None
    on_start: Callable[[], None] | None = None


DEFAULT_OPTIONS = RunOptions()
