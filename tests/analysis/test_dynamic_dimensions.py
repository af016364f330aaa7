"""Sizes of dynamic dimensions against what the evaluator gives, and which of them are known to be equal."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from xyla import interp
from xyla.analysis.dynamic_dimensions import DynamicDimensions
from xyla.analysis.dynamic_rules import Known
from xyla.analysis.reshapes import common_factors
from xyla.analysis.sizes import Kind, Size, Sizes
from xyla.formats.hlo_text import parse
from xyla.hlo.module import Instruction, Module
from xyla.support.status import XylaError

# x = s32[<=4,3] of size n, y = s32[2,<=3] of size k.
PROGRAMS = {
    "negate": "ROOT r = s32[<=4,3] negate(x)",
    "transpose": "ROOT r = s32[3,<=4] transpose(x), dimensions={1,0}",
    "broadcast": "ROOT r = s32[5,<=4,3] broadcast(x), dimensions={1,2}",
    "concatenate": "ROOT r = s32[<=9,3] concatenate(x, o, x), dimensions={0}",
    "pad": "ROOT r = s32[<=14,3] pad(x, k), padding=2_3_2x0_0",
    "negative pad": "ROOT r = s32[<=4,3] pad(x, k), padding=1_-1x0_0",
    "rows": "ROOT r = s32[<=4] reduce(x, k), dimensions={1}, to_apply=add",
    "outer dot": "ROOT r = s32[<=4,<=4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "join": "ROOT r = s32[<=12] reshape(x)",
    "swap": "ROOT r = s32[<=3,2] reshape(y)",
    "dynamic reshape": "p = s32[] multiply(n, three)\n  ROOT r = s32[<=12] dynamic-reshape(x, p)",
    "windows": "ROOT r = s32[<=4,3] reduce-window(x, k), window={size=3x1 pad=1_1x0_0}, to_apply=add",
    "strided windows": "ROOT r = s32[<=2,3] reduce-window(x, k), window={size=2x1 stride=2x1}, to_apply=add",
    "dilated windows": (
        "ROOT r = s32[<=6,3] reduce-window(x, k), window={size=2x1 lhs_dilate=2x1 pad=0_0x0_0}, to_apply=add"
    ),
    "set again": "ROOT r = s32[<=4,3] set-dimension-size(x, k), dimensions={0}",
    "sort": "ROOT r = s32[<=4,3] sort(x), dimensions={0}, to_apply=less",
}


def module_of(body: str) -> Module:
    return parse(f"""HloModule m
add {{ a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT c = s32[] add(a, b) }}
less {{ a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }}
ENTRY main {{
  xs = s32[4,3] parameter(0)
  ys = s32[2,3] parameter(1)
  n = s32[] parameter(2)
  k = s32[] parameter(3)
  o = s32[1,3] parameter(4)
  three = s32[] constant(3)
  x = s32[<=4,3] set-dimension-size(xs, n), dimensions={{0}}
  y = s32[2,<=3] set-dimension-size(ys, k), dimensions={{1}}
  {body}
}}""")


def value(size: Size, scalars: dict[Instruction, int]) -> int:
    """What a size is when the scalars have these values."""
    if size.kind is Kind.CONSTANT:
        return size.value
    if size.source is not None:
        return scalars[size.source]
    x, y = (value(a, scalars) for a in size.args)
    table = {
        Kind.ADD: x + y,
        Kind.SUBTRACT: x - y,
        Kind.MULTIPLY: x * y,
        Kind.DIVIDE: x // y if y else 0,
        Kind.MINIMUM: min(x, y),
        Kind.MAXIMUM: max(x, y),
        Kind.JOINT: y if x == 1 else x,
    }
    return table[size.kind]


def array(known: Known) -> Any:
    assert not isinstance(known, list)
    return known


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_are_those_that_the_evaluator_gives(name: str) -> None:
    module = module_of(PROGRAMS[name])
    found = array(DynamicDimensions(module.entry).of(module.entry.root))
    assert set(found) == {d for d in range(module.entry.root.shape.rank) if module.entry.root.shape.is_dynamic_dim(d)}
    n_inst, k_inst = module.entry.parameters[2:4]
    compared = 0
    for n, k in product(range(-1, 6), range(4)):
        args = [
            np.ones((4, 3), np.int32),
            np.ones((2, 3), np.int32),
            np.int32(n),
            np.int32(k),
            np.ones((1, 3), np.int32),
        ]
        try:
            (result,) = interp.run(module, args)
        except XylaError:
            continue
        for d, size in found.items():
            got = value(size, {n_inst: n, k_inst: k})
            assert got == result.shape[d], (n, k, d)
            assert size.low <= got <= size.high
            compared += 1
    assert compared >= 12


def sizes_in(body: str, *names: str) -> list[Known]:
    module = module_of(body)
    known = DynamicDimensions(module.entry)
    found = (module.entry.find(name) for name in names)
    return [known.of(inst) for inst in found if inst is not None]


def test_equal_sizes_are_one_object() -> None:
    a, b, c, d = sizes_in(
        """size = s32[] get-dimension-size(x), dimensions={0}
        a = s32[<=4,3] negate(x)
        b = s32[<=4,3] set-dimension-size(xs, size), dimensions={0}
        twice = s32[] add(size, size)
        e = s32[8] broadcast(k), dimensions={}
        c = s32[<=8] set-dimension-size(e, twice), dimensions={0}
        one = s32[<=4] reduce(b, k), dimensions={1}, to_apply=add
        d = s32[<=8] concatenate(one, one), dimensions={0}
        ROOT r = (s32[<=8], s32[<=8], s32[<=4,3]) tuple(c, d, a)""",
        "a", "b", "c", "d",
    )  # fmt: skip
    assert array(a)[0] is array(b)[0]
    assert array(c)[0] is array(d)[0]
    assert array(c)[0] is not array(a)[0]


def test_a_size_that_is_the_bound_is_no_dynamic_size() -> None:
    (a,) = sizes_in(
        "four = s32[] constant(4)\n ROOT a = s32[4,3] set-dimension-size(x, four), dimensions={0}", "a"
    )  # fmt: skip
    assert a == {}


def test_parameters_bring_their_sizes() -> None:
    module = parse("HloModule m\nENTRY e {\n p = (f32[<=5,2], f32[3]) parameter(0)\n ROOT g = f32[<=5,2] "
                   "get-tuple-element(p), index=0\n}")  # fmt: skip
    known = DynamicDimensions(module.entry)
    size = array(known.of(module.entry.root))[0]
    assert (size.kind, size.source, size.index, size.dim) == (Kind.GIVEN, module.entry.parameters[0], (0,), 0)
    assert (size.low, size.high) == (0, 5)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("ROOT r = s32[<=2,<=6] reshape(x)", "reshape: .*leaves open"),
        ("i = s32[<=3] iota(), iota_dimension=0\n ROOT r = s32[<=3] negate(i)", "iota.*no operand says"),
    ],
)
def test_what_is_not_known_is_said_when_it_is_asked_for(body: str, why: str) -> None:
    module = module_of(body)
    known = DynamicDimensions(module.entry)
    with pytest.raises(XylaError, match=why):
        known.of(module.entry.root)


def test_arithmetic_that_may_wrap_has_no_bounds() -> None:
    sizes, module = Sizes(), module_of("ROOT r = s32[<=4,3] negate(x)")
    big = sizes.given(module.entry.root, (), 0, 2**20)
    product_ = sizes.multiply(big, big)
    assert product_.low < 0
    assert sizes.clamp(product_, 7).high == 7
    assert sizes.clamp(big, 2**20) is big


def test_common_factors_of_reshapes() -> None:
    assert common_factors((4, 6), (2, 2, 2, 3)) == [([0], [0, 1]), ([1], [2, 3])]
    assert common_factors((6, 4), (3, 8)) == [([0, 1], [0, 1])]
    assert common_factors((2, 1), (2,)) == [([0], [0]), ([1], [])]
    assert common_factors((), (1,)) == [([], [0])]
