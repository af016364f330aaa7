"""Splitting and joining bits gives the evaluator's bitcast-convert."""

from __future__ import annotations

import pytest

from xyla.formats.hlo_text import parse
from xyla.passes.bitcast_dtypes_expander import BitcastDtypesExpander
from xyla.testing.pass_check import check_pass

PAIRS = [
    ("s32[10]", "s8[10,4]"),
    ("f32[4,3]", "u4[4,3,8]"),
    ("s4[10,2]", "s8[10]"),
    ("bf16[2,3,4]", "f64[2,3]"),
    ("f8e4m3fn[5,2]", "f16[5]"),
    ("u2[5,2]", "u4[5]"),
    ("u8[5]", "s2[5,4]"),
    ("pred[5,4]", "f32[5]"),
    ("s64[]", "f16[4]"),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: f"{p[0]}-{p[1]}")
def test_keeps_every_bit(pair: tuple[str, str]) -> None:
    """Floats, integers of 2 bits and more, and pred, in both directions."""
    text = f"HloModule m\nENTRY e {{\n  x = {pair[0]} parameter(0)\n  ROOT y = {pair[1]} bitcast-convert(x)\n}}"
    assert check_pass(BitcastDtypesExpander(), parse(text)).changed
