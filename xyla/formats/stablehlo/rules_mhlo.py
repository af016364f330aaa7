"""Custom calls that stand for HLO opcodes: `mhlo.topk`, `mhlo.erf`, ...

Exporters wrote opcodes that StableHLO lacked as custom calls to `mhlo.<op>` with an `mhlo.attributes` dictionary; XLA's
importer turns them back, and so does this one. Source: the targets and attributes seen in exported programs.
"""

from __future__ import annotations

from typing import Any

from xyla.formats.mlir.attributes import Attribute, BoolAttr, DictAttr, IntegerAttr
from xyla.formats.mlir.ir import Operation
from xyla.formats.stablehlo.body import Body, arity
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.support.status import invalid

UNARY: dict[str, OpDef[Any]] = {
    "mhlo.acos": ops.ACOS,
    "mhlo.acosh": ops.ACOSH,
    "mhlo.asin": ops.ASIN,
    "mhlo.asinh": ops.ASINH,
    "mhlo.atanh": ops.ATANH,
    "mhlo.cosh": ops.COSH,
    "mhlo.erf": ops.ERF,
    "mhlo.sinh": ops.SINH,
    "mhlo.tan": ops.TAN,
}
TARGETS = frozenset({*UNARY, "mhlo.topk"})


def opcode_call(body: Body, op: Operation, target: str) -> Instruction:
    """The instruction that a custom call to one of TARGETS stands for."""
    attributes = op.get("mhlo.attributes")
    entries = dict(attributes.entries) if isinstance(attributes, DictAttr) else {}
    unary = UNARY.get(target)
    if unary is not None:
        arity(op, 1)
        return body.add(unary, body.operands(op), ops.UnaryMathAttrs(), shape=body.result(op))
    arity(op, 1, 2)
    attrs = ops.TopKAttrs(_integer(entries, "k"), _boolean(entries, "largest"))
    return body.add(ops.TOPK, body.operands(op), attrs, shape=body.packed_result(op))


def _integer(entries: dict[str, Attribute], key: str) -> int:
    attr = entries.get(key)
    if not isinstance(attr, IntegerAttr):
        raise invalid(f"mhlo.attributes needs '{key}', an integer")
    return attr.value


def _boolean(entries: dict[str, Attribute], key: str) -> bool:
    attr = entries.get(key)
    return attr.value if isinstance(attr, BoolAttr) else True
