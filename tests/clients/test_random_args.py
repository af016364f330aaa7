from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xyla.clients.random_args import random_args
from xyla.hlo.shape import TOKEN_SHAPE, Shape
from xyla.support import dtypes
from xyla.support.status import Status, XylaError


def test_the_same_seed_and_position_give_the_same_numbers() -> None:
    shapes = [Shape.array(dtypes.F32, (4, 5)), Shape.array(dtypes.S32, (100,))]
    first, again = random_args(shapes, 7), random_args(shapes, 7)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], random_args(shapes, 8)[0])
    assert not np.array_equal(first[0], random_args([shapes[1], shapes[0]], 7)[1])


def test_distributions() -> None:
    floats, integers, narrow, flags = random_args(
        [Shape.array(kind, (4000,)) for kind in (dtypes.BF16, dtypes.U8, dtypes.S2, dtypes.PRED)], 0
    )
    assert floats.dtype == ml_dtypes.bfloat16
    assert abs(float(floats.astype(np.float32).std()) - 1) < 0.1
    assert set(integers.tolist()) == set(range(8))
    assert {int(v) for v in narrow} == {0, 1}
    assert flags.dtype == np.bool_
    assert set(flags.tolist()) == {False, True}


@pytest.mark.parametrize("kind", [k for k in dtypes.all_types() if k.is_array], ids=str)
def test_every_element_type(kind: dtypes.ElementType) -> None:
    for dims in ((), (0,), (2, 3)):
        (array,) = random_args([Shape.array(kind, dims)], 1)
        assert array.shape == dims
        assert array.dtype == kind.np


def test_tuples_are_flattened_and_tokens_left_out() -> None:
    pair = Shape.tuple_of([Shape.array(dtypes.F32, (2,)), TOKEN_SHAPE, Shape.tuple_of([Shape.array(dtypes.F64, ())])])
    assert [a.dtype for a in random_args([pair], 0)] == [np.float32, np.float64]


def test_impossible_shapes_are_refused_before_they_are_allocated() -> None:
    with pytest.raises(XylaError) as caught:
        random_args([Shape.array(dtypes.F32, (2**40, 2**10))], 0)
    assert caught.value.status is Status.RESOURCE_EXHAUSTED
    with pytest.raises(XylaError, match="unbounded"):
        random_args([Shape.array(dtypes.F32, (-1,), dynamic=(True,))], 0)
