"""Corpus modules with random arguments, compiled and evaluated: do the results agree?

python -m bench.compiled_corpus [--every N] [--seconds S] [--filter TEXT] [--list]

Modules for several devices, with more than 16 MB of arguments and results, or that draw from the host's generator are
left out. Each batch runs in a process of its own, so that a crash costs one row.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from xyla.support.status import XylaError
from xyla.testing import data

BATCH = 40
MAX_BYTES = 16 << 20


class SlowError(Exception):
    """The alarm rang."""


def _alarm(*_: object) -> None:
    raise SlowError


def judge(path: str, seconds: int) -> tuple[str, str]:
    """(verdict, detail) of one module: agrees, differs, left out, unimplemented, refused, slow."""
    import xyla
    from xyla.clients.compare import compare, reduction_length
    from xyla.clients.random_args import random_args

    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(seconds)
    try:
        module = xyla.load(path)
        reason = _left_out(module)
        if reason:
            return "left out", reason
        args = random_args(module.entry_parameter_shapes(), 0)
        wanted = xyla.interp.run(module, args)
        got = xyla.compile(module)(*args)
        length = reduction_length(module)
        results = [compare(g, np.asarray(w), length) for g, w in zip(got, wanted, strict=True)]
        bad = [f"output {i}: {r}" for i, r in enumerate(results) if not r.ok]
        return ("differs", "; ".join(bad)[:300]) if bad else ("agrees", "")
    except SlowError:
        return "slow", f"over {seconds} s"
    except XylaError as error:
        kind = "unimplemented" if error.status.name == "UNIMPLEMENTED" else "refused"
        return kind, error.message.splitlines()[0][:200]
    finally:
        signal.alarm(0)


def _left_out(module: Any) -> str:
    if module.config.replica_count * module.config.num_partitions > 1:
        return "several devices"
    size = sum(s.num_bytes for s in module.entry_parameter_shapes()) + module.entry.root.shape.num_bytes
    if size > MAX_BYTES:
        return "large"
    names = {inst.op.name for inst in module.instructions()}
    drawn = names & {"rng", "rng-get-and-update-state", "infeed", "recv"}
    return f"has {sorted(drawn)[0]}" if drawn else ""


def _child(paths: list[str], seconds: int) -> None:
    for path in paths:
        print(json.dumps([path, *judge(path, seconds)]), flush=True)


def _batch(paths: list[str], seconds: int) -> list[list[str]]:
    """Rows of a batch; a module that kills the process gets a row, and the rest goes on in another process."""
    rows: list[list[str]] = []
    while paths:
        command = [sys.executable, "-m", "bench.compiled_corpus", "--child", str(seconds), *paths]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds * len(paths) * 3 + 60, check=False
        )
        new = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        rows += new
        paths = paths[len(new) :]
        if paths:
            rows.append([paths[0], "crash", f"exit {done.returncode}: {done.stderr.strip()[-300:]}"])
            paths = paths[1:]
    return rows


def main() -> int:
    """Prints the table; 1 when a module differs or crashes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="one module in N")
    parser.add_argument("--seconds", type=int, default=10, help="limit for one module")
    parser.add_argument("--filter", default="", help="only paths that hold this text")
    parser.add_argument("--list", action="store_true", help="also list what is unimplemented, refused or slow")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.child[1:], int(options.child[0]))
        return 0
    paths = [str(c.path) for c in data.hlo_modules() if c.loadable and options.filter in str(c.path)][:: options.every]
    counts: Counter[str] = Counter()
    shown = {"differs", "crash"} | ({"unimplemented", "refused", "slow"} if options.list else set())
    table = Table("module", "verdict", "detail")
    for at in range(0, len(paths), BATCH):
        for path, verdict, detail in _batch(paths[at : at + BATCH], options.seconds):
            counts[verdict] += 1
            if verdict in shown:
                table.add_row("/".join(path.split("/")[-2:]), verdict, detail)
    Console(width=200).print(table)
    print(dict(counts))
    return int(counts["differs"] + counts["crash"] > 0)


if __name__ == "__main__":
    sys.exit(main())
