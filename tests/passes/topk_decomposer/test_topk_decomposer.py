"""top-k as a sort, and a sort as top-k, give the same elements in the same order."""

from __future__ import annotations

import numpy as np
import pytest

from xyla.formats.hlo_text import parse
from xyla.passes.topk_decomposer import TopkDecomposer
from xyla.passes.topk_rewriter import TopkRewriter
from xyla.passmgr.pipeline import pipeline_of
from xyla.testing.pass_check import apply_pass, check_pass


@pytest.mark.parametrize("kind", ["f32", "bf16", "s8", "u16", "f8e5m2"])
@pytest.mark.parametrize("largest", ["true", "false"])
def test_ties_and_special_values_are_kept(kind: str, largest: str) -> None:
    """Equal elements by position; NaN and zeros in total order."""
    text = f"""HloModule m
ENTRY e {{
  x = {kind}[4,60] parameter(0)
  ROOT t = ({kind}[4,9], s32[4,9]) topk(x), k=9, largest={largest}
}}"""
    module = parse(text)
    x = np.random.default_rng(0).integers(-3, 4, (4, 60)).astype(np.float32)
    if kind[0] != "f" and kind[0] != "b":
        x = np.abs(x)
    else:
        x[0, :7] = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, np.nan]
    args = [x.astype(module.entry.parameters[0].shape.element_type.np)]
    assert check_pass(TopkDecomposer(), module, args).changed
    # There and back again.
    back = apply_pass(pipeline_of([TopkDecomposer(), TopkRewriter()]), module).module
    assert "topk(" in back.to_string()
    assert "sort(" not in back.to_string()
    check_pass(pipeline_of([TopkDecomposer(), TopkRewriter()]), module, args)
