"""Control flow: call, fusion, while, conditional, map, async wrappers. Kernels that call are generators (see table).

Spec: XLA operation semantics (Call, While, Conditional, Map).
"""

from __future__ import annotations

import operator
from collections.abc import Generator
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.interp.batched import batched_or_loop
from xyla.interp.session import Session
from xyla.interp.table import EVAL, Array, Kernel, Value
from xyla.support.dtypes import PRED

_Calls = Generator[tuple[Computation, tuple[Value, ...]], Value, Value]
# Results of pure calls kept at once: enough for exponential call graphs of small values, bounded for all others.
_MEMO_LIMIT = 1024
_MEMO_BYTES = 1 << 20


@EVAL.rule(ops.CALL, ops.FUSION)
def _call(inst: Instruction, session: Session) -> Kernel:
    comp = inst.called[0]
    if not _worth_remembering(inst, comp, session):

        def plain(*args: Value) -> _Calls:
            return (yield comp, args)

        return plain

    small = inst.shape.num_bytes + sum(o.shape.num_bytes for o in inst.operands) <= _MEMO_BYTES

    def remembering(*args: Value) -> _Calls:
        """A diamond of calls f -> g, g -> h, h ... is exponential unless each (callee, arguments) runs once."""
        key = (comp, *map(id, args))
        found = session.memo.get(key)
        if found is not None:
            return found[1]
        result = yield comp, args
        if len(session.memo) >= _MEMO_LIMIT:
            session.memo.clear()
        if small:
            session.memo[key] = (args, result)  # holds the arguments, so that their ids stay theirs
        return result

    return remembering


def _worth_remembering(inst: Instruction, comp: Computation, session: Session) -> bool:
    """Called from several places, calls others itself, and nothing in it can be noticed twice."""
    return (
        sum(comp.callers.values()) > 1
        and not session.effects.get(comp, True)
        and any(i.op is ops.CALL for i in comp.instructions)
        and not any(i.op in (ops.RNG, ops.RNG_GET_AND_UPDATE_STATE) for i in comp.instructions)
    )


@EVAL.rule(ops.WHILE)
def _while(inst: Instruction, session: Session) -> Kernel:
    condition, body = inst.role("condition"), inst.role("body")

    def kernel(state: Value) -> _Calls:
        while (yield condition, (state,)):
            state = yield body, (state,)
        return state

    return kernel


@EVAL.rule(ops.CONDITIONAL)
def _conditional(inst: Instruction, session: Session) -> Kernel:
    branches = inst.called
    if inst.operands[0].shape.element_type is PRED:

        def by_pred(pred: Array, on_true: Value, on_false: Value) -> _Calls:
            return (yield (branches[0], (on_true,)) if pred else (branches[1], (on_false,)))

        return by_pred

    def by_index(index: Array, *args: Value) -> _Calls:
        i = int(index)
        if not 0 <= i < len(branches):  # out of range: the last branch
            i = len(branches) - 1
        return (yield branches[i], (args[i],))

    return by_index


@EVAL.rule(ops.MAP)
def _map(inst: Instruction, session: Session) -> Kernel:
    apply = batched_or_loop(inst.called[0], session)

    def kernel(*xs: Array) -> Value:
        dims = xs[0].shape
        out = apply(*[np.asarray(x).reshape(-1) for x in xs])
        if isinstance(out, tuple):
            return tuple(np.broadcast_to(o, xs[0].size).reshape(dims) for o in out)
        return np.broadcast_to(out, xs[0].size).reshape(dims)

    return kernel


@EVAL.rule(ops.ASYNC_START)
def _async_start(inst: Instruction, session: Session) -> Kernel:
    """Runs at once; the value is (operands, result, ...) as the shape says."""
    comp, extra = inst.called[0], len(inst.shape.tuple_shapes) - 2

    def kernel(*args: Value) -> _Calls:
        result = yield comp, args
        return (args, result, *([np.zeros((), np.uint32)] * extra))

    return kernel


@EVAL.rule(ops.ASYNC_UPDATE)
def _async_update(inst: Instruction, session: Session) -> Kernel:
    return lambda x: x


@EVAL.rule(ops.ASYNC_DONE)
def _async_done(inst: Instruction, session: Session) -> Kernel:
    return operator.itemgetter(1)


@EVAL.rule(ops.INFEED)
def _infeed(inst: Instruction, session: Session) -> Kernel:
    def kernel(token: Any) -> Value:
        return (session.host.take_infeed("infeed"), token)

    return kernel


@EVAL.rule(ops.OUTFEED)
def _outfeed(inst: Instruction, session: Session) -> Kernel:
    def kernel(value: Value, token: Any) -> Value:
        session.host.put_outfeed(value)
        return token

    return kernel
