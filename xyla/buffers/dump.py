"""Text files in XLA's manner: `buffer-assignment`, `live-range` and `memory-usage-report`."""

from __future__ import annotations

from pathlib import Path

from xyla.analysis.dataflow import Value
from xyla.buffers.assignment import Allocation, BufferAssignment, Kind
from xyla.buffers.profile import Profile, text_of
from xyla.hlo import ops


def value_text(value: Value, color: int) -> str:
    """`<7 while{1} @0>`: the value's id, where it is defined, its memory space."""
    return f"<{value.id} {value.name.removeprefix('%')} @{color}>"


def allocation_text(allocation: Allocation) -> str:
    """One line: number, size, and what the allocation is for."""
    parts = [f"allocation {allocation.index}: size {allocation.size}"]
    if allocation.color:
        parts.append(f"color {allocation.color}")
    if allocation.parameter is not None:
        number, index = allocation.parameter
        shape = next(v.shape for v in allocation.values if v.instruction.op is ops.PARAMETER)
        parts.append(f"parameter {number}, shape |{shape}| at ShapeIndex {_index(index)}")
    if allocation.kind is Kind.CONSTANT:
        parts.append("constant")
    if allocation.is_live_out:
        indices = ",".join(map(str, allocation.output_indices))
        parts.append(f"maybe-live-out: output {indices}")
    if allocation.donated:
        parts.append("must-alias" if allocation.must_alias else "donated")
    if allocation.kind in (Kind.TEMP, Kind.THREAD_LOCAL):
        parts.append(allocation.kind.value)
    return ", ".join(parts) + ":"


def _index(index: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, index)) + "}"


def assignment_text(assignment: BufferAssignment) -> str:
    """Every allocation with the values in it, by offset; then every value with its positions and uses."""
    out = ["BufferAssignment:"]
    for allocation in assignment.allocations:
        out.append(allocation_text(allocation))
        rows = sorted(allocation.values.items(), key=lambda item: (item[1][0], item[0].id))
        for value, (offset, size) in rows:
            text = value_text(value, allocation.color)
            out.append(f" value: {text} (size={size},offset={offset}): {value.shape}")
    for inst, where in assignment.scratches.items():
        out.append(f" scratch: %{inst.name} (size={where.size},offset={where.offset}) in allocation {where.allocation}")
    stats = assignment.stats
    out += ["", f"Total bytes used: {stats.total} ({text_of(stats.total)})", "", "Used values:"]
    for value in assignment.dataflow.all_values:
        out += _value_lines(assignment, value)
    return "\n".join(out) + "\n"


def _value_lines(assignment: BufferAssignment, value: Value) -> list[str]:
    color = assignment.allocations[assignment.slice_of(value).allocation].color
    out = [value_text(value, color), " positions:"]
    for inst, leaf in value.positions:
        out.append(f"  {inst.name}" + (f" {{{leaf}}}" if inst.shape.is_tuple else ""))
    if value.inputs:
        out.append(" phi of: " + ", ".join(value_text(v, color) for v in value.inputs))
    out.append(" uses:")
    for use in value.uses:
        part = f" {{{use.operand_leaf}}}" if use.instruction.operands[use.operand_number].shape.is_tuple else ""
        out.append(f"  {use.instruction.name}, operand {use.operand_number}{part}")
    out.append(f" from instruction: %{value.instruction.name} = {value.instruction.shape} {value.instruction.op.name}")
    return out


def live_range_text(assignment: BufferAssignment) -> str:
    """The sequence of instructions by position, the positions each value is alive at, and the peak."""
    timeline, ranges = assignment.timeline, assignment.ranges
    out = [f"LiveRange (max {timeline.size}):", "  InstructionSequence:"]
    for position in range(timeline.size):
        inst = timeline.at(position)
        if inst is not None and (timeline.start(inst) == position or timeline.end(inst) == position):
            ends = " (end)" if timeline.start(inst) != position else ""
            out.append(f"    {position}:{inst.name}{ends}")
    out.append("  BufferLiveRange:")
    for value in assignment.dataflow.all_values:
        text = " ".join(f"{first}-{last}" for first, last in ranges.segments(value))
        out.append(f"    {value.name.removeprefix('%')}:{text}")
    profile = Profile(assignment)
    at = profile.peak_position
    out.append(f"  Live ranges at {at} (peak):")
    for alive in profile.alive(at):
        name = alive.value.name if alive.value is not None else alive.text
        out.append(f"    {name.removeprefix('%')}: {alive.size} bytes")
    return "\n".join(out) + "\n"


def usage_text(assignment: BufferAssignment) -> str:
    """Allocations by size with running totals, and the values in each."""
    total = assignment.stats.total
    out = [
        f"Total bytes used: {total} ({text_of(total)})",
        "",
        "Allocations sorted by size:",
        "",
        "cumulative_size; total_size - cumulative_size; allocation",
        "-" * 78,
    ]
    seen = 0
    for allocation in sorted(assignment.allocations, key=lambda a: (-a.size, a.index)):
        seen += allocation.size
        share = 100 * seen // total if total else 100
        out.append(f"{text_of(seen):>12} ({share:3}%); {text_of(total - seen):>12}; {allocation_text(allocation)[:-1]}")
    out += ["", "Allocations sorted by size with their values:", ""]
    for allocation in sorted(assignment.allocations, key=lambda a: (-a.size, a.index)):
        out.append(allocation_text(allocation))
        for value in sorted(allocation.values, key=lambda v: (-v.size, v.id)):
            meta = value.instruction.metadata
            where = f" {meta.source_file}:{meta.source_line}" if meta is not None and meta.source_file else ""
            name = f" {meta.op_name}" if meta is not None and meta.op_name else ""
            out.append(f"  {text_of(value.size):>12}  {value.name} {value.shape}{name}{where}")
    return "\n".join(out) + "\n"


def write_dumps(folder: Path, stem: str, assignment: BufferAssignment) -> list[Path]:
    """Writes `<stem>-buffer-assignment.txt`, `-live-range.txt` and `-memory-usage-report.txt`; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "buffer-assignment": assignment_text(assignment),
        "live-range": live_range_text(assignment),
        "memory-usage-report": usage_text(assignment),
    }
    paths = []
    for name, text in texts.items():
        path = folder / f"{stem}-{name}.txt"
        path.write_text(text)
        paths.append(path)
    return paths
