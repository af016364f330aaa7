"""The threads that kernels and library calls share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from os import sched_getaffinity


@cache
def host_threads() -> int:
    """Cores this process may use."""
    return len(sched_getaffinity(0))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(host_threads() - 1, 1), thread_name_prefix="xyla-kernel")


def run_parts(parts: Sequence[Callable[[], None]]) -> None:
    """Runs every part, the first on the calling thread, and waits for all. The parts must not hold the GIL for long."""
    others = [_pool().submit(part) for part in parts[1:]]
    parts[0]()
    for other in others:
        other.result()
