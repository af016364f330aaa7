"""What surrounds a program: the other simulated devices, and the host's feeds."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from xyla.support.status import XylaError, invalid


class Host:
    """The host side of one device: values to feed in, values fed out (in order)."""

    def __init__(self, infeed: Sequence[Any] = ()) -> None:
        self.infeed: deque[Any] = deque(infeed)
        self.outfeed: list[Any] = []


class World:
    """`replicas` x `partitions` devices; device id = replica * partitions + partition.

    Each device runs in its own thread and meets the others in `exchange`. When every live device waits and no meeting
    is complete, the program disagrees about its collectives: an error, not a hang.
    """

    def __init__(self, replicas: int = 1, partitions: int = 1) -> None:
        self.replicas, self.partitions = replicas, partitions
        self.size = replicas * partitions
        self._lock = threading.Condition()
        self._meetings: dict[tuple[object, ...], dict[int, Any]] = {}
        self._done: dict[tuple[object, ...], tuple[dict[int, Any], set[int]]] = {}
        self._rounds: dict[tuple[object, ...], int] = {}
        self._waiting: dict[int, tuple[object, ...]] = {}
        self._live = set(range(self.size))
        self._failed: XylaError | None = None

    def replica(self, device: int) -> int:
        """The replica a device belongs to."""
        return device // self.partitions

    def partition(self, device: int) -> int:
        """The partition a device belongs to."""
        return device % self.partitions

    def exchange(self, key: object, device: int, members: tuple[int, ...], value: Any) -> dict[int, Any]:
        """Waits until every member arrived under the same key; returns all members' values by device id."""
        if len(members) == 1:
            return {device: value}
        with self._lock:
            count = self._rounds.get((device, key, members), 0)
            self._rounds[(device, key, members)] = count + 1
            meeting: tuple[object, ...] = (key, members, count)
            arrived = self._meetings.setdefault(meeting, {})
            arrived[device] = value
            if len(arrived) == len(members):
                self._done[meeting] = (arrived, set(members))
                del self._meetings[meeting]
                self._lock.notify_all()
            else:
                self._wait(meeting, device)
            return self._collect(meeting, device)

    def _collect(self, meeting: tuple[object, ...], device: int) -> dict[int, Any]:
        values, left = self._done[meeting]
        left.discard(device)
        if not left:
            del self._done[meeting]
        return values

    def _wait(self, meeting: tuple[object, ...], device: int) -> None:
        self._waiting[device] = meeting
        self._check_progress()
        while meeting not in self._done:
            if self._failed is not None:
                self._waiting.pop(device, None)
                raise XylaError(self._failed.status, self._failed.message)
            self._lock.wait()
        self._waiting.pop(device, None)

    def _check_progress(self) -> None:
        if (
            self._failed is None
            and self._waiting
            and all(d in self._waiting and self._waiting[d] not in self._done for d in self._live)
        ):
            self._failed = invalid(
                f"devices disagree on their collectives: {sorted(self._waiting)} wait and nobody else can arrive"
            )
            self._lock.notify_all()

    def leave(self, device: int, error: XylaError | None) -> None:
        """Says that a device has finished, or failed with `error` (which then stops the others)."""
        with self._lock:
            self._live.discard(device)
            if error is not None and self._failed is None:
                self._failed = error
            self._check_progress()
            self._lock.notify_all()


SINGLE = World()


def run_devices(world: World, body: Callable[[int], Any]) -> list[Any]:
    """Runs `body(device)` on every device of the world at once; results by device. Raises the first device's error."""
    results: list[Any] = [None] * world.size
    errors: dict[int, BaseException] = {}

    def work(device: int) -> None:
        error: XylaError | None = None
        try:
            results[device] = body(device)
        except XylaError as e:
            errors[device] = error = e
        except BaseException as e:  # whatever it was: the other devices must not wait for ever
            errors[device] = e
            error = invalid(f"device {device} stopped: {type(e).__name__}")
        finally:
            world.leave(device, error)

    threads = [threading.Thread(target=work, args=(d,), daemon=True) for d in range(world.size)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[_first_cause(errors, world)]
    return results


def _first_cause(errors: dict[int, BaseException], world: World) -> int:
    """The device whose own error it was; the others only report that it failed."""
    failed = world._failed
    for device in sorted(errors):
        if errors[device] is failed:
            return device
    return min(errors)
