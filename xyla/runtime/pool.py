"""The process's worker threads: parked inside native code, they cost no Python and hold no lock of it."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
from functools import cache

import numpy as np

from xyla.runtime import pool_ir
from xyla.runtime.objects import Kernel, default_store
from xyla.support.status import internal


@cache
def host_threads() -> int:
    """Cores this process may use, or what XYLA_THREADS says: how many parts big kernels are cut into."""
    told = os.environ.get("XYLA_THREADS", "")
    return max(int(told), 1) if told.isdigit() else len(os.sched_getaffinity(0))


class Pool:
    """The memory that callers and workers share (see `pool_ir`), and the workers."""

    def __init__(self, workers: int, code: Kernel) -> None:
        """Starts the workers; `code` is the worker's start routine."""
        self._code = code
        raw = np.zeros(pool_ir.POOL_BYTES + 64, np.uint8)
        start = -raw.ctypes.data % 64
        self._memory = raw[start : start + pool_ir.POOL_BYTES]
        self.address = int(self._memory.ctypes.data)
        self._owner = os.getpid()
        self._threads = [self._start() for _ in range(workers)]
        self._word(pool_ir.WORKERS)[0] = workers

    def stop(self) -> None:
        """Ends the workers and waits for them; later jobs are done by their callers."""
        if os.getpid() != self._owner:
            return
        threads, self._threads = self._threads, []
        self._word(pool_ir.WORKERS)[0] = 0
        self._word(pool_ir.STOP)[0] = 1
        self._word(pool_ir.EPOCH)[0] += 1
        libc = ctypes.CDLL(None)
        epoch = ctypes.c_void_p(self.address + pool_ir.EPOCH)
        libc.syscall(pool_ir.futex_number(), epoch, 129, len(threads), None, None, 0)
        for thread in threads:
            libc.pthread_join(thread, None)

    def _word(self, offset: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return self._memory[offset : offset + 4].view(np.int32)

    def _start(self) -> ctypes.c_ulong:
        """One thread. It takes no signals: Python's handlers want the main thread woken."""
        thread = ctypes.c_ulong()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            start, pool = ctypes.c_void_p(self._code.address), ctypes.c_void_p(self.address)
            status = ctypes.CDLL(None).pthread_create(ctypes.byref(thread), None, start, pool)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if status:
            raise internal(f"no worker thread: {os.strerror(status)}")
        return thread


@cache
def shared_pool() -> Pool:
    """The process's pool. In a forked child it has no workers left, so callers do everything themselves."""
    (code,) = default_store().load([pool_ir.worker_source()])
    pool = Pool(host_threads() - 1 if pool_ir.can_share() else 0, code)
    atexit.register(pool.stop)
    return pool
