"""Where memory comes from and goes: allocators, exhaustion, donation, results in parameters, shared constants."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.runtime.programs import ADD, S32, U8, Array, Maker, of, python_call, sum_program
from xyla.runtime.allocator import Block, HostAllocator, Lease, out_of_memory, size_class
from xyla.runtime.custom_calls import CallContext
from xyla.runtime.engine_interpreted import Interpreter
from xyla.runtime.executable import SMALL_RESULT, Executable, alive
from xyla.runtime.gate import EXECUTIONS
from xyla.runtime.objects import compile_images, function_sizes
from xyla.runtime.profile import ExecutionProfile
from xyla.runtime.program import CopyStep, Output, Slice
from xyla.runtime.run_options import RunOptions
from xyla.runtime.streams import Stream
from xyla.support.status import Status, XylaError

X, Y = np.arange(16, dtype=np.int32), np.full(16, 3, np.int32)


class Counting:
    """An allocator that counts, and fails at one allocation."""

    allows_asynchronous_deallocation = False

    def __init__(self, fail_at: int = -1) -> None:
        self.fail_at, self.calls = fail_at, 0
        self.live: dict[int, int] = {}
        self._host = HostAllocator(0)

    def allocate(self, size: int, device_ordinal: int) -> Block:
        self.calls += 1
        if self.calls - 1 == self.fail_at:
            raise out_of_memory(size)
        block = self._host.allocate(size, device_ordinal)
        self.live[block.ctypes.data] = device_ordinal
        return block

    def deallocate(self, block: Block, device_ordinal: int) -> None:
        assert self.live.pop(block.ctypes.data) == device_ordinal


def updating(must: bool = False) -> Maker:
    """p0 += p1 in p0's memory; also returns p0 + p1 + p1."""
    m = Maker()
    p, q = m.parameter(of(S32, 16)), m.parameter(of(S32, 16))
    m.outputs.append(Output(of(S32, 16), p, must))
    return m.add(m.kernel(ADD, p, q, p, size=16), m.kernel(ADD, p, q, m.output(of(S32, 16)), size=16))


def two_heaps() -> Maker:
    m = Maker()
    p, t, u = m.parameter(of(S32, 16)), m.temp(64), m.temp(64)
    outs = [m.output(of(S32, 16)) for _ in range(3)]
    m.add(CopyStep("a", p, t), CopyStep("b", t, u), *(CopyStep("c", u, out) for out in outs))
    return m


def calling() -> Maker:
    m = Maker()
    p, t, out = m.parameter(of(S32, 16)), m.temp(64), m.output(of(S32, 16))

    def work(_: CallContext, arrays: Sequence[Array]) -> list[Array]:
        return [arrays[0] + 1]

    return m.add(python_call(work, [(p, of(S32, 16))], [(t, of(S32, 16))]), CopyStep("c", t, out))


def twice() -> Maker:
    """One value as two results."""
    m = sum_program()
    m.outputs.append(m.outputs[0])
    return m


PROGRAMS: list[tuple[Callable[[], Maker], int]] = [
    (sum_program, 2),
    (updating, 2),
    (two_heaps, 1),
    (calling, 1),
    (twice, 2),
]


@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize(("make", "arity"), PROGRAMS)
def test_exhaustion_at_each_allocation(make: Callable[[], Maker], arity: int, interpreted: bool) -> None:
    run = make().executable()
    run.use(Interpreter() if interpreted else None)
    counting = Counting()
    want = run.execute((X, Y)[:arity], RunOptions(device_ordinal=3, allocator=counting))
    total, x = counting.calls, X.copy()
    assert total >= 2
    assert set(counting.live.values()) == {3}
    held = [out.copy() for out in want]
    for i in range(total):
        failing = Counting(i)
        with pytest.raises(XylaError, match="bytes of memory are not to be had") as caught:
            run.execute((x, Y)[:arity], RunOptions(allocator=failing))
        assert caught.value.status is Status.RESOURCE_EXHAUSTED
        assert "p needs:" in caught.value.message, "what the program needs"
        assert "temp: " in caught.value.message or not run._temps
        assert failing.calls == i + 1
        assert not failing.live, "nothing leaked"
        np.testing.assert_array_equal(x, X)
        got = run((x, Y)[0], *(x, Y)[1:arity])
        for a, b in zip(got, held, strict=True):
            np.testing.assert_array_equal(a, b)
    del want
    gc.collect()
    assert not counting.live, "results go back when nobody has them"


def test_what_a_custom_call_raises_leaks_nothing() -> None:
    m = Maker()
    p, out = m.parameter(of(S32, 16)), m.output(of(S32, 16))

    def work(_: CallContext, arrays: Sequence[Array]) -> list[Array]:
        raise ValueError("no")

    run = m.add(python_call(work, [(p, of(S32, 16))], [(out, of(S32, 16))])).executable()
    counting = Counting()
    with pytest.raises(ValueError, match="no"):
        run.execute([X], RunOptions(allocator=counting))
    assert not counting.live


def test_a_result_in_a_donated_argument() -> None:
    run = updating().executable()
    x = X.copy()
    first, second = run.execute([x, Y], donate=[0])
    assert first.ctypes.data == x.ctypes.data, "the memory is handed over"
    np.testing.assert_array_equal(first, X + 3)
    np.testing.assert_array_equal(second, X + 6)


@pytest.mark.parametrize("donate", [(), (1,)])
def test_an_argument_that_is_not_donated_is_protected(donate: tuple[int, ...]) -> None:
    run = updating().executable()
    x, y = X.copy(), Y.copy()
    first, second = run.execute([x, y], donate=donate)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(first, X + 3)
    np.testing.assert_array_equal(second, X + 6)
    np.testing.assert_array_equal(run(x, y)[0], X + 3)


@pytest.mark.parametrize("allocator", [None, Counting()])
@pytest.mark.parametrize("returned", [False, True])
def test_an_argument_that_is_written_to_is_the_callers_no_longer(returned: bool, allocator: Counting | None) -> None:
    """p0 += p1 whether p0 is a result or not."""
    m = Maker()
    p, q, out = m.parameter(of(S32, 16)), m.parameter(of(S32, 16)), m.output(of(S32, 16))
    m.allocations[0] = replace(m.allocations[0], is_written=True)
    if returned:
        m.outputs.append(Output(of(S32, 16), p))
    run = m.add(m.kernel(ADD, p, q, p, size=16), m.kernel(ADD, p, q, out, size=16)).executable()
    x, options = X.copy(), RunOptions(allocator=allocator)
    np.testing.assert_array_equal(run.execute([x, Y], options)[0], X + 6)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(run.execute([x, Y], options, donate=[0])[0], X + 6)
    np.testing.assert_array_equal(x, X + 3)


def test_unusual_arguments_of_programs_with_aliases() -> None:
    run = updating().executable()
    wide = np.zeros((16, 2), np.int32)
    wide[:, 0] = X
    for form in (wide[:, 0], list(map(np.int32, X)), X.view("V4"), X.view(np.memmap)):
        np.testing.assert_array_equal(run(form, Y)[0], X + 3)
    np.testing.assert_array_equal(wide[:, 0], X)
    np.testing.assert_array_equal(run.execute([wide[:, 0], Y], donate=[0])[0], X + 3)
    with pytest.raises(XylaError, match=r"parameter 0 \(p0\) has shape \[4\]"):
        run(X[:4], Y)
    with pytest.raises(XylaError, match="takes 2 arguments, 1 given"):
        run(X)


def test_must_alias_wants_a_donation() -> None:
    run = updating(must=True).executable()
    with pytest.raises(XylaError, match=r"parameter 0 \(p0\) must be donated") as caught:
        run(X, Y)
    assert caught.value.status is Status.INVALID_ARGUMENT
    np.testing.assert_array_equal(run.execute([X.copy(), Y], donate=[0])[0], X + 3)


def test_a_donation_that_failed_leaves_the_argument() -> None:
    run, x = updating().executable(), X.copy()
    with pytest.raises(XylaError):
        run.execute([x, Y], RunOptions(allocator=Counting(0)), donate=[0])
    np.testing.assert_array_equal(x, X)


def test_donations_that_cannot_be() -> None:
    run, x = updating().executable(), X.copy()
    read_only = X.copy()
    read_only.flags.writeable = False
    for args, donate, message in [
        ([read_only, Y], [0], "donated but read-only"),
        ([x, x], [0], "shares memory with parameter 1"),
        ([x, Y], [2], "argument 2 is donated"),
    ]:
        with pytest.raises(XylaError, match=message):
            run.execute(args, donate=donate)


def test_a_parameter_passed_through() -> None:
    m = Maker()
    p = m.parameter(of(S32, 16))
    m.outputs.append(Output(of(S32, 16), p))
    run, x = m.executable(), X.copy()
    (out,) = run(x)
    np.testing.assert_array_equal(out, X)
    assert not np.may_share_memory(out, x)
    assert run.execute([x], donate=[0])[0].ctypes.data == x.ctypes.data


def test_all_results_in_donated_arguments() -> None:
    m = Maker()
    ps = [m.parameter(of(S32, 16)) for _ in range(2)]
    m.outputs.extend(Output(of(S32, 16), p) for p in ps)
    run, counting = m.add(m.kernel(ADD, ps[0], ps[1], ps[0], size=16)).executable(), Counting()
    x, y = X.copy(), Y.copy()
    outs = run.execute([x, y], RunOptions(allocator=counting), donate=[0, 1])
    assert counting.calls == 0
    np.testing.assert_array_equal(outs[0], X + 3)
    np.testing.assert_array_equal(outs[1], Y)


def test_a_value_returned_twice_is_two_arrays() -> None:
    first, second = twice().executable()(X, Y)
    first[:] = 0
    np.testing.assert_array_equal(second, X + 6)


def test_a_result_may_lie_in_a_part_of_an_allocation() -> None:
    m = Maker()
    p = m.parameter(of(S32, 16))
    whole = m.output(of(S32, 16))
    m.outputs[:] = [Output(of(S32, 4), Slice(whole.allocation, 16 * i, 16)) for i in (3, 0)]
    out = m.add(CopyStep("c", p, whole)).executable()(X)
    np.testing.assert_array_equal(np.concatenate(out), X[[12, 13, 14, 15, 0, 1, 2, 3]])


def test_equal_constants_lie_in_memory_once() -> None:
    def made() -> Executable:
        m = Maker()
        m.add(CopyStep("c", m.constant(X), m.output(of(S32, 16))))
        return m.executable()

    a, b = made(), made()
    assert a.program.allocations[0].data is b.program.allocations[0].data
    del a
    np.testing.assert_array_equal(b()[0], X)


def test_large_results_reuse_memory() -> None:
    n = SMALL_RESULT
    run = sum_program(n).executable()
    x, y = np.zeros(n, np.int32), np.ones(n, np.int32)
    (first,) = run(x, y)
    where = first.ctypes.data
    (second,) = run(x, y)
    assert second.ctypes.data != where, "the first is still held"
    part = first[5:7]
    del first
    assert part[0] == 2, "a view keeps the memory"
    del part
    (third,) = run(x, y)
    assert third.ctypes.data == where


def test_the_allocator_keeps_no_more_than_its_limit() -> None:
    allocator = HostAllocator(limit=3 * 4096)
    blocks = [allocator.allocate(4000) for _ in range(5)]
    assert all(b.ctypes.data % 64 == 0 and b.size == 4000 for b in blocks)
    for block in blocks:
        allocator.deallocate(block)
    assert allocator.kept_bytes == 3 * 4096
    again = [allocator.allocate(4096) for _ in range(3)]
    assert {b.ctypes.data for b in again} == {b.ctypes.data for b in blocks[2:]}, "the newest, whatever their size was"
    allocator.deallocate(again[0])
    allocator.deallocate(allocator.allocate(1 << 20))
    assert allocator.kept_bytes == 4096
    allocator.trim()
    assert allocator.kept_bytes == 0


def test_size_classes_waste_an_eighth_at_most() -> None:
    for size in [0, 1, 4096, 4097, 65536, 65537, 10**6, 10**9 + 1]:
        assert size <= size_class(size) <= max(size * 9 // 8, size + 4096)
        assert size_class(size_class(size)) == size_class(size)


def test_a_lease_is_given_back_once() -> None:
    counting = Counting()
    lease = Lease(counting, 64)
    array = lease.array(of(U8, 64))
    lease.release()
    lease.release()
    del array, lease
    assert not counting.live


def test_too_much_memory_is_an_error_not_a_crash() -> None:
    m = Maker()
    m.temp(1 << 60)
    m.add(CopyStep("c", m.parameter(of(S32, 16)), m.output(of(S32, 16))))
    with pytest.raises(XylaError, match="not to be had") as caught:
        m.executable()(X)
    assert caught.value.status is Status.RESOURCE_EXHAUSTED


def test_an_execution_reports_its_time() -> None:
    profile, run = ExecutionProfile(), sum_program().executable()
    assert profile.compute_time_ns == 0
    run.execute([X, Y], RunOptions(profile=profile))
    run.execute([X, Y], RunOptions(profile=profile))
    assert len(profile.events) == 2
    assert 1 <= profile.compute_time_ns < 10**9
    assert '"name": "p", "ph": "X"' in profile.chrome_trace()


def test_executables_that_exist_are_known() -> None:
    run = sum_program().executable()
    assert any(e is run for e in alive())


def test_measurements_keep_executions_out() -> None:
    run, ran, over = sum_program().executable(), [0], threading.Event()

    def forever() -> None:
        while not over.is_set():
            run(X, Y)
            run.execute([X, Y], RunOptions(profile=ExecutionProfile()))
            ran[0] += 1

    threads = [threading.Thread(target=forever) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            with EXECUTIONS.paused():
                assert not EXECUTIONS.running
                before = ran[0]
                time.sleep(0.01)
                # Each thread may have been between its run and its count.
                assert ran[0] - before <= len(threads)
            until = ran[0] + 10
            while ran[0] < until:
                time.sleep(0.001)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not EXECUTIONS.running


@pytest.mark.parametrize("asynchronous", [True, False])
def test_an_allocator_that_wants_its_memory_back_at_once_makes_executions_block(asynchronous: bool) -> None:
    m = Maker()
    p, out = m.parameter(of(S32, 16)), m.output(of(S32, 16))
    go, entered = threading.Event(), threading.Event()

    def work(_: CallContext, arrays: Sequence[Array]) -> list[Array]:
        entered.set()
        assert go.wait(10)
        return [arrays[0] + 1]

    run, allocator = m.add(python_call(work, [(p, of(S32, 16))], [(out, of(S32, 16))])).executable(), Counting()
    allocator.allows_asynchronous_deallocation = asynchronous
    stream = Stream("test")
    if not asynchronous:
        threading.Timer(0.05, go.set).start()
    done = run.execute_async([X], stream, RunOptions(allocator=allocator))
    assert done.done() is not asynchronous
    assert entered.wait(10)
    go.set()
    np.testing.assert_array_equal(done.result()[0], X + 1)


def test_generated_code_counts_kernels_host_code_and_constants() -> None:
    m = Maker()
    m.add(CopyStep("c", m.constant(np.zeros(1000, np.int32)), m.output(of(S32, 1000))))
    assert 4000 < m.executable().generated_code_bytes < 4200
    one = sum_program().executable().generated_code_bytes
    assert 50 < one < 1000


def test_sizes_of_functions_come_from_the_object() -> None:
    ((symbols, image),) = compile_images([ADD])
    assert list(function_sizes(image)) == symbols
    assert 20 < function_sizes(image)[symbols[0]] < len(image)
    assert function_sizes(b"no object") == {}
