"""Values, phis, positions and uses."""

from __future__ import annotations

from tests.analysis.programs import BRANCHES, LOOP, NESTED, Analysed, analyse
from xyla.analysis.dataflow import Value
from xyla.hlo import ops
from xyla.hlo.module import Module
from xyla.hlo.ops.basic import ParameterAttrs
from xyla.hlo.shape import Shape
from xyla.support.dtypes import F32


def test_tuples_and_relabelling_define_nothing() -> None:
    a = analyse("""
ENTRY main { x = f32[4] parameter(0)  y = f32[2,2] reshape(x)  z = f32[4] bitcast(y)  k = token[] after-all()
  d = f32[4] add-dependency(z, k)  u = (f32[2,2], token[]) tuple(y, k)
  t = (f32[4], (f32[2,2], token[])) tuple(d, u)  e = (f32[2,2], token[]) get-tuple-element(t), index=1
  ROOT f = f32[2,2] get-tuple-element(e), index=0 }""")
    (only,) = a.dataflow.all_values
    assert only.instruction.name == "x"
    assert a.dataflow.values(a.inst("t")) == (only, only, None)
    assert only.positions[0] == (a.inst("x"), 0)
    assert (a.inst("t"), 1) in only.positions
    assert only.uses == []


def test_reshape_of_another_order_is_a_value() -> None:
    a = analyse("""
ENTRY main { x = f32[2,3]{0,1} parameter(0)  y = f32[6]{0} reshape(x)  ROOT z = f32[6] copy(y) }""")
    assert [v.instruction.name for v in a.dataflow.all_values] == ["x", "y", "z"]


def test_loop_state_is_a_phi_unless_no_trip_changes_it() -> None:
    a = analyse(LOOP)
    count, total = a.value("w", 0), a.value("w", 1)
    assert count.is_phi
    assert count.inputs == [a.value("zero"), a.value("next")]
    assert total.inputs == [a.value("x"), a.value("sum")]
    assert a.value("w", 2) is a.value("y") is a.value("k")
    assert a.value("j") is a.value("i") is count
    assert a.value("out") is total
    assert [(u.instruction.name, u.operand_number, u.operand_leaf) for u in a.value("x").uses] == [("w", 0, 1)]
    assert [u.instruction.name for u in a.value("y").uses] == ["sum"]
    assert a.dataflow.defines(a.inst("w")) == (count, total, None)


def test_nested_loops_pass_on_what_neither_changes() -> None:
    a = analyse(NESTED)
    assert a.value("fixed") is a.value("double")
    inner, outer = a.value("inner", 1), a.value("outer", 1)
    assert inner.inputs == [outer, a.value("a1")]
    assert outer.inputs == [a.value("x"), a.value("sum")]
    assert [v.id for v in a.dataflow.all_values] == list(range(len(a.dataflow.all_values)))


def test_branches_that_agree_need_no_phi() -> None:
    a = analyse("""
one { p = (f32[8], f32[8]) parameter(0)  x = f32[8] get-tuple-element(p), index=0
  y = f32[8] get-tuple-element(p), index=1  ROOT t = (f32[8], f32[8]) tuple(x, y) }
two { p = (f32[8], f32[8]) parameter(0)  x = f32[8] get-tuple-element(p), index=0
  z = f32[8] negate(x)  ROOT t = (f32[8], f32[8]) tuple(x, z) }
ENTRY main { c = pred[] parameter(0)  a = f32[8] parameter(1)  b = f32[8] parameter(2)
  u = (f32[8], f32[8]) tuple(a, b)
  ROOT r = (f32[8], f32[8]) conditional(c, u, u), branch_computations={one, two} }""")
    assert a.value("r", 0) is a.value("a")
    assert a.value("r", 1).is_phi
    assert a.value("r", 1).inputs == [a.value("b"), a.value("z")]
    assert [u.instruction.name for u in a.value("c").uses] == ["r"]


def test_what_the_only_branch_computes_is_a_phi() -> None:
    a = analyse("""
one { p = (f32[8], f32[8]) parameter(0)  x = f32[8] get-tuple-element(p), index=0
  z = f32[8] negate(x)  ROOT t = (f32[8], f32[8]) tuple(x, z) }
ENTRY main { c = s32[] parameter(0)  a = f32[8] parameter(1)  u = (f32[8], f32[8]) tuple(a, a)
  ROOT r = (f32[8], f32[8]) conditional(c, u), branch_computations={one} }""")
    assert a.value("r", 0) is a.value("a")
    assert a.value("r", 1).inputs == [a.value("z")]


def test_conditional_reads_its_selector_only() -> None:
    a = analyse(BRANCHES)
    assert a.value("r").inputs == [a.value("up"), a.value("neg")]
    assert [u.instruction.name for u in a.value("y").uses] == ["up", "neg"]


def test_shared_computations_are_barriers() -> None:
    a = analyse("""
f { p = f32[] parameter(0)  ROOT s = f32[] sine(p) }
g { p = f32[] parameter(0)  ROOT s = f32[] cosine(p) }
ENTRY main { x = f32[] parameter(0)  a = f32[] call(x), to_apply=f  b = f32[] call(a), to_apply=f
  ROOT c = f32[] call(b), to_apply=g }""")
    f, g = a.module.computations["f"], a.module.computations["g"]
    assert a.dataflow.value(f.parameters[0]).instruction is f.parameters[0]
    assert a.dataflow.value(g.parameters[0]) is a.value("b")
    assert a.value("c") is a.dataflow.value(g.root)
    assert [u.instruction.name for u in a.value("x").uses] == ["a"]


def test_shared_loop_body_leaves_the_state_to_the_loop() -> None:
    a = analyse(LOOP.replace("ROOT out = f32[8]", "x2 = (s32[], f32[8], f32[8]) while(w), condition=cond, body=body\n"
                             "  ROOT out = f32[8]").replace("element(w), index=1", "element(x2), index=1"))  # fmt: skip
    assert a.value("w", 2).is_phi
    assert a.value("w", 2).inputs == [a.value("y")]
    assert a.value("x2", 1).inputs == [a.value("w", 1)]


def test_async_wrappers_pass_operands_and_result() -> None:
    a = analyse("""
f { p = f32[8] parameter(0)  ROOT sin = f32[8] sine(p) }
ENTRY main { x = f32[8] parameter(0)  s = ((f32[8]), f32[8], u32[]) async-start(x), calls=f
  u = ((f32[8]), f32[8], u32[]) async-update(s)  ROOT d = f32[8] async-done(u) }""")
    assert a.dataflow.values(a.inst("s")) == (a.value("x"), a.value("d"), None)
    assert a.value("d").instruction.parent.name == "f"
    assert [u.instruction.op for u in a.value("x").uses] == [ops.SINE]


def test_started_operations() -> None:
    a = analyse("""
ENTRY main { x = f32[8] parameter(0)  s = (f32[8], f32[8], u32[]) copy-start(x)  c = f32[8] copy-done(s)
  ps = (f32[8], f32[8]) collective-permute-start(c), channel_id=1, source_target_pairs={{0,0}}
  ROOT pd = f32[8] collective-permute-done(ps) }""")
    assert a.value("s", 1) is a.value("x")
    assert a.value("c") is a.value("s", 0)
    assert a.value("ps", 0) is a.value("c")
    assert a.value("pd") is a.value("ps", 1)
    # What waits reads everything: none of it may be overwritten before.
    assert [u.instruction.op for u in a.value("x").uses] == [ops.COPY_START, ops.COPY_DONE]


def chain(n: int) -> Module:
    module = Module("chain")
    comp = module.add_computation("main")
    shape = Shape.array(F32, (2,))
    inst = comp.add(ops.PARAMETER, (), ParameterAttrs(0), shape=shape)
    for _ in range(n):
        inst = comp.add(ops.SINE, [inst])
    comp.set_root(inst)
    module.set_entry(comp)
    module.config.is_scheduled = True
    return module


def test_deep_chain() -> None:
    a = analyse(chain(20_000))
    assert len(a.dataflow.all_values) == 20_001
    assert a.ranges.peak() == 24


def nested_calls(depth: int) -> Module:
    """A call in a call in a call ..., each with work of its own."""
    module = Module("nested")
    shape = Shape.array(F32, (2,))
    callee = None
    for level in range(depth):
        comp = module.add_computation(f"level{level}")
        inst = comp.add(ops.PARAMETER, (), ParameterAttrs(0), shape=shape)
        if callee is not None:
            inst = comp.add(ops.CALL, [inst], called=[callee], shape=shape)
        comp.set_root(comp.add(ops.SINE, [inst]))
        callee = comp
    assert callee is not None
    module.set_entry(callee)
    module.config.is_scheduled = True
    return module


def test_deeply_nested_calls() -> None:
    a: Analysed = analyse(nested_calls(5_000))
    values: list[Value] = a.dataflow.all_values
    assert len(values) == 5_001
    # Each value is read by the next level only.
    assert a.ranges.peak() == 24
