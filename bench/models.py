"""Every speed program with random arguments: compiled, run, and compared with the reference evaluator.

Each runs in a process of its own, so that one that crashes or hangs costs one row. `rounding`: the results
differ by more than the tolerance, but arguments one unit in the last place away move the evaluator's own results about
as far. Exits with 1 when a row is wrong otherwise.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from typing import Any

import numpy as np

from bench.tables import fresh_json, show
from xyla.testing import data

TIMEOUT = 240
SEED = 0
# Its one argument is its trip count; a random one would hardly loop, a million would keep the evaluator for minutes.
FIXED_ARGS = {"while_scalar_1M": [np.array(1000, np.int32)]}


def one(name: str, path: str, runs: int) -> dict[str, Any]:
    """Compiles, runs and compares one program in this process; times in milliseconds, the evaluator's in seconds."""
    import xyla
    from xyla.clients.compare import compare, reduction_length
    from xyla.clients.random_args import random_args

    module = xyla.load(path)
    args = FIXED_ARGS.get(name) or random_args(module.entry_parameter_shapes(), SEED)
    start = time.perf_counter()
    executable = xyla.compile(module)
    compiled = time.perf_counter()
    outputs = executable(*args)
    first = time.perf_counter()
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        executable(*args)
        times.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    wanted = xyla.interp.run(module, args)
    evaluated = time.perf_counter() - begin
    length = reduction_length(module)
    results = [compare(got, np.asarray(want), length) for got, want in zip(outputs, wanted, strict=True)]
    good = all(result.ok for result in results)
    return {
        "compile": (compiled - start) * 1e3,
        "run": statistics.median([*times, *([first - compiled] if not times else [])]) * 1e3,
        "evaluator": evaluated,
        "error": max((r.max_abs for r in results), default=0.0),
        "ulp": max((r.max_ulp for r in results), default=0.0),
        "ok": good,
        "rounding": not good and only_rounding(module, args, wanted, results),
        "stats": str(executable.stats),
    }


def only_rounding(module: Any, args: list[Any], wanted: list[Any], results: list[Any]) -> bool:
    """Whether rounding explains each mismatch, judged by moving the arguments by one unit in the last place."""
    import xyla
    from xyla.clients.compare import compare, is_rounding, perturbed

    moved = xyla.interp.run(module, perturbed(args))
    pairs = zip(results, moved, wanted, strict=True)
    return all(result.ok or is_rounding(result, compare(np.asarray(a), np.asarray(b))) for result, a, b in pairs)


def row(name: str, found: dict[str, Any]) -> tuple[object, ...]:
    """The table's row."""
    if "error" in found and "ok" not in found:
        return (name, "-", "-", "-", "-", "-", found["error"][:70])
    ulp = found["ulp"]
    numbers = (found["compile"], found["run"], found["evaluator"])
    shown = "inf" if math.isinf(ulp) else f"{ulp:.0f}"
    verdict = "ok" if found["ok"] else "rounding" if found["rounding"] else "DIFFERS"
    return (name, *numbers, f"{found['error']:.2e}", shown, verdict)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models to run; all when none is named")
    parser.add_argument("--hlo", action="store_true", help="read the HLO text instead of the StableHLO")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(*options.one, options.runs)))
        return
    rows, wrong = [], 0
    for model in data.models():
        if options.names and model.name not in options.names:
            continue
        path = str(model.hlo if options.hlo else model.stablehlo)
        found = fresh_json(["-m", "bench.models", "--runs", str(options.runs), "--one", model.name, path], TIMEOUT)
        wrong += not (found.get("ok", False) or found.get("rounding", False))
        rows.append(row(model.name, found))
        print(*(f"{c:.1f}" if isinstance(c, float) else c for c in rows[-1]), file=sys.stderr, flush=True)
    columns = ("model", "compile ms", "run ms", "evaluator s", "max abs", "max ulp", "verdict")
    show(f"{len(rows) - wrong} of {len(rows)} without fault", columns, rows)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
