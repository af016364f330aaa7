"""all-gather by means of all-reduce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander, Val
from xyla.passes.collective_groups import group_index
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import PRED, ElementType, find


@register
@dataclass(frozen=True, slots=True)
class AllGatherDecomposer(Expander):
    """Turns all-gather into an all-reduce of shards placed in an otherwise neutral array.

    The array is filled with what addition leaves alone (-0 for floats, so that the sign of zero survives; false
    with `or` for pred).

        ROOT ag = f32[8] all-gather(f32[4] x), dimensions={0}
          ==>  z = f32[8] broadcast(-0); i = replica-id * 4
               ROOT r = f32[8] all-reduce(dynamic-update-slice(z, x, i)), to_apply=add
    """

    name: ClassVar[str] = "all-gather-decomposer"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.ALL_GATHER: decompose_all_gather}


def decompose_all_gather(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """all-gather(x) = all-reduce(dynamic-update-slice(neutral, x, my position))."""
    rw.permit()
    b = Builder(rw)
    index = group_index(b, inst)
    shapes = inst.shape.tuple_shapes if inst.shape.is_tuple else (inst.shape,)
    parts = [_gather_one(b, inst, x, s.dims, index) for x, s in zip(b.vals(inst.operands), shapes, strict=True)]
    return (b.tuple(parts) if inst.shape.is_tuple else parts[0]).inst


def _carrier(et: ElementType) -> ElementType:
    """The type to add in: narrow floats travel as their bits, since not all have a neutral element."""
    return find(f"u{et.bits}") or et if et.is_float and et.bits < 16 else et


def _gather_one(b: Builder, inst: Instruction, x: Val, dims: tuple[int, ...], index: Val) -> Val:
    attrs = inst.attrs
    et, through = x.et, _carrier(x.et)
    x = x.bitcast(through)
    neutral = complex(-0.0, -0.0) if through.is_complex else -0.0 if through.is_float else 0
    base = b.full(neutral, through, dims)
    zero = b.scalar(0, index.et)
    starts: list[Val | int] = [zero] * len(dims)
    starts[attrs.dimension] = index * x.dims[attrs.dimension]
    placed = b.update(base, x, starts)
    reduce_attrs = ops.AllReduceAttrs(
        channel_id=attrs.channel_id,
        replica_groups=attrs.replica_groups,
        constrain_layout=attrs.constrain_layout,
        use_global_device_ids=attrs.use_global_device_ids,
    )
    called = [b.scalar_computation(ops.OR if through is PRED else ops.ADD, through)]
    return b.apply(ops.ALL_REDUCE, placed, attrs=reduce_attrs, called=called).bitcast(et)
