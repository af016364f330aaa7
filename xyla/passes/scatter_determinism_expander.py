"""Scatters whose result depends on the order of their updates become scatters with unique indices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Val, expand
from xyla.passes.index_vectors import index_rows, permutation_to
from xyla.passes.retyping import TypeMap, can_retype, retyped_computation
from xyla.passes.scatter_expander import expand_indeterministic_scatter, is_deterministic, numbers_of
from xyla.passes.type_rules import wider
from xyla.passes.vectorise import apply_elementwise
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import Fp, PassContext
from xyla.passmgr.rules import Rewrite, fp_allows
from xyla.support.dtypes import F32, PRED, S32, S64

VALUE_CHANGING = {
    "combine_before_scatter": (Fp.DEFAULT, "the updates of an element are combined in another association"),
    "combine_in_f32": (Fp.DEFAULT, "updates of a narrow float round once, at the end, not one by one"),
}


@register
@dataclass(frozen=True, slots=True)
class ScatterDeterminismExpander(Pass):
    """Combines the updates of each element first, by a stable sort and a segmented scan, then scatters once.

    Every run and every target then combines in one and the same order. Scatters of one operand whose combiner is an
    associative operation, or keeps the update, and whose order matters (floats, indices not known to be unique).
    Takes O(n log n) and no loop. Sums come out in another association: in strict mode the scatters become loops.

        ROOT s = f32[4] scatter(x, i, u), to_apply=add
          ==>  (k, v) = sort(linear index of i, u); v = prefix sums of v within equal k
               ROOT r = f32[4] scatter(x, k where last of its run else out of bounds, v), unique_indices=true
    """

    name: ClassVar[str] = "scatter-determinism-expander"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Each scatter once: linear in the module's size."""
        if fp_allows(ctx.fp, VALUE_CHANGING["combine_before_scatter"][0]):
            return expand(module, ctx, {ops.SCATTER: combine_before_scatter})
        return expand(module, ctx, {ops.SCATTER: scatter_in_order})


def combine_before_scatter(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """scatter(x, i, u) = scatter(x, unique i, combined u)."""
    if not _in_question(inst):
        return None
    rw.permit()
    b = Builder(rw)
    types = _wide_types(inst)
    comp = retyped_computation(inst.called[0], types)
    operand, updates = (v.convert(types.get(v.et, v.et)) for v in b.vals((inst.operands[0], inst.operands[2])))
    keys, values = _flat(b, inst, operand, updates)
    total, count = operand.shape.num_elements, keys.dims[0]
    keys, values = _sorted_by_key(b, keys, values)
    values = _segmented_scan(b, comp, keys, values)
    following = b.concat([keys.slice([1], [count]), b.full(total, keys.et, [1])], 0)
    # Only the last of a run holds the whole of it; the others, and what was out of bounds, stay out of bounds.
    keys = b.select(keys.ne(following), keys, total)
    attrs = ops.ScatterAttrs(
        inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), index_vector_dim=1, unique_indices=True
    )
    flat = operand.reshape(total)
    new = b.apply(ops.SCATTER, flat, keys.reshape(count, 1), values, attrs=attrs, called=[comp])
    return new.reshape(*inst.shape.dims).convert(inst.shape.element_type).inst


def scatter_in_order(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """scatter(x, i, u) = for each k: x[i[k]] = combine(x[i[k]], u[k]), for the scatters of `combine_before_scatter`."""
    return expand_indeterministic_scatter(inst, rw) if _in_question(inst) else None


def _in_question(inst: Instruction) -> bool:
    """Whether the order of the updates matters, and `combine_before_scatter` can do without it."""
    if len(inst.operands) != 3 or inst.shape.is_dynamic or any(o.shape.is_dynamic for o in inst.operands):
        return False
    return not is_deterministic(inst) and _is_associative(inst) and bool(inst.operands[2].shape.num_elements)


def _wide_types(inst: Instruction) -> TypeMap:
    """The narrow floats of a scatter's operands, to be combined in f32; none where the combiner forbids it."""
    if not can_retype(inst.called[0]):
        return {}
    types = [o.shape.element_type for o in inst.operands[: len(inst.operands) // 2]]
    return {t: F32 for t in types if t.is_float and t.bits < 32 and wider(F32, t)}


def _is_associative(inst: Instruction) -> bool:
    """The combiner is an associative operation of its two parameters, or gives the update."""
    comp = inst.called[0]
    if comp.root is comp.parameters[1]:
        return True
    root = comp.root
    if not root.op.has(Trait.ASSOCIATIVE | Trait.COMMUTATIVE) or set(root.operands) != set(comp.parameters):
        return False
    return root.shape.element_type is inst.shape.element_type


def _flat(b: Builder, inst: Instruction, operand: Val, updates: Val) -> tuple[Val, Val]:
    """(the element that each update element names, or the operand's size when out of bounds; the update elements)."""
    a, numbers = inst.attrs, numbers_of(inst)
    rank = len(updates.dims)
    others = [d for d in range(rank) if d not in set(a.update_window_dims)]
    window = [updates.dims[d] for d in sorted(a.update_window_dims)]
    rows = index_rows(b, b.val(inst.operands[1]), numbers)
    count, total = rows.dims[0], operand.shape.num_elements
    et = S64 if total >= 2**31 or rows.et is S64 else S32
    rows = rows.convert(et)
    absent = {*a.inserted_window_dims, *a.input_batching_dims}
    strides = [math.prod(operand.dims[d + 1 :]) for d in range(len(operand.dims))]
    kept = [d for d in range(len(operand.dims)) if d not in absent]
    sizes = dict(zip(kept, window, strict=True))
    named = (*numbers.to_operand, *numbers.operand_batching)
    inside = b.full(True, PRED, [count])
    start = b.full(0, et, [count])
    for i, d in enumerate(named):
        at = rows.slice_dim(1, i, i + 1).reshape(count)
        inside = inside & at.ge(0) & at.le(operand.dims[d] - sizes.get(d, 1))
        start = start + at * strides[d]
    dims = (count, *window)
    place = start.broadcast(dims, [0])
    for i, d in enumerate(kept):
        place = place + b.iota(et, dims, i + 1) * strides[d]
    place = b.select(inside.broadcast(dims, [0]), place, total)
    size = math.prod(dims)
    return place.reshape(size), updates.transpose(*permutation_to(others, rank)).reshape(size)


def _sorted_by_key(b: Builder, keys: Val, values: Val) -> tuple[Val, Val]:
    inner = b.inner("by_index")
    x, y = inner.parameter(Shape.array(keys.et, ())), inner.parameter(Shape.array(keys.et, ()))
    for _ in range(2):
        inner.parameter(Shape.array(values.et, ()))
    comparator = inner.finish(x.lt(y))
    both = b.apply(ops.SORT, keys, values, attrs=ops.SortAttrs(0, is_stable=True), called=[comparator])
    return both.element(0), both.element(1)


def _segmented_scan(b: Builder, comp: Computation, keys: Val, values: Val) -> Val:
    """Inclusive prefix combinations within runs of equal keys, doubling the distance each step."""
    count, distance = keys.dims[0], 1
    while distance < count:
        before = b.pad(keys.slice([0], [count - distance]), -1, [(distance, 0)])
        earlier = b.pad(values.slice([0], [count - distance]), 0, [(distance, 0)])
        joined = apply_elementwise(b, comp, [earlier, values], [values.et])[0]
        values = b.select(before.eq(keys), joined, values)
        distance *= 2
    return values
