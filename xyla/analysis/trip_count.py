"""Trip counts of loops that count in no pattern we know, by running what decides them for a bounded number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xyla.analysis.cost import Work
from xyla.analysis.purity import Purity
from xyla.analysis.while_loops import initial_value, is_canonical, reads_state
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import OpDef
from xyla.support.dtypes import F32, F64, PRED

# Gives an instruction's value for its operands' values: the evaluator, which lies above this package.
Evaluate = Callable[[Instruction, Sequence[Any]], Any]

# XLA's limit (ComputeWhileLoopTripCount, max_brute_force_iters).
MAX_STEPS = 128
# Scalar operations of one step, by the estimate of `analysis.cost`: about forty instructions on scalars.
MAX_STEP_WORK = 20_000

# Ops on floats whose result every target rounds alike; of others a last bit might decide whether a loop goes on.
_EXACT: frozenset[OpDef[Any]] = frozenset({
    ops.CONSTANT, ops.ADD, ops.SUBTRACT, ops.MULTIPLY, ops.DIVIDE, ops.NEGATE, ops.ABS, ops.MAXIMUM, ops.MINIMUM,
    ops.COMPARE, ops.SELECT, ops.CONVERT, ops.FLOOR, ops.CEIL, ops.SIGN, ops.IS_FINITE, ops.CLAMP, ops.COPY,
    ops.BROADCAST, ops.RESHAPE, ops.TRANSPOSE, ops.SLICE, ops.DYNAMIC_SLICE, ops.DYNAMIC_UPDATE_SLICE,
    ops.CONCATENATE, ops.BITCAST_CONVERT, ops.IOTA, ops.PAD, ops.REVERSE, ops.GATHER, ops.TUPLE,
    ops.GET_TUPLE_ELEMENT,
})  # fmt: skip


def count_by_running(loop: Instruction, evaluate: Evaluate, max_steps: int = MAX_STEPS) -> int | None:
    """How often a canonical loop runs, found by running the state its condition depends on; None when not found.

    That state must start as constants and depend on nothing else that the loop carries, its computation must be
    pure, exact on every target, and cheap (`MAX_STEP_WORK`), and the loop must end within `max_steps` steps. Overflow
    wraps as it does in the program. Source: XLA's ComputeWhileLoopTripCount, which runs one counter.
    """
    if not is_canonical(loop):
        return None
    driver = _Driver.of(loop)
    if driver is None:
        return None
    for trips in range(max_steps + 1):
        if not driver.goes_on(evaluate):
            return trips
        if trips < max_steps:
            driver.step(evaluate)
    return None


@dataclass(slots=True)
class _Driver:
    """The part of a loop that decides when it ends: its state now, the test, and the update with its results."""

    state: dict[int, Any]
    test: list[Instruction]
    update: list[Instruction]
    goal: Instruction
    results: dict[int, Instruction]

    @staticmethod
    def of(loop: Instruction) -> _Driver | None:
        """None when it depends on more than constants, or is not fit to be run."""
        cond, body = loop.called
        test = _needed([cond.root])
        needed = set(_reads(test))
        size = -1
        update: list[Instruction] = []
        while size != len(needed):  # at most once for each element of the state
            size = len(needed)
            update = _needed([body.root.operands[i] for i in sorted(needed)])
            needed.update(_reads(update))
        state = {i: _constant(initial_value(loop, i)) for i in sorted(needed)}
        if any(value is None for value in state.values()) or not _fit([*test, *update]):
            return None
        return _Driver(state, test, update, cond.root, {i: body.root.operands[i] for i in state})

    def goes_on(self, evaluate: Evaluate) -> bool:
        """The condition's value."""
        return bool(self._run(self.test, evaluate)[self.goal])

    def step(self, evaluate: Evaluate) -> None:
        """Runs the body's part once."""
        values = self._run(self.update, evaluate)
        self.state = {i: values[result] for i, result in self.results.items()}

    def _run(self, order: list[Instruction], evaluate: Evaluate) -> dict[Instruction, Any]:
        values: dict[Instruction, Any] = {}
        for inst in order:
            index = reads_state(inst)
            values[inst] = (
                self.state[index] if index is not None else evaluate(inst, [values[o] for o in inst.operands])
            )
        return values


def _needed(roots: Sequence[Instruction]) -> list[Instruction]:
    """What `roots` need, operands first, down to the elements of the state. Iterative."""
    done: dict[Instruction, None] = {}
    stack = [(r, False) for r in reversed(roots)]
    while stack:
        inst, ready = stack.pop()
        if inst in done:
            continue
        if ready or reads_state(inst) is not None:
            done[inst] = None
            continue
        stack.append((inst, True))
        stack.extend((o, False) for o in reversed(inst.operands))
    return list(done)


def _reads(order: Sequence[Instruction]) -> list[int]:
    return [index for inst in order if (index := reads_state(inst)) is not None]


def _fit(order: Sequence[Instruction]) -> bool:
    """Whether instructions may be run here: pure, cheap, of a value that does not depend on the target."""
    purity, work, total = Purity(), Work(), 0
    for inst in order:
        if reads_state(inst) is not None:
            continue
        if inst.op is ops.PARAMETER or inst.op is ops.CUSTOM_CALL or not purity.pure(inst) or inst.shape.is_dynamic:
            return False
        if inst.op is ops.PARTITION_ID or inst.op is ops.REPLICA_ID or (inst.op is ops.CONSTANT and _elided(inst)):
            return False
        if not _integral(inst) and (inst.op not in _EXACT or _narrow(inst)):
            return False
        total += work.of(inst)
        if total > MAX_STEP_WORK:
            return False
    return True


def _integral(inst: Instruction) -> bool:
    """Whether an op computes on integers and truth values only, in no callee."""
    shapes = [inst.shape, *(o.shape for o in inst.operands)]
    return not inst.called and all(s.element_type.is_integer or s.element_type is PRED for s in shapes)


def _narrow(inst: Instruction) -> bool:
    """Whether an op rounds to a narrow float: what is computed between two roundings may be wider on a target."""
    return any(s.element_type.is_float and s.element_type not in (F32, F64) for _, s in inst.shape.leaves())


def _elided(inst: Instruction) -> bool:
    return bool(inst.attrs.literal.elided)


def _constant(inst: Instruction | None) -> Any:
    """The value of a constant array, also behind copies; None for anything else."""
    while inst is not None and inst.op is ops.COPY:
        (inst,) = inst.operands
    if inst is None or inst.op is not ops.CONSTANT or not inst.shape.is_array or _elided(inst):
        return None
    return inst.attrs.literal.array
