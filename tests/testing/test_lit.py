from __future__ import annotations

from pathlib import Path

import pytest

from xyla.testing import lit
from xyla.testing.directives import misspelt_directives, prefixes_of


def run(tmp_path: Path, text: str) -> str | None:
    path = tmp_path / "case.hlo"
    path.write_text(text)
    return lit.run_test(path)


def test_a_match_passes_and_a_mismatch_shows_the_text(tmp_path: Path) -> None:
    assert run(tmp_path, "// RUN: cat %s | filecheck %s\n// CHECK: hello {{w.*d}}\nhello world\n") is None
    failure = run(tmp_path, "// RUN: cat %s | filecheck %s\n// CHECK: good{{(bye)}}\nhello world\n")
    assert failure is not None
    assert "hello world" in failure


def test_dag_not_and_next(tmp_path: Path) -> None:
    text = (
        "// RUN: split-file %s %t\n// RUN: cat %t/a | filecheck %s\n"
        "// CHECK-DAG: two\n// CHECK-DAG: one\n// CHECK-NEXT: three\n// CHECK-NOT: four\n"
        "//--- a\none\ntwo\nthree\n"
    )
    assert run(tmp_path, text) is None
    assert run(tmp_path, text + "four\n") is not None
    assert run(tmp_path, text.replace("two\nthree", "two\ngap\nthree")) is not None


def test_not_expects_failure(tmp_path: Path) -> None:
    assert run(tmp_path, "// RUN: not cat %s\n") is not None
    assert run(tmp_path, "// RUN: not frobnicate %s 2>&1 | filecheck %s\n// CHECK: x\n") is not None


def test_unknown_tools_and_absent_run_lines_fail(tmp_path: Path) -> None:
    assert "unknown tool" in str(run(tmp_path, "// RUN: sed %s\n"))
    assert "no RUN line" in str(run(tmp_path, "// run: cat %s\n"))


def test_continued_run_lines() -> None:
    assert lit.run_commands("// RUN: a \\\n// RUN: b\n# RUN: c\n") == ["a b", "c"]


@pytest.mark.parametrize(
    "line",
    [
        "// CHECK-NXT: x",
        "// CHEKC: x",
        "// CHECK-NEXT x",
        "// CHECK NEXT: x",
        "// check-next: x",
        "// CHECK-COUNT: x",
        "// CHECKS: x",
        "add(a) // CHECK-LABLE: x",
        "// CHECK-NEXT : x",
    ],
)
def test_misspelt_directives_are_found(line: str) -> None:
    commands = ["cat %s | filecheck %s"]
    assert misspelt_directives("// CHECK: a\n" + line, commands)


@pytest.mark.parametrize(
    "line",
    [
        "// CHECK-COUNT-2: x",
        "// CHECK{LITERAL}: x",
        "// CHECK-NOT: x",
        "// A note on what this checks.",
        "ROOT add",
    ],
)
def test_true_directives_and_prose_pass(line: str) -> None:
    assert not misspelt_directives("// CHECK: a\n" + line, ["cat %s | filecheck %s"])


def test_prefixes() -> None:
    commands = [
        "xyla opt %s | filecheck %s --check-prefix=A",
        "x | filecheck %s --check-prefixes=B,C",
        "x | FileCheck %s",
    ]
    assert prefixes_of(commands) == ["A", "B", "C", "CHECK"]
    assert "no directive has the prefix B" in misspelt_directives("// A: x\n// C: x\n// CHECK: x", commands)[0]
