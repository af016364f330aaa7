"""Control flow, tuples, collectives: one well-formed module each, then one broken line at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xyla.formats.hlo_text import parse
from xyla.hlo import rewriter
from xyla.hlo.attr_types import ReplicaGroups
from xyla.hlo.shape import TOKEN_SHAPE
from xyla.hlo.verifier import violations

CONTROL = """
HloModule control

cond {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT lt = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[4]) tuple(j, x)
}

twice {
  p = f32[4] parameter(0)
  ROOT d = f32[4] add(p, p)
}

negated {
  p = f32[4] parameter(0)
  ROOT d = f32[4] negate(p)
}

ENTRY main {
  zero = s32[] constant(0)
  count0 = s32[] constant(3)
  x = f32[4] parameter(0)
  which = pred[] parameter(1)
  init = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(init), condition=cond, body=body
  y = f32[4] get-tuple-element(w), index=1
  c = f32[4] conditional(which, y, y), true_computation=twice, false_computation=negated
  k = f32[4] conditional(zero, y, y), branch_computations={twice, negated}
  called = f32[4] call(c), to_apply=twice
  fused = f32[4] fusion(k), kind=kLoop, calls=negated
  tok = token[] after-all()
  feed = (f32[4], token[]) infeed(tok)
  fed = f32[4] get-tuple-element(feed), index=0
  out = token[] outfeed(fed, tok), outfeed_shape=f32[4]
  dep = f32[4] add-dependency(fed, out)
  cc = f32[4] custom-call(dep), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}
  start = ((f32[4]), f32[4], u32[]) async-start(cc), calls=twice
  done = f32[4] async-done(start)
  cs = (f32[4], f32[4], u32[]) copy-start(done)
  cd = f32[4] copy-done(cs)
  snd = (f32[4], u32[], token[]) send(cd, tok), channel_id=1
  sd = token[] send-done(snd), channel_id=1
  rcv = (f32[4], u32[], token[]) recv(sd), channel_id=1
  rd = (f32[4], token[]) recv-done(rcv), channel_id=1
  count = s32[4] iota(), iota_dimension=0
  ROOT r = (f32[4], f32[4], (f32[4], token[]), s32[4]) tuple(called, fused, rd, count)
}
"""

BROKEN = [
    (
        "ROOT lt = pred[] compare(i, n), direction=LT",
        "ROOT lt = s32[] add(i, n)",
        "'cond' returns s32[], expected pred[]",
    ),
    (
        "ROOT t = (s32[], f32[4]) tuple(j, x)",
        "ROOT t = (f32[4], s32[]) tuple(x, j)",
        "w = while: body 'body' returns (f32[4], s32[])",
    ),
    (
        "init = (s32[], f32[4]) tuple(zero, x)",
        "init = (s32[]) tuple(zero)",
        "w = while: operand 0 is (s32[]), expected (s32[], f32[4])",
    ),
    (
        "w = (s32[], f32[4]) while",
        "w = (s32[], f32[5]) while",
        "w = while: result is (s32[], f32[5]), expected (s32[], f32[4])",
    ),
    (
        "y = f32[4] get-tuple-element(w), index=1",
        "y = f32[4] get-tuple-element(w), index=2",
        "y = get-tuple-element: index 2 is out of range",
    ),
    (
        "y = f32[4] get-tuple-element(w), index=1",
        "y = f32[4] get-tuple-element(x), index=1",
        "operand 0 is f32[4], expected a tuple",
    ),
    (
        "conditional(which, y, y)",
        "conditional(which, y, w)",
        "c = conditional: operand 2 is (s32[], f32[4]), expected f32[4] (branch 'negated')",
    ),
    (
        "conditional(which, y, y), true",
        "conditional(x, y, y), true",
        "c = conditional: operand 0 is f32[4], expected pred[] or s32[]",
    ),
    (
        "branch_computations={twice, negated}",
        "branch_computations={twice, negated, twice}",
        "k = conditional: 2 arguments for 3 branches",
    ),
    (
        "call(c), to_apply=twice",
        "call(c, c), to_apply=twice",
        "called = call: computation 'twice' takes 1 parameters, given 2 operands",
    ),
    ("fused = f32[4] fusion(k)", "fused = s32[4] fusion(k)", "fused = fusion: result is s32[4], expected f32[4]"),
    ("ROOT d = f32[4] negate(p)", "ROOT d = f32[5] negate(p)", "d = negate: result is f32[5], expected f32[4]"),
    (
        "feed = (f32[4], token[]) infeed(tok)",
        "feed = (f32[4]) infeed(tok)",
        "feed = infeed: result is (f32[4]), expected (data, token[])",
    ),
    ("infeed(tok)", "infeed(x)", "feed = infeed: operand 0 is f32[4], expected token[]"),
    (
        "outfeed_shape=f32[4]",
        "outfeed_shape=f32[5]",
        "out = outfeed: operand 0 is f32[4], expected f32[5] (outfeed_shape)",
    ),
    ("outfeed(fed, tok)", "outfeed(fed, fed)", "out = outfeed: operand 1 is f32[4], expected token[]"),
    (
        "add-dependency(fed, out)",
        "add-dependency(fed, fed)",
        "dep = add-dependency: operand 1 is f32[4], expected token[]",
    ),
    ("{{}: (0, {})}", "{{}: (1, {})}", "cc = custom-call: output_to_operand_aliasing names operand 1 of 1"),
    ("{{}: (0, {})}", "{{2}: (0, {})}", "cc = custom-call: shape f32[4] has no element at index {2}"),
    ("{{}: (0, {})}", "{{}: (0, {}), {}: (0, {})}", "names output [] twice"),
    ('custom_call_target="f"', 'custom_call_target=""', "cc = custom-call: custom_call_target is empty"),
    ('custom_call_target="f"', 'custom_call_target="f", operand_layout_constraints={}', "has 0 shapes for 1 operands"),
    (
        'custom_call_target="f"',
        'custom_call_target="f", operand_layout_constraints={f32[3]{0}}',
        "operand 0 is f32[4], expected f32[3]",
    ),
    (
        "start = ((f32[4]), f32[4], u32[])",
        "start = ((f32[4]), f32[5], u32[])",
        "start = async-start: result element 1 is f32[5]",
    ),
    (
        "start = ((f32[4]), f32[4], u32[])",
        "start = ((f32[5]), f32[4], u32[])",
        "start = async-start: result is ((f32[5])",
    ),
    (
        "done = f32[4] async-done(start)",
        "done = f32[5] async-done(start)",
        "done = async-done: result is f32[5], expected f32[4]",
    ),
    ("copy-done(cs)", "copy-done(feed)", "cd = copy-done: operand 0 is infeed, expected copy-start"),
    ("(f32[4], f32[4], u32[]) copy-start", "(f32[5], f32[4], u32[]) copy-start", "cs = copy-start: result is (f32[5]"),
    (
        "cd = f32[4] copy-done(cs)",
        "cd = f32[4] copy-done(cs)\n  more = f32[4] copy-done(cs)",
        "cs = copy-start: %cd and %more both wait for it",
    ),
    ("send(cd, tok)", "send(tok, cd)", "snd = send: operand 1 is f32[4], expected token[]"),
    ("recv(sd)", "recv(cd)", "rcv = recv: operand 0 is f32[4], expected token[]"),
    ("rcv = (f32[4], u32[], token[])", "rcv = (f32[4], u32[])", "rcv = recv: result is (f32[4], u32[])"),
    ("rd = (f32[4], token[])", "rd = (f32[5], token[])", "rd = recv-done: result is (f32[5], token[])"),
    ("send-done(snd)", "send-done(feed)", "operand 0 is (f32[4], token[]), expected (data, u32[], token[])"),
    ("copy-done(cs)", "copy-done(cc)", "cd = copy-done: operand 0 is f32[4], expected (destination, source, context)"),
    (
        "async-done(start)",
        "async-done(feed)",
        "done = async-done: operand 0 is (f32[4], token[]), expected ((operands)",
    ),
    (
        "conditional(which, y, y), true_computation=twice, false_computation=negated",
        "conditional(which, y), branch_computations={twice}",
        "c = conditional: 1 branches, expected 2",
    ),
    ("iota_dimension=0", "iota_dimension=1", "count = iota: iota_dimension 1 is out of range for rank 1"),
    (
        "count = s32[4] iota()",
        "count = pred[4] iota()",
        "count = iota: result is pred[4], expected an array of numbers",
    ),
    (
        "call(c), to_apply=twice",
        "call(c), to_apply=twice, is_composite=true",
        "a composite call needs frontend attribute composite.name",
    ),
    (
        "branch_computations={twice, negated}",
        "branch_computations={twice, cond}",
        "k = conditional: operand 2 is f32[4], expected (s32[], f32[4])",
    ),
    (
        "ROOT d = f32[4] negate(p)",
        "ROOT d = pred[4] compare(p, p), direction=EQ",
        "branch 'negated' returns pred[4], expected f32[4]",
    ),
    (
        "  p = f32[4] parameter(0)\n  ROOT d = f32[4] negate(p)",
        "  ROOT d = f32[4] constant({1,2,3,4})",
        "branch 'negated' takes 0 parameters, expected 1",
    ),
    (
        'f", output_to_operand_aliasing={{}: (0, {})}',
        'f", output_to_operand_aliasing={{}: (1, {})}\n  unused = f32[] constant(0)',
        "names operand 1 of 1",
    ),
    (
        'custom-call(dep), custom_call_target="f"',
        'custom-call(count0), custom_call_target="f"',
        "output_to_operand_aliasing pairs f32[4] with s32[]",
    ),
]


def broken(text, old, new):
    assert text.count(old) >= 1, old
    return violations(parse(text.replace(old, new, 1), "m.hlo"))


def test_control_is_well_formed():
    assert violations(parse(CONTROL, "m.hlo")) == []


@pytest.mark.parametrize(("old", "new", "want"), BROKEN)
def test_broken_control(old, new, want):
    messages = [e.message for e in broken(CONTROL, old, new)]
    assert any(want in m for m in messages), messages


COLLECTIVES = """
HloModule collectives, replica_count=4, num_partitions=2

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[8,6] parameter(0)
  ar = f32[8,6] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add
  ars = f32[8,6] all-reduce-start(x), replica_groups={}, to_apply=add
  ard = f32[8,6] all-reduce-done(ars)
  ag = f32[16,6] all-gather(x), replica_groups={{0,1},{2,3}}, dimensions={0}
  flat = f32[32,6] all-gather(x), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}, channel_id=1,
    use_global_device_ids=true
  spread = f32[32,6] all-gather(x), replica_groups={{0,1},{2,3}}, dimensions={0}, channel_id=2
  ags = (f32[8,6], f32[8,12]) all-gather-start(x), replica_groups={{0,1},{2,3}}, dimensions={1}
  agd = f32[8,12] all-gather-done(ags)
  rs = f32[4,6] reduce-scatter(x), replica_groups={{0,1},{2,3}}, dimensions={0}, to_apply=add
  aa = f32[8,6] all-to-all(x), replica_groups={{0,1},{2,3}}, dimensions={0}
  at = (f32[8,6], f32[8,6]) all-to-all(x, x), replica_groups={{0,1},{2,3}}
  cp = f32[8,6] collective-permute(x), source_target_pairs={{0,1},{1,2}}
  cps = (f32[8,6], f32[8,6], u32[], u32[]) collective-permute-start(x), source_target_pairs={{0,1}}
  cpd = f32[8,6] collective-permute-done(cps)
  cb = f32[8,6] collective-broadcast(x), replica_groups={{0,1}}
  sizes = s32[4] constant({0,1,2,3})
  ra = f32[8,6] ragged-all-to-all(x, x, sizes, sizes, sizes, sizes), replica_groups={{0,1}}
  id = u32[] replica-id()
  pid = u32[] partition-id()
  ROOT r = (f32[8,6], u32[]) tuple(ar, id)
}
"""

BROKEN_COLLECTIVES = [
    (
        "x), replica_groups={{0,1},{2,3}}, to_apply=add\n  ars",
        "x), replica_groups={{0,1},{1,3}}, to_apply=add\n  ars",
        "ar = all-reduce: replica_groups holds 1 twice",
    ),
    (
        "x), replica_groups={{0,1},{2,3}}, to_apply=add\n  ars",
        "x), replica_groups={{0,1},{}}, to_apply=add\n  ars",
        "ar = all-reduce: replica_groups has an empty group",
    ),
    ("ROOT c = f32[] add(a, b)", "t = f32[] add(a, b)\n  ROOT c = (f32[]) tuple(t)", ""),
    (
        "ag = f32[16,6]",
        "ag = f32[24,6]",
        "ag = all-gather: result 0 is f32[24,6], operand 0 is f32[8,6]: dimension 0 must change by the group size 2",
    ),
    ("ag = f32[16,6]", "ag = f32[16,7]", "ag = all-gather: result 0 is f32[16,7]"),
    (
        "ag = f32[16,6] all-gather(x), replica_groups={{0,1},{2,3}}",
        "ag = f32[16,6] all-gather(x), replica_groups={{0,1},{2}}",
        "ag = all-gather: replica_groups differ in size",
    ),
    ("flat = f32[32,6]", "flat = f32[64,6]", "flat = all-gather: result 0 is f32[64,6]"),
    (
        "flat = f32[32,6] all-gather(x), replica_groups={{0,1,2,3},{4,5,6,7}}",
        "flat = f32[32,6] all-gather(x), replica_groups={}",
        "use_global_device_ids needs replica_groups",
    ),
    ("spread = f32[32,6]", "spread = f32[64,6]", "spread = all-gather: result 0 is f32[64,6]"),
    ("ags = (f32[8,6], f32[8,12])", "ags = (f32[8,6], f32[8,13])", "ags = all-gather-start: result 0 is f32[8,13]"),
    ("agd = f32[8,12]", "agd = f32[8,6]", "agd = all-gather-done: result is f32[8,6], expected f32[8,12]"),
    ("rs = f32[4,6]", "rs = f32[8,6]", "rs = reduce-scatter: result 0 is f32[8,6]"),
    (
        "dimensions={0}, to_apply=add",
        "dimensions={2}, to_apply=add",
        "rs = reduce-scatter: dimension 2 is out of range",
    ),
    ("aa = f32[8,6]", "aa = f32[4,12]", "aa = all-to-all: result is f32[4,12], expected f32[8,6]"),
    (
        "aa = f32[8,6] all-to-all(x), replica_groups={{0,1},{2,3}}",
        "aa = f32[8,6] all-to-all(x), replica_groups={{0,1,2}}",
        "does not divide by 3",
    ),
    (
        "all-to-all(x, x), replica_groups={{0,1},{2,3}}",
        "all-to-all(x, x), replica_groups={{0,1,2}}",
        "at = all-to-all: 2 operands for groups of 3",
    ),
    (
        "source_target_pairs={{0,1},{1,2}}",
        "source_target_pairs={{0,1},{0,2}}",
        "cp = collective-permute: source_target_pairs has source 0 twice",
    ),
    (
        "source_target_pairs={{0,1},{1,2}}",
        "source_target_pairs={{0,1},{2,1}}",
        "cp = collective-permute: source_target_pairs has target 1 twice",
    ),
    (
        "cps = (f32[8,6], f32[8,6]",
        "cps = (f32[8,6], f32[8,7]",
        "cps = collective-permute-start: result is (f32[8,6], f32[8,7]",
    ),
    (
        "all-gather-done(ags)",
        "collective-permute-done(ags)",
        "agd = collective-permute-done: operand 0 is all-gather-start",
    ),
    ("sizes, sizes), replica_groups", "sizes, x), replica_groups", "ra = ragged-all-to-all: operand 5 is f32[8,6]"),
    ("id = u32[] replica-id()", "id = s32[] replica-id()", "id = replica-id: result is s32[], expected u32[]"),
    (
        "ags = (f32[8,6], f32[8,12]) all-gather-start(x)",
        "ags = (f32[8,6]) all-gather-start(x)",
        "ags = all-gather-start: result is (f32[8,6]), expected (operands, results)",
    ),
    (
        "all-gather(x), replica_groups={{0,1},{2,3}}, dimensions={0}\n",
        "all-gather(x, x), replica_groups={{0,1},{2,3}}, dimensions={0}\n",
        "ag = all-gather: 1 results for 2 operands",
    ),
    ("ag = f32[16,6]", "ag = s32[16,6]", "ag = all-gather: result 0 is s32[16,6], expected element type f32"),
    (
        "aa = f32[8,6] all-to-all(x)",
        "aa = f32[8,6] all-to-all(x, x)",
        "aa = all-to-all: 2 operands, expected 1 with dimensions",
    ),
    ("all-to-all(x, x)", "all-to-all(x, ag)", "at = all-to-all: operand 1 is f32[16,6], expected f32[8,6]"),
    (
        "{{0,1},{1,2}}",
        "{{0,1},{1,2}}, slice_sizes={{1,1}}",
        "cp = collective-permute: 1 operands, expected 4 with slice_sizes",
    ),
    ("{{0,1},{1,2}}", "{{0,1},{1,-2}}", "cp = collective-permute: source_target_pairs holds {1,-2}"),
]


def test_collectives_are_well_formed():
    assert violations(parse(COLLECTIVES, "m.hlo")) == []


@pytest.mark.parametrize(("old", "new", "want"), BROKEN_COLLECTIVES)
def test_broken_collective(old, new, want):
    messages = [e.message for e in broken(COLLECTIVES, old, new)]
    if want:
        assert any(want in m for m in messages), messages
    else:
        assert messages == []


def test_negative_device():
    module = parse(COLLECTIVES, "m.hlo")
    cb = module.entry.find("cb")
    rewriter.set_attrs(cb, replace(cb.attrs, replica_groups=ReplicaGroups(((0, -1),))))
    assert [e.message for e in violations(module)] == ["%cb = collective-broadcast: replica_groups holds -1"]


def test_iota_is_an_array():
    module = parse(CONTROL, "m.hlo")
    rewriter.set_shape(module.entry.find("count"), TOKEN_SHAPE)
    assert any("%count = iota: result is token[], expected an array" in e.message for e in violations(module))
