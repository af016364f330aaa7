"""Collectives between simulated devices, partition-id and replica-id, send and receive.

Every device of the World evaluates the program; a collective meets the other members of its group and then computes its
own result from all members' values. Groups name replicas, partitions or global devices, by XLA's four modes
(channel id present or not, use_global_device_ids). Spec: XLA operation semantics, StableHLO "Collective ops".
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.interp.batched import batched_or_loop
from xyla.interp.monoid import monoid_of
from xyla.interp.numeric import convert, zero_of
from xyla.interp.reduce import fold_rows
from xyla.interp.session import Session
from xyla.interp.table import EVAL, TOKEN, Array, Kernel, Value
from xyla.runtime.rendezvous import World
from xyla.support.status import invalid, unimplemented


@EVAL.rule(ops.REPLICA_ID)
def _replica_id(inst: Instruction, session: Session) -> Kernel:
    return lambda: np.uint32(session.world.replica(session.device))


@EVAL.rule(ops.PARTITION_ID)
def _partition_id(inst: Instruction, session: Session) -> Kernel:
    return lambda: np.uint32(session.world.partition(session.device))


_HINT = "give the numbers it was written for: replicas=, partitions="


def _name(inst: Instruction) -> str:
    return f"%{inst.name} = {inst.op.name}"


def _short(items: Sequence[object]) -> str:
    text = ", ".join(map(str, items[:8]))
    return f"({text}{', ...' if len(items) > 8 else ''})"


# -- who takes part ------------------------------------------------------------------------------------------------


def members_of(inst: Instruction, world: World, device: int) -> tuple[int, ...]:
    """The devices of `device`'s group, in group order."""
    a = inst.attrs
    if a.replica_groups.text and not a.replica_groups.groups:
        raise unimplemented(f"replica groups over a named mesh ({a.replica_groups.text})", span=inst.span)
    groups = tuple(tuple(d for d in g if d >= 0) for g in a.replica_groups.groups)  # -1 pads ragged groups
    groups = tuple(g for g in groups if g)
    if getattr(a, "use_global_device_ids", False):
        return _find(inst, groups, device, lambda d: d, world.size)
    replica, partition = world.replica(device), world.partition(device)
    cross_partition = a.channel_id != 0 and not hasattr(a, "use_global_device_ids")
    if a.channel_id != 0 and hasattr(a, "use_global_device_ids"):
        # Replica groups with a channel: all partitions of the named replicas.
        replicas = _find(inst, groups, replica, lambda r: r, world.replicas)
        return tuple(p + r * world.partitions for p in range(world.partitions) for r in replicas)
    if cross_partition:
        return _find(inst, groups, partition, lambda p: replica * world.partitions + p, world.partitions)
    return _find(inst, groups, replica, lambda r: r * world.partitions + partition, world.replicas)


def _find(
    inst: Instruction, groups: tuple[tuple[int, ...], ...], me: int, device_of: Any, count: int
) -> tuple[int, ...]:
    if not groups:
        return tuple(device_of(i) for i in range(count))
    for group in groups:
        if me in group:
            if max(group) >= count:
                raise invalid(
                    f"replica group {_short(group)} names device {max(group)}, but the program runs on {count}",
                    hint=_HINT,
                )
            return tuple(device_of(i) for i in group)
    raise invalid(f"{inst.op.name}: device {me} is in no replica group")


def _meet(inst: Instruction, session: Session, value: Value) -> tuple[tuple[int, ...], list[Value]]:
    """(members, their values in group order)."""
    members = members_of(inst, session.world, session.device)
    values = session.world.exchange(inst, session.device, members, value, _name(inst))
    return members, [values[m] for m in members]


def _result(inst: Instruction, values: Sequence[Value]) -> Value:
    """The collective's value, if the number of devices gives the shape that the program states."""
    leaves = inst.shape.tuple_shapes if inst.shape.is_tuple else (inst.shape,)
    _check_shapes(inst, values, leaves)
    out = [
        _in_result_type(v, o.shape, leaf)
        for v, o, leaf in zip(values, _sources(inst, len(leaves)), leaves, strict=True)
    ]
    return tuple(out) if inst.shape.is_tuple else out[0]


def _sources(inst: Instruction, count: int) -> Sequence[Instruction]:
    """The operand that each result is of the type of."""
    return inst.operands if len(inst.operands) == count else inst.operands[:1] * count


def _in_result_type(value: Value, operand: Shape, leaf: Shape) -> Value:
    """Mixed precision: a collective's result may be narrower or wider than its operand."""
    if operand.element_type is leaf.element_type:
        return value
    return convert(np.asarray(value), operand.element_type, leaf.element_type)


def _check_shapes(inst: Instruction, values: Sequence[Value], shapes: Sequence[Shape]) -> None:
    if len(values) != len(shapes) or any(np.shape(v) != s.dims for v, s in zip(values, shapes, strict=True)):
        found = ", ".join(str(list(np.shape(v))) for v in values)
        raise invalid(f"{inst.op.name} on this many devices gives {found}, the program says {inst.shape}", hint=_HINT)


# -- the collectives -----------------------------------------------------------------------------------------------


def _reducer(inst: Instruction, session: Session) -> Any:
    """A function from a list of arrays (one a member) to their reduction, in group order."""
    comp = inst.called[0]
    monoid = monoid_of(comp)
    fold = batched_or_loop(comp, session)

    def reduce(parts: Sequence[Array]) -> Array:
        if monoid is not None:
            acc = monoid.widen(parts[0])
            for part in parts[1:]:
                acc = monoid.ufunc(acc, monoid.widen(part))
            return monoid.narrow(acc)
        rows = np.stack([np.asarray(p) for p in parts[1:]]) if len(parts) > 1 else None
        first = np.asarray(parts[0])
        if rows is None:
            return first
        return np.asarray(fold_rows(fold, (first,), [rows])[0]).astype(first.dtype)

    return reduce


@EVAL.rule(ops.ALL_REDUCE)
def _all_reduce(inst: Instruction, session: Session) -> Kernel:
    reduce = _reducer(inst, session)

    def kernel(*xs: Array) -> Value:
        _, values = _meet(inst, session, xs)
        return _result(inst, [reduce([v[i] for v in values]) for i in range(len(xs))])

    return kernel


@EVAL.rule(ops.ALL_REDUCE_START)
def _all_reduce_start(inst: Instruction, session: Session) -> Kernel:
    reduce = _reducer(inst, session)

    def kernel(*xs: Array) -> Value:
        _, values = _meet(inst, session, xs)
        out = [reduce([v[i] for v in values]) for i in range(len(xs))]
        return tuple(out) if len(out) > 1 else out[0]

    return kernel


@EVAL.rule(ops.ALL_REDUCE_DONE)
def _all_reduce_done(inst: Instruction, session: Session) -> Kernel:
    return lambda x: x


def _gathered(inst: Instruction, session: Session, xs: Sequence[Array]) -> list[Array]:
    _, values = _meet(inst, session, tuple(xs))
    return [np.concatenate([v[i] for v in values], axis=inst.attrs.dimension) for i in range(len(xs))]


@EVAL.rule(ops.ALL_GATHER)
def _all_gather(inst: Instruction, session: Session) -> Kernel:
    return lambda *xs: _result(inst, _gathered(inst, session, xs))


@EVAL.rule(ops.ALL_GATHER_START)
def _all_gather_start(inst: Instruction, session: Session) -> Kernel:
    def kernel(*xs: Array) -> Value:
        out = _gathered(inst, session, xs)
        produced = inst.shape.tuple_shapes[1]
        _check_shapes(inst, out, produced.tuple_shapes if produced.is_tuple else (produced,))
        return (xs, tuple(out)) if len(xs) > 1 else (xs[0], out[0])

    return kernel


@EVAL.rule(ops.ALL_GATHER_DONE, ops.COLLECTIVE_PERMUTE_DONE)
def _second_element(inst: Instruction, session: Session) -> Kernel:
    return operator.itemgetter(1)


@EVAL.rule(ops.REDUCE_SCATTER)
def _reduce_scatter(inst: Instruction, session: Session) -> Kernel:
    reduce, axis = _reducer(inst, session), inst.attrs.dimension

    def kernel(*xs: Array) -> Value:
        members, values = _meet(inst, session, xs)
        me = members.index(session.device)
        out = []
        for i in range(len(xs)):
            pieces = [np.split(np.asarray(v[i]), len(members), axis=axis)[me] for v in values]
            out.append(reduce(pieces))
        return _result(inst, out)

    return kernel


@EVAL.rule(ops.ALL_TO_ALL)
def _all_to_all(inst: Instruction, session: Session) -> Kernel:
    """Tuple form: operand j goes to member j. Array form: block j along `dimension` goes to member j."""
    axis = inst.attrs.dimension

    def kernel(*xs: Array) -> Value:
        members, values = _meet(inst, session, xs)
        me = members.index(session.device)
        if axis is None:
            return _result(inst, [v[me] for v in values])
        blocks = [np.split(np.asarray(v[0]), len(members), axis=axis)[me] for v in values]
        return _result(inst, [np.concatenate(blocks, axis=axis)])

    return kernel


@EVAL.rule(ops.RAGGED_ALL_TO_ALL)
def _ragged_all_to_all(inst: Instruction, session: Session) -> Kernel:
    """Member m sends me input[in_off[me] : + send[me]]; it lands in my output at m's out_off[me]."""

    def kernel(x: Array, output: Array, in_off: Array, send: Array, out_off: Array, recv: Array) -> Array:
        members, values = _meet(inst, session, (x, in_off, send, out_off))
        me = members.index(session.device)
        out = np.array(output)
        for data, starts, sizes, targets in values:
            per_member = max(np.size(starts) // len(members), 1)
            for j in range(per_member * me, per_member * (me + 1)):
                lo, n, to = (int(np.asarray(v).reshape(-1)[j]) for v in (starts, sizes, targets))
                out[to : to + n] = np.asarray(data)[lo : lo + n]
        return out

    return kernel


@EVAL.rule(ops.COLLECTIVE_BROADCAST)
def _collective_broadcast(inst: Instruction, session: Session) -> Kernel:
    """The first member's value; zeros on devices outside all groups."""
    zeros = [np.zeros(o.shape.dims, o.shape.element_type.np) for o in inst.operands]
    named = {d for g in inst.attrs.replica_groups.groups for d in g}

    def kernel(*xs: Array) -> Value:
        world, device = session.world, session.device
        me = world.partition(device) if inst.attrs.channel_id else world.replica(device)
        if named and me not in named:
            return _result(inst, zeros)
        _, values = _meet(inst, session, xs)
        return _result(inst, values[0])

    return kernel


# -- permutes and point-to-point -----------------------------------------------------------------------------------


def _permute(inst: Instruction, session: Session, xs: tuple[Value, ...]) -> tuple[Value, ...]:
    """What this device receives: its source's operands, or zeros."""
    world, device = session.world, session.device
    by_partition = inst.attrs.channel_id != 0
    count = world.partitions if by_partition else world.replicas
    me = world.partition(device) if by_partition else world.replica(device)
    pairs = inst.attrs.source_target_pairs
    if any(max(p) >= count for p in pairs):
        if by_partition and all(max(p) < world.size for p in pairs):
            by_partition, count, me = False, world.size, device  # global ids
            everyone = tuple(range(world.size))
        else:
            raise invalid(f"source-target pairs {_short(pairs)} name more than this run's {count} devices", hint=_HINT)
    elif by_partition:
        everyone = tuple(world.replica(device) * world.partitions + p for p in range(count))
    else:
        everyone = tuple(r * world.partitions + world.partition(device) for r in range(count))
    values = world.exchange(inst, device, everyone, xs, _name(inst))
    source = next((s for s, t in pairs if t == me), None)
    if source is None:
        return tuple(np.zeros(np.shape(x), x.dtype) for x in xs)
    return tuple(values[everyone[source]])


@EVAL.rule(ops.COLLECTIVE_PERMUTE)
def _collective_permute(inst: Instruction, session: Session) -> Kernel:
    if inst.attrs.slice_sizes:
        raise unimplemented("collective-permute in place (slice_sizes): its buffers overlap by design", span=inst.span)
    return lambda *xs: _result(inst, _permute(inst, session, xs))


@EVAL.rule(ops.COLLECTIVE_PERMUTE_START)
def _collective_permute_start(inst: Instruction, session: Session) -> Kernel:
    """(operand, received, context...)."""
    if inst.attrs.slice_sizes:
        raise unimplemented("collective-permute in place (slice_sizes): its buffers overlap by design", span=inst.span)
    extra = max(len(inst.shape.tuple_shapes) - 2, 0)

    def kernel(*xs: Array) -> Value:
        out = _permute(inst, session, xs)
        context = [np.zeros((), np.uint32)] * extra
        return (xs[0], out[0], *context) if len(xs) == 1 else (xs, out, *context)

    return kernel


@EVAL.rule(ops.SEND)
def _send(inst: Instruction, session: Session) -> Kernel:
    """To the host: recorded like an outfeed. To another device: kept for the recv of the same channel."""
    if not inst.attrs.is_host_transfer:
        return _device_send(inst, session)

    def kernel(x: Value, token: Any) -> Value:
        session.host.put_outfeed(x)
        return (x, np.zeros((), np.uint32), TOKEN)

    return kernel


def _pairs(inst: Instruction) -> tuple[tuple[int, int], ...]:
    """Source-target pairs from the frontend attribute that XLA's pipeline parallelism writes."""
    text = dict(inst.frontend_attributes).get("_xla_send_recv_source_target_pairs", "")
    numbers = [int(n) for n in text.replace("{", " ").replace("}", " ").replace(",", " ").split()]
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _device_send(inst: Instruction, session: Session) -> Kernel:
    def kernel(x: Value, token: Any) -> Value:
        session.sent[inst.attrs.channel_id] = (x, _pairs(inst))
        return (x, np.zeros((), np.uint32), TOKEN)

    return kernel


@EVAL.rule(ops.RECV)
def _recv(inst: Instruction, session: Session) -> Kernel:
    shape = inst.shape.tuple_shapes[0]

    def from_host(token: Any) -> Value:
        return (session.host.take_infeed("recv"), np.zeros((), np.uint32), TOKEN)

    def from_device(token: Any) -> Value:
        # The data moves when the pair completes (recv-done): the send may come later in program order.
        session.receiving.add(inst.attrs.channel_id)
        return (nothing, np.zeros((), np.uint32), TOKEN)

    nothing = np.broadcast_to(zero_of(shape.element_type), shape.dims) if shape.is_array else None
    if shape.is_array and not inst.attrs.is_host_transfer:
        return from_device
    return from_host


@EVAL.rule(ops.SEND_DONE)
def _send_done(inst: Instruction, session: Session) -> Kernel:
    return lambda x: TOKEN


@EVAL.rule(ops.RECV_DONE)
def _recv_done(inst: Instruction, session: Session) -> Kernel:
    shape = inst.shape.tuple_shapes[0]
    pairs = _pairs(inst.operands[0]) if inst.operands else ()

    def kernel(pending: Value) -> Value:
        if inst.attrs.channel_id not in session.receiving:
            return (pending[0], TOKEN)
        session.receiving.discard(inst.attrs.channel_id)
        world, device = session.world, session.device
        sent = session.sent.pop(inst.attrs.channel_id, None)
        everyone = tuple(range(world.size))
        values = world.exchange((inst.attrs.channel_id, "recv"), device, everyone, sent, _name(inst))
        used = pairs or next((v[1] for v in values.values() if v is not None), ())
        source = next((s for s, t in used if t == device), None)
        found = values.get(source) if source is not None else None
        if found is None:
            return (np.broadcast_to(zero_of(shape.element_type), shape.dims), TOKEN)
        return (found[0], TOKEN)

    return kernel
