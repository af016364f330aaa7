"""`xyla memory`: what a program needs at its peak, by source line, and what would reduce it; before running it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xyla.clients.cli.common import FileArgument, FromOption
from xyla.clients.cli.pass_commands import FpMode, FpOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xyla.buffers.assignment import BufferAssignment
    from xyla.buffers.profile import Alive, Profile

OVER = 1
_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Options:
    """The command's options; `limit` in bytes."""

    file: str
    source: str | None
    limit: int | None
    passes: str
    fp: str
    most: int
    dump_to: Path | None
    dump_proto: bool


def memory(
    file: FileArgument,
    limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Exit with 1 when a run needs more: 8GiB, 500MB, ...")
    ] = None,
    passes: Annotated[
        str, typer.Option(metavar="LIST", help="default: the CPU's pipeline; none; or passes as opt takes them.")
    ] = "default",
    fp: FpOption = FpMode.DEFAULT,
    most: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Show at most N lines of the source.")] = 12,
    dump_to: Annotated[
        Path | None, typer.Option(help="Write buffer-assignment, live-range and memory-usage-report files here.")
    ] = None,
    dump_proto: Annotated[
        bool, typer.Option(help="With --dump-to: also NAME.hlo.pb, module and buffers, as XLA's tools read it.")
    ] = False,
    source: FromOption = None,
) -> None:
    """Show how much memory a run needs and when, what is alive at the peak, and what would reduce it."""
    bytes_ = None if limit is None else parse_size(limit)
    options = Options(file, source.value if source else None, bytes_, passes, fp.value, most, dump_to, dump_proto)
    raise typer.Exit(execute(options))


def parse_size(text: str) -> int:
    """Bytes of `8GiB`, `1.5 MB`, `4096`. Raises INVALID_ARGUMENT."""
    from xyla.support.status import invalid

    match = _SIZE.fullmatch(text.strip())
    if match is None or (match[3] and not match[2]):
        raise invalid(f"{text!r} is not a size", hint="sizes look like 8GiB, 500MB or 4096")
    unit = _UNITS[match[2].lower()]
    if match[3]:
        unit = 1024 ** "kmgt".index(match[2].lower()) * 1024
    return int(float(match[1]) * unit)


def execute(options: Options) -> int:
    """Plans the program's memory and prints the report. Returns the exit code; raises XylaError on a bad input."""
    from xyla.buffers.dump import write_dumps
    from xyla.buffers.profile import Profile, text_of

    found = plan(options)
    if options.dump_to is not None:
        stem = re.sub(r"[^\w.-]", "_", found.module.name)[:100]
        write_dumps(options.dump_to, stem, found)
        if options.dump_proto:
            from xyla.buffers.proto import to_hlo_proto

            (options.dump_to / f"{stem}.hlo.pb").write_bytes(to_hlo_proto(found).SerializeToString(deterministic=True))
    profile = Profile(found)
    needed = found.stats.total
    _print(profile, options.most)
    if options.limit is None:
        return 0
    over = needed - options.limit
    word = f"over the limit of {text_of(options.limit)} by {text_of(over)}" if over > 0 else "within the limit"
    sys.stdout.write(f"{text_of(needed)}: {word}\n")
    return OVER if over > 0 else 0


def plan(options: Options) -> BufferAssignment:
    """The buffers that a run of the program would use. No machine code is made."""
    from xyla.clients.cli.inputs import read_program
    from xyla.compiler.driver import Compilation, CompileOptions
    from xyla.hlo.module import Module
    from xyla.passmgr.context import Fp
    from xyla.support.status import unimplemented

    module = read_program(options.file, options.source)
    if not isinstance(module, Module):
        raise unimplemented("a program of dynamic shapes: how much memory it needs depends on its arguments")
    return Compilation(module, CompileOptions(passes=options.passes, fp=Fp(options.fp))).assignment


def _print(profile: Profile, most: int) -> None:
    from rich import box
    from rich.table import Table

    from xyla.buffers.memory_report import peak_by_line, suggestions
    from xyla.buffers.profile import text_of
    from xyla.clients.cli.console import console

    out = console()
    stats = profile.assignment.stats
    total = profile.fixed + profile.peak
    out.print(f"{profile.assignment.module.name} needs {text_of(stats.total)}")
    out.print(f"  arguments {text_of(stats.parameters)}, constants {text_of(stats.constants)}")
    out.print(f"  results {text_of(stats.outputs)}")
    out.print(f"  temporaries {text_of(stats.temporaries)}; no packing needs less than {text_of(stats.lower_bound)}")
    out.print(f"  alive at once at most {text_of(total)}\n")
    for row in profile.plot():
        out.print(row)
    out.print(f"{'':>12}what is alive over the schedule; ░ arguments and constants\n")
    table = Table(box=box.SIMPLE_HEAD, title="alive at the peak", title_justify="left", title_style="")
    for column in ("bytes", "share"):
        table.add_column(column, justify="right")
    table.add_column("where")
    table.add_column("values")
    lines = peak_by_line(profile)
    for line in lines[:most]:
        table.add_row(text_of(line.bytes), f"{100 * line.bytes / total:.0f}%", line.where, _values(line.values))
    if len(lines) > most:
        rest = sum(line.bytes for line in lines[most:])
        table.add_row(text_of(rest), f"{100 * rest / total:.0f}%", _others(len(lines) - most), "")
    out.print(table)
    found = suggestions(profile)
    out.print("what would reduce it" if found else "nothing simple would reduce it")
    for s in found[:most]:
        out.print(f"  -{text_of(s.bytes)}  {s.text}")


def _others(count: int) -> str:
    return "1 other place" if count == 1 else f"{count} other places"


def _values(values: Sequence[Alive]) -> str:
    return values[0].text + (f" and {len(values) - 1} more" if len(values) > 1 else "")
