"""sqrt(x) is not x to the half where x is -inf or -0, whether the exponent is a scalar, a vector or a broadcast."""

from __future__ import annotations

import numpy as np
import pytest

import xyla
from xyla.formats.hlo_text import parse

# (dimensions, the exponent).
FORMS = {
    "scalar": ("", "y = {T}[] parameter(1)"),
    "vector": ("3", "y = {T}[3] parameter(1)"),
    "broadcast": ("3", "s = {T}[] parameter(1)\n y = {T}[3] broadcast(s), dimensions={{}}"),
}


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("form", FORMS)
def test_half_power_of_negative_zero_and_infinity(name: str, form: str) -> None:
    dims, exponent = FORMS[form]
    kind = f"{name}[{dims}]"
    body = f"x = {kind} parameter(0)\n {exponent.format(T=name)}\n ROOT r = {kind} power(x, y)"
    module = parse(f"HloModule m\nENTRY e {{\n {body}\n}}")
    shapes = [p.shape for p in module.entry.parameters]
    for base, expected in ((-np.inf, np.inf), (-0.0, 0.0)):
        args = [np.full(s.dims, v, s.element_type.np) for s, v in zip(shapes, (base, 0.5), strict=True)]
        for results in (xyla.interp.run(module, args), xyla.compile(module)(*args)):
            value = np.asarray(results[0]).astype(np.float64)
            assert np.all(value == expected)
            assert not np.any(np.signbit(value))
