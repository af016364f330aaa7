"""While, case and calls of shared functions."""

from __future__ import annotations

from xyla.lowering import lmhlo
from xyla.lowering.lmhlo_to_rt.table import Context, malformed, rule
from xyla.runtime.program import CallStep, SwitchStep, WhileStep


@rule(lmhlo.While)
def _while(op: lmhlo.While, context: Context) -> None:
    """The predicate is read on the host after each run of the condition."""
    if op.predicate.type.dtype != bool or op.predicate.type.num_bytes != 1:
        raise malformed(op, "the predicate must be one i1")
    name = op.name or op.mnemonic
    condition, body = context.block(f"{name}.condition", op.condition), context.block(f"{name}.body", op.body)
    context.out.append(WhileStep(name, condition, context.slice(op.predicate), body))


@rule(lmhlo.Case)
def _case(op: lmhlo.Case, context: Context) -> None:
    """By a predicate (true is branch 0) or an s32, of which all that is out of range is the last branch."""
    kind = op.index.type
    is_predicate = kind.dtype == bool
    if kind.num_bytes != kind.dtype.itemsize or not (is_predicate or kind.dtype == "int32"):
        raise malformed(op, "the index must be one i1 or one i32")
    if not op.branches or (is_predicate and len(op.branches) != 2):
        raise malformed(op, f"{len(op.branches)} branches: a predicate chooses between two, an index has one at least")
    name = op.name or op.mnemonic
    branches = tuple(context.block(f"{name}.branch{i}", b) for i, b in enumerate(op.branches))
    context.out.append(SwitchStep(name, context.slice(op.index), is_predicate, branches))


@rule(lmhlo.Call)
def _call(op: lmhlo.Call, context: Context) -> None:
    """The function's sequence is lowered once, whoever calls it."""
    steps = context.functions.get(op.callee)
    if steps is None:
        callee = context.module.function(op.callee)
        if callee is None:
            raise malformed(op, f"there is no function @{op.callee}")
        caller, context.function = context.function, callee
        steps = context.functions[op.callee] = context.block(op.callee, callee.body)
        context.function = caller
    pairs = zip(op.sources, op.targets, strict=True)
    moves = tuple((context.slice(s), context.slice(t)) for s, t in pairs if s.slice.size)
    context.out.append(CallStep(op.name or op.mnemonic, steps, moves, op.pure))
