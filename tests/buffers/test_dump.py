"""The text files and the proto: what they say of a small program."""

from __future__ import annotations

from pathlib import Path

from tests.buffers.planned import ADD, plan
from xyla.buffers.dump import assignment_text, live_range_text, usage_text, write_dumps
from xyla.buffers.proto import to_proto
from xyla.formats.hlo_proto import hlo_pb2 as pb

PROGRAM = """
  p = f32[4] parameter(0)
  z = f32[] constant(0)
  s = f32[4,4] broadcast(p), dimensions={0}, metadata={op_name="outer" source_file="a.py" source_line=7}
  ROOT r = f32[4] reduce(s, z), dimensions={1}, to_apply=add"""


def test_buffer_assignment() -> None:
    text = assignment_text(plan(PROGRAM, ADD))
    lines = text.splitlines()
    assert lines[0] == "BufferAssignment:"
    assert "allocation 0: size 16, parameter 0, shape |f32[4]| at ShapeIndex {}:" in lines
    assert "allocation 1: size 4, constant:" in lines
    assert "allocation 2: size 16, maybe-live-out: output 0:" in lines
    assert "allocation 3: size 64, preallocated-temp:" in lines
    assert " value: <2 s @0> (size=64,offset=0): f32[4,4]" in lines
    assert "Total bytes used: 100 (100B)" in lines
    at = lines.index("<2 s @0>")
    assert lines[at : at + 6] == [
        "<2 s @0>", " positions:", "  s", " uses:", "  r, operand 0", " from instruction: %s = f32[4,4] broadcast",
    ]  # fmt: skip


def test_live_ranges_and_the_peak() -> None:
    text = live_range_text(plan(PROGRAM, ADD))
    assert "    3:s\n    4:r\n" in text
    assert "    s:3-4\n" in text
    assert text.endswith("  Live ranges at 4 (peak):\n    s: 64 bytes\n    r: 16 bytes\n")


def test_usage_by_size() -> None:
    lines = usage_text(plan(PROGRAM, ADD)).splitlines()
    assert lines[0] == "Total bytes used: 100 (100B)"
    assert "         64B ( 64%);          36B; allocation 3: size 64, preallocated-temp" in lines
    assert "           64B  %s f32[4,4] outer a.py:7" in lines


def test_files(tmp_path: Path) -> None:
    paths = write_dumps(tmp_path / "new", "m", plan(PROGRAM, ADD))
    assert [p.name for p in paths] == ["m-buffer-assignment.txt", "m-live-range.txt", "m-memory-usage-report.txt"]
    assert all(p.read_text() for p in paths)


def test_proto() -> None:
    found = plan(
        "p = (f32[4], f32[4]) parameter(0)\n a = f32[4] get-tuple-element(p), index=0\n b = f32[4] sine(a)\n"
        "c = f32[4] cosine(a)\n ROOT r = f32[4] add(b, c)",
        header=", input_output_alias={ {}: (0, {1}) }",
    )
    proto = pb.BufferAssignmentProto.FromString(to_proto(found).SerializeToString())
    assert [b.size for b in proto.logical_buffers] == [16] * 5
    second = proto.buffer_allocations[1]
    assert second.is_entry_computation_parameter
    assert (second.parameter_number, list(second.parameter_shape_index)) == (0, [1])
    assert second.is_parameter_aliased_with_output
    assert second.maybe_live_out
    aliases = {a.location.instruction_name: a.source_buffer_id for a in proto.buffer_aliases}
    assert aliases["a"] == proto.logical_buffers[0].id
    assigned = {a.logical_buffer_id: a for b in proto.buffer_allocations for a in b.assigned}
    assert len(assigned) == 5
    kinds = [e.kind for t in proto.heap_simulator_traces for e in t.events]
    assert kinds.count(pb.HeapSimulatorTrace.Event.ALLOC) == kinds.count(pb.HeapSimulatorTrace.Event.FREE)
