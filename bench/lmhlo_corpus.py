"""Lowers every program of the shared corpus that loads to LMHLO, verifies it, prints it and reads it back.

    python -m bench.lmhlo_corpus                  all of them
    python -m bench.lmhlo_corpus --sample 20      every 20th
    python -m bench.lmhlo_corpus --models         the models alone
    python -m bench.lmhlo_corpus --mlir-opt       mlir-opt has to accept each text too

Prints a line a failure (text that reads back different, an INTERNAL error, an exception; refusals are counted), the
counts, and the processor time by stage.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from bench.tables import show
from xyla.compiler.driver import Compilation
from xyla.formats.detect import load_file
from xyla.hlo.module import Module
from xyla.lowering import hlo_to_lmhlo, lmhlo
from xyla.lowering.lmhlo_reader import parse
from xyla.lowering.lmhlo_text import print_module
from xyla.lowering.lmhlo_verify import verify
from xyla.support.status import Status, XylaError
from xyla.testing import data

STAGES = ("lower", "verify", "print", "read")


class Sweep:
    """Outcomes and times of all programs. mlir_opt: the tool that has to accept their texts, or None."""

    def __init__(self, mlir_opt: str | None) -> None:
        self.mlir_opt = mlir_opt
        self.outcomes: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.operations = 0

    def run(self, path: Path) -> None:
        """One program."""
        try:
            module = load_file(path.read_bytes(), str(path))
            if not isinstance(module, Module):
                self.outcomes["dynamic"] += 1
                return
            fault = self._round_trip(path, Compilation(module))
            self.outcomes[fault or "ok"] += 1
            if fault:
                print(f"{path}: {fault}", flush=True)
        except XylaError as error:
            if error.status is Status.INTERNAL:
                print(f"{path}: {error.message[:300]}", flush=True)
            self.outcomes[error.status.name] += 1
        except Exception as error:  # finding these is what this script is for
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(frame.filename).name}:{frame.lineno}"
            print(f"{path}: {type(error).__name__}: {str(error)[:200]} at {where}", flush=True)
            self.outcomes["EXCEPTION"] += 1

    def _round_trip(self, path: Path, compilation: Compilation) -> str | None:
        """What is wrong with a program's LMHLO, or None."""
        assignment = compilation.assignment
        for inst in assignment.module.instructions():
            if hlo_to_lmhlo.is_unit(inst) and inst in assignment.dataflow:
                compilation.unit(inst)
        times = [process_time()]
        module = hlo_to_lmhlo.lower(assignment.module, assignment, compilation.unit)
        times.append(process_time())
        verify(module)
        times.append(process_time())
        text = print_module(module)
        times.append(process_time())
        again = parse(text, str(path))
        times.append(process_time())
        for stage, first, last in zip(STAGES, times, times[1:], strict=False):
            self.seconds[stage] += last - first
        self._count(module)
        if again != module:
            return "reads back different"
        return self._accepted(text)

    def _count(self, module: lmhlo.Module) -> None:
        for function in module.functions:
            for op in function.body.walk():
                self.operations += 1
                self.kinds["a launch" if isinstance(op, lmhlo.Launch) else op.mnemonic] += 1

    def _accepted(self, text: str) -> str | None:
        if self.mlir_opt is None:
            return None
        command = [self.mlir_opt, "--allow-unregistered-dialect", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        return None if done.returncode == 0 else f"mlir-opt refuses it: {done.stderr.splitlines()[0][:200]}"


def programs(sample: int, models: bool) -> Iterator[Path]:
    """HLO modules, StableHLO tests and models of the corpus, every `sample`-th."""
    paths = [m.hlo for m in data.models()]
    if not models:
        paths += [case.path for case in data.hlo_modules() if case.loadable]
        paths += data.hlo_files() + data.stablehlo_files()
    yield from paths[::sample]


def main() -> None:
    """Prints the tables; exits with 1 when something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every N-th program")
    parser.add_argument("--models", action="store_true", help="the models alone")
    parser.add_argument("--mlir-opt", action="store_true", help="check each text with mlir-opt")
    options = parser.parse_args()
    tool = next((p for name in ("mlir-opt-19", "mlir-opt") if (p := shutil.which(name))), None)
    if options.mlir_opt and tool is None:
        sys.exit("mlir-opt is not installed (Debian: mlir-19-tools)")
    sweep = Sweep(tool if options.mlir_opt else None)
    for path in programs(options.sample, options.models):
        sweep.run(path)
    show("programs by outcome", ("outcome", "programs"), sweep.outcomes.most_common())
    show("operations by kind", ("operation", "count"), sweep.kinds.most_common(20))
    rows = [(stage, s, 1e6 * s / max(1, sweep.operations)) for stage, s in sweep.seconds.items()]
    show(f"{sweep.operations} operations", ("stage", "seconds", "us an operation"), rows)
    refused = {"ok", "dynamic", "UNIMPLEMENTED", "INVALID_ARGUMENT"}
    sys.exit(any(outcome not in refused for outcome in sweep.outcomes))


if __name__ == "__main__":
    main()
