"""What the CPU does for one instruction: a native kernel, a BLAS call, or nothing native (and why)."""

from __future__ import annotations

from xyla.codegen.kernel import GemmCall, KernelSpec
from xyla.codegen.kernels import build_kernel
from xyla.hlo.module import Instruction
from xyla.lowering.units import GemmUnit, KernelUnit
from xyla.support.status import Status, XylaError


def emit(inst: Instruction) -> KernelUnit | GemmUnit | str:
    """The unit for `inst`, or the reason why it has no native code. Other errors pass through."""
    try:
        spec = build_kernel(inst)
    except XylaError as error:
        if error.status is not Status.UNIMPLEMENTED:
            raise error.located(inst.span) from None
        return error.message
    match spec:
        case GemmCall():
            return _gemm(spec)
        case KernelSpec():
            return KernelUnit(spec.source, spec.launch_size, spec.literals, spec.scratch_bytes)


def _gemm(call: GemmCall) -> GemmUnit:
    return GemmUnit(
        call.m, call.n, call.k, call.trans_a, call.trans_b, call.lda, call.ldb, call.ldc, call.batch, call.stride_a,
        call.stride_b, call.stride_c, call.swap,
    )  # fmt: skip
