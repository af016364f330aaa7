"""Sizes of dynamic dimensions as expressions: interned, so that equal sizes are one object."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.support.dtypes import S32

MOST = 2**31 - 1


class Kind(Enum):
    """What a size is."""

    CONSTANT = auto()  # `value`
    SCALAR = auto()  # the value of the s32 scalar `source`
    GIVEN = auto()  # what the dimension `dim` of part `index` of `source` has when the program runs
    ADD = auto()
    SUBTRACT = auto()
    MULTIPLY = auto()
    DIVIDE = auto()  # rounds down; neither part is negative
    MINIMUM = auto()
    MAXIMUM = auto()
    JOINT = auto()  # the second where the first is 1, else the first: an element-wise op that repeats a single position


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """One size; compare with `is`. low, high: bounds of its value. Make them with `Sizes`."""

    kind: Kind
    args: tuple[Size, ...] = ()
    value: int = 0
    source: Instruction | None = None
    index: tuple[int, ...] = ()
    dim: int = 0
    low: int = -MOST - 1
    high: int = MOST

    @property
    def constant(self) -> int | None:
        """The value, where it is known."""
        return self.value if self.kind is Kind.CONSTANT else None


@dataclass(slots=True)
class Sizes:
    """Makes sizes, and simplifies them by their bounds. `scalars`: what is known of s32 instructions."""

    _made: dict[Hashable, Size] = field(default_factory=dict)
    _scalars: dict[Instruction, Size] = field(default_factory=dict)

    def _intern(self, size: Size) -> Size:
        key = (size.kind, size.args, size.value, size.source, size.index, size.dim)
        return self._made.setdefault(key, size)

    def constant(self, value: int) -> Size:
        """A number."""
        return self._intern(Size(Kind.CONSTANT, value=value, low=value, high=value))

    def given(self, source: Instruction, index: tuple[int, ...], dim: int, bound: int) -> Size:
        """What a value brings along: between 0 and its bound."""
        return self._intern(Size(Kind.GIVEN, source=source, index=index, dim=dim, low=0, high=bound))

    def add(self, x: Size, y: Size) -> Size:
        """x + y."""
        if _fits(x, y, total := x.value + y.value):
            return self.constant(total)
        if y.constant == 0 or x.constant == 0:
            return x if y.constant == 0 else y
        return self._op(Kind.ADD, x, y, x.low + y.low, x.high + y.high)

    def subtract(self, x: Size, y: Size) -> Size:
        """x - y."""
        if _fits(x, y, rest := x.value - y.value):
            return self.constant(rest)
        return x if y.constant == 0 else self._op(Kind.SUBTRACT, x, y, x.low - y.high, x.high - y.low)

    def multiply(self, x: Size, y: Size) -> Size:
        """x y."""
        if _fits(x, y, product := x.value * y.value):
            return self.constant(product)
        if x.constant == 1 or y.constant == 1:
            return y if x.constant == 1 else x
        ends = [p * q for p in (x.low, x.high) for q in (y.low, y.high)]
        return self._op(Kind.MULTIPLY, x, y, min(ends), max(ends))

    def divide(self, x: Size, y: Size) -> Size:
        """x / y rounded down, of sizes that are not negative (y not 0)."""
        if x.constant is not None and y.constant:
            return self.constant(x.value // y.value)
        return x if y.constant == 1 else self._op(Kind.DIVIDE, x, y, 0, max(x.high, 0) // max(y.low, 1))

    def minimum(self, x: Size, y: Size) -> Size:
        """The smaller."""
        if x.high <= y.low or y.high <= x.low:
            return x if x.high <= y.low else y
        return self._op(Kind.MINIMUM, x, y, min(x.low, y.low), min(x.high, y.high))

    def maximum(self, x: Size, y: Size) -> Size:
        """The larger."""
        if x.low >= y.high or y.low >= x.high:
            return x if x.low >= y.high else y
        return self._op(Kind.MAXIMUM, x, y, max(x.low, y.low), max(x.high, y.high))

    def clamp(self, x: Size, bound: int) -> Size:
        """x between 0 and `bound`."""
        return self.minimum(self.maximum(x, self.constant(0)), self.constant(bound))

    def joint(self, x: Size, y: Size) -> Size:
        """y where x is 1, else x."""
        if x.constant is not None:
            return y if x.value == 1 else x
        return x if x is y else self._op(Kind.JOINT, x, y, min(x.low, y.low), max(x.high, y.high))

    def _op(self, kind: Kind, x: Size, y: Size, low: int, high: int) -> Size:
        # Past s32 the value wraps: nothing is known of it.
        wraps = low < -MOST - 1 or high > MOST
        return self._intern(Size(kind, (x, y), low=-MOST - 1 if wraps else low, high=MOST if wraps else high))

    # -- scalars ---------------------------------------------------------------------------------------------------

    def note(self, inst: Instruction, size: Size) -> None:
        """Says what the value of a scalar is."""
        self._scalars[inst] = size

    def scalar(self, inst: Instruction) -> Size:
        """The value of an s32 scalar: by how it is computed, as far as that is known. Asked operands first."""
        found = self._scalars.get(inst)
        if found is None:
            found = self._scalars[inst] = self._of_scalar(inst)
        return found

    def _of_scalar(self, inst: Instruction) -> Size:
        if inst.op is ops.CONSTANT and not inst.attrs.literal.elided and inst.shape.element_type is S32:
            return self.constant(int(inst.attrs.literal.first))
        op = _ARITHMETIC.get(inst.op)
        if op is not None and inst.shape.element_type is S32:
            known = [self._scalars.get(o) for o in inst.operands]
            if len(known) == 2 and known[0] is not None and known[1] is not None:
                return op(self, known[0], known[1])
        if inst.op in (ops.COPY, ops.RESHAPE) and inst.operands[0] in self._scalars:
            return self._scalars[inst.operands[0]]
        return self._intern(Size(Kind.SCALAR, source=inst))


def _fits(x: Size, y: Size, value: int) -> bool:
    """Whether both are numbers whose result is one, too."""
    return x.constant is not None and y.constant is not None and -MOST - 1 <= value <= MOST


_ARITHMETIC: dict[OpDef[Any], Callable[[Sizes, Size, Size], Size]] = {
    ops.ADD: Sizes.add,
    ops.SUBTRACT: Sizes.subtract,
    ops.MULTIPLY: Sizes.multiply,
    ops.MINIMUM: Sizes.minimum,
    ops.MAXIMUM: Sizes.maximum,
}
