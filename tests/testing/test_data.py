from __future__ import annotations

from pathlib import Path

import pytest

from xyla.testing import data


def test_labels(shared: Path) -> None:
    cases = list(data.hlo_modules())
    assert len(cases) == 6441
    assert sum(case.loadable for case in cases) == 5116
    assert all(case.path.is_file() for case in cases[::50])


def test_models_and_bugs(shared: Path) -> None:
    models = data.models()
    assert len(models) == 50
    assert all(model.hlo.is_file() and model.stablehlo.is_file() for model in models)
    bugs = data.bugs()
    assert len(bugs) == 40
    assert all(bug.files for bug in bugs)
    assert {bug.mode for bug in bugs} == {"run", "run_or_error", "parse_error", "compile_only"}


def test_an_absent_corpus_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XYLA_SHARED", str(tmp_path))
    assert data.shared_dir() is None
    with pytest.raises(FileNotFoundError, match="XYLA_SHARED"):
        data.models()
