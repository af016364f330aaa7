"""The listing of a program's steps."""

from __future__ import annotations

from xyla.runtime.listing import listing
from xyla.runtime.program import (
    Allocation,
    AllocationKind,
    CallStep,
    CopyStep,
    KernelStep,
    Program,
    Slice,
    StepList,
    WhileStep,
)


def test_steps_in_order_and_shared_sequences_once() -> None:
    a, b = Slice(0, 0, 64), Slice(0, 64, 4)
    shared = StepList("f", [CopyStep("c", a, b)])
    body = StepList("body", [KernelStep("k", 0, (a, b), 16), CallStep("call", shared, ((a, b),))])
    steps = [CallStep("first", shared), WhileStep("w", StepList("cond"), b, body)]
    program = Program("p", [Allocation(AllocationKind.TEMP, 128)], [], [], StepList("entry", steps), ["kernel_1"])
    assert listing(program).splitlines() == [
        "p: 1 allocations, 1 kernels",
        "entry:",
        "  first: call",
        "    f:",
        "      c: copy 0[0:64] 0[64:68]",
        "  w: while 0[64:68]",
        "    cond:",
        "    body:",
        "      k: kernel kernel_1 x16 0[0:64] 0[64:68]",
        "      call: call 0[0:64] 0[64:68]",
        "        f: (as above)",
    ]
