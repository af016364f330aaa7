from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from xyla.clients.compare import compare, default_tolerance, is_rounding, max_ulp, perturbed


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_equal_arrays_have_no_error() -> None:
    result = compare(f32(1, math.nan, math.inf), f32(1, math.nan, math.inf))
    assert (result.max_abs, result.max_rel, result.max_ulp, result.ok) == (0, 0, 0, True)


def test_f32_tolerance_grows_with_the_reduction() -> None:
    assert default_tolerance(np.dtype(np.float32), 400) == pytest.approx(2e-3)
    assert not compare(f32(1.001), f32(1)).ok
    assert compare(f32(1.001), f32(1), reduction_length=400).ok


@pytest.mark.parametrize(("got", "want"), [(math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0), (-math.inf, math.inf)])
def test_non_finite_against_other_is_wrong(got: float, want: float) -> None:
    result = compare(f32(got), f32(want))
    assert not result.ok
    assert math.isinf(result.max_ulp)


def test_tiny_outputs_are_held_to_their_own_scale() -> None:
    assert not compare(f32(2e-20, 1e-20), f32(1e-20, 1e-20)).ok


def test_cancellation_is_held_to_the_scale_of_the_output() -> None:
    assert compare(f32(100, 1e-3), f32(100, 0)).ok
    assert not compare(f32(100, 1e-1), f32(100, 0)).ok
    assert not compare(f32(100.1, 0), f32(100, 0)).ok
    assert not compare(np.array([1e300, 1e300]), np.array([1e300, 1e299])).ok
    assert not compare(f32(1, 1), f32(1, math.inf)).ok


def test_perturbation_moves_every_float_by_one_unit() -> None:
    values = f32(1, -2, 0, math.inf, math.nan)
    moved, flags = perturbed([values, np.arange(3)])
    assert max_ulp(moved, values) == 1
    assert np.all((moved != values)[:3])
    assert np.isinf(moved[3])
    assert np.isnan(moved[4])
    assert flags.tolist() == [0, 1, 2]


def test_integers_are_exact_even_past_2_53() -> None:
    big = np.array([2**62 + 1], np.int64)
    result = compare(big, np.array([2**62], np.int64))
    assert (result.ok, result.max_abs, result.mismatches) == (False, 1, 1)
    assert compare(big, big).ok


def test_shape_and_type_must_agree() -> None:
    assert "is float32[1], expected float64[1]" in compare(f32(1), np.ones(1)).problem
    assert not compare(f32(1), f32(1, 1)).ok


def test_ulp_counts_representable_values() -> None:
    one = f32(1)
    assert max_ulp(np.nextafter(one, f32(2)), one) == 1
    assert max_ulp(f32(-0.0), f32(0.0)) == 0
    smallest = np.float32(1e-45)
    assert max_ulp(np.array([-smallest]), np.array([smallest])) == 2
    assert max_ulp(np.array([1.0]), np.array([np.nextafter(1.0, 2)])) == 1
    assert max_ulp(np.array([-1.0]), np.array([1.0])) == 2 * 0x3FF0000000000000


def test_ulp_of_small_and_complex_types() -> None:
    bf16 = np.array([1, 2], ml_dtypes.bfloat16)
    assert max_ulp(bf16, np.array([1, 2.03125], ml_dtypes.bfloat16)) == 2
    assert (
        max_ulp(np.array([1 + 2j], np.complex64), np.array([1 + np.nextafter(f32(2), f32(3))[0] * 1j], np.complex64))
        == 1
    )
    f4 = np.array([1.0], ml_dtypes.float4_e2m1fn)
    assert max_ulp(f4, np.array([-1.0], ml_dtypes.float4_e2m1fn)) == 4


def test_what_rounding_explains() -> None:
    wanted, near = f32(1, 2), f32(1, 2.001)
    moved = compare(near, wanted)
    assert is_rounding(compare(f32(1, 2.005), wanted), moved)
    assert not is_rounding(compare(f32(1, 2.1), wanted), moved)
    assert not is_rounding(compare(f32(1, math.nan), wanted), moved)


def test_empty_arrays_agree() -> None:
    assert compare(f32(), f32()).ok
    assert compare(np.zeros((0, 3), np.int32), np.zeros((0, 3), np.int32)).ok
