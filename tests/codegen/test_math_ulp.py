"""Every function's error in ULP over all exponents and special values, against the next wider type."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.hlo import ops
from xyla.runtime.objects import ObjectStore
from xyla.testing.elementwise import run_op
from xyla.testing.ulp import CASES, Case, arguments, compare, specials

STORE = ObjectStore()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.op.lower())
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
def test_error(case: Case, dtype: type) -> None:
    args = arguments(case, dtype, 8000)
    got = run_op(getattr(ops, case.op), *args, lanes=16 if dtype is np.float32 else 8, store=STORE)
    errors = compare(got, args, case.reference)
    limit = case.f32 if dtype is np.float32 else case.f64
    assert errors.worst <= limit, errors
    assert errors.special == 0, errors


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.op.lower())
def test_scalar_code_agrees_with_vector_code(case: Case) -> None:
    args = arguments(case, np.float32, 40)
    op = getattr(ops, case.op)
    one, many = run_op(op, *args, lanes=1, store=STORE), run_op(op, *args, lanes=16, store=STORE)
    assert np.array_equal(one, many, equal_nan=True)


def test_large_arguments_of_sine_are_reduced_exactly() -> None:
    # The doubles closest to multiples of pi/2 (Muller's worst case), the largest float, and 10^22.
    x = np.array([6381956970095103.0 * 2.0**797, np.finfo(np.float64).max, 1e22, -1e22, 2.0**1000])
    sine = run_op(ops.SINE, x, lanes=8, store=STORE)
    assert sine[2] == pytest.approx(-0.8522008497671888, rel=1e-15)
    cosine = run_op(ops.COSINE, x, lanes=8, store=STORE)
    assert abs(cosine[0]) == pytest.approx(4.6871659242546277e-19, rel=1e-12)
    assert np.allclose(sine * sine + cosine * cosine, 1.0, rtol=1e-15)
    assert compare(sine, (x,), np.sin).worst < 0.85


def test_small_floats_are_rounded_from_f32() -> None:
    for dtype in (np.float16,):
        x = np.concatenate([np.linspace(-9, 9, 500).astype(dtype), specials(dtype)])
        got = run_op(ops.EXP, x, store=STORE)
        with np.errstate(all="ignore"):
            want = np.exp(x.astype(np.float64)).astype(dtype)
        ok = (got == want) | (np.isnan(got) & np.isnan(want))
        # Rounding twice may turn a near tie, no more.
        assert np.count_nonzero(~ok) <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", ["EXPM1", "LOG1P", "TANH", "SINH", "ASINH", "ATANH", "SINE", "TAN", "ASIN"])
def test_tiny_arguments_are_their_own_result(name: str, dtype: type) -> None:
    f = np.finfo(dtype)
    tiny = np.array([f.smallest_subnormal, 3 * f.smallest_subnormal, f.tiny, 1e-30, 0.0], dtype)
    x = np.concatenate([tiny, -tiny])
    got = run_op(getattr(ops, name), x, lanes=8, store=STORE)
    assert np.array_equal(got, x)
    assert np.array_equal(np.signbit(got), np.signbit(x))
