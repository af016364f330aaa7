"""An order that takes new dependencies, against a plain search."""

from __future__ import annotations

import random

from xyla.analysis.reachability import Reachability
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.ops.basic import ParameterAttrs
from xyla.hlo.shape import Shape
from xyla.support.dtypes import F32

SCALAR = Shape.array(F32, ())


def graph(rng: random.Random, count: int) -> Computation:
    comp = Module("m").add_computation("main")
    insts = [comp.add(ops.PARAMETER, (), ParameterAttrs(0), shape=SCALAR)]
    for _ in range(count):
        insts.append(comp.add(ops.ADD, [rng.choice(insts[-8:]), rng.choice(insts)]))
    comp.set_root(insts[-1])
    return comp


def reaches(first: Instruction, then: Instruction, more: list[tuple[Instruction, Instruction]]) -> bool:
    seen, stack = {first}, [first]
    while stack:
        inst = stack.pop()
        for user in (*inst.users, *(t for f, t in more if f is inst)):
            if user not in seen:
                seen.add(user)
                stack.append(user)
    return then in seen


def test_takes_exactly_what_makes_no_cycle() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        comp = graph(rng, 25)
        order, added = Reachability(comp), []
        insts = list(comp.instructions)
        for _ in range(60):
            first, then = rng.choice(insts), rng.choice(insts)
            assert order.depends(then, first) == reaches(first, then, added)
            possible = not reaches(then, first, added)
            assert order.require(first, then) == possible
            if possible:
                added.append((first, then))
            for f, t in added:
                assert order.position(f) < order.position(t)
        for inst in insts:
            assert all(order.position(o) < order.position(inst) for o in inst.operands)


def test_control_dependencies_count() -> None:
    comp = graph(random.Random(0), 4)
    p = next(iter(comp.instructions))
    a, b = comp.add(ops.SINE, [p]), comp.add(ops.COSINE, [p])
    rewriter.add_control_dependency(b, a)
    order = Reachability(comp)
    assert not order.require(a, b)
    assert not order.require(a, a)
    assert order.require(b, a)
