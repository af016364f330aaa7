"""Literals: constant values, NumPy-backed, compared bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from xyla.hlo.shape import Layout, Shape
from xyla.support.dtypes import PRED, ElementType, by_numpy
from xyla.support.status import invalid


class Literal:
    """An immutable value of a shape.

    Arrays hold `array` (logical dims, read-only, the element type's storage dtype). Splats keep a zero-stride
    view, so a huge constant of one value costs nothing. Tuples hold `elements`. An *elided* literal
    (`constant({...})`) has a shape but no value: reading `array` is an INVALID_ARGUMENT error.
    """

    __slots__ = ("_array", "_hash", "elements", "elided", "shape")

    def __init__(
        self,
        shape: Shape,
        array: npt.NDArray[np.generic] | None = None,
        elements: tuple[Literal, ...] = (),
        *,
        elided: bool = False,
    ) -> None:
        self.shape = shape
        self.elements = elements
        self.elided = elided
        self._array = array
        self._hash: int | None = None

    @staticmethod
    def of(value: npt.ArrayLike, element_type: ElementType | None = None, layout: Layout | None = None) -> Literal:
        """The literal of a NumPy array or Python scalar/list (`element_type` converts; default: the array's own).

        The array is not copied if it is contiguous already: do not write to it afterwards.
        """
        array = np.asarray(value)
        if element_type is not None and array.dtype != element_type.np:
            with np.errstate(all="ignore"):
                array = array.astype(element_type.np)
        try:
            et = element_type or by_numpy(array.dtype)
        except KeyError:
            raise invalid(f"no XLA element type is stored as NumPy dtype {array.dtype}") from None
        view = array.view()
        view.flags.writeable = False
        return Literal(Shape.array(et, array.shape, layout), view)

    @staticmethod
    def full(shape: Shape, value: object) -> Literal:
        """`value` in every element of array `shape`, stored once."""
        scalar = np.asarray(value).astype(shape.element_type.np)
        return Literal(shape, np.broadcast_to(scalar, shape.dims))

    @staticmethod
    def tuple_of(elements: Iterable[Literal]) -> Literal:
        """A tuple literal."""
        items = tuple(elements)
        return Literal(Shape.tuple_of(e.shape for e in items), None, items)

    @staticmethod
    def elided_of(shape: Shape) -> Literal:
        """`constant({...})`: a value that was left out of the text."""
        return Literal(shape, elided=True)

    @staticmethod
    def scalar(value: object, element_type: ElementType) -> Literal:
        """A rank-0 literal."""
        return Literal.of(np.asarray(value), element_type)

    @property
    def array(self) -> npt.NDArray[np.generic]:
        """The value of an array literal. Raises INVALID_ARGUMENT for elided literals and tuples."""
        if self._array is None:
            raise invalid(
                f"the value of constant {self.shape} was elided from the text"
                if self.elided
                else f"literal of shape {self.shape} has no array"
            )
        return self._array

    @property
    def is_splat(self) -> bool:
        """Whether all elements have the same bits (true for scalars, false for empty arrays, tuples, elided)."""
        a = self._array
        if a is None or a.size == 0:
            return False
        if _one_element(a):
            return True
        raw = self._bytes_view(a)
        return bool((raw == raw[0]).all())

    @property
    def first(self) -> np.generic:
        """The first element of a non-empty array literal."""
        return self.array.flat[0]

    @staticmethod
    def _bytes_view(a: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
        flat = np.ascontiguousarray(a).reshape(-1)
        return flat.view(np.uint8).reshape(a.size, a.dtype.itemsize)

    def with_shape(self, shape: Shape) -> Literal:
        """The same elements under a shape with equal element count (reshape, other layout, bounded dims)."""
        if self._array is None:
            return Literal(shape, None, self.elements, elided=self.elided)
        return Literal(shape, self._array.reshape(shape.dims))

    def subliteral(self, index: Sequence[int]) -> Literal:
        """The literal at a tuple index path."""
        lit = self
        for i in index:
            lit = lit.elements[i]
        return lit

    def tobytes(self) -> bytes:
        """Row-major storage bytes of an array literal."""
        return self.array.tobytes()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Literal) or self.shape is not other.shape or self.elided != other.elided:
            return False
        if self._array is None or other._array is None:
            return self._array is other._array and self.elements == other.elements
        if self._array is other._array:
            return True
        if _one_element(self._array) and _one_element(other._array):
            return self.first.tobytes() == other.first.tobytes()
        return bool(np.array_equal(self._bytes_view(self._array), self._bytes_view(other._array)))

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.shape, self.elided, self._sample(), self.elements))
        return self._hash

    def _sample(self) -> bytes:
        """Bytes to hash by: all of a small constant, the first elements of a big one (equality compares every byte).

        Never a copy of a splat: it may stand for terabytes.
        """
        a = self._array
        if a is None or a.size == 0:
            return b""
        if a.size <= 4096:
            return a.tobytes() if not _one_element(a) else a.flat[0].tobytes() * a.size
        return a[tuple(slice(0, 4) for _ in a.shape)].tobytes()

    def __repr__(self) -> str:
        body = "{...}" if self.elided else self.elements or (self._array if self.shape.num_elements <= 16 else "...")
        return f"Literal({self.shape}, {body})"


def _one_element(a: npt.NDArray[np.generic]) -> bool:
    """Whether a non-empty array stores one element only (a scalar, or a zero-stride splat)."""
    return a.size == 1 or (a.size > 1 and all(s == 0 or d == 1 for s, d in zip(a.strides, a.shape, strict=True)))


TRUE = Literal.scalar(True, PRED)
FALSE = Literal.scalar(False, PRED)
