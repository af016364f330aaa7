"""real and imag of real values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule


@register
@dataclass(frozen=True, slots=True)
class RealImagExpander(Expander):
    """The real part of a real value is itself, the imaginary part zero.

    ROOT r = f32[4] imag(f32[4] x)   ==>   ROOT r = f32[4] broadcast(0)
    """

    name: ClassVar[str] = "real-imag-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The ops and their rules."""
        return {ops.REAL: real_of_real, ops.IMAG: imag_of_real}


def real_of_real(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """real(x) = x for real x."""
    return None if inst.operands[0].shape.element_type.is_complex else inst.operands[0]


def imag_of_real(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """imag(x) = 0 for real x."""
    x = inst.operands[0].shape
    return None if x.element_type.is_complex else Builder(rw).full(0, x.element_type, x.dims).inst
