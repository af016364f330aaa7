"""Streams: queues of work that a device does in order, on a thread of their own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Stream:
    """One queue. Work is done in the order of `submit`; the thread starts with the first piece."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Queues `work`; the future is its event: done when everything up to it is."""
        return self._thread.submit(work)

    def synchronize(self) -> None:
        """Waits until everything queued so far is done."""
        self.submit(lambda: None).result()
