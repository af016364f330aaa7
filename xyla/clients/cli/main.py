"""The `xyla` command: declares the subcommands and turns every failure into one message and an exit code.

Exit codes: 0 ok, 1 a comparison failed, 2 usage, parse or verify error or a bad file, 3 not implemented.
A subcommand's work is imported when it runs, so that `xyla --help` needs neither NumPy nor LLVM.
"""

from __future__ import annotations

import os
import sys
from enum import Enum
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer

from xyla.clients.cli.common import FileArgument, FromOption
from xyla.clients.cli.compile import compile_
from xyla.clients.cli.memory import memory
from xyla.clients.cli.pass_commands import FpMode, FpOption, bisect, opt, validate
from xyla.support.status import Status, XylaError

OK, MISMATCH, BAD_INPUT, UNIMPLEMENTED = 0, 1, 2, 3

app = typer.Typer(
    name="xyla",
    help="Read, check, convert and run HLO and StableHLO programs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: loading rich for it would double the time that --help takes
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Engine(str, Enum):  # noqa: UP042 - typer reads the values of a str enum
    """How a program is run."""

    COMPILED = "compiled"
    INTERPRETED = "interpreted"
    REFERENCE = "reference"


@app.command(short_help="Compile a program, run it, print or check its results.")
def run(
    file: FileArgument,
    args: Annotated[Path | None, typer.Option(help="Arguments: an .npz file with arg0, arg1, ...")] = None,
    random_args: Annotated[
        int | None, typer.Option(metavar="SEED", min=0, help="Make arguments from this seed.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the results, out0, out1, ..., to this .npz file.")] = None,
    compare: Annotated[bool, typer.Option(help="Check the results against the reference evaluator.")] = False,
    engine: Annotated[Engine, typer.Option(help="How to run.")] = Engine.COMPILED,
    bench: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Run N times; print the least and the median time.")
    ] = None,
    stats: Annotated[bool, typer.Option(help="Print kernels, library calls, cache hits, compile time.")] = False,
    dump_to: Annotated[
        Path | None, typer.Option(help="Write the module and each kernel's LLVM IR to this folder.")
    ] = None,
    source: FromOption = None,
    passes: Annotated[
        str, typer.Option(metavar="LIST", help="default: the CPU's pipeline; none; or passes as opt takes them.")
    ] = "default",
    fp: FpOption = FpMode.DEFAULT,
    check_nan: Annotated[bool, typer.Option("--check-nan", help="Stop at the first step that makes a NaN.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Print each step's inputs and outputs.")] = False,
    breaks: Annotated[
        list[str] | None, typer.Option("--break", metavar="NAME", help="Stop behind this step and show it.")
    ] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Print the time of each step.")] = False,
    chrome_trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the times for Chrome's trace viewer.")
    ] = None,
) -> None:
    """Compile a program (or load a saved one), run it, and print or check its results.

    The options from --check-nan on make the interpreted engine run it.
    """
    from xyla.clients.cli.run import Options, execute
    from xyla.clients.cli.watch import WatchOptions

    options = Options(
        file=file,
        args=args,
        seed=random_args,
        out=out,
        compare=compare,
        engine=engine.value,
        bench=bench,
        stats=stats,
        dump_to=dump_to,
        source=source.value if source else None,
        passes=passes,
        fp=fp.value,
        watch=WatchOptions(check_nan, trace, tuple(breaks or ()), profile, chrome_trace),
    )
    raise typer.Exit(execute(options))


app.command("compile", short_help="Compile a program to a file, or print a stage of it.")(compile_)
app.command(short_help="Read, check, optimise, convert and write a module.")(opt)
app.command(short_help="Find the one rewrite that makes a program go wrong.")(bisect)
app.command(short_help="Find the first pass that changes a program's results.")(validate)
app.command(short_help="Show how much memory a run needs, when, and for what.")(memory)


def _print_version(wanted: bool) -> None:
    if wanted:
        from xyla import __version__

        typer.echo(f"xyla {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    from xyla.support import flags

    for name in flags.from_environment(os.environ).ignored:
        typer.echo(f"note: --{name} has no effect here: {flags.why_ignored(name)}", err=True)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line (`sys.argv` when None) and returns its exit code; never raises on bad input."""
    _repair_streams()
    try:
        app(args=arguments, prog_name="xyla")
    except SystemExit as done:
        # Typer and rich exit with 1, which says that a result differs, when the reader of our output went away.
        return _reader_gone() if isinstance(done.__context__, BrokenPipeError) else _code_of(done.code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _reader_gone()
    except XylaError as error:
        if os.environ.get("XYLA_TRACEBACK") and error.__cause__ is not None:
            raise
        return _report(error)
    except Exception as error:  # the last line of defence: a user never sees a traceback
        return _report(_as_xyla_error(error))
    return OK


def _repair_streams() -> None:
    """Programs are UTF-8, and so is what is printed, whatever the locale; a stream that is closed swallows it."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open as long as the process
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(encoding="utf-8")


def _reader_gone() -> int:
    """Nobody wants more output. Python would complain again when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def _code_of(code: Any) -> int:
    return code if isinstance(code, int) else OK if code is None else BAD_INPUT


def _report(error: XylaError) -> int:
    sys.stderr.write(error.render() + "\n")
    return UNIMPLEMENTED if error.status is Status.UNIMPLEMENTED else BAD_INPUT


def _as_xyla_error(error: Exception) -> XylaError:
    if os.environ.get("XYLA_TRACEBACK"):
        raise error
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        status = Status.NOT_FOUND if isinstance(error, FileNotFoundError) else Status.FAILED_PRECONDITION
        return XylaError(status, f"{where}{error.strerror or error}")
    if isinstance(error, MemoryError):
        return XylaError(Status.RESOURCE_EXHAUSTED, "out of memory")
    if isinstance(error, RecursionError):
        return XylaError(Status.RESOURCE_EXHAUSTED, "the input is nested too deeply")
    hint = "this is a fault in xyla; XYLA_TRACEBACK=1 shows where"
    return XylaError(Status.INTERNAL, f"{type(error).__name__}: {error}", hint=hint)


if __name__ == "__main__":
    sys.exit(main())
