"""`xyla.compile` hands its options on."""

from __future__ import annotations

import pytest

import xyla
from xyla.support.status import XylaError

TEXT = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  y = f32[2] copy(x)\n  ROOT r = f32[2] negate(y)\n}\n"


def test_passes_are_chosen() -> None:
    assert xyla.compile(TEXT, passes="none").stats.pass_times == {}
    assert list(xyla.compile(TEXT, passes="dce,algsimp").stats.pass_times) == ["dce", "algsimp"]


def test_unknown_choices_are_refused() -> None:
    with pytest.raises(XylaError, match="unknown pass 'algsmp'"):
        xyla.compile(TEXT, passes="algsmp")
    with pytest.raises(XylaError, match="unknown floating-point mode 'loose'"):
        xyla.compile(TEXT, fp="loose")
