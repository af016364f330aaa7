"""StableHLO programs that HLO cannot express: dynamic dimensions, operands that must be constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xyla.formats.mlir.ir import MlirModule, Operation
from xyla.formats.mlir.types import Type
from xyla.hlo.module import Module
from xyla.hlo.shape import Shape
from xyla.support.diagnostics import Span


class NotHloError(Exception):
    """Raised inside conversion at the first thing that static HLO cannot express; `load` turns it into a program."""

    def __init__(self, reason: str, span: Span | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span


@dataclass(slots=True)
class StablehloProgram:
    """A parsed program that is not static HLO, and why (`reason`, located by `span`).

    mlir: the generic module. entry: its main function.
    """

    name: str
    mlir: MlirModule
    entry: Operation
    reason: str
    span: Span | None = None

    @property
    def parameter_types(self) -> tuple[Type, ...]:
        """The MLIR types of the entry's parameters."""
        block = self.entry.regions[0].entry
        return tuple(v.type for v in block.arguments) if block is not None else ()

    def refine(self, shapes: Sequence[Shape], values: Sequence[Any] = ()) -> Module:
        """The static HLO program for arguments of these shapes. Raises INVALID_ARGUMENT when they do not fit.

        values: the arguments, for programs that take dimension variables as leading integer scalars.
        """
        from xyla.formats.stablehlo.dynamic import refine

        return refine(self, shapes, values)
