"""all-to-all of one array as an all-to-all of slices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.passes.building import Builder, expand
from xyla.passes.collective_groups import plain_groups
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite


@register
@dataclass(frozen=True, slots=True)
class AllToAllDecomposer(Pass):
    """Turns the array form of all-to-all into the tuple form: slices in, concatenation out.

    decompose_to_tuple: always; otherwise only operands of rank below min_array_rank are taken apart.

        ROOT a = f32[4] all-to-all(f32[4] x), dimensions={0}, replica_groups={{0,1}}
          ==>  t = (f32[2], f32[2]) all-to-all(x[0:2], x[2:4]), replica_groups={{0,1}}
               ROOT r = f32[4] concatenate(t.0, t.1), dimensions={0}
    """

    name: ClassVar[str] = "all-to-all-decomposer"
    decompose_to_tuple: bool = True
    min_array_rank: int = 0

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Each array all-to-all once."""

        def decompose_all_to_all(inst: Instruction, rw: Rewrite) -> Instruction | None:
            """all-to-all(x) = concatenate(all-to-all(slices of x))."""
            if inst.attrs.dimension is None:
                return None
            if not self.decompose_to_tuple and inst.operands[0].shape.rank >= self.min_array_rank:
                return None
            return _decompose(inst, rw)

        return expand(module, ctx, {ops.ALL_TO_ALL: decompose_all_to_all})


def _decompose(inst: Instruction, rw: Rewrite) -> Instruction:
    rw.permit()
    b, attrs = Builder(rw), inst.attrs
    groups = plain_groups(inst)
    config = inst.module.config
    count = len(groups[0]) if groups else config.num_partitions if attrs.channel_id else config.replica_count
    x = b.val(inst.operands[0])
    size = x.dims[attrs.dimension] // count
    slices = [x.slice_dim(attrs.dimension, i * size, (i + 1) * size) for i in range(count)]
    exchanged = b.apply(ops.ALL_TO_ALL, *slices, attrs=replace(attrs, dimension=None))
    if not exchanged.shape.is_tuple:
        return exchanged.inst
    return b.concat([exchanged.element(i) for i in range(count)], attrs.dimension).inst
