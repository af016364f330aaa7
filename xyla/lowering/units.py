"""What a target says of one instruction: the unit of work that does it."""

from __future__ import annotations

from dataclasses import dataclass

from xyla.codegen.kernel import KernelSpec
from xyla.runtime.program import GemmCall, Handler


@dataclass(frozen=True, slots=True)
class HandlerUnit:
    """Run Python, and why there is no native code."""

    handler: Handler
    reason: str


Unit = KernelSpec | GemmCall | HandlerUnit
