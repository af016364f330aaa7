"""chlo.broadcast_* operations: NumPy-style implicit broadcasting, then the plain op.

Source: the chlo dialect: operands of lower rank align with the trailing dimensions, or as `broadcast_dimensions` says.
"""

from __future__ import annotations

from typing import Any

from xyla.formats.mlir.ir import Operation
from xyla.formats.stablehlo import decode_attrs as read
from xyla.formats.stablehlo.body import Body, Result, Rule, arity
from xyla.formats.stablehlo.rules_elementwise import BINARY, COMPARE_TYPES, DIRECTIONS, default_compare_type
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.support.status import invalid


def expand(body: Body, operand: Instruction, shape: Shape, dims: tuple[int, ...] = ()) -> Instruction:
    """`operand` with the dims of `shape`: size-1 dimensions repeat. `dims` maps its dimensions (default: trailing)."""
    have, want = operand.shape, shape.with_type(operand.shape.element_type)
    if have.dims == want.dims:
        return operand
    mapping = dims if len(dims) == have.rank and dims else tuple(range(want.rank - have.rank, want.rank))
    kept = [i for i in range(have.rank) if have.dims[i] == want.dims[mapping[i]]]
    if any(have.dims[i] != 1 for i in range(have.rank) if i not in kept):
        raise invalid(f"{have} does not broadcast to {want}")
    squeezed = operand if len(kept) == have.rank else body.reshape(operand, [have.dims[i] for i in kept])
    return body.broadcast(squeezed, [mapping[i] for i in kept], want)


def _sides(body: Body, op: Operation) -> list[Instruction]:
    """Both operands in the result's dims; `broadcast_dimensions` is about the one of lower rank."""
    arity(op, 2)
    shape = body.result(op)
    dims = read.ints(op, "broadcast_dimensions", ())
    return [expand(body, o, shape, tuple(dims)) for o in body.operands(op)]


def _binary(target: OpDef[Any]) -> Rule:
    def rule(body: Body, op: Operation) -> Result:
        return body.add(target, _sides(body, op), shape=body.result(op))

    return rule


def _compare(body: Body, op: Operation) -> Result:
    sides = _sides(body, op)
    direction = read.enum(op, "comparison_direction", DIRECTIONS)
    kind = COMPARE_TYPES.get(read.word(op.get("compare_type")))
    if kind is default_compare_type(sides[0].shape):
        kind = None
    return body.add(ops.COMPARE, sides, ops.CompareAttrs(direction, kind), shape=body.result(op))


def _select(body: Body, op: Operation) -> Result:
    arity(op, 3)
    shape = body.result(op)
    return body.add(ops.SELECT, [expand(body, o, shape) for o in body.operands(op)], shape=shape)


RULES: dict[str, Rule] = {
    **{f"chlo.broadcast_{name}": _binary(target) for name, target in BINARY.items()},
    "chlo.broadcast_compare": _compare,
    "chlo.broadcast_select": _select,
}
