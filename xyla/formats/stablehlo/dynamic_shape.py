"""Operations of the shape, tensor and arith dialects that compute sizes: folded during refinement.

They have no HLO form; a program may hold them as long as all they compute follows from the argument shapes. Source: the
MLIR documentation of the 'shape', 'tensor' and 'arith' dialects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.formats.mlir import dense
from xyla.formats.mlir.attributes import ArrayAttr, DenseAttr, IntegerAttr
from xyla.formats.mlir.ir import Operation
from xyla.formats.mlir.types import INDEX, IndexType, ScalarType, TensorType, Type
from xyla.formats.stablehlo.dynamic_fold import constant_value
from xyla.formats.stablehlo.program import NotHloError
from xyla.support.status import XylaError, invalid

Array = npt.NDArray[Any]
DIALECTS = frozenset({"shape", "tensor", "arith"})


def fold(op: Operation, declared: Sequence[Type]) -> list[tuple[Array, TensorType]]:
    """The results of `op` (operands set) as integers with the tensor types that hold them.

    A scalar, a shape or a witness is held as a tensor too: whoever uses it here looks at the integers only.
    Raises NotHloError when they are not known, INVALID_ARGUMENT when a constraint does not hold.
    """
    found = _result(op)
    return [(found, _held(kind, found)) for kind in declared]


def _result(op: Operation) -> Array:
    if op.name in ("shape.shape_of", "tensor.dim"):
        return _shape_of(op)
    if op.name in ("arith.constant", "shape.const_shape", "shape.const_size", "shape.const_witness"):
        return _constant(op)
    formula = _FORMULAS.get(op.name)
    if formula is None:
        raise NotHloError(f"operation {op.name}")
    inputs = [constant_value(v) for v in op.operands]
    known = [i for i in inputs if i is not None]
    if len(known) != len(inputs):
        raise NotHloError(f"an operand of {op.name} does not follow from the argument shapes")
    try:
        return np.asarray(formula(*known))
    except XylaError:
        raise
    except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
        # The formulas are NumPy's: what it refuses is an operand of the wrong count, rank or value.
        raise invalid(f"{op.name}: {error}") from None


def _held(kind: Type, array: Array) -> TensorType:
    element = kind.element if isinstance(kind, TensorType) else kind
    return TensorType(array.shape, element if isinstance(element, ScalarType | IndexType) else INDEX)


def _shape_of(op: Operation) -> Array:
    kind = op.operands[0].type if op.operands else None
    if not isinstance(kind, TensorType) or not kind.is_static:
        raise NotHloError(f"{op.name} of {kind}")
    dims = np.array(kind.dims, np.int64)
    if op.name == "shape.shape_of":
        return dims
    index = constant_value(op.operands[1]) if len(op.operands) > 1 else None
    if index is None:
        raise NotHloError(f"the index of {op.name} does not follow from the argument shapes")
    return _extent(dims, index)


def _constant(op: Operation) -> Array:
    attr = op.get("value" if op.name != "shape.const_shape" else "shape")
    if isinstance(attr, IntegerAttr):
        return np.array(attr.value)
    if isinstance(attr, DenseAttr):
        return np.asarray(dense.decode(attr))
    if isinstance(attr, ArrayAttr) and all(isinstance(i, IntegerAttr) for i in attr.items):
        return np.array([i.value for i in attr.items if isinstance(i, IntegerAttr)], np.int64)
    raise NotHloError(f"the value of {op.name}")


def _extent(dims: Array, index: Array) -> Array:
    if not 0 <= int(index) < dims.size:
        raise invalid(f"dimension {int(index)} of a shape of rank {dims.size}")
    return np.asarray(dims[int(index)])


def _broadcast(*shapes: Array) -> Array:
    try:
        return np.array(np.broadcast_shapes(*(tuple(map(int, s)) for s in shapes)), np.int64)
    except ValueError:
        raise invalid(f"shapes do not broadcast: {[s.tolist() for s in shapes]}") from None


def _require_broadcastable(*shapes: Array) -> Array:
    _broadcast(*shapes)
    return np.array(1)


def _require_equal(*shapes: Array) -> Array:
    if any(not np.array_equal(shapes[0], s) for s in shapes[1:]):
        raise invalid(f"shapes differ: {[s.tolist() for s in shapes]}")
    return np.array(1)


def _require(condition: Array) -> Array:
    if not condition.all():
        raise invalid("a shape constraint does not hold")
    return np.array(1)


def _extract(array: Array, *indices: Array) -> Array:
    return np.asarray(array[tuple(int(i) for i in indices)])


def _stack(*items: Array) -> Array:
    return np.array([int(i) for i in items], np.int64)


def _same(array: Array) -> Array:
    return array


_FORMULAS: dict[str, Callable[..., Any]] = {
    "shape.add": np.add,
    "shape.mul": np.multiply,
    "shape.max": np.maximum,
    "shape.min": np.minimum,
    "shape.broadcast": _broadcast,
    "shape.concat": lambda a, b: np.concatenate([a, b]),
    "shape.cstr_broadcastable": _require_broadcastable,
    "shape.cstr_eq": _require_equal,
    "shape.cstr_require": _require,
    "shape.assuming_all": lambda *witnesses: np.array(1),
    "shape.from_extents": _stack,
    "shape.get_extent": _extent,
    "shape.num_elements": lambda dims: np.prod(dims, dtype=np.int64),
    "shape.rank": lambda dims: np.array(dims.size),
    "shape.to_extent_tensor": _same,
    "shape.index_to_size": _same,
    "shape.size_to_index": _same,
    "tensor.from_elements": _stack,
    "tensor.extract": _extract,
    "tensor.cast": _same,
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divui": np.floor_divide,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.index_cast": _same,
    "arith.index_castui": _same,
}
