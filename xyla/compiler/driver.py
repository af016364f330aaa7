"""module -> executable: verify, optimise, lower, compile the kernels, load."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter

from xyla.codegen.kernel import KernelSpec
from xyla.compiler.handlers import module_unit
from xyla.compiler.optimise import DEFAULT, Optimised, optimise
from xyla.compiler.units import unit_of
from xyla.hlo import ops
from xyla.hlo.module import Module
from xyla.hlo.verifier import verify
from xyla.lowering.hlo_to_program import Lowerer
from xyla.lowering.layouts import agree
from xyla.lowering.units import HandlerUnit
from xyla.passmgr.context import Fp
from xyla.passmgr.dumps import DumpOptions
from xyla.runtime.executable import Executable, Stats
from xyla.runtime.objects import KernelSource, default_store
from xyla.runtime.program import GemmCall, Program
from xyla.support.status import unimplemented
from xyla.targets.cpu.emit import CpuEmitter

_RESIZERS = frozenset({ops.SET_DIMENSION_SIZE, ops.DYNAMIC_RESHAPE})


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to compile. passes: "default" (the CPU's pipeline), "none", or a list as `xyla opt --passes` takes.

    fp: how far passes may change floating-point results. dump_to: a folder that receives the module's text and every
    kernel's LLVM IR.
    """

    passes: str = DEFAULT
    fp: Fp = Fp.DEFAULT
    dump_to: Path | None = None


class Compilation:
    """One compilation of a module for the host, stage by stage: each is made when somebody asks for it.

    `module` itself is left as it is. Raises INVALID_ARGUMENT when it is malformed, UNIMPLEMENTED when it cannot run
    natively at all.
    """

    def __init__(self, module: Module, options: CompileOptions = CompileOptions()) -> None:
        self.source = module
        self.options = options
        self._start = perf_counter()
        verify(module)
        _refuse_what_cannot_run(module)

    @cached_property
    def _optimised(self) -> Optimised:
        return optimise(self.source, self.options.passes, fp=self.options.fp, dumps=DumpOptions(self.options.dump_to))

    @property
    def optimised(self) -> Module:
        """The module after the passes."""
        return self._optimised.module

    @cached_property
    def lowered_from(self) -> Module:
        """The module that is lowered: layouts agree wherever memory is handed on."""
        return agree(self.optimised)

    @cached_property
    def _lowerer(self) -> Lowerer:
        emitter = CpuEmitter()
        return Lowerer(self.lowered_from, lambda inst: unit_of(emitter, inst))

    @cached_property
    def program(self) -> Program:
        """The runtime program."""
        if _is_dynamic(self.lowered_from):
            return self._lowerer.run_whole(module_unit(self.lowered_from, "dimensions of dynamic size"))
        return self._lowerer.run()

    @property
    def kernel_sources(self) -> list[KernelSource]:
        """The kernels' LLVM IR, in the order of `program.kernel_names`."""
        _ = self.program
        return list(self._lowerer.sources.values())

    @cached_property
    def executable(self) -> Executable:
        """The program with its kernels compiled and loaded."""
        program = self.program
        if self.options.dump_to is not None:
            _dump(self.options.dump_to, self.lowered_from, self._lowerer.sources)
        store = default_store()
        hits = store.stats.disk_hits + store.stats.reused
        sources = self.kernel_sources
        kernels = store.load(sources)
        stats = _stats(self.lowered_from, self._lowerer)
        done = self._optimised
        stats.pass_times, stats.rewrites, stats.passes_ms = done.pass_times, done.rewrites, done.total_ms
        stats.cache_hits = store.stats.disk_hits + store.stats.reused - hits
        executable = Executable(program, [k.address for k in kernels], stats, store, sources)
        stats.compile_ms = (perf_counter() - self._start) * 1e3
        return executable


def compile_module(
    module: Module,
    *,
    passes: str = DEFAULT,
    fp: Fp = Fp.DEFAULT,
    dump_to: str | os.PathLike[str] | None = None,
) -> Executable:
    """The executable of a module; see `CompileOptions` and `Compilation`."""
    return Compilation(module, CompileOptions(passes, fp, Path(dump_to) if dump_to else None)).executable


def _stats(module: Module, lowerer: Lowerer) -> Stats:
    stats = Stats(instructions=module.num_instructions, unique_kernels=len(lowerer.sources))
    stats.temp_bytes = lowerer.temp_bytes
    for inst, unit in lowerer.units:
        match unit:
            case KernelSpec():
                stats.kernels += 1
            case GemmCall():
                stats.library_calls += 1
            case HandlerUnit():
                stats.handlers.append((f"%{inst.name} = {inst.op.name}", unit.reason))
    return stats


def _is_dynamic(module: Module) -> bool:
    """Whether an array's size is known at run time only (a set-dimension-size may hide behind a static shape)."""
    return any(inst.shape.is_dynamic or inst.op in _RESIZERS for inst in module.instructions())


def _refuse_what_cannot_run(module: Module) -> None:
    for inst in module.instructions():
        if any(leaf.is_buffer for _, leaf in inst.shape.leaves()):
            raise unimplemented(f"%{inst.name} of shape {inst.shape}: buffers are not compiled yet", span=inst.span)
    if module.entry.root.shape.is_dynamic:
        raise unimplemented(
            f"module {module.name!r} returns {module.entry.root.shape}: results of dynamic size are not compiled yet",
            span=module.entry.root.span,
        )


def _dump(folder: Path, module: Module, sources: dict[str, KernelSource]) -> None:
    """Writes `<module>.before_lowering.txt` and one `<kernel>.ll` a kernel."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^\w.-]", "_", module.name)[:100]
    (folder / f"{stem}.before_lowering.txt").write_text(str(module))
    for symbol, source in sources.items():
        (folder / f"{stem}.{symbol}.ll").write_text(source.text())
