"""Copy insertion: programs keep their meaning on shared memory, no copy is idle, the proof notices what is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.passes.buffer_machine import BufferMachine, flat
from tests.passes.state_programs import state_program
from xyla import interp
from xyla.analysis.alias import Aliases, CanShare, share_elementwise, share_nothing
from xyla.analysis.call_graph import CallGraph
from xyla.analysis.dataflow import Dataflow
from xyla.analysis.interference import check_sharing
from xyla.analysis.timeline import Timeline
from xyla.compiler.optimise import optimise
from xyla.formats.hlo_text import parse
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Instruction, Module
from xyla.hlo.ops.basic import ParameterAttrs
from xyla.hlo.shape import Shape
from xyla.hlo.verifier import verify
from xyla.passes.copy_insertion import CopyInsertion
from xyla.passes.loop_schedule_linearizer import LoopScheduleLinearizer
from xyla.passmgr.context import PassContext, RewriteControl
from xyla.support.dtypes import F32, S32
from xyla.support.status import Status, XylaError
from xyla.targets.cpu.sharing import can_share
from xyla.testing.modules import random_program
from xyla.testing.pass_check import check_pass

SEEDS = 48


def prove(module: Module, hook: CanShare = share_elementwise) -> None:
    """Raises INTERNAL where values that share memory are in each other's way."""
    graph = CallGraph(module)
    dataflow = Dataflow(module, graph)
    check_sharing(Timeline(module, graph), dataflow, Aliases(dataflow, hook))


def copies(module: Module) -> list[Instruction]:
    """The copies of the computations that run as control flow."""
    return [i for c in CallGraph(module).control for i in c.instructions if i.op is ops.COPY]


@pytest.mark.parametrize("hook", [share_elementwise, share_nothing])
def test_state_programs_on_shared_memory(hook: CanShare) -> None:
    """What the evaluator says is what lies in memory at the end; the caller's arrays are as they were."""
    rng = np.random.default_rng(0)
    for seed in range(SEEDS // 2 if hook is share_nothing else SEEDS):
        module = state_program(seed)
        verify(module)
        original = rewriter.clone_module(module)
        arguments = [rng.integers(-9, 9, p.shape.dims).astype(np.int32) for p in module.entry.parameters]
        if seed % 3 == 0:
            LoopScheduleLinearizer().run(module, PassContext())
        CopyInsertion(hook).run(module, PassContext())
        verify(module)
        want = [leaf for value in interp.run(original, arguments) for leaf in flat(value)]
        got = BufferMachine(module, hook).run(arguments)
        assert [w.tolist() for w in want] == [g.tolist() for g in got], seed
        assert not CopyInsertion(hook).run(module, PassContext()), seed


def test_no_copy_is_idle_and_the_proof_misses_none() -> None:
    """Whichever copy is taken out again, the proof fails."""
    taken, idle = 0, []
    for seed in range(100, 112):
        module = state_program(seed)
        CopyInsertion().run(module, PassContext())
        for copy in copies(module):
            smaller = rewriter.clone_module(module)
            inst = smaller.computations[copy.parent.name].find(copy.name)
            assert inst is not None
            rewriter.replace(inst, inst.operands[0])
            taken += 1
            try:
                prove(smaller)
            except XylaError:
                continue
            idle.append((seed, copy.parent.name, copy.name))
    assert taken > 100
    assert not idle


def test_random_programs_keep_their_values() -> None:
    for seed in range(12):
        program = random_program(seed)
        check_pass(CopyInsertion(can_share), program.module, program.arguments)


TWO_WRITES = """HloModule m, is_scheduled=true
ENTRY main {
  x = f32[8] parameter(0)
  u = f32[1] parameter(1)
  i = s32[] parameter(2)
  old = f32[8] sine(x)
  new = f32[8] dynamic-update-slice(old, u, i)
  ROOT s = f32[8] add(new, old)
}
"""


def test_the_proof_names_both_values() -> None:
    with pytest.raises(XylaError, match="%old of 'main' is overwritten by %new of 'main' before %s reads it"):
        prove(parse(TWO_WRITES))


def test_the_proof_looks_at_what_one_instruction_reads_and_writes() -> None:
    with pytest.raises(XylaError, match="%y of 'e' is overwritten by %d of 'e' before %d itself reads it"):
        prove(
            parse("""HloModule m, is_scheduled=true
ENTRY e { x = f32[8] parameter(0)  i = s32[] parameter(1)  y = f32[8] sine(x)
  ROOT d = f32[8] dynamic-update-slice(y, y, i) }""")
        )


def test_the_proof_knows_of_outputs() -> None:
    twice = """HloModule m, is_scheduled=true
ENTRY e { x = f32[] parameter(0)  y = f32[] sine(x)  ROOT t = (f32[], f32[]) tuple(%s) }"""
    with pytest.raises(XylaError, match=r"output 1 .%y. would live in the memory of %y"):
        prove(parse(twice % "y, y"))
    with pytest.raises(XylaError, match=r"output 0 .%x. would live in the memory of %x"):
        prove(parse(twice % "x, y"))


def test_a_rewrite_limit_does_not_stop_it() -> None:
    module = parse(TWO_WRITES)
    assert CopyInsertion().run(module, PassContext(control=RewriteControl(limit=0)))
    prove(module)


def test_the_stored_order_becomes_the_schedule() -> None:
    module = parse(TWO_WRITES.replace(", is_scheduled=true", ""))
    assert CopyInsertion().run(module, PassContext())
    assert module.config.is_scheduled
    assert not CopyInsertion().run(module, PassContext())


ASYNC = """HloModule m, is_scheduled=true
f {
  p = f32[8] parameter(0)
  u = f32[1] constant({1})
  i = s32[] constant(2)
  ROOT d = f32[8] dynamic-update-slice(p, u, i)
}
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] sine(x)
  s = ((f32[8]), f32[8], u32[]) async-start(y), calls=f
  k = f32[8] BETWEEN
  d = f32[8] async-done(s)
  ROOT z = f32[8] add(k, d)
}
"""


def test_asynchronous_updates_work_in_place() -> None:
    module = parse(ASYNC.replace("BETWEEN", "cosine(x)"))
    CopyInsertion().run(module, PassContext())
    assert copies(module) == []


def test_what_asynchronous_work_updates_is_copied_for_others() -> None:
    module = parse(ASYNC.replace("BETWEEN", "cosine(y)"))
    CopyInsertion().run(module, PassContext())
    assert [c.parent.name for c in copies(module)] == ["f"]


PIPELINED = """HloModule m
cond {
  p = (s32[], (u32[2], u32[], token[]), (u32[2], u32[], token[])) parameter(0)
  count = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT less = pred[] compare(count, n), direction=LT
}
body {
  q = (s32[], (u32[2], u32[], token[]), (u32[2], u32[], token[])) parameter(0)
  count = s32[] get-tuple-element(q), index=0
  one = s32[] constant(1)
  next = s32[] add(count, one)
  r = (u32[2], u32[], token[]) get-tuple-element(q), index=1
  rd = (u32[2], token[]) recv-done(r), channel_id=1
  data = u32[2] get-tuple-element(rd), index=0
  s = (u32[2], u32[], token[]) get-tuple-element(q), index=2
  sd = token[] send-done(s), channel_id=2
  k0 = token[] after-all()
  r1 = (u32[2], u32[], token[]) recv(k0), channel_id=1
  k1 = token[] after-all()
  s1 = (u32[2], u32[], token[]) send(data, k1), channel_id=2
  ROOT t = (s32[], (u32[2], u32[], token[]), (u32[2], u32[], token[])) tuple(next, r1, s1)
}
ENTRY main {
  zero = s32[] constant(0)
  c = u32[] constant(7)
  x = u32[2] broadcast(c), dimensions={}
  k0 = token[] after-all()
  r0 = (u32[2], u32[], token[]) recv(k0), channel_id=1
  k1 = token[] after-all()
  s0 = (u32[2], u32[], token[]) send(x, k1), channel_id=2
  init = (s32[], (u32[2], u32[], token[]), (u32[2], u32[], token[])) tuple(zero, r0, s0)
  w = (s32[], (u32[2], u32[], token[]), (u32[2], u32[], token[])) while(init), condition=cond, body=body
  r = (u32[2], u32[], token[]) get-tuple-element(w), index=1
  rd = (u32[2], token[]) recv-done(r), channel_id=1
  s = (u32[2], u32[], token[]) get-tuple-element(w), index=2
  sd = token[] send-done(s), channel_id=2
  ROOT out = u32[2] get-tuple-element(rd), index=0
}
"""


def test_what_is_sent_over_trips_is_copied_before_it_is_sent() -> None:
    module = parse(PIPELINED)
    LoopScheduleLinearizer().run(module, PassContext())
    CopyInsertion().run(module, PassContext())
    body = module.computations["body"]
    (copy,) = [c for c in copies(module) if c.parent is body]
    assert [u.name for u in copy.users] == ["s1"]


def test_what_is_still_on_its_way_cannot_be_copied() -> None:
    module = parse(PIPELINED)  # the schedule receives before what came last is sent
    module.config.is_scheduled = True
    with pytest.raises(XylaError, match="the result of %r1 would have to be copied before it is there") as caught:
        CopyInsertion().run(module, PassContext())
    assert caught.value.status is Status.UNIMPLEMENTED


def test_a_long_chain_of_updates_in_place() -> None:
    module = Module("chain")
    comp = module.add_computation("main")
    x = comp.add(ops.PARAMETER, (), ParameterAttrs(0), shape=Shape.array(F32, (8,)))
    u = comp.add(ops.PARAMETER, (), ParameterAttrs(1), shape=Shape.array(F32, (1,)))
    i = comp.add(ops.PARAMETER, (), ParameterAttrs(2), shape=Shape.array(S32, ()))
    value = comp.add(ops.SINE, [x])
    for _ in range(5_000):
        value = comp.add(ops.DYNAMIC_UPDATE_SLICE, [value, u, i])
    comp.set_root(value)
    module.set_entry(comp)
    CopyInsertion().run(module, PassContext())
    assert copies(module) == []


@pytest.mark.parametrize("name", ["kvcache_loop256", "while_scalar_1M", "lstm_scan128"])
def test_models_copy_nothing_in_their_loops(shared: Path, name: str) -> None:
    """At entry, at most one copy of each value."""
    module = optimise(parse((shared / "models" / f"{name}.hlo").read_text())).module
    LoopScheduleLinearizer().run(module, PassContext())
    CopyInsertion(can_share).run(module, PassContext())
    graph, dataflow = CallGraph(module), Dataflow(module)
    made = copies(module)
    assert all(graph.depth(c.parent) == 0 for c in made)
    assert len(made) == len({dataflow.value(c.operands[0]) for c in made}) <= 2
