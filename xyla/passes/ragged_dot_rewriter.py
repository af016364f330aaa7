"""ragged-dot as a dense dot and masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.hlo import ops
from xyla.hlo.attr_types import Window, WindowDim
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Expander, Number, Val
from xyla.passmgr.base import register
from xyla.passmgr.rules import Rewrite, Rule
from xyla.support.dtypes import S32, S64

# Dimension numbers of a dot: lhs batch, lhs contracting, rhs batch, rhs contracting.
_Numbers = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@register
@dataclass(frozen=True, slots=True)
class RaggedDotRewriter(Expander):
    """Computes a ragged dot densely and keeps what belongs to a group.

    Ragged rows: every row meets every group's right-hand side, and the own group's product is kept. Ragged contracted
    elements: a batch for each group, in which both sides are zero outside the group. Ragged batches: a dot of which the
    batches past the last group are zeroed. Source: XLA's RaggedDotRewriter, which for ragged rows zeroes the left side
    before the product, so that an infinity in one group's right-hand side spoils the rows of the others.

        ROOT r = f32[64,8] ragged-dot(f32[64,9] x, f32[2,9,8] y, s32[2] sizes), lhs_ragged_dims={0}, rhs_group_dims={0}
          ==>  d = f32[64,2,8] dot(x, y)
               ROOT r = f32[64,8] reduce(select(row in group, d, -0), -0), dimensions={1}
    """

    name: ClassVar[str] = "ragged-dot-rewriter"

    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The op and its rule."""
        return {ops.RAGGED_DOT: expand_ragged_dot}


def expand_ragged_dot(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """ragged-dot(x, y, sizes) = dot(x, y) where the groups are."""
    a = inst.attrs
    sizes = inst.operands[2].shape
    batches = len(a.lhs_batch_dims)
    ragged = a.lhs_ragged_dims[0]
    if inst.shape.is_dynamic or any(o.shape.is_dynamic for o in inst.operands):
        return None
    own = [inst.operands[0].shape.dims[d] for d in a.lhs_batch_dims]
    # Sizes are common to all batches, or every batch has its own; batches themselves have one list.
    if sizes.rank != 1 and (list(sizes.dims[:-1]) != own or ragged in a.lhs_batch_dims):
        return None
    rw.permit()
    b = Builder(rw)
    x, y, groups = b.vals(inst.operands)
    dot = _Dot(inst, x, y, _Groups(b, groups, x.dims[ragged], 0 if sizes.rank == 1 else batches))
    if ragged in a.lhs_batch_dims:
        return dot.ragged_batches().inst
    return (dot.ragged_contracting() if ragged in a.lhs_contracting_dims else dot.ragged_rows()).inst


class _Groups:
    """Where each group lies in the ragged dimension. `lead`: how many batch dimensions the sizes have."""

    def __init__(self, b: Builder, sizes: Val, extent: int, lead: int) -> None:
        self.b = b
        self.lead = lead
        self.extent = extent
        self.count = sizes.dims[-1]
        # Between 0 and the extent, so that no sum overflows.
        most = min(extent, (1 << (sizes.et.bits - sizes.et.is_signed)) - 1)
        inside = b.minimum(b.maximum(sizes, 0), most)
        self.sizes = inside.convert(S64 if self.count * extent >= 2**31 else S32)
        self.ends = self._running_sums(self.sizes)

    def _running_sums(self, x: Val) -> Val:
        n = self.count
        if n == 0:
            return x
        last = WindowDim(n, pad_low=n - 1)
        window = Window((*(WindowDim(1) for _ in range(self.lead)), last))
        called = [self.b.scalar_computation(ops.ADD, x.et)]
        return self.b.apply(ops.REDUCE_WINDOW, x, self.b.scalar(0, x.et), attrs=ops.WindowAttrs(window), called=called)

    def members(self) -> Val:
        """pred[batch..., ragged, group]: whether a position belongs to a group."""
        dims = (*self.sizes.dims[: self.lead], self.extent, self.count)
        at = self.b.iota(self.sizes.et, dims, self.lead)
        kept = [*range(self.lead), self.lead + 1]
        starts = self.ends - self.sizes
        return starts.broadcast(dims, kept).le(at) & at.lt(self.ends.broadcast(dims, kept))

    def used(self) -> Val:
        """pred[batch..., ragged]: whether a position belongs to any group."""
        dims = (*self.sizes.dims[: self.lead], self.extent)
        total = self.b.reduce(self.sizes, 0, [self.lead])
        return self.b.iota(self.sizes.et, dims, self.lead).lt(total.broadcast(dims, range(self.lead)))


@dataclass(frozen=True, slots=True)
class _Dot:
    inst: Instruction
    x: Val
    y: Val
    groups: _Groups

    def _dense(self, x: Val, y: Val, numbers: _Numbers) -> Val:
        """The dot in the result's element type."""
        lb, lc, rb, rc = numbers
        attrs = ops.DotAttrs(lb, lc, rb, rc, operand_precision=self.inst.attrs.operand_precision)
        plain = ops.DOT.infer([x.shape, y.shape], attrs, ()) if ops.DOT.infer else self.inst.shape
        shape = Shape.array(self.inst.shape.element_type, plain.dims)
        return x.b.apply(ops.DOT, x, y, attrs=attrs, shape=shape)

    def _numbers(self) -> _Numbers:
        a = self.inst.attrs
        return a.lhs_batch_dims, a.lhs_contracting_dims, a.rhs_batch_dims, a.rhs_contracting_dims

    def ragged_batches(self) -> Val:
        """A dot; batches past the groups are 0."""
        a = self.inst.attrs
        dense = self._dense(self.x, self.y, self._numbers())
        at = a.lhs_batch_dims.index(a.lhs_ragged_dims[0])
        return dense.b.select(self.groups.used().broadcast(dense.dims, [at]), dense, 0)

    def ragged_contracting(self) -> Val:
        """A leading batch for each group; what is not of the group is 0 on both sides."""
        a = self.inst.attrs
        ragged = a.lhs_ragged_dims[0]
        other = a.rhs_contracting_dims[a.lhs_contracting_dims.index(ragged)]
        x = self._by_group(self.x, a.lhs_batch_dims, ragged)
        y = self._by_group(self.y, a.rhs_batch_dims, other)
        lb, lc, rb, rc = (tuple(d + 1 for d in n) for n in self._numbers())
        return self._dense(x, y, ((0, *lb), lc, (0, *rb), rc))

    def _by_group(self, x: Val, batch: Sequence[int], ragged: int) -> Val:
        """[group, x...]: x where it is of the group, else 0."""
        g = self.groups
        dims = (g.count, *x.dims)
        where = [batch[i] + 1 for i in range(g.lead)]
        mask = g.members().broadcast(dims, [*where, ragged + 1, 0])
        return x.b.select(mask, x.broadcast(dims, range(1, len(dims))), 0)

    def ragged_rows(self) -> Val:
        """Every row with every group's right-hand side; adding -0 to the own group's product keeps it as it is."""
        a, g = self.inst.attrs, self.groups
        dense = self._dense(self.x, self.y, self._numbers())
        batches = len(a.lhs_batch_dims)
        left = _free(len(self.x.dims), a.lhs_batch_dims, a.lhs_contracting_dims)
        right = _free(len(self.y.dims), a.rhs_batch_dims, a.rhs_contracting_dims)
        row = batches + left.index(a.lhs_ragged_dims[0])
        group = batches + len(left) + right.index(a.rhs_group_dims[0])
        lead = list(range(g.lead))
        mask = g.members().broadcast(dense.dims, [*lead, row, group])
        nothing = _neutral(dense)
        own = dense.b.reduce(dense.b.select(mask, dense, nothing), nothing, [group])
        return dense.b.select(g.used().broadcast(own.dims, [*lead, row]), own, 0)


def _neutral(x: Val) -> Number:
    """What changes nothing when added: -0 for floats."""
    if x.et.is_complex:
        return complex(-0.0, -0.0)
    return -0.0 if x.et.is_float else 0


def _free(rank: int, *used: Sequence[int]) -> list[int]:
    return [d for d in range(rank) if not any(d in u for u in used)]
