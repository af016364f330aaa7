"""Checks and small calculations that the families of rules share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import ml_dtypes

from xyla.hlo.shape import UNBOUNDED, Shape
from xyla.support.dtypes import ElementType, all_types
from xyla.support.status import XylaError, invalid

if TYPE_CHECKING:
    from xyla.hlo.module import Computation

FLOATS = frozenset(t for t in all_types() if t.is_float)
INTEGERS = frozenset(t for t in all_types() if t.is_integer)
COMPLEX = frozenset(t for t in all_types() if t.is_complex)
ARRAYS = frozenset(t for t in all_types() if t.is_array)
PREDS = ARRAYS - FLOATS - INTEGERS - COMPLEX


@lru_cache(maxsize=1 << 16)
def bare(shape: Shape) -> Shape:
    """The shape without layouts (remembered: the same few shapes are asked about again and again)."""
    return shape.without_layout()


@lru_cache(maxsize=1 << 16)
def static_bare(shape: Shape) -> Shape:
    """The shape without layouts, bounded dimensions static at their bound (`?` stays as it is)."""
    return shape.without_layout().map_leaves(_drop_bounds)


def _drop_bounds(shape: Shape) -> Shape:
    if not shape.dynamic or UNBOUNDED not in shape.dims:
        return Shape.array(shape.element_type, shape.dims) if shape.dynamic else shape
    return Shape.array(shape.element_type, shape.dims, None, [d == UNBOUNDED for d in shape.dims])


def same(a: Shape, b: Shape) -> bool:
    """Equal but for layouts."""
    return a is b or bare(a) is bare(b)


def same_but_precision(a: Shape, b: Shape) -> bool:
    """Equal but for layouts, dynamic flags and the precision of floating-point types (f32 against bf16).

    Source: XLA's verifier (compatible shapes ignoring floating-point precision). A `?` dimension matches any size.
    """
    if a is b or static_bare(a) is static_bare(b):
        return True
    return _deep_match(a, b)


@lru_cache(maxsize=1 << 14)
def _deep_match(a: Shape, b: Shape) -> bool:
    stack = [(a, b)]
    while stack:
        x, y = stack.pop()
        if x.is_tuple and y.is_tuple:
            if len(x.tuple_shapes) != len(y.tuple_shapes):
                return False
            stack.extend(zip(x.tuple_shapes, y.tuple_shapes, strict=True))
        elif x.is_array and y.is_array:
            if not (same_type_but_precision(x.element_type, y.element_type) and dims_match(x, y)):
                return False
        elif bare(x) is not bare(y):
            return False
    return True


def dims_match(a: Shape, b: Shape) -> bool:
    """Equal dims; bounds count as sizes, `?` matches anything."""
    if a.dims == b.dims:
        return True
    return len(a.dims) == len(b.dims) and all(
        x in (y, UNBOUNDED) or y == UNBOUNDED for x, y in zip(a.dims, b.dims, strict=True)
    )


def same_type_but_precision(a: ElementType, b: ElementType) -> bool:
    """The same type, or two floating-point types."""
    return a is b or (a.is_float and b.is_float)


@lru_cache(maxsize=1024)
def higher_precision(a: ElementType, b: ElementType) -> ElementType:
    """The type of the two that holds more: complex first, then range, then precision, then width, then signedness."""
    return a if _rank_of(a) >= _rank_of(b) else b


def _rank_of(et: ElementType) -> tuple[int, int, int, int, int]:
    part = et.component
    if not part.is_float:
        return 0, -1, -1, et.bits, int(et.is_signed)
    info = ml_dtypes.finfo(part.np)  # type: ignore[no-untyped-call]
    return int(et.is_complex), int(info.maxexp), int(info.nmant), et.bits, 0


def wrong_operand(index: int, shape: Shape, expected: object) -> XylaError:
    """The error `operand I is S, expected E`, to raise."""
    return invalid(f"operand {index} is {bare(shape)}, expected {expected}")


def need_array(shapes: Sequence[Shape], index: int = 0) -> Shape:
    """Operand `index`, which must be an array."""
    shape = shapes[index]
    if shape.element_type not in ARRAYS:
        raise wrong_operand(index, shape, "an array")
    return shape


def need_arrays(shapes: Iterable[Shape]) -> None:
    """All operands must be arrays."""
    for i, shape in enumerate(shapes):
        if shape.element_type not in ARRAYS:
            raise wrong_operand(i, shape, "an array")


def need_integer_scalars(shapes: Sequence[Shape], first: int) -> None:
    """Operands from `first` on must be integer scalars of one type."""
    for i in range(first, len(shapes)):
        shape = shapes[i]
        if shape.rank or shape.element_type not in INTEGERS:
            raise wrong_operand(i, shape, "an integer scalar")
        if shape.element_type is not shapes[first].element_type:
            raise wrong_operand(i, shape, f"{shapes[first].element_type}[] like operand {first}")


def need_dim(what: str, dim: int, rank: int) -> None:
    """`dim` must lie in [0, rank)."""
    if not 0 <= dim < rank:
        raise invalid(f"{what} {dim} is out of range for rank {rank}")


def need_dims(what: str, dims: Sequence[int], rank: int, *, ordered: bool = False) -> None:
    """`dims` must be distinct (ascending when `ordered`) and lie in [0, rank)."""
    for d in dims:
        if not 0 <= d < rank:
            raise invalid(f"{what} {braces(dims)} holds {d}, out of range for rank {rank}")
    if len(dims) > 1:
        if len(set(dims)) != len(dims):
            raise invalid(f"{what} {braces(dims)} repeats a dimension")
        if ordered and sorted(dims) != list(dims):
            raise invalid(f"{what} {braces(dims)} must be ascending")


def braces(items: Iterable[object]) -> str:
    """`{1,0}`."""
    return "{" + ",".join(map(str, items)) + "}"


def flags(shape: Shape) -> tuple[bool, ...]:
    """One dynamic flag a dimension, also for static shapes."""
    return shape.dynamic or (False,) * shape.rank


def merge_dim(a: int, a_dynamic: bool, b: int, b_dynamic: bool) -> tuple[int, bool] | None:
    """The size that two equal-by-definition dimensions share, or None. `?` yields to what is known."""
    if a == b:
        return a, a_dynamic or b_dynamic
    if a == UNBOUNDED:
        return b, b_dynamic
    if b == UNBOUNDED:
        return a, a_dynamic
    # A bounded dimension may turn out as small as a static one: the static size is the fact.
    if a_dynamic and not b_dynamic and b <= a:
        return b, False
    if b_dynamic and not a_dynamic and a <= b:
        return a, False
    return (min(a, b), True) if a_dynamic and b_dynamic else None


def merge(a: Shape, b: Shape, index: int = 1) -> Shape:
    """The shape of an element-wise result over arrays `a` and `b` (operand `index`); layout of `a`.

    Equal dims; equal element types, or floating-point ones of which the more precise is taken.
    """
    if a.element_type not in ARRAYS:
        raise wrong_operand(0, a, "an array")
    if not same_type_but_precision(a.element_type, b.element_type):
        raise wrong_operand(index, b, bare(a))
    if a.dims == b.dims and a.dynamic == b.dynamic:
        dims, dyn = a.dims, a.dynamic
    else:
        dims, dyn = merge_dims(a, b, index)
    et = higher_precision(a.element_type, b.element_type)
    if et is a.element_type:
        return a if dims == a.dims and dyn == a.dynamic else Shape.array(et, dims, a.layout, dyn)
    return Shape.array(et, dims, a.with_type(et).layout, dyn)


def merge_dims(a: Shape, b: Shape, index: int) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """Dims and dynamic flags that arrays `a` and `b` agree on; raises naming operand `index`."""
    if a.rank != b.rank:
        raise wrong_operand(index, b, bare(a))
    pairs = []
    for x, xd, y, yd in zip(a.dims, flags(a), b.dims, flags(b), strict=True):
        pair = merge_dim(x, xd, y, yd)
        if pair is None:
            raise wrong_operand(index, b, bare(a))
        pairs.append(pair)
    return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)


def dims_of(shape: Shape, keep: Iterable[int]) -> tuple[list[int], list[bool]]:
    """Sizes and dynamic flags of the chosen dimensions."""
    dims, dyn = shape.dims, shape.dynamic
    if not dyn:
        sizes = [dims[d] for d in keep]
        return sizes, [False] * len(sizes)
    keep = list(keep)
    return [dims[d] for d in keep], [dyn[d] for d in keep]


def parameter_shapes(comp: Computation, count: int) -> list[Shape]:
    """The shapes of a callee's parameters, of which there must be `count`."""
    if len(comp.parameters) != count:
        raise invalid(f"computation {comp.name!r} takes {len(comp.parameters)} parameters, expected {count}")
    return [p.shape for p in comp.parameters]


def need_pred_scalar(comp: Computation) -> None:
    """The callee must return pred[]."""
    shape = comp.root.shape
    if shape.rank or shape.element_type not in PREDS:
        raise invalid(f"computation {comp.name!r} returns {bare(shape)}, expected pred[]")
