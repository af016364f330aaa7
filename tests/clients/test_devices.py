"""Several host devices: the compiled program gives what the evaluator gives, on every device."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import xyla
from xyla import interp
from xyla.clients.devices import Job
from xyla.compiler.driver import compile_module
from xyla.runtime.feeds import Feeds
from xyla.runtime.rendezvous import World, run_devices, take_part
from xyla.support import dtypes
from xyla.support.status import Status, XylaError

TYPES = [
    "pred", "s4", "s8", "s16", "s32", "s64", "u4", "u8", "u16", "u32", "u64", "bf16", "f16", "f32", "f64",
    "f8e5m2", "f8e4m3fn", "c64", "c128",
]  # fmt: skip
SIZES = [2, 4, 8]


def _reducer(kind: str, op: str) -> str:
    return f"""
r {{ a = {kind}[] parameter(0)
    b = {kind}[] parameter(1)
    ROOT c = {kind}[] {op}(a, b) }}
"""


def _values(kind: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    dtype = dtypes.by_name(kind).np
    count = int(np.prod(shape))
    return (np.arange(count) % 5 + (0 if kind == "pred" else 1)).reshape(shape).astype(dtype)


def check(text: str, *args: np.ndarray[Any, Any]) -> None:
    """The compiled program equals the evaluator bit for bit."""
    module = xyla.load(text)
    want = interp.run(module, args)
    got = xyla.run(module, args)
    for w, g in zip(want, got, strict=True):
        assert (w.dtype, w.shape, w.tobytes()) == (g.dtype, g.shape, g.tobytes())


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_is_reduced_and_gathered(kind: str) -> None:
    op = "or" if kind == "pred" else "add"
    text = f"""HloModule m, replica_count=4
{_reducer(kind, op)}
ENTRY e {{
  x = {kind}[8] parameter(0)
  all = {kind}[8] all-reduce(x), to_apply=r
  pairs = {kind}[8] all-reduce(x), replica_groups={{{{0,2}},{{3,1}}}}, to_apply=r
  part = {kind}[2] reduce-scatter(x), dimensions={{0}}, to_apply=r
  whole = {kind}[32] all-gather(x), dimensions={{0}}
  swapped = {kind}[8] all-to-all(x), dimensions={{0}}
  moved = {kind}[8] collective-permute(x), source_target_pairs={{{{0,1}},{{1,3}},{{3,0}}}}
  told = {kind}[8] collective-broadcast(x), replica_groups={{{{2,0,1,3}}}}
  ROOT t = ({kind}[8], {kind}[8], {kind}[2], {kind}[32], {kind}[8], {kind}[8], {kind}[8])
    tuple(all, pairs, part, whole, swapped, moved, told) }}
"""
    check(text, _values(kind, (4, 8)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", ["add", "multiply", "minimum", "maximum"])
def test_every_reduction_on_every_number_of_devices(size: int, op: str) -> None:
    text = f"""HloModule m, replica_count={size}
{_reducer("f32", op)}
ENTRY e {{ x = f32[3] parameter(0)
          ROOT y = f32[3] all-reduce(x), to_apply=r }}
"""
    check(text, _values("f32", (size, 3)))


@pytest.mark.parametrize("size", SIZES)
def test_started_and_done(size: int) -> None:
    ring = ",".join(f"{{{i},{(i + 1) % size}}}" for i in range(size))
    text = f"""HloModule m, replica_count={size}
{_reducer("s32", "add")}
ENTRY e {{
  x = s32[2] parameter(0)
  a = s32[2] all-reduce-start(x), to_apply=r
  g = (s32[2], s32[{2 * size}]) all-gather-start(x), dimensions={{0}}
  p = (s32[2], s32[2], u32[], u32[]) collective-permute-start(x), source_target_pairs={{{ring}}}
  between = s32[2] multiply(x, x)
  ad = s32[2] all-reduce-done(a)
  gd = s32[{2 * size}] all-gather-done(g)
  pd = s32[2] collective-permute-done(p)
  ROOT t = (s32[2], s32[{2 * size}], s32[2], s32[2]) tuple(ad, gd, pd, between) }}
"""
    check(text, _values("s32", (size, 2)))


def test_partitions_replicas_and_loops() -> None:
    text = f"""HloModule m, replica_count=2, num_partitions=2
{_reducer("s32", "add")}
cond {{ s = (s32[], s32[2]) parameter(0)
       i = s32[] get-tuple-element(s), index=0
       n = s32[] constant(3)
       ROOT c = pred[] compare(i, n), direction=LT }}
body {{ s = (s32[], s32[2]) parameter(0)
       i = s32[] get-tuple-element(s), index=0
       x = s32[2] get-tuple-element(s), index=1
       one = s32[] constant(1)
       j = s32[] add(i, one)
       y = s32[2] all-reduce(x), replica_groups={{{{0,3}},{{1,2}}}}, channel_id=1,
         use_global_device_ids=true, to_apply=r
       ROOT t = (s32[], s32[2]) tuple(j, y) }}
ENTRY e {{
  x = s32[2] parameter(0)
  r0 = u32[] replica-id()
  p0 = u32[] partition-id()
  zero = s32[] constant(0)
  init = (s32[], s32[2]) tuple(zero, x)
  w = (s32[], s32[2]) while(init), condition=cond, body=body
  y = s32[2] get-tuple-element(w), index=1
  ROOT t = (u32[], u32[], s32[2]) tuple(r0, p0, y) }}
"""
    check(text, _values("s32", (4, 2)))


def test_send_and_receive() -> None:
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,0}}"}'
    text = f"""HloModule m, num_partitions=2
ENTRY e {{
  x = f32[2] parameter(0)
  token = token[] after-all()
  r = (f32[2], u32[], token[]) recv(token), channel_id=3, {pairs}
  s = (f32[2], u32[], token[]) send(x, token), channel_id=3, {pairs}
  sd = token[] send-done(s), channel_id=3
  rd = (f32[2], token[]) recv-done(r), channel_id=3
  ROOT y = f32[2] get-tuple-element(rd), index=0 }}
"""
    check(text, np.array([[1, 2], [3, 4]], np.float32))


def test_a_loop_between_feeds() -> None:
    text = """HloModule m
ENTRY e { token = token[] after-all()
          in = ((f32[2], s32[]), token[]) infeed(token)
          data = (f32[2], s32[]) get-tuple-element(in), index=0
          x = f32[2] get-tuple-element(data), index=0
          y = f32[2] add(x, x)
          out = token[] outfeed(y, token), outfeed_shape=f32[2]
          ROOT z = f32[2] negate(y) }
"""
    given = [(np.array([1, 2], np.float32), np.int32(7))]
    for engine in ("reference", "compiled"):
        out: list[Any] = []
        (z,) = xyla.run(text, engine=engine, infeed=given, outfeed=out)
        assert (z.tolist(), [o.tolist() for o in out]) == ([-2, -4], [[2, 4]])


def test_a_missing_participant_is_named() -> None:
    world = World(3, 1, timeout=0.2)
    threads = [threading.Thread(target=lambda d=d: _swallow(world, d)) for d in (0, 2)]  # device 1 is never launched
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(_FOUND) == 2
    for error in _FOUND:
        assert error.status is Status.DEADLINE_EXCEEDED
        assert "%ar: waited 0.2 s for device 1; devices 0, 2 arrived" in error.message


_FOUND: list[XylaError] = []


def _swallow(world: World, device: int) -> None:
    try:
        take_part(world, device, lambda: world.exchange("k", device, (0, 1, 2), device, "%ar"))
    except XylaError as error:
        _FOUND.append(error)


def test_the_first_failure_is_reported_and_frees_the_others() -> None:
    def body(device: int) -> None:
        if device == 1:
            raise XylaError(Status.INTERNAL, "device 1 broke")
        world.exchange("k", device, (0, 1), device)

    world = World(2)
    with pytest.raises(XylaError, match="device 1 broke"):
        run_devices(world, body)


def test_nothing_fed_is_an_error_not_a_hang() -> None:
    text = """HloModule m
ENTRY e { token = token[] after-all()
          in = (f32[2], token[]) infeed(token)
          ROOT x = f32[2] get-tuple-element(in), index=0 }
"""
    with pytest.raises(XylaError, match="fed nothing more"):
        xyla.run(text)
    with pytest.raises(XylaError, match="waited"):
        Feeds(timeout=0.1).take_infeed("infeed")


def test_an_override_of_the_replica_count_holds_for_passes_too() -> None:
    """With one replica the all-reduce would be simplified away."""
    text = f"""HloModule m
{_reducer("s32", "add")}
ENTRY e {{ x = s32[] parameter(0)
          ROOT y = s32[] all-reduce(x), to_apply=r }}
"""
    job = Job(xyla.load(text), replicas=2)
    (y,) = job.run(compile_module(job.module), [np.array([1, 2], np.int32)])
    assert y.tolist() == [3, 3]


def test_a_program_for_several_devices_is_not_run_on_one() -> None:
    text = f"""HloModule m, replica_count=2
{_reducer("s32", "add")}
ENTRY e {{ x = s32[] parameter(0)
          ROOT y = s32[] all-reduce(x), to_apply=r }}
"""
    with pytest.raises(XylaError, match="m is for 2 devices"):
        xyla.compile(text)(np.int32(1))
