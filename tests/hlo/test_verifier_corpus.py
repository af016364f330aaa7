"""Real programs: what XLA accepts the verifier accepts, but for texts that contradict themselves."""

from __future__ import annotations

from xyla.formats.hlo_text import parse
from xyla.hlo.verifier import violations
from xyla.support.status import XylaError
from xyla.testing import data

STEP = 20


def test_labelled_modules(shared):
    cases = [c for c in data.hlo_modules() if c.loadable][::STEP]
    refused = []
    for case in cases:
        try:
            module = parse(case.path.read_text(), case.path.name)
        except XylaError:
            continue  # the reader's tests count these
        if found := violations(module):
            refused.append((case.path.name, found[0].message))
    assert len(cases) > 200
    # About 100 of all 5,116 are refused; `python -m bench.verify_corpus` lists them with their reasons.
    assert len(refused) <= 0.04 * len(cases), refused


def test_models(shared):
    for model in data.models():
        module = parse(model.hlo.read_text(), model.hlo.name)
        assert violations(module) == [], model.name
