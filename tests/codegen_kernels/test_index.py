"""Index arithmetic: every component, evaluated lane by lane, against plain integers."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.codegen.elements import store_element
from xyla.codegen.index import IndexMath, Ix, number, reshape_components
from xyla.codegen.kernel import Frame
from xyla.codegen.kernels import KERNEL
from xyla.codegen.llvm import Val
from xyla.runtime.objects import ObjectStore
from xyla.support import dtypes
from xyla.testing.kernels import KernelCall

LANES = 8


def lanes_of(make, start: int, step: int, align: int = 1) -> list[list[int]]:
    """Lane values of each component that `make(math, x)` gives for x = start + step*lane (start known at run time)."""
    frame = Frame(1, 1)
    m = IndexMath(frame.b, LANES, "i32")
    base = frame.b.load(frame.operands[0], "i64")
    x = Ix(base, step, 0, 10**6, align)
    results = make(m, x)
    for k, r in enumerate(results):
        store_element(frame.b, dtypes.S32, m.vector(r), frame.outputs[0], k * LANES)
    spec = frame.spec("test", 1)
    out = np.zeros(LANES * len(results), np.int32)
    KernelCall(ObjectStore(None), spec)([np.array([start], np.int64), out], 0, 1)
    return out.reshape(-1, LANES).tolist()


@pytest.mark.parametrize(
    ("start", "step", "align"), [(0, 0, 1), (80, 1, 16), (17, 1, 1), (20, 1, 4), (16, 3, 1), (16, 16, 16), (44, 2, 4)]
)
@pytest.mark.parametrize("c", [1, 2, 3, 8, 16, 48])
def test_divmod(start: int, step: int, align: int, c: int) -> None:
    values = [start + step * k for k in range(LANES)]
    assert lanes_of(lambda m, x: m.divmod(x, c), start, step, align) == [
        [v // c for v in values],
        [v % c for v in values],
    ]


@pytest.mark.parametrize("step", [0, 1, 5])
def test_arithmetic_and_clamp(step: int) -> None:
    values = [40 + step * k for k in range(LANES)]
    got = lanes_of(lambda m, x: (m.rsub(100, x), m.mul(m.add(x, 7), 3), m.clamp(x, 42, 60), m.add(x, x)), 40, step)
    assert got == [
        [100 - v for v in values],
        [(v + 7) * 3 for v in values],
        [min(max(v, 42), 60) for v in values],
        [2 * v for v in values],
    ]


@pytest.mark.parametrize(("dims", "want"), [((4, 6), (24,)), ((24,), (2, 3, 4)), ((2, 12), (4, 6)), ((1, 24), (24, 1))])
def test_reshape_components(dims: tuple[int, ...], want: tuple[int, ...]) -> None:
    def make(m: IndexMath, x: Ix) -> list[Ix]:
        inner = Ix(x.base, 1, 0, dims[-1] - 1)
        comps = [number(1) if n > 1 else number(0) for n in dims[:-1]] + [inner]
        return reshape_components(m, comps, dims, want)

    flat = [sum(1 * int(np.prod(dims[d + 1 :])) for d in range(len(dims) - 1) if dims[d] > 1) + k for k in range(LANES)]
    if dims[-1] < LANES:
        flat = flat[: dims[-1]]
    got = np.array(lanes_of(make, 0, 1))[:, : len(flat)]
    assert got.tolist() == [list(map(int, c)) for c in np.unravel_index(flat, want)]


def test_known_bounds_fold() -> None:
    frame = Frame(1, 0)
    m = IndexMath(frame.b, LANES, "i32")
    x = Ix(Val("%x", "i64"), 1, 0, 15, 16)
    before = len(frame.b.lines)
    assert m.divmod(x, 16) == (m.divmod(x, 16)[0], x)
    assert m.clamp(x, 0, 15) is x
    assert m.compare("slt", x, 16) is True
    assert m.compare("sge", x, 16) is False
    assert len(frame.b.lines) == before


def test_the_kernel_table_is_total() -> None:
    assert KERNEL.missing() == ()
