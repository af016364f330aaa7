"""Programs whose arguments or results have bounded dynamic dimensions (`<=N`).

The program itself is static: arrays are padded to their bounds, and sizes travel beside them as s32 scalars, after
all other arguments and results.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.runtime.executable import Executable
from xyla.runtime.run_options import DEFAULT_OPTIONS, RunOptions
from xyla.support.status import invalid

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Interface:
    """What callers see of a static program: by leaf, the dynamic dimensions.

    arguments: dimensions of each; their sizes are the program's further arguments, in order. results: (dimension,
    number of the result that holds its size) of each.
    """

    arguments: tuple[tuple[int, ...], ...]
    results: tuple[tuple[tuple[int, int], ...], ...]


class DynamicExecutable(Executable):
    """An executable whose arrays may be smaller than the program's bounds."""

    interface: Interface

    def __call__(self, *args: npt.ArrayLike) -> list[Array]:
        """Runs the program on logical arrays, one a parameter leaf in order; see `execute`."""
        return self.execute(args)

    def execute(
        self,
        args: Sequence[npt.ArrayLike],
        options: RunOptions = DEFAULT_OPTIONS,
        *,
        donate: Collection[int] = (),
        **how: Any,
    ) -> list[Array]:
        """As `Executable.execute`; dynamic dimensions may be up to their bounds, and results are cut to their sizes."""
        dims = self.interface.arguments
        if len(args) != len(dims):
            raise invalid(f"{self.program.name} takes {len(dims)} arguments, {len(args)} given")
        given: list[Array] = []
        sizes: list[Array] = []
        for i, (arg, dynamic) in enumerate(zip(args, dims, strict=True)):
            array = np.asarray(arg)
            given.append(self._padded(i, array, dynamic) if dynamic else array)
            sizes += [np.array(array.shape[d], np.int32) for d in dynamic]
        results = super().execute([*given, *sizes], options, donate=donate, **how)
        return [_cut(r, found, results) for r, found in zip(results, self.interface.results, strict=False)]

    def _padded(self, number: int, array: Array, dynamic: tuple[int, ...]) -> Array:
        """An array in the upper corner of one of the bounds' dimensions."""
        want = self.program.arguments[number]
        bounds = want.type.dims
        fits = len(array.shape) == len(bounds) and all(
            have == bound or (d in dynamic and have < bound)
            for d, (have, bound) in enumerate(zip(array.shape, bounds, strict=True))
        )
        if not fits:
            kind = want.type_text.partition("[")[0]
            text = ",".join(f"<={n}" if d in dynamic else str(n) for d, n in enumerate(bounds))
            raise invalid(f"{want.name} has shape {list(array.shape)}, expected {kind}[{text}]")
        if array.shape == bounds:
            return array
        padded = np.zeros(bounds, array.dtype)
        padded[tuple(map(slice, array.shape))] = array
        return padded


def _cut(array: Array, sizes: tuple[tuple[int, int], ...], results: Sequence[Array]) -> Array:
    if not sizes:
        return array
    kept = [slice(None)] * array.ndim
    for dim, where in sizes:
        kept[dim] = slice(int(results[where]))
    return array[tuple(kept)]
