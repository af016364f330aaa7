"""The StableHLO conformance table: every set and mode, for one or more run functions.

    python bench/conformance.py [--callable xyla.interp:run] [--callable xyla:run] [--set testdata ...] [--failures]
    python bench/conformance.py --callable bench.conformance:interpreted       the engine that runs step by step
    python bench/conformance.py --bits 10                                      both engines, bit by bit, on each 10th

Runs the shared harness (tools/conformance.py in the shared corpus) in this process and prints passes, failures, errors
and skips, with the share passed against the bar. Exit code 1 if a bar is missed, or if the engines' bits differ.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# Set, mode, and the least share of cases that must pass (of those that the harness does not skip).
ROWS: tuple[tuple[str, str, float], ...] = (
    ("testdata", "const", 0.995),
    ("testdata", "params", 0.995),
    ("interpret", "const", 0.95),
    ("chlo", "const", 0.9),
    ("math", "const", 19 / 35),
    ("quantized", "const", 0.9),
)


def harness() -> Any:
    """The shared harness as a module. Exits with a message where the shared corpus is absent."""
    from xyla.testing import data

    shared = data.shared_dir()
    if shared is None:
        sys.exit(data.ABSENT)
    spec = importlib.util.spec_from_file_location("conformance_harness", shared / "tools" / "conformance.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def disabled(path: str) -> bool:
    """Files whose own first line says that the reference interpreter does not run them."""
    with open(path) as f:
        return f.readline().startswith("// RUN-DISABLED")


def results(h: Any, run: Callable[..., Any], name: str, mode: str) -> Iterator[tuple[str, str, str]]:
    """(case id, status, why) of every case of a set."""
    for path in h.files(name):
        off = disabled(path)
        for case in h.cases(path, mode):
            if case["skip"]:
                yield case["id"], "skip", case["skip"]
                continue
            try:
                outputs = run(case["text"], case["args"]) if mode == "params" else run(case["text"])
                why = h.judge(case, outputs)
                status = "fail" if why else "pass"
            except Exception as e:  # a crash of any kind is a result of the table, not of this script
                why, status = str(e)[:400], "error"
            yield case["id"], "disabled" if off and status != "pass" else status, why or ""


def table(h: Any, target: str, sets: list[str], failures: bool) -> bool:
    """Prints the rows of one run function; whether every bar was met."""
    module, function = target.split(":")
    run = getattr(importlib.import_module(module), function)
    met = True
    heads = ("pass", "fail", "error", "skip", "off")
    print(f"\n{target}")
    print(f"{'set':<12}{'mode':<8}" + "".join(f"{h:>6}" for h in heads) + f"{'share':>9}{'bar':>8}{'s':>7}")
    for name, mode, bar in ROWS:
        if sets and name not in sets:
            continue
        start = time.perf_counter()
        count: Counter[str] = Counter()
        for case, status, why in results(h, run, name, mode):
            count[status] += 1
            if failures and status in ("fail", "error"):
                print(f"  {status} {case}: {why.splitlines()[0][:160] if why else ''}")
        judged = count["pass"] + count["fail"] + count["error"]
        share = count["pass"] / judged if judged else 1.0
        ok = share >= bar
        met &= ok
        counts = "".join(f"{count[s]:>6}" for s in ("pass", "fail", "error", "skip", "disabled"))
        seconds = time.perf_counter() - start
        print(f"{name:<12}{mode:<8}{counts}{share:>9.2%}{bar:>8.1%}{seconds:>7.1f}{'' if ok else '  MISSED'}")
    return met


def interpreted(text: str, args: Sequence[Any] = ()) -> list[Any]:
    """Runs a program with the interpreted engine."""
    import xyla

    return xyla.run(text, args, engine="interpreted")


def outcome(run: Callable[..., Any], case: dict[str, Any], mode: str) -> tuple[object, ...]:
    """Types, shapes and bytes of a case's results, or its error."""
    import numpy as np

    try:
        results = run(case["text"], case["args"]) if mode == "params" else run(case["text"])
    except Exception as e:  # engines have to agree on what fails, however it does
        return (str(e)[:400],)
    return tuple((a.dtype, a.shape, a.tobytes()) for a in map(np.asarray, results))


def bits(h: Any, sets: list[str], every: int) -> bool:
    """Prints how many of each `every`-th case give the same bits in both engines; whether all do."""
    import xyla

    print(f"\ncompiled and interpreted, every {every}{'th' if every > 1 else ''} case")
    print(f"{'set':<12}{'mode':<8}{'cases':>7}{'equal':>7}{'s':>7}")
    same = True
    for name, mode, _ in ROWS:
        if sets and name not in sets:
            continue
        start = time.perf_counter()
        cases = [c for path in h.files(name) for c in h.cases(path, mode) if not c["skip"]][::every]
        differ = [c["id"] for c in cases if outcome(xyla.run, c, mode) != outcome(interpreted, c, mode)]
        same &= not differ
        print(f"{name:<12}{mode:<8}{len(cases):>7}{len(cases) - len(differ):>7}{time.perf_counter() - start:>7.1f}")
        for case in differ:
            print(f"  differs: {case}")
    return same


def main() -> None:
    """Parses arguments and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--callable", action="append", help="module:function, may repeat (default xyla.interp:run)")
    parser.add_argument("--set", action="append", default=[], help="only this set, may repeat")
    parser.add_argument("--failures", action="store_true", help="list what failed")
    parser.add_argument("--bits", type=int, metavar="N", help="compare the two engines on every N-th case instead")
    args = parser.parse_args()
    os.chdir(ROOT)
    h = harness()
    if args.bits:
        sys.exit(0 if bits(h, args.set, args.bits) else 1)
    met = [table(h, target, args.set, args.failures) for target in args.callable or ["xyla.interp:run"]]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
