"""BLAS through the function pointers that SciPy publishes (scipy.linalg.cython_blas), loaded on first use.

BLAS' own threads spin while they wait, which costs a hundred times the work when the machine is busy. So each call runs
on one thread, and a large product is split by rows over the threads that kernels use.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from xyla.runtime.program import GemmStep
from xyla.runtime.threads import host_threads, run_parts
from xyla.support.status import internal

if TYPE_CHECKING:
    from collections.abc import Iterator

# Products with fewer multiplications than this are not worth a second thread.
SPLIT_WORK = 1 << 21
_ROUTINE = {np.dtype(np.float32): ("sgemm", ctypes.c_float), np.dtype(np.float64): ("dgemm", ctypes.c_double)}


@cache
def _address(name: str) -> int:
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__[name]
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get_pointer(capsule, get_name(capsule))
    if not address:
        raise internal(f"scipy.linalg.cython_blas has no {name}")
    return int(address)


@cache
def _routine(name: str) -> Callable[..., None]:
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(_address(name))


class _BlasThreads:
    """Holds SciPy's OpenBLAS at one thread while one of our calls runs; a BLAS without the knob is left alone."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._before = 0
        self._set, self._get = _thread_knobs()

    @contextmanager
    def one(self) -> Iterator[None]:
        """One thread inside the block."""
        if self._set is None or self._get is None:
            yield
            return
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = self._get()
                self._set(1)
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._set(self._before)


def _thread_knobs() -> tuple[Callable[[int], None] | None, Callable[[], int] | None]:
    """(set, get) of the OpenBLAS that SciPy brings; it is found among the libraries loaded beside cython_blas."""
    _address("sgemm")
    with open("/proc/self/maps") as maps:
        paths = dict.fromkeys(line.split(None, 5)[5].strip() for line in maps if "openblas" in line)
    for path in paths:
        library = ctypes.CDLL(path)
        for prefix in ("scipy_openblas", "openblas"):
            setter = getattr(library, f"{prefix}_set_num_threads", None)
            getter = getattr(library, f"{prefix}_get_num_threads", None)
            if setter is not None and getter is not None:
                setter.argtypes, setter.restype = [ctypes.c_int], None
                getter.argtypes, getter.restype = [], ctypes.c_int
                return setter, getter
    return None, None


@cache
def _blas_threads() -> _BlasThreads:
    return _BlasThreads()


@dataclass(frozen=True, slots=True)
class _Part:
    """One thread's share: the product, and where its rows start (bytes into A and C)."""

    call: Callable[[int, int, int], None]
    offset_a: int
    offset_c: int


def gemm_call(step: GemmStep) -> Callable[[int, int, int], None]:
    """A function of the addresses of A, B and C that does the step."""
    parts = _parts(step)
    threads = _blas_threads()

    def call(a: int, b: int, c: int) -> None:
        with threads.one():
            if len(parts) == 1:
                parts[0].call(a, b, c)
            else:
                run_parts([partial(p.call, a + p.offset_a, b, c + p.offset_c) for p in parts])

    return call


def _parts(step: GemmStep) -> list[_Part]:
    count = min(host_threads(), step.m) if step.m * step.n * step.k * step.batch >= SPLIT_WORK else 1
    size = step.dtype.itemsize
    parts = []
    for i in range(count):
        lo, hi = step.m * i // count, step.m * (i + 1) // count
        a_row = 1 if step.trans_a else step.lda
        parts.append(_Part(_serial(replace(step, m=hi - lo)), lo * a_row * size, lo * step.ldc * size))
    return parts


def _serial(step: GemmStep) -> Callable[[int, int, int], None]:
    """The product on the calling thread.

    BLAS is column-major: row-major C = A B is column-major C^T = B^T A^T, so the operands trade places.
    """
    name, scalar = _ROUTINE[step.dtype]
    routine, by_ref = _routine(name), ctypes.byref
    ints = [ctypes.c_int(v) for v in (step.n, step.m, step.k, step.ldb, step.lda, step.ldc)]
    n, m, k, ldb, lda, ldc = (by_ref(i) for i in ints)
    one, zero = scalar(1.0), scalar(0.0)
    alpha, beta = by_ref(one), by_ref(zero)
    no, yes = ctypes.create_string_buffer(b"N"), ctypes.create_string_buffer(b"T")
    trans_a, trans_b = (yes if step.trans_a else no), (yes if step.trans_b else no)
    size = step.dtype.itemsize
    sa, sb, sc = step.stride_a * size, step.stride_b * size, step.stride_c * size

    def call(a: int, b: int, c: int) -> None:
        for i in range(step.batch):
            routine(trans_b, trans_a, n, m, k, alpha, b + i * sb, ldb, a + i * sa, lda, beta, c + i * sc, ldc)

    return call
