"""What the documents show is what xyla prints: their commands are run, figures that vary masked."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

import pytest

from xyla.clients.cli.main import main

REPOSITORY = Path(__file__).parents[2]
_COMMAND = re.compile(r"^    \$ (xyla [^\n]*)\n((?:    (?!\$ )[^\n]*\n)*)", re.M)
_MADE_FILE = re.compile(r"^    \$ cat > (\S+) <<EOF\n(.*?)^    EOF\n", re.M | re.S)
# Numbers, and the widths that follow from them.
_VARIES = re.compile(r"[-+]?\d[\d.e+-]*|[ ─]+")


def masked(text: str) -> list[str]:
    """The lines that say something, numbers and runs of blanks reduced to one mark."""
    return [re.sub(r"_+", "_", _VARIES.sub("_", line)).strip("_") for line in text.splitlines() if line.strip()]


def shown(command: str) -> str:
    """Both streams of a command line; `xyla ...`, with at most a `| tail -n N`."""
    words, _, pipe = command.partition(" | ")
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        main(shlex.split(words)[1:])
    lines = out.getvalue().splitlines()
    if pipe:
        assert pipe.startswith("tail -n "), pipe
        lines = [line for line in lines if line.strip()][-int(pipe.rsplit(" ", 1)[1]) :]
    return "\n".join(lines)


@pytest.mark.parametrize("name", ["README.md", "docs/add-an-op.md"])
def test_commands_print_what_is_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (REPOSITORY / name).read_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    for file, body in _MADE_FILE.findall(text):
        Path(file).write_text(re.sub(r"^    ", "", body, flags=re.M))
    commands = _COMMAND.findall(_MADE_FILE.sub("", text))
    assert len(commands) >= 2
    for command, expected in commands:
        expected = expected.replace("/tmp/", f"{tmp_path}/")
        assert masked(shown(command.replace("/tmp/", f"{tmp_path}/"))) == masked(expected), command


@pytest.mark.parametrize("name", ["README.md", "docs/running.md", "docs/custom-calls.md"])
def test_the_python_session_is_true(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    parser = doctest.DocTestParser()
    test = parser.get_doctest((REPOSITORY / name).read_text(), {}, name, name, 0)
    out = io.StringIO()
    result = doctest.DocTestRunner().run(test, out=out.write)
    assert result.attempted > 5
    assert result.failed == 0, out.getvalue()


def test_links_lead_somewhere() -> None:
    for path in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
