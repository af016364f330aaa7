"""bitcast-convert between widths as shifts."""

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
from xyla.support.dtypes import PRED, ElementType, find


@register
@dataclass(frozen=True, slots=True)
class BitcastDtypesExpander(Expander):
    """Splits wide elements into narrow ones, or joins narrow ones, by shifts (little-endian). Exact.

    ROOT r = s8[10,4] bitcast-convert(s32[10] x)
      ==>  ROOT r = s8[10,4] convert(broadcast(x) >> (8 * iota))
    """

    name: ClassVar[str] = "bitcast-dtypes-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.BITCAST_CONVERT: expand_width_change}


def expand_width_change(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """bitcast-convert(x) = the parts of x, or their union, shifted into place."""
    source, to = inst.operands[0].shape.element_type, inst.shape.element_type
    if source.bits == to.bits or source.is_complex or to.is_complex or inst.shape.is_dynamic:
        return None
    narrow, wide = (_unsigned(t) for t in sorted((source, to), key=lambda t: t.bits))
    if narrow is None or wide is None:
        return None
    rw.permit()
    b = Builder(rw)
    x = b.val(inst.operands[0])
    split = source.bits > to.bits
    bits = _as_bits(x, wide if split else narrow).convert(wide)
    dims = inst.shape.dims if split else x.dims
    place = b.iota(wide, dims, len(dims) - 1) * narrow.bits
    if split:
        parts = bits.broadcast(dims, range(len(dims) - 1)) >> place
        return _from_bits((parts & ((1 << narrow.bits) - 1)).convert(narrow), to).inst
    return _from_bits(b.reduce(bits << place, 0, [len(dims) - 1], ops.OR), to).inst


def _unsigned(et: ElementType) -> ElementType | None:
    return find(f"u{et.bits}")


def _as_bits(x: Val, unsigned: ElementType) -> Val:
    return x.convert(unsigned) if x.et is PRED else x.bitcast(unsigned)


def _from_bits(bits: Val, to: ElementType) -> Val:
    return bits.ne(0) if to is PRED else bits.bitcast(to)
