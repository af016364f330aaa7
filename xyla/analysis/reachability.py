"""Which instruction runs before which: an order of one computation that new dependencies can be added to.

Source: Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs" (2006).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xyla.hlo.module import Computation, Instruction

_Neighbours = Callable[[Instruction], Iterable[Instruction]]


class Reachability:
    """An order of a computation's instructions that agrees with operands, control dependencies and what was `require`d.

    Made in linear time. A dependency that agrees with the order costs nothing; another one as much as lies between.
    """

    def __init__(self, comp: Computation) -> None:
        self._position = {inst: i for i, inst in enumerate(comp.post_order())}
        self._after: dict[Instruction, list[Instruction]] = {}
        self._before: dict[Instruction, list[Instruction]] = {}

    def position(self, inst: Instruction) -> int:
        """Where `inst` stands in the order at present."""
        return self._position[inst]

    def require(self, first: Instruction, then: Instruction) -> bool:
        """Makes `then` run after `first`; False, with nothing changed, when `first` depends on `then` (or is it)."""
        position = self._position
        low, high = position[then], position[first]
        if first is then:
            return False
        if low < high:
            later = self._reach(then, self._successors, lambda i: position[i] <= high)
            if first in later:
                return False
            earlier = self._reach(first, self._predecessors, lambda i: position[i] >= low)
            self._move(earlier, later)
        self._after.setdefault(first, []).append(then)
        self._before.setdefault(then, []).append(first)
        return True

    def depends(self, then: Instruction, first: Instruction) -> bool:
        """Whether `then` is `first` or has to run after it. Costs as much as lies between them."""
        position, limit = self._position, self._position[then]
        if position[first] > limit:
            return False
        return then in self._reach(first, self._successors, lambda i: position[i] <= limit)

    def _successors(self, inst: Instruction) -> Iterable[Instruction]:
        return (*inst.users, *inst.control_successors, *self._after.get(inst, ()))

    def _predecessors(self, inst: Instruction) -> Iterable[Instruction]:
        return (*inst.operands, *inst.control_predecessors, *self._before.get(inst, ()))

    @staticmethod
    def _reach(start: Instruction, step: _Neighbours, inside: Callable[[Instruction], bool]) -> dict[Instruction, None]:
        seen = {start: None}
        stack = [start]
        while stack:
            for inst in step(stack.pop()):
                if inst not in seen and inside(inst):
                    seen[inst] = None
                    stack.append(inst)
        return seen

    def _move(self, earlier: dict[Instruction, None], later: dict[Instruction, None]) -> None:
        """Gives the places of both groups to `earlier` first, then `later`, each in the order it has."""
        position = self._position
        group = [*sorted(earlier, key=position.__getitem__), *sorted(later, key=position.__getitem__)]
        for inst, place in zip(group, sorted(position[i] for i in group), strict=True):
            position[inst] = place
