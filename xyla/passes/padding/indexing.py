"""Padding rules of dynamic-slice, dynamic-update-slice, gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.passes.building import Builder, Val
from xyla.passes.padding.rules import again, array, array_sizes, refuse, together
from xyla.passes.padding.twin import PAD, Measured, Padded, Twin, inside, masked


def _clamped(b: Builder, start: Val, room: Val) -> Val:
    """A start index kept within [0, room], in its own type."""
    limit = b.maximum(room, 0).convert(start.et)
    return b.minimum(b.maximum(start, 0), limit)


def _starts(inst: Instruction, twins: Sequence[Twin], rank: int) -> list[Val]:
    starts = [array(t).value for t in twins]
    if len(starts) != rank:
        raise refuse(inst, "start indices in one vector")
    return starts


@PAD.rule(ops.DYNAMIC_SLICE)
def _dynamic_slice(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """A dynamic dimension is taken whole, or starts are clamped by its size."""
    x = array(twins[0])
    starts = _starts(inst, twins[1:], len(x.value.dims))
    kept = array_sizes(sizes)
    for d, size in x.sizes.items():
        if d not in kept:
            starts[d] = _clamped(b, starts[d], size - inst.attrs.sizes[d])
    return Padded(again(b, inst, [x.value, *starts]), kept)


@PAD.rule(ops.DYNAMIC_UPDATE_SLICE)
def _dynamic_update_slice(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """Starts are clamped by the sizes; of an update only what counts is written."""
    x, update = array(twins[0]), array(twins[1])
    rank = len(x.value.dims)
    starts = _starts(inst, twins[2:], rank)
    for d in range(rank):
        if d in x.sizes or d in update.sizes:
            starts[d] = _clamped(b, starts[d], x.size(d) - update.size(d))
    if not update.sizes:
        return Padded(b.update(x.value, update.value, starts), x.sizes)
    # The update's bound may reach past the operand's: there is room behind it.
    room = [update.value.dims[d] if d in update.sizes else 0 for d in range(rank)]
    wide = b.pad(x.value, 0, [(0, r) for r in room])
    old = b.dynamic_slice(wide, starts, update.value.dims)
    keep = inside(b, update, list(update.sizes))
    assert keep is not None
    new = b.update(wide, b.select(keep, update.value, old), starts)
    return Padded(new.slice([0] * rank, x.value.dims), x.sizes)


@PAD.rule(ops.GATHER)
def _gather(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """Dynamic batch dimensions of the indices, and dimensions of the operand that are taken whole."""
    return Padded(again(b, inst, [array(t).value for t in twins]), array_sizes(sizes))


@PAD.rule(ops.SCATTER)
def _scatter(b: Builder, inst: Instruction, twins: Sequence[Twin], sizes: Measured) -> Twin:
    """Index vectors past the size, and those whose window leaves the operand's size, point out of bounds: skipped."""
    n = len(twins) // 2
    operands, updates = [array(t) for t in twins[:n]], [array(t) for t in twins[n + 1 :]]
    indices, a = array(twins[n]), inst.attrs
    if (indices.sizes and not a.scatter_dims_to_operand_dims) or a.index_vector_dim in indices.sizes:
        raise refuse(inst, "dynamic empty index vectors")
    if not indices.value.et.is_signed:
        raise refuse(inst, "unsigned indices")
    x = operands[0]
    if any(not _same_sizes(x, other) for other in operands[1:]):
        raise refuse(inst, "operands whose dynamic sizes differ")
    _check_windows(inst, x, updates)
    batch = [d for d in range(len(indices.value.dims)) if d != a.index_vector_dim]
    rest = [d for d in range(len(updates[0].value.dims)) if d not in a.update_window_dims]
    counted = dict(indices.sizes)
    for u in updates:
        counted |= {
            batch[rest.index(d)]: s for d, s in u.sizes.items() if d in rest and batch[rest.index(d)] not in counted
        }
    rows = masked(b, Padded(indices.value, counted), batch, -1)
    rows = _within(b, inst, x, updates[0], rows)
    new = again(b, inst, [*(o.value for o in operands), rows, *(u.value for u in updates)])
    return together([new] if n == 1 else [new.element(i) for i in range(n)], sizes)


def _window_places(inst: Instruction, rank: int) -> dict[int, int]:
    """Operand dimension -> update dimension, for those that windows have."""
    a = inst.attrs
    gone = {*a.inserted_window_dims, *a.input_batching_dims}
    kept = [d for d in range(rank) if d not in gone]
    return dict(zip(kept, a.update_window_dims, strict=True))


def _check_windows(inst: Instruction, x: Padded, updates: Sequence[Padded]) -> None:
    """Dynamic windows cover a dimension of the same size, at no index: what lies past both is no matter."""
    a = inst.attrs
    if any(d in a.input_batching_dims for d in x.sizes):
        raise refuse(inst, "dynamic batching dimensions")
    for d, place in _window_places(inst, len(x.value.dims)).items():
        for u in updates:
            size = u.sizes.get(place)
            if size is None:
                continue
            if d in a.scatter_dims_to_operand_dims or d not in x.sizes or size.inst is not x.sizes[d].inst:
                raise refuse(inst, f"windows whose dynamic size is not that of operand dimension {d}")
    # The other way round, a static window of the bound's size does not fit a smaller operand.
    for d, place in _window_places(inst, len(x.value.dims)).items():
        if d in x.sizes and d not in a.scatter_dims_to_operand_dims and any(place not in u.sizes for u in updates):
            raise refuse(inst, f"a window of static size over dynamic dimension {d}")


def _within(b: Builder, inst: Instruction, x: Padded, update: Padded, rows: Val) -> Val:
    """-1 in every index vector whose window is not inside the operand's sizes."""
    a = inst.attrs
    places = _window_places(inst, len(x.value.dims))
    implicit = a.index_vector_dim == len(rows.dims)
    if implicit:
        rows = rows.reshape(*rows.dims, 1)
    ok: Val | None = None
    for k, d in enumerate(a.scatter_dims_to_operand_dims):
        if d not in x.sizes:
            continue
        extent = update.value.dims[places[d]] if d in places else 1
        room = (x.sizes[d] - extent).convert(rows.et)
        own = rows.slice_dim(a.index_vector_dim, k, k + 1).le(room)
        ok = own if ok is None else ok & own
    if ok is not None:
        lead = [i for i in range(len(rows.dims)) if i != a.index_vector_dim]
        flat = ok.reshape(*(rows.dims[i] for i in lead))
        rows = b.select(flat.broadcast(rows.dims, lead), rows, -1)
    return rows.reshape(*rows.dims[:-1]) if implicit else rows


def _same_sizes(x: Padded, y: Padded) -> bool:
    return x.sizes.keys() == y.sizes.keys() and all(s.inst is y.sizes[d].inst for d, s in x.sizes.items())
