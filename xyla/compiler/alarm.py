"""Says when something takes so long that it may look like a hang. XLA: SlowOperationAlarm."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

SLOW_SECONDS = 120.0


@contextmanager
def slow_operation(what: str, seconds: float = SLOW_SECONDS) -> Iterator[None]:
    """Logs one warning when the block takes longer than `seconds`, while it still runs."""
    text = f"{what} takes more than {seconds:g} s; `--time-passes` and `--dump-to` show where it is"
    timer = Timer(seconds, logging.getLogger("xyla").warning, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
