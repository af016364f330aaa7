"""Conversions, bitcasts of elements, reduced precision."""

from __future__ import annotations

import numpy as np

from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.passes.algebraic_simplifier.common import evaluate, physical, when
from xyla.passmgr.rules import Rewrite, rule_table
from xyla.support.dtypes import PRED, ElementType

# (exponent bits, mantissa bits) of the float types with IEEE's special values.
_FORMAT = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


def holds(wide: ElementType, narrow: ElementType) -> bool:
    """Whether every value of `narrow` is a value of `wide`, so that converting there and back changes nothing."""
    if wide is narrow or narrow is PRED:
        return not wide.is_complex or wide is narrow
    if narrow.is_integer and wide.is_integer:
        if narrow.is_signed:
            return wide.is_signed and wide.bits >= narrow.bits
        return wide.bits > narrow.bits or (wide.is_unsigned and wide.bits >= narrow.bits)
    if wide.name not in _FORMAT:
        return False
    if narrow.is_integer:
        return narrow.bits - (1 if narrow.is_signed else 0) <= _FORMAT[wide.name][1] + 1 and wide.name != "f16"
    if narrow.name not in _FORMAT:
        return False
    return all(w >= n for w, n in zip(_FORMAT[wide.name], _FORMAT[narrow.name], strict=True))


def convert_same(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convert(x) = x, where the type is the same."""
    x = inst.operands[0]
    return x if x.shape.element_type is inst.shape.element_type else None


def convert_twice(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convert(convert(x)) = convert(x), where the type between holds every value of x; = x when x has the type."""
    x = inst.operands[0]
    if x.op is not ops.CONVERT:
        return None
    source, middle, target = x.operands[0].shape.element_type, x.shape.element_type, inst.shape.element_type
    if not holds(middle, source) or (target is PRED and source is not PRED):
        return None
    if source is target:
        return x.operands[0]
    # From a float type, integers saturate and from an integer type they wrap: keep the kind of the last conversion.
    if source.is_float != middle.is_float and not (source is PRED or target.is_float):
        return None
    return rw.add(ops.CONVERT, [x.operands[0]], shape=x.operands[0].shape.with_type(target))


@when("use_convert_constant_folding")
def convert_constant(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convert(c) for a scalar constant; four-bit results stay, they would be stored as bytes."""
    x = inst.operands[0]
    if x.op is not ops.CONSTANT or not x.shape.is_scalar or x.attrs.literal.elided:
        return None
    if inst.shape.element_type.bits < 8 and inst.shape.element_type is not PRED:
        return None
    return rw.constant(evaluate(ops.CONVERT, [x.attrs.literal], shape=inst.shape.without_layout()))


def convert_iota(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """convert(iota) = iota of the other type, where both hold every index."""
    x = inst.operands[0]
    if x.op is not ops.IOTA:
        return None
    last = max(x.shape.dims[x.attrs.iota_dimension] - 1, 0)
    if not _counts_to(x.shape.element_type, last) or not _counts_to(inst.shape.element_type, last):
        return None
    return rw.add(ops.IOTA, (), x.attrs, shape=Shape.array(inst.shape.element_type, x.shape.dims))


def _counts_to(et: ElementType, last: int) -> bool:
    if et.is_integer:
        return last < 1 << (et.bits - (1 if et.is_signed else 0))
    return et.name in _FORMAT and last <= 1 << (_FORMAT[et.name][1] + 1) and last <= 2**15


def bitcast_convert_same(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """bitcast-convert(x) = x, where the type is the same."""
    x = inst.operands[0]
    return x if x.shape.element_type is inst.shape.element_type else None


def bitcast_convert_twice(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """bitcast-convert(bitcast-convert(x)) = bitcast-convert(x), or x when the type returns."""
    x = inst.operands[0]
    if x.op is not ops.BITCAST_CONVERT:
        return None
    source = x.operands[0]
    if source.shape.element_type is inst.shape.element_type:
        return source if source.shape.same_dims(inst.shape) else None
    bits = {s.element_type.bits for s in (source.shape, x.shape, inst.shape)}
    return (
        rw.like([source]) if len(bits) == 1 and PRED not in (source.shape.element_type, x.shape.element_type) else None
    )


def bitcast_convert_concatenate(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """bitcast-convert(concatenate(bitcast-convert(x), ...)) = concatenate(x, ...), where the type returns."""
    x = inst.operands[0]
    if x.op is not ops.CONCATENATE or any(o.op is not ops.BITCAST_CONVERT for o in x.operands):
        return None
    sources = [o.operands[0] for o in x.operands]
    for o, source in zip(x.operands, sources, strict=True):
        if source.shape.element_type is not inst.shape.element_type or not source.shape.same_dims(o.shape):
            return None
    return rw.add(ops.CONCATENATE, sources, x.attrs)


@physical
def bitcast_convert_packed(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """bitcast-convert between widths = bitcast, where the added or removed dimension is the most minor and packed."""
    x = inst.operands[0].shape.with_default_layouts()
    result = inst.shape.with_default_layouts()
    if x.element_type.bits == result.element_type.bits or x.element_type.bits < 8 or result.element_type.bits < 8:
        return None
    wide, narrow = (x, result) if x.rank < result.rank else (result, x)
    if narrow.layout is None or wide.layout is None or narrow.layout.tiles or wide.layout.tiles:
        return None
    if narrow.layout.minor_to_major != (narrow.rank - 1, *wide.layout.minor_to_major):
        return None
    return rw.add(ops.BITCAST, inst.operands, ops.BitcastAttrs(), shape=inst.shape)


@when("enable_remove_no_op_reduce_precision")
def reduce_precision_same(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce-precision(x) = x, where x's type has no more bits than are kept."""
    x = inst.operands[0]
    own = _FORMAT.get(x.shape.element_type.name)
    if own is None or inst.attrs.exponent_bits < own[0] or inst.attrs.mantissa_bits < own[1]:
        return None
    return x


def reduce_precision_twice(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce-precision(reduce-precision(x)) = reduce-precision(x), of the same bits."""
    x = inst.operands[0]
    return x if x.op is ops.REDUCE_PRECISION and x.attrs == inst.attrs else None


def constant_splat(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """A constant array of one value = broadcast of a scalar constant."""
    literal: Literal = inst.attrs.literal
    if not inst.shape.is_array or literal.elided or inst.shape.num_elements < 2 or not literal.is_splat:
        return None
    return rw.splat(literal.first, inst.shape)


def constant_tuple(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """A constant tuple = tuple of constants."""
    literal: Literal = inst.attrs.literal
    if not inst.shape.is_tuple or literal.elided:
        return None
    return rw.add(ops.TUPLE, [rw.constant(element) for element in literal.elements])


def constant_iota(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """The constant {0, 1, 2, ...} of integers = iota."""
    literal: Literal = inst.attrs.literal
    if inst.shape.rank != 1 or not inst.shape.element_type.is_integer or literal.elided or literal.array.size < 3:
        return None
    if not bool(np.array_equal(literal.array.astype(np.int64), np.arange(literal.array.size))):
        return None
    shape = Shape.array(inst.shape.element_type, inst.shape.dims)
    return rw.add(ops.IOTA, (), ops.IotaAttrs(0), shape=shape)


TABLE = rule_table(
    ([ops.CONVERT], (convert_same, convert_twice, convert_constant, convert_iota)),
    (
        [ops.BITCAST_CONVERT],
        (bitcast_convert_same, bitcast_convert_twice, bitcast_convert_concatenate, bitcast_convert_packed),
    ),
    ([ops.REDUCE_PRECISION], (reduce_precision_same, reduce_precision_twice)),
    ([ops.CONSTANT], (constant_splat, constant_tuple, constant_iota)),
)
