"""What the host feeds a device and takes from it: the queues behind infeed, outfeed and host transfers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from threading import Condition
from typing import Any

from xyla.support.status import Status, XylaError, invalid


class Feeds:
    """One device's two queues of values (arrays, or nested tuples of them), first in, first out.

    `timeout`: seconds that a taker waits for a value; 0 is for hosts that feed everything beforehand.
    """

    def __init__(self, infeed: Iterable[Any] = (), timeout: float = 0.0) -> None:
        self.infeed: deque[Any] = deque(infeed)
        self.outfeed: deque[Any] = deque()
        self.timeout = timeout
        self._changed = Condition()

    def put_infeed(self, value: Any) -> None:
        """The host feeds a value."""
        with self._changed:
            self.infeed.append(value)
            self._changed.notify_all()

    def put_outfeed(self, value: Any) -> None:
        """The program gives a value out."""
        with self._changed:
            self.outfeed.append(value)
            self._changed.notify_all()

    def take_infeed(self, what: str) -> Any:
        """The program takes the next value. `what` names the instruction in errors.

        Raises INVALID_ARGUMENT when nothing was fed and nobody is waited for, DEADLINE_EXCEEDED after the timeout.
        """
        return self._take(self.infeed, f"{what}: the host has fed nothing more")

    def take_outfeed(self) -> Any:
        """The host takes the next value; raises as `take_infeed`."""
        return self._take(self.outfeed, "the program has given out nothing more")

    def _take(self, queue: deque[Any], message: str) -> Any:
        with self._changed:
            if self._changed.wait_for(lambda: bool(queue), self.timeout):
                return queue.popleft()
        if self.timeout == 0:
            raise invalid(message)
        raise XylaError(Status.DEADLINE_EXCEEDED, f"{message} (waited {self.timeout:g} s)")
