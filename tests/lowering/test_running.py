"""From HLO to results, with Python handlers for kernels: control flow, calls, copies, reuse of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from xyla.buffers.pipeline import assign_buffers
from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection, RandomDistribution
from xyla.hlo.literal import Literal
from xyla.hlo.module import Computation, Instruction, Module
from xyla.hlo.shape import Shape
from xyla.hlo.verifier import verify
from xyla.lowering import hlo_to_lmhlo, lmhlo_to_rt
from xyla.lowering.hlo_to_lmhlo import EmitUnit
from xyla.lowering.lmhlo_to_rt import Lowered
from xyla.lowering.units import HandlerUnit
from xyla.runtime.custom_calls import Array, CallContext
from xyla.runtime.executable import Executable, Stats
from xyla.support.dtypes import F32, PRED, S32
from xyla.support.status import Status, XylaError

S = Shape.array(S32, ())
P = Shape.array(PRED, ())
V = Shape.array(F32, (4,))
X = np.arange(4, dtype=np.float32)
Y = np.ones(4, np.float32)


def emit(inst: Instruction) -> HandlerUnit:
    work: Callable[[Sequence[Array]], list[Array]] = {
        ops.ADD: lambda a: [a[0] + a[1]],
        ops.COMPARE: lambda a: [a[0] < a[1]],
        ops.NEGATE: lambda a: [-a[0]],
    }[inst.op]
    return HandlerUnit("test", lambda _, arrays: work(arrays), "test")


def lowered(module: Module, emit: EmitUnit) -> Lowered:
    verify(module)
    return lmhlo_to_rt.lower(hlo_to_lmhlo.lower(module, assign_buffers(module), emit), emit)


def compiled(module: Module, emit: EmitUnit = emit) -> Executable:
    return Executable(lowered(module, emit).program, [], Stats())


def param(c: Computation, n: int, shape: Shape) -> Instruction:
    return c.add(ops.PARAMETER, attrs=ops.ParameterAttrs(n), shape=shape)


def const(c: Computation, value: int) -> Instruction:
    return c.add(ops.CONSTANT, attrs=ops.ConstantAttrs(Literal.scalar(value, S32)), shape=S)


def element(c: Computation, t: Instruction, i: int) -> Instruction:
    return c.add(ops.GET_TUPLE_ELEMENT, [t], ops.IndexAttrs(i), shape=t.shape.tuple_shapes[i])


def entry(module: Module, *shapes: Shape) -> tuple[Computation, list[Instruction]]:
    comp = module.add_computation("main")
    module.set_entry(comp)
    return comp, [param(comp, i, s) for i, s in enumerate(shapes)]


def finish(comp: Computation, *values: Instruction) -> None:
    comp.set_root(comp.add(ops.TUPLE, values, shape=Shape.tuple_of(v.shape for v in values)))


def doubling(module: Module) -> Computation:
    comp = module.add_computation("double")
    p = param(comp, 0, V)
    comp.set_root(comp.add(ops.ADD, [p, p], shape=V))
    return comp


def test_loop_state_that_trades_places_is_copied_through_a_stage() -> None:
    module = Module("m")
    main, (x, y) = entry(module, V, V)
    state = Shape.tuple_of([S, V, V])
    cond = module.add_computation("cond")
    t = param(cond, 0, state)
    cond.set_root(
        cond.add(ops.COMPARE, [element(cond, t, 0), const(cond, 5)], ops.CompareAttrs(ComparisonDirection.LT), shape=P)
    )
    body = module.add_computation("body")
    t = param(body, 0, state)
    i, a, b = (element(body, t, k) for k in range(3))
    finish(body, body.add(ops.ADD, [i, const(body, 1)], shape=S), b, body.add(ops.ADD, [a, b], shape=V))
    init = main.add(ops.TUPLE, [const(main, 0), x, y], shape=state)
    loop = main.add(ops.WHILE, [init], called=[cond, body], shape=state)
    finish(main, element(main, loop, 1), element(main, loop, 2), x)
    a_value, b_value = X, Y
    for _ in range(5):
        a_value, b_value = b_value, a_value + b_value
    out = compiled(module)(X, Y)
    for got, want in zip(out, [a_value, b_value, X], strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_shared_computation_is_one_sequence_with_copies_in_and_out() -> None:
    module = Module("m")
    main, (x,) = entry(module, V)
    double = doubling(module)
    once = main.add(ops.CALL, [x], ops.CallAttrs(), called=[double], shape=V)
    twice = main.add(ops.CALL, [once], ops.CallAttrs(), called=[double], shape=V)
    finish(main, once, twice)
    once_value, twice_value = compiled(module)(X)
    np.testing.assert_array_equal(once_value, 2 * X)
    np.testing.assert_array_equal(twice_value, 4 * X)


@pytest.mark.parametrize(("selector", "want"), [(0, -X), (1, 2 * X), (7, 2 * X), (-1, 2 * X)])
def test_an_index_out_of_range_takes_the_last_branch(selector: int, want: np.ndarray) -> None:
    module = Module("m")
    main, (index, x) = entry(module, S, V)
    negate = module.add_computation("negate")
    negate.set_root(negate.add(ops.NEGATE, [param(negate, 0, V)], shape=V))
    main.set_root(main.add(ops.CONDITIONAL, [index, x, x], called=[negate, doubling(module)], shape=V))
    (out,) = compiled(module)(np.int32(selector), X)
    np.testing.assert_array_equal(out, want)


def test_a_chain_reuses_memory_and_a_deep_call_chain_needs_no_python_stack() -> None:
    module = Module("m")
    inner = module.add_computation("f")
    inner.set_root(inner.add(ops.NEGATE, [param(inner, 0, V)], shape=V))
    for k in range(5000):
        outer = module.add_computation(f"f{k}")
        outer.set_root(outer.add(ops.CALL, [param(outer, 0, V)], ops.CallAttrs(), called=[inner], shape=V))
        inner = outer
    main, (value,) = entry(module, V)
    for _ in range(40):
        value = main.add(ops.NEGATE, [value], shape=V)
    main.set_root(main.add(ops.CALL, [value], ops.CallAttrs(), called=[inner], shape=V))
    made = lowered(module, emit)
    assert made.temp_bytes <= 2 * 64  # two in turn
    (out,) = Executable(made.program, [], Stats())(X)
    np.testing.assert_array_equal(out, -X)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((X,), "takes 2 arguments, 1 given"),
        ((X, Y[:3]), "parameter 1 (parameter.1) has shape [3], expected f32[4]"),
        ((X.astype(np.float64), Y), "parameter 0 (parameter) has dtype float64, expected f32[4]"),
    ],
)
def test_wrong_arguments_name_the_parameter(args: tuple[np.ndarray, ...], text: str) -> None:
    module = Module("m")
    main, (x, y) = entry(module, V, V)
    main.set_root(main.add(ops.ADD, [x, y], shape=V))
    with pytest.raises(XylaError) as caught:
        compiled(module)(*args)
    assert caught.value.status is Status.INVALID_ARGUMENT
    assert text in str(caught.value)


def test_two_loops_may_share_condition_and_body() -> None:
    module = Module("m")
    main, (x,) = entry(module, V)
    state = Shape.tuple_of([S, V])
    cond = module.add_computation("cond")
    t = param(cond, 0, state)
    less = ops.CompareAttrs(ComparisonDirection.LT)
    cond.set_root(cond.add(ops.COMPARE, [element(cond, t, 0), const(cond, 3)], less, shape=P))
    body = module.add_computation("body")
    t = param(body, 0, state)
    value = element(body, t, 1)
    finish(body, body.add(ops.ADD, [element(body, t, 0), const(body, 1)], shape=S), body.add(ops.ADD, [value, value]))
    results = []
    for _ in range(2):
        init = main.add(ops.TUPLE, [const(main, 0), x], shape=state)
        results.append(element(main, main.add(ops.WHILE, [init], called=[cond, body], shape=state), 1))
        x = results[-1]
    finish(main, *results)
    once, twice = compiled(module)(X)
    np.testing.assert_array_equal(once, 8 * X)
    np.testing.assert_array_equal(twice, 64 * X)


def test_a_call_dag_costs_its_nodes_not_its_paths() -> None:
    module = Module("m")
    runs = 0

    def counted(inst: Instruction) -> HandlerUnit:
        def add(_: CallContext, a: Sequence[Array]) -> list[Array]:
            nonlocal runs
            runs += 1
            return [a[0] + a[1]]

        return HandlerUnit("test", add, "test")

    levels = [doubling(module), doubling(module)]
    for k in range(60):
        comp = module.add_computation(f"level{k}")
        p = param(comp, 0, V)
        parts = [comp.add(ops.CALL, [p], ops.CallAttrs(), called=[c], shape=V) for c in levels[-2:]]
        comp.set_root(comp.add(ops.ADD, parts, shape=V))
        levels.append(comp)
    main, (x, y) = entry(module, V, V)
    finish(main, *(main.add(ops.CALL, [v], ops.CallAttrs(), called=[levels[-1]], shape=V) for v in (x, y)))
    executable = compiled(module, counted)
    fib = [2.0, 2.0]
    for _ in range(60):
        fib.append(fib[-1] + fib[-2])
    for _ in range(2):
        got_x, got_y = executable(X, Y)
        np.testing.assert_allclose(got_x, fib[-1] * X.astype(np.float64), rtol=1e-5)
        np.testing.assert_allclose(got_y, fib[-1] * Y.astype(np.float64), rtol=1e-5)
    assert runs <= 2 * 2 * 64


def test_impure_calls_run_every_time() -> None:
    module = Module("m")
    draw = module.add_computation("draw")
    p = param(draw, 0, Shape.array(F32, ()))
    rng = ops.RngAttrs(RandomDistribution.UNIFORM)
    draw.set_root(draw.add(ops.RNG, [p, p], rng, shape=V))
    main, (x,) = entry(module, Shape.array(F32, ()))
    finish(main, *(main.add(ops.CALL, [x], ops.CallAttrs(), called=[draw], shape=V) for _ in range(2)))
    count = 0

    def drawn(inst: Instruction) -> HandlerUnit:
        def next_value(_: CallContext, a: Sequence[Array]) -> list[Array]:
            nonlocal count
            count += 1
            return [np.full(4, count, np.float32)]

        return HandlerUnit("test", next_value, "test")

    first, second = compiled(module, drawn)(np.float32(1))
    assert (first[0], second[0]) == (1, 2)
