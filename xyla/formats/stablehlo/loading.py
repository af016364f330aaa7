"""The entry to StableHLO: text in, `hlo.Module` out (or a `StablehloProgram` for what HLO cannot express)."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from xyla.formats.mlir.attributes import StringAttr
from xyla.formats.mlir.ir import MlirModule, Operation
from xyla.formats.mlir.parser import parse_module
from xyla.formats.stablehlo.convert import convert
from xyla.formats.stablehlo.dialect import STABLEHLO
from xyla.formats.stablehlo.program import NotHloError, StablehloProgram
from xyla.formats.stablehlo.types import shape_of
from xyla.hlo.module import Module
from xyla.support.diagnostics import Span
from xyla.support.status import Status, XylaError, invalid


def load(text: str, name: str = "<stablehlo>") -> Module | StablehloProgram:
    """Reads a StableHLO program; `name` is what errors call the file.

    One result becomes the entry's root itself, several a tuple. Raises INVALID_ARGUMENT and UNIMPLEMENTED, located.
    """
    with paused_collector():
        return from_mlir(parse_module(text, name, STABLEHLO), name)


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Cyclic garbage collection off: a program being read is all live, and scanning it takes a third of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def from_mlir(mlir: MlirModule, name: str = "<stablehlo>") -> Module | StablehloProgram:
    """The same for a module that is parsed already."""
    mlir = _unwrapped(mlir)
    main = main_function(mlir)
    try:
        return convert(mlir, main)
    except NotHloError as error:
        return _folded(StablehloProgram(name, mlir, main, error.reason, error.span))
    except RecursionError:
        raise invalid("regions nest too deeply", span=mlir.span(main)) from None


def _folded(program: StablehloProgram) -> Module | StablehloProgram:
    """A program whose parameters are static may need no more than its shape arithmetic folded."""
    shapes = []
    for kind in program.parameter_types:
        try:
            shapes.append(shape_of(kind))
        except (NotHloError, XylaError):
            # A type that is no good at all is reported, located, when the parameter is converted.
            return program
    try:
        return program.refine(shapes)
    except XylaError as error:
        # What waits for values is UNIMPLEMENTED now; a fault is reported at once.
        if error.status is Status.UNIMPLEMENTED:
            return program
        raise


def _unwrapped(mlir: MlirModule) -> MlirModule:
    """A module that holds nothing but one module stands for that one."""
    op = mlir.op
    while len(inner := _operations(op)) == 1 and inner[0].name == "builtin.module":
        op = inner[0]
    return mlir if op is mlir.op else MlirModule(op, mlir.source, mlir.locations)


def _operations(op: Operation) -> list[Operation]:
    entry = op.regions[0].entry if op.regions else None
    return entry.operations if entry is not None else []


def main_function(mlir: MlirModule) -> Operation:
    """@main; without one, the only function with a body that is not private. Raises INVALID_ARGUMENT otherwise."""
    functions = {n: op for n, op in mlir.symbols().items() if op.name == "func.func" and op.regions}
    main = functions.get("main")
    if main is not None:
        return main
    public = [op for op in functions.values() if op.get("sym_visibility") != StringAttr("private")]
    if len(public) == 1:
        return public[0]
    where = mlir.span(mlir.op) if mlir.op.start >= 0 else Span(mlir.source, 0, 1)
    if not functions:
        raise invalid("the program has no function", span=where)
    names = ", ".join("@" + n for n in list(functions)[:5])
    raise invalid(f"the program has no @main function, and several others: {names}", span=where)
