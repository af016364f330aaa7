"""Tuples, barriers, maps, custom calls of known meaning."""

from __future__ import annotations

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.passes.algebraic_simplifier.common import broadcast, dynamic, physical
from xyla.passmgr.rules import Rewrite, rule_table


@dynamic
def element_of_tuple(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """get-tuple-element(tuple(x, y), i) = the i-th."""
    x = inst.operands[0]
    return x.operands[inst.attrs.index] if x.op is ops.TUPLE else None


@dynamic
def tuple_of_elements(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """tuple(x.0, x.1, ...) = x, all elements in order."""
    if not inst.operands or inst.operands[0].op is not ops.GET_TUPLE_ELEMENT:
        return None
    x = inst.operands[0].operands[0]
    if x.shape is not inst.shape:
        return None
    for i, o in enumerate(inst.operands):
        if o.op is not ops.GET_TUPLE_ELEMENT or o.operands[0] is not x or o.attrs.index != i:
            return None
    return x


@dynamic
def barrier_unused(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """opt-barrier(tuple(x, y)): elements that nothing takes out of the barrier do not go in."""
    x = inst.operands[0]
    if x.op is not ops.TUPLE or inst.is_root or any(u.op is not ops.GET_TUPLE_ELEMENT for u in inst.users):
        return None
    used = sorted({u.attrs.index for u in inst.users})
    if not used or len(used) == len(x.operands):
        return None
    barrier = rw.add(ops.OPT_BARRIER, [rw.add(ops.TUPLE, [x.operands[i] for i in used])])
    parts = list(x.operands)
    for position, i in enumerate(used):
        parts[i] = rw.add(ops.GET_TUPLE_ELEMENT, [barrier], ops.IndexAttrs(position))
    return rw.add(ops.TUPLE, parts)


def map_simple(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """map(f, x, y) = x op y, where f is one op of parameters and constants, a parameter, or a constant."""
    comp = inst.called[0]
    root = comp.root
    if root.op is ops.PARAMETER:
        number: int = root.attrs.number
        return inst.operands[number]
    if root.op is ops.CONSTANT:
        return broadcast(rw, rw.constant(root.attrs.literal), (), inst.shape)
    if not root.op.has(Trait.ELEMENTWISE) or any(o.op not in (ops.PARAMETER, ops.CONSTANT) for o in root.operands):
        return None
    operands = []
    for o in root.operands:
        if o.op is ops.PARAMETER:
            operands.append(inst.operands[o.attrs.number])
        else:
            shape = Shape.array(o.shape.element_type, inst.shape.dims)
            operands.append(broadcast(rw, rw.constant(o.attrs.literal), (), shape))
    return rw.add(root.op, operands, root.attrs, shape=inst.shape)


@dynamic
def slice_of_padded(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """SliceToDynamic(PadToStatic(x)) = x."""
    if inst.attrs.custom_call_target != "SliceToDynamic" or len(inst.operands) < 2:
        return None
    first = inst.operands[0]
    source = first.operands[0] if first.op is ops.GET_TUPLE_ELEMENT else None
    if source is None or source.op is not ops.CUSTOM_CALL or source.attrs.custom_call_target != "PadToStatic":
        return None
    for i, o in enumerate(inst.operands):
        if o.op is not ops.GET_TUPLE_ELEMENT or o.operands[0] is not source or o.attrs.index != i:
            return None
    return source.operands[0] if source.operands[0].shape.compatible(inst.shape) else None


def _is_layout_constraint(inst: Instruction) -> bool:
    return inst.attrs.custom_call_target == "LayoutConstraint" and len(inst.operands) == 1


def layout_constraint_met(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """LayoutConstraint(x) = x, where x has the layout."""
    if not _is_layout_constraint(inst) or not inst.shape.is_array or inst.shape.layout is None:
        return None
    x = inst.operands[0]
    return x if x.shape is inst.shape else None


@physical
def layout_constraint(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """LayoutConstraint(x) = copy(x), where the layouts differ."""
    return rw.add(ops.COPY, inst.operands, shape=inst.shape) if _is_layout_constraint(inst) else None


TABLE = rule_table(
    ([ops.GET_TUPLE_ELEMENT], (element_of_tuple,)),
    ([ops.TUPLE], (tuple_of_elements,)),
    ([ops.OPT_BARRIER], (barrier_unused,)),
    ([ops.MAP], (map_simple,)),
    ([ops.CUSTOM_CALL], (slice_of_padded, layout_constraint_met, layout_constraint)),
)
