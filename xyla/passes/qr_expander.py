"""QR factorisation by Householder reflectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Expander, Val
from xyla.passes.linear_algebra import adjoint, batched, column, compute_type, conj, identity, matmul, real
from xyla.passmgr.base import register
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import S32


@register
@dataclass(frozen=True, slots=True)
class QrExpander(Expander):
    """Expands the custom calls `Qr` and `ProductOfElementaryHouseholderReflectors`, by LAPACK's conventions.

    `Qr` gives R above the diagonal, the reflectors' tails below it, and their factors tau. Backward stable.

        ROOT q = (f32[m,n], f32[k]) custom-call(a), custom_call_target="Qr"
          ==>  for j < k: v, tau[j] = reflector(a[j:, j]); a = a - conj(tau[j]) v (v^H a)
    """

    name: ClassVar[str] = "qr-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.CUSTOM_CALL: expand_qr}


@value_changing(Fp.DEFAULT, "the reflectors round as a column-wise factorisation does")
def expand_qr(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """Qr(a) = (packed reflectors, tau); ProductOfElementaryHouseholderReflectors(a, tau) = q."""
    target = inst.attrs.custom_call_target
    if target == "Qr" and inst.shape.is_tuple and not inst.shape.is_dynamic:
        return _factor(inst, rw)
    if target == "ProductOfElementaryHouseholderReflectors" and inst.shape.is_array and not inst.shape.is_dynamic:
        return _product(inst, rw)
    return None


def _factor(inst: Instruction, rw: Rewrite) -> Instruction:
    rw.permit()
    b = Builder(rw)
    packed_shape, tau_shape = inst.shape.tuple_shapes
    et = packed_shape.element_type
    a = batched(b.val(inst.operands[0]).convert(compute_type(et)))
    count = min(a.dims[1:])
    taus = b.full(0, a.et, (a.dims[0], count))
    if count and a.dims[0]:
        a, taus = b.counted_loop(count, [a, taus], _reflect_column, "qr")
    return b.tuple([a.reshape(*packed_shape.dims).convert(et), taus.reshape(*tau_shape.dims).convert(et)]).inst


def _reflect_column(b: Builder, j: Val, values: list[Val]) -> list[Val]:
    """Column j: the reflector that zeroes it below the diagonal, applied to the columns behind it."""
    a, taus = values
    n = a.dims[0]
    x = column(a, j)
    i, at = b.iota(S32, x.dims, 1), j.broadcast(x.dims)
    below = i.gt(at)
    alpha = b.dynamic_slice(x, [0, j, 0], [n, 1, 1]).reshape(n)
    tail = b.select(below, x, 0)
    beta, tau, scale = _reflector(alpha, tail)
    v = b.select(below, tail * scale.broadcast(x.dims, [0]), b.select(i.eq(at), b.full(1, x.et, x.dims), 0))
    behind = b.iota(S32, a.dims, 2).gt(j.broadcast(a.dims))
    change = matmul(v * conj(tau).broadcast(x.dims, [0]), matmul(adjoint(v), a))
    reflected = b.select(behind, a - change, a)
    stored = b.select(below, v, b.select(i.eq(at), beta.broadcast(x.dims, [0]), x))
    return [b.update(reflected, stored, [0, 0, j]), b.update(taus, tau.reshape(n, 1), [0, j])]


def _reflector(alpha: Val, tail: Val) -> tuple[Val, Val, Val]:
    """(beta, tau, 1/(alpha - beta)) for each of [N] columns; tau is 0 where there is nothing to zero."""
    b, et = alpha.b, alpha.et
    largest = b.reduce(b.unary(ops.ABS, tail), 0.0, [1, 2], ops.MAXIMUM)
    size = b.maximum(largest, b.unary(ops.ABS, alpha))
    unit = b.select(size.gt(0), size, 1.0)
    # Scaled by the largest entry, the squares neither overflow nor vanish.
    scaled = b.unary(ops.ABS, tail) / unit.broadcast(tail.dims, [0])
    head = b.unary(ops.ABS, alpha) / unit
    norm = unit * b.unary(ops.SQRT, b.reduce(scaled * scaled, 0.0, [1, 2]) + head * head)
    first = real(alpha)
    beta = b.select(first.lt(0), norm, -norm)
    idle = largest.eq(0)
    if et.is_complex:
        idle = idle & b.unary(ops.IMAG, alpha).eq(0)
    beta = b.select(idle, first, beta).convert(et)
    divisor = b.select(idle, b.full(1, et, beta.dims), beta)
    tau = b.select(idle, b.full(0, et, beta.dims), (beta - alpha) / divisor)
    scale = b.full(1, et, beta.dims) / b.select(idle, b.full(1, et, beta.dims), alpha - beta)
    return beta, tau, scale


def _product(inst: Instruction, rw: Rewrite) -> Instruction:
    """H(0) H(1) ... applied to the identity, last first."""
    rw.permit()
    b = Builder(rw)
    et = inst.shape.element_type
    wide = compute_type(et)
    a = batched(b.val(inst.operands[0]).convert(wide))
    count = inst.operands[1].shape.dims[-1]
    n = a.dims[0]
    taus = b.val(inst.operands[1]).convert(wide).reshape(n, count)

    def body(b: Builder, step: Val, values: list[Val]) -> list[Val]:
        q, a, taus = values
        j = count - 1 - step
        x = column(a, j)
        i, at = b.iota(S32, x.dims, 1), j.broadcast(x.dims)
        v = b.select(i.gt(at), x, b.select(i.eq(at), b.full(1, x.et, x.dims), 0))
        tau = b.dynamic_slice(taus, [0, j], [n, 1]).reshape(n)
        return [q - matmul(v * tau.broadcast(x.dims, [0]), matmul(adjoint(v), q)), a, taus]

    q = identity(b, wide, (n, *inst.shape.dims[-2:]))
    if count and n:
        q = b.counted_loop(count, [q, a, taus], body, "householder")[0]
    return q.reshape(*inst.shape.dims).convert(et).inst
