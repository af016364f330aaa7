"""Expanded elementary functions: their accuracy in every type, and at special values."""

from __future__ import annotations

import numpy as np
import pytest

from xyla import interp
from xyla.clients.compare import max_ulp
from xyla.formats.hlo_text import parse
from xyla.passes.math_expanders import (
    AcosExpander,
    AcoshExpander,
    AsinExpander,
    AsinhExpander,
    AtanhExpander,
    CoshExpander,
    ErfExpander,
    SinhExpander,
    TanExpander,
)
from xyla.passmgr.base import Pass
from xyla.support.dtypes import by_name
from xyla.testing.pass_check import apply_pass

# Pass, op, where it is defined, and its bound in ULP for f32 and f64.
CASES = [
    (AcosExpander(), "acos", (-1, 1), 3),
    (AcoshExpander(), "acosh", (1, np.inf), 4),
    (AsinExpander(), "asin", (-1, 1), 3),
    (AsinhExpander(), "asinh", (-np.inf, np.inf), 4),
    (AtanhExpander(), "atanh", (-1, 1), 3),
    (CoshExpander(), "cosh", (-np.inf, np.inf), 3),
    (SinhExpander(), "sinh", (-np.inf, np.inf), 4),
    (TanExpander(), "tan", (-np.inf, np.inf), 3),
    (ErfExpander(), "erf", (-np.inf, np.inf), 4),
]


def _points(kind: str, low: float, high: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    spread = np.concatenate([rng.uniform(-12, 12, 3000), rng.uniform(-1.2, 1.2, 3000), 1 + rng.uniform(0, 0.01, 500)])
    scales = 10.0 ** rng.uniform(-30, 30, 2000) * rng.choice([-1, 1], 2000)
    edges = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 88.5, 89.2, -89.2, 709.9, 710.3, 3e38, 1e-38, 0.5, 6.0, 4.0]
    x = np.concatenate([spread, scales, edges])
    if np.isfinite(high):
        x = np.concatenate([x[np.abs(x) < 1], edges])
    elif low == 1:
        x = np.concatenate([np.abs(x) + 1, edges])
    with np.errstate(all="ignore"):
        return x.astype(by_name(kind).np)


def _both(pass_: Pass, op: str, kind: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    module = parse(
        f"HloModule m\nENTRY e {{\n  x = {kind}[{x.size}] parameter(0)\n  ROOT y = {kind}[{x.size}] {op}(x)\n}}"
    )
    outcome = apply_pass(pass_, module)
    assert outcome.changed
    assert f"{op}(" not in outcome.module.to_string()
    return interp.run(module, [x])[0], interp.run(outcome.module, [x])[0]


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[1])
def test_is_within_its_bound_everywhere(case: tuple[Pass, str, tuple[float, float], int], kind: str) -> None:
    """NaN where the function has NaN, the same infinities and zeros, and no more than the stated ULP elsewhere."""
    pass_, op, (low, high), bound = case
    x = _points(kind, low, high)
    want, got = _both(pass_, op, kind, x)
    w, g = want.astype(np.float64), got.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(g), np.isnan(w))
    zero = w == 0
    np.testing.assert_array_equal(np.signbit(g[zero]), np.signbit(w[zero]))
    known = ~np.isnan(w)
    assert max_ulp(got[known], want[known]) <= (bound if kind in ("f32", "f64") else 1)


def test_complex_functions_are_left() -> None:
    """The formulas hold for real numbers only."""
    module = parse("HloModule m\nENTRY e {\n  x = c64[4] parameter(0)\n  ROOT y = c64[4] tan(x)\n}")
    assert not apply_pass(TanExpander(), module).changed
