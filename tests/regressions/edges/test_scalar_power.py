"""Powers of rank 0 are those of vectors: sqrt(x) is not x to the half where x is -inf or -0."""

from __future__ import annotations

import numpy as np
import pytest

import xyla
from xyla.formats.hlo_text import parse


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("dims", ["", "1"])
def test_half_power_of_negative_zero_and_infinity(name: str, dims: str) -> None:
    kind = f"{name}[{dims}]"
    module = parse(
        f"HloModule m\nENTRY e {{\n x = {kind} parameter(0)\n y = {kind} parameter(1)\n ROOT r = {kind} power(x, y)\n}}"
    )
    element = module.entry.root.shape.element_type.np
    shape = module.entry.root.shape.dims
    for base, expected in ((-np.inf, np.inf), (-0.0, 0.0)):
        args = [np.full(shape, base, element), np.full(shape, 0.5, element)]
        for results in (xyla.interp.run(module, args), xyla.compile(module)(*args)):
            value = float(np.asarray(results[0]).reshape(()))
            assert value == expected
            assert not np.signbit(value)
