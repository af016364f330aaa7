"""cholesky as a loop over columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander, Val
from xyla.passes.linear_algebra import adjoint, batched, column, compute_type, matmul, real, row, triangle
from xyla.passmgr.base import register
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import PRED, S32
from xyla.support.status import unimplemented


@register
@dataclass(frozen=True, slots=True)
class CholeskyExpander(Expander):
    """Factors a = l l^H column by column; where a is not positive definite the factor is all NaN.

    Backward stable: l l^H is within n+1 units in the last place of |l| |l^H|.

        ROOT l = f32[n,n] cholesky(a), lower=true
          ==>  for j: c = a[:, j] - l . l[j, :]^H; l[j, j] = sqrt(c[j]); l[j+1:, j] = c[j+1:] / l[j, j]
    """

    name: ClassVar[str] = "cholesky-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.CHOLESKY: expand_cholesky}


@value_changing(Fp.DEFAULT, "the factor rounds as a column-wise factorisation does")
def expand_cholesky(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """l with l l^H = a, or u = l^H with u^H u = a."""
    et = inst.shape.element_type
    if inst.shape.is_dynamic or not (et.is_float or et.is_complex):
        raise unimplemented(f"cholesky-expander: {inst.shape}", span=inst.span)
    rw.permit()
    b = Builder(rw)
    if not inst.shape.num_elements:
        return inst.operands[0]
    a = batched(b.val(inst.operands[0]).convert(compute_type(et)))
    factor = _factor(a if inst.attrs.lower else adjoint(a))
    if not inst.attrs.lower:
        factor = adjoint(factor)
    return factor.reshape(*inst.shape.dims).convert(et).inst


def _factor(a: Val) -> Val:
    """The lower factor, read from the lower triangle."""
    b, dims = a.b, a.dims

    def body(b: Builder, j: Val, values: list[Val]) -> list[Val]:
        factor, good, a = values
        rest = column(a, j) - matmul(factor, adjoint(row(factor, j)))
        pivot = real(b.dynamic_slice(rest, [0, j, 0], [dims[0], 1, 1]).reshape(dims[0]))
        good = good & pivot.gt(0)
        root = b.unary(ops.SQRT, pivot).convert(a.et).broadcast(rest.dims, [0])
        i = b.iota(S32, rest.dims, 1)
        at = j.broadcast(rest.dims)
        new = b.select(i.gt(at), rest / root, b.select(i.eq(at), root, 0))
        return [b.update(factor, new, [0, 0, j]), good, a]

    start = [b.full(0, a.et, dims), b.full(True, PRED, dims[:1]), a]
    factor, good, _ = b.counted_loop(dims[1], start, body, "cholesky")
    broken = b.select(triangle(b, dims, lower=True), b.full(float("nan"), a.et, dims), 0)
    return b.select(good.broadcast(dims, [0]), factor, broken)
