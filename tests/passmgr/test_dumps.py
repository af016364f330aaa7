from __future__ import annotations

import re
from pathlib import Path

import pytest

import xyla
from tests.passmgr.passes import TEXT, Simple, module
from xyla.hlo.equality import equal
from xyla.passes.dce import Dce
from xyla.passmgr.context import PassContext
from xyla.passmgr.dumps import DumpOptions, dumpers
from xyla.passmgr.pipeline import Fixpoint, Pipeline, Run, RunOptions, Step
from xyla.support.status import XylaError

STEPS = Pipeline("outer", (Step("first", Dce()), Fixpoint("loop", (Step("simple", Simple()), Step("dce", Dce())))))


def dumped(where: Path, monkeypatch: pytest.MonkeyPatch, flags: str = "", **options: object) -> list[str]:
    """Names of the files that a run over the test module leaves."""
    monkeypatch.setenv("XLA_FLAGS", flags)
    text = module()
    observers = dumpers(STEPS, text, frozenset(), DumpOptions(**options))  # type: ignore[arg-type]
    Run(text, PassContext(), RunOptions(observers=observers)).pipeline(STEPS)
    return sorted(path.name for path in where.iterdir()) if where.exists() else []


def test_names_are_xlas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = dumped(tmp_path / "d", monkeypatch, f"--xla_dump_to={tmp_path / 'd'} --xla_dump_hlo_pass_re=.*")
    assert names == [
        "module_0001.sums.0000.outer.after_pipeline-start.before_first.txt",
        "module_0001.sums.0001.loop.after_pipeline-start.before_simple.txt",
        "module_0001.sums.0002.loop.after_simple.before_dce.txt",
    ]
    first = xyla.load(str(tmp_path / "d" / names[0]))
    assert equal(first, module(), annotations=False)
    again = dumped(tmp_path / "d", monkeypatch, f"--xla_dump_to={tmp_path / 'd'} --xla_dump_hlo_pass_re=^dce$")
    second = [n.removeprefix("module_0002.sums.") for n in again if n.startswith("module_0002")]
    # With an expression other than `.*`, steps that changed nothing are dumped as well.
    assert second[:3] == [
        "0000.outer.after_pipeline-start.before_first.txt",
        "0001.outer.after_first.before_loop.txt",
        "0002.loop.after_simple.before_dce.txt",
    ]
    assert "0003.loop.after_dce.before_pipeline-end.txt" in second


def test_sides_and_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = dumped(tmp_path, monkeypatch, folder=tmp_path, after="^simple$", proto=True, dot=True)
    assert {re.sub(r"\d{4}\.loop", "N.loop", n) for n in names} == {
        f"module_0001.sums.N.loop.after_simple.before_dce.{ending}" for ending in ("txt", "hlo.pb", "dot")
    }
    dot = next(tmp_path.glob("*.dot")).read_text()
    assert dot.startswith("digraph module {")
    assert dot.count("->") == 2  # x twice
    assert xyla.load(str(next(tmp_path.glob("*.pb")))).name == "sums"


def test_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = dumped(tmp_path, monkeypatch, folder=tmp_path, before="simple")
    assert names[0] == "module_0001.sums.0000.loop.after_pipeline-start.before_simple.txt"


def test_nothing_is_dumped_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dumped(tmp_path, monkeypatch, f"--xla_dump_to={tmp_path}") == []
    other = f"--xla_dump_to={tmp_path} --xla_dump_hlo_pass_re=.* --xla_dump_hlo_module_re=other"
    assert dumped(tmp_path, monkeypatch, other) == []
    assert dumped(tmp_path, monkeypatch, "--xla_dump_hlo_pass_re=.*") == []
    with pytest.raises(XylaError, match="no folder"):
        dumped(tmp_path, monkeypatch, after="dce")
    with pytest.raises(XylaError, match="--dump-after: '\\(' is not a regular expression"):
        dumped(tmp_path, monkeypatch, folder=tmp_path, after="(")


def test_a_compilation_dumps_between_its_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={tmp_path} --xla_dump_hlo_pass_re=algsimp")
    xyla.compile(TEXT)
    names = sorted(path.name for path in tmp_path.glob("module_*"))
    assert any(".simplification.after_algsimp.before_" in name for name in names), names
