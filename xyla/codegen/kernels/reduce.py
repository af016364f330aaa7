"""reduce: by rows (lanes along the reduced dimension), by columns (lanes along a kept one), or element by element.

Spec: XLA operation semantics (Reduce). The initial value enters each result once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import prod
from typing import Any

from xyla.codegen.elements import splat_element
from xyla.codegen.fused import EMIT, Emitter, Leaf, NeedScalarError, Request, Rule, physical_strides
from xyla.codegen.index import SCALAR, ZERO, Index, Ix, delinearize, number
from xyla.codegen.kernel import KernelSpec, signature
from xyla.codegen.kernels.loop import body_of, body_types, leaves_of, loop_kernel, root_of, start_emitter
from xyla.codegen.kernels.loops import choose_lanes, minor_to_major, store, store_at
from xyla.codegen.kernels.movement import at, choose
from xyla.codegen.kernels.reducers import Reducer
from xyla.codegen.llvm import Cx, Loop, Val, Value, vector_constant
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape

# Independent accumulators of a row reduction: enough to hide the latency of an addition.
ACCUMULATORS = 4
# Elements of one column block: its accumulators stay in the first-level cache.
COLUMN_BLOCK = 1024


class Loops:
    """Several nested loops over dimensions that carry the same values through."""

    def __init__(self, em: Emitter, sizes: Sequence[int], carry: Sequence[Value]) -> None:
        self._em = em
        self._open: list[tuple[AbstractContextManager[Loop], Loop]] = []
        self.indices: list[Ix] = []
        self.carried: list[Value] = list(carry)
        for n in sizes:
            if n == 1:
                self.indices.append(ZERO)
                continue
            context = em.b.loop(0, n, 1, self.carried)
            loop = context.__enter__()
            self._open.append((context, loop))
            self.carried = loop.carried
            self.indices.append(Ix(loop.i, 0, 0, n - 1, 1))

    def close(self, values: Sequence[Value]) -> list[Value]:
        """Ends every loop; `values` are what the innermost body computed. Returns the final ones."""
        out = list(values)
        for context, loop in reversed(self._open):
            loop.next(*out)
            context.__exit__(None, None, None)
            out = loop.results
        return out


def merge(operand: Shape, dims: Sequence[int], index: Sequence[Ix], inner: Sequence[Ix]) -> Index:
    """The operand position with `inner` along the reduced `dims` and `index` along the others."""
    kept = iter(index)
    along = dict(zip(dims, inner, strict=True))
    return at(operand, [along[d] if d in along else next(kept) for d in range(operand.rank)])


@EMIT.rule(ops.REDUCE)
def reduce_element(em: Emitter, inst: Instruction, index: Index, pred: Val | None) -> Rule:
    """Folds in order, for each lane on its own."""
    n = len(inst.operands) // 2
    inputs, dims = inst.operands[:n], sorted(inst.attrs.dimensions)
    count = prod(inputs[0].shape.dims[d] for d in dims)
    reducer = Reducer.of(inst.role("to_apply"), [o.shape.element_type for o in inputs], count)
    inits: list[Any] = []
    for o in inst.operands[n:]:
        inits.append((yield Request(o, SCALAR, pred)))
    src = inputs[0].shape
    comps = em.comps(index)
    starts = reducer.start(em, inst.operands[n:], inits)
    if any(src.dims[d] == 0 for d in dims):
        return _result(inst, reducer.narrow(em, starts))
    lanes = 1 if all(c.is_uniform for c in comps) else em.lanes
    accs = [splat_element(em.b, v, lanes) for v in starts]
    loops = Loops(em, [src.dims[d] for d in dims], accs)
    with em.scope():
        where = merge(src, dims, comps, loops.indices)
        values: list[Any] = []
        for o in inputs:
            values.append((yield Request(o, where, pred)))
        wide = [splat_element(em.b, v, lanes) for v in reducer.widen(em, values)]
        accs = [splat_element(em.b, v, lanes) for v in reducer.apply(em, loops.carried, wide)]
    return _result(inst, reducer.narrow(em, loops.close(accs)))


def _result(inst: Instruction, values: Sequence[Value]) -> Any:
    return tuple(values) if inst.shape.is_tuple else values[0]


def reduce_kernel(inst: Instruction) -> KernelSpec:
    """A kernel for a reduce, or for a fusion whose root is one."""
    root = root_of(inst)
    n = len(root.operands) // 2
    src, dims = root.operands[0].shape, set(root.attrs.dimensions)
    order = minor_to_major(src)
    same = all(physical_strides(o.shape) == physical_strides(src) for o in root.operands[:n])
    if not order or src.num_elements == 0 or not same:
        return loop_kernel(inst)
    count = prod(src.dims[d] for d in dims)
    reducer = Reducer.of(root.role("to_apply"), [o.shape.element_type for o in root.operands[:n]], count)
    try:
        if order[0] in dims and reducer.identity is not None and not reducer.in_order(count):
            return RowReduce(inst, reducer, order).build()
        if order[0] not in dims and _is_minor(inst, order[0], dims) and src.dims[order[0]] >= 8:
            return ColumnReduce(inst, reducer, order).build()
    except NeedScalarError:
        pass
    return loop_kernel(inst)


def _is_minor(inst: Instruction, dim: int, dims: set[int]) -> bool:
    """Whether an operand dimension is the minor one of every output."""
    kept = dim - sum(d < dim for d in dims)
    return all(minor_to_major(s)[:1] == [kept] for s in leaves_of(inst.shape))


class _Reduction:
    """What row and column reductions share: the frame, the operands, the loop order."""

    def __init__(self, inst: Instruction, reducer: Reducer, order: list[int]) -> None:
        self.inst, self.reducer = inst, reducer
        self.root = root_of(inst)
        self.body = body_of(inst)
        self.src = self.root.operands[0].shape
        self.n = len(self.root.operands) // 2
        self.dims = sorted(self.root.attrs.dimensions)
        self.minor = order[0]
        self.length = self.src.dims[self.minor]
        lanes = choose_lanes([*body_types(inst, self.body), *reducer.acc_types], self.length)
        self.em = start_emitter(inst, self.body, lanes)
        self.outputs = leaves_of(inst.shape)
        self.outs = [Leaf(p, s) for p, s in zip(self.em.frame.outputs, self.outputs, strict=True)]
        # Reduced dimensions other than the minor one, from major to minor.
        self.outer = [d for d in reversed(order) if d in self.dims and d != self.minor]

    def spec(self, units: int) -> KernelSpec:
        elements = self.src.num_elements
        size = sum(o.shape.num_bytes for o in self.inst.operands) + self.inst.shape.num_bytes
        grain = max(1, (1 << 15) * units // elements)
        return self.em.frame.spec(signature(self.inst), units, grain=grain, flops=elements * len(self.body), size=size)

    def inits(self) -> list[Value]:
        values: list[Any] = [self.em.emit(o, SCALAR) for o in self.root.operands[self.n :]]
        return self.reducer.start(self.em, self.root.operands[self.n :], values)

    def values(self, index: Index) -> list[Value]:
        """The operands' elements at a position, widened, all lanes."""
        em = self.em
        got: list[Any] = [em.emit(o, index) for o in self.root.operands[: self.n]]
        return [splat_element(em.b, v, em.lanes) for v in self.reducer.widen(em, got)]

    def place(self, kept: Sequence[Ix], along: dict[int, Ix]) -> Index:
        """An operand position: `along` for reduced dimensions (0 by default), `kept` for the others in order."""
        rest = iter(kept)
        return at(self.src, [along.get(d, ZERO) if d in self.dims else next(rest) for d in range(self.src.rank)])


class RowReduce(_Reduction):
    """Lanes run along the operand's minor dimension, which is reduced; one output element is one launch unit."""

    def build(self) -> KernelSpec:
        """Writes the kernel."""
        em, out = self.em, self.outs[0]
        frame = em.frame
        inits = self.inits()
        kept = minor_to_major(out.shape)[::-1]
        with em.b.loop(frame.lo, frame.hi) as unit, em.scope():
            i = em.m.value(unit.i, 0, out.shape.num_elements - 1)
            comps = [ZERO] * out.shape.rank
            for d, c in zip(kept, delinearize(em.m, i, [out.shape.dims[d] for d in kept]), strict=True):
                comps[d] = c
            total = self._row(comps)
            accs = [self._horizontal(total)]
            final = self.reducer.narrow(em, self.reducer.apply(em, inits, accs))
            store_at(em, out, em.m.offset(comps, out.strides), final[0])
        return self.spec(out.shape.num_elements)

    def _row(self, comps: Sequence[Ix]) -> Value:
        """One accumulator with all lanes, over every reduced dimension."""
        em, lanes, n = self.em, self.em.lanes, self.length
        chains = ACCUMULATORS if n >= 2 * lanes * ACCUMULATORS and len(self.body) <= 24 else 1
        start: list[Value] = [self.reducer.identity_value(lanes)] * chains
        loops = Loops(em, [self.src.dims[d] for d in self.outer], start)
        along = dict(zip(self.outer, loops.indices, strict=True))
        with em.scope():
            accs = self._along_minor(comps, along, loops.carried, chains)
        accs = loops.close(accs)
        while len(accs) > 1:
            half = len(accs) // 2
            pairs = zip(accs[:half], accs[half : 2 * half], strict=True)
            accs = [self.reducer.apply(em, [a], [b])[0] for a, b in pairs] + accs[2 * half :]
        return accs[0]

    def _along_minor(self, comps: Sequence[Ix], along: dict[int, Ix], accs: list[Value], chains: int) -> list[Value]:
        em, lanes, n = self.em, self.em.lanes, self.length
        block = lanes * chains
        unrolled = n - n % block
        if unrolled:
            with em.b.loop(0, unrolled, block, accs) as loop:
                new: list[Value] = []
                for k in range(chains):
                    i = em.m.add(Ix(loop.i, 0, 0, n - 1, block), k * lanes)
                    new.append(self._step(comps, along, Ix(i.base, 0, 0, n - 1, lanes), loop.carried[k]))
                loop.next(*new)
            accs = loop.results
        full = n - n % lanes
        if full > unrolled:
            with em.b.loop(unrolled, full, lanes, [accs[0]]) as rest:
                rest.next(self._step(comps, along, Ix(rest.i, 0, 0, n - 1, lanes), rest.carried[0]))
            accs = [rest.results[0], *accs[1:]]
        if n > full:
            accs = [self._tail(comps, along, accs[0], full), *accs[1:]]
        return accs

    def _step(self, comps: Sequence[Ix], along: dict[int, Ix], i: Ix, acc: Value) -> Value:
        with self.em.scope():
            index = self.place(comps, {**along, self.minor: self.em.m.lane(i)})
            return self.reducer.apply(self.em, [acc], self.values(index))[0]

    def _tail(self, comps: Sequence[Ix], along: dict[int, Ix], acc: Value, full: int) -> Value:
        em, n = self.em, self.length
        mask = vector_constant([k < n - full for k in range(em.lanes)], "i1")
        em.mask = mask
        with em.scope():
            index = self.place(comps, {**along, self.minor: em.m.lane(Ix(full, 0, full, n - 1, full))})
            value = self.values(index)[0]
        em.mask = None
        return self.reducer.apply(em, [acc], [choose(em, mask, value, self.reducer.identity_value(em.lanes))])[0]

    def _horizontal(self, acc: Value) -> Value:
        """Folds the lanes into one."""
        return fold_lanes(self.em, self.em.lanes, acc, lambda x, y: self.reducer.apply(self.em, [x], [y])[0])


def fold_lanes(em: Emitter, lanes: int, acc: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Folds the lanes of a vector into one value by halves."""
    b, half = em.b, lanes // 2
    while half:
        picks = [*range(half, 2 * half), *([-1] * (lanes - half))]
        moved: Value = (
            Cx(b.shuffle(acc.re, None, picks), b.shuffle(acc.im, None, picks))
            if isinstance(acc, Cx)
            else b.shuffle(acc, None, picks)
        )
        acc = combine(acc, moved)
        half //= 2
    if isinstance(acc, Cx):
        return Cx(b.extract(acc.re, 0), b.extract(acc.im, 0))
    return b.extract(acc, 0)


class ColumnReduce(_Reduction):
    """Lanes run along the operand's minor dimension, which is kept; accumulators of one block of columns are in memory.

    A launch unit is one block of one output row. The operand is read in memory order.
    """

    def build(self) -> KernelSpec:
        """Writes the kernel."""
        em, b = self.em, self.em.b
        n, lanes = self.length, em.lanes
        self.block = min(n, COLUMN_BLOCK)
        blocks = -(-n // self.block)
        shape = self.outputs[0]
        majors = minor_to_major(shape)[:0:-1]
        units = shape.num_elements // n * blocks
        self.accs = [
            Leaf(b.alloca(_storage(t), self._padded() * (2 if t.is_complex else 1)), Shape.array(t, (self._padded(),)))
            for t in self.reducer.acc_types
        ]
        inits = [splat_element(b, v, lanes) for v in self.inits()]
        with b.loop(em.frame.lo, em.frame.hi) as unit, em.scope():
            counter = em.m.value(unit.i, 0, units - 1)
            row, block = em.m.divmod(counter, blocks)
            comps = [ZERO] * shape.rank
            for d, c in zip(majors, delinearize(em.m, row, [shape.dims[d] for d in majors]), strict=True):
                comps[d] = c
            first = em.m.mul(block, self.block)
            self._fill(inits)
            self._fold(comps, first, minor_to_major(shape)[0])
            self._finish(comps, first, minor_to_major(shape)[0])
        return self.spec(units)

    def _padded(self) -> int:
        lanes = self.em.lanes
        return -(-self.block // lanes) * lanes

    def _fill(self, inits: Sequence[Value]) -> None:
        em = self.em
        with em.b.loop(0, self._padded(), em.lanes) as loop, em.scope():
            for acc, init in zip(self.accs, inits, strict=True):
                store_at(em, acc, em.m.lane(Ix(loop.i, 0)), init)

    def _fold(self, comps: list[Ix], first: Ix, minor: int) -> None:
        em = self.em
        loops = Loops(em, [self.src.dims[d] for d in self.outer], [])
        along = dict(zip(self.outer, loops.indices, strict=True))

        def step(i: Ix, column: Ix) -> None:
            where = list(comps)
            where[minor] = column
            values = self.values(self.place(where, along))
            old = [em.load_at(acc, em.m.lane(i)) for acc in self.accs]
            for acc, new in zip(self.accs, self.reducer.apply(em, old, values), strict=True):
                store_at(em, acc, em.m.lane(i), splat_element(em.b, new, em.lanes))

        with em.scope():
            self._columns(first, step)
        loops.close([])

    def _finish(self, comps: list[Ix], first: Ix, minor: int) -> None:
        em = self.em

        def step(i: Ix, column: Ix) -> None:
            where = list(comps)
            where[minor] = column
            values = [em.load_at(acc, em.m.lane(i)) for acc in self.accs]
            for out, value in zip(self.outs, self.reducer.narrow(em, values), strict=True):
                store(em, out, Index(out.shape.dims, tuple(where)), value)

        self._columns(first, step)

    def _columns(self, first: Ix, step: Any) -> None:
        """step(place in the block, column) for every vector of columns; the last one may be masked."""
        em, b, n, lanes = self.em, self.em.b, self.length, self.em.lanes
        full = n - n % lanes
        if first.const is not None:
            limit: Val | int = min(full, self.block)
        else:
            limit = b.smin(b.sub(full, em.m.scalar(first)), self.block)
        with b.loop(0, limit, lanes) as loop, em.scope():
            i = Ix(loop.i, 0, 0, self._padded() - 1, lanes)
            column = em.m.add(i, first)
            step(i, em.m.lane(Ix(column.base, 0, 0, n - 1, lanes)))
        if n == full:
            return
        last = (n - 1) // self.block * self.block
        if first.const is None:
            with b.when(b.icmp("eq", em.m.scalar(first), last)):
                self._masked(full, last, step)
        else:
            self._masked(full, last, step)

    def _masked(self, full: int, last: int, step: Any) -> None:
        em = self.em
        em.mask = vector_constant([k < self.length - full for k in range(em.lanes)], "i1")
        with em.scope():
            step(number(full - last), em.m.lane(Ix(full, 0, full, self.length - 1, full)))
        em.mask = None


def _storage(et: Any) -> str:
    from xyla.codegen.elements import memory_type

    return memory_type(et)
