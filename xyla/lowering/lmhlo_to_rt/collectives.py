"""Collectives and their asynchronous forms.

One whose groups are all of one device is copies, and its done operation nothing. Any other is a call with its group
mode, groups (all their values, and where each ends) and a unique id, which a start shares with its done. Source: XLA's
CollectiveOpGroupMode and ReductionKind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xyla.lowering import lmhlo
from xyla.lowering.lmhlo_to_rt.table import Context, malformed, refuse, rule
from xyla.lowering.units import HandlerUnit
from xyla.runtime.library_calls.collectives import GroupMode, ReductionKind
from xyla.runtime.program import Attribute

MAX_DEVICES = 1 << 20
Groups = tuple[tuple[int, ...], ...]
_REDUCTIONS = {
    "add": ReductionKind.SUM,
    "mul": ReductionKind.PRODUCT,
    "multiply": ReductionKind.PRODUCT,
    "min": ReductionKind.MIN,
    "minimum": ReductionKind.MIN,
    "max": ReductionKind.MAX,
    "maximum": ReductionKind.MAX,
}
# On predicates these two are the least and the greatest.
_LOGICAL = {"and": ReductionKind.MIN, "or": ReductionKind.MAX}


def group_mode(op: Any, *, global_ids: bool | None) -> GroupMode:
    """What the numbers in the groups name. global_ids: None for collectives that have no such attribute."""
    channel = op.channel_id is not None
    if global_ids:
        return GroupMode.FLATTENED_ID
    if not channel:
        return GroupMode.CROSS_REPLICA
    return GroupMode.CROSS_PARTITION if global_ids is None else GroupMode.CROSS_REPLICA_AND_PARTITION


def is_degenerate(mode: GroupMode, groups: Groups, replicas: int, partitions: int) -> bool:
    """Whether every group is one device, so that nothing is communicated."""
    single = bool(groups) and all(len(g) == 1 for g in groups)
    match mode:
        case GroupMode.CROSS_REPLICA:
            return single or (not groups and replicas == 1)
        case GroupMode.CROSS_PARTITION:
            return single or (not groups and partitions == 1)
        case GroupMode.CROSS_REPLICA_AND_PARTITION:
            return (single or (not groups and replicas == 1)) and partitions == 1
        case GroupMode.FLATTENED_ID:
            return single or (not groups and replicas * partitions == 1)


def _uid(op: Any, context: Context) -> int:
    uid = context.next("collective")
    token = getattr(op, "token", None)
    if isinstance(token, lmhlo.Token):
        context.uids[context.function.name, token.number] = uid
    return uid


def _identity(op: Any, mode: GroupMode, groups: Groups, context: Context) -> dict[str, Attribute]:
    ends = np.cumsum([len(g) for g in groups], dtype=int).tolist()
    return {
        "group_mode": mode.value,
        "op_id": op.channel_id.handle if op.channel_id is not None else 0,
        "replica_group_offsets": tuple(int(e) for e in ends),
        "replica_group_values": tuple(v for g in groups for v in g),
        "uid": _uid(op, context),
    }


def _copies(op: Any, context: Context) -> None:
    """The results are the operands; a start's done has nothing to wait for."""
    for source, target in zip(op.inputs, op.results, strict=True):
        context.copy(op, source, target)
    token = getattr(op, "token", None)
    if isinstance(token, lmhlo.Token):
        context.erased.add((context.function.name, token.number))


def _collective(
    op: lmhlo.Collective,
    context: Context,
    global_ids: bool | None,
    more: Mapping[str, Attribute],
    *,
    outsiders: bool = False,
) -> None:
    """outsiders: whether devices that no group names take part, with another result than their operand."""
    mode = group_mode(op, global_ids=global_ids)
    groups = tuple(g for g in op.replica_groups if g)
    function = context.module.entry
    outsiders = outsiders and bool(groups)
    if not outsiders and is_degenerate(mode, groups, function.replica_count, function.num_partitions):
        _copies(op, context)
        return
    target = "xla.gpu." + op.mnemonic.partition(".")[2]
    given = {**_identity(op, mode, groups, context), **more}
    context.library_call(op, target, op.inputs, op.results, given)


def _reduction(op: lmhlo.AllReduce | lmhlo.ReduceScatter) -> int | None:
    """The library's number of a reduction; None where the target has a handler for any. Raises UNIMPLEMENTED."""
    kind = op.computation.kind
    found = _REDUCTIONS.get(kind)
    if found is None and all(v.type.dtype == bool for v in op.inputs):
        found = _LOGICAL.get(kind)
    if found is None and not isinstance(op.unit, HandlerUnit):
        raise refuse(op, f"Failed to determine reduction computation for {op.mnemonic} ({kind or 'not one operation'})")
    return None if found is None else found.value


def _reduce(op: lmhlo.AllReduce | lmhlo.ReduceScatter, context: Context, **more: Attribute) -> None:
    kind = _reduction(op)
    if kind is None and isinstance(op.unit, HandlerUnit):
        context.handler(op, op.unit, op.inputs, op.results)
        token = getattr(op, "token", None)
        if isinstance(token, lmhlo.Token):
            context.erased.add((context.function.name, token.number))
        return
    _collective(op, context, op.use_global_device_ids, {"reduction_kind": kind or 0, **more})


@rule(lmhlo.AllReduce, lmhlo.AllReduceStart)
def _all_reduce(op: lmhlo.AllReduce, context: Context) -> None:
    _reduce(op, context)


@rule(lmhlo.AllGather, lmhlo.AllGatherStart)
def _all_gather(op: lmhlo.AllGather, context: Context) -> None:
    _collective(op, context, op.use_global_device_ids, {"all_gather_dimension": op.all_gather_dimension})


@rule(lmhlo.ReduceScatter, lmhlo.ReduceScatterStart)
def _reduce_scatter(op: lmhlo.ReduceScatter, context: Context) -> None:
    _reduce(op, context, scatter_dimension=op.scatter_dimension)


@rule(lmhlo.AllToAll, lmhlo.AllToAllStart)
def _all_to_all(op: lmhlo.AllToAll, context: Context) -> None:
    has, dimension = op.split_dimension is not None, op.split_dimension or 0
    more = {"has_split_dimension": has, **({"split_dimension": dimension} if has else {})}
    _collective(op, context, None, more)


@rule(lmhlo.CollectiveBroadcast)
def _collective_broadcast(op: lmhlo.CollectiveBroadcast, context: Context) -> None:
    _collective(op, context, None, {}, outsiders=True)


@rule(lmhlo.RaggedAllToAll)
def _ragged_all_to_all(op: lmhlo.RaggedAllToAll, context: Context) -> None:
    mode = group_mode(op, global_ids=None)
    given = _identity(op, mode, tuple(g for g in op.replica_groups if g), context)
    context.library_call(op, "xla.gpu.ragged_all_to_all", op.inputs, (op.output,), given)


@rule(lmhlo.CollectivePermute, lmhlo.CollectivePermuteStart)
def _collective_permute(op: lmhlo.CollectivePermute, context: Context) -> None:
    """All devices are one group. Pairs beyond the partitions of a channel are global numbers."""
    function = context.module.entry
    replicas, partitions = function.replica_count, function.num_partitions
    pairs = op.source_target_pairs
    if any(len(p) != 2 for p in pairs):
        raise malformed(op, "source_target_pairs must be pairs")
    mode, count = GroupMode.CROSS_REPLICA, replicas
    if op.channel_id is not None:
        mode, count = GroupMode.CROSS_PARTITION, partitions
        if any(max(p) >= count for p in pairs) and all(max(p) < replicas * partitions for p in pairs):
            mode, count = GroupMode.FLATTENED_ID, replicas * partitions
    if count > MAX_DEVICES:
        raise malformed(op, f"{count} devices, {MAX_DEVICES} are possible")
    if len(pairs) == count and sorted(pairs) == [(i, i) for i in range(count)]:
        _copies(op, context)
        return
    given = _identity(op, mode, (tuple(range(count)),), context)
    given["source_peers"] = tuple(s for s, _ in pairs)
    given["target_peers"] = tuple(t for _, t in pairs)
    target = "xla.gpu." + op.mnemonic.partition(".")[2]
    context.library_call(op, target, op.inputs, op.results, given)


@rule(
    lmhlo.AllReduceDone,
    lmhlo.AllGatherDone,
    lmhlo.ReduceScatterDone,
    lmhlo.AllToAllDone,
    lmhlo.CollectivePermuteDone,
)
def _done(op: lmhlo.Done, context: Context) -> None:
    """Waits for its start, which it knows by their shared id."""
    key = (context.function.name, op.token.number)
    if key in context.erased:
        return
    uid = context.uids.get(key)
    if uid is None:
        raise malformed(op, "failed to get a unique collective operation id: its start does not come before it")
    target = "xla.gpu." + op.mnemonic.partition(".")[2]
    context.library_call(op, target, op.buffers, (), {"uid": uid})


@rule(lmhlo.Send, lmhlo.SendDone, lmhlo.Recv, lmhlo.RecvDone)
def _point_to_point(op: lmhlo.Op, context: Context) -> None:
    raise refuse(op, "the runtime has no call for it")


def check_tokens(module: lmhlo.Module) -> None:
    """Raises INVALID_ARGUMENT, located, unless each token is taken once, and by the done operation of its start."""
    for function in module.functions:
        users: dict[int, list[lmhlo.Op]] = {}
        starts: list[tuple[int, lmhlo.Op]] = []
        for op in function.body.walk():
            token = getattr(op, "token", None)
            if not isinstance(token, lmhlo.Token):
                continue
            if isinstance(op, lmhlo.Done):
                users.setdefault(token.number, []).append(op)
            else:
                starts.append((token.number, op))
        for number, start in starts:
            _check_users(start, users.get(number, []))


def _check_users(start: lmhlo.Op, users: list[lmhlo.Op]) -> None:
    if len(users) > 1:
        raise malformed(start, "token has multiple uses")
    if not users:
        raise malformed(start, "token is never used: nothing ends what it begins")
    done = users[0]
    wanted = lmhlo.START_OF.get(type(done)) if isinstance(done, lmhlo.Done) else None
    if wanted is None or type(start) is not wanted:
        raise malformed(start, f"illegal token user: {done.mnemonic}")
