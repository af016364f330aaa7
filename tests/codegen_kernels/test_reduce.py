"""Reduction kernels: by rows, by columns, element by element; known monoids and arbitrary reducers."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.testing.kernels import check, kernel_of, monoid, program, run_kernel


def reduction(op: str, source: str, result: str, dims: str, init: str = "3") -> str:
    et = source[: source.index("[")]
    return program(
        f"p = {source} parameter(0)",
        f"c = {et}[] constant({init})",
        f"ROOT r = {result} reduce(p, c), dimensions={{{dims}}}, to_apply=f",
        computations=monoid(op, et),
    )


CASES = {
    "a short row": ("add", "f32[6,20]", "f32[6]", "1"),
    "a long row with a tail": ("add", "f32[6,1003]", "f32[6]", "1"),
    "everything": ("add", "f32[6,1003]", "f32[]", "0,1"),
    "columns": ("add", "f32[50,1003]", "f32[1003]", "0"),
    "several column blocks": ("add", "f32[5,3003]", "f32[3003]", "0"),
    "outer and inner": ("add", "f32[5,7,9,33]", "f32[5,9]", "1,3"),
    "kept minor": ("add", "f32[5,7,9,33]", "f32[7,33]", "0,2"),
    "layouts by rows": ("add", "f32[5,7,9,33]{0,2,1,3}", "f32[7,33]{0,1}", "0,2"),
    "layouts by columns": ("add", "f32[5,7,9,33]{2,1,3,0}", "f32[5,9]{1,0}", "1,3"),
    "layouts that fit neither": ("add", "f32[5,7,9,33]{2,1,3,0}", "f32[5,9]{0,1}", "1,3"),
    "nothing reduced": ("add", "s32[5,7]", "s32[5,7]", ""),
    "an empty dimension": ("add", "f32[3,0]", "f32[3]", "1"),
    "unit dimensions": ("add", "s64[3,1,1,5,1]", "s64[3,1,5]", "1,4"),
    "max": ("maximum", "f32[5,70]", "f32[5]", "1"),
    "min of bytes": ("minimum", "s8[5,70]", "s8[5]", "1"),
    "product": ("multiply", "f64[5,40]", "f64[5]", "1"),
    "and": ("and", "pred[5,70]", "pred[5]", "1"),
    "xor": ("xor", "u16[5,70]", "u16[5]", "1"),
    "complex rows": ("add", "c64[5,70]", "c64[5]", "1"),
    "complex columns": ("add", "c64[50,70]", "c64[70]", "0"),
    "complex product": ("multiply", "c128[5,40]", "c128[5]", "1"),
    "bf16 accumulates in f32": ("add", "bf16[5,700]", "bf16[5]", "1"),
    "f16 columns": ("add", "f16[60,70]", "f16[70]", "0"),
}


@pytest.mark.parametrize("name", CASES)
def test_monoids(name: str) -> None:
    op, source, result, dims = CASES[name]
    check(reduction(op, source, result, dims, "true" if source[0] == "p" else "(3,1)" if source[0] == "c" else "3"))


def test_a_short_float_sum_is_the_sequential_one() -> None:
    inst, spec = kernel_of(reduction("add", "f32[3,32]", "f32[3]", "1", "0"))
    x = np.random.default_rng(0).standard_normal((3, 32)).astype("f") * np.float32(1e6)
    (got,) = run_kernel(spec, inst, [x, np.float32(0)])
    want = np.zeros(3, "f")
    for k in range(32):
        want = want + x[:, k]
    assert np.array_equal(got, want)


def test_max_keeps_nan_and_minus_zero_sums_stay() -> None:
    x = np.full((2, 64), -0.0, "f")
    x[0, 37] = np.nan
    inst, spec = kernel_of(reduction("maximum", "f32[2,64]", "f32[2]", "1", "-inf"))
    (got,) = run_kernel(spec, inst, [x, np.float32(-np.inf)])
    assert np.isnan(got[0])
    inst, spec = kernel_of(reduction("add", "f32[2,64]", "f32[2]", "1", "-0"))
    (got,) = run_kernel(spec, inst, [np.full((2, 64), -0.0, "f"), np.float32(-0.0)])
    assert np.signbit(got).all()


ARGMAX = """f {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  c = pred[] compare(a, b), direction=GE
  x = f32[] select(c, a, b)
  y = s32[] select(c, i, j)
  ROOT t = (f32[], s32[]) tuple(x, y)
}
"""


@pytest.mark.parametrize(("dim", "n"), [(0, 37), (1, 50)])
def test_argmax(dim: int, n: int) -> None:
    check(
        program(
            "p = f32[50,37] parameter(0)",
            "q = s32[50,37] parameter(1)",
            "c = f32[] constant(-inf)",
            "d = s32[] constant(0)",
            f"ROOT r = (f32[{n}], s32[{n}]) reduce(p, q, c, d), dimensions={{{dim}}}, to_apply=f",
            computations=ARGMAX,
        )
    )


BRANCHES = """one {
  t = s32[] parameter(0)
  ROOT r = s32[] add(t, t)
}
two {
  t = s32[] parameter(0)
  n = s32[] negate(t)
  c = s32[] constant(7)
  ROOT r = s32[] add(n, c)
}
cond {
  s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  z = s32[] constant(1)
  ROOT r = pred[] compare(i, z), direction=GT
}
body {
  s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = s32[] get-tuple-element(s), index=1
  o = s32[] constant(1)
  j = s32[] subtract(i, o)
  w = s32[] add(v, j)
  ROOT r = (s32[], s32[]) tuple(j, w)
}
f {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = pred[] compare(a, b), direction=LT
  x = s32[] conditional(c, b, a), true_computation=one, false_computation=two
  t = (s32[], s32[]) tuple(b, x)
  w = (s32[], s32[]) while(t), condition=cond, body=body
  ROOT r = s32[] get-tuple-element(w), index=1
}
"""


def test_a_reducer_may_branch_and_loop() -> None:
    check(
        program(
            "p = s32[9,17] parameter(0)",
            "c = s32[] constant(5)",
            "ROOT r = s32[9] reduce(p, c), dimensions={1}, to_apply=f",
            computations=BRANCHES,
        )
    )


def test_an_init_of_another_precision() -> None:
    check(
        program(
            "p = f16[9,50] parameter(0)",
            "c = f32[] constant(3)",
            "ROOT r = f16[9] reduce(p, c), dimensions={1}, to_apply=f",
            computations=monoid("maximum", "f16"),
        )
    )
