"""`xyla opt`: read, verify, run passes, write."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xyla.clients.cli import passes
from xyla.clients.cli.inputs import read_programs
from xyla.clients.cli.passes import PassOptions, PassRun, pass_run
from xyla.hlo.module import Module
from xyla.support.status import invalid, unimplemented

if TYPE_CHECKING:
    from xyla.formats.detect import Loaded
    from xyla.formats.stablehlo.program import StablehloProgram

SEPARATOR = "\n// -----\n\n"
NO_PASSES = PassOptions()


@dataclass(frozen=True, slots=True)
class Options:
    """The command's options; `style` is long, short, proto or text-proto."""

    file: str
    verify: bool
    style: str
    source: str | None
    output: Path | None
    split: bool
    passes: PassOptions = NO_PASSES


def show_lists(options: PassOptions, list_passes: bool, list_pipelines: bool) -> int:
    """Prints the passes, the pipelines or both. Returns the exit code."""
    passes.load_passes(options.load)
    sys.stdout.write(
        (passes.list_passes() if list_passes else "") + (passes.list_pipelines() if list_pipelines else "")
    )
    return 0


def execute(options: Options) -> int:
    """Reads, checks and writes the module(s). Returns the exit code; raises XylaError on a bad input."""
    _refuse_idle(options.passes)
    programs = read_programs(options.file, options.source, options.split)
    with pass_run(options.passes) if options.passes.any_pass else nullcontext() as run:
        pieces = [_written(program, options, run) for program in programs]
    if options.style == "proto":
        _write_bytes(b"".join(piece for piece in pieces if isinstance(piece, bytes)), options.output)
    else:
        _write_text(SEPARATOR.join(str(piece) for piece in pieces), options.output)
    return 0


def _refuse_idle(chosen: PassOptions) -> None:
    """Options about passes where no pass runs would silently do nothing."""
    given = {
        "--load-pass": chosen.load,
        "--disable-pass": chosen.disabled,
        "--stop-after": chosen.stop_after is not None,
        "--rewrite-limit": chosen.rewrite_limit is not None,
        "--rewrite-log": chosen.rewrite_log,
        "--checked": chosen.checked,
        "--time-passes": chosen.time,
        "--stats": chosen.stats,
        "--trace-passes": chosen.trace,
        "--dump-before": chosen.dumps.before,
        "--dump-after": chosen.dumps.after,
    }
    idle = [name for name, value in given.items() if value]
    if idle and not chosen.any_pass:
        raise invalid(f"{idle[0]} without a pass to run", hint="give --passes=LIST or --pipeline=NAME")


def _written(program: Loaded, options: Options, run: PassRun | None) -> str | bytes:
    if not isinstance(program, Module):
        return _written_dynamic(program, options)
    if options.verify or run is not None:
        from xyla.hlo.verifier import verify

        verify(program)
    if run is not None:
        run.apply(program)
    if options.style in ("proto", "text-proto"):
        from xyla.formats import hlo_proto

        return hlo_proto.to_bytes(program) if options.style == "proto" else hlo_proto.to_text(program)
    text = program.to_string(short=options.style == "short")
    return text if text.endswith("\n") else text + "\n"


def _written_dynamic(program: StablehloProgram, options: Options) -> str:
    if options.style != "long" or options.verify or options.passes.any_pass:
        what = "--verify" if options.verify else "passes" if options.passes.any_pass else f"--print {options.style}"
        raise unimplemented(f"{what}: HLO cannot express this program: {program.reason}", span=program.span)
    from xyla.formats.mlir.printer import print_module

    return print_module(program.mlir).rstrip("\n") + "\n"


def _write_text(text: str, output: Path | None) -> None:
    if output is not None:
        output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


def _write_bytes(data: bytes, output: Path | None) -> None:
    if output is not None:
        output.write_bytes(data)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
