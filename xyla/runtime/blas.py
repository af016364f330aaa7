"""BLAS through the routines that SciPy brings, loaded on first use.

BLAS' own threads spin while they wait, which costs a hundred times the work when the machine is busy. So each call runs
on one thread, and a large product is split by rows over the threads that kernels use.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from xyla.runtime.program import GemmCall, GemmStep
from xyla.runtime.threads import host_threads, run_parts
from xyla.support.status import internal

if TYPE_CHECKING:
    from collections.abc import Iterator

# Products with fewer multiplications than this are not worth a second thread.
SPLIT_WORK = 1 << 21
_ROUTINE = {np.dtype(np.float32): ("sgemm", ctypes.c_float), np.dtype(np.float64): ("dgemm", ctypes.c_double)}


@cache
def _library() -> ctypes.CDLL | None:
    """The OpenBLAS inside SciPy's wheel, opened without importing SciPy's Python side (0.2 s); None in other builds."""
    spec = find_spec("scipy")
    if spec is None or not spec.submodule_search_locations:
        raise internal("SciPy is not installed: it brings the BLAS")
    folder = Path(spec.submodule_search_locations[0]).parent / "scipy.libs"
    found = sorted(folder.glob("libscipy_openblas-*.so"))
    return ctypes.CDLL(str(found[0])) if found else None


def _published(name: str) -> int:
    """The address that scipy.linalg.cython_blas publishes for a routine: what every build of SciPy has."""
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
    """sgemm or dgemm, all arguments by reference."""
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)
    library = _library()
    if library is None or not hasattr(library, f"scipy_{name}_"):
        return prototype(_published(name))
    return prototype((f"scipy_{name}_", library))


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
    """(set, get) of the number of threads that SciPy's OpenBLAS uses."""
    library = _library()
    setter = getattr(library, "scipy_openblas_set_num_threads", None)
    getter = getattr(library, "scipy_openblas_get_num_threads", None)
    if setter is None or getter is None:
        return None, None
    setter.argtypes, setter.restype = [ctypes.c_int], None
    getter.argtypes, getter.restype = [], ctypes.c_int
    return setter, getter


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
    g, size = step.call, step.dtype.itemsize
    count = min(host_threads(), g.m) if g.m * g.n * g.k * g.batch >= SPLIT_WORK else 1
    a_row = 1 if g.trans_a else g.lda
    parts = []
    for i in range(count):
        lo, hi = g.m * i // count, g.m * (i + 1) // count
        parts.append(_Part(_serial(replace(g, m=hi - lo), step.dtype), lo * a_row * size, lo * g.ldc * size))
    return parts


def _serial(g: GemmCall, dtype: np.dtype[np.generic]) -> Callable[[int, int, int], None]:
    """The product on the calling thread.

    BLAS is column-major: row-major C = A B is column-major C^T = B^T A^T, so the operands trade places.
    """
    name, scalar = _ROUTINE[dtype]
    routine, by_ref = _routine(name), ctypes.byref
    ints = [ctypes.c_int(v) for v in (g.n, g.m, g.k, g.ldb, g.lda, g.ldc)]
    n, m, k, ldb, lda, ldc = (by_ref(i) for i in ints)
    one, zero = scalar(1.0), scalar(0.0)
    alpha, beta = by_ref(one), by_ref(zero)
    no, yes = ctypes.create_string_buffer(b"N"), ctypes.create_string_buffer(b"T")
    trans_a, trans_b = (yes if g.trans_a else no), (yes if g.trans_b else no)
    size = dtype.itemsize
    sa, sb, sc = g.stride_a * size, g.stride_b * size, g.stride_c * size

    def call(a: int, b: int, c: int) -> None:
        for i in range(g.batch):
            routine(trans_b, trans_a, n, m, k, alpha, b + i * sb, ldb, a + i * sa, lda, beta, c + i * sc, ldc)

    return call
