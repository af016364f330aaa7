"""Launching one executable on several devices at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from xyla.runtime.feeds import Feeds
from xyla.runtime.rendezvous import World, run_devices
from xyla.runtime.run_options import RunOptions

if TYPE_CHECKING:
    from xyla.runtime.executable import Executable

Array = npt.NDArray[Any]
_RUN_IDS = count(1)


def launch(
    executable: Executable,
    args: Sequence[Sequence[npt.ArrayLike]],
    world: World,
    feeds: Sequence[Feeds] | None = None,
) -> list[list[Array]]:
    """Runs on every device of `world`, a thread each; arguments, feeds and results are by device id.

    Raises the error of the device that failed first; the others are stopped at their next collective.
    """
    run_id = next(_RUN_IDS)

    def body(device: int) -> list[Array]:
        options = RunOptions(device, run_id, 0, world, device, feeds[device] if feeds else None)
        return executable.execute(args[device], options)

    return run_devices(world, body)
