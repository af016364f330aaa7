"""Both engines on programs made by hand: control flow, sharing, splitting, errors, arguments."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.runtime.programs import ADD, F32, LESS, S32, Array, Maker, of, python_call, sum_program
from xyla.runtime import host_program, numpy_layout
from xyla.runtime.custom_calls import CallContext
from xyla.runtime.engine_interpreted import Interpreter
from xyla.runtime.executable import Executable
from xyla.runtime.program import (
    ArrayType,
    CallStep,
    CopyStep,
    GemmCall,
    GemmStep,
    Step,
    StepList,
    SwitchStep,
    WhileStep,
)
from xyla.support.status import Status, XylaError

X, Y = np.arange(16, dtype=np.int32), np.full(16, 3, np.int32)


@pytest.fixture(params=["compiled", "interpreted"])
def engine(request: pytest.FixtureRequest) -> Any:
    def use(executable: Executable) -> Executable:
        executable.use(Interpreter() if request.param == "interpreted" else None)
        return executable

    return use


def test_steps_run_in_order(engine: Any) -> None:
    (out,) = engine(sum_program().executable())(X, Y)
    np.testing.assert_array_equal(out, X + 6)


def counting_loop(trips: int, body: Sequence[Step] = ()) -> tuple[Maker, WhileStep]:
    """i = 0; while i < trips: i += 1; the counter is the result."""
    m = Maker()
    one, limit, zero = m.constant(np.int32(1)), m.constant(np.int32(trips)), m.constant(np.int32(0))
    flag, counter = m.temp(4), m.output(of(S32))
    condition = StepList("cond", [m.kernel(LESS, counter, limit, flag, size=1)])
    steps = StepList("body", [m.kernel(ADD, counter, one, counter, size=1, name="count"), *body])
    loop = WhileStep("loop", condition, flag, steps)
    m.add(CopyStep("init", zero, counter), loop)
    return m, loop


@pytest.mark.parametrize("trips", [0, 1, 1000])
def test_loops(trips: int, engine: Any) -> None:
    (out,) = engine(counting_loop(trips)[0].executable())()
    assert out == trips


def test_loops_in_loops_cost_no_stack(engine: Any) -> None:
    """5,000 deep; each runs its inner loop once."""
    m, loop = counting_loop(1)
    done, never = m.temp(4), m.constant(np.int32(0))
    outermost: list[Step] = list(loop.body.steps)
    for _ in range(5_000):
        inner = WhileStep("deep", StepList("c", [m.kernel(LESS, done, never, done, size=1)]), done, StepList("b"))
        inner.body.steps.extend(outermost)
        outermost = [inner]
    m.body.steps.append(outermost[0])
    assert engine(m.executable())()[0] == 1


@pytest.mark.parametrize(("index", "branch"), [(0, 0), (1, 1), (2, 2), (3, 2), (-1, 2), (2**31 - 1, 2), (-(2**31), 2)])
def test_switch_takes_the_last_branch_out_of_range(index: int, branch: int, engine: Any) -> None:
    m = Maker()
    which, out = m.parameter(of(S32)), m.output(of(S32))
    branches = [StepList(str(i), [CopyStep("c", m.constant(np.int32(i)), out)]) for i in range(3)]
    m.add(SwitchStep("s", which, False, tuple(branches)))
    assert engine(m.executable())(np.int32(index))[0] == branch


@pytest.mark.parametrize(("value", "branch"), [(0, 1), (1, 0), (255, 0)])
def test_predicate_takes_branch_0_when_set(value: int, branch: int, engine: Any) -> None:
    m = Maker()
    which, out = m.parameter(of(np.dtype(np.uint8))), m.output(of(S32))
    branches = [StepList(str(i), [CopyStep("c", m.constant(np.int32(i)), out)]) for i in range(2)]
    m.add(SwitchStep("s", which, True, tuple(branches)))
    assert engine(m.executable())(np.uint8(value))[0] == branch


def doubling_dag(levels: int, pure: bool) -> tuple[Maker, list[int]]:
    """Each level calls the one below twice; the lowest counts its runs and doubles."""
    m = Maker()
    x, out = m.parameter(of(S32)), m.output(of(S32))
    ran: list[int] = []

    def count(_: CallContext, arrays: Sequence[Array]) -> list[Array]:
        ran.append(1)
        return [arrays[0] * 2]

    here, result = m.temp(4), m.temp(4)
    body = StepList("lowest", [python_call(count, [(here, of(S32))], [(result, of(S32))])])
    for level in range(levels):
        inner, inner_here, inner_result = body, here, result
        here, result, once = m.temp(4), m.temp(4), m.temp(4)
        call = CallStep("call", inner, ((here, inner_here),), pure)
        again = CallStep("again", inner, ((here, inner_here),), pure)
        keep = CopyStep("keep", inner_result, once)
        body = StepList(f"level{level}", [call, keep, again, m.kernel(ADD, once, inner_result, result, size=1)])
    m.add(CallStep("main", body, ((x, here),), pure), CopyStep("copy", result, out))
    return m, ran


def test_a_pure_sequence_runs_once_for_the_same_arguments(engine: Any) -> None:
    m, ran = doubling_dag(12, pure=True)
    run = engine(m.executable())
    assert run(np.int32(1))[0] == 2**13
    assert len(ran) == 1
    assert run(np.int32(1))[0] == 2**13, "a later run starts anew"
    assert len(ran) == 2


def test_an_impure_sequence_runs_at_every_call(engine: Any) -> None:
    m, ran = doubling_dag(4, pure=False)
    assert engine(m.executable())(np.int32(1))[0] == 2**5
    assert len(ran) == 2**4


def test_one_sequence_in_two_loops_is_written_once() -> None:
    m = Maker()
    one, limit, flag = m.constant(np.int32(1)), m.parameter(of(S32)), m.temp(4)
    out = m.output(of(S32))
    condition = StepList("cond", [m.kernel(LESS, out, limit, flag, size=1)])
    body = StepList("body", [m.kernel(ADD, out, one, out, size=1)] * 50)
    m.add(CopyStep("init", m.constant(np.int32(0)), out))
    loops = [WhileStep(f"loop{i}", condition, flag, body) for i in range(2)]
    m.add(loops[0], loops[1])
    run = m.executable()
    assert run(np.int32(120))[0] == 150
    assert len(host_program.Encoder(m.program(), [1, 2]).encode().code) < 50 * 4 + 60


@pytest.mark.parametrize("n", [1 << 18, (1 << 18) + 1, 300_007])
def test_large_kernels_are_split_over_threads(n: int, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_program, "host_threads", lambda: 3)
    run = engine(sum_program(n).executable())
    x, y = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32)[::-1].copy()
    for _ in range(20):
        np.testing.assert_array_equal(run(x, y)[0], x + 2 * y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m_", "n", "batch"), [(64, 48, 1), (1, 300, 1), (300, 2, 1), (37, 41, 5), (8, 8, 300)])
@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
def test_matrix_products(
    dtype: Any, m_: int, n: int, batch: int, trans: tuple[bool, bool], engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xyla.runtime.blas.host_threads", lambda: 3)
    monkeypatch.setattr("xyla.runtime.blas.SPLIT_WORK", 1 << 12)
    rng, k, kind = np.random.default_rng(0), 33, np.dtype(dtype)
    a = rng.standard_normal((batch, k, m_) if trans[0] else (batch, m_, k)).astype(kind)
    b = rng.standard_normal((batch, n, k) if trans[1] else (batch, k, n)).astype(kind)
    m = Maker()
    slices = [m.parameter(of(kind, *x.shape)) for x in (a, b)]
    call = GemmCall(m_, n, k, *trans, a.shape[2], b.shape[2], n, batch, a[0].size, b[0].size, m_ * n)
    m.add(GemmStep("dot", kind, call, slices[0], slices[1], m.output(of(kind, batch, m_, n))))
    (out,) = engine(m.executable())(a, b)
    want = np.matmul(np.swapaxes(a, 1, 2) if trans[0] else a, np.swapaxes(b, 1, 2) if trans[1] else b)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


def test_what_a_custom_call_raises_comes_out_and_the_next_run_works(engine: Any) -> None:
    m = Maker()
    x, out = m.parameter(of(S32)), m.output(of(S32))
    problem = KeyError("mine")

    def work(_: CallContext, arrays: Sequence[Array]) -> list[Array]:
        if arrays[0] < 0:
            raise problem
        return [arrays[0] + 1]

    run = engine(m.add(python_call(work, [(x, of(S32))], [(out, of(S32))])).executable())
    for _ in range(3):
        with pytest.raises(KeyError) as caught:
            run(np.int32(-1))
        assert caught.value is problem
        assert run(np.int32(4))[0] == 5


def test_arguments_in_any_form(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(run: Executable) -> None:
        wide = np.zeros((16, 2), np.int32)
        wide[:, 0] = X
        raw = np.zeros(16 * 4 + 1, np.uint8)
        odd = raw[1:].view(np.int32)
        odd[:] = X
        read_only = X.copy()
        read_only.flags.writeable = False
        void = X.view("V4")
        for form in (X, wide[:, 0], odd, read_only, X.tolist(), void, X.view(np.memmap)):
            args = np.asarray(form, np.int32) if isinstance(form, list) else form
            np.testing.assert_array_equal(run(args, Y)[0], X + 6)

    run = sum_program().executable()
    assert run._is_direct
    check(run)
    assert run.stats.converted_arguments == 2, "the strided and the odd one"
    monkeypatch.setattr("xyla.runtime.executable.readable", lambda: False)
    unreadable = sum_program().executable()
    assert not unreadable._is_direct
    check(unreadable)


def test_arguments_that_are_wrong() -> None:
    run = sum_program().executable()
    for args, message in [
        ((X,), "takes 2 arguments, 1 given"),
        ((X, Y, Y), "takes 2 arguments, 3 given"),
        ((X, Y.astype(np.int64)), r"parameter 1 \(p1\) has dtype int64"),
        ((X[:4], Y), r"parameter 0 \(p0\) has shape \[4\]"),
        ((X.reshape(4, 4), Y), r"parameter 0 \(p0\) has shape \[4, 4\]"),
    ]:
        with pytest.raises(XylaError, match=message) as caught:
            run(*args)
        assert caught.value.status is Status.INVALID_ARGUMENT
    np.testing.assert_array_equal(run(X, Y)[0], X + 6)


def test_layouts_other_than_row_major() -> None:
    m = Maker()
    column = ArrayType(F32, (3, 5), (4, 12))
    source, target = m.parameter(column), m.output(column)
    run = m.add(CopyStep("c", source, target)).executable()
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    for form in (x, np.asfortranarray(x), x[:, ::-1], np.broadcast_to(x[:1], (3, 5))):
        np.testing.assert_array_equal(run(form)[0], form)
    assert run._is_direct
    assert run.stats.converted_arguments == 3
    assert run(x)[0].strides == (4, 12)


def test_native_code_can_read_arrays_here() -> None:
    assert numpy_layout.readable()


def test_many_threads_run_one_executable() -> None:
    run, loop = sum_program(1000).executable(), counting_loop(100)[0].executable()
    x, y = np.arange(1000, dtype=np.int32), np.ones(1000, np.int32)
    bad: list[object] = []

    def work(seed: int) -> None:
        for i in range(300):
            (out,) = run(x + seed * i, y)
            if not np.array_equal(out, x + seed * i + 2) or loop()[0] != 100:
                bad.append((seed, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad
    assert len(run._idle) <= run._max_idle
