"""Flat loop state: a while over nested tuples becomes one over the leaves (part of simplify-while-loops)."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.passes.inlining import copy_body, drop_if_dead
from xyla.passes.tuple_simplifier import RULES
from xyla.passmgr.context import PassContext
from xyla.passmgr.rules import erase_dead, run_rules


def transfers(loop: Instruction) -> bool:
    """Whether a transfer or another asynchronous op starts or ends in a loop, or in what it is given and gives back.

    Its start and end must stay a pair, and the tuple that stands for it meanwhile must not be taken apart.
    """
    inside = any(_is_transfer(i) for comp in loop.called for i in comp.instructions)
    return inside or any(_is_transfer(i) for i in _around(loop))


def _is_transfer(inst: Instruction) -> bool:
    return inst.op.has(Trait.ASYNC_START) or inst.op.has(Trait.ASYNC_DONE)


def _around(loop: Instruction) -> Iterator[Instruction]:
    """What the loop's state is made of and taken apart into, seen through tuples."""
    for step in (attrgetter("operands"), attrgetter("users")):
        seen, stack = {loop}, [loop]
        while stack:
            for other in step(stack.pop()):
                if other in seen:
                    continue
                seen.add(other)
                yield other
                if other.op in (ops.TUPLE, ops.GET_TUPLE_ELEMENT):
                    stack.append(other)


def flatten_state(loop: Instruction, ctx: PassContext) -> Instruction:
    """while(((a), (b, c))) -> while((a, b, c)), the nested tuples rebuilt where they are used. Returns the loop."""
    shape = loop.shape
    if not shape.is_tuple or not any(s.is_tuple for s in shape.tuple_shapes):
        return loop
    if transfers(loop):
        return loop
    leaves = list(shape.leaves())
    if not ctx.permit("flatten-nested-loop-state", loop):
        return loop
    flat = Shape.tuple_of(s for _, s in leaves)
    cond, body = loop.called
    new_cond = _over_flat_state(cond, flat, shape, flatten_root=False)
    new_body = _over_flat_state(body, flat, shape, flatten_root=True)
    init = _flatten(loop.operands[0], flat)
    new = rewriter.create(loop.parent, ops.WHILE, [init], called=[new_cond, new_body], shape=flat, name=loop.name)
    new.metadata, new.frontend_attributes, new.span = loop.metadata, loop.frontend_attributes, loop.span
    nested = _nest(new, shape)
    old_init = loop.operands[0]
    rewriter.replace_uses(loop, nested)
    rewriter.erase(loop)
    erase_dead([old_init])
    drop_if_dead(cond)
    drop_if_dead(body)
    ctx.record(new)
    run_rules(loop.module, ctx, RULES, [new_cond, new_body])
    return new


def _over_flat_state(comp: Computation, flat: Shape, nested: Shape, *, flatten_root: bool) -> Computation:
    new = comp.module.add_computation(comp.name)
    new.execution_thread = comp.execution_thread
    param = new.add(ops.PARAMETER, (), ops.ParameterAttrs(0), shape=flat, name=comp.parameters[0].name)
    root, _ = copy_body(comp, new, [_nest(param, nested)])
    new.set_root(_flatten(root, flat) if flatten_root else root)
    return new


def _flatten(value: Instruction, flat: Shape) -> Instruction:
    """A nested tuple value as a flat tuple of its leaves."""
    parts = []
    for index, _ in value.shape.leaves():
        leaf = value
        for i in index:
            leaf = (
                leaf.operands[i]
                if leaf.op is ops.TUPLE
                else rewriter.create(value.parent, ops.GET_TUPLE_ELEMENT, [leaf], ops.IndexAttrs(i))
            )
        parts.append(leaf)
    return rewriter.create(value.parent, ops.TUPLE, parts, shape=flat)


def _nest(value: Instruction, nested: Shape) -> Instruction:
    """A flat tuple value as a nested tuple of shape `nested`. Iterative: nesting may be deep."""
    leaves = iter(range(len(value.shape.tuple_shapes)))
    open_: list[tuple[Shape, list[Instruction]]] = [(nested, [])]
    while True:
        shape, parts = open_[-1]
        if len(parts) < len(shape.tuple_shapes):
            child = shape.tuple_shapes[len(parts)]
            if child.is_tuple:
                open_.append((child, []))
            else:
                attrs = ops.IndexAttrs(next(leaves))
                parts.append(rewriter.create(value.parent, ops.GET_TUPLE_ELEMENT, [value], attrs))
            continue
        open_.pop()
        made = rewriter.create(value.parent, ops.TUPLE, parts, shape=shape)
        if not open_:
            return made
        open_[-1][1].append(made)
