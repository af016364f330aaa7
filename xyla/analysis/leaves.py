"""Positions in shapes: leaves by number. Where each element of a tuple starts, without counting again and again."""

from __future__ import annotations

from typing import TypeVar

from xyla.hlo.shape import Shape

T = TypeVar("T")


class LeafIndex:
    """Leaf numbers of tuple elements and of shape indices; remembers what it counted. Shapes are interned."""

    __slots__ = ("_numbers", "_starts")

    def __init__(self) -> None:
        self._starts: dict[Shape, list[int]] = {}
        self._numbers: dict[Shape, dict[tuple[int, ...], int]] = {}

    def starts(self, shape: Shape) -> list[int]:
        """The first leaf of each element of a tuple, then the number of leaves."""
        found = self._starts.get(shape)
        if found is None:
            found = [0]
            for s in shape.tuple_shapes:
                found.append(found[-1] + (sum(1 for _ in s.leaves()) if s.is_tuple else 1))
            self._starts[shape] = found
        return found

    def element(self, shape: Shape, leaves: tuple[T, ...], index: int) -> tuple[T, ...]:
        """The leaves of element `index` of a tuple."""
        starts = self.starts(shape)
        return leaves[starts[index] : starts[index + 1]]

    def number(self, shape: Shape, index: tuple[int, ...]) -> int:
        """The leaf at a shape index. Raises KeyError when there is none."""
        return self._indices(shape)[index]

    def under(self, shape: Shape, index: tuple[int, ...]) -> list[int]:
        """The leaves at and below a shape index, in order."""
        exact = self._indices(shape).get(index)
        if exact is not None:
            return [exact]
        n = len(index)
        return [leaf for path, leaf in self._indices(shape).items() if path[:n] == index]

    def _indices(self, shape: Shape) -> dict[tuple[int, ...], int]:
        found = self._numbers.get(shape)
        if found is None:
            found = self._numbers[shape] = {index: i for i, (index, _) in enumerate(shape.leaves())}
        return found
