"""The StableHLO conformance table: every set and mode, for one or more run functions.

    python bench/conformance.py [--callable xyla.interp:run] [--callable xyla:run] [--set testdata ...] [--failures]

Runs the shared harness (tools/conformance.py in the shared corpus) in this process and prints passes, failures, errors
and skips, with the share passed against the bar. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
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


def main() -> None:
    """Parses arguments and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--callable", action="append", help="module:function, may repeat (default xyla.interp:run)")
    parser.add_argument("--set", action="append", default=[], help="only this set, may repeat")
    parser.add_argument("--failures", action="store_true", help="list what failed")
    args = parser.parse_args()
    os.chdir(ROOT)
    h = harness()
    met = [table(h, target, args.set, args.failures) for target in args.callable or ["xyla.interp:run"]]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
