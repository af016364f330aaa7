"""Which computations give the same result for the same arguments, and do nothing else."""

from __future__ import annotations

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import Trait

# Running these twice, or not at all, can be noticed; partition-id and replica-id differ by device but not by time.
_IMPURE = Trait.SIDE_EFFECT | Trait.COLLECTIVE | Trait.STATEFUL_RNG | Trait.ASYNC_START | Trait.ASYNC_DONE


class Purity:
    """Answers `pure(inst)`; remembers what it found out about called computations."""

    def __init__(self) -> None:
        self._known: dict[Computation, tuple[int, bool]] = {}

    def pure(self, inst: Instruction) -> bool:
        """Whether `inst` always gives the same value for the same operands and has no effect."""
        if not self._pure_alone(inst):
            return False
        return all(self.pure_computation(c) for c in inst.called)

    def pure_computation(self, comp: Computation) -> bool:
        """Whether everything that `comp` runs is pure. Iterative over the call graph."""
        found = self._known.get(comp)
        if found is not None and found[0] == comp.revision:
            return found[1]
        stack = [comp]
        while stack:
            top = stack[-1]
            todo = [c for i in top.instructions for c in i.called if not self._current(c)]
            if todo:
                stack.extend(dict.fromkeys(todo))
                continue
            stack.pop()
            alone = all(self._pure_alone(i) for i in top.instructions)
            known = self._known
            known[top] = (top.revision, alone and all(known[c][1] for i in top.instructions for c in i.called))
        return self._known[comp][1]

    def _current(self, comp: Computation) -> bool:
        found = self._known.get(comp)
        return found is not None and found[0] == comp.revision

    @staticmethod
    def _pure_alone(inst: Instruction) -> bool:
        if inst.op.traits & _IMPURE:
            return False
        return inst.op is not ops.CUSTOM_CALL or not inst.attrs.custom_call_has_side_effect
