"""Shardy (sdy) operations: sharding annotations pass values through; manual computations are inlined.

On one device these are the identity. Where a manual computation's local shapes differ from the global ones, the values
cross through the custom calls that XLA's partitioner knows.
"""

from __future__ import annotations

from xyla.formats.mlir.attributes import DialectAttr, StringAttr
from xyla.formats.mlir.ir import Operation
from xyla.formats.stablehlo.body import Body, Result, Rule, arity, regions
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.support.status import invalid


def _constraint(body: Body, op: Operation) -> Result:
    """A value under a sharding: a custom call to Sharding that keeps the annotation."""
    arity(op, 1)
    sharding = op.get("sharding")
    text = str(sharding) if isinstance(sharding, DialectAttr) else ""
    inst = _marker(body, body.get(op.operands[0]), "Sharding", body.result(op))
    inst.frontend_attributes = (("xla.sdy.sharding", text),)
    return inst


def _identity(body: Body, op: Operation) -> Result:
    arity(op, 1)
    return body.get(op.operands[0])


def _group(body: Body, op: Operation) -> Result:
    """A sharding group only relates values to one another."""
    return None


def _manual(body: Body, op: Operation) -> Result:
    regions(op, 1)
    entry = op.regions[0].entry
    if entry is None or len(op.regions[0].blocks) != 1 or len(entry.arguments) != len(op.operands):
        raise invalid(f"{op.name} needs one block with {len(op.operands)} arguments")
    for value, argument in zip(op.operands, entry.arguments, strict=True):
        shape = body.shape(argument.type)
        body.env[argument] = _cross(body, body.get(value), "SPMDFullToShardShape", shape, op, "in_shardings")
    span, metadata = body.span, body.metadata
    results = body.converter.block(body, entry)
    body.span, body.metadata = span, metadata
    if len(results) != len(op.results):
        raise invalid(f"the body of {op.name} returns {len(results)} values, {len(op.results)} are expected")
    return [
        _cross(body, inst, "SPMDShardToFullShape", body.result(op, i), op, "out_shardings")
        for i, inst in enumerate(results)
    ]


def _cross(body: Body, inst: Instruction, target: str, shape: Shape, op: Operation, key: str) -> Instruction:
    if inst.shape.compatible(shape):
        return inst
    marker = _marker(body, inst, target, shape)
    sharding = op.get(key)
    if isinstance(sharding, StringAttr):
        marker.frontend_attributes = ((f"xla.sdy.{key}", sharding.value),)
    return marker


def _marker(body: Body, operand: Instruction, target: str, shape: Shape) -> Instruction:
    attrs = ops.CustomCallAttrs(custom_call_target=target)
    return body.add(ops.CUSTOM_CALL, [operand], attrs, shape=shape)


RULES: dict[str, Rule] = {
    "sdy.sharding_constraint": _constraint,
    "sdy.reshard": _constraint,
    "sdy.propagation_barrier": _identity,
    "sdy.sharding_group": _group,
    "sdy.manual_computation": _manual,
    "sdy.named_computation": _manual,
}
