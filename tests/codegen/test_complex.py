"""Complex element rules against NumPy in the next wider type, and C's Annex G at the edges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection
from xyla.hlo.ops.elementwise import CompareAttrs
from xyla.runtime.objects import ObjectStore
from xyla.support import dtypes
from xyla.testing.elementwise import Array, run_op

STORE = ObjectStore()


def samples(dtype: type, count: int, seed: int = 0) -> Array:
    """Several scales, the unit circle, both axes' neighbourhoods."""
    rng = np.random.default_rng(seed)
    parts = [s * (rng.standard_normal(count) + 1j * rng.standard_normal(count)) for s in (0.05, 1.0, 3.0, 15.0)]
    angle = rng.uniform(-np.pi, np.pi, count)
    parts += [np.exp(1j * angle), np.exp(rng.uniform(-50, 50, count) + 1j * angle)]
    parts += [rng.standard_normal(count) + 1e-3j * rng.standard_normal(count)]
    parts += [1e-3 * rng.standard_normal(count) + 1j * rng.standard_normal(count)]
    return np.concatenate(parts).astype(dtype)


def log1p(z: Array) -> Array:
    """NumPy's own loses small arguments."""
    near = np.log1p(2 * z.real + z.real * z.real + z.imag * z.imag) / 2
    half = np.where(np.abs(z) < 0.5, near, np.log(np.abs(1 + z)))
    return half + 1j * np.arctan2(z.imag, 1 + z.real)


def logistic(z: Array) -> Array:
    grown = np.exp(np.where(z.real < 0, z, -z))
    return np.where(z.real < 0, grown, 1) / (1 + grown)


# The function, its reference, the limit in ULP of the modulus; for sums that cancel only most samples must hold it.
CASES: list[tuple[str, Callable[..., Array], float]] = [
    ("EXP", np.exp, 2.5),
    ("EXPM1", np.expm1, 3.5),
    ("LOG", np.log, 3.5),
    ("LOG1P", log1p, 3.5),
    ("LOGISTIC", logistic, 4.5),
    ("SINE", np.sin, 3.0),
    ("COSINE", np.cos, 3.0),
    ("TAN", np.tan, 6.0),
    ("SINH", np.sinh, 3.0),
    ("COSH", np.cosh, 3.0),
    ("TANH", np.tanh, 6.0),
    ("SQRT", np.sqrt, 2.5),
    ("RSQRT", lambda z: 1 / np.sqrt(z), 4.5),
    ("ASIN", np.arcsin, 4.5),
    ("ACOS", np.arccos, 4.5),
    ("ASINH", np.arcsinh, 4.5),
    ("ACOSH", np.arccosh, 4.5),
    ("ATANH", np.arctanh, 4.5),
    ("SIGN", lambda z: z / np.abs(z), 1.6),
    ("NEGATE", np.negative, 0.0),
    ("MULTIPLY", np.multiply, 2.0),
    ("DIVIDE", np.divide, 4.0),
    ("ADD", np.add, 1.0),
    ("SUBTRACT", np.subtract, 1.0),
]


@pytest.mark.parametrize(("name", "reference", "limit"), CASES, ids=[c[0].lower() for c in CASES])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128], ids=["c64", "c128"])
def test_accuracy(name: str, reference: Callable[..., Array], limit: float, dtype: type) -> None:
    op = getattr(ops, name)
    x = samples(dtype, 1500)
    args = (x,) if op.arity == 1 else (x, samples(dtype, 1500, 1)[::-1].copy())
    wide = np.complex128 if dtype is np.complex64 else np.clongdouble
    with np.errstate(all="ignore"):
        exact = reference(*(a.astype(wide) for a in args))
        want = exact.astype(dtype)
    got = run_op(op, *args, lanes=8, store=STORE)
    finite = np.isfinite(want) & np.isfinite(got)
    assert np.array_equal(np.isfinite(want), np.isfinite(got))
    # The modulus in units of its own type's spacing: a small part beside a large one has the large one's error.
    scale = np.spacing(np.abs(want[finite]))
    error = np.abs(got[finite] - exact[finite]) / scale
    if name == "LOGISTIC":  # the quotient's pole amplifies
        error = np.sort(error)[: int(0.99 * error.size)]
    assert error.max() <= limit, (args[0][finite][int(np.argmax(error))], error.max())


def test_modulus_neither_overflows_nor_underflows() -> None:
    z = np.array([3e38 + 1e38j, 3e-44 + 4e-44j, 3 + 4j, np.inf + 1j, 1 - np.inf * 1j, 0j], np.complex64)
    z[4] = complex(np.nan, -np.inf)
    got = run_op(ops.ABS, z, out=dtypes.F32, store=STORE)
    want = [np.float32(np.hypot(3e38, 1e38)), np.abs(z[1]), 5.0, np.inf, np.inf, 0.0]
    assert list(got) == want


def test_division_edges() -> None:
    one, zero, inf = complex(1, 0), complex(0, 0), complex(np.inf, 1)
    x = np.array([one, inf, one, 3e38 + 3e38j, complex(1e-40, 1e-40)], np.complex64)
    y = np.array([zero, one, inf, 1 + 1j, complex(1e-40, 0)], np.complex64)
    got = run_op(ops.DIVIDE, x, y, store=STORE)
    assert np.isinf(got[0].real)
    assert np.isinf(got[1].real)
    assert got[2] == 0
    assert got[3] == np.complex64(3e38)
    assert got[4] == np.complex64(1 + 1j)


def test_power() -> None:
    x = np.array([2 + 1j, 0j, 0j, -1 + 0j, 1j, 5 - 2j], np.complex128)
    y = np.array([3 - 0.5j, 0j, 2 + 0j, 0.5 + 0j, 1j, 0j], np.complex128)
    got = run_op(ops.POWER, x, y, lanes=8, store=STORE)
    want = [(2 + 1j) ** (3 - 0.5j), 1, 0, 1j, np.exp(-np.pi / 2), 1]
    assert np.allclose(got, want, rtol=1e-14, atol=1e-15)


def test_signed_zeros_choose_the_side_of_a_cut() -> None:
    above, below = complex(-4.0, 0.0), complex(-4.0, -0.0)
    z = np.array([above, below], np.complex128)
    root = run_op(ops.SQRT, z, lanes=8, store=STORE)
    assert list(root) == [2j, -2j]
    logs = run_op(ops.LOG, z, lanes=8, store=STORE)
    assert list(logs.imag) == [np.pi, -np.pi]


def test_parts_and_comparison() -> None:
    re, im = np.array([1.0, 2.0], np.float32), np.array([-3.0, 0.0], np.float32)
    z = run_op(ops.COMPLEX, re, im, out=dtypes.C64, store=STORE)
    assert list(z) == [1 - 3j, 2 + 0j]
    assert list(run_op(ops.REAL, z, out=dtypes.F32, store=STORE)) == [1.0, 2.0]
    assert list(run_op(ops.IMAG, z, out=dtypes.F32, store=STORE)) == [-3.0, 0.0]
    other = np.array([1 - 3j, 2 + 1j], np.complex64)
    for word, want in (("EQ", [True, False]), ("NE", [False, True])):
        attrs = CompareAttrs(ComparisonDirection(word))
        assert list(run_op(ops.COMPARE, z, other, out=dtypes.PRED, attrs=attrs, store=STORE)) == want


def test_extrema_are_lexicographic_and_keep_nan() -> None:
    x = np.array([1 + 2j, 1 + 5j, 3 + 0j, complex(np.nan, 1), 1j, -2j], np.complex64)
    y = np.array([1 + 3j, 1 + 4j, 2 + 9j, 5 + 5j, complex(2, np.nan), 0j], np.complex64)
    high, low = run_op(ops.MAXIMUM, x, y, store=STORE), run_op(ops.MINIMUM, x, y, store=STORE)
    assert np.array_equal(high, [1 + 3j, 1 + 5j, 3 + 0j, x[3], y[4], 0j], equal_nan=True)
    assert np.array_equal(low, [1 + 2j, 1 + 4j, 2 + 9j, x[3], y[4], -2j], equal_nan=True)


def test_cube_root() -> None:
    z = samples(np.complex128, 200)
    got = run_op(ops.CBRT, z, lanes=8, store=STORE)
    assert np.allclose(got, z ** (1 / 3), rtol=1e-14)
    assert list(run_op(ops.CBRT, np.zeros(2, np.complex64), store=STORE)) == [0, 0]
