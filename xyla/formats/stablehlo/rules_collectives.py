"""StableHLO operations that talk to other devices or to the host. Source: the StableHLO specification."""

from __future__ import annotations

from typing import Any

from xyla.formats.mlir.ir import Operation
from xyla.formats.stablehlo import decode_attrs as read
from xyla.formats.stablehlo.body import Body, Result, Rule, arity, at_least, regions
from xyla.formats.stablehlo.rules_compute import promoted
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import TOKEN_SHAPE, Shape
from xyla.support.dtypes import U32
from xyla.support.status import invalid


def _all_reduce(body: Body, op: Operation) -> Result:
    at_least(op, 1)
    regions(op, 1)
    comp = body.converter.region(body, op, 0)
    operands = [body.convert(o, comp.parameters[0].shape) for o in body.operands(op)]
    attrs = ops.AllReduceAttrs(
        read.channel_id(op), read.replica_groups(op), False, read.boolean(op, "use_global_device_ids")
    )
    return body.add(ops.ALL_REDUCE, operands, attrs, shape=body.packed_result(op), called=[comp])


def _cross_replica_sum(body: Body, op: Operation) -> Result:
    arity(op, 1)
    operand = body.get(op.operands[0])
    comp = body.converter.scalar_computation(ops.ADD, operand.shape.element_type)
    attrs = ops.AllReduceAttrs(0, read.replica_groups(op))
    return body.add(ops.ALL_REDUCE, [operand], attrs, shape=body.result(op), called=[comp])


def _all_gather(body: Body, op: Operation) -> Result:
    at_least(op, 1)
    attrs = ops.AllGatherAttrs(
        channel_id=read.channel_id(op),
        replica_groups=read.replica_groups(op),
        dimension=read.integer(op, "all_gather_dim"),
        use_global_device_ids=read.boolean(op, "use_global_device_ids"),
    )
    return body.add(ops.ALL_GATHER, body.operands(op), attrs, shape=body.packed_result(op))


def _reduce_scatter(body: Body, op: Operation) -> Result:
    arity(op, 1)
    regions(op, 1)
    comp = body.converter.region(body, op, 0)
    attrs = ops.AllGatherAttrs(
        channel_id=read.channel_id(op),
        replica_groups=read.replica_groups(op),
        dimension=read.integer(op, "scatter_dimension"),
        use_global_device_ids=read.boolean(op, "use_global_device_ids"),
    )
    operands = promoted(body, body.operands(op), comp)
    return body.add(ops.REDUCE_SCATTER, operands, attrs, shape=body.result(op), called=[comp])


def _all_to_all(body: Body, op: Operation) -> Result:
    at_least(op, 1)
    results = [_one_all_to_all(body, op, o, i) for i, o in enumerate(body.operands(op))]
    return results if len(results) > 1 else results[0]


def _one_all_to_all(body: Body, op: Operation, operand: Instruction, index: int) -> Instruction:
    """HLO splits and joins along one dimension: when they differ, the pieces are moved by a reshape and a transpose."""
    split, join = read.integer(op, "split_dimension"), read.integer(op, "concat_dimension")
    count, dims = read.integer(op, "split_count"), operand.shape.dims
    if not 0 <= split < len(dims) or not 0 <= join < len(dims) or count < 1 or dims[split] % count:
        raise invalid(f"{op.name}: split {split} into {count}, concat {join} does not fit {operand.shape}")
    attrs = ops.AllToAllAttrs(read.channel_id(op), read.replica_groups(op), False, split)
    swapped = body.add(ops.ALL_TO_ALL, [operand], attrs, shape=operand.shape)
    if split == join:
        return swapped
    pieces = [*dims[:split], count, dims[split] // count, *dims[split + 1 :]]
    apart = body.reshape(swapped, pieces)
    order: list[int] = []
    for d in range(len(dims)):
        if d == join:
            order.append(split)
        order.append(d + 1 if d >= split else d)
    shape = apart.shape.with_dims([pieces[d] for d in order])
    moved = body.add(ops.TRANSPOSE, [apart], ops.DimensionsAttrs(tuple(order)), shape=shape)
    return body.reshape(moved, body.result(op, index).dims)


def _collective_permute(body: Body, op: Operation) -> Result:
    arity(op, 1)
    attrs = ops.CollectivePermuteAttrs(read.channel_id(op), read.pairs(op, "source_target_pairs", -1))
    return body.add(ops.COLLECTIVE_PERMUTE, body.operands(op), attrs, shape=body.result(op))


def _collective_broadcast(body: Body, op: Operation) -> Result:
    arity(op, 1)
    attrs = ops.GroupsAttrs(read.channel_id(op), read.replica_groups(op))
    return body.add(ops.COLLECTIVE_BROADCAST, body.operands(op), attrs, shape=body.result(op))


def _identity(target: OpDef[Any]) -> Rule:
    def rule(body: Body, op: Operation) -> Result:
        arity(op, 0)
        return body.add(target, shape=body.result(op))

    return rule


def _after_all(body: Body, op: Operation) -> Result:
    return body.add(ops.AFTER_ALL, body.operands(op), shape=TOKEN_SHAPE)


def _send(body: Body, op: Operation) -> Result:
    """send(inputs..., token): HLO sends one value, a tuple when there are several."""
    at_least(op, 1)
    *inputs, token = body.operands(op)
    data = body.pack(inputs)
    attrs = _transfer(op, 2)
    shape = Shape.tuple_of([data.shape, Shape.array(U32, ()), TOKEN_SHAPE])
    start = body.add(ops.SEND, [data, token], attrs, shape=shape)
    return body.add(ops.SEND_DONE, [start], attrs, shape=TOKEN_SHAPE)


def _recv(body: Body, op: Operation) -> Result:
    """recv(token) -> results..., token."""
    at_least(op, 1)
    shapes = [body.shape(v.type) for v in op.results[:-1]]
    data = shapes[0] if len(shapes) == 1 else Shape.tuple_of(shapes)
    attrs = _transfer(op, 3)
    shape = Shape.tuple_of([data, Shape.array(U32, ()), TOKEN_SHAPE])
    start = body.add(ops.RECV, body.operands(op), attrs, shape=shape)
    done = body.add(ops.RECV_DONE, [start], attrs, shape=Shape.tuple_of([data, TOKEN_SHAPE]))
    return _data_and_token(body, done, len(shapes))


def _transfer(op: Operation, host_type: int) -> ops.SendRecvAttrs:
    host = read.boolean(op, "is_host_transfer") or read.channel_type(op) == host_type
    return ops.SendRecvAttrs(read.channel_id(op), host)


def _data_and_token(body: Body, inst: Instruction, count: int) -> list[Instruction]:
    data, token = body.elements(inst)
    return [*body.unpack(data, count), token]


def _infeed(body: Body, op: Operation) -> Result:
    arity(op, 1, len(op.results))
    shapes = [body.shape(v.type) for v in op.results[:-1]]
    data = shapes[0] if len(shapes) == 1 else Shape.tuple_of(shapes)
    attrs = ops.InfeedAttrs(read.string(op, "infeed_config", ""))
    inst = body.add(ops.INFEED, body.operands(op), attrs, shape=Shape.tuple_of([data, TOKEN_SHAPE]))
    return _data_and_token(body, inst, len(shapes))


def _outfeed(body: Body, op: Operation) -> Result:
    at_least(op, 1)
    *inputs, token = body.operands(op)
    data = body.pack(inputs)
    attrs = ops.OutfeedAttrs(data.shape.with_default_layouts(), read.string(op, "outfeed_config", ""))
    return body.add(ops.OUTFEED, [data, token], attrs, shape=TOKEN_SHAPE)


RULES: dict[str, Rule] = {
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.cross-replica-sum": _cross_replica_sum,
    "stablehlo.all_gather": _all_gather,
    "stablehlo.reduce_scatter": _reduce_scatter,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.collective_permute": _collective_permute,
    "stablehlo.collective_broadcast": _collective_broadcast,
    "stablehlo.partition_id": _identity(ops.PARTITION_ID),
    "stablehlo.replica_id": _identity(ops.REPLICA_ID),
    "stablehlo.after_all": _after_all,
    "stablehlo.create_token": _after_all,
    "stablehlo.send": _send,
    "stablehlo.recv": _recv,
    "stablehlo.infeed": _infeed,
    "stablehlo.outfeed": _outfeed,
}
