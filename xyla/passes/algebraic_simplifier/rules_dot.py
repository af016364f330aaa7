"""Dots: to products, to reductions, and simpler dimension numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xyla.hlo import ops
from xyla.hlo.attr_types import DotAlgorithm, SliceDim
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.shape import Shape
from xyla.passes.algebraic_simplifier.common import (
    broadcast,
    convert,
    exactly,
    is_integral,
    kept,
    logical,
    reshape,
    single_user,
    slice_of,
    transpose,
    when,
)
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, rule_table
from xyla.support.dtypes import BF16, F16, F32, ElementType

# Algorithms that plain arithmetic in the operands' type satisfies: itself, or parts of it that approximate it.
_PLAIN = (
    DotAlgorithm.UNSET, DotAlgorithm.F32_F32_F32, DotAlgorithm.F64_F64_F64, DotAlgorithm.BF16_BF16_F32_X3,
    DotAlgorithm.BF16_BF16_F32_X6, DotAlgorithm.BF16_BF16_F32_X9, DotAlgorithm.TF32_TF32_F32_X3,
)  # fmt: skip


def free_dims(inst: Instruction, side: int) -> list[int]:
    """The dimensions of an operand of a dot that are neither batch dimensions nor contracted."""
    a = inst.attrs
    used = (*a.lhs_batch_dims, *a.lhs_contracting_dims) if side == 0 else (*a.rhs_batch_dims, *a.rhs_contracting_dims)
    return kept(inst.operands[side].shape.rank, used)


def ordinary(inst: Instruction) -> bool:
    """Whether a dot is sums of products in the operands' own precision."""
    return len(inst.operands) == 2 and not inst.attrs.sparsity and inst.attrs.algorithm in _PLAIN


def dot_empty(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(x, y) = 0, where an operand has no elements."""
    if all(o.shape.num_elements for o in inst.operands[:2]):
        return None
    return rw.splat(0, inst.shape)


def _spread(inst: Instruction, side: int, et: ElementType, rw: Rewrite) -> Instruction:
    """An operand over the dimensions (batch, lhs free, rhs free, contracting)."""
    a = inst.attrs
    x = convert(rw, inst.operands[side], et)
    batch, contracting = (
        (a.lhs_batch_dims, a.lhs_contracting_dims) if side == 0 else (a.rhs_batch_dims, a.rhs_contracting_dims)
    )
    free = free_dims(inst, side)
    offset = len(batch) + (0 if side == 0 else len(free_dims(inst, 0)))
    at = {d: i for i, d in enumerate(batch)}
    at |= {d: offset + i for i, d in enumerate(free)}
    at |= {d: inst.shape.rank + i for i, d in enumerate(contracting)}
    sizes = [inst.operands[0].shape.dims[d] for d in a.lhs_contracting_dims]
    full = Shape.array(et, (*inst.shape.dims, *sizes))
    order = sorted(range(x.shape.rank), key=lambda d: at[d])
    return broadcast(rw, transpose(rw, x, order), [at[d] for d in order], full)


@when("enable_dot_to_multiply_rewrite")
def dot_to_multiply(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(x, y) = broadcast(x) * broadcast(y) + 0, where nothing is contracted; the 0 is a float sum's start."""
    if not ordinary(inst) or inst.attrs.lhs_contracting_dims:
        return None
    et = inst.shape.element_type
    product = rw.binary(ops.MULTIPLY, _spread(inst, 0, et, rw), _spread(inst, 1, et, rw))
    return product if is_integral(inst) else rw.binary(ops.ADD, product, rw.splat(0, inst.shape))


@when("enable_dot_strength_reduction")
def dot_to_reduce(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(x, y) = reduce-add(x * y), where one side is a vector: it has batch and contracting dimensions only."""
    if not ordinary(inst) or not inst.attrs.lhs_contracting_dims or (free_dims(inst, 0) and free_dims(inst, 1)):
        return None
    et = inst.shape.element_type
    # Half types accumulate in f32, as the dot does; narrower ones stay dots.
    wide = F32 if et in (F16, BF16) else et
    if wide.bits < 32 and not is_integral(inst):
        return None
    product = rw.binary(ops.MULTIPLY, _spread(inst, 0, wide, rw), _spread(inst, 1, wide, rw))
    dims = tuple(range(inst.shape.rank, product.shape.rank))
    total = rw.add(ops.REDUCE, [product, rw.scalar(0, wide)], ops.ReduceAttrs(dims), called=[adder(rw, wide)])
    return convert(rw, total, et)


def adder(rw: Rewrite, et: ElementType) -> Computation:
    """A computation that adds two scalars, shared between the rewrites of a module."""
    module = rw.inst.module
    name = f"scalar_add_{et.name}"
    found = module.computations.get(name)
    if found is not None and found.root.op is ops.ADD and found.root.shape.element_type is et:
        return found
    comp = module.add_computation(name)
    scalar = Shape.array(et, ())
    args = [comp.add(ops.PARAMETER, (), ops.ParameterAttrs(i), shape=scalar, name=f"p{i}") for i in (0, 1)]
    comp.set_root(comp.add(ops.ADD, args))
    return comp


@logical
@when("supports_non_canonical_dots")
def dot_of_transposes(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(transpose(x), transpose(y)) = transpose(dot(x, y)), the dimension numbers mapped."""
    x, y = inst.operands[:2]
    if x.op is not ops.TRANSPOSE or y.op is not ops.TRANSPOSE or inst.attrs.sparsity:
        return None
    if not single_user(x) or not single_user(y):
        return None
    a, px, py = inst.attrs, x.attrs.dimensions, y.attrs.dimensions
    attrs = ops.DotAttrs(
        tuple(px[d] for d in a.lhs_batch_dims),
        tuple(px[d] for d in a.lhs_contracting_dims),
        tuple(py[d] for d in a.rhs_batch_dims),
        tuple(py[d] for d in a.rhs_contracting_dims),
        a.operand_precision,
        a.algorithm,
    )
    left = [px[d] for d in free_dims(inst, 0)]
    right = [py[d] for d in free_dims(inst, 1)]
    batch = len(a.lhs_batch_dims)
    order = [*range(batch), *(batch + r for r in _ranks(left)), *(batch + len(left) + r for r in _ranks(right))]
    dims = [0] * len(order)
    for result, position in enumerate(order):
        dims[position] = inst.shape.dims[result]
    shape = Shape.array(inst.shape.element_type, dims)
    return transpose(rw, rw.add(ops.DOT, [x.operands[0], y.operands[0]], attrs, shape=shape), order)


def _ranks(values: Sequence[int]) -> list[int]:
    ranked = sorted(values)
    return [ranked.index(v) for v in values]


@logical
@when("use_associative_reordering")
def dot_of_broadcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(broadcast(s), y) = broadcast(dot(broadcast(s), y)): added free dimensions are not multiplied out."""
    if not ordinary(inst):
        return None
    for side in (0, 1):
        x = inst.operands[side]
        if x.op is not ops.BROADCAST:
            continue
        added = [d for d in free_dims(inst, side) if d not in x.attrs.dimensions and x.shape.dims[d] > 1]
        if added:
            return _hoisted(inst, side, added, rw)
    return None


def _hoisted(inst: Instruction, side: int, added: list[int], rw: Rewrite) -> Instruction:
    """The dot without the dimensions `added` of one operand (a broadcast), broadcast over them."""
    x, a = inst.operands[side], inst.attrs
    own = kept(x.shape.rank, added)
    at = {d: i for i, d in enumerate(own)}
    inner = Shape.array(x.shape.element_type, [x.shape.dims[d] for d in own])
    small = broadcast(rw, x.operands[0], [at[d] for d in x.attrs.dimensions], inner)
    free = free_dims(inst, side)
    offset = len(a.lhs_batch_dims) + (len(free_dims(inst, 0)) if side else 0)
    gone = [offset + free.index(d) for d in added]
    places = kept(inst.shape.rank, gone)
    numbers = [a.lhs_batch_dims, a.lhs_contracting_dims, a.rhs_batch_dims, a.rhs_contracting_dims]
    for i in (2 * side, 2 * side + 1):
        numbers[i] = tuple(at[d] for d in numbers[i])
    attrs = ops.DotAttrs(numbers[0], numbers[1], numbers[2], numbers[3], a.operand_precision, a.algorithm)
    pair = [small, inst.operands[1]] if side == 0 else [inst.operands[0], small]
    shape = Shape.array(inst.shape.element_type, [inst.shape.dims[d] for d in places])
    return broadcast(rw, rw.add(ops.DOT, pair, attrs, shape=shape), places, inst.shape)


def _dot_of_pad(inst: Instruction, rw: Rewrite) -> Instruction | None:
    if not ordinary(inst):
        return None
    a = inst.attrs
    contracting = (a.lhs_contracting_dims, a.rhs_contracting_dims)
    for side in (0, 1):
        x = inst.operands[side]
        if x.op is not ops.PAD or not exactly(x.operands[1], 0) or not single_user(x):
            continue
        padding = x.attrs.padding
        if any(p.low < 0 or p.high < 0 or p.interior for p in padding):
            continue
        own = contracting[side]
        if all(padding[d].low == 0 and padding[d].high == 0 for d in own):
            continue
        ranges = [SliceDim(0, n) for n in inst.operands[1 - side].shape.dims]
        edges = list(padding)
        for d, other in zip(own, contracting[1 - side], strict=True):
            ranges[other] = SliceDim(padding[d].low, padding[d].low + x.operands[0].shape.dims[d])
            edges[d] = type(edges[d])(0, 0)
        short = slice_of(rw, inst.operands[1 - side], ranges)
        rest = x.operands[0]
        if any(p.low or p.high for p in edges):
            rest = rw.add(ops.PAD, [rest, x.operands[1]], ops.PadAttrs(tuple(edges)))
        pair = [rest, short] if side == 0 else [short, rest]
        return rw.add(ops.DOT, pair, a, shape=inst.shape.without_layout())
    return None


def dot_of_pad(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(pad(x, 0), y) = dot(x, slice(y)), where contracted dimensions are padded; integers."""
    return _dot_of_pad(inst, rw) if is_integral(inst) else None


@value_changing(Fp.FAST, "rows that met padding zeros are left out, infinities and NaNs in them too")
def dot_of_pad_fast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(pad(x, 0), y) = dot(x, slice(y)), where contracted dimensions are padded."""
    return _dot_of_pad(inst, rw)


@logical
@when("use_associative_reordering")
def dot_reorder_constant(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """dot(reshape(transpose(x)), c) = dot(reshape(x), c reordered), for a constant c contracted along one dimension."""
    if not ordinary(inst) or len(inst.attrs.lhs_contracting_dims) != 1 or inst.attrs.lhs_batch_dims:
        return None
    for side in (0, 1):
        view, c = inst.operands[side], inst.operands[1 - side]
        if c.op is not ops.CONSTANT or c.attrs.literal.elided or view.op is not ops.RESHAPE or not single_user(view):
            continue
        moved = view.operands[0]
        if moved.op is not ops.TRANSPOSE or not single_user(moved) or moved.shape.dynamic:
            continue
        new = _reordered(inst, side, view, moved, c, rw)
        if new is not None:
            return new
    return None


def _reordered(
    inst: Instruction, side: int, view: Instruction, moved: Instruction, c: Instruction, rw: Rewrite
) -> Instruction | None:
    a = inst.attrs
    dim = (a.lhs_contracting_dims, a.rhs_contracting_dims)[side][0]
    other = (a.lhs_contracting_dims, a.rhs_contracting_dims)[1 - side][0]
    perm, dims = moved.attrs.dimensions, moved.shape.dims
    group = _merged_group(dims, view.shape.dims, dim)
    if group is None:
        return None
    first, last = group
    inside = list(perm[first:last])
    outside = [p for i, p in enumerate(perm) if not first <= i < last]
    if sorted(inside) != list(range(first, last)) or outside != sorted(outside):
        return None
    sizes = dims[first:last]
    array = np.moveaxis(c.attrs.literal.array, other, 0)
    rest = array.shape[1:]
    # Axis k of the grouped constant belongs to source dimension inside[k]; put them in the source's order.
    order = sorted(range(len(inside)), key=lambda k: inside[k])
    grouped = array.reshape(*sizes, *rest).transpose(*order, *range(len(order), len(order) + len(rest)))
    constant = np.moveaxis(np.ascontiguousarray(grouped).reshape(array.shape), 0, other)
    literal = Literal.of(np.ascontiguousarray(constant), c.shape.element_type)
    pair = [reshape(rw, moved.operands[0], view.shape.dims), rw.constant(literal)]
    return rw.add(ops.DOT, pair if side == 0 else pair[::-1], a, shape=inst.shape.without_layout())


def _merged_group(before: Sequence[int], after: Sequence[int], dim: int) -> tuple[int, int] | None:
    """The range of dimensions of `before` that a reshape merges into dimension `dim` of `after`."""
    major = int(np.prod(after[:dim], dtype=np.int64))
    product, first = 1, 0
    while first < len(before) and product < major:
        product *= before[first]
        first += 1
    if product != major:
        return None
    last, inner = first, 1
    while last < len(before) and inner < after[dim]:
        inner *= before[last]
        last += 1
    return (first, last) if inner == after[dim] and last - first > 1 else None


TABLE = rule_table(
    (
        [ops.DOT],
        (
            dot_empty, dot_to_multiply, dot_to_reduce, dot_of_transposes, dot_of_broadcast, dot_of_pad,
            dot_of_pad_fast, dot_reorder_constant,
        ),
    ),
)  # fmt: skip
