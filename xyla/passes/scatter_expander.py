"""scatter as a loop of dynamic update slices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef, Trait
from xyla.passes.building import Builder, Expander, Val
from xyla.passes.index_vectors import IndexNumbers, index_rows, permutation_to, row_at, window_start
from xyla.passes.vectorise import apply_elementwise, can_vectorise
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import PRED
from xyla.support.status import invalid, unimplemented

_MODES = ("all", "simple", "indeterministic")


@register
@dataclass(frozen=True, slots=True)
class ScatterExpander(Expander):
    """Turns scatter into a while loop over the index vectors: slice, combine, update.

    An update whose window leaves the operand anywhere is skipped whole; several updates of one element are applied in
    order. mode: `all`; `simple`, only those of one index vector; `indeterministic`, only those whose result depends on
    the order (indices not known to be unique, and a combiner that is not an associative integer operation).

        ROOT s = s32[5] scatter(s32[5] x, s32[2,1] i, s32[2] u), to_apply=add, ...
          ==>  w = (s32[], s32[5], s32[2,1], s32[2]) while(...), whose body does
               old = dynamic-slice(x, i[k]); new = select(in bounds, add(old, u[k]), old)
               x = dynamic-update-slice(x, new, i[k])
    """

    name: ClassVar[str] = "scatter-expander"
    mode: str = "all"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        if self.mode not in _MODES:
            raise invalid(f"scatter-expander: mode is one of {', '.join(_MODES)}, not {self.mode!r}")
        chosen = {"all": expand_scatter, "simple": expand_simple_scatter}
        return {ops.SCATTER: chosen.get(self.mode, expand_indeterministic_scatter)}


def expand_scatter(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """scatter(x, i, u) = for each k: x[i[k]] = combine(x[i[k]], u[k]) where in bounds."""
    if inst.shape.is_dynamic or any(o.shape.is_dynamic for o in inst.operands):
        return None  # the padder makes them static
    count = _count(inst)
    if count >= 2**31:
        raise unimplemented(f"scatter-expander: a loop over {count} index vectors", span=inst.span)
    if len(inst.operands) > 3 and not can_vectorise(inst.called[0]) and _window_elements(inst) != 1:
        raise unimplemented(
            f"scatter-expander: several operands with windows of more than one element and combiner "
            f"{inst.called[0].name!r}, which is not element-wise",
            span=inst.span,
        )
    rw.permit()
    b = Builder(rw)
    n = len(inst.operands) // 2
    values = b.vals(inst.operands)
    operands, indices, updates = values[:n], values[n], values[n + 1 :]
    results = operands
    if count and updates[0].shape.num_elements and operands[0].shape.num_elements:
        results = _scatter(b, inst, operands, indices, updates, count)
    if inst.shape.is_tuple:
        return b.tuple(results).inst
    if results[0].inst is inst.operands[0]:  # nothing is written
        return inst.operands[0]
    return results[0].inst


def expand_simple_scatter(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """scatter of one index vector."""
    return expand_scatter(inst, rw) if _count(inst) == 1 else None


def expand_indeterministic_scatter(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """scatter whose result depends on the order of its updates."""
    return None if is_deterministic(inst) else expand_scatter(inst, rw)


def is_deterministic(inst: Instruction) -> bool:
    """Whether every order of a scatter's updates gives the same bits."""
    if inst.attrs.unique_indices or _count(inst) <= 1:
        return True
    comp = inst.called[0]
    root = comp.root
    if not root.shape.is_array:
        return False
    # Rounding makes float sums and products depend on the order; extrema do not round.
    exact = root.shape.element_type.is_integer or root.shape.element_type is PRED
    if not exact and root.op not in (ops.MAXIMUM, ops.MINIMUM):
        return False
    return root.op.has(Trait.ASSOCIATIVE | Trait.COMMUTATIVE) and set(root.operands) == set(comp.parameters)


def numbers_of(inst: Instruction) -> IndexNumbers:
    """A scatter's dimension numbers as `IndexNumbers`."""
    a = inst.attrs
    return IndexNumbers(
        a.index_vector_dim, a.scatter_dims_to_operand_dims, a.input_batching_dims, a.scatter_indices_batching_dims
    )


def _count(inst: Instruction) -> int:
    indices = inst.operands[len(inst.operands) // 2]
    return math.prod(numbers_of(inst).batch_dims(indices.shape.dims))


def _window_elements(inst: Instruction) -> int:
    updates = inst.operands[-1].shape
    return math.prod(updates.dims[d] for d in inst.attrs.update_window_dims)


def _scatter(
    b: Builder, inst: Instruction, operands: list[Val], indices: Val, updates: list[Val], count: int
) -> list[Val]:
    rows = index_rows(b, indices, numbers_of(inst))
    rank, a = len(updates[0].dims), inst.attrs
    others = [d for d in range(rank) if d not in set(a.update_window_dims)]
    window = tuple(updates[0].dims[d] for d in sorted(a.update_window_dims))
    tables = [u.transpose(*permutation_to(others, rank)).reshape(count, *window) for u in updates]
    absent = {*a.inserted_window_dims, *a.input_batching_dims}
    sizes_left = iter(window)
    sizes = tuple(1 if d in absent else next(sizes_left) for d in range(len(operands[0].dims)))
    if count == 1:
        row = rows.reshape(rows.dims[1])
        return _step(b, inst, operands, row, [t.reshape(*sizes) for t in tables], sizes)
    n = len(operands)

    def body(b: Builder, i: Val, values: list[Val]) -> list[Val]:
        table, pieces = values[n], values[n + 1 :]
        at: list[Val | int] = [i, *[0] * len(window)]
        now = [b.dynamic_slice(u, at, (1, *window)).reshape(*sizes) for u in pieces]
        return [*_step(b, inst, values[:n], row_at(b, table, i), now, sizes), *values[n:]]

    return b.counted_loop(count, [*operands, rows, *tables], body, "scatter")[:n]


def _step(
    b: Builder, inst: Instruction, operands: list[Val], row: Val, updates: list[Val], sizes: tuple[int, ...]
) -> list[Val]:
    """One update: where the window is out of bounds what is there is written back."""
    start = window_start(b, row, numbers_of(inst), len(operands[0].dims))
    inside = _in_bounds(b, inst, row, operands[0].dims, sizes)
    old = [b.dynamic_slice(x, start, sizes) for x in operands]
    new = apply_elementwise(b, inst.called[0], [*old, *updates], [o.et for o in operands])
    chosen = [b.select(inside, y, x) for x, y in zip(old, new, strict=True)]
    return [b.update(x, y, start) for x, y in zip(operands, chosen, strict=True)]


def _in_bounds(b: Builder, inst: Instruction, row: Val, dims: tuple[int, ...], sizes: tuple[int, ...]) -> Val:
    """pred[]: every indexed dimension's window lies in the operand."""
    indexed = inst.attrs.scatter_dims_to_operand_dims
    if not indexed:
        return b.scalar(True, PRED)
    start = row.slice([0], [len(indexed)])
    limits = b.array([dims[d] - sizes[d] for d in indexed], row.et)
    fits = start.ge(0) & start.le(limits)
    return b.reduce(fits, True, [0], ops.AND)
