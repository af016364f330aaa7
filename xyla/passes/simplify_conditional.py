"""Simplification of conditionals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from xyla.analysis.equivalence import Equivalence
from xyla.analysis.purity import Purity
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.passes.inlining import copy_body, drop_if_dead, own, sweep
from xyla.passes.loops import is_alive
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import erase_dead, has_effect
from xyla.support.dtypes import PRED

# Beside element-wise ops, what a branch may hold to be run whether or not it is taken.
_CHEAP = frozenset({
    ops.BROADCAST, ops.CONCATENATE, ops.CONSTANT, ops.DYNAMIC_SLICE, ops.GET_TUPLE_ELEMENT, ops.PAD, ops.PARAMETER,
    ops.REDUCE, ops.RESHAPE, ops.SLICE, ops.TUPLE, ops.IOTA,
})  # fmt: skip


@register
@dataclass(frozen=True, slots=True)
class SimplifyConditional(Pass):
    """Removes conditionals whose outcome is known or cheap, and what the others carry in vain.

        conditional(true, x, y), true_computation=f, ...      ==>      f(x)
        conditional(p, x, y), f = {a -> a + 1}, g = {b -> b * 2}      ==>      select(p, x + 1, y * 2)

    Operands that a branch does not read, results that nothing reads or that are there twice, go. Conditionals with
    control dependencies or a scheduling group stay.
    """

    name: ClassVar[str] = "simplify-conditional"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Until nothing changes: what one conditional no longer reads, another need not return. A round is linear in
        the module's size (what is copied out of a branch is removed from it), and one or two are the rule.
        """
        changed = False
        while _round(module, ctx):
            changed = True
        return changed


def _round(module: Module, ctx: PassContext) -> bool:
    scan = _Scan(ctx)
    changed = False
    # Later conditionals and outer ones first: they decide what the others are asked for.
    for comp in reversed(module.computation_post_order()):
        for inst in [i for i in reversed(comp.post_order()) if i.op is ops.CONDITIONAL]:
            if is_alive(inst):
                changed |= scan.simplify(inst)
    return changed


@dataclass(slots=True)
class _Scan:
    ctx: PassContext
    purity: Purity = field(default_factory=Purity)
    classes: Equivalence = field(default_factory=Equivalence)

    def simplify(self, inst: Instruction) -> bool:
        if inst.control_predecessors or inst.control_successors:
            return False
        if any(key == "_scheduling_group_id" for key, _ in inst.frontend_attributes):
            return False
        if not inst.users and not inst.is_root and not has_effect(inst):
            return False  # dead code elimination takes all of it
        if self._take_branch(inst):
            return True
        changed = self._merge_results(inst)
        changed |= self._drop_results(inst)
        if not is_alive(inst):  # none of its results was read
            return True
        changed |= self._drop_operands(inst)
        return self._select(inst) or changed

    def _take_branch(self, inst: Instruction) -> bool:
        """A conditional on a constant, with one branch, or with equal branches is that branch."""
        index, rule = _known_branch(inst), "known-branch"
        if index is None and len(set(inst.operands[1:])) == 1:
            index, rule = (
                (0, "equal-branches") if len({self.classes.class_of(c) for c in inst.called}) == 1 else (None, "")
            )
        if index is None or not self.ctx.permit(rule, inst):
            return False
        branch, argument = inst.called[index], inst.operands[1 + index]
        if ("inlineable", "false") in [(k, v.strip('"')) for k, v in inst.frontend_attributes]:
            new = rewriter.create(inst.parent, ops.CALL, [argument], ops.CallAttrs(), called=[branch], like=inst)
        else:
            new, _ = copy_body(branch, inst.parent, [argument])
        self._replace(inst, new)
        return True

    def _select(self, inst: Instruction) -> bool:
        """A predicated conditional with cheap, pure branches is both branches and selects."""
        if len(inst.called) != 2 or inst.operands[0].shape.element_type is not PRED or not _selectable(inst.shape):
            return False
        if not all(_cheap(c) and self.purity.pure_computation(c) for c in inst.called):
            return False
        if not self.ctx.permit("conditional-to-select", inst):
            return False
        values = [copy_body(c, inst.parent, [a])[0] for c, a in zip(inst.called, inst.operands[1:], strict=True)]
        self._replace(inst, _select_values(inst, values[0], values[1]))
        erase_dead(values)
        return True

    def _replace(self, inst: Instruction, new: Instruction) -> None:
        self.ctx.record(new)
        operands = dict.fromkeys(inst.operands)
        rewriter.replace_uses(inst, new)
        called = inst.called
        rewriter.erase(inst)
        for comp in called:
            drop_if_dead(comp)
        erase_dead(operands)

    def _drop_operands(self, inst: Instruction) -> bool:
        """Elements of a branch's argument tuple that the branch does not read go."""
        changed = False
        for i in range(len(inst.called)):
            used = _used_elements(inst.called[i])
            argument = inst.operands[1 + i]
            if used is None or argument.op is not ops.TUPLE or len(used) == len(argument.operands):
                continue
            if not self.ctx.permit("unused-branch-operands", inst):
                return changed
            own(inst)
            _narrow_parameter(inst.called[i], used)
            parts = [argument.operands[k] for k in used]
            shape = Shape.tuple_of(argument.shape.tuple_shapes[k] for k in used)
            rewriter.set_operand(inst, 1 + i, rewriter.create(inst.parent, ops.TUPLE, parts, shape=shape))
            erase_dead([argument])
            self.ctx.record(inst)
            changed = True
        return changed

    def _merge_results(self, inst: Instruction) -> bool:
        """Result elements that every branch gives the same value are read from the first of them."""
        if not _only_elements(inst) or any(c.root.op is not ops.TUPLE for c in inst.called):
            return False
        first: dict[tuple[Instruction, ...], int] = {}
        same = {}
        for k, values in enumerate(zip(*(c.root.operands for c in inst.called), strict=True)):
            if first.setdefault(values, k) != k:
                same[k] = first[values]
        readers = [u for u in inst.users if u.attrs.index in same]
        if not readers or not self.ctx.permit("repeated-branch-results", inst):
            return False
        for user in readers:
            rewriter.set_attrs(user, ops.IndexAttrs(same[user.attrs.index]))
        self.ctx.record(inst)
        return True

    def _drop_results(self, inst: Instruction) -> bool:
        """Result elements that nothing reads go."""
        if not inst.shape.tuple_shapes or not _only_elements(inst):
            return False
        used = sorted({u.attrs.index for u in inst.users if u.users or u.is_root})
        if len(used) == len(inst.shape.tuple_shapes) or not self.ctx.permit("unused-branch-results", inst):
            return False
        if not used and not has_effect(inst):
            called = inst.called
            erase_dead(list(inst.users))
            for comp in called:
                drop_if_dead(comp)
            return True
        own(inst)
        for comp in inst.called:
            _narrow_root(comp, used)
        place = {old: new for new, old in enumerate(used)}
        for user in list(inst.users):
            if user.attrs.index in place:
                rewriter.set_attrs(user, ops.IndexAttrs(place[user.attrs.index]))
            else:
                erase_dead([user])
        rewriter.set_shape(inst, Shape.tuple_of(inst.shape.tuple_shapes[k] for k in used))
        inst.sharding = inst.origin = ""
        self.ctx.record(inst)
        return True


def _known_branch(inst: Instruction) -> int | None:
    """The branch taken, when it is known: out-of-range selectors take the last."""
    if len(inst.called) == 1:
        return 0
    selector = inst.operands[0]
    if selector.op is not ops.CONSTANT or selector.attrs.literal.elided:
        return None
    value = selector.attrs.literal.first
    if selector.shape.element_type is PRED:
        return 0 if value else 1
    last = len(inst.called) - 1
    return int(value) if 0 <= int(value) <= last else last


def _cheap(comp: Computation) -> bool:
    return all(i.op in _CHEAP or i.op.has(Trait.ELEMENTWISE) for i in comp.instructions)


def _selectable(shape: Shape) -> bool:
    leaves = shape.tuple_shapes if shape.is_tuple else (shape,)
    return all((s.is_array and not s.is_dynamic) or s.is_token for s in leaves)


def _select_values(inst: Instruction, on_true: Instruction, on_false: Instruction) -> Instruction:
    if not inst.shape.is_tuple:
        return _select_leaf(inst, on_true, on_false)
    leaves = [
        _select_leaf(inst, _element(on_true, k), _element(on_false, k)) for k in range(len(inst.shape.tuple_shapes))
    ]
    return rewriter.create(inst.parent, ops.TUPLE, leaves, shape=inst.shape, like=inst)


def _select_leaf(inst: Instruction, on_true: Instruction, on_false: Instruction) -> Instruction:
    comp = inst.parent
    if on_true is on_false:
        return on_true
    if on_true.shape.is_token:
        return rewriter.create(comp, ops.AFTER_ALL, [on_true, on_false], like=inst)
    chooser = inst.operands[0]
    if on_true.shape.rank:
        shape = on_true.shape.with_type(PRED)
        chooser = rewriter.create(comp, ops.BROADCAST, [chooser], ops.DimensionsAttrs(()), shape=shape)
    return rewriter.create(comp, ops.SELECT, [chooser, on_true, on_false], shape=on_true.shape, like=inst)


def _element(value: Instruction, index: int) -> Instruction:
    if value.op is ops.TUPLE:
        return value.operands[index]
    return rewriter.create(value.parent, ops.GET_TUPLE_ELEMENT, [value], ops.IndexAttrs(index))


def _used_elements(branch: Computation) -> list[int] | None:
    """The elements of a branch's parameter that it reads; None when it uses the tuple as a whole or has no tuple."""
    (param,) = branch.parameters
    if not param.shape.is_tuple or param.is_root or any(u.op is not ops.GET_TUPLE_ELEMENT for u in param.users):
        return None
    return sorted({u.attrs.index for u in param.users if u.users or u.is_root})


def _narrow_parameter(branch: Computation, used: list[int]) -> None:
    sweep(branch)
    (param,) = branch.parameters
    place = {old: new for new, old in enumerate(used)}
    for user in param.users:
        rewriter.set_attrs(user, ops.IndexAttrs(place[user.attrs.index]))
    rewriter.set_shape(param, Shape.tuple_of(param.shape.tuple_shapes[k] for k in used))
    param.sharding = param.origin = ""


def _narrow_root(branch: Computation, used: list[int]) -> None:
    root = branch.root
    parts = [_element(root, k) for k in used]
    shape = Shape.tuple_of(root.shape.tuple_shapes[k] for k in used)
    branch.set_root(rewriter.create(branch, ops.TUPLE, parts, shape=shape, like=root))
    branch.root.sharding = ""
    sweep(branch)


def _only_elements(inst: Instruction) -> bool:
    return not inst.is_root and inst.shape.is_tuple and all(u.op is ops.GET_TUPLE_ELEMENT for u in inst.users)
