"""The rewrite log says what the floating-point mode forbids; logging changes nothing else."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from xyla.formats.hlo_text import parse
from xyla.passes.algebraic_simplifier import AlgebraicSimplifier
from xyla.passmgr.context import Fp, PassContext, RewriteControl

TEXT = """HloModule m
ENTRY e {
  x = f32[3] parameter(0)
  y = f32[3] exponential(x)
  l = f32[3] log(y), metadata={source_file="a.py" source_line=4}
  o = f32[] constant(1)
  b = f32[3] broadcast(o), dimensions={}
  m = f32[3] multiply(l, b)
  ROOT r = f32[3] divide(m, m)
}"""


def simplified(fp: Fp, log: io.StringIO | None) -> tuple[str, int]:
    module = parse(TEXT)
    context = PassContext(fp, RewriteControl(log=log), "algsimp")
    AlgebraicSimplifier().run(module, context)
    AlgebraicSimplifier().run(module, context)
    context.flush()
    return str(module), context.control.number


def logged(fp: Fp) -> list[dict[str, Any]]:
    log = io.StringIO()
    simplified(fp, log)
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_what_matches_but_is_forbidden_is_logged_once() -> None:
    refused = [e for e in logged(Fp.DEFAULT) if "refused" in e]
    assert [(e["rule"], e["needs"]) for e in refused] == [("log_exp", "fast"), ("divide_self_fast", "fast")]
    assert refused[0]["source"] == "a.py:4"
    assert refused[0]["new"].startswith("%x = ")
    assert "overflows" in refused[0]["refused"]
    assert "number" not in refused[0]


def test_nothing_is_refused_in_fast_mode() -> None:
    rules = [e["rule"] for e in logged(Fp.FAST)]
    assert "log_exp" in rules
    assert not [e for e in logged(Fp.FAST) if "refused" in e]


@pytest.mark.parametrize("fp", list(Fp))
def test_the_log_changes_nothing(fp: Fp) -> None:
    assert simplified(fp, io.StringIO()) == simplified(fp, None)
