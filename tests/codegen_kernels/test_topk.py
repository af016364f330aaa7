"""topk kernels: order, ties, NaN, every kind of element."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.codegen.kernels import kernel_or_reason
from xyla.testing.kernels import check, program, single


def topk(et: str, dims: str, k: int, out: str, largest: str = "true") -> str:
    result = f"({et}[{out}], s32[{out}])"
    return program(f"p = {et}[{dims}] parameter(0)", f"ROOT r = {result} topk(p), k={k}, largest={largest}")


@pytest.mark.parametrize("et", ["f32", "bf16", "s8", "u32", "f64"])
@pytest.mark.parametrize("largest", ["true", "false"])
def test_kinds(et: str, largest: str) -> None:
    check(topk(et, "3,5,200", 7, "3,5,7", largest))


@pytest.mark.parametrize(("n", "k"), [(5, 5), (40, 1), (1000, 100), (17, 16)])
def test_sizes(n: int, k: int) -> None:
    check(topk("f32", f"2,{n}", k, f"2,{k}"))


def test_specials() -> None:
    x = np.array([[1, np.nan, -0.0, 0.0, -np.inf, np.inf, np.nan, 3, 3, -np.nan] * 4], "f")
    check(topk("f32", "1,40", 12, "1,12"), x)
    check(topk("f32", "1,40", 12, "1,12", "false"), x)


def test_too_many_to_keep() -> None:
    _, inst = single(topk("f32", "2,4000", 2000, "2,2000"))
    assert "more than" in str(kernel_or_reason(inst))
