"""Streams: independent products side by side, dependent ones in one stream, collectives apart."""

from __future__ import annotations

from xyla.formats.hlo_text import parse
from xyla.hlo.module import Module
from xyla.schedule.streams import MAIN, Streams

DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def load(entry: str) -> Module:
    add = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }"
    return parse(f"HloModule m\n{add}\nENTRY e {{\n{entry}\n}}\n", "test")


def streams_of(module: Module) -> dict[str, int]:
    streams = Streams(module.entry)
    return {inst.name: streams.of(inst) for inst in module.entry.instructions}


def test_independent_products_run_side_by_side() -> None:
    found = streams_of(
        load(f"""
      p = f32[8,8] parameter(0)
      a = f32[8,8] dot(p, p), {DOT}
      b = f32[8,8] dot(p, p), {DOT}
      c = f32[8,8] dot(a, p), {DOT}
      d = f32[8,8] dot(b, p), {DOT}
      e = f32[8,8] dot(c, d), {DOT}
      ROOT r = f32[8,8] negate(e)""")
    )
    assert (found["a"], found["b"], found["c"], found["d"], found["e"]) == (0, 1, 0, 1, 0)
    assert found["p"] == found["r"] == MAIN


def test_more_products_than_streams_share_them_evenly() -> None:
    dots = "\n".join(f"d{i} = f32[8,8] dot(p, p), {DOT}" for i in range(10))
    module = load(f"p = f32[8,8] parameter(0)\n{dots}\nROOT r = f32[8,8] negate(d0)")
    streams = Streams(module.entry, compute=4)
    used = [streams.of(inst) for inst in module.entry.instructions if inst.name.startswith("d")]
    assert sorted(used) == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    assert streams.used == 4


def test_collectives_have_a_stream_of_their_own() -> None:
    module = load("""
      p = f32[8] parameter(0)
      s = f32[8] all-reduce-start(p), replica_groups={}, to_apply=add
      a = f32[8] all-reduce(p), replica_groups={}, to_apply=add
      d = f32[8] all-reduce-done(s)
      ROOT r = f32[8] add(a, d)""")
    found = streams_of(module)
    assert found["s"] == found["a"] == found["d"] == Streams(module.entry).collective
    assert found["r"] == MAIN
