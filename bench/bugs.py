"""Every program of the shared bug collection, on the evaluator and compiled, and what the rewrites in question did.

python -m bench.bugs [NAME ...]

The first table has a row a file and engine. The second has, for each case, the rules that fired on the CPU's pipeline
(from the rewrite log) and what became of the rules that a real compiler got wrong: refused, or ran soundly
(xyla/testing/evidence.py).
"""

from __future__ import annotations

import sys
from time import perf_counter

from rich.console import Console
from rich.table import Table

from xyla import passes
from xyla.clients.api import load
from xyla.targets.cpu.pipeline import cpu_pipeline
from xyla.testing.bugs import judge
from xyla.testing.data import Bug, bugs
from xyla.testing.evidence import Question, evidence, questions


def main(names: list[str]) -> int:
    """Prints the tables; returns the number of wrong rows."""
    chosen = [bug for bug in bugs() if not names or bug.name in names]
    wrong = _values(chosen) + _rewrites(chosen)
    print(f"{wrong} wrong")
    return wrong


def _values(chosen: list[Bug]) -> int:
    table = Table(title="bugs: inputs that real compilers got wrong")
    for column in ("case", "file", "engine", "seconds", "verdict"):
        table.add_column(column, overflow="fold")
    wrong = 0
    for bug in chosen:
        for file in bug.files:
            for engine in ("reference", "compiled"):
                start = perf_counter()
                complaint = judge(bug, file, engine)
                wrong += complaint is not None
                seconds = f"{perf_counter() - start:.2f}"
                kind = file.name.removeprefix(bug.name + ".")
                table.add_row(bug.name, kind, engine, seconds, complaint or "right")
    Console(width=160).print(table)
    return wrong


def _rewrites(chosen: list[Bug]) -> int:
    table = Table(title="rewrites: what fired in default mode, and the rules that real compilers got wrong")
    for column in ("case", "what went wrong there", "fired here", "rule in question", "outcome"):
        table.add_column(column, overflow="fold")
    passes.load_all()
    asked = questions()
    wrong = 0
    for bug in chosen:
        if bug.mode == "parse_error":  # nothing to rewrite
            table.add_row(bug.name, asked[bug.name].wrong, "", "", "")
            continue
        for row in _rows(bug, asked[bug.name]):
            wrong += row[-1].startswith("wrong")
            table.add_row(*row)
        table.add_section()
    Console(width=200).print(table)
    return wrong


def _rows(bug: Bug, question: Question) -> list[tuple[str, ...]]:
    """A row a rule in question; the first says what the case is about and what fired on it."""
    found = evidence(bug, load(bug.files[0]), cpu_pipeline(), question)
    fired = ", ".join(f"{rule} x{n}" if n > 1 else rule for (_, rule), n in found.fired.items()) or "nothing"
    answers = [(a.rule, f"{a.outcome}: {a.how}") for a in found.answers] or [("", "")]
    heads = [(bug.name, question.wrong, fired), *[("", "", "")] * (len(answers) - 1)]
    return [(*head, *answer) for head, answer in zip(heads, answers, strict=True)]


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
