"""What a target says of one instruction: the unit of work that does it."""

from __future__ import annotations

from dataclasses import dataclass

from xyla.hlo.literal import Literal
from xyla.runtime.objects import KernelSource
from xyla.runtime.program import Handler


@dataclass(frozen=True, slots=True)
class KernelUnit:
    """Call a native kernel. `constants`: arrays passed after the operands and outputs, before the scratch."""

    source: KernelSource
    launch_size: int
    constants: tuple[Literal, ...] = ()
    scratch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class GemmUnit:
    """A BLAS matrix product over operands 0 and 1. Field meanings as in GemmStep."""

    m: int
    n: int
    k: int
    trans_a: bool
    trans_b: bool
    lda: int
    ldb: int
    ldc: int
    batch: int = 1
    stride_a: int = 0
    stride_b: int = 0
    stride_c: int = 0
    swap: bool = False  # operands trade places (column-major result)


@dataclass(frozen=True, slots=True)
class HandlerUnit:
    """Run Python, and why there is no native code."""

    handler: Handler
    reason: str


Unit = KernelUnit | GemmUnit | HandlerUnit
