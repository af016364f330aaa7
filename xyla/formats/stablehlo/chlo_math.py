"""Writing formulas as HLO: `Num` wraps an instruction of one shape and overloads Python's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xyla.formats.stablehlo.body import Body
from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import NO_ATTRS, Attrs, OpDef
from xyla.hlo.shape import Shape
from xyla.support.dtypes import F32, F64, PRED, ElementType


class Num:
    """An array value in a formula. Numbers on either side of an operator become splats of its shape."""

    __slots__ = ("body", "inst")

    def __init__(self, body: Body, inst: Instruction) -> None:
        self.body = body
        self.inst = inst

    @property
    def shape(self) -> Shape:
        """The value's shape."""
        return self.inst.shape

    def like(self, value: float) -> Num:
        """`value` in every element of this shape."""
        return Num(self.body, self.body.splat(value, self.shape.without_layout()))

    def to(self, element_type: ElementType) -> Num:
        """This value converted to another element type."""
        shape = self.shape.without_layout().with_type(element_type)
        return self if self.shape.element_type is element_type else Num(self.body, self.body.convert(self.inst, shape))

    def bits(self, element_type: ElementType) -> Num:
        """This value's bits as another element type of the same width."""
        shape = self.shape.without_layout().with_type(element_type)
        return Num(self.body, self.body.add(ops.BITCAST_CONVERT, [self.inst], shape=shape))

    def unary(self, op: OpDef[Any]) -> Num:
        """An element-wise op of one operand; the shape is kept but for is-finite, which gives a pred."""
        attrs = ops.UnaryMathAttrs() if op.attrs is ops.UnaryMathAttrs else NO_ATTRS
        shape = self.shape.without_layout()
        return Num(self.body, self.body.add(op, [self.inst], attrs, shape=_inferred(op, shape, attrs)))

    def binary(self, op: OpDef[Any], other: Num | float) -> Num:
        """An element-wise op of two operands that keeps the shape."""
        right = other if isinstance(other, Num) else self.like(other)
        return Num(self.body, self.body.add(op, [self.inst, right.inst], shape=self.shape.without_layout()))

    def compare(self, direction: ComparisonDirection, other: Num | float) -> Num:
        """A pred array."""
        right = other if isinstance(other, Num) else self.like(other)
        shape = self.shape.without_layout().with_type(PRED)
        attrs = ops.CompareAttrs(direction)
        return Num(self.body, self.body.add(ops.COMPARE, [self.inst, right.inst], attrs, shape=shape))

    def select(self, on_true: Num | float, on_false: Num | float) -> Num:
        """Element by element: `on_true` where this pred holds. At least one side is a Num."""
        known = on_true if isinstance(on_true, Num) else on_false
        assert isinstance(known, Num)
        yes, no = (v if isinstance(v, Num) else known.like(v) for v in (on_true, on_false))
        operands = [self.inst, yes.inst, no.inst]
        return Num(self.body, self.body.add(ops.SELECT, operands, shape=known.shape.without_layout()))

    def __add__(self, other: Num | float) -> Num:
        return self.binary(ops.ADD, other)

    def __sub__(self, other: Num | float) -> Num:
        return self.binary(ops.SUBTRACT, other)

    def __mul__(self, other: Num | float) -> Num:
        return self.binary(ops.MULTIPLY, other)

    def __truediv__(self, other: Num | float) -> Num:
        return self.binary(ops.DIVIDE, other)

    def __and__(self, other: Num | float) -> Num:
        return self.binary(ops.AND, other)

    def __or__(self, other: Num | float) -> Num:
        return self.binary(ops.OR, other)

    def __radd__(self, other: float) -> Num:
        return self.like(other) + self

    def __rsub__(self, other: float) -> Num:
        return self.like(other) - self

    def __rmul__(self, other: float) -> Num:
        return self.like(other) * self

    def __rtruediv__(self, other: float) -> Num:
        return self.like(other) / self

    def __neg__(self) -> Num:
        return self.unary(ops.NEGATE)

    def __lt__(self, other: Num | float) -> Num:
        return self.compare(ComparisonDirection.LT, other)

    def __le__(self, other: Num | float) -> Num:
        return self.compare(ComparisonDirection.LE, other)

    def __gt__(self, other: Num | float) -> Num:
        return self.compare(ComparisonDirection.GT, other)

    def __ge__(self, other: Num | float) -> Num:
        return self.compare(ComparisonDirection.GE, other)

    def equals(self, other: Num | float) -> Num:
        """Element-wise ==."""
        return self.compare(ComparisonDirection.EQ, other)

    def differs(self, other: Num | float) -> Num:
        """Element-wise !=."""
        return self.compare(ComparisonDirection.NE, other)


def polynomial(x: Num, coefficients: Sequence[float]) -> Num:
    """Horner's rule; the highest power's coefficient comes first."""
    total = x.like(coefficients[0])
    for c in coefficients[1:]:
        total = total * x + c
    return total


def chebyshev(u: Num, coefficients: Sequence[float]) -> Num:
    """Clenshaw's recurrence for sum c[k] T_k(u), u in [-1, 1]."""
    twice, b1, b2 = u * 2.0, u.like(0.0), u.like(0.0)
    for c in reversed(coefficients[1:]):
        b1, b2 = twice * b1 - b2 + c, b1
    return u * b1 - b2 + coefficients[0]


def wide_type(element_type: ElementType) -> ElementType:
    """The type a special function is computed in, so that its result is good to the last bit but one."""
    return F64 if element_type in (F32, F64) else F32


def _inferred(op: OpDef[Any], shape: Shape, attrs: Attrs) -> Shape:
    assert op.infer is not None
    return op.infer([shape], attrs, ())
