"""Prefix reductions by tiles give the values of the whole ones."""

from __future__ import annotations

import numpy as np
import pytest

from xyla import interp
from xyla.formats.hlo_text import parse
from xyla.passes.reduce_window_rewriter import ReduceWindowRewriter
from xyla.passmgr.context import Fp
from xyla.testing.pass_check import apply_pass, check_pass

MONOIDS = [
    ("add", "0", "s32"),
    ("maximum", "-inf", "f32"),
    ("multiply", "1", "u8"),
    ("xor", "0", "u16"),
    ("and", "true", "pred"),
]


def _window(op: str, init: str, kind: str, n: int, padding: str) -> str:
    return f"""HloModule m
f {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT c = {kind}[] {op}(a, b)
}}
ENTRY e {{
  x = {kind}[3,{n},2] parameter(0)
  z = {kind}[] constant({init})
  ROOT y = {kind}[3,{n},2] reduce-window(x, z), window={{size=1x{n}x1 pad=0_0x{padding}x0_0}}, to_apply=f
}}"""


@pytest.mark.parametrize("monoid", MONOIDS, ids=lambda m: f"{m[0]}-{m[2]}")
@pytest.mark.parametrize("n", [9, 33, 64, 100])
def test_every_direction_keeps_every_bit(monoid: tuple[str, str, str], n: int) -> None:
    """Inclusive and exclusive, from either end, over one to three levels of tiles."""
    for padding in (f"{n - 1}_0", f"0_{n - 1}", f"{n}_-1", f"-1_{n}"):
        assert check_pass(ReduceWindowRewriter(base_length=8), parse(_window(*monoid, n, padding))).changed


def test_sums_stay_close_and_keep_their_zeros() -> None:
    """A float sum is reassociated only, and not at all in strict mode."""
    module = parse(_window("add", "0", "f32", 1000, "999_0"))
    assert not apply_pass(ReduceWindowRewriter(base_length=32), module, fp=Fp.STRICT).changed
    x = np.random.default_rng(0).uniform(0.5, 1, (3, 1000, 2)).astype(np.float32)
    x[0] = -0.0
    after = apply_pass(ReduceWindowRewriter(base_length=32), module).module
    want, got = interp.run(module, [x])[0], interp.run(after, [x])[0]
    np.testing.assert_allclose(got, want, rtol=1e-5)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_a_scan_gives_its_last_carry() -> None:
    """Both results of an associative scan, at lengths within a tile and beyond."""
    for n in (1, 5, 8, 40):
        text = f"""HloModule m
f {{
  a = s32[3] parameter(0)
  b = s32[3] parameter(1)
  c = s32[3] add(b, a)
  ROOT t = (s32[3], s32[3]) tuple(c, c)
}}
ENTRY e {{
  x = s32[3,{n}] parameter(0)
  z = s32[] constant(0)
  i = s32[3] broadcast(z), dimensions={{}}
  ROOT y = (s32[3,{n}], s32[3]) scan(x, i), dimensions={{1}}, num_carries=1, is_associative=true, to_apply=f
}}"""
        assert check_pass(ReduceWindowRewriter(base_length=8), parse(text)).changed
