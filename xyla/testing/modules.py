"""Random well-typed modules: the same seed gives the same program, arguments and tolerances on every machine.

    program = random_program(seed=7, size=30)
    verify(program.module)
    for got, want, tol in zip(run_one(program), run_other(program), program.tolerances):
        assert close(got, want, tol)

What makes two right engines comparable is built in. Every value carries a `Fact`: whether all engines must agree on
each bit (integers, data movement, IEEE arithmetic in f32 and f64), how large it can be, and how far rounding errors
upstream may have been amplified. Discontinuous ops (compare, floor, sort, conversions to integers, indices) only
consume exact values; inexact floats stay small and are only combined by ops whose error stays bounded.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import NO_ATTRS, Attrs, OpDef
from xyla.hlo.ops.basic import ConstantAttrs, ParameterAttrs
from xyla.hlo.shape import Shape
from xyla.support.dtypes import BF16, C64, F16, F32, F64, PRED, S8, S32, S64, U8, U32, ElementType

# Types a program may use, likeliest first.
TYPES: tuple[ElementType, ...] = (F32, F32, F32, F32, S32, S32, S32, PRED, PRED, F64, BF16, F16, U32, S8, U8, S64, C64)
MAX_ELEMENTS = 256
# Inexact values beyond these are not used further.
MAX_BOUND, MAX_AMPLIFICATION = 1e4, 1e4
_EPSILON = {F32: 2.0**-23, F64: 2.0**-52, F16: 2.0**-10, BF16: 2.0**-7, C64: 2.0**-23}

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a value: bit-exact across engines; |x| <= bound; error in units of epsilon * (1 + bound)."""

    exact: bool = True
    bound: float = 8.0
    amplification: float = 0.0

    @property
    def usable(self) -> bool:
        """Whether further float arithmetic on it stays comparable."""
        return self.bound <= MAX_BOUND and self.amplification <= MAX_AMPLIFICATION


EXACT = Fact()


@dataclass(frozen=True, slots=True)
class Program:
    """A module, arguments for it, and for each flattened result the absolute tolerance (0: bit for bit)."""

    module: Module
    arguments: tuple[Array, ...]
    tolerances: tuple[float, ...]


class Builder:
    """Adds random instructions to one computation."""

    def __init__(self, comp: Computation, rng: random.Random, depth: int = 0) -> None:
        self.comp = comp
        self.rng = rng
        self.depth = depth
        self.values: list[Instruction] = []
        self.facts: dict[Instruction, Fact] = {}

    @property
    def module(self) -> Module:
        """The module being built."""
        return self.comp.module

    # -- values ------------------------------------------------------------------------------------------------

    def emit(
        self,
        op: OpDef[Any],
        operands: Sequence[Instruction] = (),
        attrs: Attrs = NO_ATTRS,
        *,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
        fact: Fact = EXACT,
    ) -> Instruction:
        """Adds an instruction whose array result joins the pool."""
        inst = self.comp.add(op, operands, attrs, called=called, shape=shape)
        self.facts[inst] = fact
        if inst.shape.is_array:
            self.values.append(inst)
        return inst

    def fact(self, inst: Instruction) -> Fact:
        """What is known of a value of this computation."""
        return self.facts[inst]

    def pick(self, accept: Callable[[Instruction], bool]) -> Instruction | None:
        """A value that `accept` likes, recent ones likelier; None if there is none."""
        found = [v for v in self.values if accept(v)]
        if not found:
            return None
        # The larger of two draws: chains grow deep instead of every op reading the parameters.
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    def pick_exact(self, accept: Callable[[Instruction], bool] = lambda v: True) -> Instruction | None:
        """As `pick`, only bit-exact values."""
        return self.pick(lambda v: self.facts[v].exact and accept(v))

    def constant(self, value: Array, element_type: ElementType) -> Instruction:
        """A constant; not in the pool (makers use it at once)."""
        literal = Literal.of(value, element_type)
        inst = self.comp.add(ops.CONSTANT, (), ConstantAttrs(literal), shape=literal.shape)
        self.facts[inst] = EXACT
        return inst

    def scalar(self, value: float, element_type: ElementType) -> Instruction:
        """A scalar constant."""
        return self.constant(np.asarray(value), element_type)

    def parameter(self, shape: Shape, fact: Fact = EXACT) -> Instruction:
        """The next parameter."""
        number = len(self.comp.parameters)
        return self.emit(ops.PARAMETER, (), ParameterAttrs(number), shape=shape, fact=fact)

    # -- shapes ------------------------------------------------------------------------------------------------

    def element_type(self) -> ElementType:
        """A random element type."""
        return self.rng.choice(TYPES)

    def dims(self, rank: int | None = None) -> tuple[int, ...]:
        """Random small dims; a zero now and then."""
        rank = self.rng.choice((0, 1, 1, 2, 2, 2, 3, 3)) if rank is None else rank
        dims = tuple(self.rng.choice((1, 2, 3, 4, 5, 7)) for _ in range(rank))
        return tuple(0 if self.rng.random() < 0.01 else d for d in dims)

    def permutation(self, count: int) -> tuple[int, ...]:
        """A random permutation of range(count)."""
        out = list(range(count))
        self.rng.shuffle(out)
        return tuple(out)

    def subset(self, count: int) -> tuple[int, ...]:
        """A random ascending subset of range(count)."""
        return tuple(i for i in range(count) if self.rng.random() < 0.5)


def random_array(shape: Shape, rng: random.Random) -> Array:
    """Values that exercise a type: floats on an eighth grid in [-4, 4], integers small with a few extremes."""
    et = shape.element_type
    count = shape.num_elements
    if et is PRED:
        flat: Any = [rng.random() < 0.5 for _ in range(count)]
    elif et.is_complex:
        flat = [complex(rng.randint(-16, 16) / 8, rng.randint(-16, 16) / 8) for _ in range(count)]
    elif et.is_float:
        flat = [rng.randint(-32, 32) / 8 for _ in range(count)]
    else:
        info: Any = ml_dtypes.iinfo(et.np)  # type: ignore[no-untyped-call]
        low = -8 if et.is_signed else 0
        flat = [rng.choice((info.min, info.max)) if rng.random() < 0.08 else rng.randint(low, 8) for _ in range(count)]
    return np.array(flat, dtype=et.np).reshape(shape.dims)


def random_program(seed: int, size: int = 25) -> Program:
    """A random program of about `size` instructions in its entry (callees come on top). Deterministic by `seed`."""
    from xyla.testing.module_ops import grow  # imports this module

    rng = random.Random(f"xyla module {seed}")
    module = Module(f"random_{seed}")
    comp = module.add_computation("main")
    builder = Builder(comp, rng)
    for _ in range(rng.randint(1, 4)):
        builder.parameter(Shape.array(builder.element_type(), builder.dims()))
    grow(builder, size)
    results = _results(builder)
    comp.set_root(comp.add(ops.TUPLE, results))
    module.set_entry(comp)
    arguments = tuple(random_array(p.shape, rng) for p in comp.parameters)
    return Program(module, arguments, tuple(_tolerance(builder, r) for r in results))


def random_module(seed: int, size: int = 25) -> Module:
    """The module of `random_program`."""
    return random_program(seed, size).module


def _results(builder: Builder) -> list[Instruction]:
    """Up to six results, unused values first: what nobody reads would be dead code."""
    live = [v for v in builder.values if builder.fact(v).usable or builder.fact(v).exact]
    unused = [v for v in live if not v.users]
    return (unused or live)[-6:] or builder.values[:1]


def _tolerance(builder: Builder, inst: Instruction) -> float:
    fact = builder.fact(inst)
    if fact.exact:
        return 0.0
    return _EPSILON[inst.shape.element_type] * (1 + fact.bound) * (4 + fact.amplification)
