"""Which array each part of each instruction's result is: values, where they lie, who reads them.

SSA with phis, as XLA's HloDataflowAnalysis in its SSA form. Only array leaves carry values, and buffers `b(f32[8])` the
array in them; tuples, bitcasts and such only name them. A leaf is named by its number in `shape.leaves()` order.

    body(p: (s32[], f32[8])) -> (add(p.0, 1), p.1)
    ROOT w = while((zero, x))            w.0 is a phi of zero and the add; w.1 is x itself: no trip changes it

Values are followed through calls, loops and branches that have one site; a shared computation's parameters and results
are values of their own (see `call_graph`). Iterative, near linear in the number of leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xyla.analysis.call_graph import CONTROL_OPS, CallGraph
from xyla.analysis.leaves import LeafIndex
from xyla.analysis.nesting import Nested, drive
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import OpDef, Trait
from xyla.hlo.shape import Shape


@dataclass(frozen=True, slots=True)
class Use:
    """`instruction` reads the value: leaf `operand_leaf` of its operand `operand_number`."""

    instruction: Instruction
    operand_number: int
    operand_leaf: int


class Value:
    """One array, defined once (in SSA terms). Equal by identity.

    instruction, leaf: what defines it. shape: the array's. is_phi: a while or conditional merges `inputs` into it.
    positions: where it can be found, the definition first. uses: which operands read it; passing it on is no use, nor
    is being a root (a loop's predicate, its next state, a program's output).
    """

    __slots__ = ("id", "inputs", "instruction", "is_phi", "leaf", "positions", "shape", "uses")

    def __init__(self, instruction: Instruction, leaf: int, shape: Shape, *, is_phi: bool = False) -> None:
        self.id = -1
        self.instruction = instruction
        self.leaf = leaf
        self.shape = shape
        self.is_phi = is_phi
        self.inputs: list[Value] = []
        self.positions: list[tuple[Instruction, int]] = []
        self.uses: list[Use] = []

    @property
    def size(self) -> int:
        """Bytes, dynamic dimensions at their bound."""
        return self.shape.num_bytes

    @property
    def name(self) -> str:
        """For messages and dumps: `%while.3{1}`."""
        return f"%{self.instruction.name}" + (f"{{{self.leaf}}}" if self.instruction.shape.is_tuple else "")

    def __repr__(self) -> str:
        return f"<value {self.id} {self.name} {self.shape}{' phi' if self.is_phi else ''}>"


Leaves = tuple[Value | None, ...]  # one an array leaf, in order; None for tokens, opaques and async contexts

# The result is operand 0, leaf for leaf.
_FORWARDERS: frozenset[OpDef[Any]] = frozenset({
    ops.OPT_BARRIER, ops.DOMAIN, ops.ADD_DEPENDENCY, ops.BITCAST, ops.RESHAPE, ops.ASYNC_UPDATE, ops.ALL_REDUCE_DONE,
})  # fmt: skip
# The result is element N of operand 0.
_ELEMENTS: dict[OpDef[Any], int] = {
    ops.ASYNC_DONE: 1, ops.COPY_DONE: 0, ops.ALL_GATHER_DONE: 1, ops.COLLECTIVE_PERMUTE_DONE: 1,
}  # fmt: skip
# Element N of the result is the operands, one after the other; the instruction defines the rest.
OPERANDS_IN: dict[OpDef[Any], int] = {
    ops.COPY_START: 1, ops.ALL_GATHER_START: 0, ops.COLLECTIVE_PERMUTE_START: 0, ops.SEND: 0,
}  # fmt: skip
# They read none of their operands' arrays.
_NO_READERS: frozenset[OpDef[Any]] = frozenset({
    ops.TUPLE, ops.GET_TUPLE_ELEMENT, ops.AFTER_ALL, ops.ASYNC_UPDATE, ops.OPT_BARRIER, ops.DOMAIN, ops.ADD_DEPENDENCY,
})  # fmt: skip


def is_row_major(shape: Shape) -> bool:
    """Whether memory order is dimension order (also when no layout is chosen)."""
    order = shape.layout.minor_to_major if shape.layout else None
    return order is None or order == tuple(range(shape.rank - 1, -1, -1))


def forwards(inst: Instruction) -> bool:
    """Whether `inst`'s result is its first operand, byte for byte, with no work to do (a bitcast, a relabelling)."""
    if inst.op not in _FORWARDERS:
        return False
    if inst.op is ops.BITCAST:
        return inst.shape.num_bytes == inst.operands[0].shape.num_bytes
    if inst.op is ops.RESHAPE:
        return is_row_major(inst.shape) and is_row_major(inst.operands[0].shape)
    return True


class Dataflow:
    """The values of a module's control-flow computations. A snapshot: make a new one after a change.

    all_values: in the order of their ids, deterministic. graph: the call graph it rests on.
    """

    def __init__(self, module: Module, graph: CallGraph | None = None) -> None:
        self.module = module
        self.graph = graph or CallGraph(module)
        self.index = LeafIndex()
        self.all_values: list[Value] = []
        self._values: dict[Instruction, Leaves] = {}
        self._same: dict[Value, Value] = {}
        self._walked: list[list[Instruction]] = []
        for comp in self.graph.regions:
            parameters = [self._define(p) for p in comp.parameters]
            drive(self._walk(comp, parameters))
        self._settle()

    # -- questions ---------------------------------------------------------------------------------------------------

    def values(self, inst: Instruction) -> Leaves:
        """The value of each leaf of an instruction of a control-flow computation. Raises KeyError for others."""
        return self._values[inst]

    def value(self, inst: Instruction, leaf: int = 0) -> Value:
        """The value of one array leaf. Raises KeyError when that leaf carries none."""
        found = self._values[inst][leaf]
        if found is None:
            raise KeyError(f"%{inst.name} has no array at leaf {leaf}")
        return found

    def defines(self, inst: Instruction) -> tuple[Value | None, ...]:
        """Leaf by leaf, the value where `inst` itself defines it, None where it only passes one on (or none is)."""
        return tuple(v if v is not None and v.instruction is inst else None for v in self._values[inst])

    def __contains__(self, inst: object) -> bool:
        return inst in self._values

    # -- finding values ----------------------------------------------------------------------------------------------

    def _walk(self, comp: Computation, parameters: list[Leaves]) -> Nested:
        """Values of one computation (and of those entered from it); returns the root's."""
        order = comp.post_order()
        values = self._values
        for inst in order:
            if inst.op in CONTROL_OPS:
                values[inst] = yield self._enter(inst)
            elif inst.op is ops.PARAMETER:
                values[inst] = parameters[inst.attrs.number]
            else:
                values[inst] = self._local(inst)
        self._walked.append(order)
        return values[comp.root]

    def _local(self, inst: Instruction) -> Leaves:
        values, op = self._values, inst.op
        if op is ops.TUPLE:
            return tuple(v for o in inst.operands for v in values[o])
        if op is ops.GET_TUPLE_ELEMENT:
            return self.index.element(inst.operands[0].shape, values[inst.operands[0]], inst.attrs.index)
        if forwards(inst):
            return values[inst.operands[0]]
        if op in _ELEMENTS:
            return self.index.element(inst.operands[0].shape, values[inst.operands[0]], _ELEMENTS[op])
        if op is ops.RECV_DONE:
            return (*self.index.element(inst.operands[0].shape, values[inst.operands[0]], 0), None)
        if op in OPERANDS_IN and inst.shape.is_tuple:
            return self._started(inst, OPERANDS_IN[op])
        return self._define(inst)

    def _started(self, inst: Instruction, element: int) -> Leaves:
        """The result of a start op: its operands in one element, what it defines in the others."""
        operands = tuple(v for o in inst.operands for v in self._values[o])
        starts = self.index.starts(inst.shape)
        first, end = starts[element], starts[element + 1]
        leaves = self._define(inst)
        return (*leaves[:first], *operands[: end - first], *leaves[end:])

    def _define(self, inst: Instruction, *, is_phi: bool = False) -> Leaves:
        if inst.shape.is_array:
            return (Value(inst, 0, inst.shape, is_phi=is_phi),)
        leaves = ((i, s.tuple_shapes[0] if s.is_buffer else s) for i, (_, s) in enumerate(inst.shape.leaves()))
        return tuple(Value(inst, i, s, is_phi=is_phi) if s.is_array else None for i, s in leaves)

    # -- control flow ------------------------------------------------------------------------------------------------

    def _enter(self, inst: Instruction) -> Nested:
        if inst.op is ops.WHILE:
            return self._while(inst)
        if inst.op is ops.CONDITIONAL:
            return self._conditional(inst)
        return self._call(inst)

    def _call(self, inst: Instruction) -> Nested:
        """call, or async-start, whose tuple is (operands, result, contexts)."""
        (callee,) = inst.called
        operands = [self._values[o] for o in inst.operands]
        shared = self.graph.is_shared(callee)
        if inst.op is ops.CALL:
            return self._define(inst) if shared else (yield self._walk(callee, operands))
        first, end, total = (*self.index.starts(inst.shape)[1:3], self.index.starts(inst.shape)[-1])
        result = self._define(inst)[first:end] if shared else (yield self._walk(callee, operands))
        return (*(v for leaves in operands for v in leaves), *result, *(None for _ in range(total - end)))

    def _while(self, inst: Instruction) -> Nested:
        condition, body = inst.called
        init = [self._resolve(v) for v in self._values[inst.operands[0]]]
        made = zip(self._define(inst, is_phi=True), init, strict=True)
        phis = tuple(None if old is None else phi for phi, old in made)
        for phi, old in zip(phis, init, strict=True):
            if phi is not None and old is not None:
                phi.inputs.append(old)
        root: Leaves = phis
        if not self.graph.is_shared(condition):
            yield self._walk(condition, [phis])
        if not self.graph.is_shared(body):
            root = yield self._walk(body, [phis])
            copied = self.graph.is_shared(condition)
            for phi, old, new in zip(phis, init, (self._resolve(v) for v in root), strict=True):
                if phi is None or old is None or new is None:
                    continue
                if not copied and (new is phi or new is old):
                    self._same[phi] = old
                elif new is not phi and new is not old:
                    phi.inputs.append(new)
        return phis

    def _conditional(self, inst: Instruction) -> Nested:
        roots: list[Leaves] = []
        for branch, argument in zip(inst.called, inst.operands[1:], strict=True):
            if not self.graph.is_shared(branch):
                parameters = [self._values[argument]] if branch.parameters else []
                root: Leaves = yield self._walk(branch, parameters)
                roots.append(tuple(self._resolve(v) for v in root))
        complete = len(roots) == len(inst.called)
        given = {self._resolve(v) for v in self._values[inst.operands[1]]}
        leaves: list[Value | None] = []
        for i, phi in enumerate(self._define(inst, is_phi=True)):
            inputs = list(dict.fromkeys(root[i] for root in roots))
            if phi is None or None in inputs:
                leaves.append(None)
            elif complete and len(inputs) == 1 and (len(roots) > 1 or inputs[0] in given):
                # No branch computes it.
                leaves.append(inputs[0])
            else:
                phi.inputs.extend(v for v in inputs if v is not None)
                leaves.append(phi)
        return tuple(leaves)

    def _resolve(self, value: Value | None) -> Value | None:
        """The value itself, or what a phi turned out to be."""
        if value is None or value not in self._same:
            return value
        chain = []
        while value in self._same:
            chain.append(value)
            value = self._same[value]
        for v in chain:
            self._same[v] = value
        return value

    # -- positions and uses ------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Numbers the values and fills in positions and uses, now that it is known which phis there are."""
        for order in self._walked:
            for inst in order:
                leaves = self._values[inst] = tuple(self._resolve(v) for v in self._values[inst])
                for leaf, value in enumerate(leaves):
                    if value is not None:
                        self._position(value, inst, leaf)
        for order in self._walked:
            for inst in order:
                self._uses(inst)
        for value in self.all_values:
            if value.is_phi:
                inputs = (self._resolve(v) for v in value.inputs)
                value.inputs = list(dict.fromkeys(v for v in inputs if v is not None and v is not value))

    def _position(self, value: Value, inst: Instruction, leaf: int) -> None:
        if value.id < 0:
            value.id = len(self.all_values)
            self.all_values.append(value)
            value.positions.append((value.instruction, value.leaf))
        if inst is not value.instruction or leaf != value.leaf:
            value.positions.append((inst, leaf))

    def _uses(self, inst: Instruction) -> None:
        if not inst.operands or inst.op in _NO_READERS or (forwards(inst) and not inst.op.has(Trait.ASYNC_DONE)):
            return
        if inst.op is ops.ASYNC_DONE and self._waits_nearby(inst):
            return
        for number, operand in enumerate(inst.operands):
            leaves = self._values[operand]
            for leaf, value in enumerate(leaves):
                if value is not None and self._reads(inst, number, leaf):
                    value.uses.append(Use(inst, number, leaf))

    @staticmethod
    def _waits_nearby(inst: Instruction) -> bool:
        """An async-done of an async-start beside it only hands on the result. Others read all that was started with."""
        while inst.op in (ops.ASYNC_DONE, ops.ASYNC_UPDATE):
            inst = inst.operands[0]
        return inst.op is ops.ASYNC_START

    def _reads(self, inst: Instruction, number: int, leaf: int) -> bool:
        """Whether `inst` itself reads that leaf, rather than handing it to what it enters."""
        if inst.op is ops.WHILE:
            value = self._values[inst][leaf]
            return value is not None and value.instruction is inst
        if inst.op is ops.CONDITIONAL:
            return number == 0 or self.graph.is_shared(inst.called[number - 1])
        if inst.op in CONTROL_OPS:
            return self.graph.is_shared(inst.called[0])
        return True
