"""Orders of least memory: against every possible order of small graphs, on known patterns, and what they must keep."""

from __future__ import annotations

import random

import pytest

from xyla.analysis.alias import share_elementwise, share_nothing
from xyla.analysis.dataflow import Dataflow
from xyla.formats.hlo_text import parse
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Computation, Module
from xyla.hlo.verifier import verify
from xyla.schedule import order as order_module
from xyla.schedule.graph import Graph, GraphBuilder
from xyla.schedule.heuristics import breadth_first, bytes_freed, depth_first, from_the_end, given
from xyla.schedule.order import Heuristic, check_limit, schedule
from xyla.schedule.peak import lower_bound, peak
from xyla.support.status import Status, XylaError

HEURISTICS = (given, bytes_freed, depth_first, from_the_end, breadth_first)


def load(entry: str, computations: str = "", header: str = "") -> Module:
    return parse(f"HloModule m{header}\n{computations}\nENTRY e {{\n{entry}\n}}\n", "test")


def graph_of(module: Module) -> Graph:
    return GraphBuilder(Dataflow(module), share_elementwise).build(module.entry, {}, in_loop=False)


def names(comp: Computation) -> list[str]:
    return [inst.name for inst in comp.instructions]


# Two wide intermediate results, each reduced to a scalar: reduce the first before making the second.
REDUCTIONS = """
  p = f32[8] parameter(0)
  z = f32[] constant(0)
  a = f32[8,1000] broadcast(p), dimensions={0}
  b = f32[8,1000] broadcast(p), dimensions={0}
  ea = f32[8] reduce(a, z), dimensions={1}, to_apply=add
  eb = f32[8] reduce(b, z), dimensions={1}, to_apply=add
  ROOT r = f32[8] add(ea, eb)"""
ADD = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }"


def test_large_values_do_not_wait_for_one_another() -> None:
    module = load(REDUCTIONS, ADD)
    found = schedule(module)
    choice = found.choices[module.entry]
    assert choice.given_peak == 2 * 32000 + 32
    assert choice.peak == 32000 + 2 * 32
    order = names(module.entry)
    assert min(order.index("ea"), order.index("eb")) < max(order.index("a"), order.index("b"))
    assert module.config.is_scheduled
    verify(module)


def test_a_given_schedule_is_kept() -> None:
    module = load(REDUCTIONS, ADD)
    module.config.is_scheduled = True
    before = names(module.entry)
    found = schedule(module)
    assert names(module.entry) == before
    assert found.choices[module.entry].peak == 2 * 32000 + 32


def test_a_good_order_is_left_as_it_is() -> None:
    module = load("p = f32[8] parameter(0)\n b = f32[8] negate(p)\n a = f32[8] cosine(b)\n ROOT r = f32[8] sine(a)")
    before = names(module.entry)
    schedule(module)
    assert names(module.entry) == before


def test_parameters_come_first_by_number() -> None:
    module = load(
        "q = f32[8] parameter(1)\n b = f32[8] negate(q)\n p = f32[8] parameter(0)\n ROOT r = f32[8] add(p, b)"
    )
    schedule(module)
    assert names(module.entry)[:2] == ["p", "q"]


def test_control_dependencies_are_kept() -> None:
    after_b = "ea = f32[8] reduce(a, z), control-predecessors={b}, "
    module = load(REDUCTIONS.replace("ea = f32[8] reduce(a, z), ", after_b), ADD)
    schedule(module)
    order = names(module.entry)
    assert order.index("b") < order.index("ea")
    verify(module)


def test_effects_keep_their_order() -> None:
    feeds = "\n".join(
        f"  t{i} = token[] after-all()\n  o{i} = token[] outfeed(b{i}, t{i})\n" for i in reversed(range(4))
    )
    made = "\n".join(f"  b{i} = f32[{i + 1},64] broadcast(p), dimensions={{}}" for i in range(4))
    module = load(f"  p = f32[] parameter(0)\n{made}\n{feeds}\n  ROOT r = f32[] negate(p)")
    schedule(module)
    order = [name for name in names(module.entry) if name.startswith("o")]
    assert order == ["o3", "o2", "o1", "o0"]


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_effects_keep_their_order_against_memory(heuristic: Heuristic) -> None:
    module = load("""
      p = f32[] parameter(0)
      t = token[] after-all()
      a = f32[1000] broadcast(p), dimensions={}
      b = f32[1000] broadcast(p), dimensions={}
      ob = token[] outfeed(b, t)
      oa = token[] outfeed(a, t)
      ROOT r = f32[] negate(p)""")
    graph = graph_of(module)
    order = [graph.instructions[node].name for node in heuristic(graph)]
    assert order.index("ob") < order.index("oa")
    assert schedule(module).choices[module.entry].peak < 5000


@pytest.mark.parametrize("heuristic", [bytes_freed, depth_first, from_the_end])
def test_each_heuristic_reduces_before_it_makes_more(heuristic: Heuristic) -> None:
    graph = graph_of(load(REDUCTIONS, ADD))
    assert peak(graph, heuristic(graph)) == 32000 + 2 * 32


def test_a_reader_goes_before_the_one_who_overwrites() -> None:
    module = load("""
      p = f32[1000] parameter(0)
      i = s32[] parameter(1)
      u = f32[1] constant({1})
      a = f32[1000] negate(p)
      new = f32[1000] dynamic-update-slice(a, u, i)
      b = f32[1000] reverse(a), dimensions={0}
      ROOT t = (f32[1000], f32[1000]) tuple(new, b)""")
    graph = graph_of(module)
    order = [graph.instructions[node].name for node in bytes_freed(graph)]
    assert order.index("b") < order.index("new")


def test_what_frees_most_goes_first() -> None:
    module = load(
        """
      p = f32[10] parameter(0)
      z = f32[] constant(0)
      few = f32[10,10] broadcast(p), dimensions={0}
      many = f32[10,1000] broadcast(p), dimensions={0}
      both = (f32[10,10], f32[10,1000]) custom-call(few, many), custom_call_target="f"
      x = f32[10,10] get-tuple-element(both), index=0
      y = f32[10,1000] get-tuple-element(both), index=1
      a = f32[10] reduce(x, z), dimensions={1}, to_apply=add
      b = f32[10] reduce(y, z), dimensions={1}, to_apply=add
      ROOT r = f32[10] add(a, b)""",
        ADD,
    )
    graph = graph_of(module)
    order = [graph.instructions[node].name for node in bytes_freed(graph)]
    assert order.index("b") < order.index("a")


def test_the_subtree_that_needs_most_goes_first() -> None:
    module = load(
        """
      p = f32[10] parameter(0)
      z = f32[] constant(0)
      small = f32[10] negate(p)
      s2 = f32[100] custom-call(small), custom_call_target="f"
      wide = f32[10,1000] broadcast(p), dimensions={0}
      w2 = f32[10] reduce(wide, z), dimensions={1}, to_apply=add
      ROOT r = f32[10] custom-call(s2, w2), custom_call_target="g"
    """,
        ADD,
    )
    graph = graph_of(module)
    order = [graph.instructions[node].name for node in depth_first(graph)]
    assert order.index("w2") < order.index("s2")
    assert peak(graph, depth_first(graph)) == 40_040


def test_a_result_takes_the_place_of_whichever_operand_dies() -> None:
    module = load("""
      p = f32[1000] parameter(0)
      a = f32[1000] negate(p)
      b = f32[1000] sine(p)
      c = f32[1000] add(a, b)
      d = f32[1000] reverse(a), dimensions={0}
      ROOT e = f32[1000] add(c, d)""", header=", is_scheduled=true")  # fmt: skip
    # b dies at c, a at d, which cannot be written over it.
    assert schedule(module).choices[module.entry].peak == 12_000


def test_one_result_saves_once() -> None:
    module = load("""
      p = f32[1000] parameter(0)
      a = f32[1000] negate(p)
      b = f32[1000] sine(p)
      ROOT c = f32[1000] add(a, b)""")
    # c lies over a or b: the other one is there too.
    assert schedule(module).choices[module.entry].peak == 8000


def test_an_argument_that_is_read_after_its_update_counts_twice() -> None:
    text = """
      p = f32[1000] parameter(0)
      new = f32[1000] negate(p)
      a = f32[1000] reverse(p), dimensions={0}
      s = f32[] reduce(a, z), dimensions={0}, to_apply=add
      ROOT t = (f32[1000], f32[]) tuple(new, s)""".replace("      new", "      z = f32[] constant(0)\n      new")
    header = ", input_output_alias={ {0}: (0, {}, must-alias) }"
    choice = schedule(module := load(text, ADD, header)).choices[module.entry]
    assert choice.given_peak == 8000
    # Updated last: it is done in place.
    assert choice.peak == 4004
    order = names(module.entry)
    assert order.index("a") < order.index("new")


def test_results_are_kept_to_the_end() -> None:
    module = load("""
      p = f32[1000] parameter(0)
      a = f32[1000] negate(p)
      b = f32[1000] reverse(a), dimensions={0}
      c = f32[1000] reverse(b), dimensions={0}
      ROOT t = (f32[1000], f32[1000]) tuple(a, c)""")
    assert schedule(module, share_nothing).choices[module.entry].peak == 12_000


LOOP = """
cond { p = (s32[], f32[1000]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[1000]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[1000] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x0 = f32[] constant(2)
  b = f32[1000] broadcast(x0), dimensions={}
  w = f32[1000,1000] dot(x, b), lhs_contracting_dims={}, rhs_contracting_dims={}
  y = f32[1000] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[1000]) tuple(j, y) }
"""


def test_what_a_loop_needs_counts_where_it_runs() -> None:
    entry = """
      p = f32[1000] parameter(0)
      z = s32[] constant(0)
      init = (s32[], f32[1000]) tuple(z, p)
      z2 = f32[] constant(1)
      v = f32[1000000] broadcast(z2), dimensions={}
      w = (s32[], f32[1000]) while(init), condition=cond, body=body
      g = f32[1000] get-tuple-element(w), index=1
      s = f32[1000] slice(v), slice={[0:1000]}
      ROOT r = f32[1000] add(g, s)"""
    module = load(entry, LOOP)
    found = schedule(module)
    # Neither the vector during the loop nor the loop's state during the vector need be more than one of the two.
    assert found.choices[module.entry].given_peak > 8_000_000
    assert found.choices[module.entry].peak < 4_100_000


def test_an_update_in_place_waits_for_the_readers() -> None:
    entry = """
      p = f32[1000] parameter(0)
      i = s32[] parameter(1)
      a = f32[1000] negate(p)
      u = f32[1] constant({1})
      new = f32[1000] dynamic-update-slice(a, u, i)
      small = f32[1] slice(a), slice={[3:4]}
      f = f32[1] slice(new), slice={[5:6]}
      ROOT r = f32[1] add(small, f)"""
    module = load(entry)
    found = schedule(module)
    order = names(module.entry)
    assert order.index("small") < order.index("new")
    assert found.choices[module.entry].peak == 4008


def test_asynchronous_work_starts_early_and_is_awaited_late() -> None:
    entry = """
      p = f32[64] parameter(0)
      a = f32[64] negate(p)
      b = f32[64] sine(a)
      s = f32[64] all-reduce-start(p), replica_groups={}, to_apply=add
      d = f32[64] all-reduce-done(s)
      c = f32[64] cosine(b)
      ROOT r = f32[64] add(c, d)"""
    module = load(entry, ADD)
    schedule(module)
    assert names(module.entry) == ["p", "s", "a", "b", "c", "d", "r"]


def random_module(seed: int, count: int) -> Module:
    """Negations, additions and slices of vectors of different lengths."""
    rng = random.Random(seed)
    lines, sizes = ["  v0 = f32[64] parameter(0)"], [64]
    for i in range(1, count):
        a = rng.randrange(max(0, i - 6), i)
        size = rng.choice((16, 64, 256, 1024))
        if rng.random() < 0.4 and a + 1 < i:
            b = rng.randrange(a, i)
            lines.append(f'  v{i} = f32[{size}] custom-call(v{a}, v{b}), custom_call_target="f"')
        else:
            lines.append(f'  v{i} = f32[{size}] custom-call(v{a}), custom_call_target="f"')
        sizes.append(size)
    lines[-1] = lines[-1].replace("  v", "  ROOT v", 1)
    return load("\n".join(lines))


def best_peak(graph: Graph) -> int:
    """The least peak of all orders: dynamic programming over the sets of nodes that have run."""
    best = {0: 0}
    for _ in range(len(graph)):
        grown: dict[int, int] = {}
        for done, cost in best.items():
            for node, needs in enumerate(graph.needs):
                if done >> node & 1 or any(not done >> n & 1 for n in needs):
                    continue
                live = [
                    b
                    for n in range(len(graph))
                    if done >> n & 1
                    for b in graph.defines[n]
                    if b in graph.kept or any(not done >> u & 1 for u in graph.users[b])
                ]
                now = max(cost, sum(graph.sizes[b] for b in (*live, *graph.defines[node])))
                key = done | 1 << node
                if now < grown.get(key, 1 << 60):
                    grown[key] = now
        best = grown
    (least,) = best.values()
    return least


@pytest.mark.parametrize("seed", range(12))
def test_near_the_best_of_all_orders(seed: int) -> None:
    module = random_module(seed, 11)
    graph = graph_of(module)
    least = best_peak(graph)
    found = schedule(module, share_nothing).choices[module.entry]
    assert least <= found.peak <= 1.3 * least
    assert found.lower_bound <= least
    assert found.peak <= found.given_peak


@pytest.mark.parametrize("heuristic", HEURISTICS)
@pytest.mark.parametrize("seed", range(4))
def test_every_heuristic_gives_a_valid_order(heuristic: Heuristic, seed: int) -> None:
    graph = graph_of(random_module(seed, 60))
    order = heuristic(graph)
    assert sorted(order) == list(range(len(graph)))
    place = {node: i for i, node in enumerate(order)}
    assert all(place[need] < place[node] for node in order for need in graph.needs[node])
    assert peak(graph, order) >= lower_bound(graph)


def test_the_same_input_gives_the_same_order() -> None:
    texts = set()
    for _ in range(3):
        module = random_module(5, 80)
        schedule(module)
        texts.add(str(module))
    assert len(texts) == 1


def test_deep_chains_and_wide_fans() -> None:
    lines = ["  v0 = f32[4] parameter(0)"]
    lines += [f"  v{i} = f32[4] negate(v{i - 1})" for i in range(1, 20_000)]
    lines[-1] = lines[-1].replace("  v", "  ROOT v", 1)
    module = load("\n".join(lines))
    assert schedule(module).choices[module.entry].peak == 16


def test_large_computations_get_the_cheap_heuristics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "SMALL", 3)
    module = load(REDUCTIONS, ADD)
    assert schedule(module).choices[module.entry].heuristic == "depth-first"
    monkeypatch.setattr(order_module, "LARGE", 3)
    module = load(REDUCTIONS, ADD)
    assert schedule(module).choices[module.entry].heuristic == "given"


def test_a_limit_names_what_is_needed() -> None:
    module = load(REDUCTIONS, ADD)
    found = schedule(module)
    check_limit(module, found, 40_000)
    with pytest.raises(XylaError) as caught:
        check_limit(module, found, 20_000)
    assert caught.value.status is Status.RESOURCE_EXHAUSTED
    assert "32,096 bytes" in caught.value.message


def test_embedded_computations_are_in_order_too() -> None:
    module = parse("""HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[8] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(x, zero), dimensions={0}, to_apply=add
}""")
    root = module.computations["add"].root
    negated = rewriter.create(root.parent, ops.NEGATE, [root.operands[0]], like=root)
    rewriter.set_operand(root, 0, negated)
    assert list(root.parent.instructions)[-1] is negated
    schedule(module)
    verify(module)
    assert list(root.parent.instructions)[-1] is root
