"""Where a device stands in the replica group of a collective: shared by the collective decomposers."""

from __future__ import annotations

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.passes.building import Builder, Val
from xyla.support.dtypes import S32, U32
from xyla.support.status import unimplemented


def plain_groups(inst: Instruction) -> tuple[tuple[int, ...], ...]:
    """The replica groups of a collective without padding entries; () for one group of everybody.

    Raises UNIMPLEMENTED for groups over a named mesh, and for groups of different sizes.
    """
    groups = inst.attrs.replica_groups
    if groups.text and not groups.groups:
        raise unimplemented(f"{inst.op.name}: replica groups over a named mesh ({groups.text})", span=inst.span)
    plain = tuple(g for g in (tuple(d for d in group if d >= 0) for group in groups.groups) if g)
    if len({len(g) for g in plain}) > 1:
        raise unimplemented(f"{inst.op.name}: replica groups of different sizes", span=inst.span)
    return plain


def group_index(b: Builder, inst: Instruction) -> Val:
    """s32[]: the running device's position in its group, for a collective with `use_global_device_ids`.

    Groups name replicas without a channel, replicas (all partitions of each taking part) with a channel, and global
    device numbers with `use_global_device_ids`. Source: XLA's collective group modes.
    """
    groups = plain_groups(inst)
    config = inst.module.config
    partitions = max(config.num_partitions, 1)
    replica = b.apply(ops.REPLICA_ID)
    if inst.attrs.use_global_device_ids:
        me = b.apply(ops.PARTITION_ID)
        if partitions == 1 or config.replica_count > 1:
            me = replica * partitions + me
        return _position(b, groups, me)
    if not inst.attrs.channel_id:
        return _position(b, groups, replica)
    partition = b.apply(ops.PARTITION_ID).convert(S32)
    size = len(groups[0]) if groups else max(config.replica_count, 1)
    if size == 1:
        return partition
    return partition * size + _position(b, groups, replica)


def _position(b: Builder, groups: tuple[tuple[int, ...], ...], me: Val) -> Val:
    """Looks the device up: itself when there is one group in order, else a table indexed by device."""
    if not groups or (len(groups) == 1 and groups[0] == tuple(range(len(groups[0])))):
        return me.convert(S32)
    table = np.zeros(max(max(g) for g in groups) + 1, np.uint32)
    for group in groups:
        for position, device in enumerate(group):
            table[device] = position
    found = b.dynamic_slice(b.array(table, U32), [me], [1])
    return found.reshape().convert(S32)
