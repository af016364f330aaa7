"""The verifier: what a well-formed module is.

Invariants, in the order in which they are checked (a later group is looked at only when the earlier ones hold):

1. Module. There is an entry, listed in the module. Computations are listed under their own names and belong to the
   module. The call graph has no cycle; nothing calls the entry.
2. Graph. Every computation has a root in it. Parameters are numbered 0, 1, ... Instruction names are unique in their
   computation. Operands and control predecessors live in the same computation; `users`, `callers` and control
   successors mirror them exactly; there is no cycle.
3. Instructions. Operand and callee counts are the op's. The stated shape is what inference says, compared
   - exactly but for layouts, where an op only forwards values (tuple, while, call, parameter, ...),
   - else also ignoring bounds of dynamic dimensions and the precision of floating-point types,
   - and for contractions, ignoring the element type among real ones (the accumulator is the author's choice).
   Callee signatures (reducers, comparators, branches, bodies) and attribute values are part of inference; ops that
   state their own shape have a rule of their own (`OpDef.verify`).
4. Configuration. Entry layouts have the entry's shapes. Input/output aliases name existing buffers of equal size, each
   once; a donor is not aliased. A scheduled module stores operands before users.
5. With `allow_mixed_precision=False`: the floating-point operands of a computing op have one precision.
6. With `layout_sensitive=True`: every array of rank 1 or more has a layout; ops that forward values keep it,
   element-wise ops, slices and windows do not change it (copy does); the entry has the layouts that it announces.

Sources: XLA's HLO verifier (behaviour), XLA operation semantics. What holds for values (aliasing being safe, sharding
making sense) is not this module's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.rules.common import bare, same, same_but_precision
from xyla.hlo.rules.graph import at, computation_problems, module_problems
from xyla.hlo.rules.module_config import config_problems
from xyla.hlo.shape import Shape
from xyla.support.status import Status, XylaError

# These only forward or name values: nothing may change on the way.
FORWARDING = frozenset({
    ops.CALL, ops.CONDITIONAL, ops.CONSTANT, ops.FUSION, ops.GET_TUPLE_ELEMENT, ops.OPT_BARRIER, ops.OUTFEED,
    ops.RECV_DONE, ops.SEND, ops.SEND_DONE, ops.TUPLE, ops.WHILE,
})  # fmt: skip
# Their element type is the accumulator's, which the author states.
OWN_TYPE = frozenset({ops.DOT, ops.RAGGED_DOT, ops.SCALED_DOT, ops.CONVOLUTION})
# Their tuple may end in contexts of any kind and number; only (operands, results) are inferred for good.
WITH_CONTEXT = frozenset({ops.COLLECTIVE_PERMUTE_START, ops.COPY_START})
# Besides element-wise ops, these work in one layout: layout assignment puts copies around them where layouts differ.
KEEPS_LAYOUT = frozenset({
    ops.BATCH_NORM_INFERENCE, ops.CONCATENATE, ops.DYNAMIC_SLICE, ops.DYNAMIC_UPDATE_SLICE, ops.MAP, ops.PAD,
    ops.REDUCE_WINDOW, ops.REVERSE, ops.SELECT_AND_SCATTER, ops.SLICE,
})  # fmt: skip
# Operands of these may mix precisions even where mixed precision is not allowed: they pass, group or widen values.
_GROUPING = frozenset({
    ops.ALL_REDUCE, ops.ALL_REDUCE_START, ops.ALL_REDUCE_DONE, ops.ALL_GATHER, ops.ALL_GATHER_START,
    ops.ALL_GATHER_DONE, ops.ALL_TO_ALL, ops.COLLECTIVE_PERMUTE, ops.COLLECTIVE_PERMUTE_START,
    ops.COLLECTIVE_PERMUTE_DONE, ops.COLLECTIVE_BROADCAST, ops.REDUCE_SCATTER, ops.ASYNC_START, ops.ASYNC_UPDATE,
    ops.ASYNC_DONE, ops.COPY_START, ops.COPY_DONE, ops.CUSTOM_CALL, ops.DOMAIN, ops.INFEED, ops.PARAMETER, ops.RECV,
    ops.REDUCE, ops.REDUCE_WINDOW, ops.REDUCE_PRECISION, ops.SORT, ops.MAP, ops.SCAN, ops.ADD_DEPENDENCY,
})  # fmt: skip
MIXES_FREELY = FORWARDING | OWN_TYPE | _GROUPING


@dataclass(frozen=True, slots=True)
class _Rules:
    layout_sensitive: bool
    allow_mixed_precision: bool


def verify(
    module: Module,
    *,
    layout_sensitive: bool = False,
    allow_mixed_precision: bool = True,
    computations: Iterable[Computation] | None = None,
) -> None:
    """Raises INVALID_ARGUMENT, located, for the first broken invariant; `computations` limits what is looked at."""
    rules = _Rules(layout_sensitive, allow_mixed_precision)
    for problem in _problems(module, rules, computations):
        raise problem


def violations(
    module: Module,
    *,
    layout_sensitive: bool = False,
    allow_mixed_precision: bool = True,
    computations: Iterable[Computation] | None = None,
) -> list[XylaError]:
    """All broken invariants, in order, of the first group (see the module's text) that has any."""
    return list(_problems(module, _Rules(layout_sensitive, allow_mixed_precision), computations))


def revisions(module: Module) -> dict[Computation, int]:
    """The present revision of every computation, for `verify_since`."""
    return {comp: comp.revision for comp in module.computations.values()}


def verify_since(
    module: Module,
    since: Mapping[Computation, int],
    *,
    layout_sensitive: bool = False,
    allow_mixed_precision: bool = True,
) -> dict[Computation, int]:
    """Verifies the computations that changed since `since`, and the instructions that call them.

    Returns the present revisions, to pass next time. Raises as `verify` does.
    """
    touched = [c for c in module.computations.values() if since.get(c) != c.revision]
    if touched or len(since) != len(module.computations):
        rules = _Rules(layout_sensitive, allow_mixed_precision)
        known = set(touched)
        callers = dict.fromkeys(i for c in touched for i in c.callers if i.parent not in known)
        more = chain.from_iterable(_instruction_problems(i, rules) for i in callers)
        for problem in chain(_problems(module, rules, touched), more):
            raise problem
    return revisions(module)


def _problems(module: Module, rules: _Rules, computations: Iterable[Computation] | None) -> Iterator[XylaError]:
    chosen = list(module.computations.values() if computations is None else computations)
    found = False
    for problem in module_problems(module):
        found = True
        yield problem
    if found:
        return
    for comp in chosen:
        for problem in computation_problems(comp):
            found = True
            yield problem
    if found:
        return
    for comp in chosen:
        for inst in comp.instructions:
            yield from _instruction_problems(inst, rules)
    if computations is None or module.entry in chosen:
        # The header keeps no place of its own.
        yield from (error.located(module.entry.span or module.entry.root.span) for error in config_problems(module))
        if rules.layout_sensitive:
            yield from _entry_layout_problems(module)


def _instruction_problems(inst: Instruction, rules: _Rules) -> Iterator[XylaError]:
    try:
        check_instruction(inst)
        if not rules.allow_mixed_precision:
            _check_precision(inst)
        if rules.layout_sensitive:
            _check_layouts(inst)
    except XylaError as error:
        # UNIMPLEMENTED and the like pass through: only a broken rule is a statement about the module.
        if error.status is not Status.INVALID_ARGUMENT:
            raise
        yield error if error.span is not None else at(inst, error.message)


def check_instruction(inst: Instruction) -> None:
    """Raises INVALID_ARGUMENT, without the instruction's name, if its counts, shape or attributes are wrong."""
    op = inst.op
    _check_counts(inst)
    if op.infer is not None:
        inferred = op.infer([o.shape for o in inst.operands], inst.attrs, inst.called)
        if inferred is not inst.shape:
            _check_shape(inst, inferred)
    if op.verify is not None:
        op.verify(inst)


def _check_counts(inst: Instruction) -> None:
    op, given = inst.op, len(inst.operands)
    if op.arity is not None:
        if given != op.arity:
            raise _wrong(f"{given} operands, expected {op.arity}")
    elif given < op.min_arity:
        raise _wrong(f"{given} operands, expected at least {op.min_arity}")
    roles = op.called
    # A last role that ends in "*" takes any number of callees.
    if not (roles and roles[-1].endswith("*")) and len(inst.called) != len(roles):
        raise _wrong(f"{len(inst.called)} called computations, expected {len(roles)}")


def _wrong(message: str) -> XylaError:
    return XylaError(Status.INVALID_ARGUMENT, message)


def _check_shape(inst: Instruction, inferred: Shape) -> None:
    stated, op = inst.shape, inst.op
    if op in FORWARDING:
        good = same(stated, inferred)
    elif op in OWN_TYPE:
        good = _same_family(stated, inferred)
    elif op in WITH_CONTEXT:
        good = same_but_precision(Shape.tuple_of(stated.tuple_shapes[:2]), Shape.tuple_of(inferred.tuple_shapes[:2]))
    else:
        good = same_but_precision(stated, inferred)
    if not good:
        raise _wrong(f"result is {bare(stated)}, expected {bare(inferred)}")


def _same_family(stated: Shape, inferred: Shape) -> bool:
    if not stated.is_array:
        return False
    a, b = stated.element_type, inferred.element_type
    if a.is_complex != b.is_complex:
        return False
    return same_but_precision(inferred.with_type(a), stated)


def _check_precision(inst: Instruction) -> None:
    if inst.op in MIXES_FREELY:
        return
    found = None
    for i, operand in enumerate(inst.operands):
        for _, leaf in operand.shape.leaves():
            if not leaf.element_type.is_float:
                continue
            if found is not None and leaf.element_type is not found:
                raise _wrong(f"operand {i} is {bare(leaf)}, expected {found} like the operands before it")
            found = leaf.element_type


# -- layouts ---------------------------------------------------------------------------------------------------


def _check_layouts(inst: Instruction) -> None:
    for index, leaf in inst.shape.leaves():
        if leaf.rank and leaf.layout is None:
            where = f" at index {list(index)}" if index else ""
            raise _wrong(f"result {leaf}{where} has no layout")
    op = inst.op
    if op in FORWARDING and op.infer is not None:
        inferred = op.infer([o.shape for o in inst.operands], inst.attrs, inst.called)
        if not _same_order(inst.shape, inferred):
            raise _wrong(f"result layout is {inst.shape}, expected {inferred}")
    elif op in KEEPS_LAYOUT or op.has(Trait.ELEMENTWISE):
        for i, operand in enumerate(inst.operands):
            if operand.shape.rank == inst.shape.rank and not _same_order(operand.shape, inst.shape):
                raise _wrong(f"operand {i} has layout {operand.shape}, expected the result's, {inst.shape}")
    _check_callee_layouts(inst)


def _same_order(a: Shape, b: Shape) -> bool:
    """Every leaf has the same minor-to-major order (a missing layout is reported where it is missing)."""
    if a is b:
        return True
    pairs = zip(a.leaves(), b.leaves(), strict=False)
    return all(
        x.layout is None or y.layout is None or x.layout.minor_to_major == y.layout.minor_to_major
        for (_, x), (_, y) in pairs
    )


def _entry_layout_problems(module: Module) -> Iterator[XylaError]:
    """The entry's parameters and result have the announced layouts."""
    config, entry = module.config, module.entry
    announced = [*(config.entry_parameter_layouts or ())]
    actual = [*entry.parameters][: len(announced)]
    if config.entry_result_layout is not None:
        announced.append(config.entry_result_layout)
        actual.append(entry.root)
    for inst, shape in zip(actual, announced, strict=False):
        if not _same_order(inst.shape, shape):
            yield at(inst, f"result layout is {inst.shape}, entry_computation_layout says {shape}")


def _check_callee_layouts(inst: Instruction) -> None:
    """Arguments and parameters agree in layout where the callee runs on the caller's buffers."""
    if inst.op is ops.WHILE:
        pairs = [(inst.operands[0], c.parameters[0]) for c in inst.called]
        root = inst.role("body").root
        if not _same_order(root.shape, inst.shape):
            raise _wrong(f"body returns layout {root.shape}, expected {inst.shape}")
    elif inst.op is ops.CONDITIONAL:
        pairs = [(o, c.parameters[0]) for o, c in zip(inst.operands[1:], inst.called, strict=True) if c.parameters]
    elif inst.op in (ops.CALL, ops.FUSION):
        pairs = list(zip(inst.operands, inst.called[0].parameters, strict=True))
    else:
        return
    for operand, param in pairs:
        if not _same_order(operand.shape, param.shape):
            raise _wrong(f"operand %{operand.name} has layout {operand.shape}, expected {param.shape}")
