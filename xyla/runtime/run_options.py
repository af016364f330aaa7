"""What one execution is told: its device, its identity, and what handlers may share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RunOptions:
    """One record for a whole execution.

    device_ordinal: the local device. run_id: equal for all devices of one launch. rng_seed: 0 leaves the choice to the
    program. replica, partition: logical ids of this participant. services: what the client offers handlers, by name
    (the rendezvous of collectives, infeed and outfeed queues).
    """

    device_ordinal: int = 0
    run_id: int = 0
    rng_seed: int = 0
    replica: int = 0
    partition: int = 0
    services: Mapping[str, Any] = field(default_factory=dict)


DEFAULT_OPTIONS = RunOptions()
