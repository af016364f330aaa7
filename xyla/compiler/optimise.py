"""The passes that a compilation runs: the target's pipeline, or the passes that the caller names."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

from xyla.hlo import rewriter
from xyla.hlo.module import Module
from xyla.passmgr.base import canonical, parse_passes
from xyla.passmgr.context import Fp, PassContext
from xyla.passmgr.dumps import NO_DUMPS, DumpOptions, dumpers
from xyla.passmgr.pipeline import Pipeline, Run, RunOptions, pipeline_of
from xyla.passmgr.report import totals
from xyla.support import flags
from xyla.targets.cpu.pipeline import cpu_pipeline

DEFAULT, NONE = "default", "none"


@dataclass(frozen=True, slots=True)
class Optimised:
    """The optimised copy of a module, and what making it cost: milliseconds by step, rewrites in all."""

    module: Module
    pass_times: dict[str, float] = field(default_factory=dict)
    rewrites: int = 0
    total_ms: float = 0.0


def optimise(module: Module, passes: str = DEFAULT, *, fp: Fp = Fp.DEFAULT, dumps: DumpOptions = NO_DUMPS) -> Optimised:
    """Runs `passes` on a copy of a verified module: "default" (the CPU's pipeline), "none", or a list as `a,b{x=1}`.

    XLA_FLAGS are honoured: `xla_disable_hlo_passes`, `xla_disable_all_hlo_passes` (no pass is needed for correctness),
    `xla_dump_hlo_pass_re`. Raises INVALID_ARGUMENT for an unknown pass, and what a pass raises, with its step's name.
    """
    chosen = flags.current()
    if passes == NONE or (passes == DEFAULT and chosen.xla_disable_all_hlo_passes):
        return Optimised(module)
    start = perf_counter()
    pipeline = cpu_pipeline() if passes == DEFAULT else listed_pipeline(passes)
    copy = rewriter.clone_module(module)
    disabled = frozenset(map(canonical, chosen.xla_disable_hlo_passes))
    context = PassContext(fp)
    run = Run(copy, context, RunOptions(disabled, observers=dumpers(pipeline, copy, disabled, dumps)))
    run.pipeline(pipeline)
    spent = {t.name: t.seconds * 1e3 for t in totals(run.records)}
    return Optimised(copy, spent, context.control.number, (perf_counter() - start) * 1e3)


def listed_pipeline(text: str) -> Pipeline:
    """A pipeline of the passes of `a,b{x=1}`: a step each; the second `dce` is called `dce.2`."""
    from xyla import passes

    passes.load_all()
    return pipeline_of(parse_passes(text))
