"""transpose, and copy to another layout: square tiles are turned in registers, so that memory is read and written in
whole vectors on both sides. Spec: XLA operation semantics (Transpose).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xyla.codegen.fused import Emitter, physical_strides
from xyla.codegen.index import Ix, delinearize
from xyla.codegen.kernel import GRAIN_ELEMENTS, KernelSpec, signature
from xyla.codegen.kernels.loop import loop_kernel, start_emitter
from xyla.codegen.llvm import Builder, Val
from xyla.hlo import ops
from xyla.hlo.module import Instruction


def transpose_kernel(inst: Instruction) -> KernelSpec:
    """A kernel for a transpose or copy of an array: tiles where the minor dimensions differ, else a plain loop."""
    source, target = inst.operands[0].shape, inst.shape
    perm = inst.attrs.dimensions if inst.op is ops.TRANSPOSE else range(source.rank)
    strides = physical_strides(source)
    # Strides of the operand by result dimension.
    inward = [strides[d] for d in perm]
    outward = physical_strides(target)
    minor = [next((d for d, s in enumerate(x) if s == 1), -1) for x in (inward, outward)]
    size = source.element_type.itemsize
    lanes = 8 if size == 8 else 16
    if size > 8 or -1 in minor or minor[0] == minor[1] or min(target.dims[d] for d in minor) < lanes:
        return loop_kernel(inst)
    return _Tiles(inst, f"i{8 * size}", lanes, inward, outward, minor).build()


class _Tiles:
    """Tiles of lanes x lanes elements; a launch unit is one strip of tiles along the operand's minor dimension."""

    def __init__(
        self,
        inst: Instruction,
        ty: str,
        lanes: int,
        inward: Sequence[int],
        outward: Sequence[int],
        minor: Sequence[int],
    ) -> None:
        self.inst, self.ty, self.lanes = inst, ty, lanes
        self.inward, self.outward = inward, outward
        self.read, self.write = minor
        self.em: Emitter = start_emitter(inst, [inst], lanes)

    def build(self) -> KernelSpec:
        """Writes the kernel."""
        em, b, lanes, dims = self.em, self.em.b, self.lanes, self.inst.shape.dims
        others = [d for d in range(len(dims)) if d not in (self.read, self.write)]
        sizes = [*(dims[d] for d in others), -(-dims[self.write] // lanes)]
        units = prod(sizes)
        source, target = em.frame.operands[0], em.frame.outputs[0]
        with b.loop(em.frame.lo, em.frame.hi) as unit, em.scope():
            split = delinearize(em.m, em.m.value(unit.i, 0, units - 1), sizes)
            first = em.m.clamp(em.m.mul(split[-1], lanes), 0, dims[self.write] - lanes)
            places = [*split[:-1], first]
            along = [*others, self.write]
            start_in = em.m.offset(places, [self.inward[d] for d in along])
            start_out = em.m.offset(places, [self.outward[d] for d in along])
            with b.loop(0, dims[self.read], lanes) as loop, em.scope():
                place = em.m.clamp(Ix(loop.i, 0, 0, dims[self.read] - 1), 0, dims[self.read] - lanes)
                at_in = em.m.add(start_in, place)
                at_out = em.m.add(start_out, em.m.mul(place, self.outward[self.read]))
                rows = [
                    b.load(b.gep(source, em.m.add(at_in, k * self.inward[self.write]).base, self.ty), self.ty, lanes)
                    for k in range(lanes)
                ]
                for k, column in enumerate(turned(b, rows)):
                    b.store(column, b.gep(target, em.m.add(at_out, k * self.outward[self.read]).base, self.ty))
        size = 2 * self.inst.shape.num_bytes
        grain = max(1, GRAIN_ELEMENTS // (lanes * dims[self.read]))
        return em.frame.spec(signature(self.inst), units, grain=grain, size=size)


def turned(b: Builder, rows: Sequence[Val]) -> list[Val]:
    """The transpose of a square matrix held as row vectors: swaps one bit of row and lane number at a time."""
    out, lanes, step = list(rows), len(rows), 1
    while step < lanes:
        low = [lane if not lane & step else lanes + lane - step for lane in range(lanes)]
        high = [lane + step if not lane & step else lanes + lane for lane in range(lanes)]
        for i in range(lanes):
            if not i & step:
                x, y = out[i], out[i + step]
                out[i], out[i + step] = b.shuffle(x, y, low), b.shuffle(x, y, high)
        step *= 2
    return out
