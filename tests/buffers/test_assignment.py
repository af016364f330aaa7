"""Kinds of allocations, what shares memory and what must not, frames, colours, scratch, limits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.buffers.planned import ADD, as_stored, load, place, plan, value
from xyla.analysis.alias import share_nothing
from xyla.buffers.assignment import Alignments, BufferAssignment, Kind
from xyla.buffers.rooms import Room, move_into
from xyla.buffers.sharing import Buffer
from xyla.buffers.verifier import verify_assignment
from xyla.hlo.literal import Literal
from xyla.hlo.module import Instruction
from xyla.support.dtypes import F32
from xyla.support.status import Status, XylaError


def kinds(found: BufferAssignment) -> list[Kind]:
    return [a.kind for a in found.allocations]


def test_each_kind_has_its_allocations() -> None:
    found = plan("""
      p = f32[8] parameter(0)
      unused = f32[4] parameter(1)
      c = f32[8] constant({1,2,3,4,5,6,7,8})
      d = f32[8] constant({1,2,3,4,5,6,7,8})
      a = f32[8] add(p, c)
      s = f32[2,8] broadcast(a), dimensions={1}
      b = f32[8] reduce(s, z), dimensions={0}, to_apply=add
      ROOT t = (f32[8], f32[8]) tuple(b, e)
    """.replace("      s =", "      z = f32[] constant(0)\n      e = f32[8] add(a, d)\n      s ="), ADD)  # fmt: skip
    assert kinds(found) == [
        Kind.PARAMETER, Kind.PARAMETER, Kind.CONSTANT, Kind.CONSTANT, Kind.LIVE_OUT, Kind.LIVE_OUT, Kind.TEMP,
    ]  # fmt: skip
    assert [a.parameter for a in found.allocations[:2]] == [(0, ()), (1, ())]
    assert place(found, "c") == place(found, "d")
    assert [a.output_indices for a in found.allocations[4:6]] == [[0], [1]]
    assert [a.size for a in found.allocations[:3]] == [32, 16, 32]
    stats = found.stats
    assert (stats.parameters, stats.constants, stats.outputs) == (48, 36, 64)
    assert stats.total == 48 + 36 + 64 + found.allocations[-1].size
    assert stats.temporaries == stats.lower_bound == 64 + 64


def test_a_chain_of_elementwise_work_is_done_in_the_result() -> None:
    found = plan("""
      p = f32[1000] parameter(0)
      a = f32[1000] negate(p)
      b = f32[1000] sine(a)
      ROOT c = f32[1000] cosine(b)""")
    assert place(found, "a") == place(found, "b") == place(found, "c")
    assert found.stats.temporaries == 0


def test_without_the_targets_leave_nothing_is_overwritten() -> None:
    module = load("""
      p = f32[1000] parameter(0)
      a = f32[1000] negate(p)
      b = f32[1000] sine(a)
      ROOT c = f32[1000] cosine(b)""")
    found = as_stored(module, share_nothing)
    assert len({place(found, name) for name in "abc"}) == 3
    verify_assignment(found, share_nothing)


def test_what_is_read_again_is_not_overwritten() -> None:
    found = plan("""
      p = f32[1000] parameter(0)
      a = f32[1000] negate(p)
      b = f32[1000] sine(a)
      c = f32[1000] cosine(b)
      ROOT d = f32[1000] add(c, a)""")
    assert place(found, "a") != place(found, "b")


def test_an_aliased_argument_is_updated_in_place() -> None:
    found = plan(
        """
      p = f32[1000] parameter(0)
      u = f32[1] parameter(1)
      i = s32[] parameter(2)
      ROOT r = f32[1000] dynamic-update-slice(p, u, i)""",
        header=", input_output_alias={ {}: (0, {}, must-alias) }",
    )
    (allocation, _) = place(found, "r")
    assert allocation == 0
    first = found.allocations[0]
    assert (first.output_indices, first.donated, first.must_alias, first.is_overwritten) == ([0], True, True, True)
    assert Kind.LIVE_OUT not in kinds(found)


def test_a_donated_argument_holds_an_output() -> None:
    text = """
      p = f32[1000] parameter(0)
      q = f32[1000] parameter(1)
      ROOT r = f32[1000] add(p, q)"""
    found = plan(text, header=", buffer_donor={ (1, {}) }")
    assert place(found, "r") == (1, 0)
    assert found.allocations[1].donated
    assert not found.allocations[1].must_alias
    assert place(plan(text), "r")[0] == 2


def test_a_donated_argument_that_is_read_late_is_kept() -> None:
    found = plan(
        """
      p = f32[1000] parameter(0)
      a = f32[1000] negate(p)
      s = f32[1000] sine(a)
      b = f32[1000] add(s, p)
      ROOT r = (f32[1000], f32[1000]) tuple(a, b)""",
        header=", buffer_donor={ (0, {}) }",
    )
    assert place(found, "b")[0] == 0
    assert place(found, "a")[0] != 0


def test_an_output_is_put_into_what_was_donated_and_read() -> None:
    found = plan(
        """
      p = f32[1000] parameter(0)
      a = f32[1000,8] broadcast(p), dimensions={0}
      z = f32[] constant(0)
      b = f32[1000] reduce(a, z), dimensions={1}, to_apply=add
      ROOT c = f32[1000] copy(b)""",
        ADD,
        header=", buffer_donor={ (0, {}) }",
    )
    assert place(found, "c") == (0, 0)
    assert Kind.LIVE_OUT not in kinds(found)


def test_temporaries_lie_in_an_output_before_it_is_written() -> None:
    text = """
      p = f32[100,1000] parameter(0)
      z = f32[] constant(0)
      t = f32[1000,100] transpose(p), dimensions={1,0}
      s = f32[] reduce(t, z), dimensions={0,1}, to_apply=add
      b = f32[100,1000] broadcast(s), dimensions={}
      ROOT out = f32[100,1000] custom-call(b, p), custom_call_target="f"
    """
    found = plan(text, ADD)
    assert place(found, "t") == place(found, "out")
    assert place(found, "b")[0] != place(found, "out")[0]
    assert found.stats.temporaries == 400_000 + 64
    small = plan(text.replace("100,1000", "10,100").replace("1000,100", "100,10"), ADD)
    assert place(small, "t")[0] != place(small, "out")[0]


def test_only_what_is_alive_at_the_peak_moves_and_only_within_its_memory_space() -> None:
    found = plan("p = f32[4] parameter(0)\n a = f32[4] negate(p)\n b = f32[4] sine(a)\n ROOT r = f32[4] add(a, b)")
    values = [value(found, name) for name in "abr"]
    big = 1 << 20

    def buffers(color: int) -> list[Buffer]:
        lives = [[(0, 3)], [(5, 9)], [(6, 9)]]
        sizes = [2 * big, big, 3 * big]
        return [
            Buffer([v], size, color, found.module.entry, when)
            for v, size, when in zip(values, sizes, lives, strict=True)
        ]

    def moved(color: int, size: int) -> list[int]:
        room = Room(7, size, 0, [(0, size, [(20, 20)])])
        return [m.buffer.values[0].id for m in move_into([room], buffers(color), 21, 64)]

    # The peak is b and r, of which only b fits; with room for both, a moves as well.
    assert moved(0, 2 * big) == [values[1].id]
    assert moved(0, 4 * big) == [values[2].id, values[0].id, values[1].id]
    assert moved(1, 4 * big) == []


def test_a_room_holds_what_fits_beside_one_another() -> None:
    room = Room(0, 1000, 0, [(0, 1000, [(10, 12)])])
    assert room.place(400, [(0, 5)], 64) == 0
    room.taken.append((0, 400, [(0, 5)]))
    assert room.place(400, [(5, 9)], 64) == 448
    assert room.place(400, [(6, 9)], 64) == 0
    assert room.place(600, [(5, 9)], 64) is None
    assert room.place(400, [(6, 10)], 64) is None


LOOP = """
cond { p = (s32[], f32[1000]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[1000]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[1000] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  u = f32[1] constant({3})
  y = f32[1000] dynamic-update-slice(x, u, i)
  ROOT t = (s32[], f32[1000]) tuple(j, y) }
"""
LOOP_ENTRY = """
  p = f32[1000] parameter(0)
  z = s32[] constant(0)
  init = (s32[], f32[1000]) tuple(z, p)
  w = (s32[], f32[1000]) while(init), condition=cond, body=body
  ROOT g = f32[1000] get-tuple-element(w), index=1"""


def test_loop_state_is_updated_in_place() -> None:
    found = plan(LOOP_ENTRY, LOOP)
    assert place(found, "w", 1) == place(found, "y") == place(found, "g")
    assert place(found, "w", 0) == place(found, "j")
    copies = [i for i in found.module.instructions() if i.op.name == "copy"]
    assert [c.parent.name for c in copies] == ["e", "e"]


def test_branches_share_memory() -> None:
    branch = """
    {name} {{ p = f32[1000] parameter(0)
      a = f32[1000,8] broadcast(p), dimensions={{0}}
      z = f32[] constant(0)
      ROOT r = f32[1000] reduce(a, z), dimensions={{1}}, to_apply=add }}"""
    found = plan(
        """
      c = pred[] parameter(0)
      p = f32[1000] parameter(1)
      ROOT r = f32[1000] conditional(c, p, p), true_computation=yes, false_computation=no""",
        ADD + branch.format(name="yes") + branch.format(name="no"),
    )
    # One broadcast at a time.
    assert found.stats.temporaries == 32000


def test_a_shared_computation_has_a_frame_of_its_own() -> None:
    found = plan(
        """
      p = f32[1000] parameter(0)
      k = f32[1000] negate(p)
      a = f32[1000] call(k), to_apply=f
      b = f32[1000] call(a), to_apply=f
      ROOT r = f32[1000] add(b, k)""",
        "f { p = f32[1000] parameter(0) a = f32[1000] sine(p) ROOT b = f32[1000] add(a, p) }",
    )
    frames = {f.region.name: f for f in found.frames}
    assert set(frames) == {"e", "f"}
    assert frames["f"].offset >= frames["e"].offset + frames["e"].size
    f = found.module.computations["f"]
    for inst in f.instructions:
        for v in found.dataflow.defines(inst):
            assert v is not None
            where = found.slice_of(v)
            assert frames["f"].offset <= where.offset < frames["f"].offset + frames["f"].size


def test_memory_spaces_have_heaps_of_their_own() -> None:
    found = plan("""
      p = f32[1000] parameter(0)
      a = f32[1000]{0:S(1)} copy(p)
      b = f32[1000]{0:S(1)} negate(a)
      c = f32[1000] copy(b)
      ROOT r = f32[1000] sine(c)""")
    heaps = [a for a in found.allocations if a.kind is Kind.TEMP]
    assert [h.color for h in heaps] == [0, 1]
    assert place(found, "a") == place(found, "b") == (heaps[1].index, 0)
    assert heaps[1].size == 4032


def test_memory_spaces_are_not_taken_over() -> None:
    found = plan("""
      p = f32[1000] parameter(0)
      a = f32[1000]{0:S(1)} negate(p)
      b = f32[1000] sine(a)
      ROOT r = f32[10,100] reshape(b)""")
    assert place(found, "a")[0] != place(found, "b")[0]


def test_one_of_two_results_takes_an_operands_place() -> None:
    def anything(inst: Instruction, number: int, leaf: int, output: int) -> bool:
        return inst.op.name == "custom-call"

    found = plan(
        """
      p = f32[1000] parameter(0)
      a = f32[1000] negate(p)
      s = (f32[1000], f32[1000]) custom-call(a), custom_call_target="f"
      x = f32[1000] get-tuple-element(s), index=1
      ROOT r = f32[1000] sine(x)""",
        can_share=anything,
    )
    assert place(found, "s", 0) == place(found, "a")
    assert place(found, "s", 1) != place(found, "a")


def test_a_result_that_nobody_reads_does_not_take_the_next_states_place() -> None:
    def anything(inst: Instruction, number: int, leaf: int, output: int) -> bool:
        return inst.op.name == "custom-call"

    body = LOOP.replace(
        "y = f32[1000] dynamic-update-slice(x, u, i)",
        'f = (f32[1000], f32[1000]) custom-call(x), custom_call_target="f"\n'
        "  y = f32[1000] get-tuple-element(f), index=1",
    )
    found = plan(LOOP_ENTRY, body, can_share=anything)
    assert place(found, "f", 1) == place(found, "w", 1)
    assert place(found, "f", 0) != place(found, "f", 1)


def test_scratch_lies_beside_what_is_alive() -> None:
    module = load("""
      p = f32[1000] parameter(0)
      a = f32[1000] negate(p)
      b = f32[1000] sort(a), dimensions={0}, to_apply=less
      ROOT r = f32[1000] sine(b)""",
      "less { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = pred[] compare(x, y), direction=LT }")  # fmt: skip
    sort = module.entry.find("b")
    assert sort is not None
    found = as_stored(module, scratch={sort: 500})
    where = found.scratch(sort)
    assert where is not None
    assert where.size == 500
    assert found.allocations[where.allocation].kind is Kind.TEMP
    verify_assignment(found)


def test_alignments_are_kept() -> None:
    module = load("""
      p = f32[3] parameter(0)
      a = f32[3] negate(p)
      s = f32[3] sine(p)
      c = f32[3] cosine(p)
      x = f32[3] add(a, s)
      y = f32[3] add(x, c)
      z = f32[3] add(y, a)
      ROOT r = f32[3] add(z, s)""")
    found = as_stored(module, alignments=Alignments(parameter=4, temp=256))
    assert found.allocations[0].alignment == 4
    assert all(place(found, name)[1] % 256 == 0 for name in "asc")
    verify_assignment(found)


def test_bounded_dimensions_take_their_bound() -> None:
    found = plan("""
      p = f32[<=100] parameter(0)
      a = f32[<=100] negate(p)
      ROOT r = f32[<=100] sine(a)""")
    assert found.allocations[0].size == 400


def test_arrays_without_elements_share_nothing() -> None:
    found = plan("p = f32[0] parameter(0)\n u = f32[0] parameter(1)\n i = s32[] parameter(2)\n"
                 "ROOT r = f32[0] dynamic-update-slice(p, u, i)")  # fmt: skip
    assert kinds(found) == [Kind.PARAMETER, Kind.PARAMETER, Kind.PARAMETER, Kind.LIVE_OUT, Kind.TEMP]


def test_results_without_a_definite_value_are_refused() -> None:
    module = load("""
      p = f32[8] parameter(0)
      ROOT s = ((f32[8]), f32[8], u32[]) async-start(p), calls=f""",
      "f { p = f32[8] parameter(0) ROOT r = f32[8] negate(p) }")  # fmt: skip
    with pytest.raises(XylaError) as caught:
        as_stored(module)
    assert caught.value.status is Status.UNIMPLEMENTED
    assert "output {2}" in caught.value.message


def test_a_missing_copy_is_named() -> None:
    with pytest.raises(XylaError, match=r"constant %z shares memory with .*: a copy is missing"):
        as_stored(load(LOOP_ENTRY, LOOP))


def test_beyond_the_limit() -> None:
    text = "p = f32[1000] parameter(0)\n ROOT r = f32[1000] sine(p)"
    plan(text, limit=8000)
    with pytest.raises(XylaError) as caught:
        plan(text, limit=7999)
    assert caught.value.status is Status.RESOURCE_EXHAUSTED
    assert "4,000 of arguments" in caught.value.message


def test_a_literal_of_the_target_joins_the_constants() -> None:
    found = plan("p = f32[2] parameter(0)\n c = f32[2] constant({1,2})\n ROOT r = f32[2] add(p, c)")
    count = len(found.allocations)
    literal = value(found, "c").instruction.attrs.literal
    assert found.constant(literal).allocation == place(found, "c")[0]
    assert len(found.allocations) == count
    other = Literal.of(np.zeros(3, np.float32), F32)
    made = found.constant(other)
    assert found.allocations[made.allocation].literal is other
    assert found.constant(other) == made


def test_the_same_module_is_assigned_the_same_way() -> None:
    def slices() -> list[object]:
        found = plan(LOOP_ENTRY, LOOP)
        return [found.slice_of(v) for v in found.dataflow.all_values]

    assert slices() == slices()
