"""How often loops run, for the passes on loops: by their counter's pattern, else by running what decides it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from xyla.analysis.trip_count import count_by_running
from xyla.analysis.while_loops import find_induction
from xyla.hlo.module import Instruction
from xyla.support.status import XylaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xyla.interp.api import Evaluator


# Instructions that one run of a pass evaluates for all its loops, about: less than a second's work.
_BUDGET = 20_000


class TripCounts:
    """Answers `of(loop)`; one run of a pass makes one. Remembers what it found by running, within a budget."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int | None] = {}
        self._evaluator: Evaluator | None = None
        self._left = _BUDGET

    def of(self, loop: Instruction) -> int | None:
        """How often `loop` runs, or None when that is not known. See `find_induction` and `count_by_running`."""
        induction = find_induction(loop)
        if induction is not None:
            return induction.trips
        cond, body = loop.called
        key = (cond, cond.revision, body, body.revision, loop.operands[0], loop.operands[0].operands)
        if key not in self._known:
            self._known[key] = self._run(loop)
        return self._known[key]

    def _run(self, loop: Instruction) -> int | None:
        if self._left <= 0:
            return None
        try:
            return count_by_running(loop, self._evaluate)
        except XylaError:  # what the evaluator does not do leaves the trip count unknown
            return None

    def _evaluate(self, inst: Instruction, operands: Sequence[Any]) -> Any:
        if self._evaluator is None:
            # Imported when a loop needs it: it takes 0.2 s.
            from xyla.interp.api import Evaluator

            self._evaluator = Evaluator()
        self._left -= 1
        return self._evaluator.evaluate_instruction(inst, operands)
