"""Conversions of small floats against ml_dtypes, exhaustively where the type is small; rounding and storage rules."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from xyla.hlo import ops
from xyla.hlo.ops.elementwise import ReducePrecisionAttrs
from xyla.runtime.objects import ObjectStore
from xyla.support import dtypes
from xyla.support.dtypes import BF16, F16, F32, F64, ElementType
from xyla.testing.elementwise import Array, run_op

STORE = ObjectStore()
SMALL = [t for t in dtypes.all_types() if t.is_float and t.itemsize < 4]


@pytest.fixture(autouse=True)
def _quiet() -> None:
    warnings.simplefilter("ignore", RuntimeWarning)


def every_value(et: ElementType) -> Array:
    if et.itemsize == 2:
        return np.arange(1 << 16).astype(np.uint16).view(et.np)
    return np.arange(1 << et.bits).astype(np.uint8).view(et.np)


def dense_f32() -> Array:
    """Every sign, exponent and 7 leading mantissa bits, with tails around each rounding boundary, and random bits."""
    head = np.arange(1 << 16, dtype=np.uint32) << 16
    tails = [head | t for t in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    spread = np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32)
    return np.concatenate([*tails, spread]).view(np.float32)


def same_bits(got: Array, want: Array) -> Array:
    """Equal bytes, or both NaN."""
    a = got.view(np.uint8).reshape(got.size, -1)
    b = want.view(np.uint8).reshape(want.size, -1)
    nan = np.isnan(got.astype(np.float32)) & np.isnan(want.astype(np.float32))
    return (a == b).all(axis=1) | nan


@pytest.mark.parametrize("et", SMALL, ids=str)
def test_narrowing_f32_is_what_ml_dtypes_does(et: ElementType) -> None:
    x = dense_f32()
    got, want = run_op(ops.CONVERT, x, out=et, store=STORE), x.astype(et.np)
    bad = np.flatnonzero(~same_bits(got, want))
    assert bad.size == 0, [(x[i], got[i], want[i]) for i in bad[:3]]


@pytest.mark.parametrize("et", SMALL, ids=str)
def test_widening_is_exact(et: ElementType) -> None:
    x = every_value(et)
    for wide in (F32, F64):
        got, want = run_op(ops.CONVERT, x, out=wide, store=STORE), x.astype(wide.np)
        assert same_bits(got, want).all(), wide


@pytest.mark.parametrize("src", [F16, BF16], ids=str)
def test_every_half_to_every_small_float(src: ElementType) -> None:
    x = every_value(src)
    for dst in SMALL:
        got, want = run_op(ops.CONVERT, x, out=dst, store=STORE), x.astype(np.float32).astype(dst.np)
        assert same_bits(got, want).all(), dst


def test_f64_to_f16_rounds_once() -> None:
    # 1 + 2^-11 is a tie; a trace above it must round up, which rounding to f32 first would lose.
    ties = (1 + 2.0**-11 + np.arange(0, 1024) * 2.0**-10) * np.float64(1.0)
    x = np.concatenate([ties, ties + 2.0**-40, ties - 2.0**-40, -ties - 2.0**-40, np.ldexp(ties + 2.0**-40, -20)])
    assert same_bits(run_op(ops.CONVERT, x, out=F16, lanes=8, store=STORE), x.astype(np.float16)).all()


def test_subnormals_survive() -> None:
    tiny = np.array([1e-45, -1e-45, 1e-40, 5.9e-39], np.float32)
    assert (run_op(ops.ADD, tiny, np.zeros_like(tiny), store=STORE) == tiny).all()
    assert same_bits(run_op(ops.CONVERT, tiny, out=BF16, store=STORE), tiny.astype(BF16.np)).all()


@pytest.mark.parametrize("et", SMALL, ids=str)
def test_arithmetic_computes_in_f32_and_rounds_once(et: ElementType) -> None:
    rng = np.random.default_rng(1)
    x = rng.choice(every_value(et), 2000)
    y = rng.choice(every_value(et), 2000)
    a, b = x.astype(np.float32), y.astype(np.float32)
    for op, fn in (
        (ops.ADD, np.add),
        (ops.MULTIPLY, np.multiply),
        (ops.SUBTRACT, np.subtract),
        (ops.DIVIDE, np.divide),
    ):
        got, want = run_op(op, x, y, store=STORE), fn(a, b).astype(et.np)
        assert same_bits(got, want).all(), op


@pytest.mark.parametrize("et", [F16, BF16, F32, F64, dtypes.F8E5M2], ids=str)
def test_reduce_precision(et: ElementType) -> None:
    rng = np.random.default_rng(2)
    x = (rng.standard_normal(3000) * 2.0 ** rng.integers(-20, 20, 3000)).astype(et.np)
    same = run_op(ops.REDUCE_PRECISION, x, attrs=ReducePrecisionAttrs(11, 52), store=STORE)
    assert same_bits(same, x).all()
    if et in (F32, F64):
        got = run_op(ops.REDUCE_PRECISION, x, attrs=ReducePrecisionAttrs(5, 10), store=STORE)
        want = x.astype(np.float16)
        want = np.where(np.abs(want) < 2.0**-14, np.copysign(np.float16(0), want), want)
        # Rounding happens before the range is checked: what rounds up to the smallest normal stays.
        assert (got == want.astype(et.np)).all()
    one = np.array([1.75, -1.25, 1.5, np.inf, -np.inf, 0.0], et.np)
    got = run_op(ops.REDUCE_PRECISION, one, attrs=ReducePrecisionAttrs(5, 1), store=STORE).astype(np.float64)
    assert list(got) == [2.0, -1.0, 1.5, np.inf, -np.inf, 0.0]


def test_sub_byte_storage_is_ml_dtypes_own() -> None:
    x = np.arange(-8, 8).astype(dtypes.S4.np)
    got = run_op(ops.NEGATE, x, store=STORE)
    assert (got.view(np.uint8) < 16).all()
    assert [int(v) for v in got] == [-8, 7, 6, 5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5, -6, -7]


def test_bit_casts() -> None:
    x = np.array([1.0, -0.0, np.inf, 3.5], np.float32)
    assert (run_op(ops.BITCAST_CONVERT, x, out=dtypes.U32, store=STORE) == x.view(np.uint32)).all()
    z = np.array([1 + 2j, -3.5j], np.complex64)
    assert (run_op(ops.BITCAST_CONVERT, z, out=dtypes.U64, store=STORE) == z.view(np.uint64)).all()
    back = run_op(ops.BITCAST_CONVERT, z.view(np.uint64), out=dtypes.C64, store=STORE)
    assert (back == z).all()
    half = np.array([1.0, -2.0], np.float16)
    assert (run_op(ops.BITCAST_CONVERT, half, out=dtypes.S16, store=STORE) == half.view(np.int16)).all()


def test_stochastic_convert_rounds_up_when_the_fraction_exceeds_the_random_bits() -> None:
    x = np.array([1.25, 1.25, -1.75, -1.75, 200.0, -200.0, np.nan, 0.0], np.float32)
    random = np.array([0, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0, 0, 0, 0], np.uint32)
    got = run_op(ops.STOCHASTIC_CONVERT, x, random, out=dtypes.S8, store=STORE)
    assert list(got) == [2, 1, -2, -1, 127, -128, 0, 0]
