"""How many devices a program's collectives name."""

from __future__ import annotations

import numpy as np

from xyla.formats.hlo_text import parse
from xyla.hlo.module import Module
from xyla.testing.worlds import Devices, worlds


def _module(body: str, header: str = "") -> Module:
    add = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }"
    return parse(f"HloModule m{header}\n{add}\nENTRY e {{\nx = f32[4] parameter(0)\n{body}\n}}")


def test_devices_are_read_off_groups_and_pairs() -> None:
    assert list(worlds(_module("ROOT y = f32[4] negate(x)"))) == [Devices()]
    groups = _module("ROOT y = f32[4] all-reduce(x), replica_groups={{0,3},{1,2}}, to_apply=add")
    assert list(worlds(groups)) == [Devices(), Devices(4, 1), Devices(1, 4)]
    pairs = _module("ROOT y = f32[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}")
    assert list(worlds(pairs)) == [Devices(), Devices(2, 1), Devices(1, 2)]
    everybody = _module("ROOT y = f32[4] all-reduce(x), replica_groups={}, to_apply=add")
    assert [d.count for d in worlds(everybody)] == [1, 2, 2, 4, 4]


def test_a_module_knows_its_own_counts() -> None:
    module = _module("ROOT y = f32[4] all-reduce(x), replica_groups={}, to_apply=add", ", replica_count=3")
    assert list(worlds(module)) == [Devices(3, 1)]


def test_each_device_has_its_own_arguments() -> None:
    module = _module("ROOT y = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add")
    devices = Devices(2, 1)
    args = devices.arguments(lambda seed: [np.full(4, seed + 1, np.float32)])
    assert args[0].tolist() == [[1] * 4, [2] * 4]
    assert devices.run(module, args)[0].tolist() == [[3] * 4] * 2
