"""What the benchmarks share: a table, and code timed in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table; the first column is text, the others are numbers."""
    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def fresh(arguments: Sequence[str], timeout: float, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Runs this Python with `arguments` in a new process: (exit code, stdout, stderr); code 124: it ran too long."""
    env = os.environ | (environment or {})
    try:
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=timeout, env=env)
    except subprocess.TimeoutExpired:
        return 124, "", f"took more than {timeout:.0f} s"
    return done.returncode, done.stdout, done.stderr


def fresh_json(arguments: Sequence[str], timeout: float, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """The JSON object that a new process prints last; {"error": ...} when it fails or runs too long."""
    code, out, err = fresh(arguments, timeout, environment)
    if code != 0:
        lines = err.strip().splitlines()
        return {"error": lines[0] if lines else f"exit code {code}"}
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found
