"""How a dialect plugs its own assembly into the reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xyla.formats.mlir.ir import Operation
    from xyla.formats.mlir.parser import Parser
    from xyla.formats.mlir.types import Type

# Called with the current token just past the operation's name. It fills in operands, properties, attributes, regions
# and successors, stops before a trailing `loc(...)`, and returns the result types.
CustomParser = Callable[["Parser", "Operation"], "list[Type]"]


@dataclass(frozen=True, slots=True)
class Dialects:
    """What the reader knows about dialects.

    custom: assembly parsers by full operation name. isolated: operations whose regions see no outer values.
    default_dialect: operations whose regions may omit a dialect prefix, with that prefix (func.func -> "func").
    """

    custom: Mapping[str, CustomParser] = field(default_factory=dict)
    isolated: frozenset[str] = frozenset()
    default_dialect: Mapping[str, str] = field(default_factory=dict)

    def plus(self, other: Dialects) -> Dialects:
        """Both sets together. Raises ValueError when an operation has two parsers."""
        twice = sorted(set(self.custom) & set(other.custom))
        if twice:
            raise ValueError(f"two assembly parsers for {', '.join(twice)}")
        return Dialects(
            {**self.custom, **other.custom},
            self.isolated | other.isolated,
            {**self.default_dialect, **other.default_dialect},
        )
