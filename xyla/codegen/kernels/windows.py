"""reduce-window and select-and-scatter.

Spec: XLA operation semantics (ReduceWindow, SelectAndScatter). Padding holds the initial value. A window that covers
everything before (or after) each position is a prefix scan, linear in the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xyla.codegen.elements import element_constant, scatter_element, splat_element
from xyla.codegen.fused import EMIT, Emitter, Leaf, NeedScalarError, Request, Rule
from xyla.codegen.index import SCALAR, Index, Ix, number
from xyla.codegen.kernel import KernelSpec, constant_behind, signature
from xyla.codegen.kernels.loop import body_of, body_types, leaves_of, loop_kernel, root_of, start_emitter
from xyla.codegen.kernels.loops import Nest, Piece, choose_lanes, minor_length, minor_to_major, store, store_at
from xyla.codegen.kernels.movement import at, choose, within
from xyla.codegen.kernels.reduce import Loops
from xyla.codegen.kernels.reducers import Reducer, identity_of
from xyla.codegen.llvm import Cx, Val, Value, constant, vector_constant
from xyla.hlo import ops
from xyla.hlo.attr_types import WindowDim
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Layout, Shape

_TRIVIAL = WindowDim(1)
# Scans of windows shorter than this are not worth their own kernel.
SCAN_LENGTH = 16


def window_place(
    em: Emitter, dims: Sequence[int], window: Sequence[WindowDim], out: Sequence[Ix], inner: Sequence[Ix]
) -> tuple[list[Ix], Val | bool | None]:
    """(operand components, whether there is an element) of place `inner` in the window at `out`."""
    m = em.m
    comps: list[Ix] = []
    inside: Val | bool | None = None
    for n, w, o, k in zip(dims, window, out, inner, strict=True):
        if w == _TRIVIAL:
            comps.append(o)
            continue
        x = m.add(m.add(m.mul(o, w.stride), m.mul(k, w.rhs_dilate)), -w.pad_low)
        inside = m.both(inside, m.compare("sge", x, 0))
        if w.lhs_dilate != 1:
            x, rest = m.divmod(x, w.lhs_dilate)
            inside = m.both(inside, m.compare("eq", rest, 0))
        inside = m.both(inside, m.compare("slt", x, n))
        comps.append(within(x, n))
    return comps, inside


@EMIT.rule(ops.REDUCE_WINDOW)
def reduce_window_element(em: Emitter, inst: Instruction, index: Index, pred: Val | None) -> Rule:
    """Folds the window in order, for each lane on its own."""
    n = len(inst.operands) // 2
    inputs, window = inst.operands[:n], inst.attrs.window.dims
    count = prod(w.size for w in window)
    reducer = Reducer.of(inst.role("to_apply"), [o.shape.element_type for o in inputs], count)
    inits: list[Any] = []
    for o in inst.operands[n:]:
        inits.append((yield Request(o, SCALAR, pred)))
    comps, src = em.comps(index), inputs[0].shape
    lanes = 1 if all(c.is_uniform for c in comps) else em.lanes
    inits = [em.converted(v, o, t) for v, o, t in zip(inits, inst.operands[n:], reducer.types, strict=True)]
    start = [splat_element(em.b, v, lanes) for v in reducer.widen(em, inits)]
    loops = Loops(em, [w.size for w in window], start)
    with em.scope():
        inner = [em.m.rsub(w.size - 1, k) if w.reversal else k for w, k in zip(window, loops.indices, strict=True)]
        where, inside = window_place(em, src.dims, window, comps, inner)
        values: list[Any] = list(inits)
        if inside is not False and src.num_elements:
            guard = em.m.both(pred, inside)
            for i, o in enumerate(inputs):
                got: Any = yield Request(o, at(src, where), guard if isinstance(guard, Val) else None)
                values[i] = choose(em, inside, got, inits[i]) if isinstance(inside, Val) else got
        wide = [splat_element(em.b, v, lanes) for v in reducer.widen(em, values)]
        accs = [splat_element(em.b, v, lanes) for v in reducer.apply(em, loops.carried, wide)]
    results = reducer.narrow(em, loops.close(accs))
    return tuple(results) if inst.shape.is_tuple else results[0]


def reduce_window_kernel(inst: Instruction) -> KernelSpec:
    """A kernel for a reduce-window, or for a fusion whose root is one."""
    root = root_of(inst)
    if len(root.operands) == 2 and root.shape.is_array and root.shape.num_elements:
        count = prod(w.size for w in root.attrs.window.dims)
        reducer = Reducer.of(root.role("to_apply"), [root.operands[0].shape.element_type], count)
        dim = None if reducer.in_order(count) else _scanned(root, reducer)
        if dim is not None:
            try:
                return _Scan(inst, reducer, dim).build()
            except NeedScalarError:
                pass
    return loop_kernel(inst)


def _scanned(root: Instruction, reducer: Reducer) -> int | None:
    """The dimension along which a reduce-window is a prefix (or suffix) scan, or None."""
    window, dims = root.attrs.window.dims, root.operands[0].shape.dims
    wide = [d for d, w in enumerate(window) if w != _TRIVIAL]
    if len(wide) != 1 or reducer.identity is None or not _harmless(root.operands[1], reducer):
        return None
    (d,) = wide
    w, n = window[d], dims[d]
    plain = w.stride == w.rhs_dilate == w.lhs_dilate == 1 and not w.reversal and w.size >= n >= SCAN_LENGTH
    ends = {(w.size - 1, 0), (0, w.size - 1)}
    return d if plain and (w.pad_low, w.pad_high) in ends else None


def _harmless(init: Instruction, reducer: Reducer) -> bool:
    """Whether the initial value may be combined any number of times: an idempotent monoid, or its identity."""
    if reducer.monoid in (ops.MAXIMUM, ops.MINIMUM, ops.AND, ops.OR):
        return True
    source = constant_behind(init)
    if source is None or not source.attrs.literal.is_splat or reducer.monoid is None:
        return False
    return bool(source.attrs.literal.first == identity_of(reducer.monoid, reducer.types[0]))


class _Scan:
    """A prefix scan along one dimension, carried from vector to vector.

    Lanes run along the scanned dimension if it is minor (a vector is scanned in log steps), else along the minor one.
    """

    def __init__(self, inst: Instruction, reducer: Reducer, dim: int) -> None:
        self.inst, self.reducer, self.dim = inst, reducer, dim
        self.root, body = root_of(inst), body_of(inst)
        self.shape = inst.shape
        self.n = self.shape.dims[dim]
        self.backwards = self.root.attrs.window.dims[dim].pad_low == 0
        order = minor_to_major(self.shape)
        self.along = order[0] == dim
        types = [*body_types(inst, body), reducer.acc_types[0]]
        lanes = choose_lanes(types, self.n if self.along else minor_length(self.shape))
        self.em = start_emitter(inst, body, lanes)
        self.out = Leaf(self.em.frame.outputs[0], self.shape)

    def build(self) -> KernelSpec:
        """Writes the kernel: a launch unit is a row across the scanned dimension."""
        em = self.em
        dims = [1 if d == self.dim else s for d, s in enumerate(self.shape.dims)]
        layout = self.shape.layout
        rows = Shape.array(self.shape.element_type, dims, layout and Layout.of(layout.minor_to_major))
        init: Any = em.emit(self.root.operands[1], SCALAR)
        self.init = self.reducer.start(em, [self.root.operands[1]], [init])[0]
        nest = Nest(em)
        nest.write([Piece(rows, self._row)], scalar_rows=self.along)
        elements = self.shape.num_elements
        size = self.shape.num_bytes + sum(o.shape.num_bytes for o in self.inst.operands)
        grain = max(1, (1 << 15) * nest.units // elements)
        return em.frame.spec(signature(self.inst), nest.units, grain=grain, flops=elements, size=size)

    def _row(self, index: Index) -> None:
        comps = list(self.em.comps(index))
        if self.along:
            self._in_register(comps)
        else:
            self._across(comps)

    def _across(self, comps: list[Ix]) -> None:
        em, n = self.em, self.n
        with em.b.loop(0, n, 1, [splat_element(em.b, self.init, em.lanes)]) as loop, em.scope():
            i = Ix(loop.i, 0, 0, n - 1, 1)
            comps[self.dim] = em.m.rsub(n - 1, i) if self.backwards else i
            acc = self._apply(loop.carried[0], self._value(comps))
            store(em, self.out, at(self.shape, comps), self.reducer.narrow(em, [acc])[0])
            loop.next(acc)

    def _value(self, comps: Sequence[Ix]) -> Value:
        em = self.em
        got: Any = em.emit(self.root.operands[0], at(self.root.operands[0].shape, comps))
        return splat_element(em.b, self.reducer.widen(em, [got])[0], em.lanes)

    def _apply(self, a: Value, b: Value) -> Value:
        return self.reducer.apply(self.em, [a], [b])[0]

    def _in_register(self, comps: list[Ix]) -> None:
        em, n, lanes = self.em, self.n, self.em.lanes
        full, left = n - n % lanes, n % lanes
        carry = splat_element(em.b, self.init, lanes)
        if left and self.backwards:
            carry = self._vector(comps, number(full), carry, left)
        if full:
            with em.b.loop(0, full, lanes, [carry]) as loop, em.scope():
                i = Ix(loop.i, 0, 0, full - lanes, lanes)
                loop.next(self._vector(comps, em.m.rsub(full - lanes, i) if self.backwards else i, loop.carried[0], 0))
            carry = loop.results[0]
        if left and not self.backwards:
            self._vector(comps, number(full), carry, left)

    def _vector(self, comps: list[Ix], first: Ix, carry: Value, left: int) -> Value:
        """Scans and stores one vector (`left` lanes of it, when not 0); returns the new carry in every lane."""
        em, lanes = self.em, self.em.lanes
        place = Ix(first.base, 0, first.lo, self.n - 1, lanes)
        comps[self.dim] = em.m.lane(place)
        mask = vector_constant([k < left for k in range(lanes)], "i1") if left else None
        em.mask = mask
        with em.scope():
            value = self._value(comps)
            neutral = self.reducer.identity_value(lanes)
            if mask is not None:
                value = choose(em, mask, value, neutral)
            step = 1
            while step < lanes:
                value = self._apply(self._shifted(neutral, value, step), value)
                step *= 2
            value = self._apply(carry, value)
            store(em, self.out, at(self.shape, comps), self.reducer.narrow(em, [value])[0])
        em.mask = None
        return self._broadcast_lane(value, 0 if self.backwards else (left or lanes) - 1)

    def _shifted(self, neutral: Value, value: Value, step: int) -> Value:
        """Each lane gets the value `step` lanes before it in scan order, or the identity."""
        lanes = self.em.lanes
        if self.backwards:
            picks = [k + step if k + step < lanes else lanes for k in range(lanes)]
        else:
            picks = [k - step if k >= step else lanes for k in range(lanes)]
        return self._shuffle(value, neutral, picks)

    def _broadcast_lane(self, value: Value, lane: int) -> Value:
        return self._shuffle(value, value, [lane] * self.em.lanes)

    def _shuffle(self, a: Value, b: Value, picks: list[int]) -> Value:
        if isinstance(a, Cx) and isinstance(b, Cx):
            return Cx(self.em.b.shuffle(a.re, b.re, picks), self.em.b.shuffle(a.im, b.im, picks))
        assert isinstance(a, Val)
        assert isinstance(b, Val)
        return self.em.b.shuffle(a, b, picks)


# -- select-and-scatter --------------------------------------------------------------------------------------------


def select_and_scatter_kernel(inst: Instruction) -> KernelSpec:
    """Windows along free dimensions do not meet: those dimensions are the parallel and vectorised ones."""
    try:
        return _SelectAndScatter(inst, scalar=False).build()
    except NeedScalarError:
        return _SelectAndScatter(inst, scalar=True).build()


class _SelectAndScatter:
    """Each window picks the first element that no later one beats; the source is combined into its place."""

    def __init__(self, inst: Instruction, *, scalar: bool) -> None:
        self.inst, self.root, body = inst, root_of(inst), body_of(inst)
        self.operand, self.source, self.init = self.root.operands
        self.window = self.root.attrs.window.dims
        self.shape = inst.shape
        self.bound = [d for d, w in enumerate(self.window) if w != _TRIVIAL]
        dims = [1 if d in self.bound else s for d, s in enumerate(self.shape.dims)]
        layout = self.shape.layout
        self.free = Shape.array(self.shape.element_type, dims, layout and Layout.of(layout.minor_to_major))
        lanes = 1 if scalar else choose_lanes(body_types(inst, body), minor_length(self.free))
        self.em = start_emitter(inst, body, lanes)
        self.out = Leaf(self.em.frame.outputs[0], leaves_of(inst.shape)[0])

    def build(self) -> KernelSpec:
        """Writes the kernel."""
        em = self.em
        init: Any = em.emit(self.init, SCALAR)
        self.start = em.converted(init, self.init, self.shape.element_type)
        nest = Nest(em)
        if self.shape.num_elements:
            nest.write([Piece(self.free, self._lane)])
        size = 2 * self.shape.num_bytes + self.source.shape.num_bytes
        return em.frame.spec(signature(self.inst), nest.units, grain=nest.grain, size=size)

    def _lane(self, index: Index) -> None:
        em, comps = self.em, list(self.em.comps(index))
        fill = Loops(em, [self.shape.dims[d] for d in self.bound], [])
        with em.scope():
            place = self._with(comps, fill.indices)
            store(em, self.out, at(self.shape, place), self.start)
        fill.close([])
        if self.source.shape.num_elements == 0:
            return
        loops = Loops(em, [self.source.shape.dims[d] for d in self.bound], [])
        with em.scope():
            self._one_window(self._with(comps, loops.indices))
        loops.close([])

    def _with(self, comps: Sequence[Ix], bound: Sequence[Ix]) -> list[Ix]:
        out = list(comps)
        for d, c in zip(self.bound, bound, strict=True):
            out[d] = c
        return out

    def _one_window(self, place: list[Ix]) -> None:
        em, b, lanes = self.em, self.em.b, self.em.lanes
        et = self.shape.element_type
        ity = "i64" if lanes == 1 else em.m.ity
        start = [constant(False, "i1", lanes), element_constant(et, 0, lanes), constant(0, ity, lanes)]
        loops = Loops(em, [w.size for w in self.window], start)
        with em.scope():
            found, value, best = loops.carried
            where, inside = window_place(em, self.operand.shape.dims, self.window, place, loops.indices)
            new: list[Value] = [found, value, best]
            if inside is not False:
                new = self._candidate(where, inside, found, value, best)
        found, _, best = loops.close(new)
        assert isinstance(found, Val)
        assert isinstance(best, Val)
        spot = Ix.of_vector(best) if lanes > 1 else Ix(best)
        with em.scope():
            source: Any = em.emit(self.source, at(self.source.shape, place))
            old = em.load_at(self.out, spot, found)
            values = em.level([old, splat_element(b, source, lanes)])
            result = em.combine(self.root.role("scatter"), values, [et, self.source.shape.element_type], 1)[0]
            result = splat_element(b, result, lanes)
        if lanes == 1:
            with b.when(found):
                store_at(em, self.out, spot, result)
            return
        mask = em.m.both(em.mask, found)
        scatter_element(b, et, result, self.out.ptr, best, mask if isinstance(mask, Val) else None)

    def _candidate(
        self, where: Sequence[Ix], inside: Val | bool | None, found: Value, value: Value, best: Value
    ) -> list[Value]:
        em, b, lanes = self.em, self.em.b, self.em.lanes
        guard = inside if isinstance(inside, Val) else None
        got: Any = em.emit(self.operand, at(self.operand.shape, where), guard)
        candidate = splat_element(b, got, lanes)
        keep: Any = em.call(self.root.role("select"), [value, candidate])
        assert isinstance(keep, Val)
        assert isinstance(found, Val)
        assert isinstance(best, Val)
        take = b.not_(b.and_(found, b.splat(keep, lanes)))
        if guard is not None:
            take = b.and_(b.splat(guard, lanes), take)
        position = em.position(at(self.shape, where), self.out.strides)
        spot = em.m.vector(position) if lanes > 1 else em.m.scalar(position)
        present = b.or_(found, b.splat(guard, lanes)) if guard is not None else constant(True, "i1", lanes)
        return [present, choose(em, take, candidate, value), b.select(take, spot, best)]
