"""HLO -> runtime program: walks computations in execution order, plans buffers, emits steps.

Only call, while, conditional and async wrappers are entered; every other instruction is one unit of work that the
target turns into a kernel, a library call or a handler. The walk is a trampoline over generators: call nesting costs
no Python stack. See `xyla.buffers.plan` for where values live.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from xyla.analysis.purity import Purity
from xyla.buffers.plan import Buffer, Frame, Leaves, Plan, forwards
from xyla.codegen.kernel import KernelSpec
from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Shape
from xyla.lowering.arrays import array_type, physical_bytes, retiles, row_major
from xyla.lowering.units import HandlerUnit, Unit
from xyla.runtime.objects import KernelSource
from xyla.runtime.program import (
    AllocationKind,
    Argument,
    CallStep,
    CopyStep,
    CustomCallStep,
    GemmCall,
    GemmStep,
    KernelStep,
    Output,
    Program,
    Slice,
    Step,
    StepList,
    SwitchStep,
    WhileStep,
)
from xyla.support.status import unimplemented

EmitUnit = Callable[[Instruction], Unit]
Lowering = Generator["Lowering", Any, Any]

# Their called computations become part of the program; all others are units of work.
_ENTERED: frozenset[OpDef[Any]] = frozenset({ops.CALL, ops.WHILE, ops.CONDITIONAL, ops.ASYNC_START})


class Lowerer:
    """One lowering. `emit` is the target's: what to do for one instruction."""

    def __init__(self, module: Module, emit: EmitUnit) -> None:
        self.module = module
        self.plan = Plan()
        self.kernels: dict[str, int] = {}
        self.sources: dict[str, KernelSource] = {}
        self.units: list[tuple[Instruction, Unit]] = []
        self.temp_bytes = 0
        self._emit = emit
        self._purity = Purity()
        self._pending: list[Callable[[], None]] = []
        self._shared: dict[Computation, tuple[StepList, Frame, Leaves]] = {}
        self._literals: dict[Literal, Buffer] = {}
        self._entered = {op: getattr(self, f"_{op.name.replace('-', '_')}") for op in _ENTERED}

    def run(self) -> Program:
        """Lowers the whole module."""
        frame = self.plan.frame_of(self.module.entry)
        arguments = self._parameters(frame)
        body = StepList("entry")
        leaves = _drive(self._frame(frame, body))
        return self._finish(frame, leaves, body, arguments)

    def run_whole(self, unit: HandlerUnit) -> Program:
        """A program that gives all its arguments to one handler."""
        entry = self.module.entry
        frame = self.plan.frame_of(entry)
        arguments = self._parameters(frame)
        body = StepList("entry")
        leaves = self.plan.own_leaves(frame, entry.root.shape, 0)
        self.plan.pin(frame, leaves)
        self.units.append((entry.root, unit))
        for p in entry.parameters:
            self.plan.leaves[p] = frame.parameters[p.attrs.number]
        self._handler_step(entry.root, entry.parameters, unit, leaves, body)
        return self._finish(frame, leaves, body, arguments)

    def _finish(self, frame: Frame, leaves: Leaves, body: StepList, arguments: list[Argument]) -> Program:
        outputs = self._outputs(frame, leaves, body)
        self.temp_bytes = self.plan.pack()
        for fill in self._pending:
            fill()
        return Program(self.module.name, self.plan.allocations, arguments, outputs, body, list(self.kernels))

    # -- entry interface ---------------------------------------------------------------------------------------

    def _parameters(self, frame: Frame) -> list[Argument]:
        arguments: list[Argument] = []
        for p in frame.computation.parameters:
            leaves: list[Buffer | None] = []
            for index, leaf in p.shape.leaves():
                if not leaf.is_array:
                    leaves.append(None)
                    continue
                path = f"{{{','.join(map(str, index))}}}" if index else ""
                name = f"parameter {p.attrs.number}{path} ({p.name})"
                leaves.append(self.plan.external(AllocationKind.PARAMETER, leaf.num_bytes, len(arguments)))
                arguments.append(Argument(name, array_type(leaf), leaf.to_string(layouts=False)))
            frame.parameters.append(tuple(leaves))
        return arguments

    def _outputs(self, frame: Frame, leaves: Leaves, body: StepList) -> list[Output]:
        shapes = [leaf for _, leaf in self.module.entry.root.shape.leaves()]
        found: list[Output] = []
        for shape, buffer in zip(shapes, leaves, strict=True):
            if buffer is None:
                continue
            index = len(found)
            if not self.plan.as_output(buffer, index):
                target = self.plan.external(AllocationKind.OUTPUT, buffer.size, index)
                self._copy(body, "output", buffer, target)
                buffer = target
            found.append(Output(array_type(shape), buffer.where()))
        return found

    # -- frames ------------------------------------------------------------------------------------------------

    def _frame(self, frame: Frame, out: StepList) -> Lowering:
        """Emits a computation into `out`; returns its root's leaves."""
        for position, inst in enumerate(frame.order):
            for o in inst.operands:
                self.plan.use(frame, self.plan.leaves[o], position)
            enter = self._entered.get(inst.op)
            leaves = self._forwarded(frame, inst)
            if enter is not None:
                leaves = yield enter(frame, inst, position, out)
            elif leaves is None:
                unit = self._emit(inst)
                if inst.op is ops.FUSION and isinstance(unit, HandlerUnit):
                    # A fusion without a kernel of its own runs instruction by instruction.
                    leaves = yield self._call(frame, inst, position, out)
                else:
                    leaves = self._work(frame, inst, position, out, unit)
            self.plan.leaves[inst] = leaves
        root = self.plan.leaves[frame.computation.root]
        self.plan.pin(frame, root)
        return root

    def _forwarded(self, frame: Frame, inst: Instruction) -> Leaves | None:
        """Buffers of an instruction whose value lies in memory already, or None."""
        operands = [self.plan.leaves[o] for o in inst.operands]
        if inst.op is ops.PARAMETER:
            number: int = inst.attrs.number
            return frame.parameters[number]
        if inst.op is ops.CONSTANT:
            return self._constant(inst.attrs.literal)
        if inst.op is ops.TUPLE:
            return tuple(leaf for leaves in operands for leaf in leaves)
        if inst.op is ops.GET_TUPLE_ELEMENT:
            return _element(inst.operands[0].shape, operands[0], inst.attrs.index)
        if inst.op is ops.AFTER_ALL:
            return (None,)
        if inst.op is ops.ASYNC_UPDATE:
            return operands[0]
        if inst.op is ops.ASYNC_DONE:
            return _element(inst.operands[0].shape, operands[0], 1)
        if inst.op is ops.BITCAST and retiles(inst):
            raise unimplemented(f"bitcast of {inst.operands[0].shape} to {inst.shape}: tiles are not laid out here")
        if forwards(inst):
            return operands[0]
        return None

    def _work(self, frame: Frame, inst: Instruction, position: int, out: StepList, unit: Unit) -> Leaves:
        """Emits one unit of work; its results get buffers of their own."""
        self.units.append((inst, unit))
        leaves = self.plan.own_leaves(frame, inst.shape, position)
        inputs = [b for o in inst.operands for b in self.plan.leaves[o] if b is not None]
        outputs = [b for b in leaves if b is not None]
        match unit:
            case KernelSpec():
                self._kernel_step(frame, inst, position, out, unit, inputs, outputs)
            case GemmCall():
                a, b = (inputs[1], inputs[0]) if unit.swap else (inputs[0], inputs[1])
                (c,) = outputs
                dtype = inst.shape.element_type.np
                self._defer(out, lambda: GemmStep(inst.name, dtype, unit, a.where(), b.where(), c.where()))
            case HandlerUnit():
                self._handler_step(inst, inst.operands, unit, leaves, out)
        return leaves

    def _handler_step(
        self, inst: Instruction, operands: Sequence[Instruction], unit: HandlerUnit, leaves: Leaves, out: StepList
    ) -> None:
        inputs = [b for o in operands for b in self.plan.leaves[o] if b is not None]
        outputs = [b for b in leaves if b is not None]
        in_types = [array_type(s) for o in operands for _, s in o.shape.leaves() if s.is_array]
        out_types = [array_type(s) for _, s in inst.shape.leaves() if s.is_array]

        where = inst.span.where() if inst.span is not None else ""

        def make() -> Step:
            ins = tuple((b.where(), t) for b, t in zip(inputs, in_types, strict=True))
            outs = tuple((b.where(), t) for b, t in zip(outputs, out_types, strict=True))
            return CustomCallStep(inst.name, unit.target, ins, outs, unit.attributes, unit.reason, unit.handler, where)

        self._defer(out, make)

    def _kernel_step(
        self,
        frame: Frame,
        inst: Instruction,
        position: int,
        out: StepList,
        unit: KernelSpec,
        inputs: list[Buffer],
        outputs: list[Buffer],
    ) -> None:
        args = [*inputs, *outputs, *(self._literal(row_major(c)) for c in unit.literals)]
        if unit.scratch_bytes:
            args.append(self.plan.temp(frame, unit.scratch_bytes, position))
        number = self.kernels.setdefault(unit.source.symbol, len(self.kernels))
        self.sources.setdefault(unit.source.symbol, unit.source)
        launch = unit.launch_size
        if launch > 0:
            types = tuple(array_type(s) for v in (*inst.operands, inst) for _, s in v.shape.leaves() if s.is_array)
            count, grain = len(inputs), unit.grain
            self._defer(
                out,
                lambda: KernelStep(inst.name, number, tuple(a.where() for a in args), launch, types, count, grain),
            )

    def _constant(self, literal: Literal) -> Leaves:
        if literal.shape.is_tuple:
            return tuple(leaf for e in literal.elements for leaf in self._constant(e))
        if not literal.shape.is_array:
            return (None,)
        return (self._literal(literal),)

    def _literal(self, literal: Literal) -> Buffer:
        found = self._literals.get(literal)
        if found is None:
            data = physical_bytes(literal)
            found = self.plan.external(AllocationKind.CONSTANT, data.size, data=data)
            self._literals[literal] = found
        return found

    # -- control flow ------------------------------------------------------------------------------------------

    def _call(self, frame: Frame, inst: Instruction, position: int, out: StepList) -> Lowering:
        operands = [self.plan.leaves[o] for o in inst.operands]
        return (yield self._invoke(frame, inst, inst.called[0], operands, position, out))

    def _async_start(self, frame: Frame, inst: Instruction, position: int, out: StepList) -> Lowering:
        """Runs the wrapped computation at once. The result tuple is ((operands), result, context...)."""
        operands = [self.plan.leaves[o] for o in inst.operands]
        result = yield self._invoke(frame, inst, inst.called[0], operands, position, out)
        rest = [s for s in inst.shape.tuple_shapes[2:] for _ in s.leaves()]
        return (*(leaf for group in operands for leaf in group), *result, *(None for _ in rest))

    def _invoke(
        self,
        frame: Frame,
        inst: Instruction,
        callee: Computation,
        operands: list[Leaves],
        position: int,
        out: StepList,
    ) -> Lowering:
        """One call: spliced in place when this is the only caller, else a shared sequence with copies in and out."""
        if _only_caller(callee, inst):
            inner = self.plan.frame_of(callee)
            inner.parameters = operands
            return (yield self._frame(inner, out))
        shared = self._shared.get(callee)
        if shared is None:
            inner = self.plan.frame_of(callee)
            inner.parameters = self._own_parameters(inner)
            steps = StepList(callee.name)
            root = yield self._frame(inner, steps)
            shared = self._shared[callee] = (steps, inner, root)
        steps, inner, root = shared
        self._call_step(out, inst.name, callee, steps, (_flat(operands), _flat(inner.parameters)))
        leaves = self.plan.own_leaves(frame, callee.root.shape, position)
        self._copy_all(out, inst.name, root, leaves)
        return leaves

    def _call_step(
        self, out: StepList, name: str, callee: Computation, steps: StepList, arguments: tuple[Leaves, Leaves]
    ) -> None:
        pairs = [(s, t) for s, t in zip(*arguments, strict=True) if s is not None and t is not None and s.size]
        pure = self._purity.pure_computation(callee)
        self._defer(out, lambda: CallStep(name, steps, tuple((s.where(), t.where()) for s, t in pairs), pure))

    def _own_parameters(self, frame: Frame) -> list[Leaves]:
        parameters = [self.plan.own_leaves(frame, p.shape, 0) for p in frame.computation.parameters]
        for leaves in parameters:
            self.plan.pin(frame, leaves)
        return parameters

    def _while(self, frame: Frame, inst: Instruction, position: int, out: StepList) -> Lowering:
        """State lives in buffers of the enclosing frame that condition and body borrow."""
        condition, body = inst.called
        state = self.plan.own_leaves(frame, inst.shape, position)
        self._copy_all(out, inst.name, self.plan.leaves[inst.operands[0]], state)
        cond_steps, body_steps = StepList(condition.name), StepList(body.name)
        root = yield self._invoke(frame, inst, condition, [state], position, cond_steps)
        result = yield self._invoke(frame, inst, body, [state], position, body_steps)
        self._copy_parallel(frame, position, body_steps, inst.name, result, state)
        predicate = root[0]
        assert predicate is not None
        self._defer(out, lambda: WhileStep(inst.name, cond_steps, predicate.where(), body_steps))
        return state

    def _conditional(self, frame: Frame, inst: Instruction, position: int, out: StepList) -> Lowering:
        leaves = self.plan.own_leaves(frame, inst.shape, position)
        branches = []
        for i, branch in enumerate(inst.called):
            steps = StepList(branch.name)
            argument = self.plan.leaves[inst.operands[i + 1]]
            result = yield self._invoke(frame, inst, branch, [argument], position, steps)
            self._copy_all(steps, inst.name, result, leaves)
            branches.append(steps)
        (selector,) = self.plan.leaves[inst.operands[0]]
        assert selector is not None
        is_predicate = inst.operands[0].shape.element_type.name == "pred"
        self._defer(out, lambda: SwitchStep(inst.name, selector.where(), is_predicate, tuple(branches)))
        return leaves

    # -- copies ------------------------------------------------------------------------------------------------

    def _copy_all(self, out: StepList, name: str, sources: Leaves, targets: Leaves) -> None:
        for source, target in zip(sources, targets, strict=True):
            if source is not None and target is not None:
                self._copy(out, name, source, target)

    def _copy(self, out: StepList, name: str, source: Buffer, target: Buffer) -> None:
        if source is not target and source.size:
            self._defer(out, lambda: CopyStep(name, source.where(), target.where()))

    def _copy_parallel(
        self, frame: Frame, position: int, out: StepList, name: str, sources: Leaves, targets: Leaves
    ) -> None:
        """All sources are read before any target that is also a source is written (loop state that trades places)."""
        written = {id(t) for t in targets if t is not None}
        staged = list(sources)
        for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
            if source is not None and source is not target and id(source) in written:
                copy = self.plan.temp(frame, source.size, position)
                self._copy(out, name, source, copy)
                staged[i] = copy
        self._copy_all(out, name, tuple(staged), targets)

    def _defer(self, out: StepList, make: Callable[[], Step]) -> None:
        """Reserves the next place in `out`; the step is made once offsets are known."""
        index = len(out.steps)
        out.steps.append(_UNFILLED)

        def fill() -> None:
            out.steps[index] = make()

        self._pending.append(fill)


_UNFILLED = CopyStep("unfilled", Slice(0, 0, 0), Slice(0, 0, 0))


def _drive(start: Lowering) -> Any:
    """Runs nested generators on an explicit stack: `yield g` means run g and give me its result."""
    stack = [start]
    value: Any = None
    while stack:
        try:
            callee = stack[-1].send(value)
        except StopIteration as stop:
            stack.pop()
            value = stop.value
        else:
            stack.append(callee)
            value = None
    return value


def _only_caller(callee: Computation, inst: Instruction) -> bool:
    return len(callee.callers) == 1 and callee.callers.get(inst) == 1


def _flat(groups: Sequence[Leaves]) -> Leaves:
    return tuple(leaf for group in groups for leaf in group)


def _element(shape: Shape, leaves: Leaves, index: int) -> Leaves:
    """Leaves of element `index` of a tuple."""
    sizes = [sum(1 for _ in s.leaves()) for s in shape.tuple_shapes]
    start = sum(sizes[:index])
    return leaves[start : start + sizes[index]]
