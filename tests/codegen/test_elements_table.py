"""The element table is total, its refusals are clear, and floats order and select as XLA says."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.codegen.elements import ELEMENT, Site, emit_element
from xyla.codegen.llvm import Function, Val, constant
from xyla.hlo import ops
from xyla.hlo.attr_types import ComparisonDirection, ComparisonType
from xyla.hlo.op_def import Trait, all_ops
from xyla.hlo.ops.elementwise import CompareAttrs, ReducePrecisionAttrs
from xyla.runtime.objects import ObjectStore
from xyla.support import dtypes
from xyla.support.status import Status, XylaError
from xyla.testing.elementwise import run_op

STORE = ObjectStore()
# -NaN < -inf < ... < -0 < +0 < ... < NaN
ORDERED = [-np.nan, -np.inf, -2.0, -1e-45, -0.0, 0.0, 1e-45, 3.0, np.inf, np.nan]


def test_every_opcode_has_a_rule_or_a_reason() -> None:
    assert ELEMENT.missing() == ()
    element_wise = [op for op in all_ops() if op.has(Trait.ELEMENTWISE)]
    assert len(element_wise) > 50
    assert [op.name for op in element_wise if op not in ELEMENT] == []


def test_refusals_name_the_op_and_its_types() -> None:
    f = Function([])
    x = constant(1, "i8")
    with pytest.raises(XylaError, match=r"'tanh' on \(s8\)") as caught:
        ELEMENT[ops.TANH](f.builder, Site(ops.TANH, dtypes.S8, (dtypes.S8,)), x)
    assert caught.value.status is Status.UNIMPLEMENTED
    with pytest.raises(XylaError, match="not element-wise"):
        ELEMENT[ops.DOT]
    assert callable(emit_element)
    assert isinstance(x, Val)


@pytest.mark.parametrize("et", [dtypes.F32, dtypes.F64, dtypes.BF16, dtypes.F16, dtypes.F8E5M2], ids=str)
def test_total_order(et: dtypes.ElementType) -> None:
    values = np.array(ORDERED, np.float64)
    values[0] = np.copysign(np.nan, -1.0)
    narrow = values.astype(et.np)
    if et.bits < 32:
        narrow = narrow[[0, 1, 2, 4, 5, 7, 8, 9]]  # 1e-45 is 0 there
    n = len(narrow)
    left, right = np.repeat(narrow, n), np.tile(narrow, n)
    rank_left, rank_right = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
    for word, fn in (("LT", np.less), ("LE", np.less_equal), ("EQ", np.equal), ("GT", np.greater)):
        attrs = CompareAttrs(ComparisonDirection(word), ComparisonType.TOTALORDER)
        got = run_op(ops.COMPARE, left, right, out=dtypes.PRED, attrs=attrs, store=STORE)
        assert (got == fn(rank_left, rank_right)).all(), word


@pytest.mark.parametrize("et", [dtypes.F32, dtypes.F64, dtypes.BF16, dtypes.F8E4M3FN], ids=str)
def test_partial_order_and_extrema(et: dtypes.ElementType) -> None:
    base = np.array([-2.0, -0.0, 0.0, 1.5, np.nan], np.float64).astype(et.np)
    left, right = np.repeat(base, 5), np.tile(base, 5)
    a, b = left.astype(np.float64), right.astype(np.float64)
    for word, fn in (("LT", np.less), ("GE", np.greater_equal), ("EQ", np.equal), ("NE", np.not_equal)):
        attrs = CompareAttrs(ComparisonDirection(word))
        got = run_op(ops.COMPARE, left, right, out=dtypes.PRED, attrs=attrs, store=STORE)
        assert (got == fn(a, b)).all(), word
    for op, fn in ((ops.MAXIMUM, np.maximum), (ops.MINIMUM, np.minimum)):
        got = run_op(op, left, right, store=STORE).astype(np.float64)
        assert np.array_equal(got, fn(a, b), equal_nan=True)
    # +0 is the larger zero.
    zeros = run_op(ops.MAXIMUM, base[1:3], base[2:0:-1], store=STORE).astype(np.float64)
    assert not np.signbit(zeros).any()


def test_clamp_and_select() -> None:
    x = np.array([-5.0, 0.5, 9.0, np.nan, 2.0], np.float32)
    low, high = np.full(5, -1.0, np.float32), np.array([1, 1, 1, 1, np.nan], np.float32)
    got = run_op(ops.CLAMP, low, x, high, store=STORE)
    assert np.array_equal(got, np.array([-1.0, 0.5, 1.0, np.nan, np.nan], np.float32), equal_nan=True)
    # low above high: the result is high.
    assert list(run_op(ops.CLAMP, np.full(1, 3.0), np.zeros(1), np.full(1, 2.0), store=STORE)) == [2.0]
    pick = np.array([True, False, True, False, True])
    assert list(run_op(ops.SELECT, pick, low, x, out=dtypes.F32, store=STORE)[:3]) == [-1.0, 0.5, -1.0]


def test_signs_and_rounding() -> None:
    x = np.array([-2.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 0.49999997, np.inf, np.nan, 8388609.0], np.float32)
    even, away = run_op(ops.ROUND_EVEN, x, store=STORE), run_op(ops.ROUND_AFZ, x, store=STORE)
    assert np.array_equal(even, np.rint(x), equal_nan=True)
    want = [-3, -1, -0.0, 0, 1, 2, 3, 0, np.inf, np.nan, 8388609]
    assert np.array_equal(away, np.array(want, np.float32), equal_nan=True)
    assert np.array_equal(np.signbit(even), np.signbit(x))
    assert np.array_equal(run_op(ops.SIGN, x, store=STORE), np.sign(x), equal_nan=True)
    assert np.signbit(run_op(ops.SIGN, x, store=STORE)[2])
    assert np.array_equal(run_op(ops.FLOOR, x, store=STORE), np.floor(x), equal_nan=True)
    assert np.array_equal(run_op(ops.CEIL, x, store=STORE), np.ceil(x), equal_nan=True)
    finite = run_op(ops.IS_FINITE, x, out=dtypes.PRED, store=STORE)
    assert list(finite) == list(np.isfinite(x))
    negated = run_op(ops.NEGATE, x, store=STORE)
    assert np.array_equal(np.signbit(negated)[:9], ~np.signbit(x)[:9])
    assert not np.signbit(run_op(ops.ABS, -x, store=STORE)[:9]).any()


def test_reduce_precision_of_a_format_without_infinities() -> None:
    x = np.array([1.875, 448.0, 0.001953125, -1.5], np.float32).astype(dtypes.F8E4M3FN.np)
    got = run_op(ops.REDUCE_PRECISION, x, attrs=ReducePrecisionAttrs(4, 1), store=STORE).astype(np.float32)
    assert list(got[[0, 2, 3]]) == [2.0, 0.001953125, -1.5]
    assert np.isnan(got[1])  # 448 rounds to 512, which the format does not have
