"""Runs one element-wise op over arrays as a compiled kernel: what the element tests and the ULP table are made with."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from xyla.codegen.elements import ELEMENT, Site, load_element, store_element
from xyla.codegen.llvm import Function, Param, Val, Value
from xyla.hlo.op_def import NO_ATTRS, OpDef
from xyla.runtime.objects import KernelSource, ObjectStore
from xyla.support import dtypes
from xyla.support.dtypes import ElementType

Array = np.ndarray[Any, np.dtype[Any]]


def op_kernel(op: OpDef[Any], ins: Sequence[ElementType], out: ElementType, attrs: Any, lanes: int) -> KernelSource:
    """A kernel (inputs..., output, n) that applies `op` to n elements, `lanes` at a time with a masked last trip."""
    params = [Param("ptr", f"p{i}", "noalias") for i in range(len(ins) + 1)]
    f = Function([*params, Param("i64", "n")])
    b, n = f.builder, f.arg(len(ins) + 1)
    site = Site(op, out, tuple(ins), attrs)

    def body(i: Val, mask: Val | None) -> None:
        values: list[Value] = [load_element(b, et, f.arg(k), i, lanes, mask) for k, et in enumerate(ins)]
        store_element(b, out, ELEMENT[op](b, site, *values), f.arg(len(ins)), i, mask)

    whole = b.and_(n, -lanes)
    with b.loop(0, whole, lanes) as lp:
        body(lp.i, None)
    if lanes > 1:
        with b.when(b.icmp("slt", whole, n)):
            body(whole, b.tail_mask(whole, n, lanes))
    b.ret()
    return f.source()


def call_kernel(address: int, arrays: Sequence[Array], n: int) -> None:
    """Calls a kernel of `op_kernel` on its arrays."""
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays), ctypes.c_int64)
    kind(address)(*(a.ctypes.data for a in arrays), n)


def run_op(
    op: OpDef[Any],
    *arrays: Array,
    out: ElementType | None = None,
    attrs: Any = NO_ATTRS,
    lanes: int = 16,
    store: ObjectStore | None = None,
) -> Array:
    """Applies a compiled `op` to equally shaped arrays; `out` defaults to the first operand's element type."""
    ins = [dtypes.by_numpy(a.dtype) for a in arrays]
    out = out or ins[0]
    flat = [np.ascontiguousarray(a).reshape(-1) for a in arrays]
    source = op_kernel(op, ins, out, attrs, lanes)
    (kernel,) = (store or ObjectStore()).load([source])
    result = np.zeros(flat[0].size, out.np)
    call_kernel(kernel.address, [*flat, result], flat[0].size)
    return result.reshape(arrays[0].shape)
