"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar

from xyla.analysis.equivalence import Equivalence
from xyla.analysis.purity import Purity
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import erase_dead

# A barrier is there to keep equal computations apart; copies and asynchronous pairs are there for their place in time.
_LEFT_ALONE = (ops.PARAMETER, ops.OPT_BARRIER, ops.DOMAIN, ops.AFTER_ALL, ops.ADD_DEPENDENCY)
# The order of float maximum's operands can decide the sign of a zero; the other commutative ops' cannot change a value.
_ORDERED_IN_FLOAT = (ops.MAXIMUM, ops.MINIMUM)


@register
@dataclass(frozen=True, slots=True)
class Cse(Pass):
    """Keeps one of several instructions that compute the same value.

        a = add(x, y)
        b = add(y, x)
        ROOT r = multiply(a, b)      ==>      ROOT r = multiply(a, a)

    Equal means the same op, attributes, shape, operands (in either order for commutative ops), and callees of the same
    structure. Constants are equal bit for bit. Instructions with effects, control dependencies or random results stay.

    is_layout_sensitive: instructions whose layouts differ are different. only_fusion_computations: looks inside
    fusions only. only_scalars: only instructions of scalar shape. ignore_control_dependencies: merges such too.
    """

    name: ClassVar[str] = "cse"
    is_layout_sensitive: bool = False
    only_fusion_computations: bool = False
    only_scalars: bool = False
    ignore_control_dependencies: bool = False

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Linear in the module's size, callees before callers, so that callees made equal make their calls equal."""
        scan = _Scan(self, ctx)
        changed = False
        for comp in module.computation_post_order():
            fused = any(i.op is ops.FUSION for i in comp.callers)
            if not self.only_fusion_computations or fused:
                changed |= scan.computation(comp)
        return changed


@dataclass(slots=True)
class _Scan:
    options: Cse
    ctx: PassContext
    purity: Purity = field(default_factory=Purity)
    classes: Equivalence = field(init=False)

    def __post_init__(self) -> None:
        self.classes = Equivalence(layout_sensitive=self.options.is_layout_sensitive)

    def computation(self, comp: Computation) -> bool:
        first: dict[Hashable, Instruction] = {}
        changed = False
        for inst in comp.post_order():
            if inst not in comp.instructions or not self._eligible(inst):
                continue
            kept = first.setdefault(self._key(inst), inst)
            if kept is inst:
                continue
            if not self.ctx.permit("merge-equal-instructions", inst):
                return changed
            self._merge(inst, kept)
            changed = True
        return changed

    def _merge(self, inst: Instruction, kept: Instruction) -> None:
        # What had to run before `inst` may need `kept`: only the order among the others is kept.
        for before in inst.control_predecessors:
            rewriter.remove_control_dependency(before, inst)
            for after in inst.control_successors:
                rewriter.add_control_dependency(before, after)
        for after in inst.control_successors:
            rewriter.remove_control_dependency(inst, after)
        rewriter.replace_uses(inst, kept)
        self.ctx.record(kept)
        erase_dead([inst])

    def _eligible(self, inst: Instruction) -> bool:
        if inst.op in _LEFT_ALONE or (self.options.only_scalars and inst.shape.rank):
            return False
        if (inst.control_predecessors or inst.control_successors) and not self.options.ignore_control_dependencies:
            return False
        if not inst.users and not inst.is_root:
            return False
        return self.purity.pure(inst)

    def _key(self, inst: Instruction) -> Hashable:
        shape = inst.shape if self.options.is_layout_sensitive else inst.shape.without_layout()
        operands = [o.id for o in inst.operands]
        if len(operands) == 2 and inst.op.has(Trait.COMMUTATIVE) and not _ordered(inst):
            operands.sort()
        # A literal's own layout does not matter beside its shape's: constants compare by value.
        attrs: Hashable = inst.attrs
        if inst.op is ops.CONSTANT:
            literal = inst.attrs.literal
            attrs = inst if literal.elided or not literal.shape.is_array else literal.with_shape(shape)
        called = tuple(self.classes.class_of(c) for c in inst.called)
        return (inst.op, shape, tuple(operands), attrs, called, inst.backend_config, inst.sharding)


def _ordered(inst: Instruction) -> bool:
    return inst.op in _ORDERED_IN_FLOAT and inst.shape.element_type.is_float
