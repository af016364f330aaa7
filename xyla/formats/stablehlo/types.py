"""MLIR types as HLO shapes. Source: the StableHLO specification, "Types"."""

from __future__ import annotations

from xyla.formats.mlir.attributes import DialectAttr
from xyla.formats.mlir.types import DYNAMIC, DialectType, TensorType, TupleType, Type
from xyla.formats.stablehlo import quantized
from xyla.formats.stablehlo.program import NotHloError
from xyla.hlo.shape import OPAQUE_SHAPE, TOKEN_SHAPE, Shape
from xyla.support import dtypes
from xyla.support.status import invalid, unimplemented

# Today's spelling of dimension bounds, then the older ones.
_BOUNDS = ("stablehlo.bounds", "stablehlo.type_extensions", "mhlo.type_extensions")


def shape_of(type_: Type) -> Shape:
    """The HLO shape of an MLIR type.

    A quantized tensor has the shape of its storage integers. Raises NotHloError for unbounded `?` dimensions and index
    tensors, UNIMPLEMENTED for types that StableHLO programs do not pass around.
    """
    if isinstance(type_, TensorType):
        return _array(type_)
    if isinstance(type_, TupleType):
        return Shape.tuple_of(shape_of(t) for t in type_.elements)
    if isinstance(type_, DialectType):
        if type_.head in ("stablehlo.token", "mhlo.token"):
            return TOKEN_SHAPE
        if type_.head in ("stablehlo.opaque", "mhlo.opaque"):
            return OPAQUE_SHAPE
        raise NotHloError(f"type {type_}")
    raise NotHloError(f"type {type_}")


def _array(type_: TensorType) -> Shape:
    if isinstance(type_.element, DialectType):
        if type_.element.head != quantized.HEAD:
            raise unimplemented(f"element type {type_.element}")
        return _array(quantized.storage_type(type_))
    try:
        element = dtypes.by_mlir(str(type_.element))
    except KeyError:
        if str(type_.element) == "index":
            raise NotHloError("a tensor of index") from None
        raise unimplemented(f"no XLA element type corresponds to {type_.element}") from None
    if type_.is_static:
        return Shape.array(element, type_.dims)
    bounds = dimension_bounds(type_)
    if bounds is None or any(d == DYNAMIC and b == DYNAMIC for d, b in zip(type_.dims, bounds, strict=True)):
        raise NotHloError(f"dynamic dimensions in {type_}")
    dims = [b if d == DYNAMIC else d for d, b in zip(type_.dims, bounds, strict=True)]
    return Shape.array(element, dims, None, [d == DYNAMIC for d in type_.dims])


def dimension_bounds(type_: TensorType) -> tuple[int, ...] | None:
    """The upper bounds in `#stablehlo.bounds<4, ?>` (DYNAMIC where there is none); None without such an encoding."""
    encoding = type_.encoding
    if not isinstance(encoding, DialectAttr) or encoding.head not in _BOUNDS:
        return None
    body = encoding.body.replace("bounds", "").strip(" =[]")
    words = [w.strip() for w in body.split(",")]
    if len(words) != len(type_.dims) or not all(w == "?" or (w.isdigit() and len(w) < 19) for w in words):
        raise invalid(f"the bounds of {type_} do not fit its rank")
    return tuple(DYNAMIC if w == "?" else int(w) for w in words)
