"""Loop nests over arrays: the vectorised dimension, the units of parallel work, main loop and masked tail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from xyla.codegen.elements import natural_lanes, scatter_element, splat_element, store_element
from xyla.codegen.fused import Emitter, Leaf, lanes_of, physical_strides
from xyla.codegen.index import ZERO, Index, Ix, delinearize, number
from xyla.codegen.kernel import GRAIN_ELEMENTS
from xyla.codegen.llvm import Operand, Val, Value, vector_constant
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.support.dtypes import ElementType

# Elements of the vectorised dimension that one unit covers when that dimension is split.
BLOCK = 4096
# Splitting the vectorised dimension pays when there are fewer rows than this.
FEW_ROWS = 64
# A vectorised dimension shorter than this is left: positions are then split from one flat counter, lane by lane.
SHORT = 8

Body = Callable[[Index], None]


@dataclass(frozen=True, slots=True)
class Piece:
    """A region to fill: `body(index)` is written for positions over `shape` (its layout gives the loop order).

    flat: the positions may be given by their physical place only.
    """

    shape: Shape
    body: Body
    flat: bool = False


def choose_lanes(types: Iterable[ElementType], length: int) -> int:
    """The vector length: a register of the widest type, at most the length (rounded up to a power of two)."""
    lanes = min((natural_lanes(t) for t in types), default=1)
    return max(1, min(lanes, 1 << max(0, length - 1).bit_length()))


def minor_length(shape: Shape) -> int:
    """The size of the minor-most dimension that is not 1."""
    return next((shape.dims[d] for d in minor_to_major(shape)), 1)


def minor_to_major(shape: Shape) -> list[int]:
    """The dimensions that are not 1, minor first."""
    order = shape.layout.minor_to_major if shape.layout else range(shape.rank - 1, -1, -1)
    return [d for d in order if shape.dims[d] != 1]


def index_type(shapes: Iterable[Shape]) -> str:
    """i32 when every position fits (with room for doubled complex positions and padding), else i64."""
    largest = max((s.num_elements * (2 if s.element_type.is_complex else 1) for s in shapes), default=0)
    return "i32" if largest < 1 << 30 else "i64"


def is_flat(body: Iterable[Instruction], domain: Shape) -> bool:
    """Whether every instruction can be computed from the physical position in `domain` alone."""
    return all(_flat(inst) for inst in body)


def _flat(inst: Instruction) -> bool:
    op, out = inst.op, inst.shape
    if op is ops.CONSTANT:
        return bool(out.rank == 0 or inst.attrs.literal.is_splat)
    if op is ops.IOTA:
        return out.rank == 1
    if op is ops.BITCAST:
        return True
    if op is ops.RESHAPE:
        src = inst.operands[0].shape
        return _is_packed(out) and _is_packed(src)
    if op is ops.BROADCAST:
        src = inst.operands[0].shape
        same = inst.attrs.dimensions == tuple(range(out.rank)) and src.dims == out.dims
        return src.rank == 0 or (same and same_place(src, out))
    if op is ops.TRANSPOSE:
        theirs, mine = physical_strides(inst.operands[0].shape), physical_strides(out)
        return all(mine[k] == theirs[d] for k, d in enumerate(inst.attrs.dimensions))
    if op is ops.FUSION or op is ops.CALL:
        return out.is_array and same_place(inst.called[0].root.shape, out)
    if op.has(Trait.ELEMENTWISE) or op in (ops.COPY, ops.MAP, ops.OPT_BARRIER, ops.BITCAST_CONVERT):
        return all(o.shape.rank == 0 or same_place(o.shape, out) for o in inst.operands)
    return op is ops.PARAMETER or op is ops.TUPLE


def _is_packed(shape: Shape) -> bool:
    from xyla.codegen.kernels.movement import packed_strides

    return physical_strides(shape) == packed_strides(shape.dims)


def same_place(a: Shape, b: Shape) -> bool:
    """Whether equal positions are equal physical positions."""
    return a.dims == b.dims and physical_strides(a) == physical_strides(b)


class Nest:
    """Writes pieces into a kernel and counts its launch units."""

    def __init__(self, em: Emitter) -> None:
        self.em = em
        self.units = 0
        self.elements = 0
        self.step = em.lanes

    def write(self, pieces: Sequence[Piece], *, scalar_rows: bool = False) -> None:
        """One loop nest a piece; each takes its own part of the launch range.

        scalar_rows: every position is a single element (its lanes are the body's own affair).
        """
        self.step = 1 if scalar_rows else self.em.lanes
        plans = [self._plan(p) for p in pieces if p.shape.num_elements]
        self.units = sum(rows * blocks for _, rows, blocks, _ in plans)
        base = 0
        for piece, rows, blocks, flat in plans:
            lo, hi = self._part(base, rows * blocks)
            base += rows * blocks
            self.elements += piece.shape.num_elements
            self._nest(piece, lo, hi, rows, blocks, flat)

    def write_all(self, piece: Piece) -> None:
        """One loop nest over the whole piece, whatever the launch range."""
        if piece.shape.num_elements:
            _, rows, blocks, flat = self._plan(piece)
            self._nest(piece, 0, rows * blocks, rows, blocks, flat)

    def row(self, body: Callable[[Ix], None], n: int) -> None:
        """The vectorised loop over [0, n), with a masked last iteration."""
        self._row(body, n, 1, ZERO)

    @property
    def grain(self) -> int:
        """Launch units that make a worthwhile part."""
        return max(1, GRAIN_ELEMENTS * self.units // max(1, self.elements))

    def _plan(self, piece: Piece) -> tuple[Piece, int, int, bool]:
        """(piece, rows, blocks a row, whether one flat counter runs over everything)."""
        total = piece.shape.num_elements
        short = minor_length(piece.shape) < min(SHORT, self.step) and total >= 4 * self.step
        flat = piece.flat or (short and self.step > 1)
        row = total if flat else minor_length(piece.shape)
        rows = total // row
        blocks = -(-row // BLOCK) if rows < FEW_ROWS else 1
        return piece, rows, blocks, flat

    def _part(self, base: int, units: int) -> tuple[Val, Val]:
        frame, b = self.em.frame, self.em.b
        if base == 0 and units == self.units:
            return frame.lo, frame.hi
        lo = b.smax(b.sub(frame.lo, base), 0)
        hi = b.smin(b.sub(frame.hi, base), units)
        return lo, hi

    def _nest(self, piece: Piece, lo: Operand, hi: Operand, rows: int, blocks: int, flat: bool) -> None:
        em, m, shape = self.em, self.em.m, piece.shape
        order = minor_to_major(shape)
        row = shape.num_elements if flat else minor_length(shape)
        with em.b.loop(lo, hi) as unit, em.scope():
            counter = m.value(unit.i, 0, rows * blocks - 1)
            r, block = m.divmod(counter, blocks)
            outer = [ZERO] * shape.rank
            if not flat:
                majors = order[:0:-1]
                for d, c in zip(majors, delinearize(m, r, [shape.dims[d] for d in majors]), strict=True):
                    outer[d] = c

            def at(i: Ix) -> Index:
                if flat:
                    return Index(shape.dims, None, i, physical_strides(shape))
                comps = list(outer)
                if order:
                    comps[order[0]] = i
                return Index(shape.dims, tuple(comps))

            self._row(lambda i: piece.body(at(i)), row, blocks, block)

    def _row(self, body: Callable[[Ix], None], n: int, blocks: int, block: Ix) -> None:
        """The vectorised loop over [0, n), or over one block of it, with a masked last iteration."""
        em, b, lanes = self.em, self.em.b, self.step
        full = n - n % lanes
        if blocks > 1:
            first: Val | int = b.mul(em.m.scalar(block), BLOCK)
            last: Val | int = b.smin(b.add(first, BLOCK), full)
        else:
            first, last = 0, full
        if full and n == full and blocks == 1 and full == lanes:
            self._once(body, number(0), n)
        elif full:
            with b.loop(first, last, lanes) as inner:
                self._once(body, Ix(inner.i, 0, 0, n - 1, lanes), n)
        if n > full:
            mask = vector_constant([k < n - full for k in range(lanes)], "i1")
            if blocks > 1:
                with b.when(b.icmp("eq", em.m.scalar(block), blocks - 1)):
                    self._masked(body, Ix(full, 0, full, n - 1, full), n, mask)
            else:
                self._masked(body, Ix(full, 0, full, n - 1, full), n, mask)

    def _once(self, body: Callable[[Ix], None], i: Ix, n: int) -> None:
        place = Ix(i.base, 0, i.lo, n - 1, i.align)
        with self.em.scope():
            body(place if self.step == 1 else self.em.m.lane(place))

    def _masked(self, body: Callable[[Ix], None], i: Ix, n: int, mask: Val) -> None:
        em = self.em
        em.mask = mask
        self._once(body, i, n)
        em.mask = None


def store(em: Emitter, leaf: Leaf, index: Index, value: Value) -> None:
    """Stores one element a lane at `index` of a buffer."""
    store_at(em, leaf, em.position(index, leaf.strides), value)


def store_at(em: Emitter, leaf: Leaf, at: Ix, value: Value) -> None:
    """Stores one element a lane at a physical position."""
    et, b = leaf.shape.element_type, em.b
    if at.is_uniform:
        assert lanes_of(value) == 1 or em.lanes == 1
        store_element(b, et, value, leaf.ptr, at.base)
        return
    value = splat_element(b, value, em.lanes)
    if at.vec is None and at.step == 1:
        store_element(b, et, value, leaf.ptr, em.m.scalar(at), em.mask)
    else:
        scatter_element(b, et, value, leaf.ptr, em.m.vector(at), em.mask)
