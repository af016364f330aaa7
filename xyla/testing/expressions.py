"""Random element-wise expressions on awkward numbers: what tempts a simplifier into identities that do not hold.

    module, args = random_expression(seed=7, et=F16)

Half of the steps are shapes that simplifiers know (`(x * c) * d`, `sqrt(x * x)`, `log(exp x)`, ...), half are any op of
anything. Arguments and constants are zeros of both signs, infinities, NaN, the extreme, tiny and subnormal numbers of
the type; for integers the ends of the range, where arithmetic wraps. The same seed gives the same module everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Module
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Val
from xyla.support.dtypes import F16, F32, F64, PRED, S8, S32, ElementType

Array = np.ndarray[Any, np.dtype[Any]]

_FLOAT_UNARY = (
    ops.NEGATE, ops.ABS, ops.EXP, ops.LOG, ops.SQRT, ops.RSQRT, ops.CBRT, ops.SIGN, ops.FLOOR, ops.CEIL, ops.TANH,
    ops.LOGISTIC, ops.ERF, ops.EXPM1, ops.LOG1P, ops.ROUND_EVEN,
)  # fmt: skip
_FLOAT_BINARY = (
    ops.ADD, ops.SUBTRACT, ops.MULTIPLY, ops.DIVIDE, ops.MAXIMUM, ops.MINIMUM, ops.POWER, ops.REMAINDER,
)  # fmt: skip
_INTEGER_UNARY = (ops.NEGATE, ops.ABS, ops.SIGN, ops.NOT, ops.POPCNT, ops.CLZ)
_INTEGER_BINARY = (
    *_FLOAT_BINARY, ops.AND, ops.OR, ops.XOR, ops.SHIFT_LEFT, ops.SHIFT_RIGHT_LOGICAL, ops.SHIFT_RIGHT_ARITHMETIC,
)  # fmt: skip
_MONOTONE = (ops.CBRT, ops.ERF, ops.EXP, ops.LOGISTIC, ops.TANH, ops.CEIL, ops.FLOOR, ops.SQRT, ops.LOG)
_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


def awkward(et: ElementType) -> list[float] | list[int]:
    """The numbers of a type at which identities fail."""
    if et.is_integer:
        info: Any = np.iinfo(et.np)
        most, least = int(info.max), int(info.min)
        out = [0, 1, 2, 3, 4, 5, 7, 8, 16, most, most - 1, most // 2, most // 2 + 1]
        return out + ([-1, -2, -3, -4, -7, -8, least, least + 1, least // 2] if et.is_signed else [])
    finfo: Any = ml_dtypes.finfo(et.np)  # type: ignore[no-untyped-call]
    most_f, tiny, subnormal = float(finfo.max), float(finfo.smallest_normal), float(finfo.smallest_subnormal)
    root = most_f**0.5
    signed = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, most_f, most_f / 2, most_f / 3, tiny, tiny * 3, subnormal, root * 1.5]
    plain = [np.inf, np.nan, root * 0.9, tiny**0.5, tiny**0.5 / 8, subnormal * 5, 10.0, 88.0, -100.0, 1e-3, 1 / 3]
    return [*signed, *(-x for x in signed), *plain, -np.inf]


def random_expression(seed: int, et: ElementType, size: int = 6) -> tuple[Module, list[Array]]:
    """A module of about `size` steps over three vectors and a scalar of type `et`, and its arguments."""
    drawing = _Drawing(random.Random(f"xyla expression {seed} {et.name}"), et)
    for _ in range(size):
        drawing.step()
    module = drawing.b.module
    drawing.b.comp.set_root(drawing.values[-1].inst)
    module.set_entry(drawing.b.comp)
    return module, drawing.args


class _Drawing:
    """An expression being drawn."""

    def __init__(self, rng: random.Random, et: ElementType) -> None:
        self.rng, self.et = rng, et
        self.b = Builder(Module("expression").add_computation("main"))
        self.numbers = awkward(et)
        with np.errstate(all="ignore"):
            values = np.asarray(self.numbers).astype(et.np)
        self.args: list[Array] = []
        for _ in range(3):
            self.args.append(values[rng.sample(range(len(values)), len(values))])
        self.args.append(values[rng.randrange(len(values))].reshape(()))
        self.values = [self.b.parameter(Shape.array(et, a.shape)) for a in self.args]
        self.values[-1] = self.values[-1].broadcast(self.args[0].shape)

    # -- operands ------------------------------------------------------------------------------------------------

    def value(self) -> Val:
        """An earlier value; later ones are likelier."""
        return self.values[max(self.rng.randrange(len(self.values)) for _ in range(3))]

    def number(self) -> Val:
        """A constant in every element; ordinary ones are likelier."""
        ordinary = [0, 1, 2, 3, 4, 8] if self.et.is_integer else [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, 1e-3]
        return self.full(self.rng.choice(self.numbers if self.rng.random() < 0.5 else ordinary))

    def full(self, value: float) -> Val:
        """That constant in every element."""
        with np.errstate(all="ignore"):
            cast: Any = np.asarray(value).astype(self.et.np)[()]
        return self.b.full(cast, self.et, self.args[0].shape)

    def operand(self) -> Val:
        """A value or a constant."""
        return self.number() if self.rng.random() < 0.3 else self.value()

    def exponent(self) -> Val:
        """A constant that powers know."""
        known = (0, 1, 2, 3) if self.et.is_integer else (0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -2.0, 2.5)
        return self.full(self.rng.choice(known))

    def not_negative(self) -> Val:
        """A value that is never below zero, where squares do not wrap."""
        x = self.value()
        return self.unary(ops.ABS, x) if self.rng.random() < 0.6 else x * x

    def unary(self, op: OpDef[Any], x: Val) -> Val:
        """op(x)."""
        return self.b.unary(op, x)

    def test(self) -> Val:
        """A comparison."""
        return self.value().compare(self.rng.choice(_DIRECTIONS), self.operand())

    # -- steps ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Adds one value."""
        rng = self.rng
        if rng.random() < 0.6:
            tempting = _COMMON + (_INTEGER if self.et.is_integer else _FLOAT)
            self.values.append(rng.choice(tempting)(self, self.value(), self.value()))
            return
        makers = (self.any_unary, self.any_binary, self.any_binary, self.any_select, self.any_conversion)
        self.values.append(rng.choice(makers)())

    def any_unary(self) -> Val:
        """Any op of one operand."""
        return self.unary(self.rng.choice(_INTEGER_UNARY if self.et.is_integer else _FLOAT_UNARY), self.value())

    def any_binary(self) -> Val:
        """Any op of two operands, now and then the same twice."""
        op = self.rng.choice(_INTEGER_BINARY if self.et.is_integer else _FLOAT_BINARY)
        x = self.value()
        y = x if self.rng.random() < 0.15 else self.operand()
        return self.b.binary(op, x, y) if self.rng.random() < 0.7 else self.b.binary(op, y, x)

    def any_select(self) -> Val:
        """A select, a clamp, or logic of comparisons as a number."""
        kind = self.rng.randrange(3)
        if kind == 0:
            return self.b.select(self.test(), self.operand(), self.operand())
        if kind == 1:
            return self.b.apply(ops.CLAMP, self.operand(), self.value(), self.operand())
        op = self.rng.choice((ops.AND, ops.OR, ops.XOR))
        return self.b.binary(op, self.test(), self.test()).convert(self.et)

    def any_conversion(self) -> Val:
        """There and back."""
        through = self.rng.choice((S32, S8, PRED, F16, F32, F64))
        return self.value().convert(through).convert(self.et)


Tempting = Callable[[_Drawing, Val, Val], Val]

_COMMON: tuple[Tempting, ...] = (
    lambda d, x, y: (x * d.number()) * d.number(),
    lambda d, x, y: (x + d.number()) + d.number(),
    lambda d, x, y: (d.number() - x) + d.number(),
    lambda d, x, y: (x - d.number()) - d.number(),
    lambda d, x, y: x / d.number(),
    lambda d, x, y: (x * d.number()) / d.number(),
    lambda d, x, y: (x / y) / d.value(),
    lambda d, x, y: x / (y / d.value()),
    lambda d, x, y: x / x,
    lambda d, x, y: x - x,
    lambda d, x, y: x - (x - y),
    lambda d, x, y: (x - y) + y,
    lambda d, x, y: (x + y) - x,
    lambda d, x, y: (x * y) + (d.value() * y),
    lambda d, x, y: d.unary(ops.ABS, x * x),
    lambda d, x, y: d.b.binary(ops.POWER, x, d.exponent()),
    lambda d, x, y: d.b.binary(ops.POWER, d.not_negative(), d.exponent()),
    lambda d, x, y: d.b.binary(ops.POWER, d.b.binary(ops.POWER, x, d.exponent()), d.exponent()),
    lambda d, x, y: d.b.maximum(d.b.minimum(x, d.number()), d.number()),
    lambda d, x, y: d.b.minimum(d.b.maximum(x, d.number()), d.number()),
    lambda d, x, y: d.b.maximum(x, d.b.maximum(x, y)),
    lambda d, x, y: d.b.select(x.compare(d.rng.choice(_DIRECTIONS), y), x, y),
)
_FLOAT: tuple[Tempting, ...] = (
    lambda d, x, y: d.unary(ops.LOG, d.unary(ops.EXP, x)),
    lambda d, x, y: d.unary(ops.EXP, d.unary(ops.LOG, x)),
    lambda d, x, y: d.unary(ops.LOG, d.b.binary(ops.POWER, x, d.exponent())),
    lambda d, x, y: d.unary(ops.SQRT, x * x),
    lambda d, x, y: d.unary(ops.SQRT, d.unary(ops.ABS, x * x)),
    lambda d, x, y: _squared(d, ops.SQRT),
    lambda d, x, y: _squared(d, ops.RSQRT),
    lambda d, x, y: x / d.unary(ops.SQRT, y),
    lambda d, x, y: x / d.unary(ops.RSQRT, y),
    lambda d, x, y: x / d.unary(ops.EXP, y),
    lambda d, x, y: d.unary(ops.EXP, x) * d.unary(ops.EXP, y),
    lambda d, x, y: d.unary(ops.RSQRT, 1 / d.not_negative()),
    lambda d, x, y: _extremum_of_monotone(d, x, y),
)
_INTEGER: tuple[Tempting, ...] = (
    lambda d, x, y: x / d.full(1 << d.rng.randrange(d.et.bits - 1)),
    lambda d, x, y: x % d.full(1 << d.rng.randrange(d.et.bits - 1)),
    lambda d, x, y: (x % y) % y,
    lambda d, x, y: (x ^ y) ^ y,
    lambda d, x, y: x & (x | y),
    lambda d, x, y: (x >> d.number()) << d.number(),
    lambda d, x, y: x * d.test().convert(d.et),
    lambda d, x, y: (x.lt(d.number()) & x.gt(d.number())).convert(d.et),
    lambda d, x, y: (~x.compare(d.rng.choice(_DIRECTIONS), y)).convert(d.et),
)


def _squared(d: _Drawing, op: OpDef[Any]) -> Val:
    root = d.unary(op, d.not_negative())
    return root * root


def _extremum_of_monotone(d: _Drawing, x: Val, y: Val) -> Val:
    op = d.rng.choice(_MONOTONE)
    return d.b.binary(d.rng.choice((ops.MAXIMUM, ops.MINIMUM)), d.unary(op, x), d.unary(op, y))
