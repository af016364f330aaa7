"""HLO -> LMHLO: a scheduled module and its buffer assignment become operations on explicit buffers.

Computations are walked in execution order. Control flow is entered; every other instruction is one unit of work, for
which the target is asked (`emit`). Where values lie is the assignment's to say: copies appear here only where it gives
a loop's state, a branch's result or a shared function's arguments a place of their own. The walk is a trampoline:
nesting costs no Python stack.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from xyla.analysis.dataflow import forwards
from xyla.analysis.nesting import Nested, drive
from xyla.analysis.purity import Purity
from xyla.buffers.assignment import Allocation, BufferAssignment, Kind
from xyla.codegen.kernel import KernelSpec
from xyla.hlo import ops
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import OpDef
from xyla.hlo.shape import Layout, Shape
from xyla.lowering import lmhlo
from xyla.lowering.arrays import array_type, retiles, row_major
from xyla.lowering.frames import in_order, overwritten_parameters
from xyla.lowering.hlo_to_lmhlo_units import (
    DONE,
    DONE_OF,
    PASSES_ON,
    STARTS,
    UNITS,
    WRAPPED,
    gemm,
    has_library_reduction,
    keep_defined,
)
from xyla.lowering.outline import Outlined
from xyla.lowering.units import HandlerUnit, Unit
from xyla.runtime.program import ArrayType, GemmCall, Slice
from xyla.support.dtypes import U8
from xyla.support.status import internal, unimplemented

EmitUnit = Callable[[Instruction], Unit]
Views = tuple[lmhlo.View | None, ...]  # one an array leaf, in order; None for tokens and opaques

# Their values lie where others put them.
_NO_WORK: frozenset[OpDef[Any]] = frozenset({
    ops.PARAMETER, ops.CONSTANT, ops.TUPLE, ops.GET_TUPLE_ELEMENT, ops.AFTER_ALL, ops.OPT_BARRIER, ops.DOMAIN,
    ops.ADD_DEPENDENCY, ops.ASYNC_UPDATE, ops.COPY_DONE,
})  # fmt: skip
# Their computations run as control flow.
ENTERED: frozenset[OpDef[Any]] = frozenset({ops.CALL, ops.ASYNC_START, ops.WHILE, ops.CONDITIONAL})
_NOT_BARE = re.compile(r"[^\w.$]")


def lower(module: Module, assignment: BufferAssignment, emit: EmitUnit) -> lmhlo.Module:
    """The buffer-level program of a scheduled module.

    `emit` says what the target does for an instruction. Constants that kernels ask for are added to the assignment.
    Raises UNIMPLEMENTED for a bitcast between tiled layouts.
    """
    return Lowering(module, assignment, emit).run()


def is_unit(inst: Instruction) -> bool:
    """Whether an instruction is a unit of work, for which the target is asked."""
    if inst.op in _NO_WORK or inst.op in ENTERED or inst.op in DONE:
        return False
    return not (inst.op in (ops.COPY, ops.COPY_START) and _keeps_order(inst)) and not forwards(inst)


class Lowering:
    """One lowering. `views`, `work` and `token` serve the rules in `hlo_to_lmhlo_units`."""

    def __init__(self, module: Module, assignment: BufferAssignment, emit: EmitUnit) -> None:
        self.module = module
        self.assignment = assignment
        self.emit = emit
        self.globals: list[lmhlo.Global] = []
        self.functions: dict[Computation, lmhlo.Function] = {}
        self.tokens: dict[Instruction, lmhlo.Token] = {}
        self._views: dict[Instruction, Views] = {}
        self._types: dict[Shape, tuple[ArrayType | None, ...]] = {}
        self._constants: dict[int, int] = {}
        self._names: set[str] = set()
        self._purity = Purity()
        self._overwritten = overwritten_parameters(assignment)
        self._graph = assignment.dataflow.graph
        self._entered: dict[OpDef[Any], Callable[[Instruction, lmhlo.Block], Nested]] = {
            ops.CALL: self._call,
            ops.ASYNC_START: self._call,
            ops.WHILE: self._while,
            ops.CONDITIONAL: self._conditional,
        }

    def run(self) -> lmhlo.Module:
        """Lowers the entry and every shared computation."""
        config, entry = self.module.config, self.module.entry
        body = lmhlo.Block()
        drive(self._computation(entry, body))
        arguments: list[lmhlo.Argument] = []
        main = lmhlo.Function(
            "main", arguments, body, config.replica_count, config.num_partitions, _as_text_says(entry.root.shape)
        )
        functions = [main, *self.functions.values()]
        for f in functions:
            f.arguments = arguments
        arguments += [self._argument(a) for a in self.assignment.allocations]
        return lmhlo.Module(self.module.name, functions, self.globals)

    # -- allocations -------------------------------------------------------------------------------------------

    def _argument(self, a: Allocation) -> lmhlo.Argument:
        entry = self.module.entry
        paths = [index for index, _ in entry.root.shape.leaves()] if a.output_indices else []
        made = lmhlo.Argument(a.size, a.index)
        made.output_index = tuple(paths[i] for i in a.output_indices)
        made.must_alias = a.must_alias
        if a.parameter is not None:
            made.params, made.param_shape_index = a.parameter
            parameter = entry.parameters[made.params]
            made.name = parameter.name
            made.shape = _as_text_says(parameter.shape.subshape(made.param_shape_index))
            made.written = a.is_overwritten
        if a.kind is Kind.CONSTANT:
            made.constant_name = self.globals[self._constant(a)].name
        return made

    def _constant(self, a: Allocation) -> int:
        """The number of the constant in an allocation, declared on first request."""
        found = self._constants.get(a.index)
        if found is None:
            assert a.literal is not None, "a constant allocation has a literal"
            owner = next((v.instruction.name for v in a.values), "literal")
            found = self._constants[a.index] = len(self.globals)
            self.globals.append(lmhlo.Global(self._unique(f"buffer_for_{owner}"), _plain(a.literal), a.index))
        return found

    def _unique(self, name: str) -> str:
        name = base = _NOT_BARE.sub("_", name)
        number = 0
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        return name

    # -- views -------------------------------------------------------------------------------------------------

    def views(self, inst: Instruction) -> Views:
        """Where each leaf of an instruction's result lies, and as what."""
        found = self._views.get(inst)
        if found is None:
            slices = self.assignment.slices(inst)
            pairs = zip(slices, self._leaf_types(inst.shape), strict=True)
            found = self._views[inst] = tuple(None if s is None or t is None else self._view(s, t) for s, t in pairs)
        return found

    def _leaf_types(self, shape: Shape) -> tuple[ArrayType | None, ...]:
        found = self._types.get(shape)
        if found is None:
            leaves = (leaf for _, leaf in shape.leaves())
            found = self._types[shape] = tuple(array_type(leaf) if leaf.is_array else None for leaf in leaves)
        return found

    def _view(self, where: Slice, type_: ArrayType) -> lmhlo.View:
        allocation = self.assignment.allocations[where.allocation]
        if allocation.kind is Kind.CONSTANT and allocation.literal is not None:
            number = self._constant(allocation)
            if where.offset == 0 and self._leaf_types(allocation.literal.shape)[0] == type_:
                return lmhlo.View(Slice(number, 0, where.size), type_, lmhlo.Space.GLOBAL)
        return lmhlo.View(where, type_)

    def arrays(self, *values: Instruction) -> tuple[lmhlo.View, ...]:
        """The views of all array leaves of some instructions, in order."""
        return tuple([v for i in values for v in self.views(i) if v is not None])

    # -- computations ------------------------------------------------------------------------------------------

    def _computation(self, comp: Computation, out: lmhlo.Block) -> Nested:
        """Appends a computation's operations to `out`."""
        for inst in comp.post_order():
            op = inst.op
            if op in _NO_WORK:
                continue
            enter = self._entered.get(op)
            if enter is None:
                self._unit(inst, out)
            elif op is not ops.ASYNC_START or not self._start_wrapped(inst, out):
                yield enter(inst, out)

    def _unit(self, inst: Instruction, out: lmhlo.Block) -> None:
        """Appends one unit of work, unless the value lies in place already."""
        op = inst.op
        if op is ops.BITCAST and retiles(inst):
            raise unimplemented(
                f"bitcast of {inst.operands[0].shape} to {inst.shape}: tiles are not laid out here", span=inst.span
            )
        if op in DONE:
            self._done(inst, out)
        elif (op is ops.COPY or op is ops.COPY_START) and _keeps_order(inst):
            self._copies(inst, self.views(inst.operands[0]), self.views(inst), out)
        elif not forwards(inst):
            made = self._start(inst, inst) if op in STARTS else None
            made = made or self._work(inst, self.emit(inst))
            made.name, made.span, made.instruction = inst.name, inst.span, inst
            out.ops.append(made)

    def _work(self, inst: Instruction, unit: Unit) -> lmhlo.Op:
        """The operation that the target's unit asks for."""
        made: lmhlo.Op | None = None
        if isinstance(unit, GemmCall):
            made = gemm(self, inst)
        elif isinstance(unit, HandlerUnit) and inst.op in UNITS:
            made = UNITS[inst.op](self, inst)
        if made is None:
            return self._launch(inst, unit)
        made.unit = unit
        return made

    def _launch(self, inst: Instruction, unit: Unit) -> lmhlo.Launch:
        hlo, outputs = Outlined.of(inst), self.arrays(inst)
        if inst.op in PASSES_ON and isinstance(unit, HandlerUnit):
            unit, hlo, kept = keep_defined(inst, unit)
            outputs = tuple(v for i, v in enumerate(self.views(inst)) if v is not None and i in kept)
        made = lmhlo.Launch(inst.op.name, self.arrays(*inst.operands), outputs, (), hlo=hlo, unit=unit)
        if isinstance(unit, KernelSpec) and (unit.literals or unit.scratch_bytes):
            made.literals = tuple(self._literal(literal) for literal in map(row_major, unit.literals))
            made.scratch = self._scratch(inst, unit)
        return made

    def _literal(self, literal: Literal) -> lmhlo.View:
        (type_,) = self._leaf_types(literal.shape)
        assert type_ is not None
        return self._view(self.assignment.constant(literal), type_)

    def _scratch(self, inst: Instruction, unit: KernelSpec) -> lmhlo.View | None:
        if not unit.scratch_bytes:
            return None
        where = self.assignment.scratch(inst)
        if where is None or where.size < unit.scratch_bytes:
            raise internal(f"%{inst.name} wants {unit.scratch_bytes} bytes of scratch, which the assignment lacks")
        return lmhlo.View(where, array_type(Shape.array(U8, (where.size,))))

    # -- asynchronous work -------------------------------------------------------------------------------------

    def _start(self, inst: Instruction, work: Instruction) -> lmhlo.Op | None:
        """The start operation for what `inst` begins (`work` says what); None if it is to be done at once.

        Where exactly one done in the same computation waits for it, that is what its token goes to. Otherwise the
        operation is done at once, and nothing is left to wait for.
        """
        if work.called and not has_library_reduction(work):
            return None
        users = list(inst.users)
        paired = len(users) == 1 and users[0].op in DONE and not inst.is_root
        token = lmhlo.Token(len(self.tokens)) if paired else None
        made = (STARTS.get(work.op) or WRAPPED[work.op])(self, work, token)
        if token is not None and made is not None:
            self.tokens[inst] = token
        return made

    def _start_wrapped(self, inst: Instruction, out: lmhlo.Block) -> bool:
        """Begins an async-start that wraps one collective; False when its computation is to be run at once."""
        body = inst.called[0]
        if body.root.op not in WRAPPED or self._graph.is_shared(body) or not _only_applies_root(body):
            return False
        made = self._start(inst, body.root)
        if made is None:
            return False
        made.name, made.span, made.instruction = inst.name, inst.span, inst
        out.ops.append(made)
        return True

    def _done(self, inst: Instruction, out: lmhlo.Block) -> None:
        """The end of what a token stands for; nothing where the work was done at once."""
        start = inst.operands[0]
        token = self.tokens.get(start)
        if token is None:
            return
        work = start.called[0].root if start.op is ops.ASYNC_START else start
        made = DONE_OF[work.op](token, (*self.arrays(*work.operands), *self.arrays(inst)))
        made.name, made.span, made.instruction = inst.name, inst.span, inst
        out.ops.append(made)

    # -- control flow ------------------------------------------------------------------------------------------

    def _call(self, inst: Instruction, out: lmhlo.Block) -> Nested:
        """call and async-start: spliced in place, or a call of a shared function."""
        (callee,) = inst.called
        operands = list(chain.from_iterable(self.views(o) for o in inst.operands))
        yield self._invoke(inst, callee, operands, out)
        if self._graph.is_shared(callee):
            result = self.views(inst)
            if inst.op is ops.ASYNC_START:
                result = self.assignment.dataflow.index.element(inst.shape, result, 1)
            self._copies(inst, self.views(callee.root), result, out)

    def _invoke(
        self, inst: Instruction, callee: Computation, operands: Sequence[lmhlo.View | None], out: lmhlo.Block
    ) -> Nested:
        """Runs a computation on operands: its operations, or a call after copies into its parameters."""
        if not self._graph.is_shared(callee):
            yield self._computation(callee, out)
            return
        if callee not in self.functions:
            name = self._unique(callee.name if callee.name != "main" else "main_")
            function = self.functions[callee] = lmhlo.Function(name, [], lmhlo.Block(), private=True)
            function.replica_count = self.module.config.replica_count
            function.num_partitions = self.module.config.num_partitions
            yield self._computation(callee, function.body)
        function = self.functions[callee]
        parameters = chain.from_iterable(self.views(p) for p in callee.parameters)
        pairs = [(s, t) for s, t in zip(operands, parameters, strict=True) if s is not None and t is not None]
        pure = self._purity.pure_computation(callee) and callee not in self._overwritten
        sources, targets = tuple(s for s, _ in pairs), tuple(t for _, t in pairs)
        out.ops.append(
            lmhlo.Call(sources, targets, function.name, pure=pure, name=inst.name, span=inst.span, instruction=inst)
        )

    def _while(self, inst: Instruction, out: lmhlo.Block) -> Nested:
        condition, body = inst.called
        state = self.views(inst)
        self._copies(inst, self.views(inst.operands[0]), state, out)
        blocks = (lmhlo.Block(), lmhlo.Block())
        yield self._invoke(inst, condition, state, blocks[0])
        yield self._invoke(inst, body, state, blocks[1])
        self._copies(inst, self.views(body.root), state, blocks[1])
        (predicate,) = self.arrays(condition.root)
        out.ops.append(
            lmhlo.While(
                predicate, *blocks, trip_count=_trip_count(inst), name=inst.name, span=inst.span, instruction=inst
            )
        )

    def _conditional(self, inst: Instruction, out: lmhlo.Block) -> Nested:
        blocks = []
        for branch, argument in zip(inst.called, inst.operands[1:], strict=True):
            block = lmhlo.Block()
            yield self._invoke(inst, branch, self.views(argument), block)
            self._copies(inst, self.views(branch.root), self.views(inst), block)
            blocks.append(block)
        (index,) = self.arrays(inst.operands[0])
        out.ops.append(lmhlo.Case(index, tuple(blocks), name=inst.name, span=inst.span, instruction=inst))

    # -- copies ------------------------------------------------------------------------------------------------

    def _copies(self, inst: Instruction, sources: Views, targets: Views, out: lmhlo.Block) -> None:
        """Copies what does not lie in place, so that no source is overwritten before it is read."""
        pending = [
            (s, t)
            for s, t in zip(sources, targets, strict=False)
            if s is not None and t is not None and s.type.num_bytes and not _same_place(s, t)
        ]
        for source, target in in_order(pending):
            out.ops.append(lmhlo.Copy(source, target, name=inst.name, span=inst.span, instruction=inst))


def _same_place(a: lmhlo.View, b: lmhlo.View) -> bool:
    return a.slice == b.slice and a.space is b.space


def _as_text_says(shape: Shape) -> Shape:
    """The shape as its text reads back: an empty layout is none."""
    return shape.map_leaves(lambda leaf: leaf.without_layout() if leaf.is_array and not leaf.dims else leaf)


def _plain(literal: Literal) -> Literal:
    """The literal with nothing in its layout but the order of dimensions, and that only where it is not row-major."""
    layout = literal.shape.layout
    if layout is None:
        return literal
    plain = Layout.of(layout.minor_to_major)
    return literal.with_shape(literal.shape.with_layout(None if plain == Layout.default(literal.shape.rank) else plain))


def _keeps_order(inst: Instruction) -> bool:
    """Whether a copy's bytes are its operand's, in the same order."""
    source, target = inst.operands[0].shape, inst.shape
    if inst.op is ops.COPY_START:
        target = target.tuple_shapes[0]
    return source.is_tuple or source.strides() == target.strides()


def _only_applies_root(comp: Computation) -> bool:
    """Whether a computation is one instruction on its parameters, each once and in order."""
    operands = [o.attrs.number for o in comp.root.operands if o.op is ops.PARAMETER]
    return operands == list(range(len(comp.instructions) - 1))


def _trip_count(loop: Instruction) -> int | None:
    """The trip count that a pass found, if any."""
    if "known_trip_count" not in loop.backend_config:
        return None
    try:
        return int(json.loads(loop.backend_config)["known_trip_count"]["n"])
    except (ValueError, KeyError, TypeError):
        # Somebody else's configuration: opaque text by definition.
        return None
