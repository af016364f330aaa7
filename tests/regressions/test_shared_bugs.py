"""Every program of the shared bug collection: right on the evaluator, and compiled where it is for one device."""

from __future__ import annotations

from pathlib import Path

import pytest

from xyla.testing.bugs import judge
from xyla.testing.data import ABSENT, Bug, bugs, shared_dir

CASES = (
    [
        pytest.param(bug, file, engine, id=f"{file.name}-{engine}")
        for bug in bugs()
        for file in bug.files
        for engine in ("reference", "compiled")
    ]
    if shared_dir()
    else []
)


@pytest.mark.skipif(shared_dir() is None, reason=ABSENT)
@pytest.mark.parametrize(("bug", "file", "engine"), CASES)
def test_program_is_right(bug: Bug, file: Path, engine: str) -> None:
    assert judge(bug, file, engine) is None
