"""module -> executable: verify, optimise, lower, compile the kernels, load."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter

from xyla.analysis.call_graph import control_instructions
from xyla.analysis.manual_partitions import logical_partitions
from xyla.buffers.assignment import BufferAssignment
from xyla.buffers.dump import write_dumps
from xyla.buffers.pipeline import place_buffers, remembered
from xyla.codegen.kernel import KernelSpec
from xyla.compiler.alarm import slow_operation
from xyla.compiler.dynamic import is_dynamic, make_static
from xyla.compiler.handlers import as_one_call, module_unit
from xyla.compiler.optimise import DEFAULT, Done, optimise, prepare
from xyla.compiler.units import unit_of, unit_stats
from xyla.hlo import rewriter
from xyla.hlo.module import Instruction, Module
from xyla.hlo.verifier import verify
from xyla.lowering import hlo_to_lmhlo, lmhlo, lmhlo_to_rt
from xyla.lowering.layouts import agree
from xyla.lowering.lmhlo_to_rt import Lowered
from xyla.lowering.units import HandlerUnit, Unit
from xyla.passmgr.context import Fp
from xyla.passmgr.dumps import DumpOptions
from xyla.runtime.dynamic import DynamicExecutable, Interface
from xyla.runtime.executable import Devices, Executable
from xyla.runtime.listing import listing
from xyla.runtime.objects import KernelSource, default_store
from xyla.runtime.program import Deferred, Program
from xyla.support.status import Status, XylaError, unimplemented
from xyla.targets.cpu.emit import CpuEmitter
from xyla.targets.cpu.pipeline import emit_preparation
from xyla.targets.cpu.sharing import can_share

Hook = Callable[[Module], None]


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to compile. passes: "default" (the CPU's pipeline), "none", or a list as `xyla opt --passes` takes.

    fp: how far passes may change floating-point results. dump_to: a folder that receives the module's text and every
    kernel's LLVM IR. before_passes, after_passes: called with the module (the compilation's own copy) at those points;
    they may change it, and it is verified again. embed_ir: the executable keeps its kernels' LLVM IR (`ir_text`).
    """

    passes: str = DEFAULT
    fp: Fp = Fp.DEFAULT
    dump_to: Path | None = None
    before_passes: Hook | None = None
    after_passes: Hook | None = None
    embed_ir: bool = False


class Compilation:
    """One compilation of a module for the host, stage by stage: each is made when somebody asks for it.

    `module` itself is left as it is. Raises INVALID_ARGUMENT when it is malformed, UNIMPLEMENTED when it cannot run
    natively at all.
    """

    def __init__(self, module: Module, options: CompileOptions = CompileOptions()) -> None:
        self.source = module
        self.options = options
        self._start = perf_counter()
        self._emitter = CpuEmitter()
        self._units: dict[Instruction, Unit] = {}
        self._can_share = remembered(can_share)
        verify(module)
        _refuse_what_cannot_run(module)
        self._interface: Interface | None = None
        self._why_evaluated = ""
        if is_dynamic(module):
            self._pad()

    def _pad(self) -> None:
        """Makes a module with dynamic dimensions static, if that can be done; else it is evaluated whole."""
        try:
            self.source, self._interface = make_static(self.source, self.options.fp)
        except XylaError as error:
            if error.status is not Status.UNIMPLEMENTED:
                raise
            root = self.source.entry.root
            if root.shape.is_dynamic:
                raise unimplemented(f"module {self.source.name!r} returns {root.shape}: {error.message}") from None
            self._why_evaluated = f"dimensions of dynamic size: {error.message}"

    @cached_property
    def _optimised(self) -> Done:
        options = self.options
        module = _hooked(options.before_passes, self.source, self.source)
        made = optimise(module, options.passes, fp=options.fp, dumps=DumpOptions(options.dump_to))
        return replace(made, module=_hooked(options.after_passes, made.module, self.source))

    @property
    def optimised(self) -> Module:
        """The module after the passes. Assigning buffers goes on with this very module: it schedules it."""
        return self._optimised.module

    @cached_property
    def assignment(self) -> BufferAssignment:
        """Where every value lies. Its `module` is scheduled, with the copies that it needs."""
        done = self._prepared
        copied = "copy-insertion" in done.changing
        return place_buffers(done.module, copied=copied, can_share=self._can_share, scratch=self._scratch)

    @cached_property
    def _prepared(self) -> Done:
        """The module to assign buffers to: scheduled, with the copies that it needs."""
        pipeline = emit_preparation(self._can_share, lambda fusion: not isinstance(self.unit(fusion), HandlerUnit))
        return prepare(self._to_prepare(), pipeline, fp=self.options.fp, after=self._optimised)

    def _to_prepare(self) -> Module:
        """The module to emit, which nobody else holds."""
        module = agree(self.optimised)
        if self._why_evaluated:
            whole = as_one_call(module)
            self._units[whole.entry.root] = module_unit(module, self._why_evaluated)
            return whole
        if module is self.source:
            module = rewriter.clone_module(module)
        return module

    def unit(self, inst: Instruction) -> Unit:
        """What the target does for an instruction."""
        found = self._units.get(inst)
        if found is None:
            found = self._units[inst] = unit_of(self._emitter, inst)
        return found

    def _scratch(self, module: Module) -> dict[Instruction, int]:
        """Bytes that kernels need while they run."""
        units = ((i, self.unit(i)) for i in control_instructions(module) if hlo_to_lmhlo.is_unit(i))
        return {i: u.scratch_bytes for i, u in units if isinstance(u, KernelSpec) and u.scratch_bytes}

    @cached_property
    def lmhlo(self) -> lmhlo.Module:
        """The buffer-level program."""
        return hlo_to_lmhlo.lower(self.assignment.module, self.assignment, self.unit)

    @cached_property
    def lowered(self) -> Lowered:
        """The runtime program with its kernels' sources."""
        return lmhlo_to_rt.lower(self.lmhlo, self.unit)

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
        with slow_operation(f"compiling module {self.source.name!r}"):
            return self._compiled()

    def _compiled(self) -> Executable:
        lowered, assignment = self.lowered, self.assignment
        if self.options.dump_to is not None:
            _dump(self.options.dump_to, assignment, lowered)
        store = default_store()
        hits = store.stats.disk_hits + store.stats.reused
        kernels = store.load(lowered.sources)
        stats = unit_stats(lowered.units, len(lowered.sources))
        stats.temp_bytes, stats.instructions = lowered.temp_bytes, self.optimised.num_instructions
        done, prepared = self._optimised, self._prepared
        stats.pass_times, stats.rewrites, stats.passes_ms = done.pass_times, done.rewrites, done.total_ms
        stats.preparation_times, stats.preparation_ms = prepared.pass_times, prepared.total_ms
        stats.cache_hits = store.stats.disk_hits + store.stats.reused - hits
        kind = Executable if self._interface is None else DynamicExecutable
        executable = kind(lowered.program, [k.address for k in kernels], stats, store, lowered.sources)
        if isinstance(executable, DynamicExecutable) and self._interface is not None:
            executable.interface = self._interface
        config = assignment.module.config
        logical = logical_partitions(self.source) is not None
        executable.devices = Devices(max(config.replica_count, 1), max(config.num_partitions, 1), logical)
        executable.report = Deferred(assignment.stats.describe)
        if self.options.embed_ir:
            executable.ir_text = "\n".join(source.text() for source in lowered.sources)
        stats.compile_ms = (perf_counter() - self._start) * 1e3
        return executable


def _hooked(hook: Hook | None, module: Module, source: Module) -> Module:
    """What a hook makes of a module; the caller's own is cloned first."""
    if hook is None:
        return module
    if module is source:
        module = rewriter.clone_module(module)
    hook(module)
    verify(module)
    return module


def compile_module(
    module: Module,
    *,
    passes: str = DEFAULT,
    fp: Fp = Fp.DEFAULT,
    dump_to: str | os.PathLike[str] | None = None,
) -> Executable:
    """The executable of a module; see `CompileOptions` and `Compilation`."""
    return Compilation(module, CompileOptions(passes, fp, Path(dump_to) if dump_to else None)).executable


def _refuse_what_cannot_run(module: Module) -> None:
    for inst in module.instructions():
        if any(leaf.is_buffer for _, leaf in inst.shape.leaves()):
            raise unimplemented(f"%{inst.name} of shape {inst.shape}: buffers are not compiled yet", span=inst.span)
        groups = getattr(inst.attrs, "replica_groups", None)
        if groups is not None and groups.text and not groups.groups:
            raise unimplemented(f"replica groups over a named mesh ({groups.text})", span=inst.span)


def _dump(folder: Path, assignment: BufferAssignment, lowered: Lowered) -> None:
    """Writes the module before lowering, its buffers, the program's steps, and one `<kernel>.ll` a kernel."""
    stem = re.sub(r"[^\w.-]", "_", assignment.module.name)[:100]
    write_dumps(folder, stem, assignment)
    (folder / f"{stem}.before_lowering.txt").write_text(str(assignment.module))
    (folder / f"{stem}-thunk_schedule.txt").write_text(listing(lowered.program))
    for source in lowered.sources:
        (folder / f"{stem}.{source.symbol}.ll").write_text(source.text())
