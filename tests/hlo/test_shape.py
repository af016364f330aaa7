"""Shapes and layouts: interning, text, byte sizes, strides, tuple traversal, limits."""

from __future__ import annotations

import pytest

from xyla.hlo.shape import TOKEN_SHAPE, UNBOUNDED, Layout, Shape
from xyla.support.dtypes import F32, PRED, S4, TOKEN
from xyla.support.status import Status, XylaError


def test_equal_shapes_are_one_object() -> None:
    assert Shape.array(F32, (2, 3)) is Shape.array(F32, [2, 3])
    assert Shape.array(F32, (2,), Layout((0,))) is Shape.array(F32, (2,), Layout.default(1))
    assert Shape.array(F32, (2,), None, (False,)) is Shape.array(F32, (2,))
    assert Shape.array(F32, (2,)) is not Shape.array(F32, (2,), Layout.default(1))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (Shape.array(F32, ()), "f32[]"),
        (Shape.array(S4, (2, 3), Layout((0, 1))), "s4[2,3]{0,1}"),
        (Shape.array(F32, (2, 3), None, (False, True)), "f32[2,<=3]"),
        (Shape.array(F32, (UNBOUNDED,), None, (True,)), "f32[?]"),
        (Shape.array(F32, (8,), Layout((0,), tiles=((8, 128), (-1,)), memory_space=5)), "f32[8]{0:T(8,128)(*)S(5)}"),
        (Shape.array(F32, (), Layout((), memory_space=1)), "f32[]{:S(1)}"),
        (TOKEN_SHAPE, "token[]"),
        (Shape.tuple_of([]), "()"),
        (Shape.tuple_of([Shape.array(PRED, ())] * 6), "(pred[], pred[], pred[], pred[], pred[], /*index=5*/pred[])"),
        (Shape.buffer(Shape.array(F32, (4,))), "b(f32[4])"),
    ],
)
def test_text(shape: Shape, text: str) -> None:
    assert str(shape) == text


def test_sizes_and_physical_strides() -> None:
    shape = Shape.array(F32, (2, 3, 4), Layout((1, 2, 0)))
    assert shape.num_elements == 24
    assert shape.num_bytes == 96
    assert shape.strides() == (12, 1, 3)
    assert Shape.array(S4, (3,)).num_bytes == 3  # one byte an element
    assert Shape.tuple_of([shape, TOKEN_SHAPE, shape]).num_bytes == 192


def test_leaves_subshapes_and_variants() -> None:
    a, b = Shape.array(F32, (2,), Layout.default(1)), Shape.array(PRED, ())
    nested = Shape.tuple_of([a, Shape.tuple_of([b, TOKEN_SHAPE])])
    assert list(nested.leaves()) == [((0,), a), ((1, 0), b), ((1, 1), TOKEN_SHAPE)]
    assert nested.subshape((1, 0)) is b
    assert nested.without_layout().subshape((0,)) is Shape.array(F32, (2,))
    assert nested.compatible(nested.without_layout())
    with pytest.raises(XylaError, match="no element at index"):
        nested.subshape((2,))


def test_nesting_needs_no_python_stack() -> None:
    shape = Shape.array(F32, (), Layout.default(0))
    for _ in range(3_000):
        shape = Shape.tuple_of([shape])
    assert len(list(shape.leaves())) == 1
    assert str(shape).startswith("((((")


@pytest.mark.parametrize(
    ("dims", "layout", "dynamic", "message"),
    [
        ((2**62, 4), None, (), "larger than 2^63 bytes"),
        ((-2,), None, (), "negative size"),
        ((UNBOUNDED,), None, (), "negative size"),
        ((2, 3), Layout((0, 0)), (), "not a permutation"),
        ((2, 3), Layout((0,)), (), "not a permutation"),
    ],
)
def test_bad_arrays_are_refused(
    dims: tuple[int, ...], layout: Layout | None, dynamic: tuple[bool, ...], message: str
) -> None:
    with pytest.raises(XylaError) as caught:
        Shape.array(F32, dims, layout, dynamic)
    assert caught.value.status is Status.INVALID_ARGUMENT
    assert message in caught.value.message


def test_only_array_types_make_arrays() -> None:
    with pytest.raises(XylaError, match="not an array element type"):
        Shape.array(TOKEN, ())
