"""What the caller passes and gets: arguments checked and laid out, results allocated or taken from donated arguments.

An output may live in a parameter's memory. When the caller donates that argument, its memory is handed over; when not,
the run works on a copy of it, or fails if the program insists.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.runtime.allocator import Allocator, Lease, typed
from xyla.runtime.program import AllocationKind, ArrayType, Output, Program, Slice
from xyla.support.status import internal, invalid

Array = npt.NDArray[Any]


@dataclass(slots=True)
class Bound:
    """Memory of one run: bases by allocation number, the results' arrays, what to give back if the run fails.

    arguments: kept alive while the run lasts. converted: how many arguments had to be copied.
    """

    arguments: list[Array]
    bases: dict[int, int] = field(default_factory=dict)
    results: list[Array] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    converted: int = 0

    def release(self) -> None:
        """Gives back all that was allocated for results."""
        self.results.clear()
        for lease in self.leases:
            lease.release()


class Binder:
    """Binds the arguments and results of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._parameter = {a.index: i for i, a in enumerate(program.allocations) if a.kind is AllocationKind.PARAMETER}
        returned = {o.slice.allocation for o in program.outputs}
        # Those that are returned too get their copy with the results.
        self._written = {
            a for a, i in self._parameter.items() if program.allocations[i].is_written and i not in returned
        }

    @property
    def is_plain(self) -> bool:
        """Whether every result has a whole allocation of its own, and no argument is written to."""
        program = self.program
        if self._written:
            return False
        used = [o.slice.allocation for o in program.outputs]
        return len(set(used)) == len(used) and all(
            program.allocations[o.slice.allocation].kind is AllocationKind.OUTPUT and o.slice.offset == 0
            for o in program.outputs
        )

    def arguments(self, args: Sequence[npt.ArrayLike], bound: Bound, *, donated: Collection[int] = ()) -> None:
        """Checks the arguments, converts those that lie otherwise, notes their addresses.

        Raises INVALID_ARGUMENT naming the parameter on a wrong count, dtype or shape.
        """
        wanted = self.program.arguments
        if len(args) != len(wanted):
            raise invalid(f"{self.program.name} takes {len(wanted)} arguments, {len(args)} given")
        for index in donated:
            if not 0 <= index < len(wanted):
                raise invalid(f"argument {index} is donated, {self.program.name} takes {len(wanted)}")
        bound.arguments = [self._argument(i, a, bound) for i, a in enumerate(args)]
        for i in sorted(self._written.difference(donated)):
            bound.arguments[i] = np.array(bound.arguments[i])
        for i, array in enumerate(bound.arguments):
            if i in self._parameter:
                bound.bases[self._parameter[i]] = array.ctypes.data

    def _argument(self, index: int, value: npt.ArrayLike, bound: Bound) -> Array:
        """An argument's physical array: C-contiguous in memory order."""
        want = self.program.arguments[index]
        array = np.asarray(value)
        if array.dtype != want.type.dtype:
            same_width = array.dtype.kind == "V" and array.dtype.itemsize == want.type.dtype.itemsize
            if not same_width:
                raise invalid(f"{want.name} has dtype {array.dtype}, expected {want.type_text}")
            array = array.view(want.type.dtype)
        if array.shape != want.type.dims:
            raise invalid(f"{want.name} has shape {list(array.shape)}, expected {want.type_text}")
        physical = array.transpose(want.type.minor_to_major[::-1])
        if not physical.flags.c_contiguous or not physical.flags.aligned:
            bound.converted += 1
            physical = np.require(physical, requirements=["C", "ALIGNED"])
        return physical

    def results(self, bound: Bound, allocator: Allocator, device: int, donated: Collection[int]) -> None:
        """Allocates the results. Raises RESOURCE_EXHAUSTED, and INVALID_ARGUMENT for a donation that cannot be."""
        donated = set(donated)
        self._check_donations(bound, donated)
        made: dict[int, Array] = {}  # whole allocations as bytes
        seen: set[Slice] = set()
        for output in self.program.outputs:
            number = output.slice.allocation
            if number not in made:
                made[number] = self._memory(output, bound, allocator, device, donated)
            if output.slice in seen:
                # A value that is returned twice: the caller may write to either. `finish` fills the second.
                lease = Lease(allocator, output.slice.size, device)
                bound.leases.append(lease)
                bound.results.append(lease.array(output.type))
            else:
                seen.add(output.slice)
                start = output.slice.offset
                bound.results.append(typed(made[number][start : start + output.type.num_bytes], output.type))

    def _memory(
        self, output: Output, bound: Bound, allocator: Allocator, device: int, donated: Collection[int]
    ) -> Array:
        """The bytes of the allocation that an output lies in."""
        number = output.slice.allocation
        allocation = self.program.allocations[number]
        if output.slice.size == 0:  # nothing is written: it may be said to lie anywhere
            return np.empty(0, np.uint8)
        if allocation.kind is AllocationKind.PARAMETER and allocation.index in donated:
            return bound.arguments[allocation.index].reshape(-1).view(np.uint8)
        if allocation.kind is AllocationKind.PARAMETER and output.must_alias:
            name = self.program.arguments[allocation.index].name
            raise invalid(f"{name} must be donated: the program returns a result in its memory")
        lease = Lease(allocator, allocation.size, device)
        bound.leases.append(lease)
        memory = np.asarray(lease)
        if allocation.kind is AllocationKind.PARAMETER:
            source = bound.arguments[allocation.index]
            memory[: source.nbytes] = source.reshape(-1).view(np.uint8)
        elif allocation.kind is not AllocationKind.OUTPUT:
            raise internal(f"a result of {self.program.name} lies in a {allocation.kind.value} allocation")
        bound.bases[number] = lease.address
        return memory

    def _check_donations(self, bound: Bound, donated: Collection[int]) -> None:
        """A donated argument must be writable, and share no memory with another."""
        for index in sorted(donated):
            array, name = bound.arguments[index], self.program.arguments[index].name
            if not array.flags.writeable:
                raise invalid(f"{name} is donated but read-only")
            for other, that in enumerate(bound.arguments):
                if other != index and array.size and that.size and np.may_share_memory(array, that):
                    raise invalid(f"{name} is donated and shares memory with {self.program.arguments[other].name}")


def finish(program: Program, bound: Bound) -> list[Array]:
    """The results of a run that is over: a value that is returned twice is written into its second array."""
    first: dict[Slice, int] = {}
    for index, output in enumerate(program.outputs):
        seen = first.setdefault(output.slice, index)
        if seen != index:
            bound.results[index][...] = bound.results[seen]
    return bound.results


def empty_type(t: ArrayType) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """(physical dims, the permutation that makes them logical; None when they are)."""
    order = t.minor_to_major[::-1]
    if order == tuple(range(len(order))):
        return t.dims, None
    return tuple(t.dims[d] for d in order), tuple(int(i) for i in np.argsort(order))
