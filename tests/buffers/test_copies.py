"""Copies move up to where their target is free, and no further."""

from __future__ import annotations

from tests.buffers.planned import ADD, find, plan
from xyla.buffers.assignment import BufferAssignment
from xyla.hlo import ops

AS_STORED = ", is_scheduled=true"
ALIASED = AS_STORED + ", input_output_alias={ {0}: (0, {}, must-alias) }"


def names(found: BufferAssignment, comp: str = "e") -> list[str]:
    return [i.name for i in found.module.computations[comp].instructions]


# %new cannot be written over %p, which it reads out of step.
TRANSPOSED = """
  p = f32[100,100] parameter(0)
  new = f32[100,100] transpose(p), dimensions={1,0}
  a = f32[1000,100] broadcast(q), dimensions={1}
  s = f32[] reduce(a, z), dimensions={0,1}, to_apply=add
  READ
  ROOT t = (f32[100,100], f32[]) tuple(new, s)"""
TRANSPOSED = TRANSPOSED.replace("  new =", "  q = f32[100] parameter(1)\n  z = f32[] constant(0)\n  new =")


def test_an_output_is_copied_into_its_argument_at_once() -> None:
    found = plan(TRANSPOSED.replace("  READ\n", ""), ADD, ALIASED)
    order = names(found)
    (copy,) = [i.name for i in found.module.entry.instructions if i.op is ops.COPY]
    assert order.index(copy) == order.index("new") + 1
    assert found.stats.temporaries == 400_000


def test_not_before_the_argument_is_read() -> None:
    read = "b = f32[100,100] sine(p)\n  s2 = f32[] reduce(b, s), dimensions={0,1}, to_apply=add"
    found = plan(TRANSPOSED.replace("READ", read).replace("tuple(new, s)", "tuple(new, s2)"), ADD, ALIASED)
    order = names(found)
    (copy,) = [i.name for i in found.module.entry.instructions if i.op is ops.COPY]
    assert order.index(copy) == order.index("b") + 1


def test_what_is_read_later_is_not_copied_early() -> None:
    read = "b = f32[100,100] sine(new)\n  s2 = f32[] reduce(b, s), dimensions={0,1}, to_apply=add"
    found = plan(TRANSPOSED.replace("READ", read).replace("tuple(new, s)", "tuple(new, s2)"), ADD, ALIASED)
    order = names(found)
    (copy,) = [i.name for i in found.module.entry.instructions if i.op is ops.COPY]
    assert order.index(copy) == order.index("b") + 1


LOOP = """
cond { p = (s32[], f32[100,100]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[100,100]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[100,100] get-tuple-element(p), index=1
  one = s32[] constant(1)
  flip = f32[100,100] transpose(x), dimensions={1,0}
  f = f32[] convert(i)
  w = f32[1000,100] broadcast(f), dimensions={}
  z = f32[] constant(0)
  s = f32[] reduce(w, z), dimensions={0,1}, to_apply=add
  k = s32[] convert(s)
  m = s32[] add(i, k)
  j = s32[] add(m, one)
  ROOT t = (s32[], f32[100,100]) tuple(j, flip) }
"""
LOOP_ENTRY = """
  p = f32[100,100] parameter(0)
  z = s32[] constant(0)
  init = (s32[], f32[100,100]) tuple(z, p)
  w = (s32[], f32[100,100]) while(init), condition=cond, body=body
  ROOT g = f32[100,100] get-tuple-element(w), index=1"""


def test_the_next_state_is_copied_once_the_old_one_is_read() -> None:
    found = plan(LOOP_ENTRY, ADD + LOOP, AS_STORED)
    order = names(found, "body")
    copies = [i for i in found.module.computations["body"].instructions if i.op is ops.COPY and i.shape.rank == 2]
    assert len(copies) == 1
    assert order.index(copies[0].name) == order.index("flip") + 1
    # The transposed state is not alive beside the wide array.
    assert found.ranges.range(found.dataflow.value(find(found, "flip")))[1] == found.timeline.start(copies[0])
