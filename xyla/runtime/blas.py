"""BLAS through the routines that SciPy brings, loaded on first use.

BLAS' own threads spin while they wait, which costs a hundred times the work when the machine is busy. So each call runs
on one thread, and a large product is split over the threads that kernels use.
"""

from __future__ import annotations

import ctypes
import struct
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from xyla.runtime.host_program_ir import GEMM_WORDS, SPLIT_BATCH, SPLIT_COLUMNS, SPLIT_ROWS
from xyla.runtime.pool import host_threads
from xyla.runtime.program import GemmCall, GemmStep
from xyla.support.status import internal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Products with fewer multiplications than this are not worth a second thread.
SPLIT_WORK = 1 << 21
_ROUTINE = {np.dtype(np.float32): "sgemm", np.dtype(np.float64): "dgemm"}
_ONE = {4: struct.unpack("<i", struct.pack("<f", 1.0))[0], 8: struct.unpack("<q", struct.pack("<d", 1.0))[0]}


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
def routine(name: str) -> int:
    """The address of sgemm or dgemm, which take all 13 arguments by reference."""
    found = getattr(_library(), f"scipy_{name}_", None)
    if found is None:
        return _published(name)
    address = ctypes.cast(found, ctypes.c_void_p).value
    assert address is not None
    return address


class _BlasThreads:
    """Holds SciPy's OpenBLAS at one thread while runs that use it last; a BLAS without the knob is left alone."""

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
def blas_threads() -> _BlasThreads:
    """The process's one knob."""
    return _BlasThreads()


def gemm_record(step: GemmStep) -> list[int]:
    """What native code needs to do a step, in the order of `GEMM_WORDS`.

    BLAS reads its numbers as 32-bit integers and its letters as bytes: the low ends of words.
    """
    g, size = step.call, step.dtype.itemsize
    split, _, _ = gemm_parts(step)
    steps = [g.stride_a * size, g.stride_b * size, g.stride_c * size]
    units = {
        SPLIT_ROWS: [(1 if g.trans_a else g.lda) * size, 0, g.ldc * size],
        SPLIT_COLUMNS: [0, (g.ldb if g.trans_b else 1) * size, size],
        SPLIT_BATCH: steps,
    }[split]
    letters = [ord("T" if flag else "N") for flag in (g.trans_b, g.trans_a)]
    sizes = [g.n, g.m, g.k, g.ldb, g.lda, g.ldc]
    words = [routine(_ROUTINE[step.dtype]), *letters, *sizes, _ONE[size], 0, g.batch, *steps, split, *units]
    assert len(words) == len(GEMM_WORDS)
    return words


def gemm_parts(step: GemmStep) -> tuple[int, int, int]:
    """(what is split, how many units of it there are, units a part): the same on every run, so that results are too."""
    g = step.call
    threads = host_threads() if g.m * g.n * g.k * g.batch >= SPLIT_WORK else 1
    if threads == 1:
        return SPLIT_ROWS, g.m, g.m
    split, units = _best_split(g, threads)
    return split, units, -(-units // threads)


def _best_split(g: GemmCall, threads: int) -> tuple[int, int]:
    if g.batch >= threads:
        return SPLIT_BATCH, g.batch
    if g.m >= threads * 8 or g.m >= g.n:
        return SPLIT_ROWS, g.m
    return SPLIT_COLUMNS, g.n
