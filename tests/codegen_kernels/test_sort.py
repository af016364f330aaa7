"""Sort kernels: stability, any dimension, any comparator."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.testing.kernels import check, program


def less(types: list[str], direction: str = "LT", kind: str = "") -> str:
    lines = [f"  p{i} = {types[i // 2]}[] parameter({i})" for i in range(2 * len(types))]
    return "f {\n" + "\n".join(lines) + f"\n  ROOT r = pred[] compare(p0, p1), direction={direction}{kind}\n}}\n"


def sort(shapes: list[str], dim: int, comparator: str) -> str:
    result = shapes[0] if len(shapes) == 1 else f"({', '.join(shapes)})"
    lines = [f"p{i} = {s} parameter({i})" for i, s in enumerate(shapes)]
    names = ", ".join(f"p{i}" for i in range(len(shapes)))
    tail = f"ROOT r = {result} sort({names}), dimensions={{{dim}}}, is_stable=true, to_apply=f"
    return program(*lines, tail, computations=comparator)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 16, 17, 100, 1025])
def test_lengths(n: int) -> None:
    check(sort([f"f32[{n}]"], 0, less(["f32"])))


CASES = {
    "several operands, middle dimension": (["s8[3,77,4]", "f32[3,77,4]"], 1, less(["s8", "f32"])),
    "descending, three types": (["bf16[3,100]", "s32[3,100]", "c64[3,100]"], 1, less(["bf16", "s32", "c64"], "GT")),
    "a layout": (["f32[100,3]{0,1}"], 0, less(["f32"])),
    "a unit dimension": (["f32[7,1]"], 1, less(["f32"])),
    "empty": (["f32[7,0]", "s32[7,0]"], 1, less(["f32", "s32"])),
}


@pytest.mark.parametrize("name", CASES)
def test_sorts(name: str) -> None:
    check(sort(*CASES[name]))


def test_total_order() -> None:
    x = np.array([1, np.nan, -0.0, 0.0, -np.nan, -np.inf, np.inf, -0.0, 0.0, -1], "f")
    check(sort(["f32[10]"], 0, less(["f32"], "LT", ", type=TOTALORDER")), x)


def test_a_comparator_that_is_no_order_ends() -> None:
    """x < y and y < x both hold: the result is a permutation all the same."""
    comparator = (
        "f {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=NE\n}\n"
    )
    from xyla.testing.kernels import kernel_of, run_kernel

    inst, spec = kernel_of(sort(["f32[100]"], 0, comparator))
    x = np.random.default_rng(0).standard_normal(100).astype("f")
    (got,) = run_kernel(spec, inst, [x])
    assert np.array_equal(np.sort(got), np.sort(x))
