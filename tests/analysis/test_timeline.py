"""Positions, live ranges, alias sets."""

from __future__ import annotations

import pytest

from tests.analysis.programs import BRANCHES, LOOP, NESTED, analyse, scheduled
from xyla.analysis.alias import entry_aliases, in_place_pairs, may_take_over, share_elementwise
from xyla.analysis.timeline import Timeline, merged, overlaps
from xyla.support.status import Status, XylaError


def test_positions_run_through_nested_computations() -> None:
    a = analyse(LOOP)
    t, comps = a.timeline, a.module.computations
    w = a.inst("w")
    order = [
        *(t.end(a.inst("init")), t.start(w)),
        *(t.enter(comps["cond"]), t.start(a.inst("less")), t.exit(comps["cond"])),
        *(t.enter(comps["body"]), t.start(a.inst("sum")), t.exit(comps["body"])),
        *(t.end(w), t.start(a.inst("out"))),
    ]
    assert order == sorted(order)
    assert t.start(w) + 1 == t.enter(comps["cond"])
    assert t.at(t.end(w)) is w
    assert t.at(t.enter(comps["body"])) is None
    assert t.span(comps["main"]) == (0, t.size - 1)


def test_unscheduled_is_refused() -> None:
    module = scheduled(LOOP)
    module.config.is_scheduled = False
    with pytest.raises(XylaError, match="not scheduled"):
        Timeline(module)


def test_state_lives_to_its_last_read_and_again_after_the_loop() -> None:
    a = analyse(LOOP)
    t, comps = a.timeline, a.module.computations
    inside, after = a.ranges.segments(a.value("w", 1))
    assert inside == (t.enter(comps["cond"]), t.start(a.inst("sum")))
    assert after == (t.end(a.inst("w")), t.span(comps["main"])[1])
    assert a.ranges.segments(a.value("sum")) == [(t.start(a.inst("sum")), t.exit(comps["body"]))]
    # Not needed once the loop has read it.
    assert a.ranges.range(a.value("next"))[1] == t.exit(comps["body"])
    # Who touches at one position: add reads the old total where it writes the new one.
    assert a.ranges.overlap(a.value("sum"), a.value("w", 1))
    assert not a.ranges.overlap(a.value("less"), a.value("sum"))


def test_what_an_inner_loop_reads_lives_through_the_outer_one() -> None:
    a = analyse(NESTED)
    t = a.timeline
    (segment,) = a.ranges.segments(a.value("double"))
    assert segment == (t.start(a.inst("double")), t.end(a.inst("outer")))
    # The outer state is handed to the inner loop and not needed until the next trip.
    inside, _ = a.ranges.segments(a.value("outer", 1))
    assert inside[1] == t.start(a.inst("inner"))


def test_branches_do_not_overlap() -> None:
    a = analyse(BRANCHES)
    t, comps = a.timeline, a.module.computations
    assert not a.ranges.overlap(a.value("up"), a.value("neg"))
    here, there = a.ranges.segments(a.value("y"))
    assert here == (t.start(a.inst("y")), t.start(a.inst("up")))
    assert there == (t.enter(comps["right"]), t.start(a.inst("neg")))


def test_results_of_calls_live_on_after_them() -> None:
    a = analyse("""
f { p = f32[8] parameter(0)  s = f32[8] sine(p)  ROOT c = f32[8] cosine(s) }
ENTRY main { x = f32[8] parameter(0)  y = f32[8] sine(x)  b = f32[8] call(y), to_apply=f
  k = f32[8] negate(b)  ROOT z = f32[8] add(k, b) }""")
    t = a.timeline
    assert a.ranges.segments(a.value("b")) == [(t.start(a.inst("c")), t.start(a.inst("z")))]
    assert a.ranges.range(a.value("y")) == (t.start(a.inst("y")), t.start(a.inst("s")))


def test_asynchronous_work_lives_to_its_done() -> None:
    a = analyse("""
f { p = f32[8] parameter(0)  s = f32[8] sine(p)  ROOT c = f32[8] cosine(s) }
ENTRY main { x = f32[8] parameter(0)  y = f32[8] sine(x)  a = ((f32[8]), f32[8], u32[]) async-start(y), calls=f
  k = f32[8] negate(x)  d = f32[8] async-done(a)  ROOT z = f32[8] add(k, d) }""")
    done = a.timeline.start(a.inst("d"))
    assert a.ranges.range(a.value("y"))[1] == done
    inner = a.dataflow.value(a.module.computations["f"].root.operands[0])
    assert a.ranges.range(inner)[1] == done


def test_shared_computations_always_overlap() -> None:
    a = analyse("""
f { p = f32[8] parameter(0)  ROOT s = f32[8] sine(p) }
ENTRY main { x = f32[8] parameter(0)  y = f32[8] call(x), to_apply=f  ROOT z = f32[8] call(y), to_apply=f }""")
    inner = a.dataflow.value(a.module.computations["f"].root)
    assert a.ranges.overlap(inner, a.value("y"))
    # Parameter and result of f keep their frame; of x, y and z the entry has two at a time.
    assert a.ranges.peak() == 4 * 32


def test_must_alias_sets() -> None:
    a = analyse(LOOP)
    assert a.same_set(a.value("w", 1), a.value("x"))
    assert a.same_set(a.value("sum"), a.value("x"))
    assert not a.same_set(a.value("sum"), a.value("y"))
    b = analyse(BRANCHES)
    assert b.same_set(b.value("up"), b.value("neg"))
    assert b.same_set(b.value("up"), b.value("y"))


def test_peak_counts_shared_memory_once() -> None:
    a = analyse(LOOP)
    assert a.ranges.peak(a.aliases) < a.ranges.peak()


IN_PLACE = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
f { p = f32[8] parameter(0)  u = f32[1] parameter(1)  i = s32[] parameter(2)  c = f32[2,4] bitcast(p)
  b = f32[8] bitcast(c)  ROOT r = f32[8] dynamic-update-slice(b, u, i) }
g { p = f32[8] parameter(0)  i = s32[] parameter(1)  u = f32[1] dynamic-slice(p, i), dynamic_slice_sizes={1}
  ROOT r = f32[8] dynamic-update-slice(p, u, i) }
ENTRY main { x = f32[8] parameter(0)  u = f32[1] parameter(1)  i = s32[] parameter(2)  i1 = s32[1] parameter(3)
  dus = f32[8] dynamic-update-slice(x, u, i)
  sc = f32[8] scatter(dus, i1, u), to_apply=add, update_window_dims={0}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0}, index_vector_dim=0
  cc = (f32[8], f32[1]) custom-call(u, sc), custom_call_target="t", output_to_operand_aliasing={{0}: (1, {})}
  c0 = f32[8] get-tuple-element(cc), index=0
  ff = f32[8] fusion(c0, u, i), kind=kLoop, calls=f
  gg = f32[8] fusion(ff, i), kind=kLoop, calls=g
  self = f32[8] dynamic-update-slice(gg, gg, i)
  ROOT t = f32[8] dynamic-update-slice(self, u, i) }
"""


def test_in_place_pairs() -> None:
    a = analyse(IN_PLACE)
    assert in_place_pairs(a.inst("dus")) == ((0, 0, 0),)
    assert in_place_pairs(a.inst("sc")) == ((0, 0, 0),)
    assert in_place_pairs(a.inst("cc")) == ((1, 0, 0),)
    assert in_place_pairs(a.inst("ff")) == ((0, 0, 0),)
    # It reads the updated array in another place too.
    assert in_place_pairs(a.inst("gg")) == ()
    assert a.same_set(a.value("x"), a.value("c0"))
    assert may_take_over(a.value("sc"), a.value("dus"), share_elementwise)
    # The update is the array itself: writing in place would change what is still to be read.
    assert not may_take_over(a.value("self"), a.value("gg"), share_elementwise)


def test_what_a_fusion_declares_is_a_wish() -> None:
    a = analyse("""
f { p = f32[8] parameter(0)  ROOT r = f32[8] reverse(p), dimensions={0} }
ENTRY main { x = f32[8] parameter(0)
  ROOT y = f32[8] fusion(x), kind=kLoop, output_to_operand_aliasing={{}: (0, {})}, calls=f }""")
    assert in_place_pairs(a.inst("y")) == ()


def test_two_results_in_one_operand_are_refused() -> None:
    with pytest.raises(XylaError, match="two results of %c live in one operand") as caught:
        analyse("""ENTRY main { x = f32[8] parameter(0)
  ROOT c = (f32[8], f32[8]) custom-call(x), custom_call_target="t",
    output_to_operand_aliasing={{0}: (0, {}), {1}: (0, {})} }""")
    assert caught.value.status is Status.UNIMPLEMENTED


def test_buffers_carry_their_array() -> None:
    a = analyse("""ENTRY main { x = f32[8] parameter(0)
  p = b(f32[8]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}
  ROOT u = f32[8] custom-call(p), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})} }""")
    assert a.value("p").shape is a.value("x").shape
    assert a.same_set(a.value("u"), a.value("x"))


def test_state_of_a_loop_with_a_shared_condition_dies_in_the_body() -> None:
    a = analyse("""
cond { p = (s32[], f32[8]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(10)
  ROOT less = pred[] compare(i, n), direction=LT }
one { q = (s32[], f32[8]) parameter(0)  j = s32[] get-tuple-element(q), index=0
  v = f32[8] get-tuple-element(q), index=1  k = s32[] add(j, j)  s = f32[8] sine(v)
  ROOT t = (s32[], f32[8]) tuple(k, s) }
two { q2 = (s32[], f32[8]) parameter(0)  j2 = s32[] get-tuple-element(q2), index=0
  v2 = f32[8] get-tuple-element(q2), index=1  k2 = s32[] add(j2, j2)  s2 = f32[8] cosine(v2)
  ROOT t2 = (s32[], f32[8]) tuple(k2, s2) }
ENTRY main { x = f32[8] parameter(0)  m = s32[] parameter(1)  init = (s32[], f32[8]) tuple(m, x)
  w = (s32[], f32[8]) while(init), condition=cond, body=one
  ROOT w2 = (s32[], f32[8]) while(w), condition=cond, body=two }""")
    t = a.timeline
    inside, after = a.ranges.segments(a.value("w", 1))
    assert inside == (t.enter(a.module.computations["one"]), t.start(a.inst("s")))
    assert after[0] == t.end(a.inst("w"))


def test_what_only_a_shared_condition_reads_stays_state() -> None:
    a = analyse("""
cond { p = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] get-tuple-element(p), index=1
  ROOT less = pred[] compare(i, n), direction=LT }
one { q = (s32[], s32[]) parameter(0)  j = s32[] get-tuple-element(q), index=0
  n1 = s32[] get-tuple-element(q), index=1  k = s32[] add(j, j)  ROOT t = (s32[], s32[]) tuple(k, n1) }
two { q2 = (s32[], s32[]) parameter(0)  j2 = s32[] get-tuple-element(q2), index=0
  n2 = s32[] get-tuple-element(q2), index=1  k2 = s32[] multiply(j2, j2)  ROOT t2 = (s32[], s32[]) tuple(k2, n2) }
ENTRY main { x = s32[] parameter(0)  m = s32[] parameter(1)  h = s32[] negate(m)  init = (s32[], s32[]) tuple(x, h)
  w = (s32[], s32[]) while(init), condition=cond, body=one
  ROOT w2 = (s32[], s32[]) while(w), condition=cond, body=two }""")
    limit = a.value("w", 1)
    assert limit.is_phi
    assert limit.inputs == [a.value("h")]
    # No trip may overwrite it: it is copied in before the next one.
    (segment,) = a.ranges.segments(limit)
    assert segment[0] == a.timeline.enter(a.module.computations["one"])


def test_no_update_in_place_of_another_layout() -> None:
    a = analyse("""
ENTRY main { x = f32[2,4]{0,1} parameter(0)  u = f32[1,1]{1,0} parameter(1)  i = s32[] parameter(2)
  ROOT d = f32[2,4]{1,0} dynamic-update-slice(x, u, i, i) }""")
    assert in_place_pairs(a.inst("d")) == ()


def test_elementwise_hook() -> None:
    a = analyse("""
ENTRY main { x = f32[8,2] parameter(0)  p = pred[] constant(true)  s = f32[8,2] sine(x)
  c = s32[8,2] convert(s)  h = f16[8,2] convert(s)  r = f32[8,2] select(p, s, x)
  t = f32[2,8] transpose(r), dimensions={1,0}
  ROOT o = (f32[2,8], s32[8,2], f16[8,2]) tuple(t, c, h) }""")
    assert share_elementwise(a.inst("s"), 0, 0, 0)
    assert share_elementwise(a.inst("c"), 0, 0, 0)
    assert not share_elementwise(a.inst("h"), 0, 0, 0)
    assert not share_elementwise(a.inst("r"), 0, 0, 0)
    assert share_elementwise(a.inst("r"), 1, 0, 0)
    assert not share_elementwise(a.inst("t"), 0, 0, 0)


def test_entry_aliases_by_leaf_and_by_tree() -> None:
    a = analyse("""HloModule m, input_output_alias={ {0}: (1, {1}, may-alias), {1,0}: (0, {}, must-alias) }
ENTRY main { x = f32[8] parameter(0)  p = (s32[], f32[8]) parameter(1)  y = f32[8] get-tuple-element(p), index=1
  n = f32[8] negate(y)  u = (f32[8], f32[8]) tuple(x, n)  ROOT t = (f32[8], (f32[8], f32[8])) tuple(n, u) }""")
    found = [(e.output, e.parameter, e.leaf, e.must) for e in entry_aliases(a.module)]
    assert found == [(0, 1, 1, False), (1, 0, 0, True)]
    assert a.same_set(a.value("n"), a.value("y"))
    # A parameter that is given up dies with its last read.
    assert a.ranges.range(a.value("y"))[1] == a.timeline.start(a.inst("n"))
    assert a.ranges.range(a.dataflow.value(a.inst("p"), 0))[1] == a.timeline.size - 1


def test_segment_arithmetic() -> None:
    assert merged([(5, 6), (1, 2), (3, 4), (9, 9)]) == [(1, 6), (9, 9)]
    assert overlaps([(1, 3), (8, 9)], [(3, 4)])
    assert not overlaps([(1, 3), (8, 9)], [(4, 7), (10, 12)])
