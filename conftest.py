"""Collects RUN-line tests and offers the shared corpus as a fixture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from xyla.testing import data
from xyla.testing.lit import run_test

SUFFIXES = (".hlo", ".mlir")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--mutations N`: how many damaged inputs the bad-input test tries."""
    parser.addoption("--mutations", type=int, default=1000, help="damaged inputs to try (default 1000)")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared corpus folder; the test is skipped where there is none."""
    path = data.shared_dir()
    if path is None:
        pytest.skip(data.ABSENT)
    return path


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A text program under tests/ is a RUN-line test, unless it lies in a folder named `data`."""
    if file_path.suffix in SUFFIXES and "data" not in file_path.parts:
        return RunLineFile.from_parent(parent, path=file_path)
    return None


class RunLineFile(pytest.File):
    """One .hlo or .mlir file with RUN lines: one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """The single item of the file."""
        yield RunLineItem.from_parent(self, name=self.path.stem)


class RunLineItem(pytest.Item):
    """All RUN lines of a file; a failure shows filecheck's text, not a traceback."""

    def runtest(self) -> None:
        """Runs the file's commands in this process."""
        if failure := run_test(self.path):
            pytest.fail(failure, pytrace=False)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the test is, for the report."""
        return self.path, 0, self.path.name
