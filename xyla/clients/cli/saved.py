"""Saved executables as the command line reads them."""

from __future__ import annotations

from pathlib import Path

from xyla.hlo.shape import Shape
from xyla.runtime.aot import MAGIC, is_saved
from xyla.runtime.program import Program
from xyla.support.dtypes import by_numpy


def is_saved_file(file: str) -> bool:
    """Whether a file is an executable that xyla saved, whole or damaged."""
    path = Path(file)
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return path.suffix == ".xyla" or is_saved(stream.read(len(MAGIC)))


def parameter_shapes(program: Program) -> list[Shape]:
    """The shapes of a program's arguments, one a leaf."""
    return [Shape.array(by_numpy(a.type.dtype), a.type.dims) for a in program.arguments]
