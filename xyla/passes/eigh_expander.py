"""Eigenvalues of Hermitian matrices by parallel Jacobi rotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Expander, Val
from xyla.passes.linear_algebra import adjoint, batched, compute_type, conj, identity, real, triangle
from xyla.passmgr.base import register
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import S32


@register
@dataclass(frozen=True, slots=True)
class EighExpander(Expander):
    """Expands the custom call `Eigh` into Jacobi sweeps: n/2 disjoint rotations at a time, n-1 rounds a sweep.

    backend_config: "lower,sort,max_iter,tolerance". Sweeps end when the off-diagonal's norm is below tolerance times
    the matrix's, or after max_iter. Eigenvalues come in ascending order. Source: Brent and Luk, "The solution of
    singular-value and symmetric eigenvalue problems on multiprocessor arrays" (1985).

        ROOT e = (f32[n,n], f32[n]) custom-call(a), custom_call_target="Eigh", backend_config="1,1,100,1e-6"
          ==>  while (off(a) > tolerance): for n-1 rounds: rotate the pairs, then rearrange them
    """

    name: ClassVar[str] = "eigh-expander"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.CUSTOM_CALL: expand_eigh}


@value_changing(Fp.DEFAULT, "eigenvalues and vectors are accurate to the tolerance asked for")
def expand_eigh(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """Eigh(a) = (v, w) with a v = v diag(w)."""
    if inst.attrs.custom_call_target != "Eigh" or not inst.shape.is_tuple or inst.shape.is_dynamic:
        return None
    rw.permit()
    b = Builder(rw)
    lower, sweeps, tolerance = _options(inst)
    vectors, values = inst.shape.tuple_shapes
    et, size = vectors.element_type, vectors.dims[-1]
    a = batched(b.val(inst.operands[0]).convert(compute_type(et)))
    if not vectors.num_elements:
        return b.tuple([b.full(0, et, vectors.dims), b.full(0, values.element_type, values.dims)]).inst
    a = _hermitian(a, lower)
    even = size + size % 2
    a = b.pad(a, 0, [(0, 0), (0, even - size), (0, even - size)])
    v = identity(b, a.et, a.dims)
    if size > 1:
        a, v = _sweeps(a, v, sweeps, tolerance)
    w = _diagonal(a).slice_dim(1, 0, size)
    w, v = _sorted(w, v.slice_dim(1, 0, size).slice_dim(2, 0, size))
    return b.tuple([v.reshape(*vectors.dims).convert(et), w.reshape(*values.dims).convert(values.element_type)]).inst


def _options(inst: Instruction) -> tuple[bool, int, float]:
    """(lower, sweeps, tolerance) from the text of backend_config."""
    words = [w.strip() for w in inst.backend_config.strip('"{}').split(",")]
    lower = words[0] != "0"
    sweeps = int(words[2]) if len(words) > 2 and words[2].isdigit() else 100
    try:
        tolerance = float(words[3]) if len(words) > 3 else 1e-6
    except ValueError:
        tolerance = 1e-6
    return lower, sweeps, tolerance


def _hermitian(a: Val, lower: bool) -> Val:
    """Both triangles from one; the diagonal is real."""
    b = a.b
    inside = triangle(b, a.dims, lower=lower, strict=True)
    other = triangle(b, a.dims, lower=not lower, strict=True)
    return b.select(inside, a, b.select(other, adjoint(a), real(a).convert(a.et)))


def _diagonal(a: Val) -> Val:
    """[N, n], real."""
    b = a.b
    on = b.iota(S32, a.dims, 1).eq(b.iota(S32, a.dims, 2))
    return b.reduce(b.select(on, real(a), 0), 0.0, [2])


def _norms(a: Val) -> tuple[Val, Val]:
    """(squared norm of the off-diagonal, of the whole), the largest of each over the batch relative to its size."""
    b = a.b
    magnitude = b.unary(ops.ABS, a)
    square = magnitude * magnitude
    off = b.select(b.iota(S32, a.dims, 1).ne(b.iota(S32, a.dims, 2)), square, 0)
    return b.reduce(off, 0.0, [1, 2]), b.reduce(square, 0.0, [1, 2])


def _sweeps(a: Val, v: Val, most: int, tolerance: float) -> tuple[Val, Val]:
    b, rounds = a.b, a.dims[1] - 1

    def condition(b: Builder, values: list[Val]) -> Val:
        off, whole = _norms(values[1])
        unfinished = b.reduce(off.gt(whole * (tolerance * tolerance)), False, [0], ops.OR)
        return values[0].lt(most) & unfinished

    def sweep(b: Builder, values: list[Val]) -> list[Val]:
        a, v = b.counted_loop(rounds, values[1:], _round, "jacobi_round")
        return [values[0] + 1, a, v]

    _, a, v = b.while_loop([b.scalar(0, S32), a, v], condition, sweep, "jacobi")
    return a, v


def _round(b: Builder, i: Val, values: list[Val]) -> list[Val]:
    """Annihilates the elements (k, k + n/2), then deals the indices anew (the first one stays)."""
    a, v = values
    half = a.dims[1] // 2
    c, s = _rotations(a, half)
    a = _rotate_columns(a, c, s, half)
    # Rows turn as the columns of the adjoint do.
    a = adjoint(_rotate_columns(adjoint(a), c, s, half))
    v = _rotate_columns(v, c, s, half)
    return [_deal(_deal(a, 1), 2), _deal(v, 2)]


def _rotations(a: Val, half: int) -> tuple[Val, Val]:
    """[N, n/2] real cosines, and sines with the phase of the element that they annihilate."""
    b = a.b
    corner = a.slice_dim(1, 0, half).slice_dim(2, half, 2 * half)
    on = b.iota(S32, corner.dims, 1).eq(b.iota(S32, corner.dims, 2))
    pq = b.reduce(b.select(on, corner, 0), 0.0, [2])
    diagonal = _diagonal(a)
    pp, qq = diagonal.slice_dim(1, 0, half), diagonal.slice_dim(1, half, 2 * half)
    size = b.unary(ops.ABS, pq)
    idle = size.eq(0)
    safe = b.select(idle, b.full(1, size.et, size.dims), size)
    tau = (qq - pp) / (safe * 2.0)
    t = b.select(tau.lt(0), -1.0, b.full(1, tau.et, tau.dims)) / (
        b.unary(ops.ABS, tau) + b.unary(ops.SQRT, tau * tau + 1.0)
    )
    t = b.select(idle, b.full(0, t.et, t.dims), t)
    c = b.unary(ops.RSQRT, t * t + 1.0)
    phase = pq / safe.convert(pq.et)
    return c.convert(a.et), (t * c).convert(a.et) * phase


def _rotate_columns(x: Val, c: Val, s: Val, half: int) -> Val:
    """x [[c, s], [-conj(s), c]] on the column pairs (k, k + n/2)."""
    p, q = x.slice_dim(2, 0, half), x.slice_dim(2, half, 2 * half)
    c, s = c.broadcast(p.dims, [0, 2]), s.broadcast(p.dims, [0, 2])
    return x.b.concat([c * p - conj(s) * q, s * p + c * q], 2)


def _deal(x: Val, dim: int) -> Val:
    """The next round of a round-robin: all but the first index move on one place around the two halves."""
    b, half = x.b, x.dims[dim] // 2
    if half == 1:
        return x
    top, bottom = x.slice_dim(dim, 0, half), x.slice_dim(dim, half, 2 * half)
    parts = [top.slice_dim(dim, 0, 1), bottom.slice_dim(dim, 0, 1)]
    if half > 2:
        parts.append(top.slice_dim(dim, 1, half - 1))
    return b.concat([*parts, bottom.slice_dim(dim, 1, half), top.slice_dim(dim, half - 1, half)], dim)


def _sorted(w: Val, v: Val) -> tuple[Val, Val]:
    """Eigenvalues ascending, the columns of v with them."""
    b = w.b
    inner = b.inner("ascending")
    x, y = inner.parameter(Shape.array(w.et, ())), inner.parameter(Shape.array(w.et, ()))
    for _ in range(2):
        inner.parameter(Shape.array(v.et, ()))
    comparator = inner.finish(x.lt(y))
    keys = w.broadcast(v.dims, [0, 2])
    new = b.apply(ops.SORT, keys, v, attrs=ops.SortAttrs(2, is_stable=True), called=[comparator])
    first = new.element(0).slice_dim(1, 0, 1).reshape(*w.dims)
    return first, new.element(1)
