"""Called computations (reducers, comparators, combiners, map bodies) written inline on element values.

Everything in such a computation that holds one element is treated as a scalar, whatever its rank. Branches and loops
become LLVM control flow, which needs one-lane values: with more, `NeedScalarError` asks for a scalar kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xyla.codegen.elements import ELEMENT, element_constant
from xyla.codegen.llvm import Cx, Val, Value
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.support import dtypes
from xyla.support.status import unimplemented

if TYPE_CHECKING:
    from xyla.codegen.fused import Emitter, Values

MAX_DEPTH = 40
# Calls are written inline, so that a call graph that branches at every level would grow without bound.
MAX_STEPS = 20_000
_SAME_ELEMENT = frozenset(
    (ops.COPY, ops.RESHAPE, ops.BROADCAST, ops.TRANSPOSE, ops.REVERSE, ops.SLICE, ops.OPT_BARRIER, ops.BITCAST)
)


def call(em: Emitter, comp: Computation, args: Sequence[Values], depth: int = 0) -> Values:
    """The value of a computation's root for argument values. Raises UNIMPLEMENTED for ops on whole arrays."""
    if depth > MAX_DEPTH:
        raise unimplemented(f"element code for calls nested more than {MAX_DEPTH} deep")
    values: dict[Instruction, Values] = {}
    for p, a in zip(comp.parameters, args, strict=True):
        values[p] = a
    needed = comp.reachable_from_root()
    for inst in comp.post_order():
        if inst in needed and inst not in values:
            em.called += 1
            if em.called > MAX_STEPS:
                raise unimplemented(f"element code for more than {MAX_STEPS} instructions of called computations")
            values[inst] = _step(em, inst, [values[o] for o in inst.operands], depth)
    return values[comp.root]


def _step(em: Emitter, inst: Instruction, args: list[Any], depth: int) -> Values:
    op = inst.op
    for _, leaf in inst.shape.leaves():
        if not leaf.is_array or leaf.num_elements != 1:
            raise unimplemented(f"element code for {op.name!r} of shape {inst.shape}", span=inst.span)
    if op in _SAME_ELEMENT and inst.operands[0].shape.num_elements == 1:
        return args[0]  # type: ignore[no-any-return]
    if op in ELEMENT:
        return em.element(inst, args)
    if op is ops.CONSTANT:
        return element_constant(inst.shape.element_type, inst.attrs.literal.first)
    if op is ops.TUPLE:
        return tuple(args)
    if op is ops.GET_TUPLE_ELEMENT:
        return args[0][inst.attrs.index]  # type: ignore[no-any-return]
    if op is ops.IOTA:
        return element_constant(inst.shape.element_type, 0)
    if op is ops.CALL or op is ops.FUSION or op is ops.MAP:
        return call(em, inst.called[0], args, depth + 1)
    if op is ops.REDUCE:
        return _reduce_of_one(em, inst, args, depth)
    if op is ops.CONDITIONAL:
        return _conditional(em, inst, args, depth)
    if op is ops.WHILE:
        return _while(em, inst, args[0], depth)
    raise unimplemented(f"element code for {op.name!r} in a called computation", span=inst.span)


def _reduce_of_one(em: Emitter, inst: Instruction, args: list[Any], depth: int) -> Values:
    """Reducing a single element applies the reducer once, to the initial value and the element."""
    n = len(args) // 2
    if any(o.shape.num_elements != 1 for o in inst.operands):
        raise unimplemented("element code for a reduction of several elements", span=inst.span)
    return call(em, inst.called[0], [*args[n:], *args[:n]], depth + 1)


def _conditional(em: Emitter, inst: Instruction, args: list[Any], depth: int) -> Values:
    selector, branches = args[0], inst.called
    if inst.operands[0].shape.element_type is dtypes.PRED:
        picks = [selector]
    else:
        # Out of range means the last branch.
        picks = [em.b.icmp("eq", selector, k) for k in range(len(branches) - 1)]
    _one_lane(picks)
    return _branch(em, inst, args, picks, 0, depth)


def _branch(em: Emitter, inst: Instruction, args: list[Any], picks: list[Val], k: int, depth: int) -> Values:
    if k == len(picks):
        return call(em, inst.called[k], _branch_args(inst, args, k), depth + 1)
    shape: list[Any] = []

    def then() -> list[Value]:
        with em.scope():
            value = call(em, inst.called[k], _branch_args(inst, args, k), depth + 1)
            shape.append(value)
            return flatten(value)

    def orelse() -> list[Value]:
        with em.scope():
            return flatten(_branch(em, inst, args, picks, k + 1, depth))

    out = em.b.cond(picks[k], then, orelse)
    return like(shape[0], out)


def _branch_args(inst: Instruction, args: list[Any], k: int) -> list[Any]:
    return [args[k + 1]] if inst.called[k].parameters else []


def _while(em: Emitter, inst: Instruction, init: Values, depth: int) -> Values:
    flat = flatten(init)
    _one_lane(flat)
    condition, body = inst.role("condition"), inst.role("body")

    def test(state: list[Value]) -> Val:
        with em.scope():
            return call(em, condition, [like(init, state)], depth + 1)  # type: ignore[return-value]

    def step(state: list[Value]) -> list[Value]:
        with em.scope():
            return flatten(call(em, body, [like(init, state)], depth + 1))

    return like(init, em.b.while_loop(flat, test, step))


def _one_lane(values: Sequence[Value]) -> None:
    from xyla.codegen.fused import NeedScalarError

    for v in values:
        if (v.re if isinstance(v, Cx) else v).lanes != 1:
            raise NeedScalarError


def flatten(value: Values) -> list[Value]:
    """The element values of a (nested) tuple, in order."""
    if isinstance(value, tuple):
        return [leaf for v in value for leaf in flatten(v)]
    return [value]


def like(model: Values, flat: Sequence[Value]) -> Values:
    """The inverse of `flatten`, with the nesting of `model`."""
    it = iter(flat)

    def build(m: Values) -> Values:
        return tuple(build(v) for v in m) if isinstance(m, tuple) else next(it)

    return build(model)
