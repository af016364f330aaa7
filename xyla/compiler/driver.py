"""module -> executable: verify, optimise, lower, compile the kernels, load."""

from __future__ import annotations

import os
import re
from pathlib import Path
from time import perf_counter

from xyla.codegen.kernel import KernelSpec
from xyla.compiler.handlers import handler_for, module_unit
from xyla.compiler.optimise import DEFAULT, optimise
from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.hlo.verifier import verify
from xyla.lowering.hlo_to_program import Lowerer
from xyla.lowering.layouts import agree
from xyla.lowering.units import HandlerUnit, Unit
from xyla.passmgr.context import Fp
from xyla.passmgr.dumps import DumpOptions
from xyla.runtime.executable import Executable, Stats
from xyla.runtime.objects import KernelSource, default_store
from xyla.runtime.program import GemmCall
from xyla.support.status import unimplemented
from xyla.targets.cpu.emit import CpuEmitter

_RESIZERS = frozenset({ops.SET_DIMENSION_SIZE, ops.DYNAMIC_RESHAPE})


def compile_module(
    module: Module,
    *,
    passes: str = DEFAULT,
    fp: Fp = Fp.DEFAULT,
    dump_to: str | os.PathLike[str] | None = None,
) -> Executable:
    """Compiles a verified-or-rejected module for the host; `module` itself is left as it is.

    passes: "default" (the CPU's pipeline), "none", or a list as `xyla opt --passes` takes. fp: how far passes may
    change floating-point results. dump_to: a folder that receives the module's text and every kernel's LLVM IR.
    Raises INVALID_ARGUMENT when the module is malformed, UNIMPLEMENTED when it cannot run natively at all.
    """
    start = perf_counter()
    verify(module)
    _refuse_what_cannot_run(module)
    optimised = optimise(module, passes, fp=fp, dumps=DumpOptions(Path(dump_to) if dump_to else None))
    module = agree(optimised.module)
    emitter = CpuEmitter()
    lowerer = Lowerer(module, lambda inst: _unit(emitter, inst))
    if _is_dynamic(module):
        program = lowerer.run_whole(module_unit(module, "dimensions of dynamic size"))
    else:
        program = lowerer.run()
    if dump_to is not None:
        _dump(Path(dump_to), module, lowerer.sources)
    store = default_store()
    hits = store.stats.disk_hits + store.stats.reused
    kernels = store.load(list(lowerer.sources.values()))
    stats = _stats(module, lowerer)
    stats.pass_times, stats.rewrites, stats.passes_ms = optimised.pass_times, optimised.rewrites, optimised.total_ms
    stats.cache_hits = store.stats.disk_hits + store.stats.reused - hits
    executable = Executable(program, [k.address for k in kernels], stats, keep_alive=store)
    stats.compile_ms = (perf_counter() - start) * 1e3
    return executable


def _unit(emitter: CpuEmitter, inst: Instruction) -> Unit:
    made = emitter.emit(inst)
    return handler_for(inst, made) if isinstance(made, str) else made


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
