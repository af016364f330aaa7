"""Collectives of values that are the same on every device."""

from __future__ import annotations

from xyla.hlo import ops, rewriter
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction, Module
from xyla.passes.algebraic_simplifier.common import broadcast, evaluate, reducer, scalar_literal, scalar_splat, splat_of
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import value_changing
from xyla.passmgr.rules import Rewrite, erase_dead, rule_table

_SAME_OPS = (ops.ALL_GATHER, ops.ALL_REDUCE, ops.REDUCE_SCATTER)


def _constant_splat(inst: Instruction) -> Instruction | None:
    """The scalar constant that the only operand broadcasts: the same on every device."""
    if len(inst.operands) != 1 or not inst.shape.is_array or (not inst.users and not inst.is_root):
        return None
    scalar = scalar_splat(inst.operands[0])
    return scalar if scalar is not None and scalar.op is ops.CONSTANT and not scalar.attrs.literal.elided else None


def all_gather_of_splat(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """all-gather(broadcast(c)) = broadcast(c), for a constant c."""
    scalar = _constant_splat(inst)
    return None if scalar is None else broadcast(rw, scalar, (), inst.shape)


def _group_size(inst: Instruction) -> int | None:
    """How many devices take part, where the groups are listed and equal."""
    if inst.attrs.channel_id and not inst.attrs.use_global_device_ids:
        return None  # each group of replicas counts once a partition
    sizes = {len(g) for g in inst.attrs.replica_groups.groups}
    return sizes.pop() if len(sizes) == 1 else None


def collective_of_one(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """all-reduce(x), all-gather(x) and reduce-scatter(x) = x, where each device is in a group of its own."""
    if _group_size(inst) != 1 or (not inst.users and not inst.is_root):
        return None
    if inst.shape.is_tuple:
        return rw.add(ops.TUPLE, inst.operands)
    return inst.operands[0] if len(inst.operands) == 1 else None


def _reduced_splat(inst: Instruction, rw: Rewrite) -> Instruction | None:
    scalar, count = _constant_splat(inst), _group_size(inst)
    op = reducer(inst.called[0]) if inst.called else None
    if scalar is None or count is None or op is None:
        return None
    value = scalar_literal(scalar)
    if value is None:
        return None
    if op in (ops.MAXIMUM, ops.MINIMUM, ops.AND, ops.OR):
        return splat_of(rw, value, inst.shape)
    if op is not ops.ADD:
        return None
    times = Literal.scalar(count, value.shape.element_type)
    return splat_of(rw, evaluate(ops.MULTIPLY, [value, times]), inst.shape)


def all_reduce_of_splat(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """all-reduce(broadcast(c)) and reduce-scatter(broadcast(c)) = broadcast(n * c), or c for max, min, and, or."""
    exact = inst.called and reducer(inst.called[0]) is not ops.ADD
    return _reduced_splat(inst, rw) if exact or inst.shape.element_type.is_integer else None


@value_changing(Fp.DEFAULT, "a sum of n equal constants becomes a product with n: rounds once")
def all_reduce_of_splat_floats(inst: Instruction, rw: Rewrite) -> Instruction | None:
    """all-reduce(broadcast(c)) and reduce-scatter(broadcast(c)) = broadcast(n * c)."""
    return _reduced_splat(inst, rw) if inst.shape.element_type.is_float else None


def erase_replaced(module: Module) -> None:
    """Erases the collectives that a rule has replaced: effects keep them alive where nothing uses them."""
    for comp in module.computations.values():
        dead = [i for i in comp.instructions if i.op in _SAME_OPS and not i.users and not i.is_root]
        for inst in dead:
            if not inst.control_successors and (_group_size(inst) == 1 or _takes_constant(inst)):
                operands = inst.operands
                rewriter.erase(inst)
                erase_dead(operands)


def _takes_constant(inst: Instruction) -> bool:
    scalar = scalar_splat(inst.operands[0]) if len(inst.operands) == 1 else None
    return scalar is not None and scalar.op is ops.CONSTANT


TABLE = rule_table(
    (_SAME_OPS, (collective_of_one,)),
    ([ops.ALL_GATHER], (all_gather_of_splat,)),
    ([ops.ALL_REDUCE, ops.REDUCE_SCATTER], (all_reduce_of_splat, all_reduce_of_splat_floats)),
)
