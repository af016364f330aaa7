"""Runs the small modules of the shared corpus, whole or damaged, each in a child process with limits.

    python -m bench.run_corpus --count 500                 compiled, random arguments
    python -m bench.run_corpus --compare                   and compared with the evaluator
    python -m bench.run_corpus --mutate 3                  each damaged once, by seed 3

A fault is a crash, a Python exception that is not an XylaError, an INTERNAL error, a wrong result, or a run that does
not end in time (which a program may be entitled to: the file is named). Prints the counts, and a line a fault.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import sys
import traceback
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

import xyla
import xyla.compiler.driver  # what the children need is loaded before they are forked
import xyla.interp
from bench.tables import show
from xyla.clients.compare import compare, reduction_length
from xyla.clients.random_args import random_args
from xyla.formats.detect import load_file
from xyla.hlo.module import Module
from xyla.support.status import Status, XylaError
from xyla.testing import data
from xyla.testing.mutate import mutate

MAX_BYTES = 6000
SECONDS = 20
MEMORY = 12 << 30
FAULTS = ("EXCEPTION", "SIGNAL", "INTERNAL", "DIFFERS", "TIMEOUT")


def outcome(contents: bytes, name: str, engine: str, check: bool) -> str:
    """Loads and runs one program in this process: a word, with a detail after a colon for a fault."""
    try:
        program = load_file(contents, name)
        if not isinstance(program, Module):
            return "dynamic"
        args = random_args(program.entry_parameter_shapes(), 0)
        results = xyla.run(program, args, engine=engine)
        if not check:
            return "ok"
        wanted, length = xyla.interp.run(program, args), reduction_length(program)
        found = [compare(np.asarray(a), np.asarray(b), length) for a, b in zip(results, wanted, strict=True)]
        wrong = [f"output {i} by {r.max_abs:.3g} {r.problem}" for i, r in enumerate(found) if not r.ok]
        return f"DIFFERS: {', '.join(wrong)}" if wrong else "ok"
    except XylaError as error:
        return f"INTERNAL: {error.message[:200]}" if error.status is Status.INTERNAL else error.status.name
    except Exception as error:  # finding these is what this script is for
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        return f"EXCEPTION: {type(error).__name__}: {str(error)[:150]} at {where}"


def isolated(contents: bytes, name: str, engine: str, check: bool) -> str:
    """`outcome` in a child with bounded time and memory: a crash is an outcome too."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(SECONDS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.write(writer, outcome(contents, name, engine, check).encode()[:2000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        return told
    number = os.WTERMSIG(status)
    return f"TIMEOUT: {SECONDS} s" if number == signal.SIGALRM else f"SIGNAL: {signal.Signals(number).name}"


def programs(order: int) -> list[Path]:
    """Small HLO and StableHLO texts, shuffled by a seed."""
    texts = [case.path for case in data.hlo_modules() if case.loadable] + data.stablehlo_files()
    small = [path for path in texts if path.stat().st_size < MAX_BYTES]
    random.Random(order).shuffle(small)
    return small


def main() -> None:
    """Prints a line a fault and the counts; exits with 1 when there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--order", type=int, default=0, help="seed of the files' order")
    parser.add_argument("--mutate", type=int, metavar="SEED", help="damage each file once")
    parser.add_argument("--engine", default="compiled", choices=["compiled", "interpreted", "reference"])
    parser.add_argument("--compare", action="store_true", help="compare with the evaluator")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for path in programs(options.order)[: options.count]:
        contents, how = path.read_bytes(), "whole"
        if options.mutate is not None:
            how, contents = mutate(contents, zlib.crc32(path.name.encode()) + options.mutate)
        told = isolated(contents, str(path), options.engine, options.compare)
        word = told.partition(":")[0] or "EXCEPTION"
        counts[word] += 1
        if word in FAULTS:
            print(f"{path.name} ({how}): {told}", flush=True)
    show(f"{sum(counts.values())} programs, {options.engine}", ("outcome", "programs"), counts.most_common())
    sys.exit(any(counts[word] for word in FAULTS))


if __name__ == "__main__":
    main()
