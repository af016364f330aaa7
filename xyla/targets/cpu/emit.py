"""What the CPU does for one instruction: a native kernel, a BLAS call, or nothing native (and why)."""

from __future__ import annotations

from xyla.codegen.kernel import KernelSpec, signature
from xyla.codegen.kernels import kernel_or_reason
from xyla.hlo.module import Instruction
from xyla.runtime.program import GemmCall
from xyla.support.status import Status, XylaError

Emitted = KernelSpec | GemmCall | str


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
            made = self._made[key] = kernel_or_reason(inst)
        return made
