"""dot: register tiles of outer products (lanes along a free dimension) or of inner products (lanes along the
contracted one); BLAS for large f32 and f64 products.

Spec: XLA operation semantics (DotGeneral). Floats below f32 accumulate in f32 and round once; integers wrap in the
result's type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xyla.codegen.elements import ELEMENT, Site, convert, element_constant, splat_element
from xyla.codegen.fused import EMIT, Emitter, Request, Rule
from xyla.codegen.index import ZERO, Index, Ix
from xyla.codegen.kernel import KernelSpec, refuse
from xyla.codegen.kernels.gemm import gemm_of
from xyla.codegen.kernels.loop import body_of, body_types, loop_kernel, root_of
from xyla.codegen.kernels.loops import choose_lanes, minor_to_major
from xyla.codegen.kernels.movement import at, choose
from xyla.codegen.kernels.reduce import Loops
from xyla.codegen.kernels.tile import Tile, sum_lanes
from xyla.codegen.llvm import Cx, Val, Value, vector_constant
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.runtime.program import GemmCall
from xyla.support import dtypes
from xyla.support.dtypes import ElementType

# Rows and vectors of an outer-product tile: 16 accumulators, and room for the operands in 32 registers.
TILE_ROWS, TILE_VECTORS = 4, 4
ROW_VECTORS = 16
# Rows and columns of an inner-product tile.
INNER_ROWS, INNER_COLS = 4, 4


def accumulation_type(out: ElementType, *ins: ElementType) -> ElementType:
    """The type in which products are formed and summed."""
    if out.is_float:
        return dtypes.F64 if dtypes.F64 in (out, *ins) else dtypes.F32
    return out


def multiply_add(em: Emitter, et: ElementType, acc: Value, x: Value, y: Value) -> Value:
    """acc + x*y in the accumulation type; floats with one rounding. A complex product is formed before it is added."""
    b = em.b
    if isinstance(acc, Cx) and isinstance(x, Cx) and isinstance(y, Cx):
        re = b.fma(x.re, y.re, b.fneg(b.fmul(x.im, y.im)))
        return Cx(b.fadd(acc.re, re), b.fadd(acc.im, b.fma(x.im, y.re, b.fmul(x.re, y.im))))
    assert isinstance(acc, Val)
    if et.is_float:
        return b.fma(x, y, acc)  # type: ignore[arg-type]
    product = ELEMENT[ops.MULTIPLY](b, Site(ops.MULTIPLY, et, (et, et)), x, y)
    return ELEMENT[ops.ADD](b, Site(ops.ADD, et, (et, et)), acc, product)


@dataclass(frozen=True, slots=True)
class Roles:
    """Which dimension plays which part. `free` and `out_free`: per side, its free dimensions in operand and result."""

    batch: tuple[tuple[int, ...], tuple[int, ...]]
    contract: tuple[tuple[int, ...], tuple[int, ...]]
    free: tuple[tuple[int, ...], tuple[int, ...]]
    out_free: tuple[tuple[int, ...], tuple[int, ...]]

    @staticmethod
    def of(inst: Instruction) -> Roles:
        """From a dot's attributes."""
        a = inst.attrs
        batch, contract = (a.lhs_batch_dims, a.rhs_batch_dims), (a.lhs_contracting_dims, a.rhs_contracting_dims)
        free = [
            tuple(d for d in range(inst.operands[s].shape.rank) if d not in batch[s] and d not in contract[s])
            for s in (0, 1)
        ]
        nb, nl = len(batch[0]), len(free[0])
        out = tuple(range(nb, nb + nl)), tuple(range(nb + nl, inst.shape.rank))
        return Roles(batch, contract, (free[0], free[1]), out)

    def index(self, side: int, shape: Shape, out: Sequence[Ix], inner: Sequence[Ix]) -> Index:
        """The operand position for a result position and positions along the contracted dimensions."""
        comps = [ZERO] * shape.rank
        for i, d in enumerate(self.batch[side]):
            comps[d] = out[i]
        for d, o in zip(self.free[side], self.out_free[side], strict=True):
            comps[d] = out[o]
        for d, k in zip(self.contract[side], inner, strict=True):
            comps[d] = k
        return at(shape, [c if n != 1 else ZERO for c, n in zip(comps, shape.dims, strict=True)])


@EMIT.rule(ops.DOT)
def dot_element(em: Emitter, inst: Instruction, index: Index, pred: Val | None) -> Rule:
    """One result element: a sum over the contracted dimensions, for each lane on its own."""
    if inst.attrs.sparsity:
        raise refuse(inst, "structured sparsity")
    roles, (x, y) = Roles.of(inst), inst.operands[:2]
    acc_type = accumulation_type(inst.shape.element_type, x.shape.element_type, y.shape.element_type)
    comps = em.comps(index)
    lanes = 1 if all(c.is_uniform for c in comps) else em.lanes
    loops = Loops(em, [x.shape.dims[d] for d in roles.contract[0]], [element_constant(acc_type, 0, lanes)])
    with em.scope():
        u: Any = yield Request(x, roles.index(0, x.shape, comps, loops.indices), pred)
        v: Any = yield Request(y, roles.index(1, y.shape, comps, loops.indices), pred)
        u, v = convert(em.b, x.shape.element_type, acc_type, u), convert(em.b, y.shape.element_type, acc_type, v)
        u, v = splat_element(em.b, u, lanes), splat_element(em.b, v, lanes)
        acc = multiply_add(em, acc_type, loops.carried[0], u, v)
    return convert(em.b, acc_type, inst.shape.element_type, loops.close([acc])[0])


def dot_kernel(inst: Instruction) -> KernelSpec | GemmCall:
    """A library call, or a kernel, for a dot or a fusion whose root is one."""
    root = root_of(inst)
    if root.attrs.sparsity:
        raise refuse(root, "structured sparsity")
    if inst is root:
        call = gemm_of(inst)
        if call is not None:
            return call
    if root.shape.num_elements == 0 or root.operands[0].shape.num_elements == 0:
        return loop_kernel(inst)
    tile = _DotTile(inst)
    return tile.build() if tile.mode else loop_kernel(inst)


class _DotTile:
    """A tile of the result in registers: `rows` positions along one free dimension by columns along another.

    mode "outer": lanes run along the column dimension. mode "inner": lanes run along the last contracted dimension,
    columns are single elements. mode "": neither fits.
    """

    def __init__(self, inst: Instruction) -> None:
        self.inst, self.root, self.body = inst, root_of(inst), body_of(inst)
        self.roles = Roles.of(self.root)
        self.shapes = [o.shape for o in self.root.operands[:2]]
        self.out_shape = self.root.shape
        self.acc_type = accumulation_type(self.out_shape.element_type, *(s.element_type for s in self.shapes))
        self.mode, self.side, self.col = self._choose()
        if self.mode:
            self._plan()

    def _choose(self) -> tuple[str, int, int]:
        """(mode, side whose free dimension the columns are, that dimension of the result)."""
        minor = minor_to_major(self.out_shape)[:1]
        unit: list[tuple[int, int]] = []
        for side in (0, 1):
            shape = self.shapes[side]
            first = minor_to_major(shape)[:1]
            for d, o in zip(self.roles.free[side], self.roles.out_free[side], strict=True):
                if [d] == first and shape.dims[d] >= 4:
                    unit.append((side, o))
        for side, o in unit:
            if [o] == minor:
                return "outer", side, o
        inner = self._contiguous_contraction()
        if inner is not None:
            return "inner", *self._longest_free()
        if unit:
            return "outer", *unit[0]
        return "", 0, 0

    def _contiguous_contraction(self) -> int | None:
        """The contracted pair that is minor in both operands and long enough for vectors."""
        for i, (x, y) in enumerate(zip(*self.roles.contract, strict=True)):
            minors = [minor_to_major(s)[:1] for s in self.shapes]
            if minors == [[x], [y]] and self.shapes[0].dims[x] >= 8:
                return i
        return None

    def _longest_free(self) -> tuple[int, int]:
        sides = [(self.out_shape.dims[o], s, o) for s in (1, 0) for o in self.roles.out_free[s]]
        if not sides:
            return 1, -1
        _, side, o = max(sides, key=lambda t: t[0])
        return side, o

    def _plan(self) -> None:
        dims, other = self.out_shape.dims, 1 - self.side
        types = [*body_types(self.inst, self.body), self.acc_type]
        row = max(((dims[o], o) for o in self.roles.out_free[other]), default=(1, -1))[1]
        inner = self._contiguous_contraction() if self.mode == "inner" else None
        if inner is not None:
            self.k_pair = inner
            self.k_size = self.shapes[0].dims[self.roles.contract[0][inner]]
            self.lanes = choose_lanes(types, self.k_size)
            size = INNER_ROWS, INNER_COLS
        else:
            self.lanes = choose_lanes(types, dims[self.col])
            rows = dims[row] if row >= 0 else 1
            # A lone row reads its matrix once: longer pieces of each matrix row suit the memory better.
            size = (TILE_ROWS, TILE_VECTORS) if rows > 1 else (1, ROW_VECTORS)
        if self.acc_type.is_complex:
            size = min(size[0], 2), min(size[1], 4)
        self.tile = Tile(
            self.inst, self.acc_type, self.lanes, row, self.col, size, lanes_along_columns=self.mode == "outer"
        )
        self.em = self.tile.em

    def build(self) -> KernelSpec:
        """Writes the kernel."""
        return self.tile.build(self._accumulate, prod(self.shapes[0].dims[d] for d in self.roles.contract[0]))

    def _accumulate(self, comps: list[Ix], row: Ix, col: Ix) -> list[Value]:
        em, tile = self.em, self.tile
        zero = element_constant(self.acc_type, 0, self.lanes)
        sizes = [self.shapes[0].dims[d] for d in self.roles.contract[0]]
        if self.mode == "inner":
            sizes[self.k_pair] = 1
        loops = Loops(em, sizes, [zero] * (tile.rows * tile.vectors))
        with em.scope():
            inner = list(loops.indices)
            if self.mode == "inner":
                accs = self._along_contraction(comps, row, col, inner, loops.carried)
            else:
                accs = self._step(comps, row, col, inner, loops.carried)
        accs = loops.close(accs)
        return self._rows(accs) if self.mode == "inner" else accs

    def _rows(self, accs: Sequence[Value]) -> list[Value]:
        """The sums of the accumulators' lanes, a vector of columns for each row."""
        b, width = self.em.b, self.tile.vectors
        out: list[Value] = []
        for k in range(0, len(accs), width):
            row = accs[k : k + width]
            re = sum_lanes(b, [a.re if isinstance(a, Cx) else a for a in row], self._sum)
            imaginary = [a.im for a in row if isinstance(a, Cx)]
            out.append(Cx(re, sum_lanes(b, imaginary, self._sum)) if imaginary else re)
        return out

    def _along_contraction(self, comps: list[Ix], row: Ix, col: Ix, inner: list[Ix], accs: list[Value]) -> list[Value]:
        em, n, lanes = self.em, self.k_size, self.lanes
        full = n - n % lanes
        if full:
            with em.b.loop(0, full, lanes, accs) as loop, em.scope():
                inner[self.k_pair] = em.m.lane(Ix(loop.i, 0, 0, n - 1, lanes))
                loop.next(*self._step(comps, row, col, inner, loop.carried))
            accs = loop.results
        if n > full:
            em.mask = vector_constant([k < n - full for k in range(lanes)], "i1")
            with em.scope():
                inner[self.k_pair] = em.m.lane(Ix(full, 0, full, n - 1, full))
                accs = self._step(comps, row, col, inner, accs)
            em.mask = None
        return accs

    def _step(self, comps: list[Ix], row: Ix, col: Ix, inner: Sequence[Ix], accs: Sequence[Value]) -> list[Value]:
        """Adds one product (or one vector of products) to every accumulator."""
        em, tile, other = self.em, self.tile, 1 - self.side
        columns = []
        for v in range(tile.vectors):
            tail = tile.column_mask(v)
            em.mask = tail if tail is not None else em.mask
            columns.append(self._operand(self.side, tile.place(comps, row, col, 0, v), inner))
            em.mask = None if tail is not None else em.mask
        out = list(accs)
        for r in range(tile.rows):
            x = self._operand(other, tile.place(comps, row, col, r, 0), inner)
            for v, y in enumerate(columns):
                a, b = (x, y) if self.side == 1 else (y, x)
                k = r * tile.vectors + v
                out[k] = multiply_add(em, self.acc_type, out[k], a, b)
        return out

    def _operand(self, side: int, place: Sequence[Ix], inner: Sequence[Ix]) -> Value:
        em, o = self.em, self.root.operands[side]
        value: Any = em.emit(o, self.roles.index(side, o.shape, place, inner))
        wide = splat_element(em.b, convert(em.b, o.shape.element_type, self.acc_type, value), em.lanes)
        if self.mode == "inner" and em.mask is not None:
            # Producers may turn masked zeros into something else.
            return choose(em, em.mask, wide, element_constant(self.acc_type, 0, em.lanes))
        return wide

    def _sum(self, x: Val, y: Val) -> Val:
        et = self.acc_type.component
        total = ELEMENT[ops.ADD](self.em.b, Site(ops.ADD, et, (et, et)), x, y)
        assert isinstance(total, Val)
        return total
