"""Loops, branches and calls that carry dynamic arrays carry padded ones and their sizes instead.

Only the edges change here: what goes in is packed (PadToStatic), what comes out is unpacked (SliceToDynamic), and the
called computation does the reverse inside. Padding the computations themselves then removes both.
"""

from __future__ import annotations

from collections.abc import Sequence

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Val, expand_one, non_fusion_computations
from xyla.passes.padding.twin import Padded, enter, leave
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import Rewrite
from xyla.support.dtypes import S32
from xyla.support.status import unimplemented

# By original, wanted result (None: as it is), and whether each part is a parameter.
_Twins = dict[tuple[Computation, Shape | None, bool], Computation]
_CARRIERS = (ops.WHILE, ops.CALL, ops.CONDITIONAL)


def carry_sizes(module: Module, ctx: PassContext) -> bool:
    """Gives every while, call and conditional over dynamic arrays a static interface; returns whether any had one."""
    order = list(reversed(module.computation_post_order()))
    plain = set(non_fusion_computations(module))
    twins: _Twins = {}
    work = [c for c in order if c in plain]
    changed = False
    # Callers first: a computation whose calls have all moved to its twin is not looked at.
    for comp in work:
        if not comp.callers and not comp.is_entry:
            continue
        for inst in [i for i in comp.post_order() if i.op in _CARRIERS and _is_dynamic(i)]:
            before = len(twins)
            changed |= expand_one(inst, ctx, lambda i, rw: _static_interface(i, rw, twins))
            work.extend(list(twins.values())[before:])
    for comp in order:
        if not comp.callers and not comp.is_entry and any(comp is old for old, _, _ in twins):
            rewriter.remove_computation(comp)
    return changed


def _is_dynamic(inst: Instruction) -> bool:
    return inst.shape.is_dynamic or any(o.shape.is_dynamic for o in inst.operands)


def _static_interface(inst: Instruction, rw: Rewrite, twins: _Twins) -> Instruction | None:
    """carrier(x) = unpack(carrier'(pack(x)))."""
    rw.permit()
    b = Builder(rw)

    def twin(comp: Computation, result: Shape | None, *, spread: bool = False) -> Computation:
        found = twins.get((comp, result, spread))
        if found is None:
            found = twins[comp, result, spread] = _twin_of(comp, result, spread=spread)
        return found

    operands = b.vals(inst.operands)
    if inst.op is ops.WHILE:
        condition, body = inst.called
        start = b.tuple(pack(b, operands[0], inst.shape))
        called = [twin(condition, None), twin(body, inst.shape)]
        end = b.apply(ops.WHILE, start, called=called)
    elif inst.op is ops.CALL:
        parts = [part for o in operands for part in pack(b, o, o.shape)]
        called = [twin(inst.called[0], inst.shape, spread=True)]
        end = b.apply(ops.CALL, *parts, attrs=ops.CallAttrs(inst.attrs.is_composite), called=called)
    else:
        args = [b.tuple(pack(b, o, p.parameters[0].shape)) for o, p in zip(operands[1:], inst.called, strict=True)]
        called = [twin(branch, inst.shape) for branch in inst.called]
        end = b.apply(ops.CONDITIONAL, operands[0], *args, called=called)
    return unpack(b, [end.element(i) for i in range(len(end.shape.tuple_shapes))], inst.shape).inst


def _twin_of(comp: Computation, result: Shape | None, *, spread: bool) -> Computation:
    """A copy of `comp` that takes packed parameters and returns a packed `result` (None: what it returns).

    spread: each part is a parameter (calls); otherwise one parameter is a tuple of all parts.
    """
    b = Builder(comp.module.add_computation(f"{comp.name}_sized"))
    made: dict[Instruction, Instruction] = {}
    for old in comp.parameters:
        shapes = packed_shapes(old.shape)
        if spread:
            parts = [b.parameter(s) for s in shapes]
        else:
            whole = b.parameter(Shape.tuple_of(shapes))
            parts = [whole.element(i) for i in range(len(shapes))]
        made[old] = unpack(b, parts, old.shape).inst
    for inst in comp.post_order():
        if inst.op is not ops.PARAMETER:
            made[inst] = rewriter.clone_instruction(inst, b.comp, [made[o] for o in inst.operands])
        for p in inst.control_predecessors:
            rewriter.add_control_dependency(made[p], made[inst])
    root = b.val(made[comp.root])
    if result is not None:
        root = b.tuple(pack(b, root, result))
    b.comp.set_root(root.inst)
    b.comp.execution_thread = comp.execution_thread
    return b.comp


def packed_shapes(shape: Shape) -> list[Shape]:
    """The static leaves of `shape` in order, each followed by an s32[] for every dynamic dimension."""
    out: list[Shape] = []
    for _, leaf in shape.leaves():
        out.append(leaf.static().without_layout())
        out.extend([Shape.array(S32, ())] * sum(leaf.dynamic))
    return out


def pack(b: Builder, value: Val, shape: Shape) -> list[Val]:
    """The parts of a value that is wanted with the dynamism of `shape`, in the order of `packed_shapes`."""
    out: list[Val] = []
    for index, leaf in shape.leaves():
        part = _at(b, value, index)
        if any(part.shape.is_dynamic_dim(d) and not leaf.is_dynamic_dim(d) for d in range(leaf.rank)):
            raise unimplemented(f"dynamic-padder: {part.shape} is carried as {leaf}", span=value.inst.span)
        twin = enter(b, part) if part.shape.is_dynamic else Padded(part, {})
        out.append(twin.value)
        out.extend(twin.size(d) for d in range(leaf.rank) if leaf.is_dynamic_dim(d))
    return out


def _at(b: Builder, value: Val, index: Sequence[int]) -> Val:
    for i in index:
        value = b.val(value.inst.operands[i]) if value.inst.op is ops.TUPLE else value.element(i)
    return value


def unpack(b: Builder, parts: Sequence[Val], shape: Shape) -> Val:
    """The (nested) value of `shape` that the parts stand for."""
    rest = iter(parts)
    values: dict[tuple[int, ...], Val] = {}
    for index, leaf in shape.leaves():
        value = next(rest)
        values[index] = leave(b, Padded(value, {d: next(rest) for d in range(leaf.rank) if leaf.is_dynamic_dim(d)}))
    return _assemble(b, values, shape)


def _assemble(b: Builder, values: dict[tuple[int, ...], Val], shape: Shape) -> Val:
    """Builds tuples from the leaves up. Iterative: tuples may nest deeply."""
    inner: list[tuple[tuple[int, ...], Shape]] = []
    stack: list[tuple[tuple[int, ...], Shape]] = [((), shape)]
    while stack:
        index, here = stack.pop()
        if here.is_tuple:
            inner.append((index, here))
            stack.extend(((*index, i), s) for i, s in enumerate(here.tuple_shapes))
    for index, here in reversed(inner):
        values[index] = b.tuple([values[*index, i] for i in range(len(here.tuple_shapes))])
    return values[()]
