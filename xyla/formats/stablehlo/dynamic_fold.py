"""Folding shape arithmetic: small integer operations whose operands are known are evaluated while a program is refined.

A known value is the result of a constant operation that stands in no block: the conversion makes such constants where
they are used. What an operation computes is not said again here: it is converted to HLO and given to the evaluator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.formats.mlir import dense
from xyla.formats.mlir.attributes import DenseAttr
from xyla.formats.mlir.ir import MlirModule, Operation, Value
from xyla.formats.mlir.types import IndexType, ScalarType, TensorType, Type
from xyla.formats.stablehlo import decode_attrs as read
from xyla.formats.stablehlo.body import Body
from xyla.formats.stablehlo.convert import RULES, Converter
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction
from xyla.interp import Evaluator
from xyla.support.status import invalid

Array = npt.NDArray[Any]
# Shapes are short; whatever is longer is data.
MAX_ELEMENTS = 4096
_ARITHMETIC = (
    "abs", "add", "and", "clamp", "compare", "concatenate", "convert", "count_leading_zeros", "divide", "maximum",
    "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "remainder", "select", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "sign", "subtract", "xor",
)  # fmt: skip
_MOVEMENT = (
    "broadcast", "broadcast_in_dim", "dynamic_broadcast_in_dim", "dynamic_gather", "dynamic_iota", "dynamic_pad",
    "dynamic_reshape", "dynamic_slice", "dynamic_update_slice", "gather", "iota", "pad", "real_dynamic_slice",
    "reshape", "reverse", "slice", "transpose",
)  # fmt: skip
_FOLDED = frozenset(f"stablehlo.{name}" for name in (*_ARITHMETIC, *_MOVEMENT))


def is_integral(type_: Type) -> bool:
    """Whether the type is a small static tensor of integers (predicates and index included)."""
    if not isinstance(type_, TensorType) or not type_.is_static:
        return False
    element = type_.element
    whole = isinstance(element, IndexType) or (isinstance(element, ScalarType) and element.is_integer)
    return whole and int(np.prod(type_.dims, dtype=object)) <= MAX_ELEMENTS


def constant_value(value: Value) -> Array | None:
    """The integers behind a value; None when they are not known."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name != "stablehlo.constant" or not is_integral(value.type):
        return None
    attr = owner.get("value")
    if not isinstance(attr, DenseAttr):
        return None
    return np.asarray(dense.decode(attr))


class Folder:
    """Evaluates single operations, and makes constants."""

    def __init__(self, mlir: MlirModule) -> None:
        self.mlir = mlir
        self.converter = Converter(mlir)
        self.evaluator = Evaluator()

    def constant(self, array: Array, type_: Type, at: Operation) -> Value:
        """A value that is `array`, of tensor type `type_` (its dims are the array's); `at` says where it comes from."""
        assert isinstance(type_, TensorType)
        op = Operation("stablehlo.constant", at.start)
        op.end, op.loc = at.end, at.loc
        kind = TensorType(array.shape, type_.element)
        text = str(array.tolist()) if array.size else ""
        if array.dtype == np.bool_:
            text = text.lower()
        op.properties["value"] = DenseAttr(text, kind)
        value = Value("c", kind, op, 0)
        op.results.append(value)
        return value

    def fold(self, op: Operation, types: Sequence[Type]) -> list[Value] | None:
        """The results of `op` (operands set, results not yet) as constants; None when they are not known."""
        if len(types) != 1 or not is_integral(types[0]):
            return None
        array = self._value(op, types[0])
        return None if array is None else [self.constant(array, types[0], op)]

    def _value(self, op: Operation, type_: Type) -> Array | None:
        if op.name == "stablehlo.constant":
            attr = op.get("value")
            return np.asarray(dense.decode(attr, self.mlir.source)) if isinstance(attr, DenseAttr) else None
        if op.name == "stablehlo.get_dimension_size":
            return _dimension_size(op)
        if op.name not in _FOLDED:
            return None
        operands = [constant_value(v) for v in op.operands]
        if any(o is None for o in operands):
            return None
        return self._evaluate(op, [o for o in operands if o is not None], type_)

    def _evaluate(self, op: Operation, operands: list[Array], type_: Type) -> Array:
        body = self.scratch()
        for value, array in zip(op.operands, operands, strict=True):
            assert isinstance(value.type, TensorType)
            body.env[value] = body.constant(Literal.of(array, dense.element_type(value.type.element)))
        op.results = [Value("r", type_, op, 0)]
        result = RULES[op.name](body, op)
        op.results = []
        assert isinstance(result, Instruction)
        _check(body.comp)
        body.comp.set_root(result)
        return np.asarray(self.evaluator.evaluate_computation(body.comp, []))

    def scratch(self) -> Body:
        """An empty computation to convert a single operation into."""
        return Body(self.converter, self.converter.module.add_computation("scratch"))


def _check(comp: Computation) -> None:
    """What the verifier will say later must be known before the evaluator sees it. Raises INVALID_ARGUMENT."""
    for inst in comp.instructions:
        if inst.op.infer is None:
            continue
        shape = inst.op.infer([o.shape for o in inst.operands], inst.attrs, inst.called)
        if not shape.compatible(inst.shape):
            raise invalid(f"{inst.op.name} of these operands gives {shape}, the program says {inst.shape}")


def _dimension_size(op: Operation) -> Array | None:
    """A static dimension's size, whether or not the elements are known."""
    kind = op.operands[0].type if op.operands else None
    dim = read.integer(op, "dimension")
    if not isinstance(kind, TensorType) or not 0 <= dim < len(kind.dims):
        raise invalid(f"dimension {dim} is not a dimension of {kind}")
    return np.array(kind.dims[dim], np.int32) if kind.dims[dim] >= 0 else None
