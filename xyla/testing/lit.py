"""RUN-line tests, run inside this process.

    // RUN: xyla opt %s --print short | filecheck %s
    // RUN: not xyla opt %s 2>&1 | filecheck %s --check-prefix=ERR

The lines stay shell-compatible, so that LLVM's lit can replay them. Tools: `xyla`, `filecheck` (or
`FileCheck`), `not`, `cat`, `split-file`; substitutions: %s (this file), %S (its folder), %t (a path of
the test's own), %%; `<` and `>`. A check that never runs is the worst kind of test: a directive that
filecheck would silently ignore (CHECK-NXT, a prefix that no RUN line names, a missing colon) fails.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from xyla.testing.directives import misspelt_directives

_RUN = re.compile(r"^\s*(?://|#|;)\s*RUN:[ \t]*(.*?)[ \t]*$", re.M)
_PARTS = re.compile(r"^//--- *(\S+) *\n", re.M)


@dataclass(frozen=True, slots=True)
class Output:
    """What one tool left: its exit code and both streams."""

    code: int
    out: str
    err: str


Tool = Callable[[list[str], str, Path], Output]


def run_commands(text: str) -> list[str]:
    """The commands of a test's RUN lines; a line that ends in a backslash goes on in the next RUN line."""
    commands: list[str] = []
    pending = ""
    for line in _RUN.findall(text):
        if line.endswith("\\"):
            pending += line[:-1]
        else:
            commands.append(pending + line)
            pending = ""
    return [*commands, pending] if pending else commands


def run_test(path: Path) -> str | None:
    """Runs every RUN line of a test file. Returns the failure text, or None when all pass."""
    text = path.read_text(encoding="utf-8")
    commands = run_commands(text)
    if not commands:
        return f"{path}: no RUN line"
    if wrong := misspelt_directives(text, commands):
        return f"{path}:" + f"\n{path}:".join(wrong)
    with tempfile.TemporaryDirectory(prefix="xyla-lit-") as folder:
        for command in commands:
            if failure := _run_command(command, path, Path(folder) / "t"):
                return f"{path}: RUN: {command}\n{failure}"
    return None


def _run_command(command: str, path: Path, fresh: Path) -> str | None:
    stages = _split_pipeline(command)
    piped = ""
    for index, stage in enumerate(stages):
        words = [_substitute(word, path, fresh) for word in stage]
        output = _run_stage(words, piped, path)
        if output.code != 0:
            return f"`{' '.join(words)}` exited with {output.code}\n{output.out}{output.err}".rstrip()
        piped = output.out
        if index == len(stages) - 1 and piped and words[0] in ("filecheck", "FileCheck"):
            return piped
    return None


def _split_pipeline(command: str) -> list[list[str]]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    stages: list[list[str]] = [[]]
    for word in lexer:
        if word == "|":
            stages.append([])
        else:
            stages[-1].append(word)
    return stages


def _substitute(word: str, path: Path, fresh: Path) -> str:
    table = {"%s": str(path), "%S": str(path.parent), "%t": str(fresh), "%%": "%"}
    return re.sub("%[sSt%]", lambda match: table[match.group()], word)


def _run_stage(words: list[str], piped: str, path: Path) -> Output:
    merge = "2>&1" in words
    words, piped, target = _redirections([word for word in words if word != "2>&1"], piped)
    negate = words[:1] == ["not"]
    words = words[1:] if negate else words
    tool = TOOLS.get(words[0]) if words else None
    if tool is None:
        return Output(127, "", f"unknown tool in a RUN line: {' '.join(words) or '(nothing)'}\n")
    output = tool(words[1:], piped, path)
    if merge:
        output = Output(output.code, output.out + output.err, "")
    if negate:
        note = "expected a failure, but it succeeded\n"
        output = Output(0, output.out, output.err) if output.code else Output(1, output.out, note)
    if target is not None:
        Path(target).write_text(output.out, encoding="utf-8")
        output = Output(output.code, "", output.err)
    return output


def _redirections(words: list[str], piped: str) -> tuple[list[str], str, str | None]:
    kept: list[str] = []
    target: str | None = None
    pending = iter(words)
    for word in pending:
        if word == "<":
            piped = Path(next(pending)).read_text(encoding="utf-8")
        elif word == ">":
            target = next(pending)
        else:
            kept.append(word)
    return kept, piped, target


@contextlib.contextmanager
def _standard_input(text: str) -> Iterator[None]:
    saved = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode("utf-8")), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = saved


def _xyla(arguments: list[str], piped: str, path: Path) -> Output:
    from xyla.clients.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _standard_input(piped):
        code = main(arguments)
    return Output(code, out.getvalue(), err.getvalue())


def _filecheck(arguments: list[str], piped: str, path: Path) -> Output:
    from filecheck.finput import FInput
    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options
    from filecheck.parser import Parser

    err = io.StringIO()
    try:
        options = parse_argv_options(["filecheck", *arguments])
    except RuntimeError as error:
        return Output(2, "", f"filecheck: {error}\n")
    matcher = Matcher(options, FInput("<piped>", FInput.canonicalize_line_ends(piped)), Parser.from_opts(options))
    matcher.stderr = err
    with contextlib.redirect_stdout(io.StringIO()):  # the matcher prints a debugging line on CHECK-DAG
        code = matcher.run()
    shown = f"{err.getvalue()}\n--- the text that was checked ---\n{piped}" if code else ""
    return Output(code, "", shown)


def _cat(arguments: list[str], piped: str, path: Path) -> Output:
    return Output(0, "".join(Path(name).read_text(encoding="utf-8") for name in arguments) or piped, "")


def _split_file(arguments: list[str], piped: str, path: Path) -> Output:
    """`split-file FILE FOLDER`: writes each part that a `//--- NAME` line begins."""
    source, folder = Path(arguments[0]), Path(arguments[1])
    pieces = _PARTS.split(source.read_text(encoding="utf-8"))
    if len(pieces) < 3:
        return Output(1, "", f"{source}: no `//--- NAME` line\n")
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(body, encoding="utf-8")
    return Output(0, "", "")


TOOLS: dict[str, Tool] = {
    "xyla": _xyla,
    "filecheck": _filecheck,
    "FileCheck": _filecheck,
    "cat": _cat,
    "split-file": _split_file,
}
