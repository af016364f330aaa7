from __future__ import annotations

import numpy as np

from tests.interp.hlo import one, run
from xyla.formats.hlo_text import parse
from xyla.interp.session import Session

N = 1 << 19
R, C = 512, 1024
ADD = "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"


def step_ops(body: str) -> list[str]:
    module = parse(f"HloModule m\n{ADD}\nENTRY e {{\n{body}\n}}\n", "t")
    return [s.inst.op.name for s in Session().plan(module.entry).steps]


CHAIN = f"""x = f32[{R},{C}] parameter(0)
    s = f32[] parameter(1)
    t = f32[{C},{R}] parameter(2)
    u = f32[{R},{C}] transpose(t), dimensions={{1,0}}
    b = f32[{R},{C}] broadcast(s), dimensions={{}}
    m = f32[{R},{C}] multiply(x, b)
    k = f32[] constant(3)
    kb = f32[{R},{C}] broadcast(k), dimensions={{}}
    p = pred[{R},{C}] compare(m, u), direction=LT
    v = f32[{R},{C}] select(p, kb, m)
    w = s32[{R},{C}] convert(v)
    ROOT r = (s32[{R},{C}], f32[{R},{C}]) tuple(w, m)"""


def test_a_chain_gives_what_its_steps_give() -> None:
    rng = np.random.default_rng(0)
    x, t = rng.standard_normal((R, C)).astype(np.float32), rng.standard_normal((C, R)).astype(np.float32)
    w, m = run(CHAIN, x, np.float32(2), t)
    np.testing.assert_array_equal(m, x * np.float32(2))
    np.testing.assert_array_equal(w, np.where(m < t.T, np.float32(3), m).astype(np.int32))


def test_four_steps_become_one_and_a_tuple_element_each() -> None:
    assert step_ops(CHAIN) == ["transpose", "broadcast", "convert", "multiply", "convert", "tuple"]


def test_a_step_that_needs_the_chain_closes_it() -> None:
    body = f"""x = f32[{N}] parameter(0)
    a = f32[{N}] add(x, x)
    z = f32[] constant(0)
    s = f32[] reduce(a, z), dimensions={{0}}, to_apply=f
    sb = f32[{N}] broadcast(s), dimensions={{}}
    c = f32[{N}] subtract(a, sb)
    ROOT r = f32[{N}] negate(c)"""
    got = one(body, np.ones(N, np.float32), computations=ADD)
    assert (got == 2 * N - 2).all()
    assert step_ops(body) == ["add", "reduce", "broadcast", "negate", "negate"]


def test_arrays_of_other_dims_do_not_join() -> None:
    body = f"""x = f32[{N}] parameter(0)
    y = f32[{2 * N}] parameter(1)
    a = f32[{N}] add(x, x)
    b = f32[{2 * N}] add(y, y)
    c = f32[{N}] negate(a)
    ROOT r = (f32[{N}], f32[{2 * N}]) tuple(c, b)"""
    c, b = run(body, np.ones(N, np.float32), np.ones(2 * N, np.float32))
    assert (c == -2).all()
    assert (b == 2).all()


def test_small_arrays_are_left_alone() -> None:
    assert step_ops("x = f32[8] parameter(0)\na = f32[8] add(x, x)\nROOT r = f32[8] negate(a)") == ["add", "negate"]
