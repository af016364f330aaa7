"""Which computations are control flow, and which are shared."""

from __future__ import annotations

import pytest

from tests.analysis.programs import NESTED, scheduled
from xyla.analysis.call_graph import CallGraph
from xyla.analysis.nesting import Nested, drive
from xyla.support.status import XylaError

SHARED = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
leaf { p = f32[] parameter(0)  ROOT s = f32[] sine(p) }
mid { p = f32[] parameter(0)  a = f32[] call(p), to_apply=leaf  ROOT b = f32[] call(a), to_apply=leaf }
once { p = f32[] parameter(0)  ROOT b = f32[] call(p), to_apply=mid }
ENTRY main { x = f32[4] parameter(0)  zero = f32[] constant(0)
  r = f32[] reduce(x, zero), dimensions={0}, to_apply=add
  ROOT y = f32[] call(r), to_apply=once }
"""


def test_control_flow_callees_first() -> None:
    module = scheduled(SHARED)
    graph = CallGraph(module)
    assert [c.name for c in graph.control] == ["leaf", "mid", "once", "main"]
    assert module.computations["add"] not in graph
    assert [c.name for c in graph.regions] == ["leaf", "main"]


def test_sites_and_sharing() -> None:
    module = scheduled(SHARED)
    graph = CallGraph(module)
    leaf, mid = module.computations["leaf"], module.computations["mid"]
    assert graph.is_shared(leaf)
    assert not graph.is_shared(mid)
    assert [s.instruction.name for s in graph.sites(leaf)] == ["a", "b"]
    site = graph.site(mid)
    assert site is not None
    assert site.instruction.parent.name == "once"
    assert graph.site(leaf) is None


def test_loop_depth() -> None:
    module = scheduled(NESTED)
    graph = CallGraph(module)
    depths = {c.name: graph.depth(c) for c in graph.control}
    assert depths == {"inner_cond": 2, "inner_body": 2, "outer_cond": 1, "outer_body": 1, "main": 0}


def test_recursion_is_refused() -> None:
    module = scheduled("f { p = f32[] parameter(0)  ROOT r = f32[] sine(p) }\nENTRY e { p = f32[] parameter(0)\n"
                       "  ROOT r = f32[] call(p), to_apply=f }")  # fmt: skip
    f = module.computations["f"]
    from xyla.hlo import ops

    f.set_root(f.add(ops.CALL, [f.root], called=[f], shape=f.root.shape))
    with pytest.raises(XylaError, match="'f' calls itself"):
        CallGraph(module)


def test_drive_nests_without_recursion() -> None:
    def count(n: int) -> Nested:
        return 1 + (yield count(n - 1)) if n else 0

    assert drive(count(50_000)) == 50_000
