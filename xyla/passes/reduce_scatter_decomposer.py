"""reduce-scatter as an all-reduce followed by taking one's own shard."""

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


@register
@dataclass(frozen=True, slots=True)
class ReduceScatterDecomposer(Expander):
    """Turns reduce-scatter into all-reduce and dynamic-slice.

    ROOT rs = f32[4] reduce-scatter(f32[8] x), dimensions={0}, to_apply=add
      ==>  ar = f32[8] all-reduce(x), to_apply=add
           ROOT r = f32[4] dynamic-slice(ar, position * 4)
    """

    name: ClassVar[str] = "reduce-scatter-decomposer"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.REDUCE_SCATTER: decompose_reduce_scatter}


def decompose_reduce_scatter(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reduce-scatter(x) = dynamic-slice(all-reduce(x), my position)."""
    rw.permit()
    b, attrs = Builder(rw), inst.attrs
    reduce_attrs = ops.AllReduceAttrs(
        channel_id=attrs.channel_id,
        replica_groups=attrs.replica_groups,
        constrain_layout=attrs.constrain_layout,
        use_global_device_ids=attrs.use_global_device_ids,
    )
    all_reduce = b.apply(ops.ALL_REDUCE, *b.vals(inst.operands), attrs=reduce_attrs, called=inst.called)
    index = group_index(b, inst)
    shapes = inst.shape.tuple_shapes if inst.shape.is_tuple else (inst.shape,)
    parts: list[Val] = []
    for i, shape in enumerate(shapes):
        whole = all_reduce.element(i) if len(inst.operands) > 1 else all_reduce
        starts: list[Val | int] = [0] * shape.rank
        starts[attrs.dimension] = index * shape.dims[attrs.dimension]
        parts.append(b.dynamic_slice(whole, starts, shape.dims))
    return (b.tuple(parts) if inst.shape.is_tuple else parts[0]).inst
