"""Prints each function's largest error in ULP, where it is, and its speed: `python bench/ulp.py [--count N] [NAME...]`.

Speed is of one core on data in its second-level cache, in nanoseconds an element.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

from xyla.hlo import ops
from xyla.runtime.objects import ObjectStore
from xyla.support import dtypes
from xyla.testing.elementwise import call_kernel, op_kernel
from xyla.testing.ulp import CASES, Case, arguments, compare

TIMED = 1 << 15


def measure(case: Case, dtype: type, count: int, store: ObjectStore) -> list[str]:
    """One row of the table."""
    et = dtypes.by_numpy(dtype)
    lanes = 16 if dtype is np.float32 else 8
    (kernel,) = store.load([op_kernel(getattr(ops, case.op), [et] * case.arity, et, None, lanes)])
    args = arguments(case, dtype, count)
    got = np.zeros_like(args[0])
    call_kernel(kernel.address, [*args, got], got.size)
    errors = compare(got, args, case.reference)
    rng = np.random.default_rng(0)
    timed = [rng.uniform(0.1, 1.0, TIMED).astype(dtype) for _ in range(case.arity)]
    out = np.zeros(TIMED, dtype)
    best = float("inf")
    for _ in range(200):
        start = perf_counter()
        call_kernel(kernel.address, [*timed, out], TIMED)
        best = min(best, perf_counter() - start)
    at = ", ".join(f"{v:.9g}" for v in errors.at)
    return [case.op.lower(), et.name, f"{errors.worst:.3f}", at, str(errors.special), f"{best / TIMED * 1e9:.3f}"]


def main() -> None:
    """Parses arguments and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60_000, help="inputs a range (8 ranges)")
    parser.add_argument("names", nargs="*", help="functions (default: all)")
    options = parser.parse_args()
    store = ObjectStore()
    table = Table(title="Largest error in ULP")
    for column in ("function", "type", "ULP", "at", "special values wrong", "ns/element"):
        table.add_column(column, justify="right")
    for case in CASES:
        if not options.names or case.op.lower() in options.names:
            for dtype in (np.float32, np.float64):
                table.add_row(*measure(case, dtype, options.count, store))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
