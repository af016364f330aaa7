"""Saved executables as the command line reads them."""

from __future__ import annotations

from pathlib import Path

from xyla.hlo.shape import Shape
from xyla.runtime.aot import MAGIC, is_saved
from xyla.runtime.dynamic import DynamicExecutable
from xyla.runtime.executable import Executable
from xyla.support.dtypes import by_numpy


def is_saved_file(file: str) -> bool:
    """Whether a file is an executable that xyla saved, whole or damaged."""
    path = Path(file)
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return path.suffix == ".xyla" or is_saved(stream.read(len(MAGIC)))


def parameter_shapes(executable: Executable) -> list[Shape]:
    """The shapes of an executable's arguments, one a leaf; the bounds of dynamic ones."""
    arguments = executable.program.arguments
    if isinstance(executable, DynamicExecutable):
        arguments = arguments[: len(executable.interface.arguments)]
    return [Shape.array(by_numpy(a.type.dtype), a.type.dims) for a in arguments]
