"""Judges one case of the shared bug collection: runs it and says what is wrong, if anything."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from xyla.hlo.module import Module
from xyla.support.status import Status, XylaError
from xyla.testing.data import Bug

Array = np.ndarray[Any, np.dtype[Any]]


def judge(bug: Bug, file: Path, engine: str) -> str | None:
    """None when `file` behaves as the case demands under `engine` ("compiled", "reference"); else the complaint.

    `run` cases must give the expected values; `run_or_error` may end in a XylaError instead; `parse_error` must end in
    a located INVALID_ARGUMENT; `compile_only` must load and compile. Compile budgets are checked too.
    """
    from xyla.clients.api import load

    start = perf_counter()
    try:
        program = load(file)
        if bug.mode == "parse_error":
            return "the malformed text was accepted"
        return _run(bug, program, engine, start)
    except XylaError as error:
        return _complaint(bug, error)


def _complaint(bug: Bug, error: XylaError) -> str | None:
    if bug.mode == "parse_error":
        located = error.status is Status.INVALID_ARGUMENT and error.span is not None
        return None if located else f"rejected, but not with a located error: {error.message}"
    if bug.mode in ("error", "run_or_error"):
        return None
    return str(error).replace("\n", " ")[:200]


def _run(bug: Bug, program: Any, engine: str, start: float) -> str | None:
    from xyla import interp
    from xyla.clients.devices import Job
    from xyla.compiler.driver import compile_module

    args, expected = _data(bug)
    if engine == "reference":
        if bug.mode == "compile_only":
            return None
        return _compare(bug, interp.run(program, args), expected)
    job = Job(interp.to_module(program, args), bug.replicas if bug.replicas > 1 else None)
    executable = compile_module(job.module)
    seconds = perf_counter() - start
    if bug.budget_seconds is not None and seconds > bug.budget_seconds:
        return f"compiled in {seconds:.1f} s, budget {bug.budget_seconds} s"
    if bug.temp_budget_mb is not None and executable.stats.temp_bytes > bug.temp_budget_mb * 2**20:
        return f"{executable.stats.temp_bytes} bytes of temporaries, budget {bug.temp_budget_mb} MB"
    if bug.mode == "compile_only":
        return None
    given = _typed(job.module, args)
    return _compare(bug, executable(*given) if job.plain else job.run(executable, given), expected)


def wrong_after(bug: Bug, module: Module) -> str | None:
    """What the evaluator says of a rewritten program of the case: None when it is right, or not to be evaluated."""
    from xyla import interp

    if bug.mode not in ("run", "run_or_error"):
        return None
    args, expected = _data(bug)
    try:
        return _compare(bug, interp.run(module, args), expected)
    except XylaError as error:
        return _complaint(bug, error)


def _data(bug: Bug) -> tuple[list[Array], list[Array]]:
    """(arguments, right results)."""
    with np.load(bug.data) as data:
        arrays = {k: data[k] for k in data.files}
    args = [arrays[f"arg{i}"] for i in range(sum(k.startswith("arg") for k in arrays))]
    return args, [arrays[k] for k in sorted((k for k in arrays if k.startswith("expected")), key=_order)]


def _order(name: str) -> int:
    return int(name.removeprefix("expected") or 0)


def _typed(program: Any, args: list[Array]) -> list[Array]:
    """4-bit arguments are stored as int8 in the collection."""
    shapes = [p.shape for p in program.entry.parameters]
    return [a.astype(s.element_type.np) if s.element_type.bits < 8 else a for a, s in zip(args, shapes, strict=True)]


def _compare(bug: Bug, got: list[Array], expected: list[Array]) -> str | None:
    if len(got) != len(expected):
        return f"{len(got)} outputs, expected {len(expected)}"
    for i, (g, e) in enumerate(zip(got, expected, strict=True)):
        if g.shape != e.shape:
            return f"output {i} has shape {g.shape}, expected {e.shape}"
        wide = np.complex128 if np.iscomplexobj(e) else np.float64 if e.dtype.kind in "fV" else None
        ok = np.array_equal(g, e) if wide is None else _close(g.astype(wide), e.astype(wide), bug)
        if not ok:
            return f"output {i} is {g.ravel()[:6].tolist()}, expected {e.ravel()[:6].tolist()}"
    return None


def _close(got: Array, expected: Array, bug: Bug) -> bool:
    return bool(np.allclose(got, expected, rtol=bug.rtol, atol=bug.atol, equal_nan=True))
