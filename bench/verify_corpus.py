"""What the verifier says of every labelled module: how many it takes, and each one it refuses with the reason.

Run as `python -m bench.verify_corpus [--all]`. Refusals of modules that XLA's own tests expect to fail are counted, and
listed only with `--all`: a module in the main list is either ill-formed (XLA's parser alone does not notice) or shows a
rule that is too strict. As a side effect every instruction's inferred shape is compared with the stated one.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from bench.tables import show
from xyla.formats.hlo_text import parse
from xyla.hlo.verifier import violations
from xyla.support.status import XylaError
from xyla.testing import data


def main() -> int:
    """Prints the counts, then the refusals."""
    counts: Counter[str] = Counter()
    refused: list[tuple[str, str]] = []
    seconds, instructions = 0.0, 0
    for case in data.hlo_modules():
        if not case.loadable:
            continue
        counts["modules"] += 1
        name = f"{case.path.parent.name}/{case.path.stem}"
        try:
            module = parse(case.path.read_text(), name)
        except XylaError as error:
            counts["not read"] += 1
            refused.append((name, f"not read: {error.message}"))
            continue
        start = time.perf_counter()
        found = violations(module)
        seconds += time.perf_counter() - start
        instructions += module.num_instructions
        if not found:
            counts["well-formed"] += 1
        elif "error" in case.expect and "--all" not in sys.argv:
            counts["refused, as their test expects"] += 1
        else:
            counts["refused"] += 1
            refused.append((name, found[0].message))
    show("verifier on the labelled modules", ["what", "count"], sorted(counts.items()))
    show("", ["speed", ""], [["instructions", instructions], ["microseconds each", seconds / instructions * 1e6]])
    for name, reason in refused:
        print(f"{name}\n    {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
