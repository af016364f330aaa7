"""Loading and compiling a model in a fresh process: with an empty kernel cache (cold), then a full one (warm)."""

from __future__ import annotations

import argparse
import json
import tempfile
import time

from bench.tables import fresh_json, show
from xyla.testing import data

TIMEOUT = 120


def one(path: str) -> dict[str, object]:
    """Seconds to load and to compile `path` in this process, imports left out."""
    import xyla

    _ = xyla.load, xyla.compile
    start = time.perf_counter()
    module = xyla.load(path)
    loaded = time.perf_counter()
    executable = xyla.compile(module)
    done = time.perf_counter()
    stats = executable.stats
    return {"load": loaded - start, "compile": done - loaded, "stats": str(stats)}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["transformer_fwd"])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one)))
        return
    paths = {model.name: str(model.stablehlo) for model in data.models()}
    rows = []
    for name in options.models:
        with tempfile.TemporaryDirectory() as cache:
            for state in ("cold", "warm"):
                arguments = ["-m", "bench.compile_time", "--one", paths[name]]
                found = fresh_json(arguments, TIMEOUT, {"XYLA_CACHE_DIR": cache})
                rows.append((name, state, found.get("load", "-"), found.get("compile", found.get("error", "-"))))
    show("compile time, seconds", ("model", "cache", "load", "compile"), rows)


if __name__ == "__main__":
    main()
