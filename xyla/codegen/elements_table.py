"""The element-emitter table: for each element-wise op, how one element (or one vector of them) is computed.

`ELEMENT[op](b, site, *operands) -> value`. Operands and result are in register form (see elements_types), all with the
same lane count. The rules know nothing of shapes, indices or targets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xyla.codegen.elements_convert import compute_float, from_compute
from xyla.codegen.elements_types import wrap
from xyla.codegen.llvm import Builder, Cx, Val, Value
from xyla.hlo.op_def import NO_ATTRS, OpDef
from xyla.hlo.op_table import OpTable
from xyla.support import dtypes
from xyla.support.dtypes import ElementType
from xyla.support.status import XylaError, unimplemented


@dataclass(frozen=True, slots=True)
class Site:
    """What a rule may know of the instruction: its op, result and operand element types, its attribute record."""

    op: OpDef[Any]
    out: ElementType
    ins: tuple[ElementType, ...]
    attrs: Any = NO_ATTRS

    @property
    def et(self) -> ElementType:
        """The first operand's element type: what an op computes in."""
        return self.ins[0]

    def refuse(self) -> XylaError:
        """The error for element types that the op does not take."""
        kinds = ", ".join(e.name for e in self.ins)
        return unimplemented(f"native code for {self.op.name!r} on ({kinds})")


Rule = Callable[..., Value]
ELEMENT: OpTable[Rule] = OpTable("the element emitter")
RealFn = Callable[..., Val]
ComplexFn = Callable[..., Value]


def reals(args: tuple[Value, ...]) -> list[Val]:
    """The operands, which must not be complex."""
    return [a for a in args if isinstance(a, Val)]


def by_kind(
    b: Builder,
    s: Site,
    args: tuple[Value, ...],
    *,
    pred: RealFn | None = None,
    signed: RealFn | None = None,
    unsigned: RealFn | None = None,
    integer: RealFn | None = None,
    real: RealFn | None = None,
    cplx: ComplexFn | None = None,
) -> Value:
    """Picks the function for the operands' kind. Raises UNIMPLEMENTED when there is none.

    Functions take (b, *operands). `real` gets f32 or f64 operands: smaller floats are widened and its result is rounded
    back. Integer results are wrapped to sub-byte widths.
    """
    et = s.et
    if et.is_complex:
        if cplx is None:
            raise s.refuse()
        return cplx(b, *args)
    values = reals(args)
    if et.is_float:
        if real is None:
            raise s.refuse()
        return from_compute(b, et, real(b, *(compute_float(b, et, v) for v in values)))
    if et is dtypes.PRED:
        fn = pred
    else:
        fn = (signed if et.is_signed else unsigned) or integer
    if fn is None:
        raise s.refuse()
    return wrap(b, et, fn(b, *values))


def parts(x: Value) -> Cx:
    """`x`, known to be complex."""
    assert isinstance(x, Cx)
    return x
