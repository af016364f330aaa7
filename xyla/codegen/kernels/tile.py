"""Register tiles: a block of the result (rows along one dimension, columns along another) accumulated in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xyla.codegen.elements import convert, store_element
from xyla.codegen.fused import Emitter, Leaf
from xyla.codegen.index import ZERO, Ix, delinearize
from xyla.codegen.kernel import KernelSpec, signature
from xyla.codegen.kernels.loop import body_of, root_of, start_emitter
from xyla.codegen.kernels.loops import store
from xyla.codegen.kernels.movement import at
from xyla.codegen.llvm import Builder, Cx, Val, Value, vector_constant
from xyla.hlo.module import Instruction
from xyla.support.dtypes import ElementType


class Tile:
    """A tile of `rows` positions along result dimension `row` by `vectors` columns (or vectors of them) along `col`.

    lanes_along_columns: a column place is a vector of `lanes` elements. row or col -1: there is no such dimension.
    One launch unit is one tile. The last tile along a dimension is moved back to fit, so that some elements are
    computed (equally) twice; only columns fewer than one tile are masked.
    """

    def __init__(
        self,
        inst: Instruction,
        acc_type: ElementType,
        lanes: int,
        row: int,
        col: int,
        tile: tuple[int, int],
        *,
        lanes_along_columns: bool,
    ) -> None:
        self.inst, self.root, self.body = inst, root_of(inst), body_of(inst)
        self.shape, self.acc_type, self.lanes = self.root.shape, acc_type, lanes
        self.row, self.col = row, col
        self.lanes_along_columns = lanes_along_columns
        dims = self.shape.dims
        self.row_size = dims[row] if row >= 0 else 1
        self.col_size = dims[col] if col >= 0 else 1
        self.rows = min(tile[0], self.row_size)
        step = lanes if lanes_along_columns else 1
        self.vectors = min(tile[1], -(-self.col_size // step))
        self.width = min(self.vectors * step, self.col_size)
        self.outer = [d for d in range(len(dims)) if d not in (row, col)]
        self.em: Emitter = start_emitter(inst, self.body, lanes)

    def build(self, accumulate: Callable[[list[Ix], Ix, Ix], list[Value]], work: int) -> KernelSpec:
        """Writes the kernel. `accumulate(outer components, first row, first column)` gives the tile's values.

        They are rows*vectors vectors, or when columns are single elements one vector of columns a row.
        work: multiplications a result element.
        """
        em, dims = self.em, self.shape.dims
        row_blocks, col_blocks = -(-self.row_size // self.rows), -(-self.col_size // self.width)
        sizes = [*(dims[d] for d in self.outer), col_blocks, row_blocks]
        units = prod(sizes)
        out = Leaf(em.frame.outputs[0], self.inst.shape)
        with em.b.loop(em.frame.lo, em.frame.hi) as unit, em.scope():
            split = delinearize(em.m, em.m.value(unit.i, 0, units - 1), sizes)
            comps = [ZERO] * len(dims)
            for d, c in zip(self.outer, split, strict=False):
                comps[d] = c
            row, col = (
                self._start(split[-1], self.rows, self.row_size),
                self._start(split[-2], self.width, self.col_size),
            )
            accs = accumulate(comps, row, col)
            for r in range(self.rows):
                if self.lanes_along_columns:
                    self._store_vectors(out, comps, row, col, r, accs[r * self.vectors : (r + 1) * self.vectors])
                else:
                    self._store_row(out, self.place(comps, row, col, r, 0), accs[r])
        total = self.shape.num_elements * work
        size = sum(o.shape.num_bytes for o in self.inst.operands) + self.shape.num_bytes
        grain = max(1, (1 << 17) * units // max(1, total))
        return em.frame.spec(signature(self.inst), units, grain=grain, flops=2 * total, size=size)

    def _store_vectors(self, out: Leaf, comps: list[Ix], row: Ix, col: Ix, r: int, accs: Sequence[Value]) -> None:
        em = self.em
        for v, acc in enumerate(accs):
            value = convert(em.b, self.acc_type, self.shape.element_type, acc)
            em.mask = self.column_mask(v)
            store(em, out, at(self.shape, self.place(comps, row, col, r, v)), value)
            em.mask = None

    def _store_row(self, out: Leaf, place: list[Ix], acc: Value) -> None:
        """Stores one row of single columns, which is a vector with one lane a column."""
        em, et = self.em, self.shape.element_type
        value = convert(em.b, self.acc_type, et, acc)
        first = em.position(at(self.shape, place), out.strides)
        if self.vectors == 1 or out.strides[self.col] == 1:
            store_element(em.b, et, value, out.ptr, first.base)
            return
        for v in range(self.vectors):
            where = em.m.add(first, v * out.strides[self.col])
            store_element(em.b, et, lane_of(em.b, value, v), out.ptr, where.base)

    def _start(self, block: Ix, step: int, size: int) -> Ix:
        return self.em.m.clamp(self.em.m.mul(block, step), 0, size - step)

    def place(self, comps: Sequence[Ix], row: Ix, col: Ix, r: int, v: int) -> list[Ix]:
        """The result position of row r, column v of the tile."""
        out, m = list(comps), self.em.m
        if self.row >= 0:
            out[self.row] = m.add(row, r)
        if self.col >= 0:
            place = m.add(col, v * (self.lanes if self.lanes_along_columns else 1))
            if self.lanes_along_columns:
                place = m.lane(Ix(place.base, 0, 0, self.col_size - 1, place.align))
            out[self.col] = place
        return out

    def column_mask(self, v: int) -> Val | None:
        """The mask of a column vector that reaches past the last column, else None."""
        left = self.col_size - v * self.lanes
        if not self.lanes_along_columns or self.width < self.col_size or left >= self.lanes:
            return None
        return vector_constant([k < left for k in range(self.lanes)], "i1")


def lane_of(b: Builder, value: Value, lane: int) -> Value:
    """One lane of a vector."""
    if isinstance(value, Cx):
        return Cx(b.extract(value.re, lane), b.extract(value.im, lane))
    return b.extract(value, lane)


def sum_lanes(b: Builder, vectors: Sequence[Val], add: Callable[[Val, Val], Val]) -> Val:
    """The lane sums of several vectors as the lanes of one: pairs are halved into each other, log2 steps in all."""
    count = 1 << (len(vectors) - 1).bit_length()
    level = [*vectors, *([vectors[-1]] * (count - len(vectors)))]
    lanes = segment = level[0].lanes
    while len(level) > 1 and segment > 1:
        half = segment // 2
        starts = [s + o for s in range(0, 2 * lanes, segment) for o in range(half)]
        ends = [i + half for i in starts]
        level = [
            add(b.shuffle(x, y, starts), b.shuffle(x, y, ends)) for x, y in zip(level[::2], level[1::2], strict=True)
        ]
        segment = half
    total = level[0]
    while segment > 1:
        segment //= 2
        total = add(total, b.shuffle(total, None, [(i + segment) % lanes for i in range(lanes)]))
    step = lanes // count
    return b.shuffle(total, None, [k * step for k in range(len(vectors))]) if len(vectors) > 1 else b.extract(total, 0)
