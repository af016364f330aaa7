"""Rules of the collectives and of send and recv.

Source: XLA operation semantics, one section an op; hlo.proto for replica groups and channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xyla.hlo.op_def import Attrs
from xyla.hlo.rules.common import (
    bare,
    braces,
    dims_match,
    need_array,
    need_dim,
    same_type_but_precision,
    wrong_operand,
)
from xyla.hlo.rules.pairing import verify_start
from xyla.hlo.rules.reduction import check_reducer
from xyla.hlo.shape import TOKEN_SHAPE, UNBOUNDED, Shape
from xyla.support.dtypes import U32
from xyla.support.status import invalid

if TYPE_CHECKING:
    from xyla.hlo.attr_types import ReplicaGroups
    from xyla.hlo.module import Computation, Instruction
    from xyla.hlo.ops.collectives import AllToAllAttrs, CollectivePermuteAttrs

_CONTEXT = Shape.array(U32, ())


def one_or_tuple(shapes: Sequence[Shape]) -> Shape:
    """The one shape, or a tuple of several."""
    return shapes[0] if len(shapes) == 1 else Shape.tuple_of(shapes)


def all_reduce_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """all-reduce: the operands' shapes; the reducer is over one scalar."""
    check_collective_reducer(called[0], shapes)
    return one_or_tuple(shapes)


def check_collective_reducer(comp: Computation, shapes: Sequence[Shape]) -> None:
    """The reducer takes two scalars; operands of other types than the first reuse it, converted."""
    if len(comp.parameters) == 2 and comp.root.shape.is_array:
        element = Shape.array(comp.root.shape.element_type, ())
        check_reducer(comp, [element], [element])
        return
    elements = [Shape.array(need_array(shapes, i).element_type, ()) for i in range(len(shapes))]
    check_reducer(comp, elements, elements)


def start_same_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """The started operation's whole shape, which the done op yields."""
    return shapes[0]


def done_second_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """all-gather-done, collective-permute-done: the result in (operands, results, ...)."""
    if len(shapes[0].tuple_shapes) < 2:
        raise wrong_operand(0, shapes[0], "(operands, results, ...)")
    return shapes[0].tuple_shapes[1]


def check_groups(groups: ReplicaGroups) -> None:
    """No empty group, no device twice. The mesh-axes form is kept as text and not looked into."""
    seen: set[int] = set()
    for group in groups.groups:
        if not group and len(groups.groups) > 1:
            raise invalid("replica_groups has an empty group")
        for device in group:
            if device < 0:
                raise invalid(f"replica_groups holds {device}")
            if device in seen:
                raise invalid(f"replica_groups holds {device} twice")
            seen.add(device)


def verify_groups(inst: Instruction) -> None:
    """A collective's replica groups; use_global_device_ids needs explicit groups."""
    groups: ReplicaGroups = inst.attrs.replica_groups
    check_groups(groups)
    if getattr(inst.attrs, "use_global_device_ids", False) and not groups.groups and not groups.text:
        raise invalid("use_global_device_ids needs replica_groups")


def verify_even_groups(inst: Instruction) -> None:
    """As `verify_groups`, and all groups have one size: the result's shape depends on it."""
    verify_groups(inst)
    groups: ReplicaGroups = inst.attrs.replica_groups
    if len({len(g) for g in groups.groups}) > 1:
        raise invalid("replica_groups differ in size")


def verify_all_reduce_start(inst: Instruction) -> None:
    """all-reduce-start: its groups, and one done op."""
    verify_groups(inst)
    verify_start(inst)


def verify_permute_start(inst: Instruction) -> None:
    """collective-permute-start: its pairs, and one done op."""
    verify_pairs(inst)
    verify_start(inst)


def group_sizes(inst: Instruction) -> tuple[int, ...]:
    """The possible numbers of devices in each group; () where the text does not tell (no groups, mesh form, uneven).

    With a channel but without global ids a group names replicas and each of them spans all partitions; texts from
    before that rule count the named ones only, and where the text does not give num_partitions nobody knows.
    A module without groups leaves the number to the one who runs it.
    """
    groups: ReplicaGroups = inst.attrs.replica_groups
    sizes = {len(g) for g in groups.groups if g}
    if len(sizes) != 1:
        return ()
    size = sizes.pop()
    if inst.attrs.channel_id and not getattr(inst.attrs, "use_global_device_ids", False):
        partitions = inst.module.config.num_partitions
        return (size, size * partitions) if partitions > 1 else ()
    return (size,)


def verify_all_gather(inst: Instruction) -> None:
    """all-gather: each result is its operand, `group size` times as long in the gathered dimension."""
    verify_even_groups(inst)
    _check_scaled(inst, [o.shape for o in inst.operands], _results(inst, inst.shape), gather=True)


def verify_all_gather_start(inst: Instruction) -> None:
    """all-gather-start: (operand, result), or ((operands..), (results..)); context may follow."""
    verify_even_groups(inst)
    verify_start(inst)
    parts = inst.shape.tuple_shapes
    if len(parts) < 2:
        raise invalid(f"result is {bare(inst.shape)}, expected (operands, results)")
    _check_scaled(inst, [o.shape for o in inst.operands], _results(inst, parts[1]), gather=True)


def verify_reduce_scatter(inst: Instruction) -> None:
    """reduce-scatter: each result is its operand, `1 / group size` as long in the scattered dimension."""
    verify_even_groups(inst)
    shapes = [o.shape for o in inst.operands]
    check_collective_reducer(inst.called[0], shapes)
    _check_scaled(inst, shapes, _results(inst, inst.shape), gather=False)


def _results(inst: Instruction, shape: Shape) -> Sequence[Shape]:
    results = shape.tuple_shapes if shape.is_tuple else (shape,)
    if len(results) != len(inst.operands):
        raise invalid(f"{len(results)} results for {len(inst.operands)} operands")
    return results


def _check_scaled(inst: Instruction, shapes: Sequence[Shape], results: Sequence[Shape], *, gather: bool) -> None:
    axis = inst.attrs.dimension
    sizes = group_sizes(inst)
    for i, (operand, result) in enumerate(zip(shapes, results, strict=True)):
        need_dim("dimension", axis, need_array(shapes, i).rank)
        big, small = (result, operand) if gather else (operand, result)
        if not result.is_array or not same_type_but_precision(operand.element_type, result.element_type):
            raise invalid(f"result {i} is {bare(result)}, expected element type {operand.element_type}")
        dims, long = list(small.dims), big.dims[axis] if axis < big.rank else 0
        factor, rest = divmod(long, dims[axis]) if dims[axis] > 0 else (1, long)
        known = not sizes or factor in sizes or UNBOUNDED in (long, small.dims[axis]) or not long
        dims[axis] = long
        if not known or (rest and UNBOUNDED not in small.dims) or not dims_match(small.with_dims(dims), big):
            raise invalid(
                f"result {i} is {bare(result)}, operand {i} is {bare(operand)}: "
                f"dimension {axis} must change by the group size{''.join(f' {s}' for s in sizes[:1])}"
            )


def all_to_all_shape(shapes: Sequence[Shape], attrs: AllToAllAttrs, called: Sequence[Computation]) -> Shape:
    """all-to-all: the array form keeps its shape; the tuple form has one operand a group member, all alike."""
    if attrs.dimension is not None:
        if len(shapes) != 1:
            raise invalid(f"{len(shapes)} operands, expected 1 with dimensions")
        need_dim("dimension", attrs.dimension, need_array(shapes).rank)
        return shapes[0]
    for i in range(1, len(shapes)):
        if bare(shapes[i]) is not bare(shapes[0]):
            raise wrong_operand(i, shapes[i], bare(shapes[0]))
    return Shape.tuple_of(shapes)


def verify_all_to_all(inst: Instruction) -> None:
    """all-to-all: the group size divides the split dimension, or is the operand count."""
    verify_even_groups(inst)
    sizes, axis = group_sizes(inst), inst.attrs.dimension
    if not sizes:
        return
    if axis is None:
        if len(inst.operands) not in sizes:
            raise invalid(f"{len(inst.operands)} operands for groups of {sizes[0]}")
    elif inst.operands[0].shape.dims[axis] % sizes[0]:
        raise invalid(f"dimension {axis} of operand 0, {bare(inst.operands[0].shape)}, does not divide by {sizes[0]}")


def ragged_all_to_all_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """ragged-all-to-all(input, output, input offsets, send sizes, output offsets, receive sizes): as the output."""
    need_array(shapes)
    output = need_array(shapes, 1)
    for i in range(2, 6):
        shape = need_array(shapes, i)
        if not shape.element_type.is_integer or shape.rank not in (1, 2) or shape.dims != shapes[2].dims:
            raise wrong_operand(i, shape, "an integer vector or matrix like operand 2")
    return output


def collective_broadcast_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """collective-broadcast: the operands' shapes."""
    return one_or_tuple(shapes)


def collective_permute_shape(
    shapes: Sequence[Shape], attrs: CollectivePermuteAttrs, called: Sequence[Computation]
) -> Shape:
    """collective-permute: the operands' shapes; in the in-place form (with slice sizes) that of the outputs."""
    if attrs.slice_sizes:
        if len(shapes) != 4:
            raise invalid(f"{len(shapes)} operands, expected 4 with slice_sizes")
        return shapes[1]
    return one_or_tuple(shapes)


def collective_permute_start_shape(
    shapes: Sequence[Shape], attrs: CollectivePermuteAttrs, called: Sequence[Computation]
) -> Shape:
    """collective-permute-start: (operands, results)."""
    if attrs.slice_sizes:
        return Shape.tuple_of([shapes[0], shapes[1], _CONTEXT, _CONTEXT])
    value = one_or_tuple(shapes)
    return Shape.tuple_of([value, value])


def verify_pairs(inst: Instruction) -> None:
    """source_target_pairs: no source twice, no target twice (the in-place form may repeat them)."""
    pairs = inst.attrs.source_target_pairs
    if inst.attrs.slice_sizes:
        return
    for position, what in ((0, "source"), (1, "target")):
        seen: set[int] = set()
        for pair in pairs:
            if len(pair) != 2 or min(pair) < 0:
                raise invalid(f"source_target_pairs holds {braces(pair)}, expected {{source,target}}")
            if pair[position] in seen:
                raise invalid(f"source_target_pairs has {what} {pair[position]} twice")
            seen.add(pair[position])


def send_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """send(data, token): (data, context, token)."""
    if not shapes[1].is_token:
        raise wrong_operand(1, shapes[1], "token[]")
    return Shape.tuple_of([shapes[0], _CONTEXT, TOKEN_SHAPE])


def _need_transfer(shape: Shape) -> tuple[Shape, ...]:
    parts = shape.tuple_shapes
    if len(parts) != 3 or bare(parts[1]) is not _CONTEXT or not parts[2].is_token:
        raise wrong_operand(0, shape, "(data, u32[], token[])")
    return parts


def send_done_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """send-done: a token."""
    _need_transfer(shapes[0])
    return TOKEN_SHAPE


def verify_recv(inst: Instruction) -> None:
    """recv(token): (data, context, token)."""
    if not inst.operands[0].shape.is_token:
        raise wrong_operand(0, inst.operands[0].shape, "token[]")
    parts = inst.shape.tuple_shapes
    if len(parts) != 3 or bare(parts[1]) is not _CONTEXT or not parts[2].is_token:
        raise invalid(f"result is {bare(inst.shape)}, expected (data, u32[], token[])")


def recv_done_shape(shapes: Sequence[Shape], attrs: Attrs, called: Sequence[Computation]) -> Shape:
    """recv-done: (data, token)."""
    data, _, token = _need_transfer(shapes[0])
    return Shape.tuple_of([data, token])
