"""Integer element rules against Python integers, for every width, scalar and vector."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection
from xyla.hlo.ops.elementwise import CompareAttrs
from xyla.runtime.objects import ObjectStore
from xyla.support import dtypes
from xyla.support.dtypes import PRED, ElementType
from xyla.testing.elementwise import Array, run_op

INTS = [t for t in dtypes.all_types() if t.is_integer and t.bits >= 2]
STORE = ObjectStore()


def limits(et: ElementType) -> tuple[int, int]:
    if et.is_unsigned:
        return 0, (1 << et.bits) - 1
    return -(1 << (et.bits - 1)), (1 << (et.bits - 1)) - 1


def wrap(et: ElementType, v: int) -> int:
    v &= (1 << et.bits) - 1
    return v - (1 << et.bits) if et.is_signed and v >> (et.bits - 1) else v


def samples(et: ElementType, seed: int, count: int = 64) -> list[int]:
    low, high = limits(et)
    rng = np.random.default_rng(seed)
    edges = [v for v in (low, low + 1, -1, 0, 1, 2, 3, 7, high - 1, high) if low <= v <= high]
    spread = [
        int(rng.integers(low, high, endpoint=True, dtype=np.int64 if low < 0 else np.uint64)) for _ in range(count)
    ]
    return edges + spread


def pairs(et: ElementType) -> tuple[list[int], list[int]]:
    a, b = samples(et, 1, 20), samples(et, 2, 20)
    grid = [(x, y) for x in a for y in b]
    return [x for x, _ in grid], [y for _, y in grid]


def make(et: ElementType, values: list[int]) -> Array:
    wide = np.array(values, np.int64 if et.is_signed else np.uint64)
    return wide.astype(et.np)


def ints(array: Array) -> list[int]:
    return [int(v) for v in array]


def divide(et: ElementType, x: int, y: int) -> int:
    if y == 0:
        return wrap(et, -1)
    q = abs(x) // abs(y)
    return wrap(et, q if (x < 0) == (y < 0) else -q)


def remainder(et: ElementType, x: int, y: int) -> int:
    if y == 0:
        return x
    r = abs(x) % abs(y)
    return wrap(et, -r if x < 0 else r)


def power(et: ElementType, x: int, y: int) -> int:
    if y < 0:
        return 1 if x == 1 else (1 if y % 2 == 0 else -1) if x == -1 else 0
    return wrap(et, pow(x, y, 1 << et.bits))


def left(et: ElementType, x: int, y: int) -> int:
    return wrap(et, x << y) if 0 <= y < et.bits else 0


def right_logical(et: ElementType, x: int, y: int) -> int:
    return wrap(et, (x & ((1 << et.bits) - 1)) >> y) if 0 <= y < et.bits else 0


def right_arithmetic(et: ElementType, x: int, y: int) -> int:
    signed = x - (1 << et.bits) if x >> (et.bits - 1) == 1 else x
    return wrap(et, signed >> (y if 0 <= y < et.bits else et.bits - 1))


BINARY = {
    "ADD": lambda et, x, y: wrap(et, x + y),
    "SUBTRACT": lambda et, x, y: wrap(et, x - y),
    "MULTIPLY": lambda et, x, y: wrap(et, x * y),
    "DIVIDE": divide,
    "REMAINDER": remainder,
    "POWER": power,
    "MAXIMUM": lambda et, x, y: max(x, y),
    "MINIMUM": lambda et, x, y: min(x, y),
    "AND": lambda et, x, y: wrap(et, x & y),
    "OR": lambda et, x, y: wrap(et, x | y),
    "XOR": lambda et, x, y: wrap(et, x ^ y),
    "SHIFT_LEFT": left,
    "SHIFT_RIGHT_LOGICAL": right_logical,
    "SHIFT_RIGHT_ARITHMETIC": right_arithmetic,
}
UNARY = {
    "ABS": lambda et, x: wrap(et, abs(x)),
    "NEGATE": lambda et, x: wrap(et, -x),
    "SIGN": lambda et, x: (x > 0) - (x < 0),
    "NOT": lambda et, x: wrap(et, ~x),
    "POPCNT": lambda et, x: wrap(et, (x & ((1 << et.bits) - 1)).bit_count()),
    "CLZ": lambda et, x: wrap(et, et.bits - (x & ((1 << et.bits) - 1)).bit_length()),
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("lanes", [1, 16])
def test_binary(name: str, lanes: int) -> None:
    for et in INTS if lanes > 1 else [dtypes.S32, dtypes.U8, dtypes.S4, dtypes.U64]:
        xs, ys = pairs(et)
        got = run_op(getattr(ops, name), make(et, xs), make(et, ys), lanes=lanes, store=STORE)
        want = [BINARY[name](et, x, y) for x, y in zip(xs, ys, strict=True)]
        wrong = [(x, y, g, w) for x, y, g, w in zip(xs, ys, ints(got), want, strict=True) if g != w]
        assert not wrong, f"{et} {name}: (x, y, got, want) {wrong[:3]}"


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    for et in INTS:
        xs = samples(et, 3)
        got = run_op(getattr(ops, name), make(et, xs), store=STORE)
        assert ints(got) == [UNARY[name](et, x) for x in xs], et


def test_compare_and_clamp() -> None:
    for et in INTS:
        xs, ys = pairs(et)
        a, b = make(et, xs), make(et, ys)
        for word, fn in (("LT", int.__lt__), ("GE", int.__ge__), ("EQ", int.__eq__), ("NE", int.__ne__)):
            attrs = CompareAttrs(ComparisonDirection(word))
            got = run_op(ops.COMPARE, a, b, out=PRED, attrs=attrs, store=STORE)
            assert list(got) == [fn(x, y) for x, y in zip(xs, ys, strict=True)], (et, word)
        lows, highs = make(et, ys), make(et, ys[::-1])
        got = run_op(ops.CLAMP, lows, a, highs, store=STORE)
        assert ints(got) == [min(max(x, lo), hi) for lo, x, hi in zip(ys, xs, ys[::-1], strict=True)], et


def test_convert_between_integers_wraps() -> None:
    for src in INTS:
        xs = samples(src, 4)
        for dst in (*INTS, PRED):
            got = run_op(ops.CONVERT, make(src, xs), out=dst, store=STORE)
            want = [int(x != 0) if dst is PRED else wrap(dst, x) for x in xs]
            assert ints(got) == want, (src, dst)


def test_float_to_integer_truncates_saturates_and_sends_nan_to_zero() -> None:
    specials = [
        0.0,
        -0.0,
        0.9,
        -0.9,
        1.5,
        -1.5,
        2.5,
        126.9,
        127.5,
        255.7,
        1e10,
        -1e10,
        3e19,
        -3e19,
        np.inf,
        -np.inf,
        np.nan,
    ]
    for float_type in (np.float32, np.float64):
        x = np.array(specials, float_type)
        for et in INTS:
            low, high = limits(et)
            got = run_op(ops.CONVERT, x, out=et, store=STORE)
            want = [
                0
                if np.isnan(v)
                else int(np.clip(np.trunc(float(v)), low, high))
                if abs(v) < 1e9
                else (high if v > 0 else low)
                for v in x
            ]
            want = [
                min(max(int(v), low), high) if abs(v) == 1e10 and et.bits == 64 else w
                for v, w in zip(np.nan_to_num(x), want, strict=True)
            ]
            assert ints(got) == want, (et, float_type)


def test_pred() -> None:
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    table = {
        "ADD": a | b,
        "MULTIPLY": a & b,
        "AND": a & b,
        "OR": a | b,
        "XOR": a ^ b,
        "MAXIMUM": a | b,
        "MINIMUM": a & b,
    }
    for name, want in table.items():
        assert list(run_op(getattr(ops, name), a, b, store=STORE)) == list(want), name
    assert list(run_op(ops.NOT, a, store=STORE)) == list(~a)
    for et in (dtypes.S4, dtypes.U8, dtypes.F32, dtypes.BF16, dtypes.F8E4M3FN, dtypes.C64):
        assert list(run_op(ops.CONVERT, a, out=et, store=STORE).astype(np.complex64)) == [0, 0, 1, 1], et
