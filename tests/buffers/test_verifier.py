"""The verifier passes what is right (the other tests do so all the time) and finds each kind of damage."""

from __future__ import annotations

import random

import pytest

from tests.buffers.planned import ADD, as_stored, find, load, plan, value
from xyla.analysis.alias import share_nothing
from xyla.analysis.dataflow import Value
from xyla.buffers.assignment import BufferAssignment, Kind
from xyla.buffers.memory import Memory, Writes
from xyla.buffers.verifier import verify_assignment
from xyla.runtime.program import Slice
from xyla.support.status import Status, XylaError

STRAIGHT = """
  p = f32[100] parameter(0)
  a = f32[100] negate(p)
  b = f32[100] sine(p)
  c = f32[100] add(a, b)
  d = f32[100] multiply(a, c)
  ROOT r = f32[100] add(d, b)"""

LOOP = """
cond { p = (s32[], f32[100], f32[100]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[100], f32[100]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[100] get-tuple-element(p), index=1
  y = f32[100] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  s = f32[100] sine(x)
  t = f32[100] add(s, y)
  ROOT next = (s32[], f32[100], f32[100]) tuple(j, t, x) }
"""
LOOP_ENTRY = """
  p = f32[100] parameter(0)
  k = f32[100] cosine(p)
  z = s32[] constant(0)
  init = (s32[], f32[100], f32[100]) tuple(z, p, p)
  w = (s32[], f32[100], f32[100]) while(init), condition=cond, body=body
  g = f32[100] get-tuple-element(w), index=1
  ROOT r = f32[100] add(g, k)"""

BRANCHES = """
yes { p = f32[100] parameter(0) a = f32[100] sine(p) b = f32[100] cosine(p) ROOT r = f32[100] add(a, b) }
no { p = f32[100] parameter(0) a = f32[100] negate(p) ROOT r = f32[100] multiply(a, p) }
"""
BRANCHES_ENTRY = """
  c = pred[] parameter(0)
  p = f32[100] parameter(1)
  k = f32[100] negate(p)
  m = f32[100] conditional(c, k, k), true_computation=yes, false_computation=no
  ROOT r = f32[100] add(m, k)"""

# The branch `yes` may overwrite its argument, which nothing reads after it; `no` still finds it there.
LAST_READ_ENTRY = BRANCHES_ENTRY.replace("add(m, k)", "add(m, p)")

# %s must not take over the memory of %x: the next %x is written while %s is alive.
LATE_ENTRY = """
  p = f32[100] parameter(0)
  z = s32[] constant(0)
  init = (s32[], f32[100], f32[100]) tuple(z, p, p)
  w = (s32[], f32[100], f32[100]) while(init), condition=cond, body=body
  ROOT g = f32[100] get-tuple-element(w), index=2"""
LATE = """
cond { p = (s32[], f32[100], f32[100]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[100], f32[100]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[100] get-tuple-element(p), index=1
  y = f32[100] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  f = f32[] convert(j)
  s = f32[100] sine(x)
  b = f32[100] broadcast(f), dimensions={}
  t = f32[100] add(s, y)
  ROOT next = (s32[], f32[100], f32[100]) tuple(j, b, t) }
"""

# %q is the same in every trip, and read there.
INVARIANT_ENTRY = """
  p = f32[100] parameter(0)
  q = f32[100] cosine(p)
  z = s32[] constant(0)
  init = (s32[], f32[100], f32[100]) tuple(z, p, q)
  w = (s32[], f32[100], f32[100]) while(init), condition=cond, body=body
  ROOT g = f32[100] get-tuple-element(w), index=1"""
INVARIANT = (
    LATE.partition("body")[0]
    + """
body { p = (s32[], f32[100], f32[100]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[100] get-tuple-element(p), index=1
  y = f32[100] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  s = f32[100] add(x, y)
  r = f32[100] reverse(s), dimensions={0}
  t = f32[100] reverse(r), dimensions={0}
  ROOT next = (s32[], f32[100], f32[100]) tuple(j, t, y) }
"""
)

SHARED = "f { p = f32[100] parameter(0) a = f32[100] sine(p) ROOT b = f32[100] add(a, p) }"
SHARED_ENTRY = """
  p = f32[100] parameter(0)
  k = f32[100] negate(p)
  a = f32[100] call(k), to_apply=f
  b = f32[100] call(a), to_apply=f
  ROOT r = f32[100] add(b, k)"""

AS_STORED = ", is_scheduled=true"

PROGRAMS = {
    "straight": (STRAIGHT, ""),
    "loop": (LOOP_ENTRY, LOOP),
    "branches": (BRANCHES_ENTRY, BRANCHES),
    "last read": (LAST_READ_ENTRY, BRANCHES),
    "late": (LATE_ENTRY, LATE),
    "invariant": (INVARIANT_ENTRY, INVARIANT),
    "shared": (SHARED_ENTRY, SHARED),
}


def move(found: BufferAssignment, v: Value, allocation: int, offset: int) -> None:
    """Puts a value elsewhere, on both sides of the record."""
    del found.allocations[found.slice_of(v).allocation].values[v]
    found.put(found.allocations[allocation], v, offset)


def refuse(found: BufferAssignment, *words: str) -> None:
    with pytest.raises(XylaError) as caught:
        verify_assignment(found)
    assert caught.value.status is Status.INTERNAL
    for word in words:
        assert word in caught.value.message


@pytest.mark.parametrize("name", PROGRAMS)
def test_right_ones_pass(name: str) -> None:
    verify_assignment(plan(*PROGRAMS[name]))
    verify_assignment(plan(*PROGRAMS[name], AS_STORED))


def test_two_values_in_one_place() -> None:
    found = plan(STRAIGHT)
    where = found.slice_of(value(found, "a"))
    assert where != found.slice_of(value(found, "b"))
    move(found, value(found, "b"), where.allocation, where.offset)
    refuse(found, "reads %a", "finds %b", "written by %b")


def test_a_shifted_offset() -> None:
    found = plan(STRAIGHT)
    for name in "ab":
        where = found.slice_of(value(found, name))
        if found.allocations[where.allocation].kind is Kind.TEMP:
            other = where.offset - 64 if where.offset else where.offset + 64
            found.allocations[where.allocation].size += 64
            frames = [f for f in found.frames if f.allocation == where.allocation]
            assert len(frames) == 1
            found.frames[found.frames.index(frames[0])] = type(frames[0])(
                frames[0].region, frames[0].allocation, 0, frames[0].size + 64, frames[0].lower_bound
            )
            move(found, value(found, name), where.allocation, other)
            break
    refuse(found, "reads")


def test_a_shortened_live_range() -> None:
    module = load(STRAIGHT)
    from xyla.analysis.alias import Aliases
    from xyla.analysis.dataflow import Dataflow
    from xyla.analysis.timeline import LiveRanges, Timeline
    from xyla.buffers.assignment import assign

    module.config.is_scheduled = True
    dataflow = Dataflow(module)
    ranges = LiveRanges(Timeline(module, dataflow.graph), dataflow)
    b = module.entry.find("b")
    assert b is not None
    segments = ranges.segments(dataflow.value(b))
    first, last = segments[0]
    segments[0] = (first, last - 2)
    found = assign(module, dataflow, Aliases(dataflow, share_nothing), ranges, can_share=share_nothing)
    with pytest.raises(XylaError, match="reads %b"):
        verify_assignment(found, share_nothing)


def test_a_missing_copy() -> None:
    text = """
      p = f32[100] parameter(0)
      i = s32[] parameter(1)
      a = f32[100] negate(p)
      u = f32[1] constant({1})
      n = f32[100] dynamic-update-slice(a, u, i)
      ROOT r = f32[100] add(n, a)"""
    refuse(as_stored(load(text)), "%r reads %a", "finds %n")


def test_a_result_over_an_operand_that_it_must_not_overwrite() -> None:
    text = """
      p = f32[10,10] parameter(0)
      a = f32[10,10] negate(p)
      t = f32[10,10] transpose(a), dimensions={1,0}
      ROOT r = f32[10,10] sine(t)"""
    found = plan(text)
    where = found.slice_of(value(found, "a"))
    move(found, value(found, "t"), where.allocation, where.offset)
    refuse(found, "%t writes %t over %a, which it reads")


def test_two_results_of_one_instruction() -> None:
    text = """
      p = f32[100] parameter(0)
      s = (f32[100], s32[100]) custom-call(p), custom_call_target="f"
      a = f32[100] get-tuple-element(s), index=0
      b = s32[100] get-tuple-element(s), index=1
      c = f32[100] convert(b)
      ROOT r = f32[100] add(a, c)"""
    found = plan(text)
    where = found.slice_of(value(found, "s", 0))
    move(found, value(found, "s", 1), where.allocation, where.offset)
    refuse(found, "%s writes %s{0} and %s{1} to the same memory")


def test_loop_state_that_lies_elsewhere() -> None:
    found = plan(LOOP_ENTRY, LOOP)
    heap = next(a for a in found.allocations if a.kind is Kind.TEMP)
    root = found.dataflow.values(find(found, "w").called[1].root)[1]
    assert root is not None
    offset = heap.size
    heap.size += 448
    frame = found.frames[0]
    found.frames[0] = type(frame)(frame.region, frame.allocation, 0, heap.size, frame.lower_bound)
    move(found, root, heap.index, offset)
    refuse(found, "lies elsewhere: a copy is missing")


def test_what_a_loop_overwrites_is_lost_after_it() -> None:
    found = plan(LOOP_ENTRY, LOOP, AS_STORED)
    inner = value(found, "s")
    where = found.slice_of(value(found, "k"))
    move(found, inner, where.allocation, where.offset)
    refuse(found, "%r reads %k", "finds %s")


def test_what_a_branch_overwrites_is_lost_after_it() -> None:
    found = plan(BRANCHES_ENTRY, BRANCHES)
    yes = found.module.computations["yes"]
    last = list(yes.instructions)[-2]
    where = found.slice_of(value(found, "k"))
    move(found, found.dataflow.value(last), where.allocation, where.offset)
    refuse(found, "%r reads %k", "other data")


def test_what_the_next_trip_reads_is_not_overwritten() -> None:
    found = plan(INVARIANT_ENTRY, INVARIANT, AS_STORED)
    where = found.slice_of(value(found, "q"))
    move(found, value(found, "r"), where.allocation, where.offset)
    refuse(found, "%s reads %q", "other data")


def test_a_call_that_leaves_its_frame() -> None:
    found = plan(SHARED_ENTRY, SHARED)
    inner = found.dataflow.value(found.module.computations["f"].root)
    where = found.slice_of(value(found, "k"))
    move(found, inner, where.allocation, where.offset)
    refuse(found, "outside of the frame")


def test_frames_that_overlap() -> None:
    found = plan(SHARED_ENTRY, SHARED)
    frame = found.frames[1]
    found.frames[1] = type(frame)(frame.region, frame.allocation, 0, frame.size, frame.lower_bound)
    refuse(found, "frames overlap")


def test_an_argument_that_the_caller_keeps() -> None:
    found = plan(STRAIGHT)
    move(found, value(found, "c"), 0, 0)
    refuse(found, "%c is in allocation 0, a parameter that the caller keeps")


def test_a_constant_that_is_overwritten() -> None:
    found = plan(
        "c = f32[4] constant({1,2,3,4})\n a = f32[4] negate(c)\n b = f32[4] sine(a)\n ROOT r = f32[4] add(b, c)"
    )
    where = found.slice_of(value(found, "c"))
    move(found, value(found, "a"), where.allocation, 0)
    refuse(found, "%a is in constant allocation")


def test_another_constant() -> None:
    found = plan("c = s32[] constant(1)\n d = s32[] constant(2)\n ROOT r = s32[] add(c, d)")
    move(found, value(found, "d"), found.slice_of(value(found, "c")).allocation, 0)
    refuse(found, "allocation of another constant")


def test_an_output_that_the_caller_does_not_get() -> None:
    found = plan(STRAIGHT)
    found.allocations[found.slice_of(value(found, "r")).allocation].output_indices.clear()
    refuse(found, "output 0, %r")


def test_outside_and_unaligned() -> None:
    found = plan(STRAIGHT)
    heap = next(a for a in found.allocations if a.kind is Kind.TEMP)
    inside = next(iter(heap.values))
    move(found, inside, heap.index, heap.size)
    refuse(found, "outside of its allocation")
    move(found, inside, heap.index, 8)
    heap.size += 64
    refuse(found, "not aligned to 64")


def test_scratch_over_an_operand() -> None:
    module = load(
        "p = f32[100] parameter(0)\n a = f32[100] negate(p)\n b = f32[100] reverse(a), dimensions={0}\n"
        "ROOT r = f32[100] sine(b)"
    )
    b = module.entry.find("b")
    assert b is not None
    found = as_stored(module, scratch={b: 64})
    verify_assignment(found)
    where = found.slice_of(value(found, "a"))
    found.put_scratch(found.allocations[where.allocation], b, where.offset, 64)
    refuse(found, "the scratch of %b lies over %a")


def test_memory_that_asynchronous_work_uses() -> None:
    text = """
      p = f32[100] parameter(0)
      q = f32[100] negate(p)
      s = ((f32[100]), f32[100]) async-start(q), calls=f
      a = f32[100] sine(p)
      b = f32[100] cosine(p)
      c = f32[100] multiply(b, a)
      d = f32[100] async-done(s), calls=f
      ROOT r = f32[100] add(c, d)"""
    inner = "f { p = f32[100] parameter(0) a2 = f32[100] sine(p) t = f32[100] cosine(p) ROOT b2 = f32[100] add(a2, t) }"
    found = plan(text, inner, AS_STORED)
    where = found.slice_of(value(found, "t"))
    move(found, value(found, "c"), where.allocation, where.offset)
    refuse(found, "writes memory that %s works in until it is done")


# -- random damage -------------------------------------------------------------------------------------------------

BIG = "\n".join(
    ["  v0 = f32[64] parameter(0)"]
    + [f"  v{i} = f32[64] add(v{max(0, i - 1 - i % 5)}, v{max(0, i - 1 - i % 3)})" for i in range(1, 60)]
    + ["  ROOT r = f32[64] reduce(t, z), dimensions={0}, to_apply=add"]
)
BIG = BIG.replace("  ROOT r =", "  z = f32[] constant(0)\n  t = f32[1,64] reshape(v59)\n  ROOT r =")


def _swap(found: BufferAssignment, rng: random.Random) -> bool:
    """Exchanges the places of two values of the heap that live at one time. False when there are none such."""
    heap = next(a for a in found.allocations if a.kind is Kind.TEMP)
    a, b = rng.sample(sorted(heap.values, key=lambda v: v.id), 2)
    if not found.ranges.overlap(a, b) or found.slice_of(a) == found.slice_of(b):
        return False
    place = found.slice_of(b)
    move(found, a, place.allocation, place.offset)
    return True


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_is_found(seed: int) -> None:
    rng = random.Random(seed)
    found = plan(BIG, ADD)
    while not _swap(found, rng):
        pass
    refuse(found)


# -- the parts -----------------------------------------------------------------------------------------------------


def test_writes_are_joined() -> None:
    writes = Writes()
    writes.extend([Slice(0, 0, 8), Slice(0, 8, 8), Slice(0, 32, 4), Slice(1, 0, 0)])
    assert list(writes.slices()) == [Slice(0, 0, 16), Slice(0, 32, 4)]
    assert writes.touches(Slice(0, 15, 1))
    assert not writes.touches(Slice(0, 16, 16))
    assert not writes.touches(Slice(1, 0, 64))
    assert not writes.touches(Slice(0, 4, 0))


def test_memory_forgets_what_is_overwritten_in_part_and_undoes() -> None:
    found = plan(STRAIGHT)
    a, b = value(found, "a"), value(found, "b")
    memory = Memory()
    memory.write(Slice(0, 0, 64), a, a.instruction)
    memory.begin()
    memory.write(Slice(0, 32, 64), b, b.instruction)
    assert not memory.holds(Slice(0, 0, 64), a)
    assert memory.holds(Slice(0, 32, 64), b)
    memory.undo()
    assert memory.holds(Slice(0, 0, 64), a)
    assert not memory.holds(Slice(0, 32, 64), b)
