"""The collectives `xla.gpu.all_reduce`, ..., and the identities of a device, among in-process devices.

Every member of a group brings its operands to a meeting and computes its own results from all members' values, in group
order. A start does the work; its done is then nothing. Source: XLA's collective semantics and its four group modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np

from xyla.runtime.call_types import AttributeType, Kind
from xyla.runtime.custom_calls import CallContext, Handler
from xyla.runtime.library_calls.common import Array, arithmetic, library_call
from xyla.runtime.program import CustomCallStep
from xyla.runtime.rendezvous import SINGLE, World
from xyla.support.status import invalid


class GroupMode(Enum):
    """What the numbers in replica groups name, by XLA's CollectiveOpGroupMode."""

    CROSS_REPLICA = 0
    CROSS_PARTITION = 1
    CROSS_REPLICA_AND_PARTITION = 2
    FLATTENED_ID = 3


class ReductionKind(Enum):
    """How values are combined, by XLA's ReductionKind."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3


_UFUNCS: dict[ReductionKind, tuple[np.ufunc, np.ufunc]] = {
    ReductionKind.SUM: (np.add, np.logical_or),
    ReductionKind.PRODUCT: (np.multiply, np.logical_and),
    ReductionKind.MIN: (np.minimum, np.logical_and),
    ReductionKind.MAX: (np.maximum, np.logical_or),
}
_HINT = "give the numbers it was written for: replicas=, partitions="
_INTS = tuple[int, ...]
_I32 = AttributeType(Kind.I32)
_GROUPED = {
    "group_mode": int,
    "op_id": (int, 0),
    "replica_group_offsets": (_INTS, ()),
    "replica_group_values": (_INTS, ()),
    "uid": (_I32, 0),
}
Combine = Callable[[Sequence[Sequence[Array]], int], list[Array]]


def groups_of(a: dict[str, Any]) -> list[tuple[int, ...]]:
    """The replica groups of a call: the values, cut at the (ending) offsets."""
    values = a["replica_group_values"]
    return [values[lo:hi] for lo, hi in pairwise((0, *a["replica_group_offsets"]))]


def members_of(a: dict[str, Any], world: World, device: int) -> tuple[int, ...]:
    """The devices of `device`'s group in group order. Raises INVALID_ARGUMENT when it is in none."""
    mode, groups = GroupMode(a["group_mode"]), groups_of(a)
    replica, partition = world.replica(device), world.partition(device)
    wide = world.partitions
    match mode:
        case GroupMode.CROSS_REPLICA:
            return tuple(r * wide + partition for r in _group(groups, replica, world.replicas))
        case GroupMode.CROSS_PARTITION:
            return tuple(replica * wide + p for p in _group(groups, partition, wide))
        case GroupMode.CROSS_REPLICA_AND_PARTITION:
            replicas = _group(groups, replica, world.replicas)
            return tuple(r * wide + p for p in range(wide) for r in replicas)
        case GroupMode.FLATTENED_ID:
            return _group(groups, device, world.size)


def _group(groups: list[tuple[int, ...]], me: int, count: int) -> tuple[int, ...]:
    if not groups:
        return tuple(range(count))
    found = next((g for g in groups if me in g), None)
    if found is None:
        raise invalid(f"device {me} is in no replica group")
    if max(found) >= count:
        raise invalid(f"a replica group names device {max(found)}, but the program runs on {count}", hint=_HINT)
    return found


def _meeting(name: str, step: CustomCallStep, a: dict[str, Any], combine: Combine) -> Handler:
    """A handler that meets the group's members and combines all their values, given this device's place in it.

    It raises INVALID_ARGUMENT when a group of that size does not give what the program says.
    """
    types = [t for _, t in step.outputs]

    def run(context: CallContext, arrays: Sequence[Array]) -> list[Array]:
        world, device = context.options.world or SINGLE, context.options.participant
        members = members_of(a, world, device)
        mine = tuple(np.array(x) for x in arrays)
        values = world.exchange((name, a["uid"]), device, members, mine, f"%{context.step}")
        try:
            results = combine([values[m] for m in members], members.index(device))
        except ValueError as error:  # NumPy's word for a dimension that cannot be cut into that many parts
            raise invalid(f"%{context.step} in a group of {len(members)}: {error}", hint=_HINT) from None
        if [np.shape(r) for r in results] != [t.dims for t in types]:
            found, wanted = ([list(s) for s in shapes] for shapes in (map(np.shape, results), (t.dims for t in types)))
            raise invalid(
                f"%{context.step} in a group of {len(members)} gives {found}, the program says {wanted}", hint=_HINT
            )
        return [np.asarray(r).astype(t.dtype) for r, t in zip(results, types, strict=True)]

    return run


def reduced(parts: Sequence[Array], kind: ReductionKind) -> Array:
    """The parts combined in order, narrow floats in f32."""
    plain, logical = _UFUNCS[kind]
    dtype = parts[0].dtype
    ufunc, wide = (logical, dtype) if dtype == np.bool_ else (plain, _sum_type(dtype, kind))
    total = parts[0].astype(wide)
    for part in parts[1:]:
        total = ufunc(total, part.astype(wide))
    return total.astype(dtype)


def _sum_type(dtype: np.dtype[Any], kind: ReductionKind) -> np.dtype[Any]:
    wide = arithmetic(dtype)
    if kind in (ReductionKind.SUM, ReductionKind.PRODUCT):
        return {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}.get(dtype.kind if wide == dtype else "", wide)
    return wide


@library_call("xla.gpu.all_reduce", {**_GROUPED, "reduction_kind": int})
@library_call("xla.gpu.all_reduce_start", {**_GROUPED, "reduction_kind": int})
def _all_reduce(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    kind = ReductionKind(a["reduction_kind"])

    def combine(values: Sequence[Sequence[Array]], me: int) -> list[Array]:
        return [reduced([v[i] for v in values], kind) for i in range(len(values[0]))]

    return _meeting("all_reduce", step, a, combine)


_GATHER = {**_GROUPED, "all_gather_dimension": (int, 0)}


@library_call("xla.gpu.all_gather", _GATHER)
@library_call("xla.gpu.all_gather_start", _GATHER)
def _all_gather(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    axis = a["all_gather_dimension"]

    def combine(values: Sequence[Sequence[Array]], me: int) -> list[Array]:
        return [np.concatenate([v[i] for v in values], axis=axis) for i in range(len(values[0]))]

    return _meeting("all_gather", step, a, combine)


_SCATTER = {**_GROUPED, "reduction_kind": int, "scatter_dimension": (int, 0)}


@library_call("xla.gpu.reduce_scatter", _SCATTER)
@library_call("xla.gpu.reduce_scatter_start", _SCATTER)
def _reduce_scatter(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    kind, axis = ReductionKind(a["reduction_kind"]), a["scatter_dimension"]

    def combine(values: Sequence[Sequence[Array]], me: int) -> list[Array]:
        count = len(values)
        return [reduced([np.split(v[i], count, axis=axis)[me] for v in values], kind) for i in range(len(values[0]))]

    return _meeting("reduce_scatter", step, a, combine)


_EXCHANGE = {**_GROUPED, "has_split_dimension": bool, "split_dimension": (int, 0)}


@library_call("xla.gpu.all_to_all", _EXCHANGE)
@library_call("xla.gpu.all_to_all_start", _EXCHANGE)
def _all_to_all(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """Without a split dimension operand i goes to member i."""
    axis = a["split_dimension"]

    def combine(values: Sequence[Sequence[Array]], me: int) -> list[Array]:
        if not a["has_split_dimension"]:
            return [v[me] for v in values]
        return [
            np.concatenate([np.split(v[i], len(values), axis=axis)[me] for v in values], axis=axis)
            for i in range(len(values[0]))
        ]

    return _meeting("all_to_all", step, a, combine)


@library_call("xla.gpu.collective_broadcast", _GROUPED)
def _collective_broadcast(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """The group's first member's value; zeros where a device is in no group."""
    meet = _meeting("collective_broadcast", step, a, lambda values, me: list(values[0]))

    def run(context: CallContext, arrays: Sequence[Array]) -> Sequence[Array]:
        world, device = context.options.world or SINGLE, context.options.participant
        me = {GroupMode.CROSS_REPLICA: world.replica, GroupMode.CROSS_PARTITION: world.partition}.get(
            GroupMode(a["group_mode"]), lambda d: d
        )(device)
        if a["replica_group_values"] and me not in a["replica_group_values"]:
            return [np.zeros(t.dims, t.dtype) for _, t in step.outputs]
        return meet(context, arrays)

    return run


@library_call("xla.gpu.ragged_all_to_all", _GROUPED)
def _ragged_all_to_all(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """Operands: input, output, input offsets, send sizes, output offsets, receive sizes; one of each list a member.

    Member m sends me input[in_off[me] : + send[me]]; it lands in my output at m's out_off[me].
    """

    def combine(values: Sequence[Sequence[Array]], me: int) -> list[Array]:
        out = np.array(values[me][1])
        for data, _, starts, sizes, targets, _ in values:
            pieces = max(starts.size // len(values), 1)
            for j in range(pieces * me, pieces * (me + 1)):
                lo, n, to = (int(v.reshape(-1)[j]) for v in (starts, sizes, targets))
                out[to : to + n] = data[lo : lo + n]
        return [out]

    return _meeting("ragged_all_to_all", step, a, combine)


_PERMUTE = {**_GROUPED, "source_peers": _INTS, "target_peers": _INTS}


@library_call("xla.gpu.collective_permute", _PERMUTE)
@library_call("xla.gpu.collective_permute_start", _PERMUTE)
def _collective_permute(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    """A device that is no target gets zeros."""
    sources = dict(zip(a["target_peers"], a["source_peers"], strict=True))
    most = max((*a["source_peers"], *a["target_peers"]), default=0)

    def combine(values: Sequence[Sequence[Array]], me: int) -> list[Array]:
        if most >= len(values):
            raise invalid(f"source-target pairs name device {most}, but the program runs on {len(values)}", hint=_HINT)
        if me in sources:
            return list(values[sources[me]])
        return [np.zeros(t.dims, t.dtype) for _, t in step.outputs]

    return _meeting("collective_permute", step, a, combine)


def _done(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    return lambda context, arrays: []


for _name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"):
    library_call(f"xla.gpu.{_name}_done", {"uid": _I32})(_done)


@library_call("xla.gpu.replica_id", {})
def _replica_id(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    return lambda context, arrays: [
        np.asarray((context.options.world or SINGLE).replica(context.options.participant), np.uint32)
    ]


@library_call("xla.gpu.partition_id", {})
def _partition_id(step: CustomCallStep, a: dict[str, Any]) -> Handler:
    return lambda context, arrays: [
        np.asarray((context.options.world or SINGLE).partition(context.options.participant), np.uint32)
    ]
