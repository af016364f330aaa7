"""StableHLO: its assembly, and its conversion to `hlo.Module`. Entry: `xyla.formats.stablehlo.load`.

The conversion is imported when something is loaded: others read attributes of the dialect only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xyla.formats.stablehlo.loading import from_mlir, load
    from xyla.formats.stablehlo.program import StablehloProgram

BYTECODE_MAGIC = b"ML\xefR"


def is_bytecode(data: bytes) -> bool:
    """Whether `data` is MLIR bytecode (portable StableHLO artifacts are)."""
    return data.startswith(BYTECODE_MAGIC)


def __getattr__(name: str) -> Any:
    if name not in ("StablehloProgram", "from_mlir", "load"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from xyla.formats.stablehlo import loading

    return getattr(loading, name)


__all__ = ["StablehloProgram", "from_mlir", "is_bytecode", "load"]
