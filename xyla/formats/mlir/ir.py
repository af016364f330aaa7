"""The generic MLIR structure: operations, values, blocks, regions. What any dialect's text becomes.

It is a plain tree: no verification beyond what parsing needs, no use lists. Locations are kept as written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xyla.formats.mlir.attributes import Attribute, StringAttr
from xyla.formats.mlir.types import Type
from xyla.support.diagnostics import Source, Span


@dataclass(frozen=True, slots=True)
class Location:
    """Base of all locations; the base itself is `unknown`."""

    def __str__(self) -> str:
        return "unknown"


@dataclass(frozen=True, slots=True)
class FileLoc(Location):
    """`"file":line:col`, and `to line:col` when it is a range (`end`; line 0 means the same line)."""

    file: str
    line: int
    col: int
    end: tuple[int, int] | None = None

    def __str__(self) -> str:
        from xyla.formats.mlir.attributes import quote

        tail = ""
        if self.end is not None:
            line, col = self.end
            tail = f" to {line}:{col}" if line else f" to :{col}"
        return f"{quote(self.file)}:{self.line}:{self.col}{tail}"


@dataclass(frozen=True, slots=True)
class NameLoc(Location):
    """`"name"(child)`."""

    name: str
    child: Location | None = None

    def __str__(self) -> str:
        from xyla.formats.mlir.attributes import quote

        return quote(self.name) + (f"({self.child})" if self.child is not None else "")


@dataclass(frozen=True, slots=True)
class CallSiteLoc(Location):
    """`callsite(callee at caller)`."""

    callee: Location
    caller: Location

    def __str__(self) -> str:
        return f"callsite({self.callee} at {self.caller})"


@dataclass(frozen=True, slots=True)
class FusedLoc(Location):
    """`fused<metadata>[a, b]`."""

    parts: tuple[Location, ...]
    metadata: Attribute | None = None

    def __str__(self) -> str:
        meta = f"<{self.metadata}>" if self.metadata is not None else ""
        return f"fused{meta}[{', '.join(map(str, self.parts))}]"


@dataclass(frozen=True, slots=True)
class AliasLoc(Location):
    """`#loc3`: resolve it with `MlirModule.resolve` (the definition may come after the use)."""

    alias: str

    def __str__(self) -> str:
        return f"#{self.alias}"


UNKNOWN = Location()


class Value:
    """An SSA value: result `index` of an operation, or argument `index` of a block (`owner` None while undefined)."""

    __slots__ = ("index", "loc", "name", "owner", "type")

    def __init__(self, name: str, type: Type, owner: Operation | Block | None, index: int) -> None:
        self.name = name
        self.type = type
        self.owner = owner
        self.index = index
        self.loc: Location | None = None

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


class Operation:
    """One operation.

    `properties` holds what stood between `<{` and `}>` (inherent attributes of a custom form too), `attributes` the
    `{...}` dictionary: `get` asks both, since older text keeps inherent attributes in the latter.
    `start`, `end` are offsets into the module's source.
    """

    __slots__ = (
        "attributes", "end", "loc", "name", "operands", "properties", "regions", "results", "start", "successors",
    )  # fmt: skip

    def __init__(self, name: str, start: int = -1) -> None:
        self.name = name
        self.operands: list[Value] = []
        self.results: list[Value] = []
        self.properties: dict[str, Attribute] = {}
        self.attributes: dict[str, Attribute] = {}
        self.regions: list[Region] = []
        self.successors: list[Successor] = []
        self.loc: Location | None = None
        self.start = start
        self.end = start

    def get(self, key: str) -> Attribute | None:
        """The attribute under `key`, inherent or not; None if there is none."""
        found = self.properties.get(key)
        return found if found is not None else self.attributes.get(key)

    @property
    def operand_types(self) -> list[Type]:
        """The types of the operands."""
        return [v.type for v in self.operands]

    @property
    def result_types(self) -> list[Type]:
        """The types of the results."""
        return [v.type for v in self.results]

    @property
    def symbol_name(self) -> str | None:
        """The `sym_name` of a symbol operation."""
        name = self.get("sym_name")
        return name.value if isinstance(name, StringAttr) else None

    def walk(self) -> Iterator[Operation]:
        """This operation and all nested ones, in source order, without recursion."""
        stack = [self]
        while stack:
            op = stack.pop()
            yield op
            nested = [inner for region in op.regions for block in region.blocks for inner in block.operations]
            stack.extend(reversed(nested))

    def __repr__(self) -> str:
        return f"<{self.name} {self.operands} -> {self.results}>"


@dataclass(slots=True)
class Successor:
    """A branch target and the values passed to it; `block` is filled in when the region ends."""

    label: str
    operands: list[Value]
    block: Block | None = None


class Block:
    """A block: its label ("" for an unlabelled entry block), arguments and operations."""

    __slots__ = ("arguments", "label", "operations")

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.arguments: list[Value] = []
        self.operations: list[Operation] = []


class Region:
    """A list of blocks."""

    __slots__ = ("blocks",)

    def __init__(self, blocks: list[Block] | None = None) -> None:
        self.blocks = blocks if blocks is not None else []

    @property
    def entry(self) -> Block | None:
        """The first block, or None if the region is empty."""
        return self.blocks[0] if self.blocks else None


@dataclass(slots=True)
class MlirModule:
    """A parsed file: the top `builtin.module` (made up when the text has none), its source and its aliases."""

    op: Operation
    source: Source
    locations: dict[str, Location] = field(default_factory=dict)

    @property
    def body(self) -> list[Operation]:
        """The operations of the top module."""
        entry = self.op.regions[0].entry if self.op.regions else None
        return entry.operations if entry is not None else []

    def symbols(self) -> dict[str, Operation]:
        """The symbol operations of the top module by name, in source order."""
        return {name: op for op in self.body if (name := op.symbol_name) is not None}

    def resolve(self, loc: Location | None) -> Location:
        """`loc` with a leading alias followed (nested ones stay); UNKNOWN for a missing or circular alias."""
        hops = 0
        while isinstance(loc, AliasLoc):
            loc = self.locations.get(loc.alias)
            hops += 1
            if hops > len(self.locations):
                return UNKNOWN
        return loc if loc is not None else UNKNOWN

    def span(self, op: Operation) -> Span:
        """Where the operation stands in the source."""
        return Span(self.source, op.start, op.end)
