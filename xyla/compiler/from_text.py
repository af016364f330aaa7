"""Executables from text alone: a buffer-level program (LMHLO) or a runtime program, whose kernels are made again.

A kernel's text is a module of one instruction: the target makes of it the very kernel that it made before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from xyla.codegen.kernel import KernelSpec
from xyla.compiler.units import unit_of, unit_stats
from xyla.formats.hlo_text import parse
from xyla.hlo.module import Instruction
from xyla.lowering import lmhlo
from xyla.lowering.lmhlo_reader import parse as parse_lmhlo
from xyla.lowering.lmhlo_to_rt import Lowered, Options, lower
from xyla.lowering.lmhlo_verify import verify
from xyla.lowering.rt_reader import parse_program
from xyla.lowering.units import Unit
from xyla.runtime.executable import Executable
from xyla.runtime.objects import KernelSource, default_store
from xyla.runtime.program import Program
from xyla.support.status import invalid
from xyla.targets.cpu.emit import CpuEmitter

LMHLO, RT = "lmhlo", "rt"
_COMMENT = re.compile(r"//[^\n]*")
_MLIR = re.compile(r'\s*(?:#|!|"|module\b|func\.|memref\.)')


def kind_of(text: str) -> str | None:
    """Which of the two a text is: LMHLO, RT, or None for neither."""
    text = _COMMENT.sub("", text)
    if not _MLIR.match(text):  # HLO may name either in its metadata
        return None
    if "rt.kernels" in text:
        return RT
    found = any(mark in text for mark in ("lmhlo.", "lmhlo_gpu.", "gpu.memcpy", "gpu.launch_func"))
    return LMHLO if found else None


@dataclass
class TextCompilation:
    """One text on its way to an executable; each stage is made when somebody asks for it.

    Raises located errors: INVALID_ARGUMENT for a malformed text, UNIMPLEMENTED for what the runtime has no call for.
    """

    text: str
    name: str
    options: Options = field(default_factory=Options)

    @cached_property
    def kind(self) -> str:
        """LMHLO or RT."""
        found = kind_of(self.text)
        if found is None:
            raise invalid(f"{self.name} is neither a buffer-level program (LMHLO) nor a runtime program")
        return found

    @cached_property
    def _emitter(self) -> CpuEmitter:
        return CpuEmitter()

    @cached_property
    def lmhlo(self) -> lmhlo.Module:
        """The buffer-level program. Raises INVALID_ARGUMENT for the text of a runtime program."""
        if self.kind == RT:
            raise invalid(f"{self.name} is a runtime program: it has no buffer-level form")
        return parse_lmhlo(self.text, self.name)

    @cached_property
    def lowered(self) -> Lowered:
        """The runtime program with its kernels' sources."""
        if self.kind == LMHLO:
            lowered = lower(self.lmhlo, self._unit, self.options)
            verify(self.lmhlo)
            return lowered
        program = parse_program(self.text, self.name)
        units = [self._kernel(program, i) for i in range(len(program.kernel_names))]
        return Lowered(program, [u.source for u in units], [("", u) for u in units])

    def _unit(self, inst: Instruction) -> Unit:
        return unit_of(self._emitter, inst)

    def _kernel(self, program: Program, number: int) -> KernelSpec:
        """A kernel of a runtime program, made of its text."""
        name = program.kernel_names[number]
        if number >= len(program.kernel_hlo):
            raise invalid(f"{self.name}: kernel {name!r} has no 'hlo' text to make it of")
        inst = parse(program.kernel_hlo[number].text, f"{self.name}: kernel {name}").entry.root
        unit = self._unit(inst)
        if not isinstance(unit, KernelSpec):
            raise invalid(f"{self.name}: the instruction of kernel {name!r} has no kernel here")
        if unit.source.symbol != name:
            raise invalid(
                f"{self.name}: kernel {name!r} was made by another version: its instruction now gives "
                f"{unit.source.symbol!r}"
            )
        return unit

    @property
    def program(self) -> Program:
        """The runtime program."""
        return self.lowered.program

    @property
    def kernel_sources(self) -> list[KernelSource]:
        """The kernels' LLVM IR, in the order of `program.kernel_names`."""
        return self.lowered.sources

    @cached_property
    def executable(self) -> Executable:
        """The program with its kernels compiled and loaded."""
        store, sources = default_store(), self.kernel_sources
        kernels = store.load(sources)
        stats = unit_stats(self.lowered.units, len(sources))
        stats.temp_bytes = self.lowered.temp_bytes
        return Executable(self.program, [k.address for k in kernels], stats, store, sources)
