"""What the CPU does for one instruction: a native kernel, a BLAS call, or nothing native (and why)."""

from __future__ import annotations

from xyla.codegen.kernel import GemmCall, signature
from xyla.codegen.kernels import kernel_or_reason
from xyla.hlo.module import Instruction
from xyla.lowering.units import GemmUnit, KernelUnit
from xyla.support.status import Status, XylaError

Emitted = KernelUnit | GemmUnit | str


class CpuEmitter:
    """Emits the instructions of one module; instructions with equal signatures get one kernel, written once."""

    def __init__(self) -> None:
        self._made: dict[str, Emitted] = {}

    def emit(self, inst: Instruction) -> Emitted:
        """The unit for `inst`, or the reason why it has no native code. Other errors pass through."""
        try:
            key = signature(inst)
        except XylaError as error:
            if error.status is not Status.UNIMPLEMENTED:
                raise
            return error.message
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = _emit(inst)
        return made


def _emit(inst: Instruction) -> Emitted:
    spec = kernel_or_reason(inst)
    if isinstance(spec, str):
        return spec
    if isinstance(spec, GemmCall):
        return GemmUnit(
            spec.m, spec.n, spec.k, spec.trans_a, spec.trans_b, spec.lda, spec.ldb, spec.ldc, spec.batch, spec.stride_a,
            spec.stride_b, spec.stride_c, spec.swap,
        )  # fmt: skip
    return KernelUnit(spec.source, spec.launch_size, spec.literals, spec.scratch_bytes)
