"""Loading every StableHLO program of the shared corpus: how many become HLO, how many wait for refinement, and speed.

Run as `python -m bench.stablehlo_load`. Sections of split files count one each. Refusals are listed with their reason;
a section that needs the test runner (several programs at once) or holds no program counts apart.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path

from bench.tables import show
from xyla.formats.mlir.parser import parse_module, split_source
from xyla.formats.stablehlo import StablehloProgram, from_mlir, load
from xyla.formats.stablehlo.dialect import STABLEHLO
from xyla.hlo.module import Module
from xyla.support.status import XylaError
from xyla.testing import data

FOLDERS = (
    "corpus/stablehlo/testdata",
    "corpus/stablehlo/testdata/dynamic",
    "corpus/stablehlo/testdata/quantized",
    "corpus/stablehlo/tests/interpret",
    "corpus/stablehlo/tests/interpret/chlo",
    "corpus/stablehlo/tests/math",
    "corpus/jax_exports",
    "models",
    "bugs",
)
NOT_PROGRAMS = ("interpreter.run_parallel", "the program has no")
LONG = 50_000
CONSTANT_BYTES = 64 << 20


def sections(path: Path) -> list[str]:
    """The programs of a file: split only where its RUN line asks for that."""
    text = path.read_text()
    return split_source(text) if "-split-input-file" in text[:400] else [text]


def sweep(folder: Path) -> tuple[Counter[str], list[str]]:
    """Outcomes of loading a folder, and what was refused."""
    counts: Counter[str] = Counter()
    refused: list[str] = []
    start = time.perf_counter()
    for path in sorted(folder.glob("*.mlir")):
        for text in sections(path):
            try:
                program = load(text, path.name)
            except XylaError as error:
                if any(reason in error.message for reason in NOT_PROGRAMS):
                    counts["apart"] += 1
                else:
                    counts["refused"] += 1
                    refused.append(error.render())
                continue
            counts["program" if isinstance(program, StablehloProgram) else "hlo"] += 1
    counts["ms"] = round((time.perf_counter() - start) * 1000)
    return counts, refused


def speed() -> list[list[object]]:
    """Seconds for a long program and for a 64 MB constant."""
    lines = "\n".join(f"%{i + 1} = stablehlo.add %{i}, %{i} : tensor<4x8xf32>" for i in range(LONG))
    text = f"func.func @main(%0: tensor<4x8xf32>) -> tensor<4x8xf32> {{\n{lines}\nreturn %{LONG} : tensor<4x8xf32>\n}}"
    start = time.perf_counter()
    mlir = parse_module(text, "long", STABLEHLO)
    middle = time.perf_counter()
    module = from_mlir(mlir, "long")
    end = time.perf_counter()
    assert isinstance(module, Module)
    rows: list[list[object]] = [
        [f"{LONG} operations: MLIR text", middle - start],
        [f"{LONG} operations: to verified HLO", end - middle],
    ]
    type_ = f"tensor<{CONSTANT_BYTES // 4}xf32>"
    value = f'dense<"0x{os.urandom(CONSTANT_BYTES).hex()}"> : {type_}'
    text = f"func.func @main() -> {type_} {{\n%0 = stablehlo.constant {value}\nreturn %0 : {type_}\n}}"
    start = time.perf_counter()
    load(text, "constant")
    return [*rows, ["64 MB hexadecimal constant", time.perf_counter() - start]]


def main() -> int:
    """Prints the counts by folder, the refusals, and the speed."""
    shared = data.require_shared()
    rows: list[list[object]] = []
    refused: list[str] = []
    for name in FOLDERS:
        counts, bad = sweep(shared / name)
        rows.append([name, *(counts[k] for k in ("hlo", "program", "apart", "refused", "ms"))])
        refused += bad
    show("StableHLO programs", ["folder", "HLO", "to refine", "not a program", "refused", "ms"], rows)
    show("", ["speed", "seconds"], speed())
    for text in refused:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
