"""Keeping executions out while something is measured: many runs at once, or one measurement alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock
from time import sleep


class Gate:
    """Runs pass together; `paused` waits until none is inside and holds back those that come.

    A run appends to `running`, then looks at `closed`; whoever closes sets `closed`, then looks at `running`. Both are
    single operations under the interpreter lock, so one of the two sees the other, and a run pays 0.1 us.
    """

    def __init__(self) -> None:
        self.running: list[None] = []
        self.closed = False
        self._open = Event()
        self._open.set()
        self._one = Lock()

    def enter(self) -> None:
        """Waits while the gate is closed; then counts as running until `running.pop()`."""
        while True:
            self.running.append(None)
            if not self.closed:
                return
            self.running.pop()
            self._open.wait()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No execution of this process runs inside the block, which must not run any itself."""
        with self._one:
            self._open.clear()
            self.closed = True
            try:
                while self.running:
                    sleep(0.0002)
                yield
            finally:
                self.closed = False
                self._open.set()


EXECUTIONS = Gate()
