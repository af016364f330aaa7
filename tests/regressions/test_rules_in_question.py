"""On each program that a real compiler got wrong, the rule in question holds back or is sound; the log says which."""

from __future__ import annotations

import pytest

from xyla import passes
from xyla.clients.api import load
from xyla.targets.cpu.pipeline import cpu_pipeline
from xyla.testing.data import ABSENT, Bug, bugs, shared_dir
from xyla.testing.evidence import evidence, questions

QUESTIONS = questions()
CASES = [bug for bug in bugs() if bug.mode != "parse_error"] if shared_dir() else []
pytestmark = pytest.mark.skipif(shared_dir() is None, reason=ABSENT)


def test_every_case_has_its_question() -> None:
    assert {bug.name for bug in bugs()} == set(QUESTIONS)


@pytest.mark.parametrize("bug", CASES, ids=lambda bug: bug.name)
def test_the_rule_in_question(bug: Bug) -> None:
    passes.load_all()
    question = QUESTIONS[bug.name]
    for answer in evidence(bug, load(bug.files[0]), cpu_pipeline(), question).answers:
        assert answer.outcome in ("sound", "refused"), answer
        assert question.rules[answer.rule] in (answer.outcome, "either"), answer
