"""How fast large inputs load: the two largest HLO texts of the corpus, and a generated hex constant."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import xyla
from bench.tables import show
from xyla.formats.detect import load_file
from xyla.testing import data

RUNS = 3


def hex_program(megabytes: int) -> str:
    """A StableHLO program that returns one f32 constant of so many megabytes of hex digits."""
    count = megabytes * 1_000_000 // 8
    digits = "0000803F" * count
    kind = f"tensor<{count}xf32>"
    return (
        f'module {{\n  func.func @main() -> {kind} {{\n    %0 = stablehlo.constant dense<"0x{digits}"> : {kind}\n'
        f"    return %0 : {kind}\n  }}\n}}\n"
    )


def best(function: Callable[[], Any]) -> tuple[float, float, Any]:
    """The least of RUNS times, on the wall and of this process alone, and the last result."""
    walls, own = [], []
    for _ in range(RUNS):
        start, used = time.perf_counter(), time.process_time()
        result = function()
        walls.append(time.perf_counter() - start)
        own.append(time.process_time() - used)
    return min(walls), min(own), result


def main() -> None:
    """Prints the table."""
    rows = []
    for path in sorted(data.hlo_files(), key=lambda path: -path.stat().st_size)[:2]:
        *seconds, module = best(lambda path=path: xyla.load(path))
        rows.append((path.name, path.stat().st_size / 1e6, module.num_instructions, *seconds))
    for megabytes in (64, 128):
        text = hex_program(megabytes).encode()
        *seconds, module = best(lambda text=text: load_file(text, "hex.mlir"))
        rows.append((f"{megabytes} MB of hex digits", len(text) / 1e6, module.num_instructions, *seconds))
    show(f"loading (least of {RUNS})", ("file", "MB", "instructions", "seconds", "CPU seconds"), rows)


if __name__ == "__main__":
    main()
