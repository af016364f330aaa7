"""Collectives and point-to-point communication.

Spec: XLA operation semantics, one section an op.
"""

from __future__ import annotations

from dataclasses import dataclass

from xyla.hlo.attr_types import ReplicaGroups
from xyla.hlo.op_def import AttrKind, Attrs, NoAttrs, OpDef, Trait, attr, define
from xyla.hlo.rules import collectives as rules
from xyla.hlo.rules.pairing import verify_done

_SEM = "operation_semantics#"
_COLL = Trait.COLLECTIVE
_START = _COLL | Trait.ASYNC_START
_DONE = Trait.ASYNC_DONE


@dataclass(frozen=True, slots=True)
class AllReduceAttrs(Attrs):
    """channel_id 0: cross-replica. constrain_layout kept."""

    channel_id: int = attr(AttrKind.INT, 0)
    replica_groups: ReplicaGroups = attr(AttrKind.REPLICA_GROUPS, ReplicaGroups(), always=True)
    constrain_layout: bool = attr(AttrKind.BOOL, False)
    use_global_device_ids: bool = attr(AttrKind.BOOL, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllGatherAttrs(Attrs):
    """dimensions={d}: the gathered one (all-gather, reduce-scatter)."""

    channel_id: int = attr(AttrKind.INT, 0)
    replica_groups: ReplicaGroups = attr(AttrKind.REPLICA_GROUPS, ReplicaGroups(), always=True)
    constrain_layout: bool = attr(AttrKind.BOOL, False)
    dimension: int = attr(AttrKind.INT_IN_BRACES, key="dimensions")
    use_global_device_ids: bool = attr(AttrKind.BOOL, False)


@dataclass(frozen=True, slots=True)
class AllToAllAttrs(Attrs):
    """dimensions={d}: array form; None: tuple form."""

    channel_id: int = attr(AttrKind.INT, 0)
    replica_groups: ReplicaGroups = attr(AttrKind.REPLICA_GROUPS, ReplicaGroups(), always=True)
    constrain_layout: bool = attr(AttrKind.BOOL, False)
    dimension: int | None = attr(AttrKind.INT_IN_BRACES, None, key="dimensions")


@dataclass(frozen=True, slots=True)
class GroupsAttrs(Attrs):
    """ragged-all-to-all, collective-broadcast."""

    channel_id: int = attr(AttrKind.INT, 0)
    replica_groups: ReplicaGroups = attr(AttrKind.REPLICA_GROUPS, ReplicaGroups(), always=True)


@dataclass(frozen=True, slots=True)
class CollectivePermuteAttrs(Attrs):
    """source_target_pairs; slice_sizes for the in-place form."""

    channel_id: int = attr(AttrKind.INT, 0)
    source_target_pairs: tuple[tuple[int, int], ...] = attr(AttrKind.PAIRS, (), always=True)
    slice_sizes: tuple[tuple[int, ...], ...] = attr(AttrKind.PAIRS, ())


@dataclass(frozen=True, slots=True)
class SendRecvAttrs(Attrs):
    """channel and whether the peer is the host."""

    channel_id: int = attr(AttrKind.INT, 0)
    is_host_transfer: bool = attr(AttrKind.BOOL, False)


_APPLY = ("to_apply",)
ALL_REDUCE = define(
    OpDef(
        "all-reduce",
        None,
        AllReduceAttrs,
        rules.all_reduce_shape,
        _SEM + "allreduce",
        _COLL,
        _APPLY,
        verify=rules.verify_groups,
    )
)
ALL_REDUCE_START = define(
    OpDef(
        "all-reduce-start",
        None,
        AllReduceAttrs,
        rules.all_reduce_shape,
        _SEM + "allreduce",
        _START,
        _APPLY,
        verify=rules.verify_all_reduce_start,
    )
)
ALL_REDUCE_DONE = define(
    OpDef("all-reduce-done", 1, NoAttrs, rules.start_same_shape, _SEM + "allreduce", _DONE, verify=verify_done)
)
ALL_GATHER = define(
    OpDef("all-gather", None, AllGatherAttrs, None, _SEM + "allgather", _COLL, verify=rules.verify_all_gather)
)
ALL_GATHER_START = define(
    OpDef(
        "all-gather-start", None, AllGatherAttrs, None, _SEM + "allgather", _START, verify=rules.verify_all_gather_start
    )
)
ALL_GATHER_DONE = define(
    OpDef("all-gather-done", 1, NoAttrs, rules.done_second_shape, _SEM + "allgather", _DONE, verify=verify_done)
)
REDUCE_SCATTER = define(
    OpDef(
        "reduce-scatter",
        None,
        AllGatherAttrs,
        None,
        _SEM + "reducescatter",
        _COLL,
        _APPLY,
        verify=rules.verify_reduce_scatter,
    )
)
ALL_TO_ALL = define(
    OpDef(
        "all-to-all",
        None,
        AllToAllAttrs,
        rules.all_to_all_shape,
        _SEM + "alltoall",
        _COLL,
        verify=rules.verify_all_to_all,
    )
)
RAGGED_ALL_TO_ALL = define(
    OpDef(
        "ragged-all-to-all",
        6,
        GroupsAttrs,
        rules.ragged_all_to_all_shape,
        _SEM + "raggedalltoall",
        _COLL,
        verify=rules.verify_groups,
    )
)
COLLECTIVE_BROADCAST = define(
    OpDef(
        "collective-broadcast",
        None,
        GroupsAttrs,
        rules.collective_broadcast_shape,
        _SEM + "collectivebroadcast",
        _COLL,
        verify=rules.verify_groups,
    )
)
COLLECTIVE_PERMUTE = define(
    OpDef(
        "collective-permute",
        None,
        CollectivePermuteAttrs,
        rules.collective_permute_shape,
        _SEM + "collectivepermute",
        _COLL,
        verify=rules.verify_pairs,
    )
)
COLLECTIVE_PERMUTE_START = define(
    OpDef(
        "collective-permute-start",
        None,
        CollectivePermuteAttrs,
        rules.collective_permute_start_shape,
        _SEM + "collectivepermute",
        _START,
        verify=rules.verify_permute_start,
    )
)
COLLECTIVE_PERMUTE_DONE = define(
    OpDef(
        "collective-permute-done",
        1,
        NoAttrs,
        rules.done_second_shape,
        _SEM + "collectivepermute",
        _DONE,
        verify=verify_done,
    )
)
SEND = define(OpDef("send", 2, SendRecvAttrs, rules.send_shape, _SEM + "send", Trait.SIDE_EFFECT | Trait.ASYNC_START))
SEND_DONE = define(
    OpDef(
        "send-done",
        1,
        SendRecvAttrs,
        rules.send_done_shape,
        _SEM + "send",
        Trait.SIDE_EFFECT | _DONE,
        verify=verify_done,
    )
)
RECV = define(
    OpDef(
        "recv",
        1,
        SendRecvAttrs,
        None,
        _SEM + "recv",
        Trait.SIDE_EFFECT | Trait.ASYNC_START | Trait.LEAF,
        verify=rules.verify_recv,
    )
)
RECV_DONE = define(
    OpDef(
        "recv-done",
        1,
        SendRecvAttrs,
        rules.recv_done_shape,
        _SEM + "recv",
        Trait.SIDE_EFFECT | _DONE,
        verify=verify_done,
    )
)
