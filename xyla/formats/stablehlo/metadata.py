"""MLIR locations as HLO metadata.

A name that ends in ':' is the operation's type, other names join to its full name, and the first file location is its
source. Source: how XLA's importer reads JAX's locations, as seen in the programs it prints.
"""

from __future__ import annotations

from xyla.formats.mlir.ir import CallSiteLoc, FileLoc, FusedLoc, Location, MlirModule, NameLoc
from xyla.hlo.module import Metadata

# A location tree larger than this is cut off: only its first names and its first file matter.
_MAX_PARTS = 1000


def metadata_of(module: MlirModule, loc: Location | None) -> Metadata | None:
    """The metadata that `loc` amounts to; None when it says nothing."""
    if loc is None:
        return None
    names: list[str] = []
    op_type = ""
    file: FileLoc | None = None
    stack = [loc]
    for _ in range(_MAX_PARTS):
        if not stack:
            break
        part = module.resolve(stack.pop())
        if isinstance(part, NameLoc):
            if part.name.endswith(":"):
                op_type = op_type or part.name[:-1]
            elif part.name and file is None and not _is_frame(part, module):
                names.append(part.name)
            if part.child is not None:
                stack.append(part.child)
        elif isinstance(part, CallSiteLoc):
            stack.append(part.callee)
        elif isinstance(part, FusedLoc):
            stack.extend(reversed(part.parts))
        elif isinstance(part, FileLoc) and file is None:
            file = part
    if not names and not op_type and file is None:
        return None
    name = ";".join(dict.fromkeys(names))
    if file is None:
        return Metadata(op_type=op_type, op_name=name)
    end_line, end_column = _end(file)
    return Metadata(op_type, name, file.file, file.line, end_line, file.col, end_column)


def _is_frame(part: NameLoc, module: MlirModule) -> bool:
    """Whether this name is a stack frame's function (`"main"("file.py":3:4)`) below a named operation."""
    return isinstance(module.resolve(part.child), FileLoc) and "/" not in part.name and "(" not in part.name


def _end(file: FileLoc) -> tuple[int, int]:
    if file.end is None:
        return 0, 0
    line, column = file.end
    return line or file.line, column
