"""What the command line reads: programs and .npz arrays. Every failure is an XylaError that names the file."""

from __future__ import annotations

import re
import sys
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xyla.clients.random_args import leaf_shapes
from xyla.formats.detect import load_file
from xyla.hlo.module import Module
from xyla.hlo.shape import Shape
from xyla.support import dtypes
from xyla.support.dtypes import ElementType
from xyla.support.status import Status, XylaError, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xyla.formats.detect import Loaded
    from xyla.formats.stablehlo.program import StablehloProgram

Array = np.ndarray[Any, np.dtype[Any]]

STDIN = "<stdin>"
_NAMES = re.compile(r"(?:arg|in|out)\d+|expected\d*")
_SPLIT = re.compile(r"^// -----[^\n]*\n", re.M)


def read_bytes(file: str) -> tuple[bytes, str]:
    """The contents of `file` (`-`: standard input) and the name to report it by."""
    if file == "-":
        if sys.stdin is None:
            raise XylaError(Status.NOT_FOUND, "cannot read standard input: it is closed")
        return sys.stdin.buffer.read(), STDIN
    try:
        return Path(file).read_bytes(), file
    except OSError as error:
        raise XylaError(Status.NOT_FOUND, f"cannot read {file}: {error.strerror or error}") from error


def read_program(file: str, kind: str | None) -> Loaded:
    """Loads one program; `kind` names its language, None finds it from the content."""
    data, name = read_bytes(file)
    if kind is None:
        _refuse_below_hlo(data, name)
    return load_file(data, name, kind)


def _refuse_below_hlo(data: bytes, name: str) -> None:
    """What compiling made is named for what it is, where a reader of HLO would only find it damaged."""
    if data.startswith(b"XYLA"):
        from xyla.runtime.aot import is_saved

        if is_saved(data):
            raise invalid(f"{name} is a saved executable, not a program", hint="`xyla run FILE` runs it")
    if b"lmhlo" in data or b"rt.kernels" in data:
        from xyla.compiler.from_text import kind_of

        found = kind_of(data.decode("utf-8", "replace"))
        if found is not None:
            hint = "`xyla run FILE` and `xyla compile FILE` take it, from a file"
            raise invalid(f"{name} starts below HLO: it is {found}", hint=hint)


def refuse_ignored(file: str, *options: tuple[str, bool]) -> None:
    """Raises INVALID_ARGUMENT for an option (its name, whether it was given) that a program below HLO cannot heed."""
    for name, given in options:
        if given:
            raise invalid(f"{name} comes too late: {file} is no HLO, no pass will see it")


def read_programs(file: str, kind: str | None, split: bool) -> Iterable[Loaded]:
    """Loads the program of a file, or with `split` each of those that `// -----` lines part."""
    if not split:
        return [read_program(file, kind)]
    data, name = read_bytes(file)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid(f"{name}: --split-input-file needs a text file: {error}") from error
    return [load_file(piece.encode(), name, kind) for piece in _pieces(text)]


def _pieces(text: str) -> list[str]:
    """The parts of a text, each moved down by blank lines to where it stands in the whole, so that errors locate."""
    pieces, start = [], 0
    for match in _SPLIT.finditer(text):
        pieces.append("\n" * text.count("\n", 0, start) + text[start : match.start()])
        start = match.end()
    pieces.append("\n" * text.count("\n", 0, start) + text[start:])
    return [piece for piece in pieces if piece.strip()]


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file under the names that xyla knows: arg*, in*, out*, expected*. Never unpickles."""
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise invalid(f"{path} is a single array, not an .npz archive")
        with archive:
            return {name: archive[name] for name in archive.files if _NAMES.fullmatch(name)}
    except OSError as error:
        raise XylaError(Status.NOT_FOUND, f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        # NumPy's own text advises to unpickle, which loading a file never does here.
        why = "it holds pickled objects, or no arrays at all" if "pickle" in str(error) else str(error)
        raise invalid(f"{path} is not a readable .npz archive: {why}") from error
    except (EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise invalid(f"{path} is not a readable .npz archive: {error}") from error
    except MemoryError as error:
        raise XylaError(Status.RESOURCE_EXHAUSTED, f"{path}: an array does not fit in memory") from error


def numbered(arrays: Mapping[str, Array], *prefixes: str) -> list[Array]:
    """PREFIX0, PREFIX1, ... for the first prefix that has a 0; [] where none has.

    `expected` counts as `expected0`. Raises INVALID_ARGUMENT when a number is left out.
    """
    for prefix in prefixes:
        found = {int(name[len(prefix) :] or 0): name for name in arrays if re.fullmatch(rf"{prefix}\d*", name)}
        if not found:
            continue
        missing = next((i for i in range(len(found)) if i not in found), None)
        if missing is not None:
            raise invalid(f"the archive has {found[max(found)]} but no {prefix}{missing}")
        return [arrays[found[i]] for i in range(len(found))]
    return []


def bind_types(arrays: Iterable[Array], shapes: Iterable[Shape], what: str) -> list[Array]:
    """Gives arrays that NumPy could not name their type back, by the shapes they are for.

    An ml_dtypes array is saved as raw bytes, and int2/int4 values often as int8: both are reinterpreted. Whatever
    else differs is left for the callee to report. `what` ("argument", "expected") names them in errors.
    """
    given, leaves = list(arrays), leaf_shapes(shapes)
    if len(given) != len(leaves):
        raise invalid(f"the program takes {len(leaves)} {what}(s), the archive has {len(given)}")
    pairs = enumerate(zip(given, leaves, strict=True))
    return [_typed(array, leaf.element_type, f"{what} {i}") for i, (array, leaf) in pairs]


def as_module(program: Loaded, arrays: Sequence[Array]) -> Module:
    """The program as HLO; one that only its arguments make static takes their shapes (`arrays`, may be empty).

    Raises INVALID_ARGUMENT when a parameter's shape is open and no array is given for it.
    """
    if isinstance(program, Module):
        return program
    types = program.parameter_types
    shapes = [_open_shape(program, i, arrays[i] if i < len(arrays) else None) for i in range(len(types))]
    return program.refine(shapes, arrays)


def _open_shape(program: StablehloProgram, index: int, array: Array | None) -> Shape:
    from xyla.formats.mlir.types import TensorType
    from xyla.formats.stablehlo.program import NotHloError
    from xyla.formats.stablehlo.types import shape_of

    kind = program.parameter_types[index]
    try:
        return shape_of(kind)
    except NotHloError as error:
        if array is None:
            raise invalid(f"parameter {index} is {kind}: give --args with an array of a certain shape") from error
    try:
        named = str(kind.element) if isinstance(kind, TensorType) else ""
        element = dtypes.by_numpy(array.dtype) if "!" in named else dtypes.by_mlir(named)
    except KeyError as error:
        raise invalid(f"parameter {index} is {kind}: an array of {array.dtype} cannot be it") from error
    return Shape.array(element, array.shape)


def _typed(array: Array, kind: ElementType, where: str) -> Array:
    if array.dtype == kind.np:
        return array
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize == kind.itemsize:
        return array.view(kind.np)
    if kind.is_integer and kind.bits < 8 and array.dtype.name in ("int8", "uint8"):
        narrow = array.astype(kind.np)
        if np.array_equal(narrow.astype(array.dtype), array):
            return narrow
        raise invalid(f"{where}: a value does not fit {kind}")
    return array
