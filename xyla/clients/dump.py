"""Dumps: what --dump-to and --xla_dump_to write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from xyla.hlo.module import Module
from xyla.support.flags import Flags

if TYPE_CHECKING:
    from xyla.formats.detect import Loaded

_UNSAFE = re.compile(r"[^\w.-]+")


def dump_program(program: Loaded, folder: Path, stage: str, flags: Flags) -> list[Path]:
    """Writes `program` as FOLDER/NAME.STAGE.txt, and as .hlo.pb when `flags` ask for protos. Returns what it wrote.

    A program that HLO cannot express is written as NAME.STAGE.mlir. A module whose name does not match
    `xla_dump_hlo_module_re` is left out. `stage` is e.g. before_optimizations. Raises OSError.
    """
    if not re.search(flags.xla_dump_hlo_module_re, program.name):
        return []
    folder.mkdir(parents=True, exist_ok=True)
    # A module's name may hold slashes and dots of its own; the file stays in the folder.
    stem = f"{_UNSAFE.sub('_', program.name).lstrip('.') or 'module'}.{stage}"
    written: list[Path] = []
    if flags.xla_dump_hlo_as_text or not isinstance(program, Module):
        path = folder / f"{stem}.{'txt' if isinstance(program, Module) else 'mlir'}"
        path.write_text(_text(program), encoding="utf-8")
        written.append(path)
    if flags.xla_dump_hlo_as_proto and isinstance(program, Module):
        from xyla.formats import hlo_proto

        path = folder / f"{stem}.hlo.pb"
        path.write_bytes(hlo_proto.to_bytes(program))
        written.append(path)
    return written


def _text(program: Loaded) -> str:
    if isinstance(program, Module):
        return str(program)
    from xyla.formats.mlir.printer import print_module

    return print_module(program.mlir)
