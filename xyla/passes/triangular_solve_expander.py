"""triangular-solve as blocked substitution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.attr_types import Transpose
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander, Val
from xyla.passes.linear_algebra import batched, compute_type, conj, matmul, row, triangle
from xyla.passmgr.base import register
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.status import unimplemented

VALUE_CHANGING = {"expand_triangular_solve": (Fp.DEFAULT, "the solution rounds as blocked substitution does")}


@register
@dataclass(frozen=True, slots=True)
class TriangularSolveExpander(Expander):
    """Solves op(a) x = b block by block: a loop of row substitutions in each diagonal block, a dot for the rest.

    Backward stable, as substitution is: the residual is within n units in the last place of |a| |x|.
    block_size: rows to a block.

        ROOT x = f32[n,k] triangular-solve(a, b), left_side=true, lower=true
          ==>  for each block: x[block] = substitute(a[block, block], b[block] - a[block, before] . x[before])
    """

    name: ClassVar[str] = "triangular-solve-expander"
    block_size: int = 128

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        block = max(self.block_size, 1)

        @value_changing(*VALUE_CHANGING["expand_triangular_solve"])
        def expand_triangular_solve(inst: Instruction, rw: Rewrite) -> Instruction | None:
            """x = op(a)^-1 b or b op(a)^-1."""
            return _expand(inst, rw, block)

        return {ops.TRIANGULAR_SOLVE: expand_triangular_solve}


def _expand(inst: Instruction, rw: Rewrite, block: int) -> Instruction:
    et = inst.shape.element_type
    if not (et.is_float or et.is_complex) or inst.shape.is_dynamic:
        raise unimplemented(f"triangular-solve-expander: {inst.shape}", span=inst.span)
    rw.permit()
    b, attrs = Builder(rw), inst.attrs
    if not inst.shape.num_elements:
        return inst.operands[1]
    wide = compute_type(et)
    m, rhs = (batched(v.convert(wide)) for v in b.vals(inst.operands))
    x = solve(m, rhs, attrs, block)
    return x.reshape(*inst.shape.dims).convert(et).inst


def solve(m: Val, rhs: Val, attrs: ops.TriangularSolveAttrs, block: int) -> Val:
    """[N, n, n] and [N, n, k] (or [N, k, n] on the right side) to the solution, of rhs's shape."""
    lower = attrs.lower
    flip = attrs.transpose_a in (Transpose.TRANSPOSE, Transpose.ADJOINT)
    if attrs.transpose_a is Transpose.ADJOINT:
        m = conj(m)
    if not attrs.left_side:
        # x op(a) = b is op(a)^T x^T = b^T.
        flip, rhs = not flip, rhs.transpose(0, 2, 1)
    if flip:
        m, lower = m.transpose(0, 2, 1), not lower
    x = _substitute_blocks(m, rhs, lower, attrs.unit_diagonal, block)
    return x if attrs.left_side else x.transpose(0, 2, 1)


def _substitute_blocks(m: Val, rhs: Val, lower: bool, unit: bool, block: int) -> Val:
    b, size = m.b, m.dims[1]
    starts = list(range(0, size, block))
    done: dict[int, Val] = {}
    for start in starts if lower else reversed(starts):
        end = min(start + block, size)
        part = rhs.slice_dim(1, start, end)
        first, last = (0, start) if lower else (end, size)
        if first < last:
            solved = b.concat([done[s] for s in sorted(done)], 1)
            part = part - matmul(m.slice_dim(1, start, end).slice_dim(2, first, last), solved)
        diagonal = m.slice_dim(1, start, end).slice_dim(2, start, end)
        done[start] = _substitute_rows(diagonal, part, lower, unit)
    return b.concat([done[s] for s in starts], 1)


def _substitute_rows(m: Val, rhs: Val, lower: bool, unit: bool) -> Val:
    """One row of x after the other: x[i] = (rhs[i] - m[i, :] . x) / m[i, i], rows not yet known being zero."""
    b, size = m.b, m.dims[1]
    # The other triangle is never read: it may hold anything, NaN too.
    others = b.select(triangle(b, m.dims, lower=lower, strict=True), m, 0)

    def body(b: Builder, i: Val, values: list[Val]) -> list[Val]:
        x, others, m, rhs = values
        at = i if lower else size - 1 - i
        found = row(rhs, at) - matmul(row(others, at), x)
        if not unit:
            pivot = b.dynamic_slice(m, [0, at, at], [m.dims[0], 1, 1]).reshape(m.dims[0])
            found = found / pivot.broadcast(found.dims, [0])
        return [b.update(x, found, [0, at, 0]), others, m, rhs]

    start = b.full(0, rhs.et, rhs.dims)
    return b.counted_loop(size, [start, others, m, rhs], body, "triangular_solve")[0]
