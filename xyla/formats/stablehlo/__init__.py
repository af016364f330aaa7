"""StableHLO: its assembly, and its conversion to `hlo.Module`. Entry: `xyla.formats.stablehlo.load`."""

from __future__ import annotations

from xyla.formats.stablehlo.load import from_mlir, load
from xyla.formats.stablehlo.program import StablehloProgram

BYTECODE_MAGIC = b"ML\xefR"


def is_bytecode(data: bytes) -> bool:
    """Whether `data` is MLIR bytecode (portable StableHLO artifacts are)."""
    return data.startswith(BYTECODE_MAGIC)


__all__ = ["StablehloProgram", "from_mlir", "is_bytecode", "load"]
