"""Everything the MLIR reader needs to read StableHLO programs."""

from __future__ import annotations

from xyla.formats.mlir.dialects import Dialects
from xyla.formats.stablehlo.assembly import REGULAR
from xyla.formats.stablehlo.assembly_other import OTHER
from xyla.formats.stablehlo.assembly_structured import STRUCTURED

STABLEHLO = Dialects({**REGULAR, **STRUCTURED, **OTHER})
