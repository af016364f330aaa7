"""The passes that a compilation runs: the target's pipeline, or the passes that the caller names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter

from xyla.hlo import rewriter
from xyla.hlo.module import Module
from xyla.passmgr.base import canonical, parse_passes
from xyla.passmgr.context import Fp, PassContext
from xyla.passmgr.dumps import NO_DUMPS, Dumper, DumpOptions, dumpers
from xyla.passmgr.pipeline import Pipeline, Run, RunOptions, pipeline_of
from xyla.passmgr.report import totals
from xyla.support import flags
from xyla.targets.cpu.pipeline import NEEDED, cpu_pipeline

DEFAULT, NONE = "default", "none"


@dataclass(frozen=True, slots=True)
class Done:
    """A module after a pipeline, and what that cost: milliseconds by step and in all, rewrites.

    changing: the steps that changed it. dumps: how the module was to be dumped; dumper: what did that.
    """

    module: Module
    pass_times: dict[str, float] = field(default_factory=dict)
    rewrites: int = 0
    total_ms: float = 0.0
    changing: frozenset[str] = frozenset()
    dumps: DumpOptions = NO_DUMPS
    dumper: Dumper | None = None


def optimise(module: Module, passes: str = DEFAULT, *, fp: Fp = Fp.DEFAULT, dumps: DumpOptions = NO_DUMPS) -> Done:
    """Runs `passes` on a copy of a verified module: "default" (the CPU's pipeline), "none", or a list as `a,b{x=1}`.

    XLA_FLAGS are honoured: `xla_disable_hlo_passes`, `xla_disable_all_hlo_passes` (no pass is needed for correctness),
    `xla_dump_hlo_pass_re`. Raises INVALID_ARGUMENT for an unknown pass, and what a pass raises, with its step's name.
    """
    chosen = flags.current()
    if passes == NONE or (passes == DEFAULT and chosen.xla_disable_all_hlo_passes):
        return Done(module, dumps=dumps)
    pipeline = cpu_pipeline() if passes == DEFAULT else listed_pipeline(passes)
    return _run(rewriter.clone_module, Done(module, dumps=dumps), pipeline, fp, _disabled(chosen))


def prepare(module: Module, pipeline: Pipeline, *, fp: Fp = Fp.DEFAULT, after: Done) -> Done:
    """Runs a pipeline of `emit_preparation` on an optimised module, in place; what it has to do is not disabled.

    after: the run that optimised the module. Dumps go on where its dumps ended.
    """
    chosen = flags.current()
    disabled = _disabled(chosen)
    if chosen.xla_disable_all_hlo_passes:
        disabled |= {step.name for step in pipeline.flat()}
    return _run(lambda it: it, replace(after, module=module), pipeline, fp, disabled - NEEDED)


def _run(owned: Callable[[Module], Module], before: Done, pipeline: Pipeline, fp: Fp, disabled: frozenset[str]) -> Done:
    """owned: makes of a module the one to work on."""
    start = perf_counter()
    module = owned(before.module)
    context = PassContext(fp)
    observers = dumpers(pipeline, module, disabled, before.dumps, before.dumper)
    run = Run(module, context, RunOptions(disabled, observers=observers))
    run.pipeline(pipeline)
    found = totals(run.records)
    return Done(
        module,
        {t.name: t.seconds * 1e3 for t in found},
        context.control.number,
        (perf_counter() - start) * 1e3,
        frozenset(t.name for t in found if t.changed),
        before.dumps,
        observers[0] if observers else before.dumper,
    )


def _disabled(chosen: flags.Flags) -> frozenset[str]:
    return frozenset(map(canonical, chosen.xla_disable_hlo_passes))


def listed_pipeline(text: str) -> Pipeline:
    """A pipeline of the passes of `a,b{x=1}`: a step each; the second `dce` is called `dce.2`."""
    from xyla import passes

    passes.load_all()
    return pipeline_of(parse_passes(text))
