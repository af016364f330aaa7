"""Every program of the shared bug collection, on the evaluator and compiled: one row a file.

python -m bench.bugs [NAME ...]
"""

from __future__ import annotations

import sys
from time import perf_counter

from rich.console import Console
from rich.table import Table

from xyla.testing.bugs import judge
from xyla.testing.data import bugs


def main(names: list[str]) -> int:
    """Prints the table; returns the number of wrong rows."""
    table = Table(title="bugs: inputs that real compilers got wrong")
    for column in ("case", "file", "engine", "seconds", "verdict"):
        table.add_column(column, overflow="fold")
    wrong = 0
    for bug in bugs():
        if names and bug.name not in names:
            continue
        engines = ("reference", "compiled") if bug.replicas == 1 else ("reference",)
        for file in bug.files:
            for engine in engines:
                start = perf_counter()
                complaint = judge(bug, file, engine)
                wrong += complaint is not None
                seconds = f"{perf_counter() - start:.2f}"
                kind = file.name.removeprefix(bug.name + ".")
                table.add_row(bug.name, kind, engine, seconds, complaint or "right")
    Console(width=160).print(table)
    print(f"{wrong} wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
