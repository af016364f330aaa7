"""`xyla run`: compile, run, compare, time."""

from __future__ import annotations

import dataclasses
import re
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xyla.clients.cli import inputs
from xyla.clients.cli.saved import call_of, is_saved_file, parameter_shapes
from xyla.clients.cli.watch import UNWATCHED, Watch, WatchOptions
from xyla.clients.compare import compare, is_rounding, perturbed, reduction_length
from xyla.clients.devices import Job
from xyla.clients.random_args import leaf_shapes, random_args
from xyla.hlo.module import Module
from xyla.hlo.shape import Shape
from xyla.runtime.executable import Executable
from xyla.support import flags
from xyla.support.dtypes import by_numpy
from xyla.support.status import invalid

if TYPE_CHECKING:
    from rich.table import Table

    from xyla.clients.compare import Comparison

Array = np.ndarray[Any, np.dtype[Any]]

Call = Callable[[Sequence[Array]], Sequence[Array]]

OK, MISMATCH = 0, 1


@dataclass(frozen=True, slots=True)
class Options:
    """The command's options, as `xyla run --help` describes them."""

    file: str
    args: Path | None
    seed: int | None
    out: Path | None
    compare: bool
    engine: str
    bench: int | None
    stats: bool
    dump_to: Path | None
    source: str | None
    passes: str = "default"
    fp: str = "default"
    watch: WatchOptions = UNWATCHED


@dataclass(frozen=True, slots=True)
class Subject:
    """What is run: its parameters' shapes, how to run it, what has statistics, the module if there is one."""

    shapes: Sequence[Shape]
    call: Call
    executable: Executable | None = None
    module: Module | None = None


def execute(options: Options) -> int:
    """Runs the command. Returns the exit code (1: a comparison failed); raises XylaError on a bad input."""
    if options.args is not None and options.seed is not None:
        raise invalid("--args and --random-args both say what the arguments are: give one")
    archive = inputs.read_arrays(options.args) if options.args is not None else {}
    given = inputs.numbered(archive, "arg", "in")
    subject = _loaded(options) or _compiled(options, given)
    args = _arguments(subject.shapes, options, given)
    watch = _watch(subject, options)
    native = options.engine == "compiled" and not options.watch
    try:
        with _stoppable() if native else nullcontext():
            outputs = subject.call(args)
    finally:
        watch.report(_print)
    if options.out is not None:
        _save(options.out, outputs)
    code = _check(subject.module, options.engine, archive, args, outputs) if options.compare else OK
    if options.bench is not None:
        _print(_timing(subject.call, args, options.bench))
    if options.stats:
        _print(*_stat_lines(subject.executable))
    if not (options.compare or options.out or options.bench or options.stats or options.watch):
        _print(*_shown(outputs))
    return code


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C ends the process: native code would not come back to let Python do it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _arguments(shapes: Sequence[Shape], options: Options, given: Sequence[Array]) -> list[Array]:
    if options.seed is not None:
        return random_args(shapes, options.seed)
    needed = len(leaf_shapes(shapes))
    if options.args is None and needed:
        raise invalid(f"{options.file} takes {needed} argument(s): give --args or --random-args")
    return inputs.bind_types(given, shapes, "argument")


def _compiled(options: Options, given: Sequence[Array]) -> Subject:
    """The program of a file, compiled unless the evaluator runs it."""
    import xyla

    module = inputs.as_module(inputs.read_program(options.file, options.source), given)
    shapes = module.entry_parameter_shapes()
    folder = _dump_folder(module, options.dump_to)
    if options.engine == "reference":
        if options.dump_to is not None:
            raise invalid("--dump-to has nothing to write: the reference engine compiles nothing")
        return Subject(shapes, lambda args: xyla.interp.run(module, args), None, module)
    job = Job(module)
    executable = xyla.compile(job.module, passes=options.passes, fp=options.fp, dump_to=folder)
    call: Call = lambda args: executable(*args) if job.plain else job.run(executable, args)  # noqa: E731
    return Subject(shapes, call, executable, module)


def _loaded(options: Options) -> Subject | None:
    """A saved executable, or a program that starts below HLO; None for the file of another one."""
    from xyla.clients.api import load_executable
    from xyla.clients.cli.compile import buffer_level

    saved = is_saved_file(options.file)
    below = buffer_level(options.file) if not saved and options.source is None else None
    if not saved and below is None:
        return None
    if options.engine == "reference":
        raise invalid(f"{options.file} is no HLO: the reference engine needs the program itself")
    ignored = (("--passes", options.passes != "default"), ("--fp", options.fp != "default"))
    inputs.refuse_ignored(options.file, *ignored, ("--dump-to", options.dump_to is not None))
    executable = below.executable if below is not None else load_executable(options.file)
    return Subject(parameter_shapes(executable), call_of(executable), executable)


def _watch(subject: Subject, options: Options) -> Watch:
    """Lets the interpreted engine run the subject if the options ask for it."""
    watch = Watch(options.watch)
    if subject.executable is not None and (options.watch or options.engine == "interpreted"):
        watch.attach(subject.executable)
    elif options.watch:
        raise invalid("the reference engine has no steps to watch")
    return watch


def _dump_folder(module: Module, asked: Path | None) -> str | None:
    """Where to dump, by the option or the flags; a HloProto is written here, the rest by the compiler."""
    chosen = flags.current()
    folder = str(asked or chosen.xla_dump_to)
    if not folder or not re.search(chosen.xla_dump_hlo_module_re, module.name):
        return None
    if chosen.xla_dump_hlo_as_proto:
        from xyla.formats import hlo_proto

        Path(folder).mkdir(parents=True, exist_ok=True)
        stem = re.sub(r"[^\w.-]", "_", module.name)[:100]
        (Path(folder) / f"{stem}.hlo.pb").write_bytes(hlo_proto.to_bytes(module))
    return folder


def _save(path: Path, outputs: Sequence[Array]) -> None:
    # NumPy would add .npz to a path without it; a file object is written as it is named.
    with path.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **{f"out{i}": output for i, output in enumerate(outputs)})


def _check(
    module: Module | None, engine: str, archive: dict[str, Array], args: Sequence[Array], outputs: Sequence[Array]
) -> int:
    """Compares with the evaluator and with the archive's own results, prints both, returns the exit code."""
    import xyla

    if module is None:
        return _check_stored(archive, outputs)
    length = reduction_length(module)
    start = time.perf_counter()
    wanted = xyla.interp.run(module, args)
    rows = _rows("evaluator", outputs, wanted, length)
    seconds = time.perf_counter() - start
    if stored := inputs.numbered(archive, "expected", "out"):
        rows += _rows("file", outputs, _as_types(stored, outputs), length)
    _print(_comparison_table(rows, f"{engine} against the right results (evaluator: {seconds:.2f} s)"))
    if all(row.result.ok for row in rows):
        return OK
    _print(*_sensitivity(module, args, outputs, wanted))
    return MISMATCH


def _check_stored(archive: dict[str, Array], outputs: Sequence[Array]) -> int:
    """Compares with the archive's results alone: what is no HLO has no module to evaluate."""
    stored = inputs.numbered(archive, "expected", "out")
    if not stored:
        raise invalid("without HLO there is no program to evaluate: --compare needs expected results in --args")
    rows = _rows("file", outputs, _as_types(stored, outputs), 1)
    _print(_comparison_table(rows, "against the file's results"))
    return OK if all(row.result.ok for row in rows) else MISMATCH


def _sensitivity(module: Module, args: Sequence[Array], outputs: Sequence[Array], wanted: Sequence[Array]) -> list[str]:
    """Says for which outputs a mismatch proves nothing, because the program amplifies rounding."""
    import xyla

    notes = []
    moved = xyla.interp.run(module, perturbed(args))
    for i, (got, near, want) in enumerate(zip(outputs, moved, wanted, strict=True)):
        shift = compare(np.asarray(near), np.asarray(want))
        if is_rounding(compare(got, np.asarray(want)), shift):
            notes.append(
                f"note: output {i}: arguments one unit in the last place away move it by {shift.max_abs:.3g}, "
                "so a difference of that size is rounding"
            )
    return notes


@dataclass(frozen=True, slots=True)
class Row:
    """One output compared: its number, what with, its type, the errors."""

    source: str
    number: int
    shape: str
    result: Comparison


def _rows(source: str, outputs: Sequence[Array], wanted: Sequence[Array], length: int) -> list[Row]:
    if len(outputs) != len(wanted):
        raise invalid(f"{source} has {len(wanted)} results, the program {len(outputs)}")
    pairs = enumerate(zip(outputs, wanted, strict=True))
    return [Row(source, i, _type_of(got), compare(got, np.asarray(want), length)) for i, (got, want) in pairs]


def _as_types(stored: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
    """Stored results with the types that NumPy could not name given back."""
    if len(stored) != len(outputs):
        return list(stored)
    return [_as_type(a, b.dtype) for a, b in zip(stored, outputs, strict=True)]


def _as_type(array: Array, dtype: np.dtype[Any]) -> Array:
    raw = array.dtype.kind == "V" and array.dtype.name.startswith("void") and array.dtype.itemsize == dtype.itemsize
    return array.view(dtype) if raw else array


def _type_of(array: Array) -> str:
    return f"{by_numpy(array.dtype)}[{','.join(map(str, array.shape))}]"


def _comparison_table(rows: Sequence[Row], title: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD)
    for name in ("output", "type", "against", "max abs", "max rel", "max ulp", "tolerance", "verdict"):
        table.add_column(name, justify="right" if name.startswith(("max", "tol")) else "left")
    for row in rows:
        result = row.result
        verdict = "ok" if result.ok else result.problem or f"{result.mismatches} differ"
        numbers = (result.max_abs, result.max_rel, result.max_ulp, result.tolerance)
        table.add_row(str(row.number), row.shape, row.source, *(f"{n:.3g}" for n in numbers), verdict)
    return table


def _timing(call: Call, args: Sequence[Array], runs: int) -> str:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call(args)
        times.append((time.perf_counter() - start) * 1e3)
    return f"{runs} runs: min {min(times):.4g} ms, median {statistics.median(times):.4g} ms"


def _stat_lines(executable: object) -> list[str]:
    stats = getattr(executable, "stats", None)
    if stats is None:
        return ["no statistics: nothing was compiled"]
    lines: list[str] = []
    for field in dataclasses.fields(stats):
        name, value = field.name.replace("_", " "), getattr(stats, field.name)
        if isinstance(value, dict):  # times by step: `xyla opt --time-passes` shows them as a table
            continue
        lines.append(f"{name}: {len(value) if isinstance(value, list) else _number(value)}")
        if isinstance(value, list):
            lines += [f"  {': '.join(map(str, item))}" for item in value]
    return lines


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shown(outputs: Sequence[Array]) -> list[str]:
    return [
        f"out{i} = {_type_of(output)}\n{np.array2string(np.asarray(output), threshold=200, edgeitems=3)}"
        for i, output in enumerate(outputs)
    ]


def _print(*items: object) -> None:
    from xyla.clients.cli.console import console

    console().print(*items, sep="\n")
