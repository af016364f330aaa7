"""The operations of LMHLO by which devices and hosts talk: collectives, their asynchronous forms, feeds, identities.

Names, attributes and defaults are those of the LMHLO and LMHLO_GPU dialects.
"""

from __future__ import annotations

from dataclasses import dataclass

from xyla.lowering.lmhlo_attrs import BOOL, CHANNEL, INT, ROWS, STRING, ChannelHandle, Rows
from xyla.lowering.lmhlo_base import Op, Token, View, attr, define, operand, operands, reducer, token, token_result
from xyla.lowering.outline import Outlined

# The MHLO names of the operations that a collective may reduce with.
REDUCTIONS = ("add", "multiply", "minimum", "maximum", "and", "or")


@dataclass(frozen=True, slots=True)
class Reducer:
    """What a collective reduces with: `kind` is one of REDUCTIONS, or "" for any module `hlo`."""

    kind: str = ""
    hlo: Outlined | None = None


@dataclass(slots=True, eq=False)
class Collective(Op):
    """What the collectives share: as many results as operands, and the groups of devices that take part.

    replica_groups: () is one group of everybody; what the numbers mean follows from channel_id and
    use_global_device_ids.
    """

    inputs: tuple[View, ...] = operands()
    results: tuple[View, ...] = operands()
    replica_groups: Rows = attr(ROWS)
    constrain_layout: bool = attr(BOOL, False)
    channel_id: ChannelHandle | None = attr(CHANNEL, None)
    use_global_device_ids: bool = attr(BOOL, False)


@define("lmhlo.all_reduce", same_size=True)
@dataclass(slots=True, eq=False)
class AllReduce(Collective):
    """Reduces each operand over the devices of a group; every device gets the result."""

    computation: Reducer = reducer()


@define("lmhlo.all_gather", same_size=True)
@dataclass(slots=True, eq=False)
class AllGather(Collective):
    """Concatenates the devices' operands along a dimension."""

    all_gather_dimension: int = attr(INT)


@define("lmhlo.reduce_scatter", same_size=True)
@dataclass(slots=True, eq=False)
class ReduceScatter(Collective):
    """Reduces, and leaves each device its part along a dimension."""

    scatter_dimension: int = attr(INT)
    computation: Reducer = reducer()


@define("lmhlo.all_to_all", same_size=True)
@dataclass(slots=True, eq=False)
class AllToAll(Collective):
    """Sends part i of the operand to device i of the group. split_dimension None: operand i is part i."""

    split_dimension: int | None = attr(INT, None)


@define("lmhlo.collective_broadcast", same_size=True)
@dataclass(slots=True, eq=False)
class CollectiveBroadcast(Collective):
    """Gives every device of a group the first one's operand; devices in no group get zeros."""


@define("lmhlo.ragged_all_to_all")
@dataclass(slots=True, eq=False)
class RaggedAllToAll(Op):
    """Sends slices of unequal sizes; `operands` are input, output, input offsets, send sizes, output offsets, ..."""

    inputs: tuple[View, ...] = operands()
    output: View = operand()
    replica_groups: Rows = attr(ROWS)
    channel_id: ChannelHandle | None = attr(CHANNEL, None)


@define("lmhlo.collective_permute", same_size=True)
@dataclass(slots=True, eq=False)
class CollectivePermute(Op):
    """Sends from source to target devices; a device that is no target gets zeros."""

    inputs: tuple[View, ...] = operands()
    results: tuple[View, ...] = operands()
    source_target_pairs: Rows = attr(ROWS)
    channel_id: ChannelHandle | None = attr(CHANNEL, None)


# -- asynchronous forms ------------------------------------------------------------------------------------------


@define("lmhlo_gpu.all_reduce_start", same_size=True)
@dataclass(slots=True, eq=False)
class AllReduceStart(AllReduce):
    """Begins an all-reduce."""

    token: Token = token_result()


@define("lmhlo_gpu.all_gather_start", same_size=True)
@dataclass(slots=True, eq=False)
class AllGatherStart(AllGather):
    """Begins an all-gather."""

    token: Token = token_result()


@define("lmhlo_gpu.reduce_scatter_start", same_size=True)
@dataclass(slots=True, eq=False)
class ReduceScatterStart(ReduceScatter):
    """Begins a reduce-scatter."""

    token: Token = token_result()


@define("lmhlo_gpu.all_to_all_start", same_size=True)
@dataclass(slots=True, eq=False)
class AllToAllStart(AllToAll):
    """Begins an all-to-all."""

    token: Token = token_result()


@define("lmhlo_gpu.collective_permute_start", same_size=True)
@dataclass(slots=True, eq=False)
class CollectivePermuteStart(CollectivePermute):
    """Begins a collective-permute."""

    token: Token = token_result()


@dataclass(slots=True, eq=False)
class Done(Op):
    """Waits for what a start operation began. `buffers`: the start's operands and results, where they are stated."""

    token: Token = token()
    buffers: tuple[View, ...] = operands()


@define("lmhlo_gpu.all_reduce_done")
@dataclass(slots=True, eq=False)
class AllReduceDone(Done):
    """Ends an all-reduce."""


@define("lmhlo_gpu.all_gather_done")
@dataclass(slots=True, eq=False)
class AllGatherDone(Done):
    """Ends an all-gather."""


@define("lmhlo_gpu.reduce_scatter_done")
@dataclass(slots=True, eq=False)
class ReduceScatterDone(Done):
    """Ends a reduce-scatter."""


@define("lmhlo_gpu.all_to_all_done")
@dataclass(slots=True, eq=False)
class AllToAllDone(Done):
    """Ends an all-to-all."""


@define("lmhlo_gpu.collective_permute_done")
@dataclass(slots=True, eq=False)
class CollectivePermuteDone(Done):
    """Ends a collective-permute."""


# -- feeds and identities ----------------------------------------------------------------------------------------


@define("lmhlo.infeed")
@dataclass(slots=True, eq=False)
class Infeed(Op):
    """Takes the next arrays of the device's infeed queue."""

    outputs: tuple[View, ...] = operands()
    config: str = attr(STRING, "")


@define("lmhlo.outfeed")
@dataclass(slots=True, eq=False)
class Outfeed(Op):
    """Appends arrays to the device's outfeed queue."""

    inputs: tuple[View, ...] = operands()
    config: str = attr(STRING, "")


@define("lmhlo.send")
@dataclass(slots=True, eq=False)
class Send(Op):
    """Begins to send an array over a channel."""

    inputs: tuple[View, ...] = operands()
    channel_id: ChannelHandle = attr(CHANNEL)
    is_host_transfer: bool = attr(BOOL, False)
    token: Token = token_result()


@define("lmhlo.send_done")
@dataclass(slots=True, eq=False)
class SendDone(Done):
    """Waits until what was sent may be overwritten."""


@define("lmhlo.recv")
@dataclass(slots=True, eq=False)
class Recv(Op):
    """Begins to receive an array from a channel."""

    outputs: tuple[View, ...] = operands()
    channel_id: ChannelHandle = attr(CHANNEL)
    is_host_transfer: bool = attr(BOOL, False)
    token: Token = token_result()


@define("lmhlo.recv_done")
@dataclass(slots=True, eq=False)
class RecvDone(Done):
    """Waits until the array has come."""


@define("lmhlo.replica_id")
@dataclass(slots=True, eq=False)
class ReplicaId(Op):
    """Stores the device's replica number, a u32."""

    output: View = operand()


@define("lmhlo.partition_id")
@dataclass(slots=True, eq=False)
class PartitionId(Op):
    """Stores the device's partition number, a u32."""

    output: View = operand()


# Which start operation a done operation ends.
START_OF: dict[type[Done], type[Op]] = {
    AllReduceDone: AllReduceStart,
    AllGatherDone: AllGatherStart,
    ReduceScatterDone: ReduceScatterStart,
    AllToAllDone: AllToAllStart,
    CollectivePermuteDone: CollectivePermuteStart,
    SendDone: Send,
    RecvDone: Recv,
}
