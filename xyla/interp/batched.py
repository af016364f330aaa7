"""Scalar computations (reducers, comparators, map functions) evaluated on whole arrays at once.

A scalar computation whose instructions are all element-wise does the same thing to every element, so its plan runs on
arrays unchanged. A conditional becomes a select of both branches. What cannot be batched runs element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import Trait
from xyla.interp.plan import Plan, build_plan
from xyla.interp.session import Session
from xyla.interp.table import Array, Kernel, Value
from xyla.support.dtypes import PRED

Batched = Callable[..., Value]
# On scalars these do nothing.
_IDENTITIES = (ops.RESHAPE, ops.COPY, ops.BITCAST, ops.TRANSPOSE, ops.BROADCAST, ops.OPT_BARRIER)
_PLAIN = (ops.TUPLE, ops.GET_TUPLE_ELEMENT, ops.BITCAST_CONVERT)


class _CannotBatch(Exception):
    """Raised while binding: the computation holds something that is not element-wise."""


def batched(comp: Computation, session: Session) -> Batched | None:
    """A function from arrays (one a scalar parameter, broadcastable) to the result array(s), or None."""
    try:
        plan = _plan(comp, session, 0)
    except _CannotBatch:
        return None
    return lambda *xs: run_flat(plan, xs)


def run_flat(plan: Plan, args: tuple[Value, ...]) -> Value:
    """Runs a plan none of whose steps calls."""
    env = plan.bind(args)
    for step in plan.steps:
        env[step.out] = step.kernel(*[env[i] for i in step.ins])
        for i in step.dead:
            env[i] = None
    return env[plan.root]


def _plan(comp: Computation, session: Session, depth: int) -> Plan:
    if depth > 20 or any(not _all_scalar(i) for i in comp.instructions):
        raise _CannotBatch
    return build_plan(comp, lambda inst: _kernel(inst, session, depth), session.effects)


def _all_scalar(inst: Instruction) -> bool:
    return all(s.is_scalar for _, s in inst.shape.leaves())


def _kernel(inst: Instruction, session: Session, depth: int) -> Kernel:
    if inst.op in _IDENTITIES:
        return lambda x: x
    if inst.op.has(Trait.ELEMENTWISE) or inst.op in _PLAIN:
        return session.kernel(inst)
    if inst.op in (ops.CALL, ops.FUSION, ops.MAP):
        plan = _plan(inst.called[0], session, depth + 1)
        return lambda *xs: run_flat(plan, xs)
    if inst.op is ops.CONDITIONAL:
        return _conditional(inst, session, depth)
    raise _CannotBatch


def _conditional(inst: Instruction, session: Session, depth: int) -> Kernel:
    plans = [_plan(c, session, depth + 1) for c in inst.called]
    by_pred = inst.operands[0].shape.element_type is PRED

    def kernel(selector: Array, *args: Value) -> Value:
        results = [run_flat(p, (a,)) for p, a in zip(plans, args, strict=True)]
        out = results[1] if by_pred else results[-1]
        choices = [(selector, results[0])] if by_pred else [(selector == i, r) for i, r in enumerate(results[:-1])]
        for chosen, value in choices:
            out = _select(chosen, value, out)
        return out

    return kernel


def _select(pred: Array, on_true: Value, on_false: Value) -> Value:
    if isinstance(on_true, tuple):
        return tuple(_select(pred, t, f) for t, f in zip(on_true, on_false, strict=True))
    return np.where(pred, on_true, on_false)


def batched_or_loop(comp: Computation, session: Session) -> Batched:
    """`batched`, or a loop over the elements of equally long vectors."""
    fast = batched(comp, session)
    if fast is not None:
        return fast
    shapes = [s for _, s in comp.root.shape.leaves()]

    def slow(*xs: Any) -> Value:
        arrays = np.broadcast_arrays(*xs) if xs else []
        dims = arrays[0].shape if arrays else ()
        outs = [np.empty(dims, s.element_type.np) for s in shapes]
        for index in np.ndindex(*dims):
            result = session.call(comp, [a[index] for a in arrays])
            for out, value in zip(outs, result if isinstance(result, tuple) else (result,), strict=True):
                out[index] = value
        return tuple(outs) if comp.root.shape.is_tuple else outs[0]

    return slow
