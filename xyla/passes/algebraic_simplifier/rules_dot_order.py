"""Dots: their dimensions of size 1, and the order of products and operands."""

from __future__ import annotations

from collections.abc import Sequence

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.passes.algebraic_simplifier.common import (
    is_constant,
    is_integral,
    logical,
    reshape,
    single_user,
    transpose,
    when,
)
from xyla.passes.algebraic_simplifier.rules_dot import free_dims, ordinary
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, rule_table


@logical
def dot_drops_ones(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(x, y) = reshape(dot(reshape(x), reshape(y))), dimensions of size 1 dropped."""
    x, y = inst.operands[:2]
    if len(inst.operands) != 2 or inst.attrs.sparsity or not (1 in x.shape.dims or 1 in y.shape.dims):
        return None
    a = inst.attrs
    left, (left_batch, left_sum) = _without_ones(rw, x, a.lhs_batch_dims, a.lhs_contracting_dims)
    right, (right_batch, right_sum) = _without_ones(rw, y, a.rhs_batch_dims, a.rhs_contracting_dims)
    attrs = ops.DotAttrs(left_batch, left_sum, right_batch, right_sum, a.operand_precision, a.algorithm)
    shape = Shape.array(inst.shape.element_type, [n for n in inst.shape.dims if n != 1])
    return reshape(rw, rw.add(ops.DOT, [left, right], attrs, shape=shape), inst.shape.dims)


def _without_ones(
    rw: Rewrite, x: Instruction, *numbers: Sequence[int]
) -> tuple[Instruction, tuple[tuple[int, ...], ...]]:
    """x without its dimensions of size 1, and lists of its dimensions renumbered."""
    own = [d for d, n in enumerate(x.shape.dims) if n != 1]
    at = {d: i for i, d in enumerate(own)}
    small = reshape(rw, x, [x.shape.dims[d] for d in own])
    return small, tuple(tuple(at[d] for d in dims if d in at) for dims in numbers)


# -- three factors ------------------------------------------------------------------------------------------------


def _is_plain(dot: Instruction) -> bool:
    """Whether a dot is [batch..., m, k] x [batch..., k, n], all of one type."""
    if dot.op is not ops.DOT or not ordinary(dot):
        return False
    a, (x, y) = dot.attrs, dot.operands
    lead = tuple(range(len(a.lhs_batch_dims)))
    if a.lhs_batch_dims != lead or a.rhs_batch_dims != lead or {x.shape.rank, y.shape.rank} != {len(lead) + 2}:
        return False
    same = x.shape.element_type is y.shape.element_type is dot.shape.element_type
    return same and a.lhs_contracting_dims == (len(lead) + 1,) and a.rhs_contracting_dims == (len(lead),)


def _reassociated(inst: Instruction, rw: Rewrite) -> Instruction | None:
    if not _is_plain(inst):
        return None
    x, y = inst.operands
    if _is_plain(x) and single_user(x):
        (p, q), r, left = x.operands, y, True
    elif _is_plain(y) and single_user(y):
        p, (q, r), left = x, y.operands, False
    else:
        return None
    # p is [m, k], q is [k, j], r is [j, n]; multiplications of (p q) r and of p (q r).
    (m, k), (j, n) = p.shape.dims[-2:], r.shape.dims[-2:]
    from_left, from_right = m * k * j + m * j * n, k * j * n + m * k * n
    if left and from_right < from_left:
        pair = [p, rw.add(ops.DOT, [q, r], inst.attrs)]
    elif not left and from_left < from_right:
        pair = [rw.add(ops.DOT, [p, q], inst.attrs), r]
    else:
        return None
    return rw.add(ops.DOT, pair, inst.attrs, shape=inst.shape.without_layout())


@when("use_associative_reordering")
def dot_of_dot(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(dot(x, y), z) = dot(x, dot(y, z)), and back, where that takes fewer products; for integers."""
    return _reassociated(inst, rw) if is_integral(inst) else None


@value_changing(Fp.FAST, "the other two of three matrices are multiplied first, which overflows elsewhere")
@when("use_associative_reordering")
def dot_of_dot_fast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(dot(x, y), z) = dot(x, dot(y, z)), and back, where that takes fewer products."""
    return _reassociated(inst, rw)


# -- operands -----------------------------------------------------------------------------------------------------


_VIEWS = (ops.CONVERT, ops.RESHAPE, ops.TRANSPOSE, ops.BITCAST, ops.COPY, ops.BROADCAST, ops.SLICE)


def _is_weight(inst: Instruction) -> bool:
    """Whether a value is a parameter or a constant, seen otherwise."""
    while inst.op in _VIEWS:
        inst = inst.operands[0]
    return inst.op is ops.PARAMETER or is_constant(inst)


@logical
@when("enable_move_dot_param_to_rhs")
def dot_weight_to_the_right(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(w, x) = transpose(dot(x, w)), for a parameter or constant w and an x that is computed."""
    if len(inst.operands) != 2 or inst.attrs.sparsity:
        return None
    w, x = inst.operands
    if not _is_weight(w) or _is_weight(x):
        return None
    a = inst.attrs
    attrs = ops.DotAttrs(
        a.rhs_batch_dims,
        a.rhs_contracting_dims,
        a.lhs_batch_dims,
        a.lhs_contracting_dims,
        a.operand_precision[::-1],
        a.algorithm,
    )
    batch, left, right = len(a.lhs_batch_dims), len(free_dims(inst, 0)), len(free_dims(inst, 1))
    order = [*range(batch), *range(batch + right, batch + right + left), *range(batch, batch + right)]
    dims = _permuted_back(inst.shape.dims, order)
    swapped = rw.add(ops.DOT, [x, w], attrs, shape=Shape.array(inst.shape.element_type, dims))
    return transpose(rw, swapped, order)


def _permuted_back(dims: Sequence[int], order: Sequence[int]) -> list[int]:
    """The dimensions that a transpose by `order` takes to `dims`."""
    out = [0] * len(dims)
    for result, source in enumerate(order):
        out[source] = dims[result]
    return out


TABLE = rule_table(([ops.DOT], (dot_drops_ones, dot_of_dot, dot_of_dot_fast, dot_weight_to_the_right)))
