"""Merging of dots that share an operand."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Val, non_fusion_computations
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import erase_dead

# Each round merges groups that lie in separate stretches of a computation; nested ones wait for the next.
_ROUNDS = 16
# Instructions that a round may look at for the dependencies of groups, by the computation's size.
_SCANS_EACH = 50


@register
@dataclass(frozen=True, slots=True)
class DotMerger(Pass):
    """Computes dots that share an operand as one dot, and slices that.

        x = f32[8,2] dot(a, f32[4,2] b)         z = f32[8,5] dot(a, concatenate(b, c))
        y = f32[8,3] dot(a, f32[4,3] c)   ==>   x = f32[8,2] slice(z), slice={[0:8], [0:2]}
                                                y = f32[8,3] slice(z), slice={[0:8], [2:5]}

    Dots are merged that do not depend on one another, contract the same dimensions of the shared operand, and agree in
    types, precision, algorithm and configuration. The shared operand may be transposed, reshaped by dimensions of size
    one, and on either side; the other operands are brought into one form by transposes and reshapes where they differ.
    At most one dot of each merger has operands and result of more than `max_size_to_merge` bytes in all: large ones
    gain nothing.
    """

    name: ClassVar[str] = "dot-merger"
    # A merged dot may share its operand with one that was too large to be merged with all of it.
    idempotent: ClassVar[bool] = False
    max_size_to_merge: int = 32 << 20

    def run(self, module: Module, ctx: PassContext) -> bool:
        """A bounded number of linear rounds in each computation."""
        changed = False
        for comp in non_fusion_computations(module):
            for _ in range(_ROUNDS):
                if not self._round(comp, ctx):
                    break
                changed = True
        return changed

    def _round(self, comp: Computation, ctx: PassContext) -> bool:
        order = comp.post_order()
        position = {inst: i for i, inst in enumerate(order)}
        found: list[tuple[int, int, list[_View]]] = []
        budget = _SCANS_EACH * len(order)
        for group in _groups(order):
            places = [position[view.dot] for view in group]
            budget -= places[-1] - places[0]
            if budget < 0:
                break
            for part in _independent(group, order[places[0] : places[-1] + 1]):
                chosen = self._chosen(part)
                if len(chosen) > 1:
                    found.append((position[chosen[-1].dot], position[chosen[0].dot], chosen))
        end, changed = -1, False
        # Separate stretches: then merging one group cannot make another's members depend on one another.
        for last, first, chosen in sorted(found, key=lambda f: f[:2]):
            if first <= end:
                continue
            if not ctx.permit("merge-dots", chosen[0].dot):
                return changed
            end, changed = last, True
            ctx.record(_merge(chosen))
        return changed

    def _chosen(self, part: Sequence[_View]) -> list[_View]:
        """All that are small, and the first that is not."""
        large = [view for view in part if _bytes(view.dot) > self.max_size_to_merge]
        return [view for view in part if view not in large[1:]]


@dataclass(frozen=True, slots=True)
class _View:
    """A dot seen from its operand `side`, whose dimensions are named by those of `base`, of which it is a transpose.

    Dimensions of size one are left out: they have no name, and count as free in the other operand. names: those of the
    shared operand's dimensions. batch, contracting: (shared name, the other operand's dimension).
    """

    dot: Instruction
    side: int
    base: Instruction
    names: tuple[int, ...]
    batch: tuple[tuple[int, int], ...]
    contracting: tuple[tuple[int, int], ...]

    @property
    def shared(self) -> Instruction:
        """The operand that other dots have too."""
        return self.dot.operands[self.side]

    @property
    def other(self) -> Instruction:
        """The operand that is this dot's own."""
        return self.dot.operands[1 - self.side]

    @property
    def free(self) -> list[int]:
        """The other operand's free dimensions."""
        used = {dim for _, dim in (*self.batch, *self.contracting)}
        return [d for d in range(self.other.shape.rank) if d not in used]

    def key(self) -> Hashable:
        """Equal for dots that may be merged if they are independent."""
        attrs = self.dot.attrs
        precision = attrs.operand_precision
        return (
            self.base,
            frozenset(name for name, _ in self.batch),
            frozenset(name for name, _ in self.contracting),
            self.other.shape.element_type,
            self.dot.shape.element_type,
            precision if self.side == 0 else precision[::-1],
            attrs.algorithm,
            self.dot.backend_config,
            self.dot.frontend_attributes,
        )


def _view(dot: Instruction, side: int) -> _View:
    shared = base = dot.operands[side]
    names = _long(base)
    while True:
        if base.op is ops.TRANSPOSE:
            names = [base.attrs.dimensions[n] for n in names]
        elif base.op is ops.RESHAPE and _sizes(base) == _sizes(base.operands[0]):
            inner = dict(zip(_long(base), _long(base.operands[0]), strict=True))
            names = [inner[n] for n in names]
        else:
            break
        base = base.operands[0]
    named = dict(zip(_long(shared), names, strict=True))
    a = dot.attrs
    batch, contracting = (a.lhs_batch_dims, a.rhs_batch_dims), (a.lhs_contracting_dims, a.rhs_contracting_dims)

    def pairs(dims: tuple[Sequence[int], Sequence[int]]) -> tuple[tuple[int, int], ...]:
        return tuple((named[s], o) for s, o in zip(dims[side], dims[1 - side], strict=True) if s in named)

    return _View(dot, side, base, tuple(names), pairs(batch), pairs(contracting))


def _long(inst: Instruction) -> list[int]:
    """Dimensions of another size than one."""
    return [i for i, d in enumerate(inst.shape.dims) if d != 1]


def _sizes(inst: Instruction) -> list[int]:
    return [d for d in inst.shape.dims if d != 1]


def _groups(order: Iterable[Instruction]) -> list[list[_View]]:
    """Views of dots with equal keys, in order; at least two different dots each."""
    groups: dict[Hashable, dict[Instruction, _View]] = {}
    for inst in order:
        if inst.op is ops.DOT and _mergeable(inst):
            for side in (0, 1):
                view = _view(inst, side)
                groups.setdefault(view.key(), {}).setdefault(inst, view)
    return [list(group.values()) for group in groups.values() if len(group) > 1]


def _mergeable(dot: Instruction) -> bool:
    if dot.control_predecessors or dot.control_successors or dot.attrs.sparsity or dot.sharding:
        return False
    layout = dot.shape.layout
    if layout is not None and not layout.is_default:
        return False
    return not any(s.is_dynamic or not s.num_elements for s in (dot.shape, *(o.shape for o in dot.operands)))


def _independent(group: Sequence[_View], stretch: Iterable[Instruction]) -> list[list[_View]]:
    """The members by how many members lie on the longest path to each: those of a part do not depend on one another.

    stretch: the instructions from the first member to the last.
    """
    members = {view.dot: view for view in group}
    depth: dict[Instruction, int] = {}
    parts: dict[int, list[_View]] = {}
    for inst in stretch:
        below = max((depth.get(o, 0) for o in (*inst.operands, *inst.control_predecessors)), default=0)
        if inst in members:
            parts.setdefault(below, []).append(members[inst])
            below += 1
        depth[inst] = below
    return list(parts.values())


def _bytes(dot: Instruction) -> int:
    return dot.shape.num_bytes + sum(o.shape.num_bytes for o in dot.operands)


# -- building ----------------------------------------------------------------------------------------------------------

# A dimension of an operand or a result: ("shared", name) or ("own", dimension of the other operand).
_Role = tuple[str, int]
_FREE: _Role = ("own", -1)


def _merge(views: Sequence[_View]) -> Instruction:
    """Replaces the dots by slices of one; returns that one."""
    first = views[0]
    comp = first.dot.parent
    b = Builder(comp, like=first.dot)
    form = _form(first)
    parts = [_in_form(b.val(view.other), view, form) for view in views]
    whole = b.concat(parts, form.index(_FREE))
    product, roles = _product(b, first, whole, form)
    start, dim = 0, roles.index(_FREE)
    for view, part in zip(views, parts, strict=True):
        size = part.dims[form.index(_FREE)]
        piece = product.slice_dim(dim, start, start + size)
        start += size
        rewriter.replace(view.dot, _as_result(piece, view, roles).inst)
        erase_dead([view.shared, view.other])
    return product.inst


def _form(view: _View) -> list[_Role]:
    """The order of an other operand's dimensions by what they stand for, its free ones as one."""
    named: Mapping[int, int] = {dim: name for name, dim in (*view.batch, *view.contracting)}
    form: list[_Role] = []
    for dim in range(view.other.shape.rank):
        role = ("shared", named[dim]) if dim in named else _FREE
        if role not in form:
            form.append(role)
    return form if _FREE in form else [*form, _FREE]


def _in_form(other: Val, view: _View, form: Sequence[_Role]) -> Val:
    dims = {name: dim for name, dim in (*view.batch, *view.contracting)}
    order: list[int] = []
    sizes: list[int] = []
    for role in form:
        here = view.free if role == _FREE else [dims[role[1]]]
        order += here
        sizes.append(math.prod(other.dims[d] for d in here))
    return other.transpose(*order).reshape(*sizes)


def _product(b: Builder, first: _View, whole: Val, form: Sequence[_Role]) -> tuple[Val, list[_Role]]:
    """(the one dot, what its dimensions stand for)."""
    shared = b.val(first.shared).reshape(*_sizes(first.shared))

    def numbers(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        mine = tuple(first.names.index(name) for name, _ in pairs)
        its = tuple(form.index(("shared", name)) for name, _ in pairs)
        return (mine, its) if first.side == 0 else (its, mine)

    (left_batch, right_batch), (left, right) = numbers(first.batch), numbers(first.contracting)
    attrs = replace(
        first.dot.attrs,
        lhs_batch_dims=left_batch,
        rhs_batch_dims=right_batch,
        lhs_contracting_dims=left,
        rhs_contracting_dims=right,
    )
    roles = _result_roles(first, [_FREE])
    sizes = {("shared", name): size for name, size in zip(first.names, shared.dims, strict=True)}
    sizes[_FREE] = whole.dims[form.index(_FREE)]
    shape = Shape.array(first.dot.shape.element_type, [sizes[r] for r in roles])
    operands = (shared, whole) if first.side == 0 else (whole, shared)
    return b.apply(ops.DOT, *operands, attrs=attrs, shape=shape), roles


def _result_roles(view: _View, own: Sequence[_Role]) -> list[_Role]:
    """What the dimensions of a dot's result stand for: batch, left, right."""
    taken = {name for name, _ in (*view.batch, *view.contracting)}
    rest: list[_Role] = [("shared", name) for name in view.names if name not in taken]
    batch: list[_Role] = [("shared", name) for name, _ in view.batch]
    return [*batch, *rest, *own] if view.side == 0 else [*batch, *own, *rest]


def _as_result(piece: Val, view: _View, roles: Sequence[_Role]) -> Val:
    """A slice of the one dot in the form of the dot it stands for."""
    free: list[_Role] = [("own", d) for d in view.free]
    at = roles.index(_FREE)
    split = [*roles[:at], *free, *roles[at + 1 :]]
    dims = [*piece.dims[:at], *(view.other.shape.dims[d] for d in view.free), *piece.dims[at + 1 :]]
    target = _result_roles(view, free)
    return piece.reshape(*dims).transpose(*(split.index(role) for role in target)).reshape(*view.dot.shape.dims)
