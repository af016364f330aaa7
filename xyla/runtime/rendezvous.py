"""Devices that run one program side by side, and where they meet.

Every device runs in its own thread. A collective *exchanges*: each member of its group brings a value, waits for the
others, and leaves with all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from xyla.support.status import Status, XylaError, invalid


class World:
    """`replicas` x `partitions` devices; device id = replica * partitions + partition.

    When every live device waits and no meeting is complete, the program disagrees about its collectives: an error, not
    a hang. `timeout`: seconds a device waits for the members of a meeting (None: for ever); past it the launch fails
    with DEADLINE_EXCEEDED and the list of who is missing.
    """

    def __init__(self, replicas: int = 1, partitions: int = 1, timeout: float | None = None) -> None:
        self.replicas, self.partitions = replicas, partitions
        self.size = replicas * partitions
        self.timeout = timeout
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

    def exchange(
        self, key: object, device: int, members: tuple[int, ...], value: Any, what: str = "a collective"
    ) -> dict[int, Any]:
        """Waits until every member arrived under the same key; returns all members' values by device id.

        `what` names the collective in errors. Raises DEADLINE_EXCEEDED after `timeout`, INVALID_ARGUMENT when nobody
        else can arrive, and the error of another device that failed.
        """
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
                self._wait(meeting, device, what)
            return self._collect(meeting, device)

    def _collect(self, meeting: tuple[object, ...], device: int) -> dict[int, Any]:
        values, left = self._done[meeting]
        left.discard(device)
        if not left:
            del self._done[meeting]
        return values

    def _wait(self, meeting: tuple[object, ...], device: int, what: str) -> None:
        self._waiting[device] = meeting
        self._check_progress()
        until = None if self.timeout is None else monotonic() + self.timeout
        while meeting not in self._done:
            if self._failed is not None:
                self._waiting.pop(device, None)
                raise XylaError(self._failed.status, self._failed.message)
            left = None if until is None else until - monotonic()
            if left is not None and left <= 0:
                self._failed = self._missing(meeting, what)
                self._lock.notify_all()
            else:
                self._lock.wait(left)
        self._waiting.pop(device, None)

    def _missing(self, meeting: tuple[object, ...], what: str) -> XylaError:
        members, arrived = meeting[1], self._meetings[meeting]
        assert isinstance(members, tuple)
        absent = [d for d in members if d not in arrived]
        return XylaError(
            Status.DEADLINE_EXCEEDED,
            f"{what}: waited {self.timeout:g} s for {_devices(absent)}; {_devices(sorted(arrived))} arrived",
            hint="every device of the program has to be launched with the same run id",
        )

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

    @property
    def over(self) -> bool:
        """Whether every device has left."""
        with self._lock:
            return not self._live

    def first_cause(self, errors: dict[int, BaseException]) -> BaseException:
        """Of several devices' errors the one that stopped the others."""
        own = [e for _, e in sorted(errors.items()) if e is self._failed]
        return own[0] if own else errors[min(errors)]


def _devices(ids: list[int]) -> str:
    shown = ", ".join(map(str, ids[:16])) + (", ..." if len(ids) > 16 else "")
    return f"device{'' if len(ids) == 1 else 's'} {shown}"


SINGLE = World()


def take_part(world: World, device: int, body: Callable[[], Any]) -> Any:
    """Runs one device's part; the others learn when it ends or fails."""
    error: XylaError | None = None
    try:
        return body()
    except XylaError as e:
        error = e
        raise
    except BaseException as e:  # whatever it was: the other devices must not wait for ever
        error = invalid(f"device {device} stopped: {type(e).__name__}")
        raise
    finally:
        world.leave(device, error)


def run_devices(world: World, body: Callable[[int], Any]) -> list[Any]:
    """Runs `body(device)` on every device of the world at once; results by device. Raises the first device's error."""
    results: list[Any] = [None] * world.size
    errors: dict[int, BaseException] = {}

    def work(device: int) -> None:
        try:
            results[device] = take_part(world, device, lambda: body(device))
        except BaseException as e:  # raised again below, on the caller's thread
            errors[device] = e

    threads = [threading.Thread(target=work, args=(d,), daemon=True) for d in range(world.size)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise world.first_cause(errors)
    return results
