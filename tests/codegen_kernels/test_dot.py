"""Dot kernels and the recognition of BLAS products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from xyla import interp
from xyla.clients.random_args import random_args
from xyla.runtime.program import GemmCall
from xyla.testing.kernels import check, program, single, to_logical, to_physical


def dot(lhs: str, rhs: str, out: str, contract: tuple[str, str], batch: tuple[str, str] = ("", "")) -> str:
    batches = f"lhs_batch_dims={{{batch[0]}}}, rhs_batch_dims={{{batch[1]}}}, " if batch[0] else ""
    return program(
        f"a = {lhs} parameter(0)",
        f"b = {rhs} parameter(1)",
        f"ROOT r = {out} dot(a, b), {batches}"
        f"lhs_contracting_dims={{{contract[0]}}}, rhs_contracting_dims={{{contract[1]}}}",
    )


KERNELS = {
    "a small one": dot("f32[5,7]", "f32[7,9]", "f32[5,9]", ("1", "0")),
    "inner products": dot("f32[9,35]", "f32[13,35]", "f32[9,13]", ("1", "1")),
    "both transposed": dot("f32[17,9]", "f32[11,17]", "f32[9,11]", ("0", "1")),
    "s8 into s32": dot("s8[25,17]", "s8[17,99]", "s32[25,99]", ("1", "0")),
    "s8 wraps": dot("s8[25,70]", "s8[19,70]", "s8[25,19]", ("1", "1")),
    "pred": dot("pred[25,17]", "pred[17,9]", "pred[25,9]", ("1", "0")),
    "bf16": dot("bf16[25,170]", "bf16[170,39]", "bf16[25,39]", ("1", "0")),
    "bf16 into f32": dot("bf16[25,170]", "bf16[39,170]", "f32[25,39]", ("1", "1")),
    "fp8": dot("f8e4m3fn[9,30]", "f8e4m3fn[30,20]", "f32[9,20]", ("1", "0")),
    "complex": dot("c64[25,17]", "c64[17,39]", "c64[25,39]", ("1", "0")),
    "complex inner": dot("c64[25,17]", "c64[19,17]", "c64[25,19]", ("1", "1")),
    "batches that no single stride covers": dot(
        "f32[4,25,3,17]", "f32[3,4,17,19]", "f32[4,3,25,19]", ("3", "2"), ("0,2", "1,0")
    ),
    "lanes along the other operand": dot(
        "f32[4,17,3,40]", "f32[4,3,9,17]", "f32[4,3,40,9]", ("1", "3"), ("0,2", "0,1")
    ),
    "two contracted": dot("f32[4,6,5]", "f32[5,6,3]", "f32[4,3]", ("1,2", "1,0")),
    "matrix and vector": dot("f32[4,6]", "f32[6]", "f32[4]", ("1", "0")),
    "two vectors": dot("f32[60]", "f32[60]", "f32[]", ("0", "0")),
    "outer product": dot("f32[6]", "f32[50]", "f32[6,50]", ("", "")),
    "empty sum": dot("f32[6,0]", "f32[0,5]", "f32[6,5]", ("1", "0")),
    "one row": dot("f32[1,512]", "f32[512,100]", "f32[1,100]", ("1", "0")),
    "one column, columns contracted": dot("f32[90,112]", "f32[90]", "f32[112]", ("0", "0")),
    "layouts": dot("f32[9,7,17]{1,2,0}", "f32[9,17,20]{0,1,2}", "f32[9,7,20]{0,1,2}", ("2", "1"), ("0", "0")),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str) -> None:
    assert not isinstance(check(KERNELS[name]), GemmCall)


LIBRARY = {
    "plain": (dot("f32[256,200]", "f32[200,240]", "f32[256,240]", ("1", "0")), {"trans_a": False, "trans_b": False}),
    "transposed": (dot("f64[200,256]", "f64[240,200]", "f64[256,240]", ("0", "1")), {"trans_a": True, "trans_b": True}),
    "column-major result": (dot("f32[256,200]", "f32[200,240]", "f32[256,240]{0,1}", ("1", "0")), {"swap": True}),
    "batches": (
        dot("f32[2,3,256,200]", "f32[2,3,200,240]", "f32[2,3,256,240]", ("3", "2"), ("0,1", "0,1")),
        {"batch": 6, "stride_a": 51200, "stride_b": 48000, "stride_c": 61440},
    ),
    "collapsed rows": (
        dot("f32[3,100,200]", "f32[200,2,120]", "f32[3,100,2,120]", ("2", "0")),
        {"m": 300, "n": 240},
    ),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_library_calls(name: str) -> None:
    """The description alone must give the right product, and say what its case is about."""
    text, facts = LIBRARY[name]
    call = check(text)
    assert isinstance(call, GemmCall)
    assert {k: getattr(call, k) for k in facts} == facts
    module, inst = single(text)
    args = random_args(module.entry_parameter_shapes(), 0)
    (want,) = interp.run(module, args)
    flat = [to_physical(a, o.shape).ravel() for a, o in zip(args, inst.operands, strict=True)]
    got = _carry_out(call, flat[::-1] if call.swap else flat, want.size)
    assert np.allclose(to_logical(got.view(np.uint8), inst.shape), want, atol=1e-3)


def _carry_out(call: GemmCall, flat: Sequence[np.ndarray], size: int) -> np.ndarray:
    out = np.zeros(size, flat[0].dtype)

    def matrix(buffer: np.ndarray, rows: int, cols: int, ld: int, trans: bool, start: int) -> np.ndarray:
        step = buffer.itemsize
        return as_strided(buffer[start:], (rows, cols), (step, ld * step) if trans else (ld * step, step))

    for i in range(call.batch):
        a = matrix(flat[0], call.m, call.k, call.lda, call.trans_a, i * call.stride_a)
        b = matrix(flat[1], call.k, call.n, call.ldb, call.trans_b, i * call.stride_b)
        matrix(out, call.m, call.n, call.ldc, False, i * call.stride_c)[...] = a @ b
    return out
