"""The graph and its rewriter: users, names, orders, cycles, cloning, control dependencies, deep chains."""

from __future__ import annotations

import pytest

from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.shape import Shape
from xyla.hlo.verifier import verify
from xyla.support.dtypes import F32
from xyla.support.status import XylaError

V = Shape.array(F32, (4,))


def module() -> tuple[Module, Computation, list[Instruction]]:
    m = Module("m")
    comp = m.add_computation("main")
    m.set_entry(comp)
    return m, comp, [comp.add(ops.PARAMETER, attrs=ops.ParameterAttrs(i), shape=V, name=f"p{i}") for i in range(2)]


def test_users_count_every_use() -> None:
    _, comp, (x, y) = module()
    double = comp.add(ops.ADD, [x, x])
    assert x.users == {double: 2}
    rewriter.set_operand(double, 1, y)
    assert x.users == {double: 1}
    assert double.operands == (x, y)
    rewriter.replace_uses(x, y)
    assert x.users == {}
    assert y.users == {double: 2}


def test_replace_moves_root_metadata_and_control_dependencies() -> None:
    _, comp, (x, y) = module()
    old = comp.add(ops.ADD, [x, y], name="old")
    first, then = comp.add(ops.NEGATE, [x]), comp.add(ops.NEGATE, [y])
    rewriter.add_control_dependency(first, old)
    rewriter.add_control_dependency(old, then)
    comp.set_root(old)
    new = rewriter.replace_with(old, ops.MULTIPLY, [x, y])
    assert comp.root is new
    assert old not in comp.instructions
    assert new.control_predecessors == (first,)
    assert then.control_predecessors == (new,)
    assert comp.find("old") is None


def test_erasing_what_is_used_is_refused() -> None:
    _, comp, (x, y) = module()
    comp.set_root(comp.add(ops.ADD, [x, y]))
    for inst in (x, comp.root):
        with pytest.raises(XylaError, match="still used"):
            rewriter.erase(inst)


def test_post_order_keeps_storage_order_where_it_can() -> None:
    _, comp, (x, y) = module()
    b, a = comp.add(ops.NEGATE, [y]), comp.add(ops.NEGATE, [x])
    total = comp.add(ops.ADD, [a, b])
    comp.set_root(total)
    assert comp.post_order() == [x, y, b, a, total]
    late = comp.add(ops.ABS, [x])
    rewriter.set_operand(b, 0, late)
    assert comp.post_order() == [x, y, late, b, a, total]


def test_cycles_are_found() -> None:
    m, comp, (x, y) = module()
    a = comp.add(ops.ADD, [x, y])
    b = comp.add(ops.ADD, [a, y])
    comp.set_root(b)
    rewriter.set_operand(a, 0, b)
    with pytest.raises(XylaError, match="cycle"):
        comp.post_order()
    callee = m.add_computation("f")
    callee.set_root(callee.add(ops.CALL, [], ops.CallAttrs(), called=[callee], shape=V))
    with pytest.raises(XylaError, match="calls itself"):
        m.computation_post_order()


def test_names_are_made_unique() -> None:
    m, comp, (x, y) = module()
    names = [comp.add(ops.ADD, [x, y], name="add.7").name for _ in range(3)]
    assert names[0] == "add.7"
    assert len(set(names)) == 3
    assert m.add_computation("main").name != "main"


def test_a_clone_shares_no_instruction_and_prints_alike() -> None:
    m, comp, (x, y) = module()
    comp.set_root(comp.add(ops.ADD, [x, y]))
    copy = rewriter.clone_module(m)
    assert str(copy) == str(m)
    assert not set(copy.instructions()) & set(m.instructions())
    verify(copy)


def test_a_chain_of_100_000_instructions_works() -> None:
    m, comp, (x, _) = module()
    value = x
    for _ in range(100_000):
        value = comp.add(ops.NEGATE, [value], shape=V)
    comp.set_root(value)
    assert len(comp.post_order()) == 100_002
    assert len(comp.reachable_from_root()) == 100_001
    verify(m)
