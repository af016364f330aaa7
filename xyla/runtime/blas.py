"""BLAS through the function pointers that SciPy publishes (scipy.linalg.cython_blas), loaded on first use."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np

from xyla.runtime.program import GemmStep
from xyla.support.status import internal

_ARGS = [ctypes.c_void_p] * 13


@cache
def _pointer(name: str) -> Callable[..., None]:
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__[name]
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get_pointer(capsule, get_name(capsule))
    if not address:
        raise internal(f"scipy.linalg.cython_blas has no {name}")
    return ctypes.CFUNCTYPE(None, *_ARGS)(address)


_ROUTINE = {np.dtype(np.float32): ("sgemm", ctypes.c_float), np.dtype(np.float64): ("dgemm", ctypes.c_double)}


def gemm_call(step: GemmStep) -> Callable[[int, int, int], None]:
    """A function of the addresses of A, B and C that does the step.

    BLAS is column-major: row-major C = A B is column-major C^T = B^T A^T, so the operands trade places.
    """
    name, scalar = _ROUTINE[step.dtype]
    routine, by_ref = _pointer(name), ctypes.byref
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
            routine(
                trans_b, trans_a, n, m, k, alpha, b + i * sb, ldb, a + i * sa, lda, beta, c + i * sc, ldc
            )  # fmt: skip

    return call
