"""Programs partitioned by hand: the border between logical arrays and one partition's shards.

Before partitioning, an SPMD program speaks of whole ("logical") arrays; only between SPMDFullToShardShape and
SPMDShardToFullShape does it speak of one partition. The evaluator runs every partition on the logical arrays, cuts each
partition's shard at the first border and joins all shards at the second. Source: GSPMD sharding annotations in HLO.
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
from xyla.interp.session import Session
from xyla.interp.table import Array, Kernel, Value
from xyla.support.status import invalid, unimplemented

TO_SHARD = ("SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape")
TO_FULL = ("SPMDShardToFullShape", "xla.sdy.LocalToGlobalShape")

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


def _tiling(inst: Instruction, full: tuple[int, ...], shard: tuple[int, ...], text: str, partitions: int) -> Tiling:
    """The annotated tiling, or plain row-major tiles when there is none; checked against the two shapes."""
    if len(full) != len(shard) or any(s == 0 or f % s for f, s in zip(full, shard, strict=True)):
        raise unimplemented(
            f"{inst.attrs.custom_call_target} between {full} and {shard}: uneven shards", span=inst.span
        )
    tiles = tuple(f // s for f, s in zip(full, shard, strict=True))
    tiling = parse_tiling(text, len(full))
    if tiling is None or tiling.tiles != tiles:
        count = math.prod(tiles)
        if partitions % count:
            raise invalid(f"{count} shards do not divide {partitions} partitions", span=inst.span)
        grid = np.arange(partitions).reshape(count, -1)
        tiling = Tiling(tiles, tuple(tuple(int(d) for d in row) for row in grid))
    return tiling


def to_shard(inst: Instruction, session: Session) -> Kernel:
    """This partition's tile of each logical array."""
    cuts = [_cut(inst, o.sharding, o.shape, s, session) for o, s in zip(inst.operands, _results(inst), strict=True)]

    def kernel(*xs: Array) -> Value:
        out = tuple(x[cut] for x, cut in zip(xs, cuts, strict=True))
        return out if inst.shape.is_tuple else out[0]

    return kernel


def _results(inst: Instruction) -> tuple[Shape, ...]:
    return inst.shape.tuple_shapes if inst.shape.is_tuple else (inst.shape,)


def _cut(inst: Instruction, sharding: str, full: Shape, shard: Shape, session: Session) -> tuple[slice, ...]:
    if full.dims == shard.dims:
        return ()
    world = session.world
    tiling = _tiling(inst, full.dims, shard.dims, sharding, world.partitions)
    return _place(tiling.tile_of(world.partition(session.device)), shard.dims)


def _place(tile: tuple[int, ...], shard: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(t * n, (t + 1) * n) for t, n in zip(tile, shard, strict=True))


def to_full(inst: Instruction, session: Session) -> Kernel:
    """The logical arrays, joined from every partition's tiles."""
    world = session.world
    first = world.replica(session.device) * world.partitions
    members = tuple(first + p for p in range(world.partitions))

    def kernel(*xs: Array) -> Value:
        values = world.exchange(inst, session.device, members, xs, inst.attrs.custom_call_target)
        shards = [values[m] for m in members]
        out = tuple(_join(inst, s, [v[i] for v in shards], world.partitions) for i, s in enumerate(_results(inst)))
        return out if inst.shape.is_tuple else out[0]

    return kernel


def _join(inst: Instruction, full: Shape, shards: list[Array], partitions: int) -> Array:
    shard = shards[0].shape
    if full.dims == shard:
        return shards[0]
    tiling = _tiling(inst, full.dims, shard, inst.sharding, partitions)
    out: Array = np.empty(full.dims, full.element_type.np)
    for p, value in enumerate(shards):
        out[_place(tiling.tile_of(p), shard)] = value
    return out


def logical_partitions(module: Module) -> int | None:
    """For a program of logical arrays: the partitions its manual regions need, 1 without any. None: it is one
    partition's own program (it has collectives between partitions, or asks for its partition id)."""
    needed, own = 1, False
    for inst in module.instructions():
        if inst.op is ops.CUSTOM_CALL and inst.attrs.custom_call_target in TO_SHARD:
            for operand, shard in zip(inst.operands, _results(inst), strict=False):
                full = operand.shape
                tiling = parse_tiling(operand.sharding, full.rank)
                count = sum(map(len, tiling.holders)) if tiling else 1
                ratio = math.prod(f // s for f, s in zip(full.dims, shard.dims, strict=False) if s)
                needed = max(needed, count, ratio, module.config.num_partitions)
        elif inst.op is ops.PARTITION_ID or (inst.op.has(Trait.COLLECTIVE) and inst.attrs.channel_id != 0):
            own = True
    return None if own and needed == 1 else needed
