"""What `opt`, `bisect` and `validate` share: loading passes, naming a pipeline, running it with its reports."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO

from xyla.passmgr.base import canonical, parse_passes, registered
from xyla.passmgr.context import Fp, PassContext, RewriteControl
from xyla.passmgr.dumps import NO_DUMPS, DumpOptions, dumpers
from xyla.passmgr.pipeline import Pipeline, Run, RunOptions, Step, pipeline_of
from xyla.passmgr.report import Table, chrome_trace, stats_tables, time_table
from xyla.support import flags
from xyla.support.diagnostics import did_you_mean
from xyla.support.status import Status, XylaError, invalid

if TYPE_CHECKING:
    from xyla.hlo.module import Module


@dataclass(frozen=True, slots=True)
class PassOptions:
    """The options that choose, limit, report and dump passes, as `xyla opt --help` describes them."""

    passes: str | None = None
    pipeline: str | None = None
    load: tuple[Path, ...] = ()
    fp: str = "default"
    disabled: tuple[str, ...] = ()
    stop_after: str | None = None
    rewrite_limit: int | None = None
    rewrite_log: Path | None = None
    checked: bool = False
    time: bool = False
    stats: bool = False
    trace: Path | None = None
    dumps: DumpOptions = NO_DUMPS

    @property
    def any_pass(self) -> bool:
        """Whether a pass is to run at all."""
        return self.passes is not None or self.pipeline is not None


def load_passes(files: Sequence[Path]) -> None:
    """Registers the built-in passes and those that the Python files define (each file once a process).

    Raises INVALID_ARGUMENT, naming the file, when one cannot be imported.
    """
    from xyla import passes

    passes.load_all()
    importlib.import_module("xyla.schedule.passes")
    for file in files:
        _load_file(file.resolve())


def _load_file(file: Path) -> None:
    name = "xyla_user_pass_" + re.sub(r"\W", "_", str(file))
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file) if file.suffix == ".py" else None
    if spec is None or spec.loader is None:
        raise invalid(f"--load-pass {file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is being executed
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        del sys.modules[name]
        raise XylaError(Status.NOT_FOUND, f"cannot read {file}: {error.strerror or error}") from error
    except Exception as error:  # the file is the user's: whatever goes wrong in it is reported, not raised through
        del sys.modules[name]
        raise invalid(f"--load-pass {file}: {type(error).__name__}: {error}") from error


def named_pipelines() -> dict[str, Pipeline]:
    """Every pipeline that `--pipeline` takes, by name. Load the passes first."""
    from xyla.targets.cpu import pipeline

    return pipeline.pipelines()


def chosen_pipeline(options: PassOptions) -> Pipeline:
    """The pipeline that the options name. Raises INVALID_ARGUMENT for an unknown name or for none or two of them."""
    if options.passes is not None and options.pipeline is not None:
        raise invalid("--passes and --pipeline both say what to run: give one")
    if options.passes is not None:
        return pipeline_of(parse_passes(options.passes))
    known = named_pipelines()
    name = options.pipeline or ""
    if name not in known:
        near = did_you_mean(name, known)
        raise invalid(
            f"unknown pipeline {name!r}", hint=f"did you mean {near!r}?" if near else f"one of {', '.join(known)}"
        )
    return known[name]


@dataclass(slots=True)
class PassRun:
    """A pipeline with its options, applied to one module after another; `finish` prints the reports."""

    options: PassOptions
    pipeline: Pipeline
    log: IO[str] | None = None
    control: RewriteControl = field(default_factory=RewriteControl)
    runs: list[Run] = field(default_factory=list)

    def apply(self, module: Module) -> None:
        """Runs the pipeline on `module`, in place. Raises what a pass or a check raises, with the step's name."""
        chosen = self.options
        disabled = frozenset(map(canonical, (*chosen.disabled, *flags.current().xla_disable_hlo_passes)))
        observers = dumpers(self.pipeline, module, disabled, chosen.dumps)
        stop_after = canonical(chosen.stop_after) if chosen.stop_after is not None else None
        self.control.limit, self.control.log = chosen.rewrite_limit, self.log
        context = PassContext(Fp(chosen.fp), self.control)
        run = Run(module, context, RunOptions(disabled, stop_after, chosen.checked, observers))
        self.runs.append(run)
        try:
            run.pipeline(self.pipeline)
        finally:
            context.flush()

    def finish(self) -> None:
        """Prints the tables that were asked for, on standard error, and writes the trace."""
        records = [record for run in self.runs for record in run.records]
        for run in self.runs:
            for note in run.ctx.notes:
                sys.stderr.write(f"note: {note}\n")
        if self.options.stats:
            print_tables(stats_tables(records, self.control.counts))
        if self.options.time:
            print_tables([time_table(records)])
        if self.options.trace is not None:
            self.options.trace.write_text(chrome_trace(records, self.pipeline.name), encoding="utf-8")


@contextmanager
def pass_run(options: PassOptions) -> Iterator[PassRun]:
    """A run ready to apply; the rewrite log is open meanwhile, and reports come at the end."""
    load_passes(options.load)
    pipeline = chosen_pipeline(options)
    _check_names(options, pipeline)
    if options.rewrite_log is None:
        run = PassRun(options, pipeline)
        yield run
    else:
        with options.rewrite_log.open("w", encoding="utf-8") as log:
            run = PassRun(options, pipeline, log)
            yield run
    run.finish()


def _check_names(options: PassOptions, pipeline: Pipeline) -> None:
    """A name that is not there would silently do nothing: refuse it. XLA_FLAGS may name what xyla does not have."""
    here = [name for step in pipeline.flat() for name in (step.name, step.run.name)]
    asked = [("--disable-pass", n) for n in options.disabled]
    asked += [("--stop-after", options.stop_after)] if options.stop_after is not None else []
    for option, name in asked:
        if canonical(name) not in here:
            near = did_you_mean(name, here)
            hint = f"did you mean {near!r}?" if near else "`xyla opt --list-pipelines` shows the steps"
            raise invalid(f"{option} {name}: pipeline {pipeline.name!r} has no such step", hint=hint)


def print_tables(tables: Sequence[Table], stream: TextIO | None = None) -> None:
    """Prints tables, by default on standard error: standard output stays the module."""
    from rich import box
    from rich.table import Table as RichTable

    from xyla.clients.cli.console import console

    out = console(stream or sys.stderr)
    for one in tables:
        if not one.rows:
            out.print(one.title)
            continue
        table = RichTable(title=one.title, title_justify="left", title_style="", box=box.SIMPLE_HEAD)
        for i, name in enumerate(one.columns):
            textual = not re.fullmatch(r"[-+\d.%]*", one.rows[0][i])
            table.add_column(name, justify="left" if textual else "right")
        for row in one.rows:
            table.add_row(*row)
        out.print(table)


def list_passes() -> str:
    """A line a pass: name, options with their defaults, the docstring's first sentence."""
    lines = []
    for name, cls in registered().items():
        options = ", ".join(f"{f.name}={_shown(f.default)}" for f in fields(cls))
        summary = (cls.__doc__ or "").strip().splitlines()[0]
        lines.append(f"{name}{'{' + options + '}' if options else ''}\n    {summary}")
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if callable(value):
        return f"<{getattr(value, '__name__', 'function')}>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def list_pipelines() -> str:
    """Every pipeline with its steps, nested ones indented, each with its reason."""
    lines = []
    for name, pipeline in named_pipelines().items():
        lines.append(name)
        for item in pipeline.steps:
            if isinstance(item, Step):
                lines.append(f"    {_step_line(item)}")
                continue
            lines.append(f"    {item.name}: until nothing changes")
            lines += [f"        {_step_line(step)}" for step in item.steps]
    return "\n".join(lines) + "\n"


def _step_line(step: Step) -> str:
    pass_ = "" if step.name == step.run.name else f" ({step.run.name})"
    return f"{step.name}{pass_}{': ' + step.why if step.why else ''}"
