"""Leaves, tuples, tokens and other structural opcodes.

Spec: XLA operation semantics (Parameter, Constant, Iota, Tuple, GetTupleElement, AfterAll, Domain, ...).
"""

from __future__ import annotations

from dataclasses import dataclass

from xyla.hlo.literal import Literal
from xyla.hlo.op_def import AttrKind, Attrs, NoAttrs, OpDef, Trait, attr, define
from xyla.hlo.rules import structure as rules
from xyla.hlo.rules.pairing import verify_done, verify_start

_SEM = "operation_semantics#"


@dataclass(frozen=True, slots=True)
class ParameterAttrs(Attrs):
    """number: position. parameter_replication: kept text ({true,false})."""

    number: int = attr(AttrKind.OPERAND)
    parameter_replication: str = attr(AttrKind.RAW, "")


@dataclass(frozen=True, slots=True)
class ConstantAttrs(Attrs):
    """The value (may be elided)."""

    literal: Literal = attr(AttrKind.LITERAL)


@dataclass(frozen=True, slots=True)
class IotaAttrs(Attrs):
    """The dimension that counts."""

    iota_dimension: int = attr(AttrKind.INT, always=True)


@dataclass(frozen=True, slots=True)
class IndexAttrs(Attrs):
    """get-tuple-element index."""

    index: int = attr(AttrKind.INT)


@dataclass(frozen=True, slots=True)
class DomainAttrs(Attrs):
    """domain={kind="sharding", entry={...}, exit={...}}, kept verbatim."""

    domain: str = attr(AttrKind.RAW)


@dataclass(frozen=True, slots=True)
class CopyStartAttrs(Attrs):
    """cross_program_prefetch_index, -1 when absent."""

    cross_program_prefetch_index: int = attr(AttrKind.INT, -1)


_LEAF = Trait.LEAF
PARAMETER = define(
    OpDef("parameter", 0, ParameterAttrs, None, _SEM + "parameter", _LEAF, verify=rules.verify_parameter)
)
CONSTANT = define(OpDef("constant", 0, ConstantAttrs, rules.constant_shape, _SEM + "constant", _LEAF))
IOTA = define(OpDef("iota", 0, IotaAttrs, None, _SEM + "iota", _LEAF, verify=rules.verify_iota))
PARTITION_ID = define(OpDef("partition-id", 0, NoAttrs, rules.id_shape, _SEM + "partitionid", _LEAF))
REPLICA_ID = define(OpDef("replica-id", 0, NoAttrs, rules.id_shape, _SEM + "replicaid", _LEAF))
TUPLE = define(OpDef("tuple", None, NoAttrs, rules.tuple_shape, _SEM + "tuple"))
GET_TUPLE_ELEMENT = define(OpDef("get-tuple-element", 1, IndexAttrs, rules.element_shape, _SEM + "gettupleelement"))
AFTER_ALL = define(OpDef("after-all", None, NoAttrs, rules.token_shape, _SEM + "afterall"))
ADD_DEPENDENCY = define(OpDef("add-dependency", 2, NoAttrs, rules.add_dependency_shape, _SEM + "adddependency"))
OPT_BARRIER = define(OpDef("opt-barrier", 1, NoAttrs, rules.same_shape, _SEM + "optimizationbarrier"))
DOMAIN = define(OpDef("domain", 1, DomainAttrs, rules.same_shape, _SEM + "domain"))
COPY = define(OpDef("copy", 1, NoAttrs, rules.same_shape, _SEM + "copy", Trait.DATA_MOVEMENT))
COPY_START = define(
    OpDef(
        "copy-start",
        1,
        CopyStartAttrs,
        rules.copy_start_shape,
        _SEM + "copystart",
        Trait.ASYNC_START,
        verify=verify_start,
    )
)
COPY_DONE = define(
    OpDef("copy-done", 1, NoAttrs, rules.copy_done_shape, _SEM + "copydone", Trait.ASYNC_DONE, verify=verify_done)
)
