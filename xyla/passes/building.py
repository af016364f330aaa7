"""Expression-style construction for passes that write whole expressions, loops and small computations.

    b = Builder(rw)                       # beside the instruction being rewritten
    x = b.val(inst.operands[0])
    y = b.select(x.lt(0), 1 - x, x * x)   # Python numbers and scalars broadcast

Within loops and branches the same calls build inside the new computation. Ask `rw.permit()` before the first one:
computations are not taken back when a rule gives up.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xyla.hlo import ops, rewriter
from xyla.hlo.attr_types import ComparisonDirection, ComparisonType, PaddingDim, SliceDim
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import NO_ATTRS, Attrs, OpDef
from xyla.hlo.shape import Shape
from xyla.passmgr.base import Pass
from xyla.passmgr.context import PassContext
from xyla.passmgr.marks import fp_allows, mark_of
from xyla.passmgr.rules import NotPermitted, Rewrite, Rule, has_effect
from xyla.support.dtypes import PRED, S32, ElementType

Number = bool | int | float | complex | np.generic
Operand = "Val | Number"


@dataclass(frozen=True, slots=True)
class Expander(Pass):
    """A pass that replaces each instruction of some ops, once, by others: subclasses say by which rule."""

    @abstractmethod
    def rules(self) -> Mapping[OpDef[Any], Rule]:
        """The rule of each op that is expanded."""

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Each instruction once: linear in the module's size."""
        return expand(module, ctx, self.rules())


def expand(module: Module, ctx: PassContext, table: Mapping[OpDef[Any], Rule]) -> bool:
    """Applies each op's rule once to every instruction of that op, outside fusion bodies; returns whether any changed.

    A rule is `rule(inst, rw) -> replacement | None`, as for `run_rules`; what it builds is not looked at again.
    Collectives and side-effecting calls may be replaced too.
    """
    changed = False
    for comp in non_fusion_computations(module):
        for inst in [i for i in comp.post_order() if i.op in table]:
            if ctx.control.stopped:
                return changed
            changed |= expand_one(inst, ctx, table[inst.op])
    return changed


def expand_one(inst: Instruction, ctx: PassContext, rule: Rule) -> bool:
    """Tries `rule` at `inst` and puts its result in place; returns whether it did."""
    mark = mark_of(rule)
    if mark is not None and not fp_allows(ctx.fp, mark.least):
        return False
    rw = Rewrite(ctx, rule.__name__, inst)
    try:
        new = rule(inst, rw)
        if new is None or new is inst:
            rw.abandon()
            return False
        rw.permit()
    except NotPermitted:
        return False
    rewriter.replace(inst, new)
    for made in reversed(rw.made):
        if not made.users and not made.is_root and not has_effect(made):
            rewriter.erase(made)
    ctx.record(new)
    return True


def non_fusion_computations(module: Module) -> list[Computation]:
    """The computations that no fusion calls, in storage order."""
    return [c for c in module.computations.values() if not any(i.op is ops.FUSION for i in c.callers)]


class Val:
    """An instruction with arithmetic. Operands of rank 0 and Python numbers broadcast to the other side's shape."""

    __slots__ = ("b", "inst")

    def __init__(self, builder: Builder, inst: Instruction) -> None:
        self.b = builder
        self.inst = inst

    @property
    def shape(self) -> Shape:
        """Its shape."""
        return self.inst.shape

    @property
    def dims(self) -> tuple[int, ...]:
        """Its dimensions."""
        return self.inst.shape.dims

    @property
    def et(self) -> ElementType:
        """Its element type."""
        return self.inst.shape.element_type

    def __add__(self, other: Val | Number) -> Val:
        return self.b.binary(ops.ADD, self, other)

    def __radd__(self, other: Number) -> Val:
        return self.b.binary(ops.ADD, other, self)

    def __sub__(self, other: Val | Number) -> Val:
        return self.b.binary(ops.SUBTRACT, self, other)

    def __rsub__(self, other: Number) -> Val:
        return self.b.binary(ops.SUBTRACT, other, self)

    def __mul__(self, other: Val | Number) -> Val:
        return self.b.binary(ops.MULTIPLY, self, other)

    def __rmul__(self, other: Number) -> Val:
        return self.b.binary(ops.MULTIPLY, other, self)

    def __truediv__(self, other: Val | Number) -> Val:
        return self.b.binary(ops.DIVIDE, self, other)

    def __rtruediv__(self, other: Number) -> Val:
        return self.b.binary(ops.DIVIDE, other, self)

    def __mod__(self, other: Val | Number) -> Val:
        return self.b.binary(ops.REMAINDER, self, other)

    def __and__(self, other: Val | Number) -> Val:
        return self.b.binary(ops.AND, self, other)

    def __or__(self, other: Val | Number) -> Val:
        return self.b.binary(ops.OR, self, other)

    def __xor__(self, other: Val | Number) -> Val:
        return self.b.binary(ops.XOR, self, other)

    def __lshift__(self, other: Val | Number) -> Val:
        return self.b.binary(ops.SHIFT_LEFT, self, other)

    def __rshift__(self, other: Val | Number) -> Val:
        """Logical."""
        return self.b.binary(ops.SHIFT_RIGHT_LOGICAL, self, other)

    def __neg__(self) -> Val:
        return self.b.unary(ops.NEGATE, self)

    def __invert__(self) -> Val:
        return self.b.unary(ops.NOT, self)

    def compare(self, direction: str, other: Val | Number, kind: ComparisonType | None = None) -> Val:
        """pred: `self direction other`."""
        x, y = self.b.broadcast_together(self, other)
        return self.b.apply(ops.COMPARE, x, y, attrs=ops.CompareAttrs(ComparisonDirection(direction), kind))

    def eq(self, other: Val | Number) -> Val:
        """Equal."""
        return self.compare("EQ", other)

    def ne(self, other: Val | Number) -> Val:
        """Not equal."""
        return self.compare("NE", other)

    def lt(self, other: Val | Number) -> Val:
        """Less."""
        return self.compare("LT", other)

    def le(self, other: Val | Number) -> Val:
        """Less or equal."""
        return self.compare("LE", other)

    def gt(self, other: Val | Number) -> Val:
        """Greater."""
        return self.compare("GT", other)

    def ge(self, other: Val | Number) -> Val:
        """Greater or equal."""
        return self.compare("GE", other)

    def convert(self, to: ElementType) -> Val:
        """Converted to another element type; itself when it has it."""
        if self.et is to:
            return self
        return self.b.apply(ops.CONVERT, self, shape=self.shape.without_layout().with_type(to))

    def bitcast(self, to: ElementType) -> Val:
        """The same bits as another element type of equal width."""
        if self.et is to:
            return self
        return self.b.apply(ops.BITCAST_CONVERT, self, shape=self.shape.without_layout().with_type(to))

    def reshape(self, *dims: int) -> Val:
        """The same elements under other dimensions; itself when nothing changes."""
        if self.dims == dims and not self.shape.dynamic:
            return self
        return self.b.apply(ops.RESHAPE, self, attrs=ops.ReshapeAttrs(), shape=Shape.array(self.et, dims))

    def broadcast(self, dims: Sequence[int], mapping: Sequence[int] = ()) -> Val:
        """Broadcast to `dims`; own dimension i becomes result dimension mapping[i]."""
        if tuple(dims) == self.dims and tuple(mapping) == tuple(range(len(self.dims))):
            return self
        attrs = ops.DimensionsAttrs(tuple(mapping))
        return self.b.apply(ops.BROADCAST, self, attrs=attrs, shape=Shape.array(self.et, dims))

    def transpose(self, *order: int) -> Val:
        """Result dimension i is own dimension order[i]; itself for the identity."""
        if order == tuple(range(len(self.dims))):
            return self
        return self.b.apply(ops.TRANSPOSE, self, attrs=ops.DimensionsAttrs(order))

    def slice(self, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None) -> Val:
        """[start:limit:stride] in every dimension; itself when that is all of it."""
        steps = list(strides) if strides is not None else [1] * len(starts)
        if all(s == 0 for s in starts) and tuple(limits) == self.dims and all(s == 1 for s in steps):
            return self
        what = tuple(SliceDim(a, z, s) for a, z, s in zip(starts, limits, steps, strict=True))
        return self.b.apply(ops.SLICE, self, attrs=ops.SliceAttrs(what))

    def slice_dim(self, dim: int, start: int, limit: int, stride: int = 1) -> Val:
        """[start:limit:stride] of one dimension."""
        starts, limits, steps = [0] * len(self.dims), list(self.dims), [1] * len(self.dims)
        starts[dim], limits[dim], steps[dim] = start, limit, stride
        return self.slice(starts, limits, steps)

    def element(self, index: int) -> Val:
        """get-tuple-element."""
        return self.b.apply(ops.GET_TUPLE_ELEMENT, self, attrs=ops.IndexAttrs(index))


class Builder:
    """Adds instructions beside one that is being rewritten, or to a new computation."""

    def __init__(self, target: Rewrite | Computation, like: Instruction | None = None) -> None:
        self._target = target
        self.like = target.inst if isinstance(target, Rewrite) else like
        self.comp = target.inst.parent if isinstance(target, Rewrite) else target
        self.module = self.comp.module
        self._scalar_computations: dict[tuple[OpDef[Any], ElementType], Computation] = {}

    # -- leaves --------------------------------------------------------------------------------------------------

    def val(self, inst: Instruction) -> Val:
        """An existing instruction of this computation."""
        return Val(self, inst)

    def vals(self, insts: Iterable[Instruction]) -> list[Val]:
        """Existing instructions."""
        return [Val(self, i) for i in insts]

    def apply(
        self,
        op: OpDef[Any],
        *operands: Val,
        attrs: Attrs = NO_ATTRS,
        shape: Shape | None = None,
        called: Sequence[Computation] = (),
    ) -> Val:
        """Any op; the shape is inferred where the op can."""
        insts = [o.inst for o in operands]
        if isinstance(self._target, Rewrite):
            return Val(self, self._target.add(op, insts, attrs, shape=shape, called=called))
        new = rewriter.create(self._target, op, insts, attrs, shape=shape, called=called, like=self.like)
        new.sharding = ""
        return Val(self, new)

    def literal(self, literal: Literal) -> Val:
        """A constant."""
        return self.apply(ops.CONSTANT, attrs=ops.ConstantAttrs(literal), shape=literal.shape)

    def array(self, value: Any, et: ElementType) -> Val:
        """A constant array."""
        return self.literal(Literal.of(np.asarray(value), et))

    def scalar(self, value: Number, et: ElementType) -> Val:
        """A rank-0 constant."""
        return self.literal(Literal.scalar(value, et))

    def full(self, value: Number, et: ElementType, dims: Sequence[int]) -> Val:
        """`value` everywhere."""
        scalar = self.scalar(value, et)
        return scalar.broadcast(dims) if dims else scalar

    def iota(self, et: ElementType, dims: Sequence[int], dim: int) -> Val:
        """Counts along `dim`."""
        return self.apply(ops.IOTA, attrs=ops.IotaAttrs(dim), shape=Shape.array(et, dims))

    def parameter(self, shape: Shape) -> Val:
        """The next parameter of a new computation."""
        number = len(self.comp.parameters)
        inst = self.comp.add(ops.PARAMETER, (), ops.ParameterAttrs(number), shape=shape, name=f"p{number}")
        return Val(self, inst)

    # -- element-wise --------------------------------------------------------------------------------------------

    def broadcast_together(self, x: Val | Number, y: Val | Number) -> tuple[Val, Val]:
        """Both with one shape: numbers take the other's type, rank 0 is broadcast."""
        if not isinstance(x, Val):
            assert isinstance(y, Val)
            x = self.full(x, y.et, y.dims)
        if not isinstance(y, Val):
            y = self.full(y, x.et, x.dims)
        if x.dims and not y.dims:
            y = y.broadcast(x.dims)
        elif y.dims and not x.dims:
            x = x.broadcast(y.dims)
        return x, y

    def binary(self, op: OpDef[Any], x: Val | Number, y: Val | Number) -> Val:
        """An element-wise op of two operands."""
        return self.apply(op, *self.broadcast_together(x, y))

    def unary(self, op: OpDef[Any], x: Val) -> Val:
        """An element-wise op of one operand."""
        return self.apply(op, x, attrs=ops.UnaryMathAttrs() if op.attrs is ops.UnaryMathAttrs else NO_ATTRS)

    def maximum(self, x: Val | Number, y: Val | Number) -> Val:
        """The larger."""
        return self.binary(ops.MAXIMUM, x, y)

    def minimum(self, x: Val | Number, y: Val | Number) -> Val:
        """The smaller."""
        return self.binary(ops.MINIMUM, x, y)

    def shift_arithmetic(self, x: Val, y: Val | Number) -> Val:
        """Right, copies of the sign coming in."""
        return self.binary(ops.SHIFT_RIGHT_ARITHMETIC, x, y)

    def select(self, pred: Val, x: Val | Number, y: Val | Number) -> Val:
        """x where pred, else y. A rank-0 pred is broadcast."""
        x, y = self.broadcast_together(x, y)
        if pred.dims and not x.dims:
            x, y = x.broadcast(pred.dims), y.broadcast(pred.dims)
        if x.dims and not pred.dims:
            pred = pred.broadcast(x.dims)
        return self.apply(ops.SELECT, pred, x, y)

    # -- movement ------------------------------------------------------------------------------------------------

    def concat(self, parts: Sequence[Val], dim: int) -> Val:
        """Joined along `dim`; a single part is itself."""
        if len(parts) == 1:
            return parts[0]
        return self.apply(ops.CONCATENATE, *parts, attrs=ops.DimensionAttrs(dim))

    def pad(self, x: Val, value: Val | Number, padding: Sequence[tuple[int, int] | tuple[int, int, int]]) -> Val:
        """(low, high[, interior]) in each dimension; itself when all are zero."""
        if not any(any(p) for p in padding):
            return x
        fill = value if isinstance(value, Val) else self.scalar(value, x.et)
        return self.apply(ops.PAD, x, fill, attrs=ops.PadAttrs(tuple(PaddingDim(*p) for p in padding)))

    def _starts(self, starts: Sequence[Val | int]) -> list[Val]:
        et = next((s.et for s in starts if isinstance(s, Val)), S32)
        return [s if isinstance(s, Val) else self.scalar(s, et) for s in starts]

    def dynamic_slice(self, x: Val, starts: Sequence[Val | int], sizes: Sequence[int]) -> Val:
        """The window of `sizes` at `starts` (clamped)."""
        return self.apply(ops.DYNAMIC_SLICE, x, *self._starts(starts), attrs=ops.DynamicSliceAttrs(tuple(sizes)))

    def update(self, x: Val, update: Val, starts: Sequence[Val | int]) -> Val:
        """dynamic-update-slice."""
        return self.apply(ops.DYNAMIC_UPDATE_SLICE, x, update, *self._starts(starts))

    # -- contraction and reduction -------------------------------------------------------------------------------

    def scalar_computation(self, op: OpDef[Any], et: ElementType) -> Computation:
        """(x, y) -> op(x, y) on scalars; made once for each builder."""
        found = self._scalar_computations.get((op, et))
        if found is None:
            inner = Builder(self.module.add_computation(f"{op.name}_{et}".replace("-", "_")))
            x, y = inner.parameter(Shape.array(et, ())), inner.parameter(Shape.array(et, ()))
            found = inner.finish(inner.apply(op, x, y))
            self._scalar_computations[op, et] = found
        return found

    def reduce(self, x: Val, init: Val | Number, dims: Sequence[int], op: OpDef[Any] = ops.ADD) -> Val:
        """Reduced over `dims` with a scalar op."""
        start = init if isinstance(init, Val) else self.scalar(init, x.et)
        called = [self.scalar_computation(op, x.et)]
        return self.apply(ops.REDUCE, x, start, attrs=ops.ReduceAttrs(tuple(dims)), called=called)

    def dot(self, x: Val, y: Val, contract: tuple[Sequence[int], Sequence[int]], batch: int = 0, **attrs: Any) -> Val:
        """Contracts x's dims with y's; the first `batch` dimensions of both are batch dimensions."""
        lead = tuple(range(batch))
        numbers = ops.DotAttrs(lead, tuple(contract[0]), lead, tuple(contract[1]), **attrs)
        return self.apply(ops.DOT, x, y, attrs=numbers)

    # -- structure -----------------------------------------------------------------------------------------------

    def tuple(self, parts: Sequence[Val]) -> Val:
        """A tuple."""
        return self.apply(ops.TUPLE, *parts)

    def finish(self, root: Val) -> Computation:
        """Makes `root` the root of the computation being built, and drops what it does not need."""
        self.comp.set_root(root.inst)
        needed = self.comp.reachable_from_root()
        for inst in reversed(list(self.comp.instructions)):
            if inst not in needed and inst.op is not ops.PARAMETER and not inst.users:
                rewriter.erase(inst)
        return self.comp

    def inner(self, name: str) -> Builder:
        """A builder of a new computation of the module."""
        return Builder(self.module.add_computation(name), self.like)

    def _region(self, name: str, shape: Shape, fn: Callable[[Builder, list[Val]], Val]) -> Computation:
        inner = self.inner(name)
        p = inner.parameter(shape)
        return inner.finish(fn(inner, [p.element(i) for i in range(len(shape.tuple_shapes))]))

    def while_loop(
        self,
        init: Sequence[Val],
        condition: Callable[[Builder, list[Val]], Val],
        body: Callable[[Builder, list[Val]], Sequence[Val]],
        name: str = "loop",
    ) -> list[Val]:
        """Carries a list of values. `condition` and `body` build in their own computations; no values are captured."""
        # What the body computes has no layout, so the carried tuple has none either.
        plain = Shape.tuple_of(v.shape.without_layout() for v in init)
        start = self.apply(ops.TUPLE, *init, shape=plain)
        cond = self._region(f"{name}_condition", start.shape, condition)
        step = self._region(f"{name}_body", start.shape, lambda b, vs: b.tuple(list(body(b, vs))))
        end = self.apply(ops.WHILE, start, called=[cond, step])
        return [end.element(i) for i in range(len(init))]

    def counted_loop(
        self,
        count: int,
        init: Sequence[Val],
        body: Callable[[Builder, Val, list[Val]], Sequence[Val]],
        name: str = "loop",
        start: int = 0,
    ) -> list[Val]:
        """body(b, i, values) for i = start .. count-1 (s32); returns the values."""

        def step(b: Builder, values: list[Val]) -> list[Val]:
            return [values[0] + 1, *body(b, values[0], values[1:])]

        end = self.while_loop([self.scalar(start, S32), *init], lambda b, vs: vs[0].lt(count), step, name)
        return end[1:]

    def conditional(
        self,
        pred: Val,
        args: Sequence[Val],
        then: Callable[[Builder, list[Val]], Sequence[Val]],
        otherwise: Callable[[Builder, list[Val]], Sequence[Val]],
        name: str = "branch",
    ) -> list[Val]:
        """Both branches get all of `args`."""
        packed = self.tuple(list(args))
        comps = [
            self._region(f"{name}_{which}", packed.shape, lambda b, vs, fn=fn: b.tuple(list(fn(b, vs))))  # type: ignore[misc]
            for which, fn in (("true", then), ("false", otherwise))
        ]
        end = self.apply(ops.CONDITIONAL, pred.convert(PRED), packed, packed, called=comps)
        return [end.element(i) for i in range(len(end.shape.tuple_shapes))]
