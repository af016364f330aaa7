"""What an opcode *is*: one value per opcode, nothing about how any consumer treats it.

An op's attributes are a frozen dataclass whose fields are declared with `attr(kind)`. The HLO text parser and printer,
the proto reader and writer, structural equality and hashing all derive from those fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from xyla.hlo.module import Computation, Instruction
    from xyla.hlo.shape import Shape


class AttrKind(Enum):
    """How an attribute is spelt; each format owns a table of codecs keyed by kind."""

    BOOL = auto()
    INT = auto()  # index_vector_dim=1
    INTS = auto()  # dimensions={0,1}
    INT_IN_BRACES = auto()  # dimensions={0}, exactly one
    FLOAT = auto()  # epsilon=0.001
    STRING = auto()  # custom_call_target="x"
    ENUM = auto()  # direction=LT; the field's type is an enum whose values are XLA's words
    SHAPE = auto()  # outfeed_shape=f32[2]
    SHAPES = auto()  # operand_layout_constraints={f32[2]{0}, s32[]}
    LITERAL = auto()  # the payload between the parentheses of a constant, or literal=
    WINDOW = auto()  # window={size=3x3 pad=1_1x1_1}
    CONV_DIMS = auto()  # dim_labels=b01f_01io->b01f
    PADDING = auto()  # padding=0_1x2_3_1
    SLICE = auto()  # slice={[0:2], [1:8:3]}
    REPLICA_GROUPS = auto()  # replica_groups={{0,1},{2,3}} | [2,4]<=[8] | mesh form
    PAIRS = auto()  # source_target_pairs={{0,1},{1,2}}
    PRECISION = auto()  # operand_precision={highest,default}
    SPARSITY = auto()  # sparsity=L.1@2:4
    ALIASING = auto()  # output_to_operand_aliasing={{0}: (1, {})}
    OPERAND = auto()  # the argument between the parentheses that is not an operand: parameter(0)
    BIJECTIONS = auto()  # bijection_inputs etc. kept as text
    RAW = auto()  # any {...} or token text, kept verbatim


_KIND = "xyla.kind"
_KEY = "xyla.key"
_ALWAYS = "xyla.always"


def attr(kind: AttrKind, default: Any = dataclasses.MISSING, *, key: str = "", always: bool = False) -> Any:
    """Declares an attribute field.

    `key`: its name in HLO text (default: the field's name). Without `default` the attribute is required. With one it is
    printed only when it differs from the default, unless `always`.
    """
    meta = {_KIND: kind, _KEY: key, _ALWAYS: always}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=meta)
    return dataclasses.field(default=default, metadata=meta)


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """One attribute field, as the formats see it. `type` is the field's declared enum class for ENUM kinds."""

    name: str
    key: str
    kind: AttrKind
    required: bool
    default: Any
    always: bool
    enum: type[Enum] | None


@dataclass(frozen=True, slots=True)
class Attrs:
    """Base of every per-opcode attribute record: a hashable value. Called computations are not attributes."""


@dataclass(frozen=True, slots=True)
class NoAttrs(Attrs):
    """An op without attributes."""


NO_ATTRS = NoAttrs()


class Trait(Flag):
    """Facts that passes ask about an opcode."""

    NONE = 0
    ELEMENTWISE = auto()
    COMMUTATIVE = auto()
    ASSOCIATIVE = auto()
    SIDE_EFFECT = auto()  # never removed, duplicated or reordered
    COLLECTIVE = auto()
    ASYNC_START = auto()
    ASYNC_DONE = auto()
    DATA_MOVEMENT = auto()  # every output element is a copy of an operand element (or a padding value)
    LEAF = auto()  # states its own shape; nothing to infer from
    STATEFUL_RNG = auto()  # two executions may differ


A = TypeVar("A", bound=Attrs)
InferFn = Callable[["Sequence[Shape]", Any, "Sequence[Computation]"], "Shape"]
VerifyFn = Callable[["Instruction"], None]


@dataclass(frozen=True, slots=True, eq=False)
class OpDef(Generic[A]):
    """An opcode.

    name: XLA's opcode text ("dynamic-slice"). arity: operand count, or None when variadic (then `min_arity` holds).
    infer(operand_shapes, attrs, called) -> shape; raises XylaError(INVALID_ARGUMENT) naming what is wrong; None for ops
    that state their own shape. verify(inst): extra rules beyond shape inference. called: the roles of called
    computations in order ("to_apply",); a last role ending in "*" takes any number ("branch_computations*").
    """

    name: str
    arity: int | None
    attrs: type[A]
    infer: InferFn | None
    spec: str
    traits: Trait = Trait.NONE
    called: tuple[str, ...] = ()
    verify: VerifyFn | None = None
    min_arity: int = 0

    def has(self, trait: Trait) -> bool:
        """Whether the op has every flag in `trait`."""
        return trait in self.traits

    def attrs_of(self, inst: Instruction) -> A:
        """Typed view of the attributes of an instruction of this op."""
        assert inst.op is self
        return cast("A", inst.attrs)

    @property
    def specs(self) -> tuple[AttrSpec, ...]:
        """The attribute fields, in declaration order (also the order they print in)."""
        return attr_specs(self.attrs)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return op_by_name, (self.name,)


_REGISTRY: dict[str, OpDef[Any]] = {}
_SPECS: dict[type[Attrs], tuple[AttrSpec, ...]] = {}


def define(op: OpDef[A]) -> OpDef[A]:
    """Registers an opcode. Raises ValueError when it is declared twice."""
    if op.name in _REGISTRY:
        raise ValueError(f"opcode {op.name!r} is declared twice")
    _REGISTRY[op.name] = op
    return op


def all_ops() -> tuple[OpDef[Any], ...]:
    """Every opcode, sorted by name."""
    return tuple(_REGISTRY[k] for k in sorted(_REGISTRY))


def find_op(name: str) -> OpDef[Any] | None:
    """The opcode XLA spells `name`, or None."""
    return _REGISTRY.get(name)


def op_by_name(name: str) -> OpDef[Any]:
    """The opcode XLA spells `name`. Raises KeyError."""
    return _REGISTRY[name]


def attr_specs(attrs: type[Attrs]) -> tuple[AttrSpec, ...]:
    """The attribute fields of an attribute record type."""
    found = _SPECS.get(attrs)
    if found is None:
        found = _SPECS[attrs] = _read_specs(attrs)
    return found


def _read_specs(attrs: type[Attrs]) -> tuple[AttrSpec, ...]:
    import typing

    hints = typing.get_type_hints(attrs)
    out = []
    for f in dataclasses.fields(attrs):
        kind: AttrKind = f.metadata[_KIND]
        required = f.default is dataclasses.MISSING
        default = None if required else f.default
        enum = _enum_of(hints[f.name]) if kind is AttrKind.ENUM else None
        out.append(AttrSpec(f.name, f.metadata[_KEY] or f.name, kind, required, default, f.metadata[_ALWAYS], enum))
    return tuple(out)


def _enum_of(hint: Any) -> type[Enum]:
    import typing

    options = typing.get_args(hint) or (hint,)
    return next(o for o in options if isinstance(o, type) and issubclass(o, Enum))
