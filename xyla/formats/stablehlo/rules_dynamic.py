"""Dynamic StableHLO operations whose shape operands are constants: they become static HLO.

An operand that is not known, or a result type that still has `?`, raises NotHloError: the program then waits for
refinement. Source: the StableHLO specification, "Dynamism".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.formats.mlir import dense
from xyla.formats.mlir.attributes import DenseAttr
from xyla.formats.mlir.ir import Operation, Value
from xyla.formats.mlir.types import TensorType
from xyla.formats.stablehlo import decode_attrs as read
from xyla.formats.stablehlo import rules_compute, rules_movement
from xyla.formats.stablehlo.body import Body, Result, Rule, arity
from xyla.formats.stablehlo.program import NotHloError
from xyla.hlo import ops
from xyla.hlo.attr_types import SliceDim
from xyla.hlo.module import Instruction
from xyla.support.status import invalid

Array = npt.NDArray[Any]
# How far a shape operand is traced back through shape arithmetic.
_MAX_STEPS = 10_000


def constant_ints(op: Operation, index: int) -> tuple[int, ...]:
    """Operand `index` as integers. Raises NotHloError when it is not a constant."""
    found = fold(op.operands[index])
    if found is None:
        raise NotHloError(f"operand {index} of {op.name} is not a constant")
    return tuple(int(v) for v in found.reshape(-1))


def fold(value: Value) -> Array | None:
    """The value if it is a constant or is computed from constants by reshaping, converting and joining; else None."""
    known: dict[Value, Array | None] = {}
    stack = [value]
    for _ in range(_MAX_STEPS):
        if not stack:
            break
        top = stack[-1]
        owner = top.owner
        if top in known or not isinstance(owner, Operation) or owner.name not in _FOLDERS:
            known.setdefault(top, None)
            stack.pop()
            continue
        todo = [v for v in owner.operands if v not in known]
        if todo:
            stack.extend(todo)
            continue
        stack.pop()
        inputs = [known[v] for v in owner.operands]
        known[top] = _fold_one(owner, [i for i in inputs if i is not None], len(inputs))
    return known.get(value)


def _fold_one(op: Operation, inputs: list[Array], wanted: int) -> Array | None:
    type_ = op.results[0].type if op.results else None
    if len(inputs) != wanted or not isinstance(type_, TensorType) or not type_.is_static:
        return None
    value = op.get("value")
    if op.name == "stablehlo.constant":
        return dense.decode(value) if isinstance(value, DenseAttr) and _size(type_) <= 1 << 16 else None
    if op.name == "stablehlo.concatenate":
        return np.concatenate(inputs, read.integer(op, "dimension"))
    if op.name == "stablehlo.convert":
        return inputs[0].astype(dense.element_type(type_.element).np)
    return inputs[0].reshape(type_.dims) if inputs[0].size == _size(type_) else None


_FOLDERS = ("stablehlo.constant", "stablehlo.concatenate", "stablehlo.convert", "stablehlo.reshape")


def _size(type_: TensorType) -> int:
    size = 1
    for d in type_.dims:
        size *= d
    return size


# -- rules -----------------------------------------------------------------------------------------------------


def _dynamic_reshape(body: Body, op: Operation) -> Result:
    arity(op, 2)
    shape = body.result(op)
    if shape.is_dynamic:
        sizes = [_size_element(body, body.get(op.operands[1]), i) for i in range(shape.rank)]
        return body.add(ops.DYNAMIC_RESHAPE, [body.get(op.operands[0]), *sizes], shape=shape)
    return body.reshape(body.get(op.operands[0]), shape.dims)


def _size_element(body: Body, sizes: Instruction, index: int) -> Instruction:
    """sizes[index] as a scalar."""
    attrs = ops.SliceAttrs((SliceDim(index, index + 1),))
    return body.reshape(body.add(ops.SLICE, [sizes], attrs, shape=sizes.shape.with_dims([1])), [])


def _dynamic_broadcast(body: Body, op: Operation) -> Result:
    """A static result type says it all."""
    arity(op, 2)
    dims = read.ints(op, "broadcast_dimensions")
    return rules_movement.broadcast_in_dim(body, body.get(op.operands[0]), dims, body.result(op))


def _dynamic_iota(body: Body, op: Operation) -> Result:
    arity(op, 1)
    return rules_movement.iota(body, read.integer(op, "iota_dimension"), body.result(op))


def _dynamic_pad(body: Body, op: Operation) -> Result:
    arity(op, 5)
    low, high, interior = (constant_ints(op, i) for i in (2, 3, 4))
    operands = [body.get(v) for v in op.operands[:2]]
    return rules_movement.pad(body, operands, low, high, interior, body.result(op))


def _real_dynamic_slice(body: Body, op: Operation) -> Result:
    arity(op, 4)
    operand = body.get(op.operands[0])
    strides = constant_ints(op, 3)
    if fold(op.operands[1]) is None and all(s == 1 for s in strides):
        return _computed_slice(body, op, operand)
    starts, limits = constant_ints(op, 1), constant_ints(op, 2)
    return rules_movement.static_slice(body, operand, starts, limits, strides, body.result(op))


def _computed_slice(body: Body, op: Operation, operand: Instruction) -> Instruction:
    """Only the start is computed from data: the result's static dims are the sizes."""
    starts, shape = body.get(op.operands[1]), body.shape(op.results[0].type)
    if starts.shape.dims != (operand.shape.rank,) or shape.rank != operand.shape.rank:
        raise invalid(f"{op.name} of {operand.shape} starts at {starts.shape} and gives {shape}")
    indices = [_size_element(body, starts, i) for i in range(operand.shape.rank)]
    return body.add(ops.DYNAMIC_SLICE, [operand, *indices], ops.DynamicSliceAttrs(shape.dims), shape=shape)


def _dynamic_gather(body: Body, op: Operation) -> Result:
    arity(op, 3)
    operands = [body.get(v) for v in op.operands[:2]]
    return rules_movement.gather(body, op, operands, constant_ints(op, 2))


def _dynamic_conv(body: Body, op: Operation) -> Result:
    arity(op, 3)
    flat = constant_ints(op, 2)
    if len(flat) % 2:
        raise invalid("the padding of stablehlo.dynamic_conv is not a list of pairs")
    operands = [body.get(v) for v in op.operands[:2]]
    padding = tuple(zip(flat[::2], flat[1::2], strict=True))
    return rules_compute.convolution(body, op, operands, padding)


RULES: dict[str, Rule] = {
    "stablehlo.dynamic_reshape": _dynamic_reshape,
    "stablehlo.dynamic_broadcast_in_dim": _dynamic_broadcast,
    "stablehlo.dynamic_iota": _dynamic_iota,
    "stablehlo.dynamic_pad": _dynamic_pad,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.dynamic_gather": _dynamic_gather,
    "stablehlo.dynamic_conv": _dynamic_conv,
}
