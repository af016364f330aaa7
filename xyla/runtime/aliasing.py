"""The quick way to run programs whose results lie in parameters' memory: no per-argument work in Python but for those.

A donated argument's memory is seen through a new array, and an argument that is not donated is copied into its result.
Native code then checks all arguments as ever. Whatever is unusual is left to `binding`, which also makes the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from xyla.runtime.program import AllocationKind, Program

Array = npt.NDArray[Any]


class AliasPlan:
    """What becomes of each result of a program."""

    def __init__(self, program: Program, makers: Sequence[Callable[[], Array]]) -> None:
        """`makers`: what makes a fresh array for each result."""
        self._makers = makers
        self._arguments = program.arguments
        self._outputs = program.outputs
        allocations = program.allocations
        places = [allocations[o.slice.allocation] for o in program.outputs]
        self._sources = [a.index if a.kind is AllocationKind.PARAMETER else -1 for a in places]
        self.is_possible = len({o.slice.allocation for o in program.outputs}) == len(places) and all(
            o.slice.offset == 0
            and (a.kind is AllocationKind.OUTPUT or (i >= 0 and o.type == program.arguments[i].type))
            for o, a, i in zip(program.outputs, places, self._sources, strict=True)
        )
        returned = set(self._sources)
        # Written to and not returned: the run gets a copy, too.
        self._written = [a.index for a in allocations if a.is_written and a.index not in returned]
        parameters = [(i, a) for i, a in enumerate(allocations) if a.kind is AllocationKind.PARAMETER]
        self._where = np.array([i for i, _ in parameters], np.int64)
        self._sizes = np.array([a.size for _, a in parameters], np.int64)

    def place(
        self, args: Sequence[npt.ArrayLike], donated: frozenset[int]
    ) -> tuple[tuple[npt.ArrayLike, ...], tuple[Array, ...]] | None:
        """(the arguments to run on, the results); None when an argument is not the array that the program takes."""
        used = list(args)
        if len(used) != len(self._arguments) or not all(0 <= i < len(used) for i in donated):
            return None
        for source in self._written:
            arg = used[source]
            if not self._is_usual(arg, source, source in donated):
                return None
            used[source] = arg if source in donated else np.array(arg)
        outs: list[Array] = []
        for number, source in enumerate(self._sources):
            if source < 0:
                outs.append(self._makers[number]())
                continue
            arg = used[source]
            if not self._is_usual(arg, source, source in donated):
                return None
            if source in donated:
                outs.append(arg.view())
            elif self._outputs[number].must_alias:
                return None
            else:
                made = self._makers[number]()
                made[...] = arg
                used[source] = made
                outs.append(made)
        return tuple(used), tuple(outs)

    def _is_usual(self, arg: npt.ArrayLike, number: int, is_donated: bool) -> TypeGuard[Array]:
        """Whether an argument is an array of the right type and shape, which may be written to if it has to be."""
        want = self._arguments[number].type
        if type(arg) is not np.ndarray or arg.dtype is not want.dtype or arg.shape != want.dims:
            return False
        return arg.flags.writeable or not is_donated

    def are_apart(self, bases: npt.NDArray[np.int64]) -> bool:
        """Whether no argument overlaps another, by the addresses that native code found."""
        starts = bases[self._where]
        order = np.argsort(starts, kind="stable")
        ends = np.maximum.accumulate((starts + self._sizes)[order])
        return not (starts[order][1:] < ends[:-1]).any()
