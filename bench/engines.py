"""Both engines and saved executables against one another: every model, or a sample of the corpus, bit by bit.

    python -m bench.engines                    the models
    python -m bench.engines --corpus 300       small corpus programs, chosen by --seed

Each program runs in a process of its own: compiled twice, interpreted, then saved, loaded and run again; all four must
give the same bits. Loading is timed in a fresh process after imports. Exits with 1 when anything differs.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.models import FIXED_ARGS
from bench.tables import fresh_json, show
from xyla.testing import data

TIMEOUT = 240
MAX_BYTES = 6000


def one(path: str, name: str) -> dict[str, Any]:
    """Runs one program every way in this process."""
    import xyla
    from xyla.clients.devices import Job
    from xyla.clients.random_args import random_args
    from xyla.hlo.module import Module
    from xyla.runtime.engine_interpreted import Interpreter
    from xyla.support.status import XylaError

    try:
        module = xyla.load(path)
        if not isinstance(module, Module) or not Job(module).plain:
            return {"skipped": "dynamic, or for several devices"}
        args = FIXED_ARGS.get(name) or random_args(module.entry_parameter_shapes(), 0)
        run = xyla.compile(module)
        first = run(*args)
    except XylaError as error:
        return {"skipped": error.status.name}
    start = time.perf_counter()
    again = run(*args)
    native = time.perf_counter() - start
    run.use(Interpreter())
    start = time.perf_counter()
    interpreted = run(*args)
    stepwise = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "p.xyla"
        run.save(file)
        size = file.stat().st_size
        loaded = xyla.load_executable(file)(*args)
        spent = {}
        if name in {model.name for model in data.models()}:
            spent = fresh_json(["-m", "bench.engines", "--load", str(file)], TIMEOUT, {"XYLA_CACHE": "0"})
    bits = [[np.asarray(a).tobytes() for a in results] for results in (first, again, interpreted, loaded)]
    equal = [b == bits[0] for b in bits[1:]]
    return {"equal": equal, "native": native, "stepwise": stepwise, "size": size, "load": spent.get("load", -1.0)}


def load(file: str) -> dict[str, float]:
    """Milliseconds to load a saved executable, after imports; processor time beside it."""
    import xyla
    import xyla.clients.api
    import xyla.runtime.aot

    start, used = time.perf_counter(), time.process_time()
    xyla.load_executable(file)
    return {"load": (time.perf_counter() - start) * 1e3, "processor": (time.process_time() - used) * 1e3}


def programs(count: int, seed: int) -> list[tuple[str, str]]:
    """(name, path) of the models, or of `count` small corpus programs."""
    if not count:
        return [(model.name, str(model.hlo)) for model in data.models()]
    root = data.shared_dir()
    if root is None:
        raise SystemExit("no corpus: set XYLA_SHARED")
    files = sorted(p for p in (root / "corpus").rglob("*.hlo") if p.stat().st_size < MAX_BYTES)
    random.Random(seed).shuffle(files)
    return [(p.stem, str(p)) for p in files[:count]]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models to run; all when none is named")
    parser.add_argument("--corpus", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--load", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one or options.load:
        print(json.dumps(load(options.load) if options.load else one(*options.one)))
        return
    rows: list[tuple[object, ...]] = []
    wrong = skipped = 0
    for name, path in programs(options.corpus, options.seed):
        if options.names and name not in options.names:
            continue
        found = fresh_json(["-m", "bench.engines", "--one", path, name], TIMEOUT)
        if "skipped" in found:
            skipped += 1
            continue
        same = all(found.get("equal", [False]))
        wrong += not same
        if options.corpus and same:
            rows.append((name,))
            continue
        verdict = "equal" if same else str(found.get("error", found.get("equal")))[:60]
        numbers = [found.get(key, 0.0) * 1e3 for key in ("native", "stepwise")]
        rows.append((name, *numbers, found.get("load", 0.0), found.get("size", 0), verdict))
    columns = ("program", "compiled ms", "interpreted ms", "load ms", "file bytes", "bits")
    title = f"{len(rows) - wrong} of {len(rows)} equal, {skipped} do not compile or are for several devices"
    show(title, columns, [row for row in rows if len(row) > 1])
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
