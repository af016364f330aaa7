"""The static twin of a dynamic value: its elements padded to the bounds, and the sizes that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_table import OpTable
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Val
from xyla.support.dtypes import S32

Sizes = Mapping[int, Val]


@dataclass(frozen=True, slots=True)
class Padded:
    """`value` has static dimensions; sizes[d] (s32[]) says how many positions along dynamic dimension d count.

    What lies past them is not defined. A value without dynamic dimensions may also be a tuple or a token.
    """

    value: Val
    sizes: Sizes

    def size(self, dim: int) -> Val:
        """The size along `dim`, a constant where it is static."""
        found = self.sizes.get(dim)
        return found if found is not None else self.value.b.scalar(self.value.dims[dim], S32)


Twin = Padded | list["Twin"]
# The sizes of a result, found by analysis.dynamic_dimensions: by dimension; a list for a tuple's parts.
Measured = Sizes | list["Measured"]
PadRule = Callable[[Builder, Instruction, Sequence[Twin], Measured], Twin]
PAD: OpTable[PadRule] = OpTable("dynamic-padder")


def inside(b: Builder, x: Padded, dims: Sequence[int]) -> Val | None:
    """pred of x's shape: whether a position counts along all of `dims`; None when all of them do."""
    found: Val | None = None
    for d in dims:
        if d in x.sizes:
            own = b.iota(S32, x.value.dims, d).lt(x.sizes[d])
            found = own if found is None else found & own
    return found


def masked(b: Builder, x: Padded, dims: Sequence[int], fill: Val | complex) -> Val:
    """x with `fill` past the sizes along `dims`."""
    keep = inside(b, x, dims)
    return x.value if keep is None else b.select(keep, x.value, fill)


def enter(b: Builder, x: Val) -> Padded:
    """A dynamic array padded to its bounds, and its sizes."""
    sizes = [Shape.array(S32, ())] * len(x.dims)
    attrs = ops.CustomCallAttrs(custom_call_target="PadToStatic")
    shape = Shape.tuple_of([x.shape.static().without_layout(), *sizes])
    call = b.apply(ops.CUSTOM_CALL, x, attrs=attrs, shape=shape)
    dynamic = [d for d in range(len(x.dims)) if x.shape.is_dynamic_dim(d)]
    return Padded(call.element(0), {d: call.element(d + 1) for d in dynamic})


def leave(b: Builder, x: Padded) -> Val:
    """The dynamic array that a padded one stands for."""
    if not x.sizes:
        return x.value
    dims = range(len(x.value.dims))
    shape = Shape.array(x.value.et, x.value.dims, None, [d in x.sizes for d in dims])
    attrs = ops.CustomCallAttrs(custom_call_target="SliceToDynamic")
    return b.apply(ops.CUSTOM_CALL, x.value, *(x.size(d) for d in dims), attrs=attrs, shape=shape)
