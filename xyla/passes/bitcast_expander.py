"""bitcast as the logical ops that move its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Layout, Shape
from xyla.passes.building import Expander
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule


@register
@dataclass(frozen=True, slots=True)
class BitcastExpander(Expander):
    """Writes a bitcast between arrays as a transpose, a reshape and a transpose, each of them free in its layout.

    A bitcast reads the layout of its operand. Passes that move values see layouts as a choice, not as a meaning: once
    no bitcast is left, they are right to.

        y = f32[3,2]{0,1} bitcast(f32[2,3]{1,0} x)
          ==>  y = f32[3,2]{0,1} transpose(x), dimensions={1,0}
    """

    name: ClassVar[str] = "bitcast-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.BITCAST: expand_bitcast}


def expand_bitcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """bitcast(x) = transpose(reshape(transpose(x))): the dimensions in memory order, major first, and back."""
    x = inst.operands[0]
    source, target = x.shape, inst.shape
    if not _plain(source) or not _plain(target) or source.num_elements != target.num_elements:
        return None
    if source.element_type.bits != target.element_type.bits:
        return None
    rw.permit()
    outer, inner = _major_to_minor(source), _major_to_minor(target)
    value = _transpose(rw, x, outer, None)
    if value.shape.element_type is not target.element_type:
        value = rw.add(ops.BITCAST_CONVERT, [value], shape=value.shape.with_type(target.element_type))
    dims = tuple(target.dims[d] for d in inner)
    if value.shape.dims != dims:
        value = rw.add(ops.RESHAPE, [value], ops.ReshapeAttrs(), shape=Shape.array(target.element_type, dims))
    back = [inner.index(d) for d in range(len(inner))]
    value = _transpose(rw, value, back, target.layout)
    return value if value is not x else rw.add(ops.COPY, [x], shape=target)


def _plain(shape: Shape) -> bool:
    layout = shape.layout if shape.is_array else None
    return shape.is_array and not shape.is_dynamic and (layout is None or not layout.tiles)


def _major_to_minor(shape: Shape) -> list[int]:
    order: Sequence[int] = range(shape.rank) if shape.layout is None else shape.layout.minor_to_major[::-1]
    return list(order)


def _transpose(rw: Rewrite, x: Instruction, dimensions: Sequence[int], layout: Layout | None) -> Instruction:
    if list(dimensions) == list(range(x.shape.rank)):
        return x
    dims = tuple(x.shape.dims[d] for d in dimensions)
    shape = Shape.array(x.shape.element_type, dims, layout)
    return rw.add(ops.TRANSPOSE, [x], ops.DimensionsAttrs(tuple(dimensions)), shape=shape)
