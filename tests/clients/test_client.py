"""The client: devices, buffers, asynchronous executions, what is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from xyla.clients.client import Client, CompileOptions, DeviceAssignment
from xyla.support.status import Status, XylaError

ADD = """HloModule add
ENTRY e { x = f32[3] parameter(0)
          y = f32[3] parameter(1)
          ROOT z = f32[3] add(x, y) }
"""
SUM = """HloModule sum, replica_count=2
r { a = f32[] parameter(0)
    b = f32[] parameter(1)
    ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[3] parameter(0)
          ROOT y = f32[3] all-reduce(x), to_apply=r }
"""
X = np.array([1, 2, 3], np.float32)
ORDINALS = np.array([[1, 1, 1], [2, 2, 2]], np.float32)


def refused(status: Status = Status.INVALID_ARGUMENT) -> pytest.RaisesExc[XylaError]:
    return pytest.RaisesExc(XylaError, check=lambda e: e.status is status)


def test_executing_gives_buffers() -> None:
    client = Client()
    program = client.compile(ADD)
    x = client.buffer_from_host(X)
    ((z,),) = program.execute([[x, x]])
    np.testing.assert_array_equal(z.to_numpy(), 2 * X)
    np.testing.assert_array_equal(np.asarray(z), 2 * X)
    assert (z.dims, z.dtype.name, z.on_device_size_in_bytes) == ((3,), "float32", 12)
    assert z.is_ready()
    assert z.device is client.devices[0]


def test_numpy_and_dlpack_see_the_same_memory() -> None:
    client = Client()
    y = client.buffer_from_view(X)
    assert np.shares_memory(y.to_numpy(), X)
    assert not y.to_numpy().flags.writeable
    assert np.shares_memory(np.from_dlpack(y), X)
    assert np.shares_memory(client.buffer_from_dlpack(X).to_numpy(), X)
    assert not np.shares_memory(client.buffer_from_host(X).to_numpy(), X)


def test_a_deleted_buffer_is_refused() -> None:
    client = Client()
    x = client.buffer_from_host(X)
    x.delete()
    x.delete()
    assert x.is_deleted()
    for use in (x.to_numpy, x.is_ready, x.block_until_ready, lambda: x.copy_to_device(client.devices[0])):
        with refused():
            use()
    with refused():
        client.compile(ADD).execute([[x, x]])


def test_wrong_arguments_are_refused_at_once() -> None:
    client = Client(2)
    program = client.compile(ADD)
    x = client.buffer_from_host(X)
    elsewhere = client.buffer_from_host(X, client.devices[1])
    other = client.buffer_from_host(X.astype(np.float64))
    for args in ([], [[x]], [[x, other]], [[x, elsewhere]]):
        with refused():
            program.execute(args)
    with refused():
        client.buffer_from_host(np.array(["text"]))


def test_buffers_move_between_devices_and_memories() -> None:
    client = Client(2)
    x = client.buffer_from_host(X)
    there = x.copy_to_device(client.devices[1])
    assert there.device is client.devices[1]
    host = there.copy_to_device(client.devices[1].memory("unpinned_host"))
    np.testing.assert_array_equal(host.to_numpy(), X)
    with refused():
        client.devices[0].memory("disk")


def test_devices_meet() -> None:
    client = Client(2)
    program = client.compile(SUM)
    args = [[client.buffer_from_host(o, d)] for o, d in zip(ORDINALS, client.devices, strict=True)]
    for (y,) in program.execute(args):
        assert y.to_numpy().tolist() == [3, 3, 3]


def test_devices_launched_one_by_one_meet_under_one_run_id() -> None:
    client = Client(2)
    program = client.compile(SUM)
    args = [[client.buffer_from_host(o, d)] for o, d in zip(ORDINALS, client.devices, strict=True)]
    run = client.next_run_id()
    (first,) = program.execute_sharded(args[0], client.devices[0], run)
    (second,) = program.execute_sharded(args[1], client.devices[1], run)
    assert first.to_numpy().tolist() == second.to_numpy().tolist() == [3, 3, 3]


def test_a_device_that_is_never_launched_fails_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_collective_call_terminate_timeout_seconds=1")
    client = Client(2)
    (y,) = client.compile(SUM).execute_sharded([client.buffer_from_host(X)], client.devices[0])
    with pytest.raises(XylaError, match="device 1; device 0 arrived"):
        y.block_until_ready()


def test_too_few_devices_say_what_to_set() -> None:
    with pytest.raises(XylaError, match="need 2 devices; there are 1"):
        Client(1).compile(SUM)
    for ids in ((), ((0,), (0,)), ((0, 1), (2,))):
        with refused():
            DeviceAssignment(ids)
    with refused():
        Client(2).compile(ADD, CompileOptions(device_assignment=DeviceAssignment(((0,), (1,)))))


def test_an_assignment_says_who_is_where() -> None:
    client = Client(3)
    program = client.compile(SUM, CompileOptions(device_assignment=DeviceAssignment(((2,), (0,)))))
    assert [d.id for d in program.devices] == [2, 0]


def test_the_device_count_is_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    assert len(Client().devices) == 4


def test_feeds_wait_for_each_other() -> None:
    text = """HloModule m
ENTRY e { token = token[] after-all()
          in = (f32[3], token[]) infeed(token)
          x = f32[3] get-tuple-element(in), index=0
          y = f32[3] add(x, x)
          out = token[] outfeed(y, token), outfeed_shape=f32[3]
          ROOT z = f32[3] negate(y) }
"""
    client = Client()
    device = client.devices[0]
    ((z,),) = client.compile(text).execute([[]])
    feeder = threading.Timer(0.05, device.transfer_to_infeed, [X])
    feeder.start()
    np.testing.assert_array_equal(device.transfer_from_outfeed(), 2 * X)
    np.testing.assert_array_equal(z.to_numpy(), -2 * X)
    feeder.join()


def test_what_a_program_needs_and_is() -> None:
    client = Client()
    program, same = client.compile(ADD), client.compile(ADD)
    needs = program.memory_analysis()
    assert (needs.argument_size, needs.output_size, needs.alias_size) == (24, 12, 0)
    assert program.fingerprint == same.fingerprint != client.compile(ADD.replace("add(x", "multiply(x")).fingerprint
    assert "add(" in str(program.optimized_module)
    program.delete()
    assert program.is_deleted()
    with refused():
        program.execute([[]])


def test_calling_with_arrays() -> None:
    (z,) = Client().compile(ADD)(X, X)
    np.testing.assert_array_equal(z, 2 * X)
