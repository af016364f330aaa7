"""Programs with bounded dynamic dimensions become static ones that carry the sizes along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xyla.analysis.dynamic_dimensions import DynamicDimensions
from xyla.analysis.dynamic_rules import Known
from xyla.analysis.sizes import Kind, Size
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import OpDef
from xyla.passes.building import Builder, Val, non_fusion_computations
from xyla.passes.padding import indexing, repacking, rules, windows  # noqa: F401  (they fill the table)
from xyla.passes.padding.interfaces import carry_sizes
from xyla.passes.padding.twin import PAD, Measured, Padded, Twin, enter, leave
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import NotPermitted, Rewrite, erase_dead
from xyla.support.dtypes import S32
from xyla.support.status import XylaError, internal, unimplemented


@register
@dataclass(frozen=True, slots=True)
class DynamicPadder(Pass):
    """Gives every `<=N` dimension its full extent N, and follows its actual size as an s32 beside it.

    Where an op would let elements past the size into its result they are masked first: with the combiner's neutral
    element for a reduction, zero for a dot. Parameters are padded by `PadToStatic`, results cut by `SliceToDynamic`
    (unless slice_dynamic_output is off, when the padded result is returned); loops, branches and calls carry sizes
    along. What is not done is refused by name: select-and-scatter, kernels of dynamic size, indexing into a dynamic
    dimension by gather, asynchronous calls, reshapes that leave open which dynamic dimension is which.

        x = f32[<=8] set-dimension-size(p, n), dimensions={0}
        ROOT r = f32[] reduce(x, zero), to_apply=add
          ==>  ROOT r = f32[] reduce(select(iota < n, p, 0), zero), to_apply=add
    """

    name: ClassVar[str] = "dynamic-padder"
    slice_dynamic_output: bool = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Each instruction that has to do with a dynamic dimension, once, operands first."""
        changed = carry_sizes(module, ctx)
        for comp in non_fusion_computations(module):
            changed |= _Padder(comp, ctx, self.slice_dynamic_output).run()
        return changed


class _Padder:
    """One computation. The dynamic originals stay until nothing uses them, so stopping anywhere is sound."""

    def __init__(self, comp: Computation, ctx: PassContext, slice_output: bool) -> None:
        self.comp = comp
        self.ctx = ctx
        self.slice_output = slice_output
        self.twins: dict[Instruction, Twin] = {}
        self.known = DynamicDimensions(comp)
        # The instruction of each size that has been needed.
        self.measures: dict[Size, Val] = {}

    def run(self) -> bool:
        concerned = set(_concerned(self.comp))
        done: list[Instruction] = []
        for inst in self.comp.post_order():
            # What is declared static may be as dynamic as its operands (old programs declare it so).
            if inst not in concerned and not any(_has_sizes(self.twins.get(o)) for o in inst.operands):
                continue
            rw = Rewrite(self.ctx, f"pad-{inst.op.name}", inst)
            try:
                rw.permit()
            except NotPermitted:
                break
            done.append(inst)
            self._pad(inst, rw)
        erase_dead([i for i in reversed(done) if i.op is not ops.PARAMETER])
        return bool(done)

    def _pad(self, inst: Instruction, rw: Rewrite) -> None:
        """Builds the twin; where the result is static, or is returned, it takes the original's place."""
        b = Builder(rw)
        if inst.shape.is_unbounded or any(o.shape.is_unbounded for o in inst.operands):
            raise unimplemented(f"dynamic-padder: unbounded dimensions ({inst.shape})", span=inst.span)
        if inst.op is ops.PARAMETER:
            twin: Twin = _enter_all(b, b.val(inst))
        else:
            rule = PAD.get(inst.op)
            if rule is None:
                raise unimplemented(f"dynamic-padder does not pad {inst.op.name!r}: {PAD.why(inst.op)}", span=inst.span)
            operands = [self._twin(b, o) for o in inst.operands]
            twin = rule(b, inst, operands, {} if _brings_sizes(inst) else self._measured(b, self._known(inst)))
        self.twins[inst] = twin
        if inst.op is ops.PARAMETER or _brings_sizes(inst):
            self._remember(self._known(inst), twin)
        if not inst.shape.is_dynamic and _has_sizes(twin):
            if inst.is_root:
                why = f"{inst.op.name} is declared {inst.shape}, but is as dynamic as its operand"
                raise unimplemented(f"dynamic-padder: {why}", span=inst.span)
            return
        if not inst.shape.is_dynamic and inst.op is not ops.PARAMETER:
            new = self._leave(b, twin)
            rewriter.move_control_dependencies(inst, new.inst)
            rewriter.replace_uses(inst, new.inst)
            self.ctx.record(new.inst)
        elif inst.is_root:
            self.comp.set_root(self._leave(b, twin).inst)

    def _known(self, inst: Instruction) -> Known:
        try:
            return self.known.of(inst)
        except XylaError as error:
            raise XylaError(error.status, f"dynamic-padder: {error.message}", span=error.span) from None

    def _remember(self, known: Known, twin: Twin) -> None:
        """The sizes that a value brings along are those that its twin has."""
        if isinstance(known, list) and isinstance(twin, list):
            for part, own in zip(known, twin, strict=True):
                self._remember(part, own)
        elif isinstance(twin, Padded) and not isinstance(known, list):
            self.measures.update({size: twin.sizes[d] for d, size in known.items() if d in twin.sizes})

    def _measured(self, b: Builder, known: Known) -> Measured:
        """Instructions that compute known sizes."""
        if isinstance(known, list):
            return [self._measured(b, part) for part in known]
        return {d: self._measure(b, size) for d, size in known.items()}

    def _measure(self, b: Builder, size: Size) -> Val:
        stack = [size]
        while stack:
            top = stack[-1]
            todo = [a for a in top.args if a not in self.measures]
            if todo and top not in self.measures:
                stack.extend(todo)
                continue
            stack.pop()
            if top not in self.measures:
                self.measures[top] = self._computed(b, top)
        return self.measures[size]

    def _computed(self, b: Builder, size: Size) -> Val:
        if size.kind is Kind.CONSTANT:
            return b.scalar(size.value, S32)
        if size.kind is Kind.SCALAR:
            assert size.source is not None
            twin = self.twins.get(size.source)
            return twin.value if isinstance(twin, Padded) else b.val(size.source)
        if size.kind is Kind.GIVEN:
            raise internal(f"dynamic-padder: the size of {size.source} is asked for before it is there")
        x, y = (self.measures[a] for a in size.args)
        if size.kind is Kind.JOINT:
            return b.select(x.eq(1), y, x)
        return b.binary(_OPS[size.kind], x, y)

    def _twin(self, b: Builder, inst: Instruction) -> Twin:
        found = self.twins.get(inst)
        if found is not None:
            return found
        if not inst.shape.is_dynamic:
            return Padded(b.val(inst), {})
        if inst.op is ops.TUPLE:
            return [self._twin(b, o) for o in inst.operands]
        if _calls(inst, "SliceToDynamic"):
            sizes = self._measured(b, self._known(inst))
            assert not isinstance(sizes, list)
            return Padded(b.val(inst.operands[0]), sizes)
        raise unimplemented(f"dynamic-padder: {inst.op.name} of {inst.shape}", span=inst.span)

    def _leave(self, b: Builder, twin: Twin) -> Val:
        if not isinstance(twin, Padded):
            return b.tuple([self._leave(b, t) for t in twin])
        return leave(b, twin) if self.slice_output else twin.value


_OPS: dict[Kind, OpDef[Any]] = {
    Kind.ADD: ops.ADD,
    Kind.SUBTRACT: ops.SUBTRACT,
    Kind.MULTIPLY: ops.MULTIPLY,
    Kind.DIVIDE: ops.DIVIDE,
    Kind.MINIMUM: ops.MINIMUM,
    Kind.MAXIMUM: ops.MAXIMUM,
}


def _brings_sizes(inst: Instruction) -> bool:
    """A call from outside: its sizes are known when it has run."""
    return inst.op is ops.CUSTOM_CALL and not _calls(inst, "PadToStatic") and not _calls(inst, "SliceToDynamic")


def _has_sizes(twin: Twin | None) -> bool:
    """Whether any part of a twin is dynamic."""
    work = [twin]
    while work:
        part = work.pop()
        if isinstance(part, list):
            work.extend(part)
        elif part is not None and part.sizes:
            return True
    return False


def _calls(inst: Instruction, target: str) -> bool:
    return inst.op is ops.CUSTOM_CALL and inst.attrs.custom_call_target == target


def _concerned(comp: Computation) -> list[Instruction]:
    """The instructions at which there is work, operands first: not the boundary that the padder makes itself."""
    settled: set[Instruction] = set()
    out: list[Instruction] = []
    for inst in comp.post_order():
        open_ = [o for o in inst.operands if o.shape.is_dynamic and o not in settled]
        if _is_settled(inst) or (inst.op is ops.TUPLE and not open_):
            settled.add(inst)
        elif (
            inst.op in (ops.GET_DIMENSION_SIZE, ops.SET_DIMENSION_SIZE, ops.PARAMETER)
            or inst.shape.is_dynamic
            or any(o.shape.is_dynamic for o in inst.operands)
        ):
            out.append(inst)
    return out


def _is_settled(inst: Instruction) -> bool:
    """Static, or handed over by PadToStatic and SliceToDynamic only."""
    if _calls(inst, "PadToStatic"):
        return inst.operands[0].op is ops.PARAMETER or _is_settled(inst.operands[0])
    if _calls(inst, "SliceToDynamic"):
        return True
    if inst.op is ops.PARAMETER and not inst.shape.is_dynamic:
        return True
    if (
        not inst.is_root
        and _parameter_of(inst) is not None
        and (inst.shape.is_tuple or _parameter_of(inst) is not inst)
    ):
        return _handed_on(inst)
    if inst.op not in (ops.PARAMETER, ops.CUSTOM_CALL) or not inst.shape.is_array or inst.is_root:
        return False
    handed_on = not inst.shape.is_dynamic or all(_calls(u, "PadToStatic") for u in inst.users)
    return handed_on and all(_calls(o, "SliceToDynamic") or not o.shape.is_dynamic for o in inst.operands)


def _parameter_of(inst: Instruction) -> Instruction | None:
    """The parameter of which `inst` is a part, or which it is."""
    while inst.op is ops.GET_TUPLE_ELEMENT:
        inst = inst.operands[0]
    return inst if inst.op is ops.PARAMETER else None


def _handed_on(inst: Instruction) -> bool:
    """Whether every dynamic array in `inst`, a part of a parameter, goes to PadToStatic and nowhere else."""
    work = [inst]
    while work:
        part = work.pop()
        if part.is_root and part.shape.is_dynamic:
            return False
        if part.shape.is_tuple:
            if any(u.op is not ops.GET_TUPLE_ELEMENT for u in part.users):
                return False
            work.extend(part.users)
        elif part.shape.is_dynamic and not all(_calls(u, "PadToStatic") for u in part.users):
            return False
    return True


def _enter_all(b: Builder, x: Val) -> Twin:
    """The twin of a parameter; every dynamic array in it goes through PadToStatic."""
    if x.shape.is_tuple:
        return [_enter_all(b, x.element(i)) for i in range(len(x.shape.tuple_shapes))]
    return enter(b, x) if x.shape.is_dynamic else Padded(x, {})
