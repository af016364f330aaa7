from __future__ import annotations

from pathlib import Path

import pytest

from xyla.formats import hlo_proto, hlo_text
from xyla.support.status import XylaError
from xyla.testing import data

EVERY = 60


@pytest.mark.parametrize("start", range(4))
def test_protos_of_corpus_modules(start: int, shared: Path) -> None:
    """Text -> proto -> text, and the proto of that text again: nothing is lost (bench/hlo_proto_corpus.py: all)."""
    cases = [case for case in data.hlo_modules() if case.loadable][start * EVERY // 4 :: EVERY]
    tried = 0
    for case in cases:
        try:
            module = hlo_text.parse(case.path.read_text(), case.path.name)
        except XylaError:
            continue
        written = hlo_proto.to_bytes(module)
        back = hlo_proto.load_bytes(written, case.path.name)
        assert hlo_proto.to_bytes(hlo_text.parse(str(back), "back")) == written, case.path
        tried += 1
    assert tried > 0.95 * len(cases)
