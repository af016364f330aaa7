"""gather as a loop of dynamic slices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander, Val
from xyla.passes.index_vectors import IndexNumbers, index_rows, inverse, permutation_to, row_at, window_start
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.status import invalid, unimplemented

_MODES = ("all", "simple")


@register
@dataclass(frozen=True, slots=True)
class GatherExpander(Expander):
    """Turns gather into a while loop over the index vectors, one dynamic-slice each.

    mode: `all` expands every gather, `simple` only those that need no loop (one index vector, or a slice that is the
    whole operand, which is a broadcast). Exact: both ops clamp their indices alike.

        ROOT g = s32[7,3] gather(s32[5,3] x, s32[7,1] i), offset_dims={1}, collapsed_slice_dims={0}, ...
          ==>  w = (s32[], s32[7,3], s32[5,3], s32[7,1]) while(...), whose body does
               row = s32[1,3] dynamic-slice(x, i[k], 0); acc = dynamic-update-slice(acc, row, k, 0)
    """

    name: ClassVar[str] = "gather-expander"
    mode: str = "all"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        if self.mode not in _MODES:
            raise invalid(f"gather-expander: mode is one of {', '.join(_MODES)}, not {self.mode!r}")
        return {ops.GATHER: expand_gather if self.mode == "all" else expand_simple_gather}


def expand_gather(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """gather(x, i) = for each index vector: dynamic-slice(x, i[k])."""
    if inst.shape.is_dynamic or any(o.shape.is_dynamic for o in inst.operands):
        return None  # the padder makes them static
    count = _count(inst)
    if count >= 2**31:
        raise unimplemented(f"gather-expander: a loop over {count} index vectors", span=inst.span)
    rw.permit()
    b = Builder(rw)
    operand, indices = b.vals(inst.operands)
    if not inst.shape.num_elements or 0 in inst.attrs.slice_sizes:
        # A collapsed dimension of size zero has no element to give: zeros, as the gather does.
        return b.full(0, inst.shape.element_type, inst.shape.dims).inst
    attrs = inst.attrs
    collapsed = {*attrs.collapsed_slice_dims, *attrs.operand_batching_dims}
    window = [s for d, s in enumerate(attrs.slice_sizes) if d not in collapsed]
    batch = _numbers(inst).batch_dims(indices.dims)
    if tuple(attrs.slice_sizes) == operand.dims:
        # Whatever the indices, they are clamped to 0.
        offset = [d for d in range(inst.shape.rank) if d in set(attrs.offset_dims)]
        return operand.reshape(*window).broadcast(inst.shape.dims, offset).inst
    rows = _gathered_rows(b, inst, operand, indices, window, count)
    result = rows.reshape(*batch, *window)
    others = [d for d in range(inst.shape.rank) if d not in set(attrs.offset_dims)]
    return result.transpose(*inverse(permutation_to(others, inst.shape.rank))).inst


def expand_simple_gather(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """gather of one index vector, or of whole operands."""
    if _count(inst) == 1 or tuple(inst.attrs.slice_sizes) == inst.operands[0].shape.dims:
        return expand_gather(inst, rw)
    return None


def _numbers(inst: Instruction) -> IndexNumbers:
    a = inst.attrs
    return IndexNumbers(a.index_vector_dim, a.start_index_map, a.operand_batching_dims, a.start_indices_batching_dims)


def _count(inst: Instruction) -> int:
    return math.prod(_numbers(inst).batch_dims(inst.operands[1].shape.dims))


def _gathered_rows(b: Builder, inst: Instruction, operand: Val, indices: Val, window: list[int], count: int) -> Val:
    """[N, window...]: the slice of each index vector."""
    numbers, sizes = _numbers(inst), inst.attrs.slice_sizes
    rank = len(operand.dims)
    rows = index_rows(b, indices, numbers)

    def one(b: Builder, x: Val, row: Val) -> Val:
        return b.dynamic_slice(x, window_start(b, row, numbers, rank), sizes).reshape(1, *window)

    if count == 1:
        return one(b, operand, rows.reshape(rows.dims[1]))

    def body(b: Builder, i: Val, values: list[Val]) -> list[Val]:
        result, x, table = values
        at: list[Val | int] = [i, *[0] * len(window)]
        return [b.update(result, one(b, x, row_at(b, table, i)), at), x, table]

    start = b.full(0, operand.et, (count, *window))
    return b.counted_loop(count, [start, operand, rows], body, "gather")[0]
