from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.docs.test_documents import _COMMAND, _MADE_FILE, REPOSITORY, masked, shown
from xyla.testing.fp_document import PATH, document


@pytest.mark.parametrize("name", ["docs/add-a-pass.md", "docs/debugging.md"])
def test_commands_print_what_is_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (REPOSITORY / name).read_text()
    monkeypatch.chdir(tmp_path)
    for file, body in _MADE_FILE.findall(text):
        (tmp_path / file).write_text(re.sub(r"^    ", "", body, flags=re.M))
    np.savez(tmp_path / "args.npz", arg0=np.array([1, 2, 46340, -70000], np.int32))
    commands = _COMMAND.findall(_MADE_FILE.sub("", text))
    assert len(commands) >= 3
    for command, expected in commands:
        assert masked(shown(command)) == masked(expected), command


def test_the_list_of_value_changing_rules_is_current() -> None:
    assert PATH.read_text() == document(), "run python -m xyla.testing.fp_document"
