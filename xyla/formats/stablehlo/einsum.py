"""einsum and unary_einsum as dot, reduce and transpose. Source: the StableHLO dialect's (deprecated) einsum ops."""

from __future__ import annotations

from xyla.formats.mlir.ir import Operation
from xyla.formats.stablehlo import decode_attrs as read
from xyla.formats.stablehlo.body import Body, Result, arity
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.support.status import XylaError, invalid, unimplemented


def einsum(body: Body, op: Operation) -> Result:
    """`ab,bc->ac`: labels in both operands and the result are batch dimensions, those not in the result are summed."""
    arity(op, 2)
    config = read.string(op, "einsum_config").replace(" ", "")
    left, _, out = config.partition("->")
    a, comma, b = left.partition(",")
    lhs, rhs = body.operands(op)
    if not comma or not _plain(a, lhs) or not _plain(b, rhs) or len(set(out)) != len(out) or set(out) - set(a + b):
        raise _bad(config)
    lhs, a = _sum_out(body, lhs, a, set(b) | set(out))
    rhs, b = _sum_out(body, rhs, b, set(a) | set(out))
    batch = [c for c in a if c in b and c in out]
    contract = [c for c in a if c in b and c not in out]
    free = [c for c in a if c not in b] + [c for c in b if c not in a]
    attrs = ops.DotAttrs(
        tuple(a.index(c) for c in batch),
        tuple(a.index(c) for c in contract),
        tuple(b.index(c) for c in batch),
        tuple(b.index(c) for c in contract),
        read.precision(op),
    )
    sizes = dict(zip(a + b, (*lhs.shape.dims, *rhs.shape.dims), strict=True))
    got, shape = "".join(batch + free), body.result(op)
    inner = Shape.array(shape.element_type, [sizes[c] for c in got])
    return _permuted(body, body.add(ops.DOT, [lhs, rhs], attrs, shape=inner), got, out, shape)


def unary_einsum(body: Body, op: Operation) -> Result:
    """`ab->b`: sums the labels that the result lacks, then transposes."""
    arity(op, 1)
    config = read.string(op, "einsum_config").replace(" ", "")
    a, _, out = config.partition("->")
    operand = body.get(op.operands[0])
    if not _plain(a, operand) or len(set(out)) != len(out) or set(out) - set(a):
        raise _bad(config)
    summed, kept = _sum_out(body, operand, a, set(out))
    return _permuted(body, summed, kept, out, body.result(op))


def _plain(labels: str, operand: Instruction) -> bool:
    return labels.isalpha() == bool(labels) and len(set(labels)) == len(labels) == operand.shape.rank


def _bad(config: str) -> XylaError:
    if "..." in config:
        return unimplemented(f"einsum with an ellipsis: {config[:60]}")
    return invalid(f"einsum configuration '{config[:60]}' does not fit its operands")


def _sum_out(body: Body, operand: Instruction, labels: str, keep: set[str]) -> tuple[Instruction, str]:
    """Sums the dimensions whose label is not in `keep`."""
    gone = [i for i, c in enumerate(labels) if c not in keep]
    if not gone:
        return operand, labels
    kept = [i for i in range(len(labels)) if i not in gone]
    shape = Shape.array(operand.shape.element_type, [operand.shape.dims[i] for i in kept])
    adder = body.converter.scalar_computation(ops.ADD, shape.element_type)
    zero = body.scalar(0, shape)
    summed = body.add(ops.REDUCE, [operand, zero], ops.ReduceAttrs(tuple(gone)), shape=shape, called=[adder])
    return summed, "".join(labels[i] for i in kept)


def _permuted(body: Body, inst: Instruction, got: str, want: str, shape: Shape) -> Instruction:
    if got == want:
        return inst
    attrs = ops.DimensionsAttrs(tuple(got.index(c) for c in want))
    return body.add(ops.TRANSPOSE, [inst], attrs, shape=shape)
