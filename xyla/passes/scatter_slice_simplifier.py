"""Scatters whose results are cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.attr_types import SliceDim
from xyla.hlo.module import Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import erase_dead


@register
@dataclass(frozen=True, slots=True)
class ScatterSliceSimplifier(Pass):
    """Scatters into the part that is kept, when everything that reads a scatter keeps the same first elements.

        s = f32[9] scatter(x, i, u), window of size 1
        ROOT r = f32[8] slice(s), slice={[0:8]}      ==>      ROOT r = f32[8] scatter(slice(x), i, u)

    Element-wise ops between the scatter and the slices are done on the part. A dropped update stays dropped and a kept
    one stays kept only where windows have size 1 along what is cut: others are left alone.
    """

    name: ClassVar[str] = "scatter-slice-simplifier"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the scatters' uses."""
        changed = False
        for comp in module.computation_post_order():
            for inst in [i for i in comp.post_order() if i.op is ops.SCATTER]:
                cut = _Cut(inst)
                if not cut.found() or not ctx.permit("scatter-into-slice", inst):
                    continue
                cut.apply(ctx)
                changed = True
        return changed


@dataclass(slots=True)
class _Cut:
    """The element-wise instructions and slices below a scatter, and the dims that all slices keep."""

    scatter: Instruction
    between: dict[Instruction, None] = field(default_factory=dict)
    slices: dict[Instruction, None] = field(default_factory=dict)
    dims: tuple[int, ...] = ()

    def found(self) -> bool:
        """Whether every use ends in a slice of the same leading part, and the scatter may be cut so."""
        scatter = self.scatter
        if scatter.shape.is_dynamic or scatter.control_predecessors or scatter.control_successors:
            return False
        if not self._collect() or not self.slices:
            return False
        kept = {s.shape.dims for s in self.slices}
        self.dims = next(iter(kept))
        return len(kept) == 1 and self._windows_allow()

    def _collect(self) -> bool:
        whole = self.scatter.operands[0].shape
        stack = [self.scatter]
        while stack:
            inst = stack.pop()
            if inst.is_root:
                return False
            for user in inst.users:
                if user.op is ops.SLICE and all(d.start == 0 and d.stride == 1 for d in user.attrs.slice):
                    self.slices[user] = None
                elif user.op is ops.GET_TUPLE_ELEMENT or (
                    user.op.has(Trait.ELEMENTWISE) and user.shape.same_dims(whole)
                ):
                    if user not in self.between:
                        self.between[user] = None
                        stack.append(user)
                else:
                    return False
        return True

    def _windows_allow(self) -> bool:
        attrs: ops.ScatterAttrs = self.scatter.attrs
        if attrs.input_batching_dims:
            return False
        update = self.scatter.operands[len(self.scatter.operands) // 2 + 1].shape
        sizes = iter(update.dims[d] for d in attrs.update_window_dims)
        for d, (size, kept) in enumerate(zip(self.scatter.operands[0].shape.dims, self.dims, strict=True)):
            window = 1 if d in attrs.inserted_window_dims else next(sizes)
            if kept == size:
                continue
            moves = d in attrs.scatter_dims_to_operand_dims
            if window != 1 if moves else window > kept:
                return False
        return True

    def apply(self, ctx: PassContext) -> None:
        """Builds the scatter of the part and replaces the slices."""
        scatter = self.scatter
        count = len(scatter.operands) // 2
        parts = [self._part(o) for o in scatter.operands[:count]]
        shape = parts[0].shape if count == 1 else Shape.tuple_of(p.shape for p in parts)
        operands = [*parts, *scatter.operands[count:]]
        new = rewriter.clone_instruction(scatter, scatter.parent, operands, shape=shape)
        new.sharding = ""
        made = {scatter: new}
        for inst in [i for i in scatter.parent.post_order() if i in self.between]:
            made[inst] = self._redo(inst, made)
        ctx.record(new)
        for cut in self.slices:
            rewriter.replace_uses(cut, made[cut.operands[0]])
        erase_dead(self.slices)

    def _redo(self, inst: Instruction, made: dict[Instruction, Instruction]) -> Instruction:
        operands = [made[o] if o in made else self._part(o) for o in inst.operands]
        shape = inst.shape.with_dims(self.dims).with_layout(inst.shape.layout)
        return rewriter.clone_instruction(inst, inst.parent, operands, shape=shape)

    def _part(self, whole: Instruction) -> Instruction:
        """The leading part of an operand; scalars (of select and clamp) as they are."""
        if not whole.shape.rank:
            return whole
        shape = whole.shape.with_dims(self.dims).with_layout(whole.shape.layout)
        attrs = ops.SliceAttrs(tuple(SliceDim(0, d) for d in self.dims))
        return rewriter.create(whole.parent, ops.SLICE, [whole], attrs, shape=shape)
