"""The text writer: control flow, masks, gathers, helpers, errors; each by running what it wrote."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from xyla.codegen.elements import gather_element, load_element, scatter_element, store_element
from xyla.codegen.llvm import Builder, Cx, Function, Param, Val, constant, vector_constant
from xyla.codegen.llvm.values import float_text, scalar_text
from xyla.runtime.objects import ObjectStore
from xyla.support import dtypes
from xyla.support.dtypes import ElementType
from xyla.testing.elementwise import Array

STORE = ObjectStore()


def run(body: Callable[[Builder, Function], None], *args: Array | int) -> None:
    """Compiles `body` as a kernel over pointers (arrays) and i64 numbers and calls it."""
    params = [
        Param("i64", f"a{k}") if isinstance(a, int) else Param("ptr", f"a{k}", "noalias") for k, a in enumerate(args)
    ]
    f = Function(params)
    body(f.builder, f)
    f.builder.ret()
    (kernel,) = STORE.load([f.source()])
    kinds = [ctypes.c_int64 if isinstance(a, int) else ctypes.c_void_p for a in args]
    ctypes.CFUNCTYPE(None, *kinds)(kernel.address)(*(a if isinstance(a, int) else a.ctypes.data for a in args))


def val(v: object) -> Val:
    assert isinstance(v, Val)
    return v


@pytest.mark.parametrize(("lo", "hi", "step"), [(0, 10, 1), (3, 10, 4), (5, 5, 1), (7, 2, 1), (0, 9, 9)])
def test_loop_carries_values_and_trips_as_range_does(lo: int, hi: int, step: int) -> None:
    out = np.zeros(2, np.int64)

    def body(b: Builder, f: Function) -> None:
        zero = constant(0, "i64")
        with b.loop(f.arg(1), f.arg(2), f.arg(3), carry=[zero, zero]) as lp:
            total, count = lp.carried
            lp.next(b.add(val(total), lp.i), b.add(val(count), 1))
        for k, r in enumerate(lp.results):
            b.store(val(r), b.gep(f.arg(0), k, "i64"))

    run(body, out, lo, hi, step)
    assert list(out) == [sum(range(lo, hi, step)), len(range(lo, hi, step))]


def test_nested_loops_and_branches_carry_complex_values() -> None:
    out = np.zeros(2, np.float64)

    def body(b: Builder, f: Function) -> None:
        zero = constant(0.0, "double")
        with b.loop(0, 4, carry=[Cx(zero, zero)]) as outer:
            with b.loop(0, outer.i, carry=outer.carried) as inner:
                acc = inner.carried[0]
                assert isinstance(acc, Cx)
                even = b.icmp("eq", b.and_(inner.i, 1), 0)
                step = b.cast("sitofp", inner.i, "double")
                (new,) = b.cond(
                    even,
                    lambda acc=acc, step=step: [Cx(b.fadd(acc.re, step), acc.im)],
                    lambda acc=acc, step=step: [Cx(acc.re, b.fadd(acc.im, step))],
                )
                inner.next(new)
            outer.next(inner.results[0])
        total = outer.results[0]
        assert isinstance(total, Cx)
        b.store(total.re, f.arg(0))
        b.store(total.im, b.gep(f.arg(0), 1, "double"))

    run(body, out)
    pairs = [(j, i) for i in range(4) for j in range(i)]
    assert list(out) == [sum(j for j, _ in pairs if j % 2 == 0), sum(j for j, _ in pairs if j % 2)]


def test_a_loop_that_forgets_next_is_an_error() -> None:
    f = Function([])
    with pytest.raises(ValueError, match="carries 1 values"), f.builder.loop(0, 3, carry=[constant(0, "i64")]):
        pass


def test_while_loop() -> None:
    out = np.zeros(1, np.int64)

    def body(b: Builder, f: Function) -> None:
        def halve(s: list[object]) -> list[Val]:
            return [b.lshr(val(s[0]), 1), b.add(val(s[1]), 1)]

        state = b.while_loop([f.arg(1), constant(0, "i64")], lambda s: b.icmp("ne", val(s[0]), 0), halve)
        b.store(val(state[1]), f.arg(0))

    run(body, out, 1000)
    assert out[0] == 10


@pytest.mark.parametrize(
    "et", [dtypes.F32, dtypes.F64, dtypes.S8, dtypes.PRED, dtypes.BF16, dtypes.S4, dtypes.C64], ids=str
)
@pytest.mark.parametrize("n", [1, 7, 16])
def test_masked_tail_touches_only_its_lanes(et: ElementType, n: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, 16).astype(et.np)
    out = np.ones(16, et.np)

    def body(b: Builder, f: Function) -> None:
        mask = b.tail_mask(0, f.arg(2), 16)
        store_element(b, et, load_element(b, et, f.arg(0), 0, 16, mask), f.arg(1), 0, mask)

    run(body, x, out, n)
    want = np.ones(16, et.np)
    want[:n] = x[:n]
    assert (out == want).all()


@pytest.mark.parametrize("et", [dtypes.F32, dtypes.U16, dtypes.PRED, dtypes.C128], ids=str)
@pytest.mark.parametrize("lanes", [1, 8])
def test_gather_and_scatter(et: ElementType, lanes: int) -> None:
    order = np.array([5, 2, 7, 0, 1, 6, 3, 4], np.int64)
    x = np.arange(8).astype(et.np)
    out = np.zeros(8, et.np)
    back = np.zeros(8, et.np)

    def body(b: Builder, f: Function) -> None:
        with b.loop(0, 8, lanes) as lp:
            index = b.load(b.gep(f.arg(0), lp.i, "i64"), "i64", lanes)
            got = gather_element(b, et, f.arg(1), index)
            store_element(b, et, got, f.arg(2), lp.i)
            scatter_element(b, et, got, f.arg(3), index)

    run(body, order, x, out, back)
    assert (out == x[order]).all()
    assert (back == x).all()


def test_tail_mask_of_a_far_end_sets_every_lane() -> None:
    out = np.zeros(16, np.bool_)

    def body(b: Builder, f: Function) -> None:
        store_element(b, dtypes.PRED, b.tail_mask(5, f.arg(1), 16), f.arg(0), 0)

    run(body, out, (1 << 32) + 8)
    assert out.all()


def test_scalar_masks_branch() -> None:
    x, out = np.array([3.0], np.float32), np.array([9.0, 9.0], np.float32)

    def body(b: Builder, f: Function) -> None:
        yes = b.icmp("sgt", f.arg(2), 0)
        b.masked_store(b.masked_load(f.arg(0), b.not_(yes), "float"), f.arg(1), yes)
        b.masked_store(b.masked_load(f.arg(0), yes, "float"), b.gep(f.arg(1), 1, "float"), b.not_(yes))

    run(body, x, out, 1)
    assert list(out) == [0.0, 9.0]


def test_vector_shuffles_and_reductions() -> None:
    x, out = np.arange(8, dtype=np.int32), np.zeros(12, np.int32)

    def body(b: Builder, f: Function) -> None:
        v = b.load(f.arg(0), "i32", 8)
        even, odd = b.deinterleave(v)
        b.store(b.interleave(odd, even), f.arg(1))
        b.store(b.reduce("add", v), b.gep(f.arg(1), 8, "i32"))
        b.store(b.cast("zext", b.any(b.icmp("sgt", v, 6)), "i32"), b.gep(f.arg(1), 9, "i32"))
        b.store(b.cast("zext", b.all(b.icmp("sgt", v, 6)), "i32"), b.gep(f.arg(1), 10, "i32"))
        b.store(b.extract(v, b.cast("trunc", f.arg(2), "i32")), b.gep(f.arg(1), 11, "i32"))

    run(body, x, out, 5)
    assert list(out) == [1, 0, 3, 2, 5, 4, 7, 6, 28, 1, 0, 5]


def test_constants_are_exact() -> None:
    assert float_text(0.1, "double") == "0x3FB999999999999A"
    assert float_text(0.1, "float") == "0x3FB99999A0000000"
    assert float_text(1.0, "half") == "0xH3C00"
    assert scalar_text(255, "i8") == "-1"
    assert scalar_text(True, "i1") == "true"
    assert constant(2.0, "float", 4).text == "splat (float 0x4000000000000000)"
    assert vector_constant([1, 2], "i16").text == "<i16 1, i16 2>"


def test_equal_functions_are_one_kernel() -> None:
    def make(name: str) -> Function:
        f = Function([Param("ptr", "p")])
        f.builder.store(constant(1, "i8"), f.arg(0))
        f.builder.ret()
        del name
        return f

    first, second = make("x").source(), make("y").source()
    assert first.symbol == second.symbol
