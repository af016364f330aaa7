"""Every pass on every labelled module: no crash, well-formed results, and the same values before and after.

    python -m bench.passes_corpus [--pass NAME ...] [--sample N] [--jobs 2] [--seconds S] [--fp default] [--checked]
                                  [--labelled] [--failures FILE]

A changed module is evaluated, before and after, on two sets of arguments where the evaluator needs less than a
second: random ones, and ones full of special values. `rounding`: floats differ, but within tolerance, and NaN, inf and
the signs of zeros agree (reductions in another order); or a rule marked as value-changing took part, and without such
rules the values are right. Whole pipelines are rows too (`pipeline-cpu`). Exits with 1 on a mismatch or a crash.

The second table compares what changed with the labels of the corpus (guesses of what each module's own test expected).
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread, Timer
from typing import IO, Any

import numpy as np

from bench.tables import show
from xyla import passes
from xyla.clients.compare import compare, reduction_length
from xyla.clients.random_args import leaf_shapes, random_args
from xyla.formats.hlo_text import parse
from xyla.hlo import ops, rewriter
from xyla.hlo.module import Module
from xyla.hlo.shape import Shape
from xyla.hlo.verifier import violations
from xyla.passmgr.base import Pass, registered
from xyla.passmgr.context import Fp
from xyla.passmgr.marks import all_marks
from xyla.passmgr.pipeline import Pipeline
from xyla.support.status import Status, XylaError
from xyla.targets.cpu.pipeline import pipelines
from xyla.testing import corpus_labels, data
from xyla.testing.pass_check import Outcome, apply_pass, difference
from xyla.testing.worlds import Devices, worlds

Array = np.ndarray[Any, np.dtype[Any]]

EVALUATE_SECONDS = 1.0
PASS_SECONDS = 20.0
# Modules with larger arguments and results are not evaluated: their values would crowd out everything else.
MOST_BYTES, WORKER_BYTES = 1 << 26, 5 << 30
# Passes that exist to compute in another precision.
WIDENING = ("element-type-converter", "float-normalization", "optimization")
# How long a worker may be silent: past this it is taken to hang in native code, and is stopped.
SILENT_SECONDS = 240.0


class _LateError(BaseException):
    """The time for one piece of work is over."""


class _Deadline:
    """Raises _LateError in the block when it takes more than `seconds` of this process, or ten times as long in all.

    Time of the process: what is evaluated does not depend on what else the machine does.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, _ring)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        signal.setitimer(signal.ITIMER_REAL, 10 * self.seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _ring(*_: object) -> None:
    raise _LateError


# -- one module --------------------------------------------------------------------------------


@dataclass(slots=True)
class Values:
    """The arguments of a module and its results on each, evaluated when first asked for; none where that fails.

    late: an evaluation on several devices was given up; its threads may go on.
    """

    module: Module
    found: list[tuple[list[Array], list[Array]]] | None = None
    devices: Devices = field(default_factory=Devices)
    late: bool = False

    def get(self) -> list[tuple[list[Array], list[Array]]]:
        """(arguments, results) of every set that evaluates in time."""
        if self.found is None:
            self.found = []
            shapes = self.module.entry_parameter_shapes()
            size = sum(leaf.num_bytes for leaf in leaf_shapes([*shapes, self.module.entry_result_shape()]))
            for devices in worlds(self.module):
                if size * devices.count > MOST_BYTES:
                    break
                self.devices = devices
                for make in (random_args, special_args):
                    try:
                        args = devices.arguments(partial(make, shapes))
                    except (MemoryError, XylaError):  # too large, or of no certain size
                        continue
                    results = self.run(self.module, args, EVALUATE_SECONDS)
                    if isinstance(results, list):
                        self.found.append((args, results))
                if self.found or self.late:
                    break
        return self.found

    def on_devices(self) -> Module:
        """The module, saying on how many devices it runs: passes may use that."""
        self.get()
        config = self.module.config
        if (config.replica_count, config.num_partitions) == (self.devices.replicas, self.devices.partitions):
            return self.module
        copy = rewriter.clone_module(self.module)
        copy.config.replica_count, copy.config.num_partitions = self.devices.replicas, self.devices.partitions
        return copy

    def run(self, module: Module, args: list[Array], seconds: float) -> list[Array] | XylaError | None:
        """The results of a module; the error where it fails; None when time or memory do not suffice."""
        try:
            with _Deadline(seconds):
                return self.devices.run(module, args)
        except XylaError as error:
            return error
        except MemoryError:
            return None
        except _LateError:
            self.late |= self.devices.several
            return None


def special_args(shapes: Sequence[Shape], seed: int) -> list[Array]:
    """Arguments full of zeros of both signs, infinities, NaN, tiny and huge numbers; small and extreme integers."""
    rng = np.random.default_rng(seed + 1)
    floats = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3e38, -3e38, 0.5, 2.0, -3.0, 1e30])
    out = []
    for array, shape in zip(random_args(shapes, seed + 1), leaf_shapes(shapes), strict=True):
        kind = shape.element_type
        with np.errstate(all="ignore"):
            if kind.is_float:
                out.append(rng.choice(floats, shape.dims).astype(kind.np))
            elif kind.is_complex:
                out.append((rng.choice(floats, shape.dims) + 1j * rng.choice(floats, shape.dims)).astype(kind.np))
            elif kind.is_signed and kind.bits >= 8:
                low, high = -(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1
                pool = np.array([0, 1, -1, 2, -2, 5, -7, low, high], np.int64)
                out.append(rng.choice(pool, shape.dims).astype(kind.np))
            else:
                out.append(array)
    return out


def judge(before: Values, outcome: Outcome) -> tuple[str, str]:
    """("same" | "rounding" | "mismatch" | "not evaluated", what differs). See `lenient` for marked rules."""
    verdict, why = "not evaluated", ""
    length = reduction_length(before.module)
    for args, want in before.get():
        args = _kept_arguments(before.module, outcome.module, args)
        got = before.run(outcome.module, args, 10 * EVALUATE_SECONDS)
        if got is None:
            continue
        if isinstance(got, XylaError):
            return "mismatch", f"does not evaluate any more: {got.message}"
        problem = difference(got, want)
        if problem is None:
            verdict = "same" if verdict == "not evaluated" else verdict
        elif all(_only_rounding(np.asarray(a), np.asarray(b), length) for a, b in zip(got, want, strict=True)):
            verdict, why = "rounding", problem
        else:
            return "mismatch", problem
    return verdict, why


def _kept_arguments(before: Module, after: Module, args: list[Array]) -> list[Array]:
    """The arguments of the parameters that a pass has left, which keep their names."""
    if len(before.entry.parameters) == len(after.entry.parameters):
        return args
    names, left = {p.name for p in after.entry.parameters}, iter(args)
    by_parameter = [(p.name in names, [next(left) for _ in leaf_shapes([p.shape])]) for p in before.entry.parameters]
    return [leaf for kept, leaves in by_parameter if kept for leaf in leaves]


def lenient(pass_: Pass | Pipeline, values: Values, outcome: Outcome, fp: Fp) -> bool:
    """Whether a difference beyond tolerance is one that was asked for.

    That is: a rule marked as value-changing took part, and without such rules (strict) the values are right, or take
    too long to find; or the pass computes in another precision, which is what it is for. A program may amplify one
    rounding without bounds.
    """
    if pass_.name.startswith(WIDENING):
        return True
    marked = {mark.rule for mark in all_marks()}
    if fp is Fp.STRICT or not marked & {rule for _, rule in outcome.counts}:
        return False
    strict = apply_pass(pass_, values.on_devices(), fp=Fp.STRICT, checked=False)
    return judge(values, strict)[0] != "mismatch"


def _only_rounding(got: Array, want: Array, length: int) -> bool:
    if not compare(got, want, length).ok:
        return False
    if got.dtype.kind == "c":
        return True
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), want.astype(np.float64)
    both = (a == 0) & (b == 0)
    return bool(np.all(np.signbit(a[both]) == np.signbit(b[both])))


def examine(pass_: Pass | Pipeline, values: Values, fp: Fp, checked: bool) -> dict[str, Any]:
    """What a pass does to a module."""
    start = time.perf_counter()
    try:
        with _Deadline(PASS_SECONDS):
            outcome = apply_pass(pass_, values.module, fp=fp, checked=checked)
    except XylaError as error:
        # A pipeline that emits code asks for the value of a constant, which a shortened text does not have.
        refused = error.status is Status.UNIMPLEMENTED or _is_shortened(values.module)
        kind = "refused" if refused else "crash"
        return {"kind": kind, "why": error.message, "ms": (time.perf_counter() - start) * 1e3}
    except _LateError:
        return {"kind": "crash", "why": f"no end in {PASS_SECONDS:.0f} s", "ms": PASS_SECONDS * 1e3}
    spent = (time.perf_counter() - start) * 1e3
    if not outcome.changed:
        return {"kind": "unchanged", "why": "", "ms": spent}
    problems = violations(outcome.module)
    if problems:
        return {"kind": "crash", "why": f"the result is ill-formed: {problems[0].message}", "ms": spent}
    if values.get() and values.devices.several:
        outcome = apply_pass(pass_, values.on_devices(), fp=fp, checked=False)
    verdict, why = judge(values, outcome)
    if verdict == "mismatch" and lenient(pass_, values, outcome, fp):
        verdict = "rounding"
    rules = sorted(rule for _, rule in outcome.counts)
    return {"kind": verdict, "why": why, "ms": spent, "rules": rules}


def _is_shortened(module: Module) -> bool:
    return any(i.op is ops.CONSTANT and i.attrs.literal.elided for i in module.instructions())


def _random(module: Module) -> bool:
    return any(i.op in (ops.RNG, ops.RNG_GET_AND_UPDATE_STATE) for i in module.instructions())


def _loaded(path: Path) -> Values | None:
    """A well-formed module; `rng` is left out of evaluation, as passes may draw its numbers in another way."""
    try:
        module = parse(path.read_text(), path.name)
    except XylaError:
        return None
    return None if violations(module) else Values(module, [] if _random(module) else None)


def worker(options: argparse.Namespace) -> None:
    """Examines the modules whose paths come in on standard input; a line of JSON for each (module, pass)."""
    passes.load_all()
    resource.setrlimit(resource.RLIMIT_AS, (WORKER_BYTES, WORKER_BYTES))  # too large is an error, not a dead machine
    known: dict[str, Pass | Pipeline] = {name: cls() for name, cls in registered().items()}
    known |= {f"pipeline-{name}": one for name, one in pipelines().items() if name != "simplification"}
    chosen = {name: one for name, one in known.items() if not options.passes or name in options.passes}
    for line in sys.stdin:
        path = Path(line.strip())
        values = _loaded(path)
        for name, one in chosen.items() if values is not None else ():
            assert values is not None
            given = corpus_labels.run_options(name, path.stem)
            one = registered()[name](**given) if given else one
            found = examine(one, values, Fp(options.fp), options.checked)
            print(json.dumps({"file": str(path), "pass": name, **found}), flush=True)
        tired = values is not None and values.late
        print(json.dumps({"done": str(path), "tired": tired}), flush=True)
        if tired:
            break


# -- the sweep --------------------------------------------------------------------------------


def sweep(cases: Sequence[data.HloCase], options: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows, from `jobs` workers; one that falls silent or dies is replaced, and its module counts as a crash."""
    pending = [str(case.path) for case in reversed(cases)]
    rows: list[dict[str, Any]] = []
    if options.seconds is not None:
        alarm = Timer(options.seconds, pending.clear)
        alarm.daemon = True
        alarm.start()
    threads = [Thread(target=_feed, args=(pending, rows, options)) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rows


def _feed(pending: list[str], rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    command = [sys.executable, "-m", "bench.passes_corpus", "--worker", f"--fp={options.fp}"]
    command += ["--checked"] if options.checked else []
    command += [f"--pass={name}" for name in options.passes]
    while pending:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            while pending:
                try:
                    path = pending.pop()
                except IndexError:  # the other workers took the last
                    break
                process.stdin.write(path + "\n")
                process.stdin.flush()
                if len(pending) % 100 == 0:
                    sys.stderr.write(f"\r{len(pending)} modules left   ")
                end = _collect(process, process.stdout, rows)
                if end is None:
                    rows.append({"file": path, "pass": _last_pass(rows, path), "kind": "crash", "why": "died or hung"})
                if end is None or end["tired"]:
                    break
        finally:
            process.kill()
            process.wait()


def _last_pass(rows: list[dict[str, Any]], path: str) -> str:
    return next((f"after {r['pass']}" for r in reversed(rows) if r["file"] == path), "before all")


def _collect(process: subprocess.Popen[str], lines: IO[str], rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Reads one module's rows, and returns the line after them; None when the worker died or was silent too long."""
    beat = [time.monotonic()]
    finished: list[bool] = []

    def watch() -> None:
        while not finished and process.poll() is None:
            time.sleep(1)
            if time.monotonic() - beat[0] > SILENT_SECONDS:
                process.kill()

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        for line in lines:
            beat[0] = time.monotonic()
            row = json.loads(line)
            if "done" in row:
                return dict(row)
            rows.append(row)
            if row["kind"] in ("mismatch", "crash"):
                sys.stderr.write(f"\r{_note(row)}\n")
        return None
    finally:
        finished.append(True)


# -- tables --------------------------------------------------------------------------------


def verdict_table(rows: list[dict[str, Any]]) -> int:
    """A line a pass; returns the number of mismatches and crashes."""
    by_pass: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_pass[row["pass"]].append(row)
    lines, wrong = [], 0
    for name in sorted(by_pass):
        count = Counter(r["kind"] for r in by_pass[name])
        changed = sum(count[k] for k in ("same", "rounding", "mismatch", "not evaluated"))
        wrong += count["mismatch"] + count["crash"]
        spent = sum(r.get("ms", 0.0) for r in by_pass[name])
        kinds = ("same", "rounding", "mismatch", "not evaluated", "refused", "crash")
        lines.append((name, len(by_pass[name]), changed, *(count[k] for k in kinds), f"{spent / 1e3:.1f}"))
    columns = ("pass", "modules", "changed", "same", "rounding", "MISMATCH", "not evaluated", "refused", "CRASH", "s")
    show("passes over the labelled modules", columns, lines)
    return wrong


def label_table(rows: list[dict[str, Any]], cases: dict[str, data.HloCase]) -> Iterator[str]:
    """Agreement by pass; yields the disagreements."""
    agree: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for row in rows:
        case = cases[row["file"]]
        expected = corpus_labels.expected(case, row["pass"])
        if expected is None or row["kind"] == "crash":
            continue
        total[row["pass"]] += 1
        changed = row["kind"] not in ("unchanged", "refused")
        agree[row["pass"]] += changed == expected
        if changed != expected:
            yield f"label {row['pass']}: {_short(row['file'])}: expected {'a change' if expected else 'no change'}"
    lines = [(n, total[n], agree[n], f"{agree[n] / total[n]:.1%}") for n in sorted(total)]
    others = [n for n in total if n != "algsimp"]
    if others:
        right, of = sum(agree[n] for n in others), sum(total[n] for n in others)
        lines.append(("all but algsimp", of, right, f"{right / of:.1%}"))
    show("agreement with the labels", ("pass", "labelled", "agree", "share"), lines)
    left_out = [
        (name, test, why) for name in sorted(total) for test, why in corpus_labels.EXCEPTIONS.get(name, {}).items()
    ]
    show("labels that do not count", ("pass", "test", "because"), left_out)


def _note(row: dict[str, Any]) -> str:
    return f"{row['kind']} {row['pass']}: {_short(row['file'])}: {row['why'][:300]} {' '.join(row.get('rules', ()))}"


def _short(path: str) -> str:
    return "/".join(Path(path).parts[-2:])


def main() -> int:
    """Runs the sweep and prints both tables; `--failures` lists everything that is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pass", dest="passes", action="append", default=[], help="only this pass; may be repeated")
    parser.add_argument("--sample", type=int, default=1, help="every N-th module")
    parser.add_argument("--labelled", action="store_true", help="only modules with a label for one of the passes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fp", default="default", choices=[mode.value for mode in Fp])
    parser.add_argument("--seconds", type=float, help="start no module after this long; report on those looked at")
    parser.add_argument("--checked", action="store_true", help="the pass manager's checked mode")
    parser.add_argument("--failures", type=Path, help="write mismatches, crashes and disagreements to this file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return 0
    cases = [case for case in data.hlo_modules() if case.loadable]
    if options.labelled:
        names = options.passes or list(corpus_labels.TESTS)
        cases = [case for case in cases if any(corpus_labels.expected(case, name) is not None for name in names)]
    rows = sweep(cases[:: options.sample], options)
    wrong = verdict_table(rows)
    notes = list(label_table(rows, {str(case.path): case for case in cases}))
    notes += [_note(row) for row in rows if row["kind"] in ("mismatch", "crash", "rounding")]
    if options.failures:
        options.failures.write_text("".join(f"{note}\n" for note in sorted(notes)), encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
