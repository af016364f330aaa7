"""Constant folding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from xyla.analysis.cost import UNBOUNDED_WORK, Work
from xyla.analysis.purity import Purity
from xyla.hlo import ops, rewriter
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import erase_dead
from xyla.support.status import XylaError

if TYPE_CHECKING:
    from xyla.interp.api import Evaluator
    from xyla.interp.table import Value

# Values already as small as can be (broadcast, iota), what other passes take apart (tuples), what must stay where it is
# (barriers, domains), and what only the machine knows.
_NEVER = frozenset({
    ops.PARAMETER, ops.CONSTANT, ops.BROADCAST, ops.IOTA, ops.TUPLE, ops.GET_TUPLE_ELEMENT, ops.AFTER_ALL,
    ops.ADD_DEPENDENCY, ops.OPT_BARRIER, ops.DOMAIN, ops.CUSTOM_CALL, ops.PARTITION_ID, ops.REPLICA_ID, ops.FFT,
    ops.ASYNC_UPDATE, ops.SET_DIMENSION_SIZE,
})  # fmt: skip
# Ops that no pass evaluates: a constant argument tells them nothing.
_OPAQUE = frozenset({ops.FFT, ops.CUSTOM_CALL, ops.AFTER_ALL, ops.ADD_DEPENDENCY, ops.DOMAIN, ops.OPT_BARRIER})
# A folded result that is one value throughout is written as a broadcast above this size.
_SPLAT_ELEMENTS = 16


@register
@dataclass(frozen=True, slots=True)
class ConstantFolding(Pass):
    """Replaces instructions on constants by their values, computed by the reference evaluator.

        c = s32[3] constant({1, 2, 3})
        ROOT r = s32[] reduce(c, 0), to_apply=add      ==>      ROOT r = s32[] constant(6)

    An operand may also be a broadcast constant, an iota or a tuple of such. Element-wise ops of broadcast constants
    are folded as scalars. A parameter that is the same constant at every call of its computation is that constant.

    Budget: results of more than `max_bytes` are not stored unless the constants they come from are as large
    (`max_shrinking_bytes` at most); `max_work` bounds the scalar operations of one evaluation, `total_work` those of
    all. Loops of unknown length are not evaluated. What the budget skips is said in the context's notes.
    """

    name: ClassVar[str] = "constant-folding"
    # A result may make a call's argument constant, which the next run propagates.
    idempotent: ClassVar[bool] = False
    max_bytes: int = 256 * 1024
    max_shrinking_bytes: int = 64 * 1024 * 1024
    max_work: int = 20_000_000
    total_work: int = 200_000_000

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size, beside the evaluations."""
        folder = _Folder(self, ctx)
        changed = _propagate_parameters(module, ctx)
        for comp in module.computation_post_order():
            changed |= folder.computation(comp)
        return changed


def _propagate_parameters(module: Module, ctx: PassContext) -> bool:
    changed = False
    for comp in module.computation_post_order():
        if comp.is_entry or not comp.callers or any(i.op is not ops.CALL for i in comp.callers):
            continue
        for number, param in enumerate(comp.parameters):
            if not param.is_root and all(u.op in _OPAQUE for u in param.users):
                continue
            literal = _same_constant([call.operands[number] for call in comp.callers])
            if literal is None:
                continue
            if not ctx.permit("propagate-constant-argument", param):
                return changed
            new = rewriter.create(comp, ops.CONSTANT, (), ops.ConstantAttrs(literal), shape=param.shape, like=param)
            rewriter.replace_uses(param, new)
            ctx.record(new)
            changed = True
    return changed


def _same_constant(values: list[Instruction]) -> Literal | None:
    first = values[0]
    if any(not _is_constant(v) for v in values):
        return None
    literal: Literal = first.attrs.literal
    return literal if all(v.attrs.literal == literal for v in values) else None


def _is_constant(inst: Instruction) -> bool:
    return inst.op is ops.CONSTANT and inst.shape.is_array and not inst.attrs.literal.elided


@dataclass(slots=True)
class _Folder:
    options: ConstantFolding
    ctx: PassContext
    purity: Purity = field(default_factory=Purity)
    work: Work = field(default_factory=Work)
    contains: dict[Computation, bool] = field(default_factory=dict)
    spent: int = 0
    _evaluator: Evaluator | None = None

    @property
    def evaluator(self) -> Evaluator:
        """Made on first use: importing the evaluator costs 0.2 s, and many programs have nothing to fold."""
        if self._evaluator is None:
            from xyla.interp.api import Evaluator

            self._evaluator = Evaluator()
        return self._evaluator

    def computation(self, comp: Computation) -> bool:
        known: dict[Instruction, bool] = {}
        changed = False
        for inst in comp.post_order():
            if inst not in comp.instructions:
                continue
            known[inst] = self._is_known(inst, known)
            if not self._foldable(inst, known):
                continue
            new = self._fold(inst)
            if self.ctx.control.stopped:
                return changed
            if new is not None:
                changed = True
                known[new] = True
        return changed

    def _is_known(self, inst: Instruction, known: dict[Instruction, bool]) -> bool:
        """Whether the value is a constant, or one that needs no memory to state."""
        if _is_constant(inst) or inst.op is ops.IOTA:
            return not inst.shape.is_dynamic
        if inst.op is ops.BROADCAST:
            return _is_constant(inst.operands[0]) and inst.operands[0].shape.is_scalar
        return inst.op is ops.TUPLE and all(known.get(o, False) for o in inst.operands)

    def _foldable(self, inst: Instruction, known: dict[Instruction, bool]) -> bool:
        if inst.op in _NEVER or (not inst.users and not inst.is_root) or inst.shape.is_dynamic:
            return False
        if inst.control_predecessors or inst.control_successors or not _plain(inst.shape):
            return False
        if inst.parent.execution_thread or not all(known.get(o, False) for o in inst.operands):
            return False
        # An iota alone is better computed than stored; so is a call without arguments unless it is all constants.
        if not any(_has_constant(o) for o in inst.operands):
            return False
        return self.purity.pure(inst) and not any(self._illegal(c) for c in inst.called)

    def _illegal(self, comp: Computation) -> bool:
        """Whether a computation holds an op that is not evaluated. Iterative over the call graph."""
        stack = [comp]
        while stack:
            top = stack[-1]
            todo = [c for i in top.instructions for c in i.called if c not in self.contains]
            if todo:
                stack.extend(dict.fromkeys(todo))
                continue
            stack.pop()
            bad = any(i.op in (ops.FFT, ops.CUSTOM_CALL, ops.AFTER_ALL, ops.DOMAIN) for i in top.instructions)
            self.contains[top] = bad or any(self.contains[c] for i in top.instructions for c in i.called)
        return self.contains[comp]

    def _fold(self, inst: Instruction) -> Instruction | None:
        splat = inst.op.has(Trait.ELEMENTWISE) and inst.shape.rank > 0 and all(_is_splat(o) for o in inst.operands)
        if not splat and not self._affordable(inst):
            return None
        from xyla.interp.api import to_literal

        try:
            value = (
                self._splat_value(inst) if splat else self.evaluator.evaluate_instruction(inst, self._operands(inst))
            )
            literal = to_literal(value, Shape.array(inst.shape.element_type, ()) if splat else inst.shape)
        except XylaError as error:
            self.ctx.notes.append(f"constant-folding: %{inst.name} is not evaluated: {error.message}")
            return None
        if not self.ctx.permit("fold-constants", inst):
            return None
        new = _materialise(inst, literal)
        self.ctx.record(new)
        operands = dict.fromkeys(inst.operands)
        rewriter.replace_uses(inst, new)
        rewriter.erase(inst)
        erase_dead(operands)
        return new

    def _operands(self, inst: Instruction) -> list[Value]:
        return [self._value(o) for o in inst.operands]

    def _value(self, inst: Instruction) -> Value:
        if inst.op is ops.CONSTANT:
            return inst.attrs.literal.array
        # Tuples nest as deep as the module says: loop state is flat nearly always.
        if inst.op is ops.TUPLE:
            return tuple(self._value(o) for o in inst.operands)
        return self.evaluator.evaluate_instruction(inst, self._operands(inst))

    def _splat_value(self, inst: Instruction) -> Value:
        """The one value of an element-wise op on operands of one value each."""
        scratch = Module("fold").add_computation("fold")
        scalars = []
        for operand in inst.operands:
            source = operand.operands[0] if operand.op is ops.BROADCAST else operand
            literal = Literal.of(source.attrs.literal.first, operand.shape.element_type)
            scalars.append(scratch.add(ops.CONSTANT, (), ops.ConstantAttrs(literal), shape=literal.shape))
        scalar = scratch.add(inst.op, scalars, inst.attrs, shape=Shape.array(inst.shape.element_type, ()))
        scratch.set_root(scalar)
        return self.evaluator.evaluate_instruction(scalar, [s.attrs.literal.array for s in scalars])

    def _affordable(self, inst: Instruction) -> bool:
        size = inst.shape.num_bytes
        sources = sum(o.shape.num_bytes for o in inst.operands if o.op is ops.CONSTANT)
        if size > self.options.max_bytes and not size <= min(sources, self.options.max_shrinking_bytes):
            return self._skip(inst, f"its value takes {size} bytes")
        work = self.work.of(inst)
        if work >= UNBOUNDED_WORK:
            return self._skip(inst, "it holds a loop of unknown or enormous length")
        if work > self.options.max_work:
            return self._skip(inst, f"it takes about {work} operations")
        if self.spent + work > self.options.total_work:
            return self._skip(inst, f"the {self.options.total_work} operations for all constants are used up")
        self.spent += work
        return True

    def _skip(self, inst: Instruction, why: str) -> bool:
        self.ctx.notes.append(f"constant-folding: %{inst.name} = {inst.op.name} is left: {why}")
        return False


def _plain(shape: Shape) -> bool:
    """An array, or a tuple of arrays."""
    return shape.is_array or (
        shape.is_tuple and bool(shape.tuple_shapes) and all(s.is_array for s in shape.tuple_shapes)
    )


def _has_constant(inst: Instruction) -> bool:
    stack = [inst]
    while stack:
        top = stack.pop()
        if top.op in (ops.CONSTANT, ops.BROADCAST):
            return True
        stack.extend(top.operands)
    return False


def _is_splat(inst: Instruction) -> bool:
    if inst.op is ops.BROADCAST:
        inst = inst.operands[0]
    return _is_constant(inst) and bool(inst.attrs.literal.is_splat)


def _materialise(inst: Instruction, literal: Literal) -> Instruction:
    """Constants (a broadcast where one value fills many elements) in place of `inst`."""
    if not inst.shape.is_tuple:
        return _constant(inst, literal, inst.shape)
    parts = [_constant(inst, e, s) for e, s in zip(literal.elements, inst.shape.tuple_shapes, strict=True)]
    return rewriter.create(inst.parent, ops.TUPLE, parts, shape=inst.shape, like=inst)


def _constant(inst: Instruction, literal: Literal, shape: Shape) -> Instruction:
    comp = inst.parent
    spread = literal.shape.is_scalar and shape.rank > 0
    if spread or (shape.num_elements > _SPLAT_ELEMENTS and literal.is_splat):
        scalar = Literal.of(literal.first, shape.element_type)
        source = rewriter.create(comp, ops.CONSTANT, (), ops.ConstantAttrs(scalar), shape=scalar.shape, like=inst)
        return rewriter.create(comp, ops.BROADCAST, [source], ops.DimensionsAttrs(()), shape=shape, like=inst)
    return rewriter.create(comp, ops.CONSTANT, (), ops.ConstantAttrs(literal), shape=shape, like=inst)
