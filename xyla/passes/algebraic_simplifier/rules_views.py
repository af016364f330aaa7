"""Reshape, transpose, bitcast, copy: the same elements seen otherwise."""

from __future__ import annotations

from dataclasses import replace

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.passes.algebraic_simplifier.common import (
    broadcast,
    dynamic,
    is_constant,
    is_elementwise,
    logical,
    physical,
    reshape,
    single_user,
    squeezed,
    transpose,
    when,
)
from xyla.passes.algebraic_simplifier.views import Atoms, chain, rearrangement, shortest
from xyla.passmgr.rules import Rewrite, rule_table


@dynamic
def reshape_same(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reshape(x) = x, where the shape is the same."""
    x = inst.operands[0]
    return x if x.shape is inst.shape or (x.shape.same_dims(inst.shape) and not x.shape.is_dynamic) else None


def reshape_reshape(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reshape(reshape(x)) = reshape(x)."""
    x = inst.operands[0]
    if x.op is not ops.RESHAPE:
        return None
    return x.operands[0] if x.operands[0].shape.same_dims(inst.shape) else reshape(rw, x.operands[0], inst.shape.dims)


def reshape_constant(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reshape(c) = c of the other shape."""
    x = inst.operands[0]
    if x.op is not ops.CONSTANT or x.attrs.literal.elided:
        return None
    shape = Shape.array(inst.shape.element_type, inst.shape.dims)
    return rw.constant(x.attrs.literal.with_shape(shape))


@logical
def reshape_broadcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reshape(broadcast(x)) = broadcast(x), where x is a scalar or only dimensions of size 1 come or go."""
    x = inst.operands[0]
    if x.op is not ops.BROADCAST:
        return None
    small = x.operands[0]
    if small.shape.is_scalar:
        return broadcast(rw, small, (), inst.shape)
    if squeezed(x.shape.dims) != squeezed(inst.shape.dims) or 1 in small.shape.dims:
        return None
    places = [d for d, n in enumerate(inst.shape.dims) if n != 1]
    rank = {d: i for i, d in enumerate(d for d, n in enumerate(x.shape.dims) if n != 1)}
    return broadcast(rw, small, [places[rank[d]] for d in x.attrs.dimensions], inst.shape)


@logical
def transpose_same(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """transpose(x) = x, for the identity permutation."""
    return inst.operands[0] if inst.attrs.dimensions == tuple(range(inst.shape.rank)) else None


@physical
def transpose_same_layout(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """transpose(x) = x, for the identity permutation and equal layouts."""
    x = inst.operands[0]
    return x if inst.attrs.dimensions == tuple(range(inst.shape.rank)) and x.shape is inst.shape else None


@logical
def transpose_transpose(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """transpose(transpose(x)) = transpose(x), the permutations composed."""
    x = inst.operands[0]
    if x.op is not ops.TRANSPOSE:
        return None
    return transpose(rw, x.operands[0], [x.attrs.dimensions[p] for p in inst.attrs.dimensions])


@logical
def transpose_broadcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """transpose(broadcast(x)) = broadcast(x) into the permuted dimensions (x transposed when its order changes)."""
    x = inst.operands[0]
    if x.op is not ops.BROADCAST:
        return None
    at = {p: i for i, p in enumerate(inst.attrs.dimensions)}
    return broadcast(rw, x.operands[0], [at[d] for d in x.attrs.dimensions], inst.shape)


@logical
def transpose_iota(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """transpose(iota) = iota along the moved dimension."""
    x = inst.operands[0]
    if x.op is not ops.IOTA:
        return None
    dim = inst.attrs.dimensions.index(x.attrs.iota_dimension)
    return rw.add(ops.IOTA, (), ops.IotaAttrs(dim), shape=Shape.array(inst.shape.element_type, inst.shape.dims))


@logical
@when("!enable_move_dot_param_to_rhs")
def transpose_dot(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """transpose(dot(x, y)) = dot(y, x), where the batch dimensions stay in front and the two sides change places."""
    x = inst.operands[0]
    if x.op is not ops.DOT or not single_user(x) or x.attrs.sparsity or len(x.operands) != 2:
        return None
    a = x.attrs
    batch = len(a.lhs_batch_dims)
    left = x.operands[0].shape.rank - batch - len(a.lhs_contracting_dims)
    right = inst.shape.rank - batch - left
    swapped = (*range(batch), *range(batch + left, batch + left + right), *range(batch, batch + left))
    if inst.attrs.dimensions != swapped:
        return None
    return rw.add(ops.DOT, [x.operands[1], x.operands[0]], _swapped_dot(a), shape=inst.shape.without_layout())


def _swapped_dot(a: ops.DotAttrs) -> ops.DotAttrs:
    return ops.DotAttrs(
        a.rhs_batch_dims, a.rhs_contracting_dims, a.lhs_batch_dims, a.lhs_contracting_dims,
        a.operand_precision[::-1], a.algorithm,
    )  # fmt: skip


@logical
@when("enable_hoist_transpose_of_reshape")
def view_chain(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """A chain of reshapes and transposes = the shortest chain that moves the elements alike."""
    if inst.operands[0].op not in (ops.RESHAPE, ops.TRANSPOSE) or inst.shape.is_dynamic or 0 in inst.shape.dims:
        return None
    source, links = chain(inst)
    if source.shape.dynamic or any(o.op in (ops.RESHAPE, ops.TRANSPOSE) and o.shape.dynamic for o in links):
        return None
    for start in range(len(links) - 1):
        part = links[start:]
        base = part[0].operands[0]
        atoms = rearrangement(base, part)
        if atoms is None:
            continue
        steps = shortest(base.shape.dims, inst.shape.dims, atoms)
        kept_links = sum(1 for link in part[:-1] if not single_user(link))
        if len(steps) + kept_links < len(part) or (len(steps) <= 1 and len(steps) < len(part)):
            return _build(base, steps, rw)
    return None


def _build(x: Instruction, steps: list[tuple[str, tuple[int, ...]]], rw: Rewrite) -> Instruction:
    for kind, value in steps:
        x = reshape(rw, x, value) if kind == "reshape" else transpose(rw, x, value)
    return x


# -- bitcast and copy ---------------------------------------------------------------------------------------------


def bitcast_same(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """bitcast(x) = x, where shape and layout are the same."""
    x = inst.operands[0]
    return x if x.shape.with_default_layouts() is inst.shape.with_default_layouts() else None


def bitcast_bitcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """bitcast(bitcast(x)) = bitcast(x), or x itself when its shape and layout return."""
    x = inst.operands[0]
    if x.op is not ops.BITCAST:
        return None
    source = x.operands[0]
    if source.shape.with_default_layouts() is inst.shape.with_default_layouts():
        return source
    return rw.add(ops.BITCAST, [source], inst.attrs, shape=inst.shape)


@physical
@when("replace_transpose_with_bitcast")
def transpose_to_bitcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """transpose(x) = bitcast(x), where the layouts make it move nothing."""
    x, y = inst.operands[0].shape, inst.shape
    if x.layout is None or y.layout is None or x.layout.tiles or y.layout.tiles or x.element_type is not y.element_type:
        return None
    moved = tuple(inst.attrs.dimensions[d] for d in y.layout.minor_to_major)
    order_x = [d for d in x.layout.minor_to_major if x.dims[d] != 1]
    if [d for d in moved if x.dims[d] != 1] != order_x or x.layout.memory_space != y.layout.memory_space:
        return None
    return rw.add(ops.BITCAST, inst.operands, ops.BitcastAttrs(), shape=inst.shape)


@physical
def reshape_to_bitcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reshape(x) = bitcast(x), where both are row-major but for dimensions of size 1."""
    x, y = inst.operands[0].shape, inst.shape
    if not (_row_major(x) and _row_major(y)) or x.element_type is not y.element_type:
        return None
    return rw.add(ops.BITCAST, inst.operands, ops.BitcastAttrs(), shape=inst.shape)


def _row_major(shape: Shape) -> bool:
    layout = shape.layout
    if layout is None or layout.tiles or layout.memory_space or layout.element_size_bits:
        return False
    order = [d for d in layout.minor_to_major if shape.dims[d] != 1]
    return order == sorted(order, reverse=True)


def copy_copy(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """copy(copy(x)) = copy(x)."""
    x = inst.operands[0]
    if x.op is not ops.COPY or _memory_space(x) != _memory_space(inst) or _memory_space(x.operands[0]):
        return None
    return rw.add(ops.COPY, [x.operands[0]], shape=inst.shape)


def _memory_space(inst: Instruction) -> int:
    return inst.shape.layout.memory_space if inst.shape.is_array and inst.shape.layout is not None else 0


def copy_same(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """copy(x) = x, where the layouts are the same (or do not matter yet)."""
    x = inst.operands[0]
    if _memory_space(x) != _memory_space(inst):
        return None
    return x


@physical
def copy_bitcast_copy(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """copy(bitcast(copy(x))) = bitcast(copy(x)), where the bitcast only splits or merges dimensions of x.

    The copy goes straight to the order of the result, and there is none where x has that order already.
    """
    middle = inst.operands[0]
    if middle.op is not ops.BITCAST or middle.operands[0].op is not ops.COPY:
        return None
    first = middle.operands[0]
    x = first.operands[0]
    shapes = (x.shape, first.shape, middle.shape, inst.shape)
    if any(s.layout is None or s.layout.memory_space for s in shapes):
        return None
    if len({s.layout.tiles for s in shapes if s.layout is not None}) != 1:
        return None
    atoms = _reinterpreted(first.shape, middle.shape)
    direct = None if atoms is None else _in_order(x.shape, atoms, _in_memory(atoms.current, inst.shape))
    if atoms is None or direct is None or not _minor_untouched(atoms, direct, inst.shape):
        return None
    if _in_memory(atoms.source, x.shape) == _in_memory(atoms.source, direct) and _minor_untouched(
        atoms, x.shape, inst.shape
    ):
        direct = x.shape
    if direct is not x.shape and not (single_user(middle) and single_user(first)):
        return None
    base = x if direct is x.shape else rw.add(ops.COPY, [x], shape=direct)
    return rw.add(ops.BITCAST, [base], ops.BitcastAttrs(), shape=inst.shape)


def _in_order(shape: Shape, atoms: Atoms, target: list[int]) -> Shape | None:
    """`shape` in the layout that has the atoms in the order `target`; None when a dimension would fall apart."""
    assert shape.layout is not None
    owner = {a: d for d, group in enumerate(atoms.source) for a in group}
    order: list[int] = [d for d, group in enumerate(atoms.source) if not group]  # those of size 1 go first
    i = 0
    while i < len(target):
        dim = owner[target[i]]
        group = atoms.source[dim]
        if target[i : i + len(group)] != group:
            return None
        order.append(dim)
        i += len(group)
    return shape.with_layout(replace(shape.layout, minor_to_major=tuple(order[::-1])))


def _reinterpreted(before: Shape, after: Shape) -> Atoms | None:
    """The atoms of a bitcast: the same memory seen with other dimensions."""
    assert before.layout is not None
    assert after.layout is not None
    atoms = Atoms.of(before.dims)
    atoms.transpose(before.layout.minor_to_major[::-1])
    major_to_minor = after.layout.minor_to_major[::-1]
    if not atoms.reshape([after.dims[d] for d in major_to_minor]):
        return None
    groups: list[list[int]] = [[] for _ in after.dims]
    for d, group in zip(major_to_minor, atoms.current, strict=True):
        groups[d] = group
    atoms.current = groups
    return atoms


def _in_memory(groups: list[list[int]], shape: Shape) -> list[int]:
    """The atoms in memory order, major first."""
    assert shape.layout is not None
    return [a for d in shape.layout.minor_to_major[::-1] for a in groups[d]]


def _minor_untouched(atoms: Atoms, before: Shape, after: Shape) -> bool:
    """Whether tiles (if any) cut the same: the most minor dimensions are whole on both sides.

    The outermost one that is tiled may differ in its major part, where the tile divides both.
    """
    assert before.layout is not None
    assert after.layout is not None
    if not before.layout.tiles:
        return True
    tile = before.layout.tiles[0]
    if any(len(t) > len(tile) for t in before.layout.tiles) or len(tile) > min(before.rank, after.rank):
        return False
    for i, size in enumerate(reversed(tile)):
        b, a = before.layout.minor_to_major[i], after.layout.minor_to_major[i]
        one, two = atoms.source[b], atoms.current[a]
        if one == two:
            continue
        short = min(len(one), len(two))
        outermost = i == len(tile) - 1 and short and one[-short:] == two[-short:]
        if not outermost or before.dims[b] % size or after.dims[a] % size:
            return False
    return True


@logical
def reverse_of_nothing(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reverse along dimensions of size 1 = x; they are left out of longer lists."""
    x = inst.operands[0]
    dims = tuple(d for d in inst.attrs.dimensions if x.shape.dims[d] != 1)
    if dims == inst.attrs.dimensions:
        return None
    return rw.add(ops.REVERSE, [x], ops.DimensionsAttrs(dims)) if dims else x


@logical
def reverse_reverse(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reverse(reverse(x)): along the dimensions that only one of them reverses."""
    x = inst.operands[0]
    if x.op is not ops.REVERSE:
        return None
    dims = tuple(sorted(set(inst.attrs.dimensions) ^ set(x.attrs.dimensions)))
    return rw.add(ops.REVERSE, [x.operands[0]], ops.DimensionsAttrs(dims)) if dims else x.operands[0]


@logical
def reverse_broadcast(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reverse(broadcast(x)) = broadcast(reverse(x)), along the dimensions that are x's; others are all alike."""
    x = inst.operands[0]
    if x.op is not ops.BROADCAST:
        return None
    own = tuple(i for i, d in enumerate(x.attrs.dimensions) if d in inst.attrs.dimensions)
    if not own:
        return x
    small = rw.add(ops.REVERSE, [x.operands[0]], ops.DimensionsAttrs(own))
    return broadcast(rw, small, x.attrs.dimensions, inst.shape)


@logical
def reverse_elementwise(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """reverse(x op c) = reverse(x) op c, for a constant splat c: reverses may then meet."""
    x = inst.operands[0]
    if not is_elementwise(x) or len(x.operands) != 2 or not single_user(x):
        return None
    for i in (0, 1):
        other = x.operands[1 - i]
        if other.op is ops.BROADCAST and other.operands[0].shape.is_scalar and is_constant(other):
            flipped = rw.add(ops.REVERSE, [x.operands[i]], inst.attrs)
            pair = [flipped, other] if i == 0 else [other, flipped]
            return rw.add(x.op, pair, x.attrs, shape=inst.shape)
    return None


TABLE = rule_table(
    ([ops.RESHAPE], (reshape_same, reshape_reshape, reshape_constant, reshape_broadcast, reshape_to_bitcast)),
    (
        [ops.TRANSPOSE],
        (
            transpose_same, transpose_same_layout, transpose_transpose, transpose_broadcast, transpose_iota,
            transpose_dot, transpose_to_bitcast,
        ),
    ),
    ([ops.RESHAPE, ops.TRANSPOSE], (view_chain,)),
    ([ops.BITCAST], (bitcast_same, bitcast_bitcast)),
    ([ops.COPY], (copy_copy, copy_same, copy_bitcast_copy)),
    ([ops.REVERSE], (reverse_of_nothing, reverse_reverse, reverse_broadcast, reverse_elementwise)),
)  # fmt: skip
