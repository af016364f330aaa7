"""Layouts agree wherever a value is handed on without being touched.

Passes before layout assignment compare shapes up to layout, so a tuple may call row-major what its operand made
column-major. Lowering lets tuples, calls and loops share their operands' memory: here each such place either takes over
the operand's layout or gets a copy. Kernels need nothing: they read each operand in the layout that its own shape
states.
"""

from __future__ import annotations

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Instruction, Module
from xyla.hlo.shape import Shape

_FOLLOWERS = frozenset({ops.OPT_BARRIER, ops.DOMAIN, ops.ADD_DEPENDENCY})


def agree(module: Module) -> Module:
    """The module itself when no array has a layout other than row-major, else a copy in which layouts agree."""
    if not any(_is_unusual(inst.shape) for inst in module.instructions()):
        return module
    copy = rewriter.clone_module(module)
    # Callers first: a loop decides the layouts of its state before its body is looked at.
    for comp in reversed(copy.computation_post_order()):
        for inst in comp.post_order():
            _visit(inst)
    for inst in list(copy.instructions()):
        _fix_results(inst)
    return copy


def _is_unusual(shape: Shape) -> bool:
    return any(leaf.layout is not None and not leaf.layout.is_default for _, leaf in shape.leaves())


def _visit(inst: Instruction) -> None:
    if inst.op is ops.TUPLE:
        _coerce_operands(inst, list(inst.shape.tuple_shapes), 0)
    elif inst.op is ops.GET_TUPLE_ELEMENT:
        rewriter.set_shape(inst, inst.operands[0].shape.tuple_shapes[inst.attrs.index])
    elif inst.op in _FOLLOWERS:
        rewriter.set_shape(inst, inst.operands[0].shape)
    elif inst.op in (ops.CALL, ops.FUSION, ops.ASYNC_START):
        _coerce_operands(inst, [p.shape for p in inst.called[0].parameters], 0)
    elif inst.op is ops.CONDITIONAL:
        _coerce_operands(inst, [c.parameters[0].shape for c in inst.called], 1)
    elif inst.op is ops.WHILE:
        _coerce_operands(inst, [inst.shape], 0)
        for comp in inst.called:
            rewriter.set_shape(comp.parameters[0], inst.shape)


def _coerce_operands(inst: Instruction, wanted: list[Shape], first: int) -> None:
    for i, shape in enumerate(wanted, first):
        rewriter.set_operand(inst, i, _coerce(inst.operands[i], shape))


def _fix_results(inst: Instruction) -> None:
    """What a called computation returns is laid out as its caller says."""
    if inst.op is ops.CALL or inst.op is ops.FUSION or inst.op is ops.CONDITIONAL:
        results = [(comp, inst.shape) for comp in inst.called]
    elif inst.op is ops.WHILE:
        results = [(inst.role("body"), inst.shape)]
    elif inst.op is ops.ASYNC_START:
        results = [(inst.called[0], inst.shape.tuple_shapes[1])]
    else:
        return
    for comp, shape in results:
        comp.set_root(_coerce(comp.root, shape))


def _coerce(value: Instruction, wanted: Shape) -> Instruction:
    """`value` in the layout of `wanted`: itself, a copy, or a tuple of such."""
    have = value.shape
    if have is wanted or _same_memory(have, wanted):
        return value
    comp = value.parent
    if not have.is_tuple:
        return rewriter.create(comp, ops.COPY, [value], shape=wanted, like=value)
    parts = []
    for i, (source, target) in enumerate(zip(have.tuple_shapes, wanted.tuple_shapes, strict=True)):
        part = rewriter.create(comp, ops.GET_TUPLE_ELEMENT, [value], ops.IndexAttrs(i), shape=source, like=value)
        parts.append(_coerce(part, target))
    return rewriter.create(comp, ops.TUPLE, parts, shape=wanted, like=value)


def _same_memory(a: Shape, b: Shape) -> bool:
    """Whether all leaves lie alike (a missing layout is the row-major one)."""
    leaves = zip(a.leaves(), b.leaves(), strict=True)
    return all(not x.is_array or x.strides() == y.strides() for (_, x), (_, y) in leaves)
