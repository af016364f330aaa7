"""Every rule has a module in a text test beside this file on which it fires, and keeps what the module computes.

A module's entry is named `<rule>`, `<rule>__<case>`, or ends in `__not` where the rule must hold back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from xyla.formats.detect import load_file
from xyla.hlo.module import Module
from xyla.passes.algebraic_simplifier import AlgebraicSimplifier
from xyla.passes.algebraic_simplifier.simplifier import FAMILIES
from xyla.passmgr.base import parse_passes
from xyla.passmgr.context import Fp
from xyla.testing.pass_check import apply_pass, check_pass

HERE = Path(__file__).parent
# These run on several devices, or call what only a target provides.
NOT_EVALUATED = ("collectives.hlo", "custom_call.hlo", "layout_sensitive.hlo")
# Rules that round differently, on values of ordinary size; sums of a few may cancel.
ULP = 4096


@dataclass(frozen=True)
class Case:
    """One module of a text test, and how the test runs it."""

    file: str
    name: str
    text: str
    passes: str
    fp: Fp

    @property
    def rule(self) -> str:
        """The rule that the module is about."""
        return self.name.split("__")[0]

    def load(self) -> Module:
        """The module."""
        module = load_file(self.text.encode(), self.name)
        assert isinstance(module, Module)
        return module

    def simplifier(self) -> AlgebraicSimplifier:
        """The pass with the options of the RUN line."""
        (found,) = parse_passes(self.passes)
        assert isinstance(found, AlgebraicSimplifier)
        return found


def _cases() -> list[Case]:
    cases = []
    for path in sorted(HERE.glob("*.hlo")):
        text = path.read_text()
        run = re.search(r'--passes="?(algsimp(?:\{[^}]*\})?)"?(?: --fp=(\w+))?', text)
        assert run is not None
        for piece in text.split("// -----\n"):
            name = re.search(r"^HloModule (\w+)", piece, re.M)
            assert name is not None
            cases.append(Case(path.name, name[1], piece, run[1], Fp(run[2] or "default")))
    return cases


CASES = _cases()


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.file}-{c.name}")
def test_rule(case: Case) -> None:
    """The rule fires, or holds back; values, verifier, changed bit and idempotence are checked."""
    if case.file in NOT_EVALUATED:
        outcome = apply_pass(case.simplifier(), case.load(), fp=case.fp)
    else:
        outcome = check_pass(case.simplifier(), case.load(), fp=case.fp, ulp=ULP, seeds=(0, 1))
    fired = {rule for _, rule in outcome.counts}
    assert (case.rule in fired) is not case.name.endswith("__not")


def test_every_rule_has_a_case() -> None:
    """No rule goes untested, and no test names a rule that is gone."""
    rules = {r.__name__ for family in FAMILIES for entry in family.TABLE.values() for r in entry}
    tested = {c.rule for c in CASES if not c.name.endswith("__not")}
    assert rules == tested
