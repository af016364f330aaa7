"""Computations that compute the same thing: classes by structure, in time linear in what is looked at."""

from __future__ import annotations

from collections.abc import Hashable

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction


class Equivalence:
    """Numbers computations so that equal numbers mean equal structure (ops, shapes, attributes, callees, constants).

    Names, metadata and the order in which independent instructions are stored do not count. A number is recomputed
    when its computation has changed since.
    """

    def __init__(self, *, layout_sensitive: bool = True) -> None:
        self.layout_sensitive = layout_sensitive
        self._known: dict[Computation, tuple[int, int]] = {}
        self._classes: dict[Hashable, int] = {}

    def class_of(self, comp: Computation) -> int:
        """The number of `comp`'s class. Iterative over the call graph."""
        stack = [comp]
        while stack:
            top = stack[-1]
            if self._current(top):
                stack.pop()
                continue
            todo = [c for c in dict.fromkeys(c for i in top.instructions for c in i.called) if not self._current(c)]
            if todo:
                stack.extend(todo)
                continue
            stack.pop()
            key = self._key(top)
            self._known[top] = (top.revision, self._classes.setdefault(key, len(self._classes)))
        return self._known[comp][1]

    def _current(self, comp: Computation) -> bool:
        found = self._known.get(comp)
        return found is not None and found[0] == comp.revision

    def _key(self, comp: Computation) -> Hashable:
        order = _from_root(comp)
        position = {inst: i for i, inst in enumerate(order)}
        # Instructions that the root does not need could have effects: then only the computation itself is its equal.
        rest = [i for i in comp.instructions if i not in position and i.op is not ops.PARAMETER]
        alone = comp if rest else None
        params = tuple(self._shape(p) for p in comp.parameters)
        return (alone, params, comp.execution_thread, tuple(self._record(i, position) for i in order))

    def _record(self, inst: Instruction, position: dict[Instruction, int]) -> Hashable:
        operands = tuple([position[o] for o in inst.operands])
        called = tuple([self._known[c][1] for c in inst.called])
        before = tuple(sorted(position.get(p, -1) for p in inst.control_predecessors))
        return (inst.op, self._shape(inst), operands, inst.attrs, called, before, inst.sharding, inst.backend_config)

    def _shape(self, inst: Instruction) -> Hashable:
        return inst.shape if self.layout_sensitive else inst.shape.without_layout()


def _from_root(comp: Computation) -> list[Instruction]:
    """What the root needs, operands first, in an order that depends on structure alone."""
    done: set[Instruction] = set()
    out: list[Instruction] = []
    stack = [(comp.root, False)]
    while stack:
        inst, visited = stack.pop()
        if visited:
            out.append(inst)
            continue
        if inst in done:
            continue
        done.add(inst)
        stack.append((inst, True))
        stack.extend((o, False) for o in reversed((*inst.operands, *inst.control_predecessors)) if o not in done)
    return out
