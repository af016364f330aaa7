"""`make demo`: compiles and runs the programs of this folder and shows what each took."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import xyla
from xyla.clients.compare import Comparison, compare, reduction_length
from xyla.clients.random_args import random_args

HERE = Path(__file__).resolve().parent
PROGRAMS = ("transformer_block", "mlp_train_step")
RUNS = 20
COLUMNS = ("program", "instructions", "kernels", "compile ms", "run ms", "max error", "verdict")


def measure(name: str) -> tuple[tuple[str, ...], bool]:
    """Compiles, runs and checks one program: (its row, whether it agrees with the evaluator)."""
    module = xyla.load(HERE / f"{name}.stablehlo.mlir")
    arguments = random_args(module.entry_parameter_shapes(), seed=0)
    start = time.perf_counter()
    executable = xyla.compile(module)
    compile_ms = (time.perf_counter() - start) * 1e3
    outputs = executable(*arguments)
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        executable(*arguments)
        times.append((time.perf_counter() - start) * 1e3)
    wanted = xyla.interp.run(module, arguments)
    length = reduction_length(module)
    results = [compare(got, np.asarray(want), length) for got, want in zip(outputs, wanted, strict=True)]
    good = all(result.ok for result in results)
    run_ms = statistics.median(times)
    counts = (str(module.num_instructions), str(executable.stats.kernels))
    error = max(scaled_error(result, want) for result, want in zip(results, wanted, strict=True))
    return (name, *counts, f"{compile_ms:.0f}", f"{run_ms:.2f}", f"{error:.1e}", "ok" if good else "WRONG"), good


def scaled_error(result: Comparison, want: Any) -> float:
    """The largest error of one output, over that output's largest magnitude."""
    return result.max_abs / max(float(np.max(np.abs(want))), np.finfo(np.float32).tiny)


def main() -> int:
    """Prints the table; 0 when every program agrees with the reference evaluator."""
    table = Table(
        title="xyla: StableHLO programs compiled to native code",
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
    )
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("program", "verdict") else "right")
    right = True
    for name in PROGRAMS:
        row, good = measure(name)
        table.add_row(*row)
        right &= good
    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    console.print(table)
    console.print(
        f"run: median of {RUNS}. max error: the largest difference from the reference evaluator, over the output's\n"
        "largest magnitude. The kernel cache on disk makes a second compilation faster."
    )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
