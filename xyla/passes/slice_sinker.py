"""Element-wise work on whole arrays in place of their slices."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import erase_dead


@register
@dataclass(frozen=True, slots=True)
class SliceSinker(Pass):
    """Computes once what is computed slice by slice.

        a = add(slice(x)[0:2], slice(y)[0:2])             s = add(x, y)
        b = add(slice(x)[2:8], slice(y)[2:8])      ==>    a = slice(s)[0:2], b = slice(s)[2:8]

    Done when the slices together hold at least as many elements as the whole.
    """

    name: ClassVar[str] = "slice-sinker"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Near linear: an array is looked at again only when slices that go with its own were made."""
        changed = False
        for comp in module.computation_post_order():
            changed |= _sink(comp, ctx)
        return changed


def _sink(comp: Computation, ctx: PassContext) -> bool:
    sources = [i for i in comp.post_order() if any(u.op is ops.SLICE for u in i.users)]
    work, queued = deque(sources), set(sources)
    changed = False
    while work:
        source = work.popleft()
        queued.discard(source)
        if source not in comp.instructions:
            continue
        for group in _groups(source):
            if not ctx.permit("sink-slices", group[0]):
                return changed
            changed = True
            for again in _merge(group, ctx):
                if again not in queued:
                    queued.add(again)
                    work.append(again)
    return changed


def _groups(source: Instruction) -> list[list[Instruction]]:
    """Sets of like instructions on slices of `source` (first) and of other arrays, big enough to be merged."""
    found: dict[Hashable, dict[Instruction, None]] = {}
    for piece in source.users:
        if piece.op is not ops.SLICE:
            continue
        for user in piece.users:
            if user.operands[0] is piece and _mergeable(user):
                key = (user.op, user.attrs, user.shape.element_type, tuple(o.operands[0] for o in user.operands))
                found.setdefault(key, {})[user] = None
    whole = source.shape.num_elements
    return [list(g) for g in found.values() if sum(i.shape.num_elements for i in g) >= whole]


def _mergeable(inst: Instruction) -> bool:
    """Whether an element-wise instruction reads the same region of arrays of one shape."""
    if not inst.op.has(Trait.ELEMENTWISE) or inst.control_predecessors or inst.control_successors:
        return False
    if any(o.op is not ops.SLICE for o in inst.operands) or inst.shape.is_dynamic:
        return False
    first = inst.operands[0]
    return all(o.attrs == first.attrs and o.operands[0].shape.same_dims(first.operands[0].shape) for o in inst.operands)


def _merge(group: list[Instruction], ctx: PassContext) -> list[Instruction]:
    """Replaces a group; returns the arrays whose slices may now go together."""
    first = group[0]
    sources = [o.operands[0] for o in first.operands]
    shape = sources[0].shape.with_type(first.shape.element_type)
    whole = rewriter.create(first.parent, first.op, sources, first.attrs, shape=shape, like=first)
    ctx.record(whole)
    again = dict.fromkeys([whole])
    for inst in group:
        pieces = inst.operands
        new = rewriter.create(inst.parent, ops.SLICE, [whole], pieces[0].attrs, shape=inst.shape, like=inst)
        for user in inst.users:
            if user.operands[0].op is ops.SLICE:
                again[user.operands[0].operands[0]] = None
        rewriter.replace_uses(inst, new)
        rewriter.erase(inst)
        erase_dead(dict.fromkeys(pieces))
    return list(again)
