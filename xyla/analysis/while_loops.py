"""What is known of a while loop: the counter it runs on and how often its body runs."""

from __future__ import annotations

from dataclasses import dataclass

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection as Direction
from xyla.hlo.module import Computation, Instruction
from xyla.support.dtypes import ElementType

_SWAPPED = {
    Direction.LT: Direction.GT,
    Direction.LE: Direction.GE,
    Direction.GT: Direction.LT,
    Direction.GE: Direction.LE,
    Direction.EQ: Direction.EQ,
    Direction.NE: Direction.NE,
}
_NEGATED = {
    Direction.LT: Direction.GE,
    Direction.LE: Direction.GT,
    Direction.GT: Direction.LE,
    Direction.GE: Direction.LT,
    Direction.EQ: Direction.NE,
    Direction.NE: Direction.EQ,
}


@dataclass(frozen=True, slots=True)
class Induction:
    """A counter: state element `index` starts at `init`, grows by `step` each time, and the loop runs `trips` times.

    The loop's condition depends on nothing else. `last` is the counter's value after the loop; no value on the way
    overflows the counter's type.
    """

    index: int
    init: int
    step: int
    trips: int

    @property
    def last(self) -> int:
        """The counter's value after the loop."""
        return self.init + self.trips * self.step


def is_canonical(inst: Instruction) -> bool:
    """Whether a while carries a tuple that its computations only take apart, and that its body builds at its end."""
    if inst.op is not ops.WHILE or not inst.shape.is_tuple:
        return False
    cond, body = inst.called
    whole = body.root.op is ops.TUPLE and len(body.root.operands) == len(inst.shape.tuple_shapes)
    return whole and _takes_apart(cond) and _takes_apart(body)


def _takes_apart(comp: Computation) -> bool:
    (param,) = comp.parameters
    return not param.is_root and all(u.op is ops.GET_TUPLE_ELEMENT for u in param.users)


def state_elements(comp: Computation) -> dict[int, list[Instruction]]:
    """By state index, the instructions that read that element of the parameter of a loop's body or condition."""
    found: dict[int, list[Instruction]] = {}
    for user in comp.parameters[0].users:
        if user.op is ops.GET_TUPLE_ELEMENT:
            found.setdefault(user.attrs.index, []).append(user)
    return found


def reads_state(inst: Instruction) -> int | None:
    """The index i when `inst` is element i of its computation's only parameter, else None."""
    if inst.op is not ops.GET_TUPLE_ELEMENT:
        return None
    source = inst.operands[0]
    return int(inst.attrs.index) if source.op is ops.PARAMETER and source.attrs.number == 0 else None


def initial_value(loop: Instruction, index: int) -> Instruction | None:
    """The instruction that gives state element `index` its first value, when the initial tuple is built in view."""
    init = loop.operands[0]
    return init.operands[index] if init.op is ops.TUPLE else None


def invariant_indices(loop: Instruction) -> list[int]:
    """State elements that a canonical loop's body passes through unchanged."""
    root = loop.called[1].root
    return [i for i, value in enumerate(root.operands) if reads_state(value) == i]


def integer_constant(inst: Instruction) -> int | None:
    """The value of a scalar integer constant, else None."""
    inst = _without_copies(inst)
    if inst.op is not ops.CONSTANT or not inst.shape.is_scalar or not inst.shape.element_type.is_integer:
        return None
    literal = inst.attrs.literal
    return None if literal.elided else int(literal.array[()])


def value_limits(element_type: ElementType) -> tuple[int, int]:
    """The least and greatest value of an integer element type."""
    if element_type.is_signed:
        return -(1 << (element_type.bits - 1)), (1 << (element_type.bits - 1)) - 1
    return 0, (1 << element_type.bits) - 1


def find_induction(loop: Instruction) -> Induction | None:
    """The counter of a loop `for (i = init; i OP bound; i += step)` with constant parts, or None.

    Trip counts round up. A loop whose counter would overflow, or that never ends, has none.
    """
    if not is_canonical(loop):
        return None
    test = _test(loop)
    if test is None:
        return None
    index, bound, direction = test
    step = constant_step(loop, index)
    start = initial_value(loop, index)
    init = integer_constant(start) if start is not None else None
    if step is None or init is None:
        return None
    trips = count_trips(init, bound, step, direction)
    if trips is None:
        return None
    low, high = value_limits(loop.shape.tuple_shapes[index].element_type)
    last = init + trips * step
    return Induction(index, init, step, trips) if low <= last <= high else None


def counter_index(loop: Instruction) -> int | None:
    """The state element a canonical loop counts with in constant steps, whether or not its trip count is known."""
    if not is_canonical(loop):
        return None
    test = _test(loop)
    return None if test is None or constant_step(loop, test[0]) is None else test[0]


def _test(loop: Instruction) -> tuple[int, int, Direction] | None:
    """(state index, bound, direction) of a condition that compares a counter with a constant."""
    root = loop.called[0].root
    negated = root.op is ops.NOT
    if negated:
        root = root.operands[0]
    if root.op is not ops.COMPARE or not root.operands[0].shape.element_type.is_integer:
        return None
    direction = _NEGATED[root.attrs.direction] if negated else root.attrs.direction
    left, right = (_without_copies(o) for o in root.operands)
    bound = _constant_in_loop(loop, right)
    if bound is None:
        left, right, direction = right, left, _SWAPPED[direction]
        bound = _constant_in_loop(loop, right)
    index = reads_state(left)
    return None if index is None or bound is None else (index, bound, direction)


def constant_step(loop: Instruction, index: int) -> int | None:
    """The constant by which a canonical loop's body changes state element `index`, else None. Overflow wraps."""
    update = _without_copies(loop.called[1].root.operands[index])
    if update.op not in (ops.ADD, ops.SUBTRACT):
        return None
    left, right = (_without_copies(o) for o in update.operands)
    if reads_state(left) == index:
        amount = _constant_in_loop(loop, right)
    elif update.op is ops.ADD and reads_state(right) == index:
        amount = _constant_in_loop(loop, left)
    else:
        return None
    if amount is None:
        return None
    return amount if update.op is ops.ADD else -amount


def _constant_in_loop(loop: Instruction, inst: Instruction) -> int | None:
    """The value of a constant in the body or condition, also one that the loop carries along unchanged."""
    value = integer_constant(inst)
    if value is not None:
        return value
    index = reads_state(inst)
    if index is None or reads_state(_without_copies(loop.called[1].root.operands[index])) != index:
        return None
    start = initial_value(loop, index)
    return integer_constant(start) if start is not None else None


def _without_copies(inst: Instruction) -> Instruction:
    while inst.op is ops.COPY:
        inst = inst.operands[0]
    return inst


def count_trips(init: int, bound: int, step: int, direction: Direction) -> int | None:
    """How often `for (i = init; i direction bound; i += step)` runs; None when it does not end (or needs overflow)."""
    if not _holds(init, bound, direction):
        return 0
    if direction is Direction.EQ:
        return 1 if step else None
    if direction is Direction.NE:
        return (bound - init) // step if step and (bound - init) % step == 0 and (bound - init) // step > 0 else None
    away = step <= 0 if direction in (Direction.LT, Direction.LE) else step >= 0
    if away:
        return None
    distance = abs(bound - init) + (direction in (Direction.LE, Direction.GE))
    return -(-distance // abs(step))


def _holds(left: int, right: int, direction: Direction) -> bool:
    return {
        Direction.LT: left < right,
        Direction.LE: left <= right,
        Direction.GT: left > right,
        Direction.GE: left >= right,
        Direction.EQ: left == right,
        Direction.NE: left != right,
    }[direction]


def decides(values: range, bound: int, direction: Direction) -> bool | None:
    """What `v direction bound` is for every v in `values` (not empty), or None when it depends on v."""
    ends = (values[0], values[-1])
    if direction in (Direction.EQ, Direction.NE):
        if bound not in values:
            return direction is Direction.NE
        return (direction is Direction.EQ) if len(values) == 1 else None
    first, last = (_holds(v, bound, direction) for v in ends)
    return first if first == last else None
