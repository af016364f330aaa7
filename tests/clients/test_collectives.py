"""Collectives in all their forms: the same on every device by each way to run them, texts of both levels included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from xyla import interp
from xyla.clients.devices import Job
from xyla.compiler.driver import Compilation, CompileOptions
from xyla.compiler.from_text import TextCompilation
from xyla.formats.hlo_text import parse
from xyla.hlo.module import Module
from xyla.lowering.lmhlo_text import print_module
from xyla.lowering.rt_text import print_program
from xyla.runtime.engine_interpreted import Interpreter
from xyla.runtime.executable import Executable
from xyla.support import dtypes
from xyla.support.status import Status, XylaError

# replicas, partitions, what states the groups, devices in each group (0: they differ)
MODES = {
    "everybody": (2, 1, "", 2),
    "pairs": (4, 1, ", replica_groups={{3,1},{0,2}}", 2),
    "uneven": (4, 1, ", replica_groups={{0},{1,2,3}}", 0),
    "alone": (2, 1, ", replica_groups={{1},{0}}", 1),
    "replicas": (2, 2, "", 2),
    "replicas and partitions": (2, 2, ", channel_id=1, replica_groups={{0,1}}", 4),
    "all partitions": (2, 2, ", channel_id=3, replica_groups={{1},{0}}", 2),
    "global": (2, 2, ", channel_id=2, replica_groups={{0,3},{2,1}}, use_global_device_ids=true", 2),
    "iota": (8, 1, ", replica_groups=[4,2]<=[2,4]T(1,0)", 2),
}


def values(kind: str, *dims: int) -> np.ndarray[Any, Any]:
    """Small numbers, other ones on each device."""
    return np.random.default_rng(len(dims)).integers(0, 3, dims).astype(dtypes.by_name(kind).np)


def ways(module: Module) -> Iterator[Executable]:
    """Native and step by step, optimised and not; and what the texts of both levels give."""
    for passes in ("none", "default"):
        compilation = Compilation(module, CompileOptions(passes=passes))
        yield compilation.executable
        compilation.executable.use(Interpreter())
        yield compilation.executable
    text = TextCompilation(print_module(compilation.lmhlo), "m.lmhlo.mlir")
    yield text.executable
    yield TextCompilation(print_program(text.program), "m.rt.mlir").executable


def check(text: str, *args: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Every way gives the evaluator's bits; returns them."""
    module = parse(text)
    counts = module.config.replica_count, module.config.num_partitions
    want = interp.run(module, args, replicas=counts[0], partitions=counts[1])
    job = Job(module, *counts)
    for executable in ways(job.module):
        got = job.run(executable, args)
        assert [(g.dtype, g.shape, g.tobytes()) for g in got] == [(w.dtype, w.shape, w.tobytes()) for w in want]
    return want


def program(replicas: int, partitions: int, body: str, kind: str = "s32", op: str = "add", more: str = "") -> str:
    return f"""HloModule m, replica_count={replicas}, num_partitions={partitions}
r {{ a = {kind}[] parameter(0)
    b = {kind}[] parameter(1)
    ROOT c = {kind}[] {op}(a, b) }}
{more}
ENTRY e {{ {body} }}
"""


@pytest.mark.parametrize("mode", MODES)
def test_every_group_mode(mode: str) -> None:
    """Several operands at once, begun and waited for, and wrapped."""
    replicas, partitions, groups, size = MODES[mode]
    count = replicas * partitions
    wrapped = f"w {{ x = s32[4] parameter(0)\n ROOT y = s32[4] all-reduce(x){groups}, to_apply=r }}"
    body = f"""
  x = s32[4] parameter(0)
  q = s32[2,2] parameter(1)
  both = (s32[4], s32[2,2]) all-reduce(x, q){groups}, to_apply=r
  started = s32[4] all-reduce-start(x){groups}, to_apply=r
  later = ((s32[4]), s32[4], u32[]) async-start(x), calls=w
  z = s32[4] multiply(x, x)
  done = s32[4] all-reduce-done(started)
  last = s32[4] async-done(later)
  ROOT t = ((s32[4], s32[2,2]), s32[4], s32[4], s32[4]) tuple(both, done, last, z)"""
    x, q = values("s32", count, 4), values("s32", count, 2, 2)
    check(program(replicas, partitions, body, more=wrapped), x, q)
    if not size:
        return
    body = f"""
  x = s32[{size},2] parameter(0)
  q = s32[2] parameter(1)
  started = ((s32[{size},2], s32[2]), (s32[{size * size},2], s32[{2 * size}])) all-gather-start(x, q){groups},
    dimensions={{0}}
  part = s32[1,2] reduce-scatter(x){groups}, dimensions={{0}}, to_apply=r
  gathered = (s32[{size * size},2], s32[{2 * size}]) all-gather-done(started)
  ROOT t = ((s32[{size * size},2], s32[{2 * size}]), s32[1,2]) tuple(gathered, part)"""
    check(program(replicas, partitions, body), values("s32", count, size, 2), values("s32", count, 2))


@pytest.mark.parametrize("kind", ["s4", "bf16", "c64"])
@pytest.mark.parametrize("size", [2, 8])
def test_ragged_exchanges_permutes_and_broadcasts(kind: str, size: int) -> None:
    ring = ",".join(f"{{{i},{i + 1}}}" for i in range(size - 1))  # device 0 gets zeros
    operands = ",".join(f"x{i}" for i in range(size))
    body = "".join(f"x{i} = {kind}[3] parameter({i})\n" for i in range(size))
    pair = f"({kind}[3], {kind}[3])"
    body += f"""
  swapped = ({",".join([f"{kind}[3]"] * size)}) all-to-all({operands})
  p = ({pair}, {pair}) collective-permute-start(x0, x1), source_target_pairs={{{ring}}}
  told = {kind}[3] collective-broadcast(x0), replica_groups={{{{{size - 1}}}}}
  pd = {pair} collective-permute-done(p)
  ROOT t = (({",".join([f"{kind}[3]"] * size)}), {kind}[3], {pair}) tuple(swapped, told, pd)"""
    *_, told, _, _ = check(program(size, 1, body, kind), *(values(kind, size, 3) for _ in range(size)))
    assert not np.any(told[0] != 0), "a device that no group names gets zeros"
    lists = "".join(f"{n} = s64[{size}] parameter({i})\n" for i, n in enumerate("abcd", 2))
    body = f"""x = {kind}[{2 * size}] parameter(0)
  o = {kind}[{3 * size}] parameter(1)
  {lists}
  ROOT y = {kind}[{3 * size}] ragged-all-to-all(x, o, a, b, c, d), replica_groups={{}}"""
    i = np.arange(size, dtype=np.int64)
    sent = np.add.outer(i, i) % 3
    lands = np.repeat((3 * i)[:, None], size, 1)
    data = values(kind, size, 2 * size), values(kind, size, 3 * size)
    check(program(size, 1, body, kind), *data, np.tile(2 * i, (size, 1)), sent, lands, sent.T.copy())


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_reduction_that_the_library_lacks_is_begun_all_the_same(wrapped: bool) -> None:
    more = "w { x = s32[4] parameter(0)\n ROOT y = s32[4] all-reduce(x), to_apply=r }"
    start = "((s32[4]), s32[4], u32[]) async-start(x), calls=w" if wrapped else "s32[4] all-reduce-start(x), to_apply=r"
    done = "async-done" if wrapped else "all-reduce-done"
    body = f"x = s32[4] parameter(0)\n s = {start}\n ROOT y = s32[4] {done}(s)"
    module = parse(program(2, 1, body, op="xor", more=more))
    x = values("s32", 2, 4)
    want, got = interp.run(module, [x]), Job(module).run(Compilation(module).executable, [x])
    assert got[0].tolist() == want[0].tolist() == [(x[0] ^ x[1]).tolist()] * 2


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ("ROOT y = s32[9] all-gather(x), dimensions={0}", 2),
        ("ROOT y = s32[2] reduce-scatter(x), dimensions={0}, to_apply=r", 3),
        ("ROOT y = s32[4] all-to-all(x), dimensions={0}", 3),
        ("ROOT y = (s32[4], s32[4]) all-to-all(x, x)", 3),
        ("ROOT y = s32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=r", 3),
        ("ROOT y = s32[4] all-reduce(x), replica_groups={{0,1,5}}, to_apply=r", 2),
    ],
)
def test_as_many_devices_as_the_program_was_not_written_for(body: str, size: int) -> None:
    job = Job(parse(program(size, 1, f"x = s32[4] parameter(0)\n {body}")))
    with pytest.raises(XylaError) as caught:
        job.run(Compilation(job.module).executable, [values("s32", size, 4)])
    assert caught.value.status is Status.INVALID_ARGUMENT


def test_groups_over_a_named_mesh_are_refused() -> None:
    groups = "mesh['a'=2,'b'=2] {'b'}"
    body = f"x = s32[4] parameter(0)\n ROOT y = s32[4] all-reduce(x), replica_groups={groups}, to_apply=r"
    with pytest.raises(XylaError, match="named mesh"):
        Compilation(parse(program(4, 1, body)))
