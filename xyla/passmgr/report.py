"""What a pipeline run did, as tables for people and as a Chrome trace for a viewer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xyla.passmgr.pipeline import StepRecord


@dataclass(slots=True)
class StepTotal:
    """All executions of one step: how many ran, were skipped, changed something; seconds; instructions added."""

    name: str
    runs: int = 0
    skipped: int = 0
    changed: int = 0
    seconds: float = 0.0
    delta: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A title, column heads, rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def totals(records: Iterable[StepRecord]) -> list[StepTotal]:
    """The records joined by step, in order of first execution."""
    found: dict[str, StepTotal] = {}
    for record in records:
        total = found.setdefault(record.name, StepTotal(record.name))
        total.runs += not record.skipped
        total.skipped += record.skipped
        total.changed += record.changed
        total.seconds += record.seconds
        total.delta += record.instructions_after - record.instructions_before
    return list(found.values())


def time_table(records: Sequence[StepRecord]) -> Table:
    """Milliseconds by step, the slowest first."""
    rows = sorted(totals(records), key=lambda t: -t.seconds)
    whole = sum(t.seconds for t in rows)
    lines = [
        (t.name, f"{t.seconds * 1e3:.2f}", f"{t.seconds / whole:.1%}" if whole else "-", str(t.runs), str(t.skipped))
        for t in rows
    ]
    lines.append(("all", f"{whole * 1e3:.2f}", "", str(sum(t.runs for t in rows)), str(sum(t.skipped for t in rows))))
    return Table("time by pass", ("pass", "ms", "share", "runs", "skipped"), tuple(lines))


def stats_tables(records: Sequence[StepRecord], counts: Mapping[tuple[str, str], int]) -> list[Table]:
    """Instructions by step, for those that changed something, and rewrites by rule, the most frequent first."""
    steps = [(t.name, str(t.changed), f"{t.delta:+d}") for t in totals(records) if t.changed]
    before = records[0].instructions_before if records else 0
    after = records[-1].instructions_after if records else 0
    rules = [(step, rule, str(n)) for (step, rule), n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    return [
        Table(f"instructions: {before} before, {after} after", ("pass", "changing runs", "instructions"), tuple(steps)),
        Table(f"rewrites: {sum(counts.values())}", ("pass", "rule", "rewrites"), tuple(rules)),
    ]


def chrome_trace(records: Iterable[StepRecord], pipeline: str) -> str:
    """The run as JSON for chrome://tracing or Perfetto: one complete event a step, inside one for the pipeline."""
    ran = [r for r in records if not r.skipped]
    origin = ran[0].start if ran else 0.0
    end = max((r.start + r.seconds for r in ran), default=origin)
    events = [_event(pipeline, 0.0, end - origin, {"steps": len(ran)})]
    seen: Counter[str] = Counter()
    for record in ran:
        seen[record.name] += 1
        details = {
            "run": seen[record.name],
            "changed": record.changed,
            "instructions before": record.instructions_before,
            "instructions after": record.instructions_after,
        }
        events.append(_event(record.name, record.start - origin, record.seconds, details))
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, indent=1) + "\n"


def _event(name: str, start: float, seconds: float, details: dict[str, Any]) -> dict[str, Any]:
    """A complete event; the format counts in microseconds."""
    return {
        "name": name, "ph": "X", "pid": 1, "tid": 1, "ts": round(start * 1e6, 1), "dur": round(seconds * 1e6, 1),
        "cat": "pass", "args": details,
    }  # fmt: skip
