"""topk: each row keeps its best k in order; whole vectors that hold nothing better are passed over.

Elements order as IEEE totalOrder does (NaN above all numbers), ties by index. Spec: XLA's topk instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xyla.codegen.elements import natural_lanes, register_type, total_order_key
from xyla.codegen.fused import Leaf
from xyla.codegen.index import ZERO, Ix, delinearize, number
from xyla.codegen.kernel import KernelSpec, refuse, signature
from xyla.codegen.kernels.loop import body_of, leaves_of, loop_kernel, root_of, start_emitter
from xyla.codegen.kernels.loops import store
from xyla.codegen.kernels.movement import at
from xyla.codegen.llvm import Val, byte_size
from xyla.hlo.module import Instruction
from xyla.support import dtypes

# Insertion costs k a kept element: beyond this a handler sorts instead.
MOST = 1024


def topk_kernel(inst: Instruction) -> KernelSpec:
    """A kernel for topk; a launch unit is one row."""
    root = root_of(inst)
    source = root.operands[0].shape
    if source.element_type.is_complex or source.element_type is dtypes.PRED:
        raise refuse(root, f"{source.element_type} elements")
    if root.attrs.k > MOST:
        raise refuse(root, f"the best {root.attrs.k} of each row: more than {MOST} are not kept in order one by one")
    if root.attrs.k == 0 or source.num_elements == 0:
        return loop_kernel(inst)
    return _TopK(inst, root).build()


class _TopK:
    """Scratch per row: k keys and k indices, best first. A key is an integer; smaller is better."""

    def __init__(self, inst: Instruction, root: Instruction) -> None:
        self.inst, self.root = inst, root
        self.operand, self.k = root.operands[0], root.attrs.k
        shape = self.operand.shape
        self.et, self.dims, self.n = shape.element_type, shape.dims, shape.dims[-1]
        self.em = start_emitter(inst, body_of(inst), natural_lanes(self.et))
        register = register_type(self.et)
        self.ty = register if register[0] == "i" else f"i{self.et.bits}"
        self.order = "ult" if self.et.is_unsigned else "slt"

    def build(self) -> KernelSpec:
        """Writes the kernel."""
        em, b = self.em, self.em.b
        rows = self.dims[:-1]
        units = prod(rows)
        key_bytes = -(-self.k * byte_size(self.ty) // 64) * 64
        row_bytes = key_bytes + -(-self.k * 8 // 64) * 64
        scratch = em.frame.scratch(units * row_bytes)
        with b.loop(em.frame.lo, em.frame.hi) as unit, em.scope():
            comps = [*delinearize(em.m, em.m.value(unit.i, 0, units - 1), rows), ZERO]
            self.keys = b.gep(scratch, b.mul(unit.i, row_bytes), "i8")
            self.places = b.gep(self.keys, key_bytes, "i8")
            self._first(comps)
            self._rest(comps)
            self._results(comps)
        size = self.operand.shape.num_bytes + self.inst.shape.num_bytes
        grain = max(1, (1 << 14) // self.n)
        return em.frame.spec(signature(self.inst), units, grain=grain, size=size)

    def _key(self, value: Any) -> Val:
        b = self.em.b
        key: Val = total_order_key(b, self.et, value) if self.et.is_float else value
        return b.not_(key) if self.root.attrs.largest else key

    def _key_at(self, comps: Sequence[Ix], i: Ix) -> Val:
        return self._key(self.em.emit(self.operand, at(self.operand.shape, [*comps[:-1], i])))

    def _first(self, comps: Sequence[Ix]) -> None:
        """The first k elements, sorted as they come."""
        with self.em.b.loop(0, self.k) as loop, self.em.scope():
            self._insert(self._key_at(comps, Ix(loop.i, 0, 0, self.k - 1)), loop.i, loop.i)

    def _rest(self, comps: Sequence[Ix]) -> None:
        em, b, lanes = self.em, self.em.b, self.em.lanes
        full = self.k + (self.n - self.k) // lanes * lanes
        if full > self.k:
            with b.loop(self.k, full, lanes) as loop, em.scope():
                keys = self._key_at(comps, em.m.lane(Ix(loop.i, 0, 0, self.n - 1)))
                found = b.any(b.icmp(self.order, keys, b.splat(self._worst(), lanes)))
                with b.when(found), em.scope(), b.loop(0, lanes) as lane, em.scope():
                    self._consider(comps, b.add(loop.i, lane.i))
        if self.n > full:
            with b.loop(full, self.n) as loop, em.scope():
                self._consider(comps, loop.i)

    def _worst(self) -> Val:
        return self.em.b.load(self.em.b.gep(self.keys, self.k - 1, self.ty), self.ty)

    def _consider(self, comps: Sequence[Ix], i: Val) -> None:
        b = self.em.b
        key = self._key_at(comps, Ix(i, 0, 0, self.n - 1))
        with b.when(b.icmp(self.order, key, self._worst())):
            self._insert(key, i, Val(str(self.k - 1), "i64"))

    def _insert(self, key: Val, index: Val, hole: Val) -> None:
        """Moves worse keys down from `hole`, whose content is dropped, and puts `key` above them."""
        b = self.em.b

        def worse_before(state: list[Any]) -> Val:
            def compare() -> list[Any]:
                before = b.load(b.gep(self.keys, b.sub(state[0], 1), self.ty), self.ty)
                return [b.icmp(self.order, key, before)]

            return b.cond(b.icmp("sgt", state[0], 0), compare, lambda: [Val("false", "i1")])[0]  # type: ignore[return-value]

        def move(state: list[Any]) -> list[Any]:
            before = b.sub(state[0], 1)
            for base, ty in ((self.keys, self.ty), (self.places, "i64")):
                b.store(b.load(b.gep(base, before, ty), ty), b.gep(base, state[0], ty))
            return [before]

        (place,) = b.while_loop([hole], worse_before, move)
        assert isinstance(place, Val)
        b.store(key, b.gep(self.keys, place, self.ty))
        b.store(index, b.gep(self.places, place, "i64"))

    def _results(self, comps: Sequence[Ix]) -> None:
        em, b = self.em, self.em.b
        values, indices = (Leaf(p, s) for p, s in zip(em.frame.outputs, leaves_of(self.inst.shape), strict=True))
        with b.loop(0, self.k) as loop, em.scope():
            place = b.load(b.gep(self.places, loop.i, "i64"), "i64")
            source: Any = em.emit(self.operand, at(self.operand.shape, [*comps[:-1], em.m.value(place, 0, self.n - 1)]))
            out = [*comps[:-1], Ix(loop.i, 0, 0, self.k - 1) if self.k > 1 else number(0)]
            store(em, values, at(values.shape, out), source)
            store(em, indices, at(indices.shape, out), b.cast("trunc", place, "i32"))
