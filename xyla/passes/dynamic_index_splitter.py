"""dynamic-slice and dynamic-update-slice with one index vector get scalar indices."""

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


@register
@dataclass(frozen=True, slots=True)
class DynamicIndexSplitter(Expander):
    """Splits the index vector of dynamic-slice and dynamic-update-slice into scalars.

    ROOT d = f32[1,2] dynamic-slice(f32[4,8] x, s32[2] i), dynamic_slice_sizes={1,2}
      ==>  ROOT d = f32[1,2] dynamic-slice(x, reshape(i[0:1]), reshape(i[1:2])), dynamic_slice_sizes={1,2}
    """

    name: ClassVar[str] = "dynamic-index-splitter"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The ops and their rules."""
        return {ops.DYNAMIC_SLICE: split_slice_indices, ops.DYNAMIC_UPDATE_SLICE: split_update_indices}


def split_slice_indices(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dynamic-slice(x, i[r]) = dynamic-slice(x, i[0], ..., i[r-1]); of a scalar it is the scalar."""
    return _split(inst, rw, 1, inst.operands[0])


def split_update_indices(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dynamic-update-slice(x, u, i[r]) = dynamic-update-slice(x, u, i[0], ...); of a scalar it is the update."""
    return _split(inst, rw, 2, inst.operands[1])


def _split(inst: Instruction, rw: Rewrite, first: int, if_scalar: Instruction) -> Instruction | None:
    if len(inst.operands) != first + 1 or inst.operands[first].shape.rank != 1:
        return None
    rank = inst.operands[0].shape.rank
    if rank == 0:
        return if_scalar
    rw.permit()
    index = Builder(rw).val(inst.operands[first])
    parts: list[Val] = [index.slice([i], [i + 1]).reshape() for i in range(rank)]
    return rw.like([*inst.operands[:first], *(p.inst for p in parts)])
