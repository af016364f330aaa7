"""HLO to LMHLO: what each instruction becomes, and that the program computes what the module says, also from text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from xyla.analysis.alias import Aliases
from xyla.analysis.dataflow import Dataflow
from xyla.analysis.timeline import LiveRanges, Timeline
from xyla.buffers.assignment import BufferAssignment, assign
from xyla.codegen.kernel import KernelSpec
from xyla.formats.hlo_text import parse as parse_hlo
from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.interp import Evaluator
from xyla.lowering import lmhlo
from xyla.lowering.frames import in_order, overwritten_parameters
from xyla.lowering.hlo_to_lmhlo import lower
from xyla.lowering.lmhlo_reader import parse
from xyla.lowering.lmhlo_text import print_module
from xyla.lowering.lmhlo_verify import verify
from xyla.lowering.units import HandlerUnit, Unit
from xyla.passes.copy_insertion import CopyInsertion
from xyla.passmgr.context import PassContext
from xyla.runtime.program import ArrayType, GemmCall, Slice
from xyla.schedule.order import schedule
from xyla.support.status import Status, XylaError
from xyla.targets.cpu.emit import CpuEmitter
from xyla.testing.lmhlo_machine import Machine

X = np.arange(4, dtype=np.float32)
Y = np.ones(4, np.float32)


def handlers_only(inst: Instruction) -> Unit:
    return HandlerUnit("test", None, "test")


def planned(module: Module, emit: Any) -> BufferAssignment:
    schedule(module)
    CopyInsertion().run(module, PassContext())
    dataflow = Dataflow(module)
    ranges = LiveRanges(Timeline(module, dataflow.graph), dataflow)
    units = {i: emit(i) for c in dataflow.graph.control for i in c.instructions if i.op in (ops.SORT, ops.REDUCE)}
    scratch = {i: u.scratch_bytes for i, u in units.items() if isinstance(u, KernelSpec)}
    return assign(module, dataflow, Aliases(dataflow), ranges, scratch=scratch)


def lowered(text: str, emit: Any = handlers_only) -> lmhlo.Module:
    module = parse_hlo(text)
    made = lower(module, planned(module, emit), emit)
    verify(made)
    assert parse(print_module(made)) == made
    return made


def cpu() -> Any:
    emitter = CpuEmitter()

    def emit(inst: Instruction) -> Unit:
        made = emitter.emit(inst)
        return HandlerUnit("test", None, made) if isinstance(made, str) else made

    return emit


def ops_of(module: lmhlo.Module, cls: type[Any]) -> list[Any]:
    return [op for f in module.functions for op in f.body.walk() if isinstance(op, cls)]


def check(text: str, *args: Any, emit: Any = handlers_only) -> lmhlo.Module:
    """Lowers, runs, prints, reads back and runs again; both give what the evaluator gives."""
    module = lowered(text, emit)
    entry = parse_hlo(text).entry
    want = Evaluator().evaluate_computation(entry, args)
    leaves: Sequence[Any] = want if isinstance(want, tuple) else (want,)
    for program in (module, parse(print_module(module))):
        for got, expected in zip(Machine(program).run(*args), leaves, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5)
    return module


def test_kernels_read_and_write_the_slices_of_the_assignment() -> None:
    module = check("ENTRY main { x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n ROOT s = f32[4] add(x, y) }", X, Y)
    (launch,) = ops_of(module, lmhlo.Launch)
    assert launch.mnemonic == "lmhlo.add"
    assert [v.slice.allocation for v in (*launch.inputs, *launch.outputs)] == [0, 1, 2]
    x, y, out, _ = module.entry.arguments
    assert (x.params, x.name, y.params, out.output_index) == (0, "x", 1, ((),))
    assert "ROOT" in launch.hlo.text
    assert launch.hlo.instruction.op is ops.ADD


def test_what_only_names_values_becomes_nothing() -> None:
    module = check(
        """ENTRY main { x = f32[4] parameter(0)
        b = f32[2,2] reshape(x)
        t = (f32[2,2], f32[4]) tuple(b, x)
        e = f32[2,2] get-tuple-element(t), index=0
        c = f32[4] bitcast(e)
        ROOT n = f32[4] negate(c) }""",
        X,
    )
    assert [type(op) for op in module.entry.body.ops] == [lmhlo.Launch]


def test_constants_are_globals_and_arguments_hold_them() -> None:
    module = check(
        """ENTRY main { x = f32[4] parameter(0)
        c = f32[4] constant({1, 2, 3, 4})
        ROOT s = f32[4] add(x, c) }""",
        X,
    )
    (launch,) = ops_of(module, lmhlo.Launch)
    assert launch.inputs[1].space is lmhlo.Space.GLOBAL
    (constant,) = module.globals
    (argument,) = [a for a in module.entry.arguments if a.constant_name]
    assert argument.constant_name == constant.name
    assert argument.alloc == constant.alloc


def test_constants_keep_the_order_of_their_dimensions() -> None:
    module = check(
        """ENTRY main { x = f32[2,2] parameter(0)
        a = f32[2,2]{0,1} constant({{1, 2}, {3, 4}})
        b = f32[2,2]{1,0} constant({{5, 6}, {7, 8}})
        s = f32[2,2] add(x, a)
        ROOT t = f32[2,2] add(s, b) }""",
        X.reshape(2, 2),
    )
    assert sorted(str(g.literal.shape) for g in module.globals) == ["f32[2,2]", "f32[2,2]{0,1}"]


def test_a_constant_read_in_another_shape_is_a_view_of_its_argument() -> None:
    module = check(
        """ENTRY main { x = f32[2,2] parameter(0)
        c = f32[4] constant({1, 2, 3, 4})
        r = f32[2,2] reshape(c)
        ROOT s = f32[2,2] add(x, r) }""",
        X.reshape(2, 2),
    )
    (launch,) = ops_of(module, lmhlo.Launch)
    assert launch.inputs[1].space is lmhlo.Space.ARGUMENT


LOOP = """
cond { t = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(5)
  ROOT lt = pred[] compare(i, n), direction=LT }
body { t = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[4] get-tuple-element(t), index=1
  b = f32[4] get-tuple-element(t), index=2
  sum = f32[4] add(a, b)
  ROOT r = (s32[], f32[4], f32[4]) tuple(next, b, sum) }
ENTRY main { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[4], f32[4]) tuple(zero, x, y)
  ROOT w = (s32[], f32[4], f32[4]) while(init), condition=cond, body=body, backend_config={"known_trip_count":{"n":"5"}}
}"""


def test_a_loop_keeps_its_state_in_place() -> None:
    module = check(LOOP, X, Y)
    (loop,) = ops_of(module, lmhlo.While)
    assert loop.trip_count == 5
    assert loop.predicate.type.dtype == np.bool_
    assert [type(op) for op in loop.condition.ops] == [lmhlo.Launch]


def test_two_loops_may_share_condition_and_body() -> None:
    text = LOOP.replace("ROOT w =", "w =").replace(
        'backend_config={"known_trip_count":{"n":"5"}}',
        "\n  ROOT v = (s32[], f32[4], f32[4]) while(w2), condition=cond, body=body",
    )
    text = text.replace(
        "  ROOT v",
        """  p = f32[4] get-tuple-element(w), index=1
  q = f32[4] get-tuple-element(w), index=2
  w2 = (s32[], f32[4], f32[4]) tuple(zero, p, q)
  ROOT v""",
    ).replace("body=body, \n", "body=body\n")
    module = check(text, X, Y)
    assert [f.private for f in module.functions] == [False, True, True]
    for loop in ops_of(module, lmhlo.While):
        assert [type(op) for op in loop.condition.ops] == [lmhlo.Call]
        assert {type(op) for op in loop.body.ops} == {lmhlo.Call, lmhlo.Copy}


@pytest.mark.parametrize("selector", [0, 1, 7, -1])
def test_a_conditional_is_a_case_on_its_index(selector: int) -> None:
    module = check(
        """
        neg { p = f32[4] parameter(0)
          ROOT n = f32[4] negate(p) }
        twice { p = f32[4] parameter(0)
          ROOT a = f32[4] add(p, p) }
        ENTRY main { i = s32[] parameter(0)
          x = f32[4] parameter(1)
          ROOT c = f32[4] conditional(i, x, x), branch_computations={neg, twice} }""",
        np.int32(selector),
        X,
    )
    (case,) = ops_of(module, lmhlo.Case)
    assert case.index.type.dtype == np.int32
    assert len(case.branches) == 2


def test_a_predicate_takes_branch_0_when_true() -> None:
    for value in (True, False):
        check(
            """
            neg { p = f32[4] parameter(0)
              ROOT n = f32[4] negate(p) }
            same { ROOT p = f32[4] parameter(0) }
            ENTRY main { i = pred[] parameter(0)
              x = f32[4] parameter(1)
              ROOT c = f32[4] conditional(i, x, x), true_computation=neg, false_computation=same }""",
            np.bool_(value),
            X,
        )


SHARED = """
double { p = f32[4] parameter(0)
  ROOT a = f32[4] add(p, p) }
ENTRY main { x = f32[4] parameter(0)
  once = f32[4] call(x), to_apply=double
  twice = f32[4] call(once), to_apply=double
  ROOT t = (f32[4], f32[4]) tuple(once, twice) }"""


def test_a_shared_computation_is_one_function_with_copies_in_and_out() -> None:
    module = check(SHARED, X)
    assert [f.name for f in module.functions] == ["main", "double"]
    calls = ops_of(module, lmhlo.Call)
    assert [(c.callee, c.pure) for c in calls] == [("double", True)] * 2
    assert calls[0].targets == calls[1].targets
    assert module.functions[1].arguments is module.functions[0].arguments


def test_a_function_that_overwrites_its_arguments_runs_every_time() -> None:
    module = parse_hlo(SHARED)
    assignment = planned(module, handlers_only)
    assert not overwritten_parameters(assignment)
    double = module.computations["double"]
    (given,) = assignment.slices(double.parameters[0])
    assert given is not None
    heap = assignment.allocations[given.allocation]
    assignment.put(heap, assignment.dataflow.value(double.root), given.offset + 4)
    assert overwritten_parameters(assignment) == {double}
    assert [c.pure for c in ops_of(lower(module, assignment, handlers_only), lmhlo.Call)] == [False, False]


def test_copies_read_before_they_overwrite() -> None:
    def at(offset: int) -> lmhlo.View:
        return lmhlo.View(Slice(0, offset, 4), ArrayType(np.dtype(np.float32), (), ()))

    chain = [(at(0), at(4)), (at(4), at(8)), (at(8), at(12))]
    assert in_order(chain) == chain[::-1]
    with pytest.raises(XylaError, match="values trade places") as caught:
        in_order([(at(0), at(4)), (at(4), at(0))])
    assert caught.value.status is Status.INTERNAL


def test_branches_may_share_a_computation() -> None:
    module = check(
        """
        neg { p = f32[4] parameter(0)
          ROOT n = f32[4] negate(p) }
        ENTRY main { i = pred[] parameter(0)
          x = f32[4] parameter(1)
          y = f32[4] parameter(2)
          ROOT c = f32[4] conditional(i, x, y), true_computation=neg, false_computation=neg }""",
        np.bool_(False),
        X,
        Y,
    )
    (case,) = ops_of(module, lmhlo.Case)
    assert [[type(op) for op in b.ops] for b in case.branches] == [[lmhlo.Call, lmhlo.Copy]] * 2


def test_a_call_with_one_site_is_spliced_in() -> None:
    text = SHARED.replace("twice = f32[4] call(once), to_apply=double", "twice = f32[4] negate(once)")
    module = check(text, X)
    assert not ops_of(module, lmhlo.Call)


def test_impure_functions_are_called_every_time() -> None:
    module = lowered(
        """
        draw { p = f32[] parameter(0)
          ROOT r = f32[4] rng(p, p), distribution=rng_uniform }
        ENTRY main { x = f32[] parameter(0)
          a = f32[4] call(x), to_apply=draw
          b = f32[4] call(x), to_apply=draw
          ROOT t = (f32[4], f32[4]) tuple(a, b) }"""
    )
    assert [c.pure for c in ops_of(module, lmhlo.Call)] == [False, False]


def test_a_call_dag_costs_its_nodes() -> None:
    lines = [
        "f0 { p = f32[4] parameter(0)\n ROOT a = f32[4] add(p, p) }",
        "f1 { p = f32[4] parameter(0)\n ROOT n = f32[4] negate(p) }",
    ]
    for k in range(2, 42):
        lines.append(
            f"f{k} {{ p = f32[4] parameter(0)\n a = f32[4] call(p), to_apply=f{k - 1}\n"
            f" b = f32[4] call(p), to_apply=f{k - 2}\n ROOT s = f32[4] add(a, b) }}"
        )
    lines.append(
        "ENTRY main { x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n a = f32[4] call(x), to_apply=f41\n"
        " b = f32[4] call(y), to_apply=f41\n ROOT t = (f32[4], f32[4]) tuple(a, b) }"
    )
    machine = Machine(lowered("\n".join(lines)))
    machine.run(X, Y)
    assert sum(machine.steps.values()) < 1000


def test_products_are_gemms_and_in_layouts_of_their_own() -> None:
    a, b = np.arange(80000, dtype=np.float32).reshape(200, 400) / 1e5, np.ones((300, 400), np.float32)
    module = check(
        """ENTRY main { a = f32[200,400] parameter(0)
        b = f32[300,400]{0,1} parameter(1)
        ROOT d = f32[200,300] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1} }""",
        a,
        b,
        emit=cpu(),
    )
    (gemm,) = ops_of(module, lmhlo.Gemm)
    assert gemm.dot_dimension_numbers == lmhlo.DotDims((), (), (1,), (1,))
    assert gemm.b.type.strides == (4, 1200)
    assert isinstance(gemm.unit, GemmCall)


def test_kernels_get_their_literals_and_scratch() -> None:
    made: list[KernelSpec] = []
    emitter = cpu()

    def emit(inst: Instruction) -> Unit:
        unit: Unit = emitter(inst)
        if isinstance(unit, KernelSpec) and (unit.literals or unit.scratch_bytes):
            made.append(unit)
        return unit

    module = lowered(
        """
        less { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = pred[] compare(a, b), direction=LT }
        ENTRY main { x = f32[5000] parameter(0)
          ROOT s = f32[5000] sort(x), dimensions={0}, to_apply=less }""",
        emit,
    )
    (launch,) = ops_of(module, lmhlo.Launch)
    assert made
    assert len(launch.literals) == len(made[0].literals)
    assert (launch.scratch is not None) == bool(made[0].scratch_bytes)


def test_outlined_work_is_what_the_target_was_asked_for() -> None:
    module = lowered(
        """
        add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
        ENTRY main { x = f32[4] parameter(0)
          s = f32[4] add(x, x)
          zero = f32[] constant(0)
          ROOT w = f32[4] reduce-window(s, zero), window={size=3 pad=1_1}, to_apply=add }"""
    )
    add, window = ops_of(module, lmhlo.Launch)
    inst = add.hlo.instruction
    assert inst.operands[0] is inst.operands[1]
    assert len(inst.parent.parameters) == 2
    assert window.hlo.instruction.operands[1].op is ops.CONSTANT
    assert len(window.inputs) == 2


def test_library_work_is_named() -> None:
    module = lowered(
        """ENTRY main { x = f32[4,4] parameter(0)
        z = c64[4,4] parameter(1)
        c = f32[4,4] cholesky(x), lower=true
        t = f32[4,4] triangular-solve(c, x), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
        f = c64[4,4] fft(z), fft_type=FFT, fft_length={4}
        ROOT r = (f32[4,4], c64[4,4]) tuple(t, f) }"""
    )
    (cholesky,), (solve,), (fft,) = (ops_of(module, c) for c in (lmhlo.Cholesky, lmhlo.TriangularSolve, lmhlo.Fft))
    assert cholesky.lower
    assert (solve.left_side, solve.layout_a) == (True, (1, 0))
    assert (fft.fft_type.value, fft.fft_length) == ("FFT", (4,))


def test_a_custom_call_has_holes_where_tokens_are() -> None:
    module = lowered(
        """ENTRY main { x = f32[4] parameter(0)
        k = token[] after-all()
        c = (f32[4], token[]) custom-call(x, k, x), custom_call_target="target", custom_call_has_side_effect=true,
            api_version=API_VERSION_TYPED_FFI, backend_config="{a = 1}"
        ROOT r = f32[4] get-tuple-element(c), index=0 }"""
    )
    (call,) = ops_of(module, lmhlo.CustomCall)
    assert (call.call_target_name, call.has_side_effect, call.api_version) == ("target", True, 4)
    assert call.target_arg_mapping == lmhlo.ArgMapping(3, 2, (0, 2), (0,))
    assert len(call.args) == 2


COLLECTIVES = """
HloModule m, replica_count=2
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(b, a) }
odd { a = f32[] parameter(0)
  b = f32[] parameter(1)
  s = f32[] add(a, b)
  ROOT c = f32[] negate(s) }
twice { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, a) }
wrapped { p = f32[4] parameter(0)
  ROOT a = f32[4] all-to-all(p), replica_groups={{0,1}}, dimensions={0} }
ENTRY main { x = f32[4] parameter(0)
  r = f32[4] all-reduce(x), channel_id=3, replica_groups={{0,1}}, to_apply=add
  o = f32[4] all-reduce(x), replica_groups={}, to_apply=odd
  w = f32[4] all-reduce(x), replica_groups={}, to_apply=twice
  g = f32[8] all-gather(x), replica_groups={{0,1}}, dimensions={0}
  s = f32[2] reduce-scatter(x), replica_groups={{0,1}}, dimensions={0}, to_apply=add
  t = f32[4] all-to-all(x), replica_groups={{0,1}}, dimensions={0}
  p = f32[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}
  b = f32[4] collective-broadcast(x), replica_groups={{0,1}}
  rs = f32[4] all-reduce-start(x), replica_groups={{0,1}}, to_apply=add
  rd = f32[4] all-reduce-done(rs)
  gs = (f32[4], f32[8]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}
  gd = f32[8] all-gather-done(gs)
  ps = (f32[4], f32[4]) collective-permute-start(x), source_target_pairs={{0,1}}
  pd = f32[4] collective-permute-done(ps)
  as = ((f32[4]), f32[4]) async-start(x), calls=wrapped
  ad = f32[4] async-done(as)
  i = u32[] replica-id()
  q = u32[] partition-id()
  k = token[] after-all()
  in = (f32[4], token[]) infeed(k), infeed_config="c"
  id = f32[4] get-tuple-element(in), index=0
  out = token[] outfeed(id, k), outfeed_shape=f32[4], outfeed_config="d"
  ROOT all = (f32[4], f32[4], f32[4], f32[8], f32[2], f32[4], f32[4], f32[4], f32[4], f32[8], f32[4], f32[4],
      u32[], u32[])
      tuple(r, o, w, g, s, t, p, b, rd, gd, pd, ad, i, q) }"""


def test_collectives_and_feeds_are_operations_of_their_own() -> None:
    module = lowered(COLLECTIVES)
    assert module.entry.replica_count == 2
    named = {op.name: op for op in module.entry.body.ops}
    reduce, odd = named["r"], named["o"]
    assert isinstance(reduce, lmhlo.AllReduce)
    assert isinstance(odd, lmhlo.AllReduce)
    assert odd.computation.hlo is not None
    assert (reduce.computation, reduce.channel_id) == (lmhlo.Reducer("add"), lmhlo.ChannelHandle(3, 1))
    assert reduce.replica_groups == ((0, 1),)
    assert odd.computation.kind == ""
    assert isinstance(named["w"], lmhlo.AllReduce)
    assert named["w"].computation.kind == ""
    assert odd.computation.hlo.module.entry.root.op is ops.NEGATE
    names = {
        lmhlo.AllGather, lmhlo.ReduceScatter, lmhlo.AllToAll, lmhlo.CollectivePermute, lmhlo.CollectiveBroadcast,
        lmhlo.AllReduceStart, lmhlo.AllGatherStart, lmhlo.CollectivePermuteStart, lmhlo.AllToAllStart,
        lmhlo.ReplicaId, lmhlo.PartitionId, lmhlo.Infeed, lmhlo.Outfeed,
    }  # fmt: skip
    assert names <= {type(op) for op in module.entry.body.ops}
    for done in ops_of(module, lmhlo.Done):
        (start,) = [op for op in module.entry.body.ops if getattr(op, "token", None) == done.token and op is not done]
        assert type(start) is lmhlo.START_OF[type(done)]
        assert done.buffers == lmhlo.views_of(start)


def test_a_start_whose_token_goes_elsewhere_is_done_at_once() -> None:
    module = lowered(
        """
        add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
        ENTRY main { x = f32[4] parameter(0)
          s = f32[4] all-reduce-start(x), replica_groups={}, to_apply=add
          d = f32[4] all-reduce-done(s)
          e = f32[4] all-reduce-done(s)
          ROOT t = (f32[4], f32[4]) tuple(d, e) }"""
    )
    assert len(ops_of(module, lmhlo.AllReduce)) == 1
    assert not ops_of(module, lmhlo.Done)


def test_sends_store_only_what_they_make() -> None:
    module = lowered(
        """ENTRY main { x = f32[4] parameter(0)
        k = token[] after-all()
        s = (f32[4], u32[], token[]) send(x, k), channel_id=1
        d = token[] send-done(s), channel_id=1
        ROOT n = f32[4] negate(x) }"""
    )
    send = next(op for op in ops_of(module, lmhlo.Launch) if op.opcode == "send")
    assert [v.type.dtype for v in send.outputs] == [np.dtype(np.uint32)]
    assert send.hlo.instruction.shape.to_string(layouts=False) == "(u32[])"
    assert [v.type.dims for v in send.outputs] == [()]


def test_copies_that_keep_the_order_are_copies_and_others_are_kernels() -> None:
    module = check(
        """ENTRY main { x = f32[2,3] parameter(0)
        a = f32[2,3] copy(x)
        b = f32[2,3]{0,1} copy(x)
        ROOT t = (f32[2,3], f32[2,3]{0,1}) tuple(a, b) }""",
        np.arange(6, dtype=np.float32).reshape(2, 3),
    )
    assert len(ops_of(module, lmhlo.Copy)) == 1
    (launch,) = ops_of(module, lmhlo.Launch)
    assert launch.opcode == "copy"


def test_aliased_outputs_live_in_their_parameters() -> None:
    module = check(
        """HloModule m, input_output_alias={ {}: (0, {}, must-alias) }
        ENTRY main { x = f32[4] parameter(0)
        ROOT n = f32[4] negate(x) }""",
        X,
    )
    first = module.entry.arguments[0]
    assert (first.params, first.output_index, first.must_alias, first.written) == (0, ((),), True, True)


def test_tiled_bitcasts_are_refused() -> None:
    with pytest.raises(XylaError) as caught:
        lowered("ENTRY main { x = f32[8,128]{1,0:T(8,128)} parameter(0)\n ROOT b = f32[1024]{0} bitcast(x) }")
    assert caught.value.status is Status.UNIMPLEMENTED
    assert "tiles" in caught.value.message


def test_deep_nesting_costs_no_python_stack() -> None:
    lines = ["f0 { p = f32[4] parameter(0)\n ROOT n = f32[4] negate(p) }"]
    lines += [
        f"f{k} {{ p = f32[4] parameter(0)\n ROOT c = f32[4] call(p), to_apply=f{k - 1} }}" for k in range(1, 1100)
    ]
    lines.append("g0 { p = f32[4] parameter(0)\n ROOT c = f32[4] call(p), to_apply=f1099 }")
    lines += [
        f"h{k} {{ ROOT p = f32[4] parameter(0) }}\n"
        f"g{k} {{ p = f32[4] parameter(0)\n t = pred[] constant(true)\n"
        f" ROOT c = f32[4] conditional(t, p, p), true_computation=g{k - 1}, false_computation=h{k} }}"
        for k in range(1, 1100)
    ]
    lines.append("ENTRY main { x = f32[4] parameter(0)\n ROOT c = f32[4] call(x), to_apply=g1099 }")
    module = parse_hlo("\n".join(lines))
    made = lower(module, planned(module, handlers_only), handlers_only)
    verify(made)
    assert made == made
    assert print_module(made).count("lmhlo.case") == 1099
    (out,) = Machine(made).run(X)
    np.testing.assert_array_equal(out, -X)


def test_two_thousand_launches_are_quick() -> None:
    lines = ["ENTRY main { v0 = f32[4] parameter(0)"]
    lines += [f"  v{k} = f32[4] add(v{k - 1}, v{max(0, k - 2)})" for k in range(1, 2001)]
    module = parse_hlo("\n".join(lines).replace("v2000 =", "ROOT v2000 =") + " }")
    assignment = planned(module, handlers_only)
    best = 1.0
    for _ in range(3):
        start = time.process_time()
        made = lower(module, assignment, handlers_only)
        best = min(best, time.process_time() - start)
    assert len(made.entry.body.ops) == 2000
    assert best < 0.1  # 0.02 s alone; the bound leaves room for a busy machine
