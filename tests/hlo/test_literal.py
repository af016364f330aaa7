"""Literals compare bit for bit, never materialise splats, and say when they were elided."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.hlo.literal import Literal
from xyla.hlo.shape import Layout, Shape
from xyla.support.dtypes import BF16, F32, S4, S32
from xyla.support.status import XylaError

HUGE = Shape.array(F32, (1 << 20, 1 << 20))


def test_equality_is_by_bits() -> None:
    assert Literal.of(np.float32([0.0])) != Literal.of(np.float32([-0.0]))
    assert Literal.of(np.float32([np.nan])) == Literal.of(np.float32([np.nan]))
    assert Literal.of(np.int32([1])) != Literal.of(np.float32([1]))
    assert Literal.of(np.float32([[1, 2]])) != Literal.of(np.float32([[1, 2]]), layout=Layout((0, 1)))


@pytest.mark.parametrize("dims", [(8,), (80, 80)])
def test_a_splat_equals_its_spelt_out_form(dims: tuple[int, ...]) -> None:
    splat = Literal.full(Shape.array(F32, dims), 1.5)
    full = Literal.of(np.full(dims, 1.5, np.float32))
    assert splat == full
    assert hash(splat) == hash(full)
    assert splat.is_splat
    assert full.is_splat


def test_terabyte_splats_cost_nothing() -> None:
    one, same, two = Literal.full(HUGE, 1.0), Literal.full(HUGE, 1.0), Literal.full(HUGE, 2.0)
    assert one == same
    assert hash(one) == hash(same)
    assert one != two
    assert one.first == 1.0


def test_conversion_and_small_types() -> None:
    assert Literal.of([1, 2.5], BF16).array.dtype == BF16.np
    assert [b & 0xF for b in Literal.of(np.array([7, -8]), S4).tobytes()] == [7, 8]
    with pytest.raises(XylaError, match="no XLA element type"):
        Literal.of(np.array(["a"]))


def test_tuples_and_elided_values() -> None:
    pair = Literal.tuple_of([Literal.scalar(1, S32), Literal.tuple_of([Literal.scalar(2, S32)])])
    assert str(pair.shape) == "(s32[], (s32[]))"
    assert pair.subliteral((1, 0)).first == 2
    with pytest.raises(XylaError, match="elided"):
        _ = Literal.elided_of(HUGE).array


def test_arrays_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Literal.of(np.zeros(3, np.float32)).array[0] = 1  # type: ignore[call-overload]
