"""Buffers that are given up: each to one execution, once, and back when that did not touch them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xyla
from xyla.clients.buffer import Buffer
from xyla.runtime import custom_calls
from xyla.support.status import Status, XylaError

UPDATE = """HloModule u, input_output_alias={ {0}: (0, {}, %s) }
ENTRY e { x = f32[4] parameter(0)
          y = f32[4] parameter(1)
          z = f32[4] add(x, y)
          ROOT t = (f32[4], f32[4]) tuple(z, y) }
"""
FAILS = """HloModule f, input_output_alias={ {0}: (0, {}, must-alias) }
ENTRY e { x = f32[4] parameter(0)
          i = s32[] constant(1)
          u = f32[1] constant({42})
          z = f32[4] dynamic-update-slice(x, u, i)
          q = f32[4] custom-call(z), custom_call_target="test.fails"
          ROOT t = (f32[4], f32[4]) tuple(z, q) }
"""
SUM = """HloModule s, replica_count=2
add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT s = f32[] %s(a, b) }
ENTRY e { x = f32[4] parameter(0)
          ROOT y = f32[4] all-reduce(x), to_apply=add }
"""


@pytest.fixture
def client() -> xyla.Client:
    return xyla.Client(2)


@pytest.fixture
def failing() -> Iterator[None]:
    """A custom call that raises."""

    def fail(x: np.ndarray[Any, Any]) -> Any:
        raise RuntimeError("as it should")

    xyla.register_custom_call("test.fails", fail)
    yield
    custom_calls.unregister("test.fails")


def buffer(client: xyla.Client, value: float, device: int = 0) -> Buffer:
    return client.buffer_from_host(np.full(4, value, np.float32), client.devices[device])


def test_a_buffer_is_not_donated_and_passed_again(client: xyla.Client) -> None:
    program = client.compile(UPDATE % "may-alias")
    x = buffer(client, 1)
    with pytest.raises(XylaError, match="more than once") as caught:
        program.execute([[x, x]])
    assert caught.value.status is Status.INVALID_ARGUMENT
    assert not x.is_deleted()
    results = program.execute([[x, x]], non_donatable=[0])[0]
    assert [r.to_numpy().tolist() for r in results] == [[2] * 4, [1] * 4]


def test_one_of_many_threads_gets_the_donation(client: xyla.Client) -> None:
    program, y = client.compile(UPDATE % "must-alias"), buffer(client, 2)
    for _ in range(20):
        x = buffer(client, 1)
        got: list[Buffer] = []
        refused: list[str] = []
        barrier = threading.Barrier(4)

        def run(x: Buffer, got: list[Buffer], refused: list[str], barrier: threading.Barrier) -> None:
            barrier.wait()
            try:
                got.append(program.execute([[x, y]])[0][0])
            except XylaError as error:
                refused.append(error.message)

        threads = [threading.Thread(target=run, args=(x, got, refused, barrier)) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert [g.to_numpy().tolist() for g in got] == [[3] * 4]
        assert len(refused) == 3
        assert all("donated" in r for r in refused)


@pytest.mark.usefixtures("failing")
def test_what_a_failed_run_may_have_written_to_is_gone(client: xyla.Client) -> None:
    program, x = client.compile(FAILS), buffer(client, 1)
    with pytest.raises(XylaError, match="as it should"):
        program.execute([[x]])[0][0].to_numpy()
    assert x.is_deleted()


@pytest.mark.usefixtures("failing")
def test_what_a_failed_run_worked_on_a_copy_of_is_given_back(client: xyla.Client) -> None:
    array = np.ones(4, np.float32)
    x = client.buffer_from_view(array)
    with pytest.raises(XylaError, match="as it should"):
        client.compile(FAILS).execute([[x]])[0][0].to_numpy()
    assert x.to_numpy().tolist() == array.tolist() == [1] * 4


def test_a_donation_is_undone_when_nothing_ran(client: xyla.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from xyla.runtime import executable

    def none(*_: object) -> None:
        raise MemoryError

    program, x = client.compile(UPDATE % "must-alias"), buffer(client, 1)
    monkeypatch.setattr(executable, "State", none)
    with pytest.raises(XylaError, match="no memory"):
        program.execute([[x, buffer(client, 2)]])[0][0].to_numpy()
    assert x.to_numpy().tolist() == [1] * 4


def test_a_copy_under_way_is_of_what_was_there(client: xyla.Client) -> None:
    """The copy waits on its device's stream; meanwhile the buffer is donated and its memory asked for."""
    program, x = client.compile(UPDATE % "must-alias"), buffer(client, 1)
    gate = threading.Event()
    client.devices[1].stream.submit(gate.wait)
    copy = x.copy_to_device(client.devices[1])
    (result, _) = program.execute([[x, buffer(client, 2)]])[0]
    assert result.to_numpy().tolist() == [3] * 4
    gate.set()
    assert copy.to_numpy().tolist() == [1] * 4


def test_launches_on_the_same_devices_do_not_wait_for_each_other(
    client: xyla.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_collective_call_terminate_timeout_seconds=20")
    programs = [client.compile(SUM % op) for op in ("add", "multiply")]
    wrong: list[object] = []

    def run(number: int) -> None:
        for _ in range(30):
            x = [[buffer(client, 2, 0)], [buffer(client, 3, 1)]]
            got = [r[0].to_numpy()[0] for r in programs[number].execute(x)]
            if got != [(5, 6)[number]] * 2:
                wrong.append(got)

    threads = [threading.Thread(target=run, args=(n,)) for n in (0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_arguments_of_other_kinds_are_told(client: xyla.Client) -> None:
    program = client.compile(UPDATE % "may-alias")
    arrays: Any = [np.ones(4, np.float32), buffer(client, 1)]
    with pytest.raises(XylaError, match=r"parameter 0 \(x\) is a ndarray, expected a buffer"):
        program.execute([arrays])
    with pytest.raises(XylaError, match="cannot take a list as an array"):
        client.buffer_from_host([[1, 2], [3]])
