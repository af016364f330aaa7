"""Padded programs compute what dynamic ones do, for every size from nothing to the bound."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from xyla import interp
from xyla.formats.hlo_text import parse
from xyla.passes.dynamic_padder import DynamicPadder
from xyla.support.status import Status, XylaError
from xyla.testing.pass_check import apply_pass, difference

COMPUTATIONS = """
add {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}
fadd {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
fmax {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
first_nonzero {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  zero = s32[] constant(0)
  empty = pred[] compare(a, zero), direction=EQ
  ROOT c = s32[] select(empty, b, a)
}
arg {
  a = s32[] parameter(0)
  i = s32[] parameter(1)
  b = s32[] parameter(2)
  j = s32[] parameter(3)
  less = pred[] compare(a, b), direction=LE
  v = s32[] select(less, a, b)
  k = s32[] select(less, i, j)
  ROOT t = (s32[], s32[]) tuple(v, k)
}
less {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
second {
  a = s32[] parameter(0)
  ROOT b = s32[] parameter(1)
}
square {
  a = s32[] parameter(0)
  ROOT b = s32[] multiply(a, a)
}
"""
# x = s32[<=4,3] of size n, y = s32[2,<=3] of size m, f = f32[1,<=4,2] of size n; k is m, or 0 to 3.
CASES = {
    "negate": "ROOT r = s32[<=4,3] negate(x)",
    "map": "ROOT r = s32[<=4,3] map(x), dimensions={0,1}, to_apply=square",
    "transpose": "ROOT r = s32[3,<=4] transpose(x), dimensions={1,0}",
    "reverse": "ROOT r = s32[<=4,3] reverse(x), dimensions={0}",
    "broadcast": "ROOT r = s32[5,<=4,3] broadcast(x), dimensions={1,2}",
    "concatenate": "ROOT r = s32[<=8,3] concatenate(x, x), dimensions={0}",
    "pad": "ROOT r = s32[<=12,3] pad(x, k), padding=2_3_1x0_0",
    "sum": "ROOT r = s32[3] reduce(x, k), dimensions={0}, to_apply=add",
    "sum of rows": "ROOT r = s32[<=4] reduce(x, k), dimensions={1}, to_apply=add",
    "any combiner": "ROOT r = s32[3] reduce(x, k), dimensions={0}, to_apply=first_nonzero",
    "variadic": "ROOT r = (s32[2], s32[2]) reduce(y, y, k, k), dimensions={1}, to_apply=arg",
    "float maximum": (
        "ninf = f32[] constant(-inf)\n  ROOT r = f32[1,2] reduce(f, ninf), dimensions={1}, to_apply=fmax"
    ),
    "dot": "ROOT r = s32[3,3] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "outer dot": "ROOT r = s32[<=4,<=4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "sort": "ROOT r = s32[<=4,3] sort(x), dimensions={0}, to_apply=less",
    "split": "ROOT r = s32[<=4,1,3] reshape(x)",
    "join": "ROOT r = s32[<=12] reshape(x)",
    "join minor": "ROOT r = s32[<=6] reshape(y)",
    "swap minor": "ROOT r = s32[<=3,2] reshape(y)",
    "dynamic reshape": "p = s32[] multiply(n, three)\n  ROOT r = s32[<=12] dynamic-reshape(x, p)",
    "slice": "ROOT r = s32[<=4,2] slice(x), slice={[0:4], [1:3]}",
    "dynamic slice": "ROOT r = s32[<=4,1] dynamic-slice(x, k, k), dynamic_slice_sizes={4,1}",
    "update": "ROOT r = s32[<=4,3] dynamic-update-slice(x, u, k, zero)",
    "dynamic update": (
        "b = s32[5,3] broadcast(k), dimensions={}\n  ROOT r = s32[5,3] dynamic-update-slice(b, x, k, zero)"
    ),
    "gather rows": (
        "ROOT r = s32[<=4,2] gather(two, x0), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}"
    ),
    "scatter rows": (
        "ROOT r = s32[5,2] scatter(two, x0, v), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
    ),
    "scatter into": (
        "ROOT r = s32[<=4,3] scatter(x, at, w), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second"
    ),
    "windows": "ROOT r = s32[<=4,3] reduce-window(x, k), window={size=3x1 pad=1_1x0_0}, to_apply=add",
    "strided windows": (
        "ROOT r = s32[<=2,3] reduce-window(x, k), window={size=2x1 stride=2x1 pad=0_0x0_0}, to_apply=add"
    ),
    "dilated windows": (
        "ROOT r = s32[<=4,3] reduce-window(x, k), "
        "window={size=2x1 pad=-1_0x0_0 lhs_dilate=2x1 rhs_dilate=2x1}, to_apply=add"
    ),
    "convolution": "ROOT r = f32[1,<=4,2] convolution(f, kernel), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f",
    "repeated": (
        "one = s32[] constant(1)\n  few = s32[] minimum(k, one)\n"
        "  z = s32[<=4,3] set-dimension-size(xs, few), dimensions={0}\n  ROOT r = s32[<=4,3] add(z, x)"
    ),
    "size": "ROOT r = s32[] get-dimension-size(x), dimensions={0}",
    "shrink and grow": (
        "a = s32[<=4,3] set-dimension-size(x, k), dimensions={0}\n  b = s32[<=4,3] set-dimension-size(a"
        ", n), dimensions={0}\n  ROOT r = s32[<=4,3] add(b, x)"
    ),
}


def _module(body: str) -> str:
    return f"""HloModule m
{COMPUTATIONS}
ENTRY main {{
  xs = s32[4,3] parameter(0)
  ys = s32[2,3] parameter(1)
  fs = f32[1,4,2] parameter(2)
  n = s32[] parameter(3)
  k = s32[] parameter(4)
  two = s32[5,2] parameter(5)
  kernel = f32[3,2,2] parameter(6)
  zero = s32[] constant(0)
  three = s32[] constant(3)
  x = s32[<=4,3] set-dimension-size(xs, n), dimensions={{0}}
  y = s32[2,<=3] set-dimension-size(ys, k), dimensions={{1}}
  f = f32[1,<=4,2] set-dimension-size(fs, n), dimensions={{1}}
  x0s = s32[4,1] slice(xs), slice={{[0:4], [0:1]}}
  x0 = s32[<=4,1] set-dimension-size(x0s, n), dimensions={{0}}
  vs = s32[4,2] slice(xs), slice={{[0:4], [0:2]}}
  v = s32[<=4,2] set-dimension-size(vs, n), dimensions={{0}}
  u = s32[1,3] slice(xs), slice={{[1:2], [0:3]}}
  w = s32[2,3] slice(xs), slice={{[1:3], [0:3]}}
  at = s32[2,1] slice(ys), slice={{[0:2], [0:1]}}
  {body}
}}"""


@pytest.mark.parametrize("name", CASES)
def test_every_size_gives_the_same_values(name: str) -> None:
    """Sizes 0 to 4 of x and f, 0 to 3 of y; what lies past a size is rubbish (large numbers, infinities)."""
    module = parse(_module(CASES[name]))
    after = apply_pass(DynamicPadder(), module).module
    rng = np.random.default_rng(1)
    compared = 0
    for n, k in product(range(5), range(4)):
        xs = rng.integers(-2, 5, (4, 3)).astype(np.int32)
        fs = rng.integers(-4, 5, (1, 4, 2)).astype(np.float32)
        xs[n:], fs[:, n:] = 77, np.inf
        ys, two = rng.integers(-1, 5, (2, 3)).astype(np.int32), rng.integers(-9, 9, (5, 2)).astype(np.int32)
        kernel = rng.integers(-4, 5, (3, 2, 2)).astype(np.float32)
        args = [xs, ys, fs, np.int32(n), np.int32(k), two, kernel]
        try:
            want = interp.run(module, args)
        except XylaError:
            continue  # a size that the program itself does not allow (a window larger than what is there)
        assert difference(interp.run(after, args), want) is None, (n, k)
        compared += 1
    assert compared >= 12


GATHER = "offset_dims={0}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=0, slice_sizes={1,3}"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("ROOT r = s32[<=2,<=6] reshape(x)", "leaves open"),
        (f"ROOT r = s32[3] gather(x, k), {GATHER}", "is indexed"),
        ("ROOT r = s32[4,3] negate(x)", "as dynamic as its operand"),
    ],
)
def test_what_is_not_done_is_refused(body: str, why: str) -> None:
    """A located UNIMPLEMENTED error that names the op and the reason."""
    with pytest.raises(XylaError, match=why) as caught:
        apply_pass(DynamicPadder(), parse(_module(body)))
    assert caught.value.status is Status.UNIMPLEMENTED
