"""Dense dots with masks give a ragged dot's values, whatever the other groups hold."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.formats.hlo_text import parse
from xyla.hlo.module import Module
from xyla.passes.ragged_dot_rewriter import RaggedDotRewriter
from xyla.testing.pass_check import apply_pass, check_pass

# Shapes of lhs, rhs, group sizes, result; lb, rb (batch), lc, rc (contracting), ragged and group dimensions.
CASES = {
    "rows": ("[16,9] [2,9,8] [2] [16,8]", ("", "", "1", "1", "0", "0")),
    "rows of a batch": ("[3,16,9] [3,9,2,8] [2] [3,16,8]", ("0", "0", "2", "1", "1", "2")),
    "rows, sizes by batch": ("[6,5,4] [4,3,4,2] [4,3] [4,6,5,4,2]", ("2", "0", "", "", "0", "1")),
    "contracted": ("[11,5] [5,7] [3] [3,11,7]", ("", "", "1", "0", "1", "")),
    "contracted, sizes by batch": ("[2,11,5] [2,5,7] [2,3] [3,2,11,7]", ("0", "0", "2", "1", "2", "")),
    "batches": ("[4,5,3] [4,3,2] [2] [4,5,2]", ("0", "0", "2", "1", "0", "")),
}
NAMES = (
    "lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims", "lhs_ragged_dims",
    "rhs_group_dims",
)  # fmt: skip


def _module(name: str, sizes: str = "s32") -> Module:
    shapes, dims = CASES[name]
    x, y, n, result = shapes.split()
    attrs = ", ".join(f"{key}={{{value}}}" for key, value in zip(NAMES, dims, strict=True))
    return parse(f"""HloModule m
ENTRY e {{
  x = f32{x} parameter(0)
  y = f32{y} parameter(1)
  n = {sizes}{n} parameter(2)
  ROOT r = f32{result} ragged-dot(x, y, n), {attrs}
}}""")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("special", [False, True])
def test_values_are_kept(name: str, special: bool) -> None:
    """Small integers as floats, so that every sum is exact; an infinity and a NaN stay where they are."""
    module = _module(name)
    rng = np.random.default_rng(0)
    args = [rng.integers(1, 5, p.shape.dims).astype(np.float32) for p in module.entry.parameters[:2]]
    args.append(rng.integers(0, 3, module.entry.parameters[2].shape.dims).astype(np.int32))
    if special:
        args[1].flat[0], args[1].flat[-1] = np.inf, np.nan
    assert check_pass(RaggedDotRewriter(), module, args).changed


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("kind", "low", "high"), [("s32", -(2**31), 2**31 - 1), ("u64", 0, 2**64 - 1), ("s8", -8, 127)]
)
def test_sizes_out_of_range(name: str, kind: str, low: int, high: int) -> None:
    """Negative sizes count as 0, and those beyond the dimension reach its end: no sum of sizes overflows."""
    module = _module(name, kind)
    np_type = module.entry.parameters[2].shape.element_type.np
    rng = np.random.default_rng(1)
    args = [rng.integers(1, 5, p.shape.dims).astype(np.float32) for p in module.entry.parameters[:2]]
    for pool in ([low, 0, 2, high], [2, low + 3], [high], [0, 1]):
        sizes = np.array(pool, np_type)[rng.integers(0, len(pool), module.entry.parameters[2].shape.dims)]
        assert check_pass(RaggedDotRewriter(), module, [*args, sizes]).changed


def test_sizes_that_are_common_to_some_batches_only_are_left() -> None:
    """Sizes of another rank than one, or one beyond the batch, have no meaning here."""
    text = """HloModule m
ENTRY e {
  x = f32[2,6,4] parameter(0)
  y = f32[3,4,5] parameter(1)
  n = s64[2,3] parameter(2)
  ROOT r = f32[2,6,5] ragged-dot(x, y, n), lhs_contracting_dims={2}, rhs_contracting_dims={1},
    lhs_ragged_dims={1}, rhs_group_dims={0}
}"""
    assert not apply_pass(RaggedDotRewriter(), parse(text)).changed
