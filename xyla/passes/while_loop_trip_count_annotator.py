"""Annotation of loops with their trip counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

from xyla.analysis.while_loops import counter_index, find_induction
from xyla.hlo.module import Instruction, Module
from xyla.passes.loops import loops_of, parse_config
from xyla.passes.trip_counts import TripCounts
from xyla.passmgr.base import Pass, register
from xyla.passmgr.context import PassContext


@register
@dataclass(frozen=True, slots=True)
class WhileLoopTripCountAnnotator(Pass):
    """Writes how often a loop runs, on which counter, into its backend configuration.

        while(init), ...  (for i = 0; i < 10; i += 3)
        ==>  while(init), ..., backend_config={"known_trip_count":{"n":"4"}, ...}

    Trip counts round up. A loop that counts in another way is run for up to 128 steps (analysis.trip_count). Loops that
    are annotated already, and configurations that are not JSON, stay as they are.
    """

    name: ClassVar[str] = "while-loop-trip-count-annotator"

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Looks at each loop once."""
        changed = False
        trips = TripCounts()
        for loop in loops_of(module):
            text = _annotated(loop, trips)
            if text is None:
                continue
            if not ctx.permit("annotate-trip-count", loop):
                return changed
            loop.backend_config = text
            loop.parent.revision += 1
            ctx.record(loop)
            changed = True
        return changed


def _annotated(loop: Instruction, trips: TripCounts) -> str | None:
    config = parse_config(loop.backend_config)
    if config is None:
        return None
    facts = _facts(loop, trips)
    if all(config.get(key) == value for key, value in facts.items()):
        return None
    return json.dumps({**config, **facts}, separators=(",", ":"))


def _facts(loop: Instruction, trips: TripCounts) -> dict[str, object]:
    """In XLA's JSON form of WhileLoopBackendConfig: integers are strings. The counter alone, when no more is known."""
    induction = find_induction(loop)
    if induction is None:
        index, count = counter_index(loop), trips.of(loop)
        known: dict[str, object] = {} if count is None else {"known_trip_count": {"n": str(count)}}
        return known if index is None else {**known, "known_induction_variable": {"tuple_index": str(index)}}
    return {
        "known_trip_count": {"n": str(induction.trips)},
        "known_induction_variable": {"tuple_index": str(induction.index)},
        "known_init_step": {"init": str(induction.init), "step": str(induction.step)},
    }
