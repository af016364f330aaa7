"""One step of a plan, and the errors that evaluating one can end in."""

from __future__ import annotations

from inspect import isgeneratorfunction

from xyla.hlo.module import Instruction
from xyla.interp.table import Kernel
from xyla.support.status import Status, XylaError, internal

# NumPy refuses when the module broke an invariant that the verifier states. Users never see a traceback.
BROKEN = (ValueError, TypeError, IndexError, KeyError, AttributeError, AssertionError, ArithmeticError)
# How NumPy says that no memory could hold an array.
_TOO_LARGE = ("too big", "too large", "Maximum allowed")


class Step:
    """One instruction of a plan: `kernel(values in ins) -> slot out`, then `dead` slots are dropped."""

    __slots__ = ("calls", "dead", "ins", "inst", "kernel", "out")

    def __init__(self, inst: Instruction, kernel: Kernel, ins: tuple[int, ...], out: int) -> None:
        self.inst, self.kernel, self.ins, self.out = inst, kernel, ins, out
        self.dead: tuple[int, ...] = ()
        self.calls = isgeneratorfunction(kernel)


def broken(inst: Instruction | None, error: Exception) -> XylaError:
    """The error that stands for an exception out of NumPy."""
    if any(words in str(error) for words in _TOO_LARGE):
        return failure(inst, Status.RESOURCE_EXHAUSTED, "an array too large to hold")
    return failure(inst, Status.INTERNAL, f"{type(error).__name__}: {error}")


def failure(inst: Instruction | None, status: Status, why: str) -> XylaError:
    """An error located at the instruction being evaluated."""
    if inst is None:
        return internal(why)
    return XylaError(status, f"while evaluating %{inst.name} = {inst.op.name}: {why}", span=inst.span)
