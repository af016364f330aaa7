"""Opcodes that call computations or the outside: while, conditional, call, fusion, map, custom-call, async, feeds.

Spec: XLA operation semantics, one section an op.
"""

from __future__ import annotations

from dataclasses import dataclass

from xyla.hlo.attr_types import (
    ConvDims,
    CustomCallApiVersion,
    CustomCallSchedule,
    FusionKind,
    OutputOperandAlias,
    PaddingType,
    Precision,
    Window,
)
from xyla.hlo.literal import Literal
from xyla.hlo.op_def import AttrKind, Attrs, NoAttrs, OpDef, Trait, attr, define
from xyla.hlo.ops.movement import DimensionsAttrs
from xyla.hlo.rules import control as rules
from xyla.hlo.rules.pairing import verify_done
from xyla.hlo.rules.reduction import map_shape
from xyla.hlo.shape import Shape

_SEM = "operation_semantics#"
_EFFECT = Trait.SIDE_EFFECT


@dataclass(frozen=True, slots=True)
class CallAttrs(Attrs):
    """is_composite: the call stands for a composite whose decomposition it calls."""

    is_composite: bool = attr(AttrKind.BOOL, False)
    output_to_operand_aliasing: tuple[OutputOperandAlias, ...] = attr(AttrKind.ALIASING, ())


@dataclass(frozen=True, slots=True)
class FusionAttrs(Attrs):
    """kind and aliasing."""

    kind: FusionKind = attr(AttrKind.ENUM)
    output_to_operand_aliasing: tuple[OutputOperandAlias, ...] = attr(AttrKind.ALIASING, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCallAttrs(Attrs):
    """A call by name of something outside HLO. The opaque configuration is the instruction's backend_config text."""

    window: Window | None = attr(AttrKind.WINDOW, None)
    dim_labels: ConvDims | None = attr(AttrKind.CONV_DIMS, None)
    feature_group_count: int = attr(AttrKind.INT, 1)
    batch_group_count: int = attr(AttrKind.INT, 1)
    padding_type: PaddingType = attr(AttrKind.ENUM, PaddingType.INVALID)
    operand_precision: tuple[Precision, ...] = attr(AttrKind.PRECISION, ())
    custom_call_target: str = attr(AttrKind.STRING)
    operand_layout_constraints: tuple[Shape, ...] | None = attr(AttrKind.SHAPES, None)
    custom_call_has_side_effect: bool = attr(AttrKind.BOOL, False)
    literal: Literal | None = attr(AttrKind.LITERAL, None)
    output_to_operand_aliasing: tuple[OutputOperandAlias, ...] = attr(AttrKind.ALIASING, ())
    schedule: CustomCallSchedule = attr(AttrKind.ENUM, CustomCallSchedule.NONE)
    api_version: CustomCallApiVersion = attr(AttrKind.ENUM, CustomCallApiVersion.ORIGINAL)


@dataclass(frozen=True, slots=True)
class InfeedAttrs(Attrs):
    """infeed_config."""

    infeed_config: str = attr(AttrKind.STRING, "")


@dataclass(frozen=True, slots=True)
class OutfeedAttrs(Attrs):
    """outfeed_shape (with layout) and outfeed_config."""

    outfeed_shape: Shape | None = attr(AttrKind.SHAPE, None)
    outfeed_config: str = attr(AttrKind.STRING, "")


@dataclass(frozen=True, slots=True)
class AsyncAttrs(Attrs):
    """async_execution_thread ("" means the main thread) and, on starts, aliasing."""

    async_execution_thread: str = attr(AttrKind.STRING, "")
    output_to_operand_aliasing: tuple[OutputOperandAlias, ...] = attr(AttrKind.ALIASING, ())


CALL = define(
    OpDef("call", None, CallAttrs, rules.call_shape, _SEM + "call", called=("to_apply",), verify=rules.verify_call)
)
FUSION = define(
    OpDef("fusion", None, FusionAttrs, rules.call_shape, "hlo fusion", called=("calls",), verify=rules.verify_aliasing)
)
MAP = define(OpDef("map", None, DimensionsAttrs, map_shape, _SEM + "map", called=("to_apply",), min_arity=1))
# The roles print as condition=, body=.
WHILE = define(OpDef("while", 1, NoAttrs, rules.while_shape, _SEM + "while", called=("condition", "body")))
# Predicated conditionals have a pred operand 0 and called = (true, false); indexed ones an s32 operand 0.
CONDITIONAL = define(
    OpDef(
        "conditional",
        None,
        NoAttrs,
        rules.conditional_shape,
        _SEM + "conditional",
        called=("branch_computations*",),
        min_arity=1,
    )
)
CUSTOM_CALL = define(
    OpDef(
        "custom-call",
        None,
        CustomCallAttrs,
        None,
        _SEM + "customcall",
        Trait.LEAF,
        called=("called_computations*",),
        verify=rules.verify_custom_call,
    )
)
INFEED = define(
    OpDef("infeed", 1, InfeedAttrs, None, _SEM + "infeed", _EFFECT | Trait.LEAF, verify=rules.verify_infeed)
)
OUTFEED = define(OpDef("outfeed", 2, OutfeedAttrs, rules.outfeed_shape, _SEM + "outfeed", _EFFECT))
ASYNC_START = define(
    OpDef(
        "async-start",
        None,
        AsyncAttrs,
        None,
        "hlo async-start",
        Trait.ASYNC_START | Trait.LEAF,
        called=("calls",),
        verify=rules.verify_async_start,
    )
)
ASYNC_UPDATE = define(
    OpDef(
        "async-update",
        1,
        AsyncAttrs,
        rules.async_update_shape,
        "hlo async-update",
        Trait.LEAF,
        verify=verify_done,
    )
)
ASYNC_DONE = define(
    OpDef(
        "async-done",
        1,
        AsyncAttrs,
        rules.async_done_shape,
        "hlo async-done",
        Trait.ASYNC_DONE | Trait.LEAF,
        verify=verify_done,
    )
)
