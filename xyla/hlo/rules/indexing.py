"""Rules of gather and scatter.

Source: XLA operation semantics, "Gather" and "Scatter"; StableHLO gather/scatter for the batching dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xyla.hlo.rules.common import (
    bare,
    braces,
    dims_of,
    flags,
    need_array,
    need_arrays,
    need_dims,
    same_type_but_precision,
    wrong_operand,
)
from xyla.hlo.rules.reduction import check_reducer
from xyla.hlo.shape import UNBOUNDED, Shape
from xyla.support.status import invalid

if TYPE_CHECKING:
    from xyla.hlo.module import Computation
    from xyla.hlo.ops.movement import GatherAttrs, ScatterAttrs


@dataclass(frozen=True, slots=True)
class _Windows:
    """The dimension numbers that gather and scatter share, under gather's names, with the attribute names to quote."""

    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    start_map: tuple[int, ...]
    operand_batch: tuple[int, ...]
    index_batch: tuple[int, ...]
    index_vector_dim: int
    names: tuple[str, str, str, str, str]

    def check(self, operand: Shape, indices: Shape, index_operand: int) -> None:
        """Ranges, order and disjointness of the dimension numbers."""
        names, rank = self.names, operand.rank
        if not indices.element_type.is_integer:
            raise wrong_operand(index_operand, indices, "integer indices")
        if not 0 <= self.index_vector_dim <= indices.rank:
            raise invalid(f"index_vector_dim {self.index_vector_dim} is out of range for rank {indices.rank}")
        need_dims(names[1], self.collapsed, rank, ordered=True)
        need_dims(names[2], self.start_map, rank)
        need_dims(names[3], self.operand_batch, rank, ordered=True)
        need_dims(names[4], self.index_batch, indices.rank)
        if set(self.collapsed) & set(self.operand_batch):
            raise invalid(f"{names[1]} and {names[3]} share a dimension")
        if set(self.start_map) & set(self.operand_batch):
            raise invalid(f"{names[2]} and {names[3]} share a dimension")
        if self.index_vector_dim in self.index_batch:
            raise invalid(f"{names[4]} holds index_vector_dim {self.index_vector_dim}")
        width = 1 if self.index_vector_dim == indices.rank else indices.dims[self.index_vector_dim]
        if width != len(self.start_map) and width != UNBOUNDED:
            raise invalid(
                f"{names[2]} {braces(self.start_map)} has {len(self.start_map)} entries, indices have {width}"
            )
        self._check_batch(operand, indices)

    def _check_batch(self, operand: Shape, indices: Shape) -> None:
        if len(self.operand_batch) != len(self.index_batch):
            raise invalid(f"{self.names[3]} and {self.names[4]} differ in length")
        for o, i in zip(self.operand_batch, self.index_batch, strict=True):
            if operand.dims[o] != indices.dims[i] and UNBOUNDED not in (operand.dims[o], indices.dims[i]):
                raise invalid(
                    f"batching dimension {o} of the operand has size {operand.dims[o]}, dimension {i} "
                    f"of the indices {indices.dims[i]}"
                )

    def window_dims(self, rank: int) -> list[int]:
        """Operand dimensions that appear in a window, in order."""
        dropped = {*self.collapsed, *self.operand_batch}
        return [d for d in range(rank) if d not in dropped]

    def batch_dims(self, indices: Shape) -> list[int]:
        """Dimensions of the indices other than the index vector."""
        return [d for d in range(indices.rank) if d != self.index_vector_dim]


def _gather_windows(a: GatherAttrs) -> _Windows:
    names = (
        "offset_dims",
        "collapsed_slice_dims",
        "start_index_map",
        "operand_batching_dims",
        "start_indices_batching_dims",
    )
    return _Windows(
        a.offset_dims,
        a.collapsed_slice_dims,
        a.start_index_map,
        a.operand_batching_dims,
        a.start_indices_batching_dims,
        a.index_vector_dim,
        names,
    )


def _scatter_windows(a: ScatterAttrs) -> _Windows:
    names = (
        "update_window_dims",
        "inserted_window_dims",
        "scatter_dims_to_operand_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
    )
    return _Windows(
        a.update_window_dims,
        a.inserted_window_dims,
        a.scatter_dims_to_operand_dims,
        a.input_batching_dims,
        a.scatter_indices_batching_dims,
        a.index_vector_dim,
        names,
    )


def gather_shape(shapes: Sequence[Shape], attrs: GatherAttrs, called: Sequence[Computation]) -> Shape:
    """gather: window sizes at offset_dims, the indices' other dimensions elsewhere, in order."""
    operand, indices = need_array(shapes), need_array(shapes, 1)
    w = _gather_windows(attrs)
    w.check(operand, indices, 1)
    _check_slice_sizes(operand, attrs.slice_sizes, w)
    window = [attrs.slice_sizes[d] for d in w.window_dims(operand.rank)]
    if len(window) != len(w.offset):
        raise invalid(f"offset_dims {braces(w.offset)} has {len(w.offset)} entries for {len(window)} window dimensions")
    sizes, dyn = dims_of(indices, w.batch_dims(indices))
    need_dims("offset_dims", w.offset, len(sizes) + len(window), ordered=True)
    batch = iter(zip(sizes, dyn, strict=True))
    where = dict(zip(w.offset, window, strict=True))
    out = [(where[d], False) if d in where else next(batch) for d in range(len(sizes) + len(window))]
    return Shape.array(operand.element_type, [d for d, _ in out], None, [f for _, f in out])


def _check_slice_sizes(operand: Shape, sizes: tuple[int, ...], w: _Windows) -> None:
    if len(sizes) != operand.rank:
        raise invalid(f"slice_sizes {braces(sizes)} has {len(sizes)} sizes for rank {operand.rank}")
    for i, (size, d) in enumerate(zip(sizes, operand.dims, strict=True)):
        if size < 0 or (size > d and d != UNBOUNDED):
            raise invalid(f"slice size {size} of dimension {i} does not fit {bare(operand)}")
    for d in (*w.collapsed, *w.operand_batch):
        if sizes[d] > 1:
            raise invalid(f"slice size {sizes[d]} of dropped dimension {d}, expected at most 1")


def scatter_shape(shapes: Sequence[Shape], attrs: ScatterAttrs, called: Sequence[Computation]) -> Shape:
    """scatter(operands.., indices, updates..): the operands' shapes; a tuple when there are several."""
    if len(shapes) % 2 == 0:
        raise invalid(f"{len(shapes)} operands, expected n inputs, the indices and n updates")
    count = len(shapes) // 2
    need_arrays(shapes)
    operands, indices, updates = shapes[:count], shapes[count], shapes[count + 1 :]
    w = _scatter_windows(attrs)
    for i, operand in enumerate(operands):
        if operand.dims != operands[0].dims:
            raise wrong_operand(i, operand, f"the dims of {bare(operands[0])}")
    w.check(operands[0], indices, count)
    for i, (operand, update) in enumerate(zip(operands, updates, strict=True)):
        if not same_type_but_precision(operand.element_type, update.element_type):
            raise wrong_operand(count + 1 + i, update, f"element type {operand.element_type}")
        _check_update(operand, indices, update, w, count + 1 + i)
    elements = [Shape.array(s.element_type, ()) for s in operands]
    check_reducer(called[0], elements, elements)
    return operands[0] if count == 1 else Shape.tuple_of(operands)


def _check_update(operand: Shape, indices: Shape, update: Shape, w: _Windows, index: int) -> None:
    window = w.window_dims(operand.rank)
    need_dims(w.names[0], w.offset, update.rank, ordered=True)
    if len(window) != len(w.offset):
        raise invalid(
            f"update_window_dims {braces(w.offset)} has {len(w.offset)} entries for {len(window)} window dimensions"
        )
    batch, _ = dims_of(indices, w.batch_dims(indices))
    if update.rank != len(batch) + len(window):
        raise wrong_operand(index, update, f"rank {len(batch) + len(window)}")
    for u, d in zip(w.offset, window, strict=True):
        if update.dims[u] > operand.dims[d] and not flags(operand)[d]:
            raise wrong_operand(index, update, f"at most {operand.dims[d]} elements in dimension {u}")
    rest = [d for u, d in enumerate(update.dims) if u not in w.offset]
    for size, want in zip(rest, batch, strict=True):
        if size != want and UNBOUNDED not in (size, want):
            raise wrong_operand(index, update, f"the dims {braces(batch)} of the indices outside {w.names[0]}")
