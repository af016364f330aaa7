"""Recognises the integer keys by which programs order floats totally."""

from __future__ import annotations

from typing import Any

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passmgr.rules import splat_value


def total_order_key_of(inst: Instruction) -> Instruction | None:
    """The float whose signed total-order key `inst` is, or None.

    Two spellings: bits < 0 ? bits of (largest - unsigned bits) : bits, and bits ^ ((bits >> w-1) >>> 1).
    """
    return _by_select(inst) or _by_xor(inst)


def _bits(inst: Instruction) -> Instruction | None:
    """The float that a signed integer of equal width holds the bits of."""
    et = inst.shape.element_type
    if inst.op is not ops.BITCAST_CONVERT or not et.is_signed:
        return None
    source = inst.operands[0].shape.element_type
    return inst.operands[0] if source.is_float and source.bits == et.bits else None


def _is(inst: Instruction, op: OpDef[Any]) -> bool:
    return inst.op is op


def _constant(inst: Instruction) -> int | None:
    """The value of an integer constant, looking through integer conversions that keep it."""
    while inst.op is ops.CONVERT and inst.operands[0].shape.element_type.is_integer:
        inst = inst.operands[0]
    value = splat_value(inst)
    return int(value) if value is not None and inst.shape.element_type.is_integer else None


def _by_select(inst: Instruction) -> Instruction | None:
    if not _is(inst, ops.SELECT):
        return None
    pred, flipped, plain = inst.operands
    x = _bits(plain)
    if x is None or not _is(pred, ops.COMPARE) or pred.attrs.direction is not ComparisonDirection.LT:
        return None
    # The sign may be read from the plain bits or from the flipped ones (they agree on it).
    if _constant(pred.operands[1]) != 0 or _bits(pred.operands[0]) is not x:
        return None
    if not _is(flipped, ops.BITCAST_CONVERT) or not _is(flipped.operands[0], ops.SUBTRACT):
        return None
    largest, unsigned = flipped.operands[0].operands
    width = plain.shape.element_type.bits
    if _constant(largest) != 2 ** (width - 1) - 1 or not _is(unsigned, ops.BITCAST_CONVERT):
        return None
    return x if unsigned.operands[0] is x and unsigned.shape.element_type.is_unsigned else None


def _by_xor(inst: Instruction) -> Instruction | None:
    if not _is(inst, ops.XOR):
        return None
    bits, mask = inst.operands
    x = _bits(bits)
    if x is None or not _is(mask, ops.SHIFT_RIGHT_LOGICAL) or _constant(mask.operands[1]) != 1:
        return None
    sign = mask.operands[0]
    if not _is(sign, ops.SHIFT_RIGHT_ARITHMETIC) or sign.operands[0] is not bits:
        return None
    return x if _constant(sign.operands[1]) == bits.shape.element_type.bits - 1 else None
