"""Runs an instruction in another element type: shared by the passes that eliminate a type."""

from __future__ import annotations

from collections.abc import Mapping

from xyla.hlo import ops, rewriter
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.passes.building import Builder, Val
from xyla.passmgr.rules import Rewrite
from xyla.support.dtypes import ElementType

TypeMap = Mapping[ElementType, ElementType]

# Ops that only copy elements, hold structure, or are about bits: no arithmetic happens in their type.
_STRUCTURAL = frozenset({
    ops.PARAMETER, ops.CONSTANT, ops.TUPLE, ops.GET_TUPLE_ELEMENT, ops.CONVERT, ops.BITCAST_CONVERT, ops.CUSTOM_CALL,
    ops.CALL, ops.WHILE, ops.CONDITIONAL, ops.FUSION, ops.MAP, ops.SORT, ops.SCATTER, ops.SELECT_AND_SCATTER,
    ops.OPT_BARRIER, ops.DOMAIN, ops.COPY_START, ops.COPY_DONE, ops.SELECT, ops.INFEED, ops.OUTFEED,
    ops.RNG_BIT_GENERATOR, ops.GET_DIMENSION_SIZE, ops.SET_DIMENSION_SIZE, ops.AFTER_ALL, ops.ADD_DEPENDENCY,
    ops.SCAN, ops.TOPK, ops.REDUCE_PRECISION, ops.STOCHASTIC_CONVERT,
})  # fmt: skip
# Reductions accumulate in the type of their computation: that is converted with them.
_REDUCTIONS = frozenset({ops.REDUCE, ops.REDUCE_WINDOW, ops.ALL_REDUCE, ops.REDUCE_SCATTER})


def is_arithmetic(inst: Instruction) -> bool:
    """Whether an instruction computes in its element types (rather than moving elements or calling others)."""
    op = inst.op
    if op in _STRUCTURAL or op.has(Trait.DATA_MOVEMENT):
        return False
    if op in _REDUCTIONS:
        return all(can_retype(c) for c in inst.called)
    if inst.called or op.has(Trait.COLLECTIVE) or op.has(Trait.ASYNC_START) or op.has(Trait.ASYNC_DONE):
        return False
    return not op.has(Trait.SIDE_EFFECT)


def uses(inst: Instruction, types: TypeMap) -> bool:
    """Whether an operand or a result has one of the types."""
    shapes = [inst.shape, *(o.shape for o in inst.operands)]
    return any(s.element_type in types or any(leaf.element_type in types for _, leaf in s.leaves()) for s in shapes)


def can_retype(comp: Computation) -> bool:
    """Whether a scalar computation may run in a wider type: it is element-wise and looks at no bits."""
    return all(
        i.op in (ops.PARAMETER, ops.CONSTANT, ops.TUPLE)
        or (i.op.has(Trait.ELEMENTWISE) and i.op is not ops.REDUCE_PRECISION)
        for i in comp.instructions
    )


def retyped(shape: Shape, types: TypeMap) -> Shape:
    """The shape with the types replaced in every leaf."""
    return shape.map_leaves(lambda s: s.with_type(types[s.element_type]) if s.element_type in types else s)


def run_in(inst: Instruction, rw: Rewrite, types: TypeMap) -> Instruction:
    """`inst` over converted operands, with its result converted back: the same op, one rounding at its end."""
    rw.permit()
    b = Builder(rw)
    operands = [_converted(v, types) for v in b.vals(inst.operands)]
    called = [retyped_computation(c, types) for c in inst.called]
    shape = retyped(inst.shape, types)
    new = b.apply(inst.op, *operands, attrs=inst.attrs, shape=shape, called=called)
    new.inst.backend_config = inst.backend_config
    return _back(new, inst.shape).inst


def _converted(x: Val, types: TypeMap) -> Val:
    to = types.get(x.et)
    return x if to is None else x.b.apply(ops.CONVERT, x, shape=x.shape.with_type(to))


def _back(x: Val, shape: Shape) -> Val:
    if not shape.is_tuple:
        return x if x.shape is shape else x.b.apply(ops.CONVERT, x, shape=shape)
    return x.b.tuple([_back(x.element(i), s) for i, s in enumerate(shape.tuple_shapes)])


def retyped_computation(comp: Computation, types: TypeMap) -> Computation:
    """A copy of a scalar computation in other types (itself when it has none of them)."""
    if not any(uses(i, types) for i in comp.instructions):
        return comp
    new = comp.module.add_computation(f"{comp.name}_wide")
    made: dict[Instruction, Instruction] = {}
    for inst in comp.post_order():
        operands = [made[o] for o in inst.operands]
        shape = retyped(inst.shape, types)
        copy = rewriter.clone_instruction(inst, new, operands, shape=shape)
        if inst.op is ops.CONSTANT and shape is not inst.shape:
            literal = Literal.of(inst.attrs.literal.array, shape.element_type)
            rewriter.set_attrs(copy, ops.ConstantAttrs(literal.with_shape(shape)))
        made[inst] = copy
    new.set_root(made[comp.root])
    return new
