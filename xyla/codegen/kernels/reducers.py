"""Reducers as code: which are known monoids, in what type they accumulate, how they are applied to element values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xyla.codegen.elements import ELEMENT, Site, convert, element_constant
from xyla.codegen.llvm import Value
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef
from xyla.support import dtypes
from xyla.support.dtypes import ElementType

if TYPE_CHECKING:
    from xyla.codegen.fused import Emitter

MONOIDS: frozenset[OpDef[Any]] = frozenset((ops.ADD, ops.MULTIPLY, ops.MAXIMUM, ops.MINIMUM, ops.AND, ops.OR, ops.XOR))

# Up to this many elements a float sum or product is exactly the sequential one.
SHORT = 32


def behind_calls(comp: Computation) -> Computation:
    """The computation behind wrappers that only call it with their own parameters in order."""
    while comp.root.op in (ops.CALL, ops.FUSION) and list(comp.root.operands) == comp.parameters:
        comp = comp.root.called[0]
    return comp


def monoid_of(comp: Computation) -> OpDef[Any] | None:
    """The op, when a two-parameter computation is one associative and commutative op of its parameters."""
    comp = behind_calls(comp)
    root, params = comp.root, comp.parameters
    if root.op not in MONOIDS or len(params) != 2 or set(root.operands) != set(params):
        return None
    et = root.shape.element_type
    return root.op if all(p.shape.element_type is et for p in params) else None


@dataclass(frozen=True, slots=True)
class Reducer:
    """A reducer computation over values of `types`; they accumulate as `acc_types`."""

    comp: Computation
    types: tuple[ElementType, ...]
    acc_types: tuple[ElementType, ...]
    monoid: OpDef[Any] | None

    @staticmethod
    def of(comp: Computation, types: Sequence[ElementType], count: int) -> Reducer:
        """The reducer of `count` elements a result.

        Monoids of f16 and smaller floats accumulate in f32 and round once, unless they are short.
        """
        monoid = monoid_of(comp) if len(types) == 1 else None
        acc = tuple(types)
        if monoid is not None and types[0].is_float and types[0].bits < 32 and count > SHORT:
            acc = (dtypes.F32,)
        return Reducer(comp, tuple(types), acc, monoid)

    def in_order(self, count: int) -> bool:
        """Whether `count` elements must be folded in order for the result to be the sequential one."""
        inexact = self.types[0].is_float or self.types[0].is_complex
        return inexact and count <= SHORT and self.monoid in (ops.ADD, ops.MULTIPLY)

    def widen(self, em: Emitter, values: Sequence[Value]) -> list[Value]:
        """Elements in the accumulation types."""
        return [convert(em.b, t, a, v) for t, a, v in zip(self.types, self.acc_types, values, strict=True)]

    def start(self, em: Emitter, inits: Sequence[Instruction], values: Sequence[Value]) -> list[Value]:
        """Initial values, which may have another precision, in the accumulation types."""
        given = [o.shape.element_type for o in inits]
        return [convert(em.b, g, a, v) for g, a, v in zip(given, self.acc_types, values, strict=True)]

    def narrow(self, em: Emitter, values: Sequence[Value]) -> list[Value]:
        """Accumulators as elements."""
        return [convert(em.b, a, t, v) for t, a, v in zip(self.types, self.acc_types, values, strict=True)]

    def apply(self, em: Emitter, accs: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """reducer(accs, values), all in the accumulation types and with one lane count."""
        if self.monoid is not None:
            et = self.acc_types[0]
            return [ELEMENT[self.monoid](em.b, Site(self.monoid, et, (et, et)), accs[0], values[0])]
        return em.combine(self.comp, [*accs, *values], self.acc_types * 2, len(self.acc_types))

    @property
    def identity(self) -> object | None:
        """A value that changes nothing, or None when none is known (its application is then not free to reorder)."""
        et = self.acc_types[0]
        if self.monoid is None or (et.is_complex and self.monoid is not ops.ADD):
            return None
        return identity_of(self.monoid, et)

    def identity_value(self, lanes: int) -> Value:
        """`identity` in every lane."""
        return element_constant(self.acc_types[0], self.identity, lanes)


def identity_of(monoid: OpDef[Any], et: ElementType) -> object:
    """The identity of a monoid on an element type."""
    if monoid is ops.ADD:
        return -0.0 if et.is_float else complex(-0.0, -0.0) if et.is_complex else 0
    if monoid is ops.MULTIPLY:
        return 1
    if monoid is ops.OR or monoid is ops.XOR:
        return 0
    if monoid is ops.AND:
        return 1 if et is dtypes.PRED else -1 if et.is_signed else (1 << et.bits) - 1
    largest = monoid is ops.MAXIMUM
    if et.is_float:
        return -np.inf if largest else np.inf
    if et is dtypes.PRED:
        return not largest
    low = -(1 << (et.bits - 1)) if et.is_signed else 0
    high = (1 << (et.bits - 1)) - 1 if et.is_signed else (1 << et.bits) - 1
    return low if largest else high
