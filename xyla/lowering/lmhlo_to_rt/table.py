"""The table of rules, and what a rule works with.

A rule takes one operation and appends steps; control flow appends a step and leaves its blocks to the context, which
lowers them later: nesting costs no stack. Rules are kept by the operation's class, so that a test can tell that none is
missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from xyla.hlo.module import Instruction
from xyla.lowering import lmhlo
from xyla.lowering.outline import Outlined
from xyla.lowering.units import HandlerUnit, Unit
from xyla.runtime.objects import KernelSource
from xyla.runtime.program import (
    Allocation,
    AllocationKind,
    Attribute,
    CopyStep,
    CustomCallStep,
    Deferred,
    Slice,
    Step,
    StepList,
)
from xyla.support.status import XylaError, invalid, unimplemented

EmitUnit = Callable[[Instruction], Unit]
Typed = tuple[Slice, Any]
AnyOp = TypeVar("AnyOp", bound=lmhlo.Op)


@dataclass(slots=True)
class Context:
    """One lowering: the program's parts so far.

    emit: what the target makes of an instruction, for launches that were read from text. erased: tokens of start
    operations that became copies. units: every unit of work with the name of its operation, for statistics.
    """

    module: lmhlo.Module
    emit: EmitUnit
    allocations: list[Allocation]
    constants: list[int]
    kernels: dict[str, int] = field(default_factory=dict)
    kernel_hlo: list[Deferred] = field(default_factory=list)
    sources: dict[str, KernelSource] = field(default_factory=dict)
    units: list[tuple[str, Unit]] = field(default_factory=list)
    functions: dict[str, StepList] = field(default_factory=dict)
    pending: list[tuple[lmhlo.Function, lmhlo.Block, StepList]] = field(default_factory=list)
    function: lmhlo.Function = field(init=False)
    out: list[Step] = field(default_factory=list)
    uids: dict[tuple[str, int], int] = field(default_factory=dict)
    erased: set[tuple[str, int]] = field(default_factory=set)
    _counters: dict[str, int] = field(default_factory=dict)
    _host: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.function = self.module.entry

    # -- memory ------------------------------------------------------------------------------------------------

    def slice(self, view: lmhlo.View) -> Slice:
        """The memory of a view. Globals and host memory are allocations too."""
        if view.space is lmhlo.Space.ARGUMENT:
            return view.slice
        where = view.slice
        if view.space is lmhlo.Space.GLOBAL:
            return Slice(self.constants[where.allocation], where.offset, where.size)
        key = (self.function.name, where.allocation)
        number = self._host.get(key)
        if number is None:
            number = self._host[key] = len(self.allocations)
            self.allocations.append(Allocation(AllocationKind.TEMP, where.size, on_host=True))
        return Slice(number, where.offset, where.size)

    def typed(self, views: tuple[lmhlo.View, ...]) -> tuple[Typed, ...]:
        """The memory of views with its types, as a custom call takes it."""
        return tuple([(self.slice(v), v.type) for v in views])

    def is_host(self, view: lmhlo.View) -> bool:
        """Whether memory is the host's: allocated on its stack, or a global that no argument carries."""
        return self.allocations[self.slice(view).allocation].on_host

    # -- steps -------------------------------------------------------------------------------------------------

    def unit_of(self, op: lmhlo.Op, hlo: Outlined | None) -> Unit | None:
        """The target's unit for an operation: as HLO brought it, or made of the instruction that the text states."""
        if op.unit is not None:
            return op.unit
        return None if hlo is None else self.emit(hlo.instruction)

    def handler(
        self, op: lmhlo.Op, unit: HandlerUnit, inputs: tuple[lmhlo.View, ...], outputs: tuple[lmhlo.View, ...]
    ) -> None:
        """Appends the call that a unit without a kernel is."""
        self.units.append((op.name, unit))
        made = self.call(op, unit.target, inputs, outputs, unit.attributes)
        self.out.append(replace(made, reason=unit.reason, prepared=unit.handler))

    def call(
        self,
        op: lmhlo.Op,
        target: str,
        inputs: tuple[lmhlo.View, ...],
        outputs: tuple[lmhlo.View, ...],
        attributes: Mapping[str, Attribute],
    ) -> CustomCallStep:
        """A call of `target` for `op`, not yet appended."""
        location = op.span.where() if op.span is not None else ""
        name = op.name or op.mnemonic
        return CustomCallStep(name, target, self.typed(inputs), self.typed(outputs), attributes, location=location)

    def library_call(
        self,
        op: lmhlo.Op,
        target: str,
        inputs: tuple[lmhlo.View, ...],
        outputs: tuple[lmhlo.View, ...],
        attributes: Mapping[str, Attribute],
    ) -> None:
        """Appends a call of the library. On the host a handler does it: that is counted."""
        reason = op.unit.reason if isinstance(op.unit, HandlerUnit) else "a call of the library on the host"
        self.units.append((op.name, HandlerUnit(target, None, reason)))
        self.out.append(replace(self.call(op, target, inputs, outputs, attributes), reason=reason))

    def copy(self, op: lmhlo.Op, source: lmhlo.View, target: lmhlo.View) -> None:
        """Copies values: bytes where both lie alike, else element by element. Nothing when they are one."""
        a, b = self.slice(source), self.slice(target)
        if source.type == target.type or (source.type.dtype == target.type.dtype and a.size == b.size == 0):
            if a != b and a.size:
                self.out.append(CopyStep(op.name or op.mnemonic, a, b))
            return
        self.library_call(op, "xla.gpu.memcpy.d2d", (source,), (target,), {})

    def block(self, name: str, block: lmhlo.Block) -> StepList:
        """The sequence of a nested block; its steps come later."""
        steps = StepList(name)
        self.pending.append((self.function, block, steps))
        return steps

    def next(self, kind: str) -> int:
        """0, 1, 2, ... of a kind."""
        number = self._counters.get(kind, 0)
        self._counters[kind] = number + 1
        return number


def attributes(**given: Attribute | None) -> dict[str, Attribute]:
    """The attributes that are not None."""
    return {k: v for k, v in given.items() if v is not None}


Rule = Callable[[Any, Context], None]
RULES: dict[type[lmhlo.Op], Rule] = {}


def rule(*kinds: type[lmhlo.Op]) -> Callable[[Callable[[AnyOp, Context], None]], Callable[[AnyOp, Context], None]]:
    """Registers how operations of these classes are lowered."""

    def add(function: Callable[[AnyOp, Context], None]) -> Callable[[AnyOp, Context], None]:
        for kind in kinds:
            assert kind not in RULES, f"two rules for {kind.__name__}"
            RULES[kind] = function
        return function

    return add


def refuse(op: lmhlo.Op, why: str) -> XylaError:
    """The located UNIMPLEMENTED error for an operation, to raise."""
    return unimplemented(f"{_called(op)}: {why}", span=op.span)


def malformed(op: lmhlo.Op, why: str) -> XylaError:
    """The located INVALID_ARGUMENT error for an operation, to raise."""
    return invalid(f"{_called(op)}: {why}", span=op.span)


def _called(op: lmhlo.Op) -> str:
    return f"%{op.name} = {op.mnemonic}" if op.name else op.mnemonic


def lower_blocks(context: Context) -> None:
    """Lowers the pending blocks, and those that they bring, in order. Raises what rules raise, located."""
    # The list grows while it is walked.
    for function, block, steps in context.pending:
        context.function, context.out = function, steps.steps
        for op in block.ops:
            found = RULES.get(type(op))
            if found is None:
                raise refuse(op, "the runtime has nothing that does it")
            try:
                found(op, context)
            except XylaError as error:
                raise error.located(op.span) from None
