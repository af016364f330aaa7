"""What random programs full of state (`state_modules`) do to arrays: update, relabel, copy, exchange."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xyla.hlo import ops, rewriter
from xyla.hlo.attr_types import ComparisonDirection, FusionKind, OutputOperandAlias, ReplicaGroups
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.ops.basic import CopyStartAttrs, IndexAttrs
from xyla.hlo.ops.collectives import AllGatherAttrs, AllReduceAttrs, AllToAllAttrs, CollectivePermuteAttrs
from xyla.hlo.ops.compute import ReduceAttrs, SortAttrs
from xyla.hlo.ops.control import CustomCallAttrs, FusionAttrs
from xyla.hlo.ops.elementwise import CompareAttrs
from xyla.hlo.ops.movement import BitcastAttrs, DimensionsAttrs, DynamicSliceAttrs, ReshapeAttrs, ScatterAttrs
from xyla.hlo.shape import Layout, Shape
from xyla.support.dtypes import S32
from xyla.testing.state_modules import (
    FLAG,
    MATRIX,
    NARROW,
    PIECE,
    SCALAR,
    VECTOR,
    WIDE,
    Frame,
    Maker,
    parameter,
)

# A custom call whose result lies where its operand does; whoever runs the programs registers it (see `rotated`).
IN_PLACE = "testing.rotate"

Step = Callable[[Maker, Frame], None]
PLAIN: list[Step] = []
COLLECTIVE: list[Step] = []


def rotated(x: Any) -> Any:
    """What IN_PLACE does: the elements, each one place to the front."""
    return x[[*range(1, len(x)), 0]]


def _plain(weight: int) -> Callable[[Step], Step]:
    def add(step: Step) -> Step:
        PLAIN.extend([step] * weight)
        return step

    return add


def _collective(step: Step) -> Step:
    COLLECTIVE.append(step)
    return step


def binary(make: Maker, comp: Computation, op: OpDef[Any], shape: Shape = SCALAR) -> Computation:
    """A new function (a, b) -> op(a, b)."""
    made = make.module.add_computation(op.name)
    made.set_root(made.add(op, [parameter(made, shape), parameter(made, shape)]))
    return made


@_plain(4)
def arithmetic(make: Maker, frame: Frame) -> None:
    """Element by element."""
    shape = make.rng.choice((SCALAR, SCALAR, VECTOR, VECTOR, VECTOR, MATRIX, WIDE, NARROW))
    op = make.rng.choice((ops.ADD, ops.SUBTRACT, ops.MULTIPLY, ops.MAXIMUM))
    frame.take(frame.comp.add(op, [make.pick(frame, shape), make.pick(frame, shape)]))


@_plain(1)
def compared(make: Maker, frame: Frame) -> None:
    """A predicate."""
    operands = [make.pick(frame, SCALAR), make.pick(frame, SCALAR)]
    frame.take(frame.comp.add(ops.COMPARE, operands, CompareAttrs(ComparisonDirection.LT)))


@_plain(1)
def selected(make: Maker, frame: Frame) -> None:
    """One of two vectors."""
    operands = [make.pick(frame, s) for s in (FLAG, VECTOR, VECTOR)]
    spread = frame.comp.add(ops.BROADCAST, [operands[0]], DimensionsAttrs(()), shape=FLAG.with_dims((4,)))
    frame.take(frame.comp.add(ops.SELECT, [spread, *operands[1:]]))


@_plain(2)
def converted(make: Maker, frame: Frame) -> None:
    """Another width."""
    source, target = make.rng.choice(((VECTOR, WIDE), (WIDE, VECTOR), (VECTOR, NARROW), (NARROW, VECTOR)))
    frame.take(frame.comp.add(ops.CONVERT, [make.pick(frame, source)], shape=target))


@_plain(2)
def relabelled(make: Maker, frame: Frame) -> None:
    """The same bytes as another shape."""
    source, target = make.rng.choice(((VECTOR, MATRIX), (MATRIX, VECTOR)))
    op, attrs = make.rng.choice(((ops.RESHAPE, ReshapeAttrs()), (ops.BITCAST, BitcastAttrs())))
    frame.take(frame.comp.add(op, [make.pick(frame, source)], attrs, shape=target))


@_plain(1)
def transposed(make: Maker, frame: Frame) -> None:
    """A transpose; its result may lie column by column, which costs nothing."""
    layout = make.rng.choice((None, Layout((0, 1))))
    shape = MATRIX if layout is None else MATRIX.with_layout(layout)
    turned = frame.comp.add(ops.TRANSPOSE, [make.pick(frame, MATRIX)], DimensionsAttrs((1, 0)), shape=shape)
    frame.take(frame.comp.add(ops.COPY, [turned], shape=MATRIX))


@_plain(5)
def updated(make: Maker, frame: Frame) -> None:
    """dynamic-update-slice."""
    shapes = [VECTOR, make.rng.choice((PIECE, PIECE, VECTOR)), SCALAR]
    frame.take(frame.comp.add(ops.DYNAMIC_UPDATE_SLICE, [make.pick(frame, s) for s in shapes]))


@_plain(2)
def sliced(make: Maker, frame: Frame) -> None:
    """dynamic-slice."""
    operands = [make.pick(frame, VECTOR), make.pick(frame, SCALAR)]
    frame.take(frame.comp.add(ops.DYNAMIC_SLICE, operands, DynamicSliceAttrs((2,))))


@_plain(1)
def spread(make: Maker, frame: Frame) -> None:
    """A scalar everywhere."""
    shape = make.rng.choice((VECTOR, PIECE, MATRIX))
    frame.take(frame.comp.add(ops.BROADCAST, [make.pick(frame, SCALAR)], DimensionsAttrs(()), shape=shape))


@_plain(1)
def reduced(make: Maker, frame: Frame) -> None:
    """A vector's sum."""
    called = [binary(make, frame.comp, ops.ADD)]
    operands = [make.pick(frame, VECTOR), make.pick(frame, SCALAR)]
    frame.take(frame.comp.add(ops.REDUCE, operands, ReduceAttrs((0,)), called=called))


@_plain(2)
def scattered(make: Maker, frame: Frame) -> None:
    """Adds to two elements, in place."""
    attrs = ScatterAttrs(inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), index_vector_dim=1)
    called = [binary(make, frame.comp, make.rng.choice((ops.ADD, ops.MAXIMUM)))]
    operands = [make.pick(frame, s) for s in (VECTOR, PIECE, PIECE)]
    frame.take(frame.comp.add(ops.SCATTER, operands, attrs, called=called))


@_plain(1)
def sorted_(make: Maker, frame: Frame) -> None:
    """A vector, and one that goes along: a tuple of results."""
    before = make.module.add_computation("before")
    params = [parameter(before, SCALAR) for _ in range(4)]
    before.set_root(before.add(ops.COMPARE, params[:2], CompareAttrs(ComparisonDirection.LT)))
    operands = [make.pick(frame, VECTOR), make.pick(frame, VECTOR)]
    frame.take(frame.comp.add(ops.SORT, operands, SortAttrs(0, True), called=[before]))


@_plain(2)
def fused(make: Maker, frame: Frame) -> None:
    """A fusion that ends in an update, or gives two results; it may declare where they lie."""
    comp = make.module.add_computation("fused")
    a, b, i = (parameter(comp, s) for s in (VECTOR, PIECE, SCALAR))
    read = comp.add(ops.DYNAMIC_SLICE, [a, i], DynamicSliceAttrs((2,))) if make.rng.random() < 0.3 else b
    update = comp.add(ops.MULTIPLY, [read, b])
    root = comp.add(ops.DYNAMIC_UPDATE_SLICE, [a, update, i])
    alias: tuple[OutputOperandAlias, ...] = ()
    if make.rng.random() < 0.4:
        whole = comp.add(ops.ADD, [a, a])
        root = comp.add(ops.TUPLE, [whole, comp.add(ops.SUBTRACT, [whole, a])])
    elif make.rng.random() < 0.3:
        alias = (OutputOperandAlias((), 0, ()),)
    comp.set_root(root)
    operands = [make.pick(frame, s) for s in (VECTOR, PIECE, SCALAR)]
    frame.take(frame.comp.add(ops.FUSION, operands, FusionAttrs(FusionKind.LOOP, alias), called=[comp]))


@_plain(1)
def called_outside(make: Maker, frame: Frame) -> None:
    """A custom call, which may overwrite its operand."""
    alias = (OutputOperandAlias((), 0, ()),) if make.rng.random() < 0.7 else ()
    attrs = CustomCallAttrs(custom_call_target=IN_PLACE, output_to_operand_aliasing=alias)
    frame.take(frame.comp.add(ops.CUSTOM_CALL, [make.pick(frame, VECTOR)], attrs, shape=VECTOR))


@_plain(2)
def copied(make: Maker, frame: Frame) -> None:
    """A copy, at once or begun now and waited for later."""
    value = make.pick(frame, make.rng.choice((SCALAR, VECTOR)))
    if make.rng.random() < 0.5:
        frame.take(frame.comp.add(ops.COPY, [value]))
    else:
        begun = frame.comp.add(ops.COPY_START, [value], CopyStartAttrs())
        frame.take(frame.comp.add(ops.COPY_DONE, [begun]))


@_plain(1)
def held(make: Maker, frame: Frame) -> None:
    """A barrier around a tuple, a dependency on a token, or an order between two that do not know each other."""
    value = make.pick(frame, make.shape())
    kind = make.rng.randrange(3)
    if kind == 0:
        frame.take(frame.comp.add(ops.OPT_BARRIER, [value]))
    elif kind == 1 and value.shape.is_array:
        token = frame.comp.add(ops.AFTER_ALL, [])
        frame.take(frame.comp.add(ops.ADD_DEPENDENCY, [value, token]))
    elif value.op is not ops.PARAMETER and value.op is not ops.CONSTANT and value.shape.is_array:
        later = frame.comp.add(ops.ADD, [make.pick(frame, SCALAR), make.pick(frame, SCALAR)])
        rewriter.add_control_dependency(value, later)
        frame.take(later)


@_plain(2)
def packed(make: Maker, frame: Frame) -> None:
    """A tuple of values."""
    values = [make.rng.choice(frame.values) for _ in range(make.rng.randint(1, 3)) if frame.values]
    made = frame.comp.add(ops.TUPLE, values)
    if values and len(list(made.shape.leaves())) <= 12:
        frame.values.append(made)
        frame.values.append(frame.comp.add(ops.GET_TUPLE_ELEMENT, [made], IndexAttrs(0)))


# -- several devices -------------------------------------------------------------------------------------------


def _groups(make: Maker) -> ReplicaGroups:
    """Everybody, pairs, or groups of unequal size."""
    ids = list(range(make.devices))
    make.rng.shuffle(ids)
    cut = make.rng.randint(0, make.devices - 1)
    return ReplicaGroups() if not cut else ReplicaGroups((tuple(ids[:cut]), tuple(ids[cut:])))


@_collective
def all_reduced(make: Maker, frame: Frame) -> None:
    """all-reduce, of one value or of two, at once or begun."""
    attrs = AllReduceAttrs(replica_groups=_groups(make))
    called = [binary(make, frame.comp, make.rng.choice((ops.ADD, ops.MAXIMUM)))]
    values = [make.pick(frame, make.rng.choice((VECTOR, SCALAR))) for _ in range(make.rng.randint(1, 2))]
    if make.rng.random() < 0.5:
        frame.take(frame.comp.add(ops.ALL_REDUCE, values, attrs, called=called))
    else:
        begun = frame.comp.add(ops.ALL_REDUCE_START, values, attrs, called=called)
        frame.take(frame.comp.add(ops.ALL_REDUCE_DONE, [begun]))


@_collective
def permuted(make: Maker, frame: Frame) -> None:
    """collective-permute along some pairs, at once or begun."""
    sources, targets = list(range(make.devices)), list(range(make.devices))
    make.rng.shuffle(sources)
    make.rng.shuffle(targets)
    pairs = tuple(zip(sources, targets, strict=True))[make.rng.randint(0, 1) :]
    attrs = CollectivePermuteAttrs(source_target_pairs=pairs)
    value = make.pick(frame, VECTOR)
    if make.rng.random() < 0.5:
        frame.take(frame.comp.add(ops.COLLECTIVE_PERMUTE, [value], attrs))
    else:
        begun = frame.comp.add(ops.COLLECTIVE_PERMUTE_START, [value], attrs)
        frame.take(frame.comp.add(ops.COLLECTIVE_PERMUTE_DONE, [begun]))


@_collective
def exchanged(make: Maker, frame: Frame) -> None:
    """all-gather and a part of it again; all-to-all."""
    shape = Shape.array(S32, (2 * make.devices,))
    attrs = AllGatherAttrs(dimension=0)
    whole: Instruction = frame.comp.add(ops.ALL_GATHER, [make.pick(frame, PIECE)], attrs, shape=shape)
    if make.rng.random() < 0.5:
        whole = frame.comp.add(ops.ALL_TO_ALL, [whole], AllToAllAttrs(dimension=0))
    called = [binary(make, frame.comp, ops.ADD)]
    frame.take(frame.comp.add(ops.REDUCE_SCATTER, [whole], attrs, called=called, shape=PIECE))
