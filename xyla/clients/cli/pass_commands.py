"""The subcommands about passes: `opt`, `bisect`, `validate`. Only declarations; the work is imported when one runs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from xyla.clients.cli.common import FileArgument, FromOption, OptionalFileArgument


class Style(str, Enum):  # noqa: UP042 - typer reads the values of a str enum
    """How a module is written."""

    LONG = "long"
    SHORT = "short"
    PROTO = "proto"
    TEXT_PROTO = "text-proto"


class FpMode(str, Enum):  # noqa: UP042 - as above
    """How far a pass may change floating-point results."""

    STRICT = "strict"
    DEFAULT = "default"
    FAST = "fast"


PassesOption = Annotated[
    str | None, typer.Option(metavar="LIST", help="Passes to run, as in a,b{option=value}; `--list-passes` names them.")
]
PipelineOption = Annotated[str | None, typer.Option(metavar="NAME", help="Run this pipeline; see --list-pipelines.")]
LoadPassOption = Annotated[
    list[Path] | None, typer.Option(metavar="FILE.py", help="Load a file that registers passes of your own.")
]
DisableOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Leave out this step or pass; may be repeated.")
]
FpOption = Annotated[FpMode, typer.Option(help="How far floating-point results may change.")]


def opt(
    file: OptionalFileArgument = None,
    verify: Annotated[bool, typer.Option(help="Check that the module is well formed.")] = False,
    style: Annotated[Style, typer.Option("--print", help="How to write the module.")] = Style.LONG,
    source: FromOption = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write to this file.")] = None,
    split_input_file: Annotated[bool, typer.Option(help="The input is several, split at `// -----`.")] = False,
    passes: PassesOption = None,
    pipeline: PipelineOption = None,
    load_pass: LoadPassOption = None,
    fp: FpOption = FpMode.DEFAULT,
    disable_pass: DisableOption = None,
    stop_after: Annotated[str | None, typer.Option(metavar="STEP", help="Run no step after this one.")] = None,
    rewrite_limit: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Stop after the first N rewrites of all.")
    ] = None,
    rewrite_log: Annotated[
        Path | None, typer.Option(help="Write every rewrite to this file, a JSON line each.")
    ] = None,
    checked: Annotated[bool, typer.Option(help="Check everything after every step.")] = False,
    time_passes: Annotated[bool, typer.Option(help="Print the time of each pass (standard error).")] = False,
    stats: Annotated[bool, typer.Option(help="Print rewrites by rule (standard error).")] = False,
    trace_passes: Annotated[Path | None, typer.Option(help="Write a Chrome trace of the passes to this file.")] = None,
    dump_to: Annotated[Path | None, typer.Option(help="Folder for dumps; XLA_FLAGS' xla_dump_to else.")] = None,
    dump_before: Annotated[str, typer.Option(metavar="RE", help="Dump before steps whose name matches.")] = "",
    dump_after: Annotated[str, typer.Option(metavar="RE", help="Dump after steps whose name matches.")] = "",
    dump_proto: Annotated[bool, typer.Option(help="Dump HloProto too.")] = False,
    dump_dot: Annotated[bool, typer.Option(help="Dump Graphviz graphs too.")] = False,
    list_passes: Annotated[bool, typer.Option("--list-passes", help="List every pass and its options.")] = False,
    list_pipelines: Annotated[bool, typer.Option("--list-pipelines", help="List every pipeline's steps.")] = False,
) -> None:
    """Read a module, check it, run passes over it, and write it: also the converter between formats."""
    from xyla.clients.cli.opt import Options, execute, show_lists
    from xyla.clients.cli.passes import PassOptions
    from xyla.passmgr.dumps import DumpOptions

    chosen = PassOptions(
        passes=passes, pipeline=pipeline, load=tuple(load_pass or ()), fp=fp.value, disabled=tuple(disable_pass or ()),
        stop_after=stop_after, rewrite_limit=rewrite_limit, rewrite_log=rewrite_log, checked=checked, time=time_passes,
        stats=stats, trace=trace_passes, dumps=DumpOptions(dump_to, dump_before, dump_after, dump_proto, dump_dot),
    )  # fmt: skip
    if list_passes or list_pipelines:
        raise typer.Exit(show_lists(chosen, list_passes, list_pipelines))
    if file is None:
        raise typer.BadParameter("missing: a program to read", param_hint="FILE")
    kind = source.value if source else None
    raise typer.Exit(execute(Options(file, verify, style.value, kind, output, split_input_file, chosen)))


ArgsOption = Annotated[Path | None, typer.Option(help="Arguments: an .npz file with arg0, arg1, ...")]
SeedOption = Annotated[int, typer.Option(metavar="SEED", min=0, help="Without --args: make arguments from this seed.")]
ToleranceOption = Annotated[
    float | None, typer.Option(min=0, help="Relative difference to accept; by type when not given: 1e-4 for f32.")
]


def bisect(
    file: FileArgument,
    args: ArgsOption = None,
    random_args: SeedOption = 0,
    passes: PassesOption = None,
    pipeline: PipelineOption = None,
    load_pass: LoadPassOption = None,
    fp: FpOption = FpMode.DEFAULT,
    disable_pass: DisableOption = None,
    tolerance: ToleranceOption = None,
    compiled: Annotated[bool, typer.Option(help="Run what the passes make as native code.")] = False,
    timeout: Annotated[float, typer.Option(metavar="S", min=0.1, help="A trial that takes longer hangs.")] = 60.0,
    out: Annotated[Path, typer.Option(help="Folder for the modules before and after, and the arguments.")] = Path(
        "bisect"
    ),
    source: FromOption = None,
) -> None:
    """Find the pass, and the one rewrite, after which a program's result is wrong (or it crashes, or hangs)."""
    from xyla.clients.cli.bisect import Options, execute
    from xyla.clients.cli.trials import Job

    job = Job(
        file, source.value if source else None, str(args or ""), random_args, passes, _pipeline(passes, pipeline),
        _texts(load_pass), tuple(disable_pass or ()), fp.value, tolerance, "compiled" if compiled else "reference",
    )  # fmt: skip
    raise typer.Exit(execute(Options(job, timeout, out)))


def validate(
    file: FileArgument,
    args: ArgsOption = None,
    random_args: SeedOption = 0,
    passes: PassesOption = None,
    pipeline: PipelineOption = None,
    load_pass: LoadPassOption = None,
    fp: FpOption = FpMode.DEFAULT,
    disable_pass: DisableOption = None,
    tolerance: ToleranceOption = None,
    source: FromOption = None,
) -> None:
    """Evaluate a program after every step that changes it; report the first step that changes its results."""
    from xyla.clients.cli.trials import Job
    from xyla.clients.cli.validate import execute

    job = Job(
        file, source.value if source else None, str(args or ""), random_args, passes, _pipeline(passes, pipeline),
        _texts(load_pass), tuple(disable_pass or ()), fp.value, tolerance,
    )  # fmt: skip
    raise typer.Exit(execute(job))


def _pipeline(passes: str | None, pipeline: str | None) -> str | None:
    """The compiler's own pipeline when neither is given."""
    return "cpu" if passes is None and pipeline is None else pipeline


def _texts(files: list[Path] | None) -> tuple[str, ...]:
    return tuple(str(file) for file in files or ())
