"""From the entry function's arguments to the program's allocations, arguments and results."""

from __future__ import annotations

from itertools import pairwise

from xyla.hlo.shape import Shape
from xyla.lowering import lmhlo
from xyla.lowering.arrays import array_type, physical_bytes
from xyla.runtime.program import Allocation, AllocationKind, Argument, ArrayType, Output, Slice
from xyla.support import dtypes
from xyla.support.status import invalid

Index = tuple[int, ...]


class Interface:
    """What the entry of a module takes and gives. Raises INVALID_ARGUMENT when its arguments do not say so."""

    def __init__(self, module: lmhlo.Module) -> None:
        self._entry = module.entry
        self._globals = {g.name: g for g in module.globals}
        self._parameters = self._parameter_order()
        self._leaves = self._result_leaves()
        self._number = {index: i for i, (index, _) in enumerate(self._leaves)}

    def _parameter_order(self) -> list[int]:
        """The arguments that carry parameters, in the order of the parameters' leaves."""
        arguments = self._entry.arguments
        ordered = sorted((a.params, a.param_shape_index, i) for i, a in enumerate(arguments) if a.params is not None)
        for one, other in pairwise(ordered):
            if one[:2] == other[:2]:
                raise invalid(f"@{self._entry.name} has two arguments for parameter {one[0]}{_path(one[1])}")
        return [i for _, _, i in ordered]

    def _result_leaves(self) -> list[tuple[Index, Shape | None]]:
        """The array leaves of the result: (index, shape), by its shape or by the arguments that carry outputs."""
        if self._entry.result_shape is not None:
            return [(index, leaf) for index, leaf in self._entry.result_shape.leaves() if leaf.is_array]
        return [(index, None) for index in sorted(i for a in self._entry.arguments for i in a.output_index)]

    # -- allocations -------------------------------------------------------------------------------------------

    def allocations(self) -> list[Allocation]:
        """One allocation an argument."""
        order = {number: i for i, number in enumerate(self._parameters)}
        return [self._allocation(i, a, order) for i, a in enumerate(self._entry.arguments)]

    def _allocation(self, number: int, a: lmhlo.Argument, order: dict[int, int]) -> Allocation:
        if a.params is not None:
            return Allocation(AllocationKind.PARAMETER, a.size, order[number], is_written=a.written)
        if a.constant_name is not None:
            return self._constant(number, a, a.constant_name)
        if a.output_index:
            leaf = self._number.get(a.output_index[0])
            if leaf is None:
                raise invalid(f"@{self._entry.name} has no result {_path(a.output_index[0]) or '{}'}")
            return Allocation(AllocationKind.OUTPUT, a.size, leaf)
        return Allocation(AllocationKind.TEMP, a.size)

    def _constant(self, number: int, a: lmhlo.Argument, name: str) -> Allocation:
        found = self._globals.get(name)
        if found is None:
            raise invalid(f"argument {number} of @{self._entry.name} is for the constant @{name}, which is missing")
        data = physical_bytes(found.literal)
        if data.size != a.size:
            raise invalid(f"the constant @{name} has {data.size} bytes, its argument {a.size}")
        return Allocation(AllocationKind.CONSTANT, a.size, data=data)

    # -- the caller's side -------------------------------------------------------------------------------------

    def arguments(self) -> list[Argument]:
        """What the caller is told of each parameter leaf."""
        return [self._argument(i) for i in self._parameters]

    def _argument(self, number: int) -> Argument:
        a = self._entry.arguments[number]
        name = f"parameter {a.params}{_path(a.param_shape_index)}" + (f" ({a.name})" if a.name else "")
        if a.shape is not None:
            return Argument(name, array_type(a.shape), a.shape.to_string(layouts=False))
        kind = self._type(number)
        return Argument(name, kind, f"{dtypes.by_numpy(kind.dtype)}[{','.join(map(str, kind.dims))}]")

    def outputs(self) -> list[Output]:
        """Where each result leaf lies."""
        carried = {index: i for i, a in enumerate(self._entry.arguments) for index in a.output_index}
        outputs = []
        for index, leaf in self._leaves:
            number = carried.get(index)
            if number is None:
                raise invalid(f"no argument of @{self._entry.name} carries the result {_path(index) or '{}'}")
            a = self._entry.arguments[number]
            kind = array_type(leaf) if leaf is not None else self._type(number)
            if kind.num_bytes > a.size:
                raise invalid(
                    f"argument {number} of @{self._entry.name} has {a.size} bytes, its result {kind.num_bytes}"
                )
            outputs.append(Output(kind, Slice(number, 0, kind.num_bytes), a.must_alias))
        return outputs

    def _type(self, number: int) -> ArrayType:
        """The type of an argument without a shape: as the text states it, or as the first use of all of it does."""
        a = self._entry.arguments[number]
        if a.type is not None:
            return a.type
        views = (v for op in self._entry.body.walk() for v in lmhlo.views_of(op))
        whole = (v.type for v in views if v.space is lmhlo.Space.ARGUMENT and v.slice == Slice(number, 0, a.size))
        found = next(whole, None)
        if found is None:
            raise invalid(f"of which type is argument {number} of @{self._entry.name}? Give it an xla.shape")
        return found


def _path(index: Index) -> str:
    return f"{{{','.join(map(str, index))}}}" if index else ""
