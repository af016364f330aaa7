"""Which stream each instruction runs on: work that does not depend on other heavy work gets a stream of its own."""

from __future__ import annotations

from typing import Any

from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef, Trait

MAIN = 0
# Matrix products, convolutions and what libraries do: worth running at the same time.
_HEAVY: frozenset[OpDef[Any]] = frozenset({ops.DOT, ops.CONVOLUTION, ops.CUSTOM_CALL})


def is_heavy(inst: Instruction) -> bool:
    """Whether `inst` is a matrix product, convolution or library call."""
    return inst.op in _HEAVY and not (inst.op is ops.CUSTOM_CALL and inst.attrs.custom_call_has_side_effect)


class Streams:
    """Streams of one computation's instructions: a pure query, in the computation's order.

    Stream 0 runs everything that has no reason to be elsewhere. Heavy work runs on the lowest of `compute` streams
    whose last heavy work it depends on anyway, else on one of the least use. Collectives, and both halves of
    asynchronous ones, run on the stream after those (`collective`), in order.
    """

    def __init__(self, comp: Computation, *, compute: int = 4) -> None:
        self.collective = compute
        self._compute = compute
        self._of: dict[Instruction, int] = {}
        self._assign(comp)

    def of(self, inst: Instruction) -> int:
        """The stream of `inst`. Raises KeyError for an instruction of another computation."""
        return self._of[inst]

    @property
    def used(self) -> int:
        """How many different streams are used."""
        return len(set(self._of.values()))

    def _assign(self, comp: Computation) -> None:
        none = (0,) * self._compute
        # For each instruction and stream: how many heavy ones of that stream it comes after.
        after: dict[Instruction, tuple[int, ...]] = {}
        counts = list(none)
        for inst in comp.post_order():
            before = [after[o] for o in dict.fromkeys((*inst.operands, *inst.control_predecessors))]
            reached = tuple(map(max, zip(*before, strict=True))) if len(before) > 1 else (before or [none])[0]
            stream = MAIN
            if _communicates(inst):
                stream = self.collective
            elif is_heavy(inst):
                stream = self._pick(reached, counts)
                counts[stream] += 1
                reached = (*reached[:stream], counts[stream], *reached[stream + 1 :])
            self._of[inst] = stream
            after[inst] = reached

    @staticmethod
    def _pick(reached: tuple[int, ...], counts: list[int]) -> int:
        """The lowest stream whose work so far `inst` comes after anyway; with none, the one with least work."""
        for stream, count in enumerate(counts):
            if reached[stream] == count:
                return stream
        return min(range(len(counts)), key=lambda s: (counts[s], s))


_DONES: frozenset[OpDef[Any]] = frozenset({
    ops.ALL_GATHER_DONE, ops.ALL_REDUCE_DONE, ops.COLLECTIVE_PERMUTE_DONE,
})  # fmt: skip


def _communicates(inst: Instruction) -> bool:
    """Whether `inst` is a collective, half of one, or an asynchronous wrapper of one."""
    if inst.op.has(Trait.COLLECTIVE) or inst.op in _DONES:
        return True
    start = inst
    while start.op in (ops.ASYNC_UPDATE, ops.ASYNC_DONE):
        start = start.operands[0]
    return start.op is ops.ASYNC_START and start.called[0].root.op.has(Trait.COLLECTIVE)
