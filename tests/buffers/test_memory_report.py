"""The memory report: profile, where the peak comes from, what would reduce it."""

from __future__ import annotations

from tests.buffers.planned import ADD, as_stored, load, plan, value
from xyla.buffers.memory_report import peak_by_line, source_of, suggestions, usage_report
from xyla.buffers.profile import Profile, text_of
from xyla.formats.hlo_text import parse

# %early waits for the end, through %wide.
PROGRAM = """
  p = f32[1000] parameter(0)
  early = f32[1000,50] broadcast(p), dimensions={0}, metadata={source_file="m.py" source_line=3}
  e1 = f32[1000] reduce(early, z), dimensions={1}, to_apply=add
  a = f32[1000] negate(e1)
  wide = f32[1000,100] broadcast(a), dimensions={0}, metadata={source_file="m.py" source_line=9}
  b = f32[1000] reduce(wide, z), dimensions={1}, to_apply=add
  c = f32[1000] sine(b)
  d = f32[1000] cosine(c)
  f = f32[1000] reduce(early, z), dimensions={1}, to_apply=add
  ROOT r = f32[1000] add(d, f)"""
PROGRAM = PROGRAM.replace("  early =", "  z = f32[] constant(0)\n  early =")
AS_STORED = ", is_scheduled=true"


def test_profile() -> None:
    profile = Profile(plan(PROGRAM, ADD, AS_STORED))
    assert profile.fixed == 4004
    assert profile.peak == 200_000 + 400_000 + 4000
    at = profile.peak_position
    assert [(a.instruction.name, a.size) for a in profile.alive(at)][:2] == [("wide", 400_000), ("early", 200_000)]
    assert profile.at(at) == profile.peak
    assert profile.highest(*profile.span) == profile.peak
    dense = profile.by_position()
    assert dense.max() == profile.peak
    assert [profile.at(profile.span[0] + i) for i in range(len(dense))] == dense.tolist()


def test_a_place_that_is_handed_over_counts_once() -> None:
    text = """
      p = f32[1000] parameter(0)
      a = f32[1000] negate(p)
      b = f32[1000] sine(a)
      c = f32[1000] cosine(b)
      z = f32[] constant(0)
      ROOT r = f32[] reduce(c, z), dimensions={0}, to_apply=add"""
    found = plan(text, ADD)
    assert found.slice_of(value(found, "a")) == found.slice_of(value(found, "c"))
    assert Profile(found).peak == 4004


def test_scratch_counts_while_it_is_used() -> None:
    module = load(
        "p = f32[1000] parameter(0)\n a = f32[1000] negate(p)\n ROOT b = f32[1000] reverse(a), dimensions={0}"
    )
    b = module.entry.find("b")
    assert b is not None
    profile = Profile(as_stored(module, scratch={b: 640}))
    assert profile.peak == 4000 + 4000 + 640
    assert profile.alive(profile.peak_position)[-1].text == "scratch of %b"


def test_plot() -> None:
    rows = Profile(plan(PROGRAM, ADD, AS_STORED)).plot(width=40, height=5)
    assert len(rows) == 6
    assert rows[0].startswith(f"{text_of(608_004):>10} |")
    assert rows[0].count("█") >= 1
    assert "█" not in rows[0][:16]
    assert rows[-1].startswith("         0 +---")


def test_the_peak_by_line() -> None:
    lines = peak_by_line(Profile(plan(PROGRAM, ADD, AS_STORED)))
    assert [(line.where, line.bytes) for line in lines[:2]] == [("m.py:9", 400_000), ("m.py:3", 200_000)]


def test_lines_of_stack_frames() -> None:
    text = """HloModule m
FileNames
1 "/src/net.py"
FunctionNames
1 "f"
FileLocations
1 {file_name_id=1 function_name_id=1 line=42 end_line=42 column=1 end_column=2}
StackFrames
1 {file_location_id=1 parent_frame_id=0}

ENTRY e {
  p = f32[8] parameter(0)
  a = f32[8] negate(p), metadata={op_name="n" stack_frame_id=1}
  ROOT b = f32[8] sine(a), metadata={op_name="s" stack_frame_id=9}
}
"""
    module = parse(text, "test")
    assert [source_of(i) for i in module.entry.instructions] == ["%p", "/src/net.py:42", "s"]


def test_what_waits_through_the_peak_could_be_made_again() -> None:
    (found, *_) = suggestions(Profile(plan(PROGRAM, ADD, AS_STORED)))
    assert found.bytes == 200_000
    assert found.text.startswith("%early f32[1000,50] waits for %f: make it again there (broadcast is cheap)")


def test_what_nothing_read_yet_could_be_made_later() -> None:
    text = PROGRAM.replace("  e1 = f32[1000] reduce(early, z), dimensions={1}, to_apply=add\n", "").replace(
        "(e1)", "(p)"
    )
    (found, *_) = suggestions(Profile(plan(text, ADD, AS_STORED)))
    assert "make it later, after the peak" in found.text
    # The schedule does that by itself when it may.
    assert Profile(plan(text, ADD)).peak < 410_000


def test_arguments_that_could_be_donated() -> None:
    text = "p = f32[1000] parameter(0)\n a = f32[1000] sine(p)\n ROOT b = f32[1000] cosine(a)"
    (found,) = suggestions(Profile(plan(text)))
    assert (found.bytes, found.text) == (4000, "donate argument 0 (%p): output 0 could be put there")
    assert suggestions(Profile(plan(text, header=", buffer_donor={ (0, {}) }"))) == []


def test_an_argument_that_is_read_late_could_not() -> None:
    text = """
      p = f32[1000] parameter(0)
      a = f32[1000] sine(p)
      s = f32[1000,2] broadcast(a), dimensions={0}
      c = f32[] constant(0)
      b = f32[] reduce(s, c), dimensions={0,1}, to_apply=add
      d = f32[] reduce(p, b), dimensions={0}, to_apply=add
      ROOT t = (f32[1000], f32[]) tuple(a, d)"""
    assert not [s for s in suggestions(Profile(plan(text, ADD, AS_STORED))) if "donate" in s.text]


def test_as_text() -> None:
    text = usage_report(plan(PROGRAM, ADD, AS_STORED), most=1)
    assert text.startswith("peak 593.75KiB: 4,000 of arguments")
    assert "390.62KiB  m.py:9: %wide f32[1000,100]" in text
    assert "other places" in text
    assert "-195.31KiB: %early" in text


def test_sizes_for_people() -> None:
    assert [text_of(n) for n in (0, 1023, 1536, 3 << 20, 5 << 40, 1 << 60)] == [
        "0B", "1023B", "1.50KiB", "3.00MiB", "5.00TiB", "1048576.00TiB",
    ]  # fmt: skip
