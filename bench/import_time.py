"""How long `import xyla` and `xyla --help` take in a fresh process: medians, beside what they rest on."""

from __future__ import annotations

import statistics
import time

from bench.tables import fresh, show

RUNS = 9
CASES = {
    "python": ["-c", "pass"],
    "numpy + ml_dtypes + llvmlite": ["-c", "import numpy, ml_dtypes, llvmlite.binding"],
    "import xyla": ["-c", "import xyla"],
    "... and all that load, compile and run need": [
        "-c",
        "import xyla; xyla.load, xyla.compile, xyla.run, xyla.interp",
    ],
    "xyla --help": ["-m", "xyla.clients.cli.main", "--help"],
}


def measure(arguments: list[str]) -> float:
    """Seconds of one fresh process."""
    start = time.perf_counter()
    code, _, err = fresh(arguments, 60)
    assert code == 0, err
    return time.perf_counter() - start


def main() -> None:
    """Prints the table. Cases take turns, so that a busy moment of the machine hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(RUNS):
        for name, arguments in CASES.items():
            times[name].append(measure(arguments))
    medians = {name: statistics.median(values) for name, values in times.items()}
    base = medians["numpy + ml_dtypes + llvmlite"]
    rows = [(name, seconds, seconds - base) for name, seconds in medians.items()]
    show(f"start-up, seconds (median of {RUNS})", ("case", "seconds", "over numpy + llvmlite"), rows)


if __name__ == "__main__":
    main()
