"""Programs partitioned by hand: the border between logical arrays and one partition's shards.

Before partitioning, an SPMD program speaks of whole ("logical") arrays; only between SPMDFullToShardShape and
SPMDShardToFullShape does it speak of one partition. The evaluator runs every partition on the logical arrays, cuts each
partition's shard at the first border and joins all shards at the second. Source: GSPMD sharding annotations in HLO.
"""

from __future__ import annotations

import math

import numpy as np

from xyla.analysis.manual_partitions import Tiling, parse_tiling, results_of
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.interp.session import Session
from xyla.interp.table import Array, Kernel, Value
from xyla.support.status import invalid, unimplemented


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
    cuts = [_cut(inst, o.sharding, o.shape, s, session) for o, s in zip(inst.operands, results_of(inst), strict=True)]

    def kernel(*xs: Array) -> Value:
        out = tuple(x[cut] for x, cut in zip(xs, cuts, strict=True))
        return out if inst.shape.is_tuple else out[0]

    return kernel


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
        out = tuple(_join(inst, s, [v[i] for v in shards], world.partitions) for i, s in enumerate(results_of(inst)))
        return out if inst.shape.is_tuple else out[0]

    return kernel


def _join(inst: Instruction, full: Shape, shards: list[Array], partitions: int) -> Array:
    shard = shards[0].shape
    if full.dims == shard:
        return shards[0]
    tiling = _tiling(inst, full.dims, shard, inst.sharding, partitions)
    # Fewer partitions than tiles (a program for eight that runs on one) leave the rest at zero, not at what was there.
    out: Array = np.zeros(full.dims, full.element_type.np)
    for p, value in enumerate(shards):
        out[_place(tiling.tile_of(p), shard)] = value
    return out
