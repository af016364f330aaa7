"""Programs partitioned by hand: where they pass between logical arrays and one partition's shards.

Before partitioning, an SPMD program speaks of whole ("logical") arrays; only between SPMDFullToShardShape and
SPMDShardToFullShape does it speak of one partition. Source: GSPMD sharding annotations in HLO.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.support.status import invalid

TO_SHARD = ("SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape")
TO_FULL = ("SPMDShardToFullShape", "xla.sdy.LocalToGlobalShape")
_BORDERS = frozenset((*TO_SHARD, *TO_FULL))

_TILED = re.compile(r"devices=\[([\d,]+)\]\s*(?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))?")


@dataclass(frozen=True)
class Tiling:
    """How many tiles each dimension has, and the partitions that hold each tile (row-major over tiles)."""

    tiles: tuple[int, ...]
    holders: tuple[tuple[int, ...], ...]

    def tile_of(self, partition: int) -> tuple[int, ...]:
        """The tile index that a partition holds."""
        for i, held_by in enumerate(self.holders):
            if partition in held_by:
                return tuple(int(c) for c in np.unravel_index(i, self.tiles))
        raise invalid(f"partition {partition} holds no tile of a sharding over {sum(map(len, self.holders))} devices")


def parse_tiling(text: str, rank: int) -> Tiling | None:
    """`{devices=[2,1]<=[2]}` or `{devices=[2,1]0,1}`, replicated dims past `rank`; None for anything else."""
    found = _TILED.search(text)
    if found is None:
        return None
    dims = _numbers(found[1])
    if found[2] is not None:
        order = np.arange(math.prod(_numbers(found[2]))).reshape(_numbers(found[2]))
        if found[3] is not None:
            order = order.transpose(_numbers(found[3]))
    else:
        order = np.array(_numbers(found[4] or ""), np.int64)
    if order.size != math.prod(dims) or len(dims) < rank:
        return None
    grid = order.reshape(math.prod(dims[:rank]), -1)
    return Tiling(dims[:rank], tuple(tuple(int(d) for d in row) for row in grid))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(",") if n)


def is_border(inst: Instruction) -> bool:
    """Whether an instruction passes between logical arrays and shards."""
    return inst.op is ops.CUSTOM_CALL and inst.attrs.custom_call_target in _BORDERS


def results_of(inst: Instruction) -> tuple[Shape, ...]:
    """The shapes of a border's results."""
    return inst.shape.tuple_shapes if inst.shape.is_tuple else (inst.shape,)


def logical_partitions(module: Module) -> int | None:
    """For a program of logical arrays: the partitions its manual regions need, 1 without any. None: it is one
    partition's own program (it has collectives between partitions, or asks for its partition id)."""
    needed, own = 1, False
    for inst in module.instructions():
        if inst.op is ops.CUSTOM_CALL and inst.attrs.custom_call_target in TO_SHARD:
            for operand, shard in zip(inst.operands, results_of(inst), strict=False):
                full = operand.shape
                tiling = parse_tiling(operand.sharding, full.rank)
                count = sum(map(len, tiling.holders)) if tiling else 1
                ratio = math.prod(f // s for f, s in zip(full.dims, shard.dims, strict=False) if s)
                needed = max(needed, count, ratio, module.config.num_partitions)
        elif _between_partitions(inst):
            own = True
    return None if own and needed == 1 else needed


def _between_partitions(inst: Instruction) -> bool:
    """Whether an instruction makes sense in one partition's own program only."""
    if inst.op in (ops.SEND, ops.RECV):
        return not inst.attrs.is_host_transfer
    return inst.op is ops.PARTITION_ID or (inst.op.has(Trait.COLLECTIVE) and inst.attrs.channel_id != 0)
