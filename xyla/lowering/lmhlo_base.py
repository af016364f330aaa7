"""What every LMHLO operation is made of: views of memory, tokens, blocks, roles of fields, the registry by name.

An operation is a slotted dataclass whose fields say what they are (`operand()`, `attr(codec)`, `region()`, ...). The
printer, the reader, the verifier and equality all derive from that: there is no code for any one operation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, ClassVar, TypeVar

from xyla.hlo.module import Instruction
from xyla.lowering.lmhlo_attrs import Codec
from xyla.lowering.units import Unit
from xyla.runtime.program import ArrayType, Slice
from xyla.support.diagnostics import Span

C = TypeVar("C", bound="type[Op]")


class Space(Enum):
    """Whose bytes a view is of: a function argument's, a module constant's, or the host's own stack."""

    ARGUMENT = "argument"
    GLOBAL = "global"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class View:
    """An array in memory: `slice` of allocation number `slice.allocation`, read as `type`.

    The number is an argument's for Space.ARGUMENT, a constant's (of the module) for GLOBAL, and for HOST a number of
    its own for each piece of host memory.
    """

    slice: Slice
    type: ArrayType
    space: Space = Space.ARGUMENT


@dataclass(frozen=True, slots=True)
class Token:
    """What a start operation hands to its done operation: an event, without data. Numbered in a function's order."""

    number: int


@dataclass(slots=True, eq=False)
class Block:
    """A sequence of operations; its terminator is implied."""

    ops: list[Op] = field(default_factory=list)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and _same_blocks([(self, other)])

    __hash__ = object.__hash__

    def walk(self) -> Iterator[Op]:
        """Every operation, outer before inner, in order, without recursion."""
        stack: list[Iterator[Op]] = [iter(self.ops)]
        while stack:
            op = next(stack[-1], None)
            if op is None:
                stack.pop()
                continue
            yield op
            stack.extend(iter(b.ops) for b in reversed(blocks_of(op)))


class Role(Enum):
    """What a field of an operation is."""

    OPERAND = "operand"  # View
    OPTIONAL = "optional operand"  # View | None
    OPERANDS = "operands"  # tuple[View, ...]
    TOKEN = "token"  # Token, an operand
    TOKEN_RESULT = "token result"  # Token
    ATTRIBUTE = "attribute"
    REGION = "region"  # Block
    REGIONS = "regions"  # tuple[Block, ...]
    REDUCER = "reducer"  # Reducer: a region of scalar operations


_ROLE, _CODEC = "role", "codec"


def _field(role: Role, **kwargs: Any) -> Any:
    return field(metadata={_ROLE: role}, **kwargs)


def operand() -> Any:
    """A field for one view."""
    return _field(Role.OPERAND)


def optional_operand() -> Any:
    """A field for one view or None."""
    return _field(Role.OPTIONAL, default=None, kw_only=True)


def operands() -> Any:
    """A field for a tuple of views."""
    return _field(Role.OPERANDS)


def token() -> Any:
    """A field for the token that the operation takes."""
    return _field(Role.TOKEN)


def token_result() -> Any:
    """A field for the token that the operation makes."""
    return _field(Role.TOKEN_RESULT)


def attr(codec: Codec, default: Any = dataclasses.MISSING) -> Any:
    """A field for an attribute that is spelt by `codec`. A value of None is not written.

    One with a default is given by keyword.
    """
    metadata = {_ROLE: Role.ATTRIBUTE, _CODEC: codec}
    if default is dataclasses.MISSING:
        return field(metadata=metadata)
    return field(metadata=metadata, default=default, kw_only=True)


def region() -> Any:
    """A field for a block of operations."""
    return _field(Role.REGION)


def regions() -> Any:
    """A field for a tuple of blocks."""
    return _field(Role.REGIONS)


def reducer() -> Any:
    """A field for the reduction that a collective applies."""
    return _field(Role.REDUCER)


@dataclass(slots=True, eq=False, kw_only=True)
class Op:
    """One unit of work on buffers.

    name: the HLO instruction's, kept in text as the location. span: where it was written. unit and instruction: what
    the target made of which instruction, when the operation comes from HLO and not from text. Equality is of names
    and declared fields.
    """

    NAME: ClassVar[str] = ""
    SAME_SIZE: ClassVar[bool] = False  # two variadic groups of equal length: no segment sizes in text

    name: str = ""
    span: Span | None = field(default=None, repr=False)
    unit: Unit | None = field(default=None, repr=False)
    instruction: Instruction | None = field(default=None, repr=False)

    @property
    def mnemonic(self) -> str:
        """The operation's name in text: `lmhlo.while`."""
        return self.NAME

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and _same_blocks([(Block([self]), Block([other]))])

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One declared field: its name, role, codec (attributes) and default (MISSING where it must be given)."""

    name: str
    role: Role
    codec: Codec | None
    default: Any


@dataclass(frozen=True, slots=True)
class OpSpec:
    """What text needs to know of an operation; derived from the dataclass's fields, in their order."""

    name: str
    cls: type[Op]
    operands: tuple[FieldSpec, ...]
    results: tuple[FieldSpec, ...]
    attributes: tuple[FieldSpec, ...]
    regions: tuple[FieldSpec, ...]

    @property
    def segmented(self) -> bool:
        """Whether `operand_segment_sizes` says how the operands are divided."""
        loose = [f for f in self.operands if f.role in (Role.OPERANDS, Role.OPTIONAL)]
        return len(loose) > 1 and not self.cls.SAME_SIZE


_OPS: dict[str, type[Op]] = {}
_OPERAND_ROLES = frozenset({Role.OPERAND, Role.OPTIONAL, Role.OPERANDS, Role.TOKEN})
_REGION_ROLES = frozenset({Role.REGION, Role.REGIONS, Role.REDUCER})


def define(name: str, *, same_size: bool = False) -> Callable[[C], C]:
    """Registers an operation under its name in text. `same_size`: see `Op.SAME_SIZE`."""

    def register(cls: C) -> C:
        assert name not in _OPS, f"{name} is declared twice"
        cls.NAME = name
        cls.SAME_SIZE = same_size
        _OPS[name] = cls
        return cls

    return register


def find(name: str) -> type[Op] | None:
    """The operation class of that name in text, or None."""
    return _OPS.get(name)


def all_ops() -> tuple[type[Op], ...]:
    """Every declared operation, in order of declaration."""
    return tuple(_OPS.values())


def spec_of(cls: type[Op]) -> OpSpec:
    """The derived description of an operation."""
    return _spec(cls.NAME)


@cache
def _spec(name: str) -> OpSpec:
    cls = _OPS[name]
    specs = [
        FieldSpec(f.name, f.metadata[_ROLE], f.metadata.get(_CODEC), f.default)
        for f in dataclasses.fields(cls)
        if _ROLE in f.metadata
    ]

    def having(roles: frozenset[Role]) -> tuple[FieldSpec, ...]:
        return tuple(s for s in specs if s.role in roles)

    return OpSpec(
        name,
        cls,
        having(_OPERAND_ROLES),
        having(frozenset({Role.TOKEN_RESULT})),
        having(frozenset({Role.ATTRIBUTE})),
        having(_REGION_ROLES),
    )


def blocks_of(op: Op) -> tuple[Block, ...]:
    """The blocks of an operation's regions, in order."""
    found: list[Block] = []
    for f in spec_of(type(op)).regions:
        value = getattr(op, f.name)
        if f.role is Role.REGION:
            found.append(value)
        elif f.role is Role.REGIONS:
            found.extend(value)
    return tuple(found)


def views_of(op: Op) -> tuple[View, ...]:
    """The views that are an operation's own operands, in order."""
    found: list[View] = []
    for f in spec_of(type(op)).operands:
        value = getattr(op, f.name)
        if f.role is Role.OPERANDS:
            found.extend(value)
        elif f.role is not Role.TOKEN and value is not None:
            found.append(value)
    return tuple(found)


def _same_blocks(pairs: list[tuple[Block, Block]]) -> bool:
    """Whether the blocks of each pair hold equal operations, nested ones too; without recursion."""
    while pairs:
        a, b = pairs.pop()
        if len(a.ops) != len(b.ops):
            return False
        for x, y in zip(a.ops, b.ops, strict=True):
            if not _same_op(x, y):
                return False
            inner = blocks_of(x), blocks_of(y)
            if len(inner[0]) != len(inner[1]):
                return False
            pairs.extend(zip(*inner, strict=True))
    return True


def _same_op(x: Op, y: Op) -> bool:
    if type(x) is not type(y) or x.name != y.name or x.mnemonic != y.mnemonic:
        return False
    spec = spec_of(type(x))
    own = (*spec.operands, *spec.results, *spec.attributes, *(f for f in spec.regions if f.role is Role.REDUCER))
    return all(getattr(x, f.name) == getattr(y, f.name) for f in own)
