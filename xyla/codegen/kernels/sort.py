"""sort: a stable merge sort of each row, with the comparator written inline.

Runs of a few elements are sorted by insertion, then merged bottom-up between two scratch buffers without branches. Any
comparator ends: the merge never reads past its runs whatever the answers are. Spec: XLA operation semantics (Sort).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xyla.codegen.called import flatten
from xyla.codegen.elements import memory_type
from xyla.codegen.fused import Leaf
from xyla.codegen.index import ZERO, Ix, delinearize
from xyla.codegen.kernel import KernelSpec, signature
from xyla.codegen.kernels.loop import body_of, leaves_of, root_of, start_emitter
from xyla.codegen.kernels.loops import store
from xyla.codegen.kernels.movement import at, choose
from xyla.codegen.kernels.scatter import fill
from xyla.codegen.llvm import Val, Value, byte_size
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.support.dtypes import ElementType

# Length of the runs that insertion sorts before merging starts.
RUN = 8


def sort_kernel(inst: Instruction) -> KernelSpec:
    """A kernel for sort; a launch unit is one row along the sorted dimension."""
    root = root_of(inst)
    shape = root.operands[0].shape
    dim = root.attrs.dimension if root.attrs.dimension >= 0 else shape.rank - 1
    if shape.num_elements == 0 or shape.rank == 0 or shape.dims[dim] < 2:
        return _copies(inst)
    return _Sort(inst, dim).build()


def _copies(inst: Instruction) -> KernelSpec:
    """Nothing to order."""
    em = start_emitter(inst, body_of(inst), 1)
    outputs = leaves_of(inst.shape)
    with em.b.loop(em.frame.lo, em.frame.hi), em.scope():
        for o, p, s in zip(root_of(inst).operands, em.frame.outputs, outputs, strict=True):
            fill(em, o, Leaf(p, s))
    return em.frame.spec(signature(inst), min(1, outputs[0].num_elements))


class _Sort:
    """Per operand two scratch rows (one element longer, so that both heads of a merge can always be read)."""

    def __init__(self, inst: Instruction, dim: int) -> None:
        self.inst, self.root, self.dim = inst, root_of(inst), dim
        self.dims = self.root.operands[0].shape.dims
        self.n = self.dims[dim]
        self.types: list[ElementType] = [o.shape.element_type for o in self.root.operands]
        self.em = start_emitter(inst, body_of(inst), 1)
        self.outs = [Leaf(p, s) for p, s in zip(self.em.frame.outputs, leaves_of(inst.shape), strict=True)]
        self.kept = [d for d in range(len(self.dims)) if d != dim and self.dims[d] != 1]

    def build(self) -> KernelSpec:
        """Writes the kernel."""
        em, b = self.em, self.em.b
        units = 1
        for d in self.kept:
            units *= self.dims[d]
        row_bytes = [self._row_bytes(t) for t in self.types]
        scratch = em.frame.scratch(units * 2 * sum(row_bytes))
        with b.loop(em.frame.lo, em.frame.hi) as unit, em.scope():
            split = delinearize(em.m, em.m.value(unit.i, 0, units - 1), [self.dims[d] for d in self.kept])
            comps = [ZERO] * len(self.dims)
            for d, c in zip(self.kept, split, strict=True):
                comps[d] = c
            base = b.gep(scratch, b.mul(unit.i, 2 * sum(row_bytes)), "i8")
            first, second = [], []
            offset = 0
            for t, size in zip(self.types, row_bytes, strict=True):
                row = Shape.array(t, (self.n + 1,))
                first.append(Leaf(b.gep(base, offset, "i8"), row))
                second.append(Leaf(b.gep(base, offset + size, "i8"), row))
                offset += 2 * size
            self._load_sorted_runs(comps, first)
            source = self._merge_all(first, second)
            self._store_row(comps, source)
        size = 2 * sum(o.shape.num_bytes for o in self.inst.operands)
        grain = max(1, (1 << 12) // self.n)
        return em.frame.spec(signature(self.inst), units, grain=grain, size=size)

    def _row_bytes(self, et: ElementType) -> int:
        element = byte_size(memory_type(et)) * (2 if et.is_complex else 1)
        return -(-(self.n + 1) * element // 64) * 64

    def _less(self, a: Sequence[Value], b: Sequence[Value]) -> Val:
        """comparator(a, b): operands alternate."""
        args: list[Any] = [x for pair in zip(a, b, strict=True) for x in pair]
        (answer,) = flatten(self.em.call(self.root.role("to_apply"), args))
        assert isinstance(answer, Val)
        return answer

    def _load(self, rows: Sequence[Leaf], i: Ix | Val) -> list[Value]:
        place = i if isinstance(i, Ix) else Ix(i)
        return [self.em.load_at(r, place) for r in rows]

    def _store(self, rows: Sequence[Leaf], i: Ix | Val, values: Sequence[Value]) -> None:
        place = i if isinstance(i, Ix) else Ix(i)
        for r, v in zip(rows, values, strict=True):
            store(self.em, r, at(r.shape, [place]), v)

    def _load_sorted_runs(self, comps: list[Ix], rows: Sequence[Leaf]) -> None:
        """Reads the row into scratch, inserting each element into its run of RUN."""
        em, b, n = self.em, self.em.b, self.n
        with b.loop(0, n) as loop, em.scope():
            comps[self.dim] = Ix(loop.i, 0, 0, n - 1)
            new: list[Any] = [em.emit(o, at(o.shape, comps)) for o in self.root.operands]
            run = b.and_(loop.i, -RUN)

            def unsettled(state: list[Value]) -> Val:
                """There is an element before the hole, and the new one belongs before it."""
                hole: Any = state[0]

                def compare() -> list[Value]:
                    return [self._less(new, self._load(rows, b.sub(hole, 1)))]

                def stop() -> list[Value]:
                    return [Val("false", "i1")]

                with em.scope():
                    return b.cond(b.icmp("sgt", hole, run), compare, stop)[0]  # type: ignore[return-value]

            def move(state: list[Value]) -> list[Value]:
                hole: Any = state[0]
                with em.scope():
                    before = b.sub(hole, 1)
                    self._store(rows, hole, self._load(rows, before))
                return [before]

            (place,) = b.while_loop([loop.i], unsettled, move)
            assert isinstance(place, Val)
            self._store(rows, place, new)

    def _merge_all(self, first: Sequence[Leaf], second: Sequence[Leaf]) -> list[Leaf]:
        """Merges runs of doubling width from one buffer to the other; returns the rows that hold the result."""
        em, b, n = self.em, self.em.b, self.n
        if n <= RUN:
            return list(first)
        pointers: list[Value] = [r.ptr for r in (*first, *second)]
        count = len(first)

        def more(state: list[Value]) -> Val:
            return b.icmp("slt", state[0], n)  # type: ignore[arg-type]

        def level(state: list[Value]) -> list[Value]:
            width: Any = state[0]
            source = [Leaf(p, r.shape) for p, r in zip(state[1 : count + 1], first, strict=True)]  # type: ignore[arg-type]
            target = [Leaf(p, r.shape) for p, r in zip(state[count + 1 :], first, strict=True)]  # type: ignore[arg-type]
            double = b.shl(width, 1)
            with b.loop(0, n, double) as run, em.scope():
                middle = b.smin(b.add(run.i, width), n)
                end = b.smin(b.add(run.i, double), n)
                self._merge(source, target, run.i, middle, end)
            return [double, *state[count + 1 :], *state[1 : count + 1]]

        done = b.while_loop([em.b.add(Val("0", "i64"), RUN), *pointers], more, level)
        return [Leaf(p, r.shape) for p, r in zip(done[1 : count + 1], first, strict=True)]  # type: ignore[arg-type]

    def _merge(self, source: Sequence[Leaf], target: Sequence[Leaf], lo: Val, middle: Val, end: Val) -> None:
        em, b = self.em, self.em.b
        with b.loop(lo, end, 1, [lo, middle]) as loop, em.scope():
            left, right = loop.carried
            assert isinstance(left, Val)
            assert isinstance(right, Val)
            x, y = self._load(source, left), self._load(source, right)
            # The right head goes first only when it is strictly before the left one: that keeps the order stable.
            swap = b.or_(b.icmp("sge", left, middle), b.and_(b.icmp("slt", right, end), self._less(y, x)))
            self._store(target, loop.i, [choose(em, swap, r, q) for q, r in zip(x, y, strict=True)])
            step = b.cast("zext", swap, "i64")
            loop.next(b.add(left, b.sub(1, step)), b.add(right, step))

    def _store_row(self, comps: list[Ix], rows: Sequence[Leaf]) -> None:
        em, n = self.em, self.n
        with em.b.loop(0, n) as loop, em.scope():
            i = Ix(loop.i, 0, 0, n - 1)
            comps[self.dim] = i
            for row, out in zip(rows, self.outs, strict=True):
                store(em, out, at(out.shape, comps), em.load_at(row, i))
