"""scatter and dynamic-update-slice: a copy of the operand that is then updated in place.

The operand's and the result's buffer may be one: the copy is then left out. Updates are applied in order, so that all
updates of one element count and the last one wins where the combiner keeps it. Spec: XLA operation semantics (Scatter,
DynamicUpdateSlice): a scatter window that is out of bounds anywhere is skipped whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xyla.codegen.elements import memory_type
from xyla.codegen.fused import Emitter, Leaf, NeedScalarError
from xyla.codegen.index import ZERO, Index, Ix, number
from xyla.codegen.kernel import KernelSpec, signature
from xyla.codegen.kernels.loop import body_of, body_types, leaves_of, loop_kernel, root_of, start_emitter
from xyla.codegen.kernels.loops import Nest, Piece, choose_lanes, minor_length, minor_to_major, same_place, store
from xyla.codegen.kernels.movement import at, clamp_index, start_requests
from xyla.codegen.kernels.reduce import Loops
from xyla.codegen.kernels.transpose import transpose_kernel
from xyla.codegen.llvm import Val, Value, byte_size, constant
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Layout, Shape
from xyla.support.dtypes import ElementType


def copy_whole(em: Emitter, source: Leaf, target: Leaf) -> None:
    """Copies an array, unless both are one buffer. Layouts may differ."""
    if same_place(source.shape, target.shape):
        et = source.shape.element_type
        size = byte_size(memory_type(et)) * (2 if et.is_complex else 1) * source.shape.num_elements
        copy_bytes(em, source.ptr, target.ptr, size)
        return

    def body(index: Index) -> None:
        store(em, target, index, em.load(source, index))

    Nest(em).write_all(Piece(target.shape, body))


def copy_bytes(em: Emitter, source: Val, target: Val, size: int) -> None:
    """Copies memory, unless both are one buffer."""
    b = em.b
    args = [target, source, constant(size, "i64"), constant(False, "i1")]
    symbol = b.declare_intrinsic("memcpy", args, "void", (("ptr", 1), ("ptr", 1), ("i64", 1)))
    with b.when(b.icmp("ne", source, target)):
        b.line(f"call void @{symbol}({', '.join(a.typed for a in args)})")


def copy_kernel(inst: Instruction) -> KernelSpec:
    """A copy of an array (perhaps to another layout), or of every array of a tuple."""
    if not inst.shape.is_tuple:
        return transpose_kernel(inst)
    shapes, sources = leaves_of(inst.shape), leaves_of(inst.operands[0].shape)
    em = start_emitter(inst, [inst], choose_lanes([s.element_type for s in shapes], max(map(minor_length, shapes))))
    with em.b.loop(em.frame.lo, em.frame.hi), em.scope():
        pointers = zip(em.frame.operands, sources, em.frame.outputs, shapes, strict=True)
        for p, source, q, target in pointers:
            if target.num_elements:
                copy_whole(em, Leaf(p, source), Leaf(q, target))
    return em.frame.spec(signature(inst), 1, size=2 * inst.shape.num_bytes)


def bitcast_kernel(inst: Instruction) -> KernelSpec:
    """A bitcast, as copied bytes when the element's width changes."""
    source, target = inst.operands[0].shape, inst.shape
    if source.element_type.itemsize == target.element_type.itemsize or source.num_bytes != target.num_bytes:
        return loop_kernel(inst)
    em = start_emitter(inst, [inst], 1)
    with em.b.loop(em.frame.lo, em.frame.hi):
        copy_bytes(em, em.frame.operands[0], em.frame.outputs[0], source.num_bytes)
    return em.frame.spec(signature(inst), min(1, source.num_bytes), size=2 * source.num_bytes)


def fill(em: Emitter, source: Instruction, target: Leaf) -> None:
    """Writes all of an operand's value (a buffer, or a fused producer's) to `target`."""
    if not target.shape.num_elements:
        return
    leaf = em.leaves.get(source)
    if leaf is not None:
        copy_whole(em, leaf, target)
        return

    def body(index: Index) -> None:
        value: Any = em.emit(source, index)
        store(em, target, index, value)

    Nest(em).write_all(Piece(target.shape, body))


def update_slice_kernel(inst: Instruction) -> KernelSpec:
    """dynamic-update-slice, alone or as a fusion's root. One launch unit: copying is bound by memory anyway."""
    root, body_insts = root_of(inst), body_of(inst)
    operand, update = root.operands[:2]
    if not update.shape.num_elements:
        return loop_kernel(inst)
    types = body_types(inst, body_insts) if inst is not root else [inst.shape.element_type]
    lanes = choose_lanes(types, minor_length(_layout_of(update.shape, inst.shape)))
    em = start_emitter(inst, body_insts, lanes)
    out = Leaf(em.frame.outputs[0], inst.shape)
    fill(em, operand, out)
    starts = []
    for d, (start, where) in enumerate(start_requests(root, 2, inst.shape.rank)):
        limit = inst.shape.dims[d] - update.shape.dims[d]
        value: Any = em.emit(start, where) if limit > 0 else None
        starts.append(clamp_index(em, value, start.shape.element_type, limit) if limit > 0 else ZERO)

    def body(index: Index) -> None:
        value = em.converted(em.emit(update, index), update, inst.shape.element_type)
        comps = [em.m.add(c, s) for c, s in zip(em.comps(index), starts, strict=True)]
        store(em, out, at(inst.shape, comps), value)

    with em.b.loop(em.frame.lo, em.frame.hi), em.scope():
        Nest(em).write_all(Piece(_layout_of(update.shape, inst.shape), body))
    aliases = ((0, 0),) if inst is root else ()
    return em.frame.spec(signature(inst), 1, size=inst.shape.num_bytes, aliases=aliases)


def _layout_of(shape: Shape, model: Shape) -> Shape:
    """`shape`'s dimensions in `model`'s memory order: loops then store in order."""
    layout = model.layout
    return Shape.array(shape.element_type, shape.dims, layout and Layout.of(layout.minor_to_major))


def scatter_kernel(inst: Instruction) -> KernelSpec:
    """A kernel for scatter, alone or as a fusion's root: sequential over the updates, lanes along a window."""
    try:
        return _Scatter(inst, scalar=False).build()
    except NeedScalarError:
        return _Scatter(inst, scalar=True).build()


class _Scatter:
    """One scatter's dimensions, and the code of its loops."""

    def __init__(self, inst: Instruction, *, scalar: bool) -> None:
        self.inst, self.root, body = inst, root_of(inst), body_of(inst)
        self.a = self.root.attrs
        operands = self.root.operands
        n = self.n = len(operands) // 2
        self.operands, self.indices, self.updates = operands[:n], operands[n], operands[n + 1 :]
        self.dims = self.operands[0].shape.dims
        self.update = self.updates[0].shape
        skipped = {*self.a.inserted_window_dims, *self.a.input_batching_dims}
        self.window = [d for d in range(len(self.dims)) if d not in skipped]
        self.batch = [d for d in range(self.update.rank) if d not in self.a.update_window_dims]
        # Operand dimension -> update dimension, for window dimensions.
        self.along = dict(zip(self.window, self.a.update_window_dims, strict=True))
        self.vector = self._vector_dim()
        length = self.update.dims[self.vector] if self.vector is not None else 1
        types = _data_types(inst, self.indices) if inst is self.root else body_types(inst, body)
        lanes = 1 if scalar else choose_lanes(types, length)
        self.em = start_emitter(inst, body, lanes)
        self.outs = [Leaf(p, s) for p, s in zip(self.em.frame.outputs, leaves_of(inst.shape), strict=True)]

    def _vector_dim(self) -> int | None:
        """The update dimension to vectorise: the window dimension that is minor in the result."""
        for d in minor_to_major(leaves_of(self.inst.shape)[0]):
            if d in self.along and self.update.dims[self.along[d]] > 1:
                found: int = self.along[d]
                return found
        return None

    def build(self) -> KernelSpec:
        """Writes the kernel."""
        em = self.em
        with em.b.loop(em.frame.lo, em.frame.hi), em.scope():
            for o, out in zip(self.operands, self.outs, strict=True):
                fill(em, o, out)
            fits = all(self.update.dims[u] <= self.dims[d] for d, u in self.along.items())
            if self.update.num_elements and fits and 0 not in self.dims:
                self._all_updates()
        size = sum(s.shape.num_bytes for s in (*self.operands, *self.updates, self.indices))
        aliases = tuple((i, i) for i in range(self.n)) if self.inst is self.root else ()
        return em.frame.spec(signature(self.inst), 1, size=size, aliases=aliases)

    def _all_updates(self) -> None:
        em = self.em
        loops = Loops(em, [self.update.dims[d] for d in self.batch], [])
        with em.scope():
            starts, inside = self._starts(loops.indices)
            if inside is None:
                self._window(loops.indices, starts)
            else:
                with em.b.when(inside), em.scope():
                    self._window(loops.indices, starts)
        loops.close([])

    def _starts(self, batch: Sequence[Ix]) -> tuple[dict[int, Ix], Val | None]:
        """Window starts by operand dimension, and whether the window lies inside."""
        em, a, inside = self.em, self.a, None
        starts: dict[int, Ix] = {}
        shape = self.indices.shape
        for k, d in enumerate(a.scatter_dims_to_operand_dims):
            where = list(batch)
            if a.index_vector_dim < shape.rank:
                where.insert(a.index_vector_dim, number(k))
            value: Any = em.emit(
                self.indices, at(shape, [c if n > 1 else ZERO for c, n in zip(where, shape.dims, strict=True)])
            )
            size = self.update.dims[self.along[d]] if d in self.along else 1
            limit = self.dims[d] - size
            wide = em.b.int_cast(
                self._unsigned_safe(value, shape.element_type), "i64", signed=shape.element_type.is_signed
            )
            ok = em.b.icmp("ule", wide, limit)
            inside = ok if inside is None else em.b.and_(inside, ok)
            starts[d] = em.m.value(wide, 0, limit)
        for d, i in zip(a.input_batching_dims, a.scatter_indices_batching_dims, strict=True):
            starts[d] = batch[i if i < a.index_vector_dim else i - 1]
        return starts, inside

    def _unsigned_safe(self, value: Value, et: ElementType) -> Val:
        """An index that may be pred; negative and huge values both fail the one unsigned comparison that follows."""
        assert isinstance(value, Val)
        return self.em.b.cast("zext", value, "i8") if value.ty == "i1" else value

    def _window(self, batch: Sequence[Ix], starts: dict[int, Ix]) -> None:
        em = self.em
        rest = [u for u in self.a.update_window_dims if u != self.vector]
        loops = Loops(em, [self.update.dims[u] for u in rest], [])
        with em.scope():
            comps = [ZERO] * self.update.rank
            for u, c in zip([*self.batch, *rest], [*batch, *loops.indices], strict=True):
                comps[u] = c
            if self.vector is None:
                self._combine(comps, starts)
            else:
                vector = self.vector

                def body(i: Ix) -> None:
                    comps[vector] = i
                    self._combine(comps, starts)

                Nest(em).row(body, self.update.dims[vector])
        loops.close([])

    def _combine(self, comps: Sequence[Ix], starts: dict[int, Ix]) -> None:
        em = self.em
        place = []
        for d in range(len(self.dims)):
            parts = [starts.get(d, ZERO), comps[self.along[d]] if d in self.along else ZERO]
            place.append(em.m.sum(parts))
        where = [em.position(at(out.shape, place), out.strides) for out in self.outs]
        old = [em.load_at(out, w) for out, w in zip(self.outs, where, strict=True)]
        update = Index(self.update.dims, tuple(comps))
        new: list[Any] = [em.emit(u, update) for u in self.updates]
        types = [o.shape.element_type for o in (*self.operands, *self.updates)]
        results = em.combine(self.root.role("to_apply"), em.level([*old, *new]), types, self.n)
        for out, value in zip(self.outs, results, strict=True):
            store(em, out, at(out.shape, place), value)


def _data_types(inst: Instruction, indices: Instruction) -> list[ElementType]:
    """The operands' and updates' types; index arithmetic is scalar."""
    types = body_types(inst, [inst])
    used = {o.shape.element_type for o in inst.operands if o is not indices}
    return [t for t in types if t in used]
