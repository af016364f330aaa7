"""bitcast-convert between types of different widths as shifts and masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander, Val
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import PRED, U2, U4, U8, U16, U32, U64, ElementType

_UNSIGNED = {e.bits: e for e in (U2, U4, U8, U16, U32, U64)}


@register
@dataclass(frozen=True, slots=True)
class BitcastDtypesExpander(Expander):
    """Writes out a bitcast-convert that splits elements into narrower ones, or joins them into wider ones.

    Exact. Element 0 of the minor dimension holds the lowest bits.

        ROOT y = s8[10,4] bitcast-convert(s32[10] x)
          ==>  ROOT y = s8[10,4] bitcast-convert(u8 convert(broadcast(u32 x) >> 8 * iota))
    """

    name: ClassVar[str] = "bitcast-dtypes-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.BITCAST_CONVERT: expand_bitcast_convert}


def expand_bitcast_convert(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """bitcast-convert(x)[..., i] = part i of x's bits, and the reverse."""
    source, target = inst.operands[0].shape.element_type, inst.shape.element_type
    narrow, wide = sorted((_bits(source), _bits(target)))
    known = narrow in _UNSIGNED and wide in _UNSIGNED
    if narrow == wide or not known or inst.shape.is_dynamic or source.is_complex or target.is_complex:
        return None
    rw.permit()
    x = _as_unsigned(Builder(rw).val(inst.operands[0]))
    parts = _split(x, narrow, wide) if _bits(source) == wide else _join(x, narrow, wide)
    return _from_unsigned(parts, target).inst


def _bits(et: ElementType) -> int:
    return 8 if et is PRED else et.bits


def _as_unsigned(x: Val) -> Val:
    """The bits as an unsigned integer of the same width; a pred is a byte."""
    return x.convert(U8) if x.et is PRED else x.bitcast(_UNSIGNED[x.et.bits])


def _from_unsigned(x: Val, target: ElementType) -> Val:
    return x.ne(0) if target is PRED else x.bitcast(target)


def _split(x: Val, narrow: int, wide: int) -> Val:
    """[...] of `wide` bits to [..., wide/narrow] of `narrow` bits."""
    dims = (*x.dims, wide // narrow)
    # Shifts need a byte at least.
    work = _UNSIGNED[max(wide, 8)]
    shift = x.b.iota(work, dims, len(dims) - 1) * narrow
    spread = x.convert(work).broadcast(dims, range(len(dims) - 1))
    part = (spread >> shift) & ((1 << narrow) - 1)
    return part.convert(_UNSIGNED[narrow])


def _join(x: Val, narrow: int, wide: int) -> Val:
    """[..., wide/narrow] of `narrow` bits to [...] of `wide` bits."""
    work = _UNSIGNED[max(wide, 8)]
    last = len(x.dims) - 1
    shift = x.b.iota(work, x.dims, last) * narrow
    placed = x.convert(work) << shift
    return x.b.reduce(placed, 0, [last], ops.OR).convert(_UNSIGNED[wide])
