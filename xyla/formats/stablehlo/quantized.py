"""Quantized element types, and quantization and dequantization as HLO.

A tensor of `!quant.uniform<storage:expressed, scale:zero_point>` is held as its storage integers; the value they stand
for is (storage - zero_point) * scale in the expressed type. Source: the StableHLO specification, "Quantized types" and
"Quantization computations", and the MLIR 'quant' dialect for the spelling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from xyla.formats.mlir.types import DialectType, ScalarType, TensorType, Type
from xyla.formats.stablehlo.body import Body
from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.support import dtypes
from xyla.support.dtypes import ElementType
from xyla.support.status import invalid, unimplemented

HEAD = "quant.uniform"
_TYPE = re.compile(
    r"\s*(?P<storage>[A-Za-z]\w*)\s*(?:<\s*(?P<low>-?\d{1,20})\s*:\s*(?P<high>-?\d{1,20})\s*>)?\s*"
    r":\s*(?P<expressed>[A-Za-z]\w*)\s*(?::\s*(?P<axis>\d{1,4}|\{[^}]*\}))?\s*,\s*(?P<params>.+)\Z",
    re.DOTALL,
)
_INTEGER = re.compile(r"(?P<unsigned>u?)i?(?P<width>\d{1,2})\Z")
_PARAM = re.compile(r"\s*(?P<scale>[-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*(?::\s*(?P<zero>-?\d{1,20}))?\s*\Z")
# The storage widths that HLO has; a narrower integer lies in the next one up, within its own limits.
_WIDTHS = (2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class QuantType:
    """A uniform quantized element type. `axis` None: one scale and zero point for the whole tensor.

    `low`, `high`: the limits of the storage integers, inclusive.
    """

    storage: ElementType
    expressed: ElementType
    low: int
    high: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    def same_values(self, other: QuantType) -> bool:
        """Whether equal storage integers mean equal values (the axis may differ: movement moves it)."""
        return (self.storage, self.expressed, self.scales, self.zero_points) == (
            other.storage,
            other.expressed,
            other.scales,
            other.zero_points,
        )


def of_type(type_: Type) -> QuantType | None:
    """The quantization of a tensor type; None when it has none."""
    if isinstance(type_, TensorType) and isinstance(type_.element, DialectType) and type_.element.head == HEAD:
        return parse(type_.element)
    return None


@lru_cache(maxsize=1024)
def parse(type_: DialectType) -> QuantType:
    """The quantized type behind `!quant.uniform<...>`.

    Raises INVALID_ARGUMENT for a malformed one, UNIMPLEMENTED for blockwise scales and storage wider than 32 bits.
    """
    m = _TYPE.match(type_.body)
    if m is None:
        raise invalid(f"{str(type_)[:80]} is not a quantized type")
    storage, low, high = _storage(m["storage"], type_)
    if m["low"] is not None:
        given = int(m["low"]), int(m["high"])
        if not low <= given[0] < given[1] <= high:
            raise invalid(f"storage limits {given[0]}:{given[1]} do not fit {m['storage']}")
        low, high = given
    axis = m["axis"]
    if axis is not None and axis.startswith("{"):
        raise unimplemented(f"blockwise quantization: {str(type_)[:80]}")
    scales, zeros = _params(m["params"], axis is not None, type_)
    if not all(low <= z <= high for z in zeros):
        raise invalid(f"a zero point of {str(type_)[:80]} lies outside the storage limits {low}:{high}")
    return QuantType(storage, _expressed(m["expressed"]), low, high, scales, zeros, int(axis) if axis else None)


def _storage(name: str, type_: DialectType) -> tuple[ElementType, int, int]:
    m = _INTEGER.match(name)
    if m is None or not 1 < int(m["width"]) <= 32:
        raise unimplemented(f"quantized storage {name} in {str(type_)[:80]}")
    width = int(m["width"])
    held = next(w for w in _WIDTHS if w >= width)
    if m["unsigned"]:
        return dtypes.by_name(f"u{held}"), 0, (1 << width) - 1
    return dtypes.by_name(f"s{held}"), -(1 << (width - 1)), (1 << (width - 1)) - 1


def _expressed(name: str) -> ElementType:
    try:
        found = dtypes.by_mlir(name)
    except KeyError:
        raise invalid(f"{name} is not an expressed type") from None
    if not found.is_float:
        raise invalid(f"a quantized type expresses floating-point values, not {name}")
    return found


def _params(text: str, per_axis: bool, type_: DialectType) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """The scales and zero points of `0.1:-30` or `{0.1:-30, 0.5}`."""
    text = text.strip()
    if per_axis != (text.startswith("{") and text.endswith("}")):
        raise invalid(f"{str(type_)[:80]}: a list of scales goes with a quantization dimension")
    found = [_PARAM.match(part) for part in (text[1:-1].split(",") if per_axis else [text])]
    pairs = [(float(m["scale"]), int(m["zero"] or 0)) for m in found if m is not None]
    if len(pairs) != len(found) or not all(0 < s < float("inf") for s, _ in pairs):
        raise invalid(f"the scales of {str(type_)[:80]} are not positive numbers")
    return tuple(s for s, _ in pairs), tuple(z for _, z in pairs)


def storage_type(type_: TensorType) -> TensorType:
    """The tensor type of the storage integers. The type must be quantized."""
    quant = of_type(type_)
    assert quant is not None
    return TensorType(type_.dims, ScalarType(quant.storage.mlir), type_.encoding)


def expressed_type(type_: TensorType, quant: QuantType) -> TensorType:
    """The tensor type of the values."""
    return TensorType(type_.dims, ScalarType(quant.expressed.mlir), type_.encoding)


# -- as HLO ----------------------------------------------------------------------------------------------------


def dequantize(body: Body, inst: Instruction, quant: QuantType) -> Instruction:
    """The values of storage integers: (inst - zero_point) * scale. The difference is taken in integers: it is exact."""
    shape = inst.shape.without_layout()
    if any(quant.zero_points):
        wide = shape.with_type(dtypes.S32 if quant.storage.bits < 32 else dtypes.S64)
        zeros = _spread(body, quant.zero_points, wide, quant.axis)
        inst = body.add(ops.SUBTRACT, [body.convert(inst, wide), zeros], shape=wide)
    values = shape.with_type(quant.expressed)
    scales = _spread(body, quant.scales, values, quant.axis)
    return body.add(ops.MULTIPLY, [body.convert(inst, values), scales], shape=values)


def quantize(body: Body, inst: Instruction, quant: QuantType) -> Instruction:
    """Values as storage integers: round(inst / scale) + zero_point, ties to even, held within the storage limits.

    The sum stays in the expressed type until it is within the limits, so nothing wraps; NaN becomes 0.
    """
    shape = inst.shape.without_layout().with_type(quant.expressed)
    ratio = body.add(
        ops.DIVIDE, [body.convert(inst, shape), _spread(body, quant.scales, shape, quant.axis)], shape=shape
    )
    result = body.add(ops.ROUND_EVEN, [ratio], shape=shape)
    if any(quant.zero_points):
        result = body.add(ops.ADD, [result, _spread(body, quant.zero_points, shape, quant.axis)], shape=shape)
    low, high = (body.splat(limit, shape) for limit in (quant.low, quant.high))
    result = body.add(ops.CLAMP, [low, result, high], shape=shape)
    return body.convert(result, shape.with_type(quant.storage))


def _spread(body: Body, numbers: tuple[float, ...] | tuple[int, ...], shape: Shape, axis: int | None) -> Instruction:
    """One number everywhere, or one for each index of dimension `axis`."""
    if axis is None:
        return body.splat(numbers[0], shape)
    if axis >= shape.rank or shape.dims[axis] != len(numbers):
        raise invalid(f"{len(numbers)} scales for dimension {axis} of {shape}")
    array = np.array(numbers).astype(shape.element_type.np)
    return body.broadcast(body.constant(Literal.of(array, shape.element_type)), (axis,), shape)
