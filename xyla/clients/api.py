"""The Python API: load, run, compile."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from xyla.clients.devices import Job
from xyla.formats.detect import load_file
from xyla.hlo.module import Module
from xyla.runtime.custom_calls import find
from xyla.runtime.engine_interpreted import Interpreter
from xyla.runtime.executable import Executable
from xyla.runtime.program import CustomCallStep, Program, all_steps
from xyla.support.status import invalid

if TYPE_CHECKING:
    from xyla.compiler.driver import CompileOptions

ENGINES = ("compiled", "interpreted", "reference")
__all__ = ["ENGINES", "Executable", "compile", "load", "load_executable", "run"]


def load(source: str | bytes | os.PathLike[str], name: str | None = None, *, kind: str | None = None) -> Any:
    """Reads a program: a path, or the text (or proto bytes) itself.

    A `str` that holds a newline or a brace is text, any other is a path. The kind (HLO text, StableHLO, proto) is
    detected from the content unless `kind` names it. Returns an `hlo.Module`, or a `StablehloProgram` for what HLO
    cannot express (dynamic shapes). Raises INVALID_ARGUMENT, located, for malformed input.
    """
    if isinstance(source, str) and not _is_text(source):
        source = os.fspath(source)
        return load_file(_existing(source), name or source, kind)
    if isinstance(source, str):
        return load_file(source.encode(), name or "<string>", kind)
    if isinstance(source, bytes):
        return load_file(source, name or "<bytes>", kind)
    return load_file(_existing(os.fspath(source)), name or os.fspath(source), kind)


def _is_text(source: str) -> bool:
    return "\n" in source or "{" in source


def _existing(path: str) -> Path:
    return Path(path)


def compile(
    source: Any,
    *,
    passes: str = "default",
    fp: str = "default",
    dump_to: str | None = None,
    args: Sequence[npt.ArrayLike] = (),
) -> Executable:
    """Compiles a program (module, text or path) for the host; the result is called with arrays.

    `passes`: "default", "none" or a list such as "algsimp,dce" (`xyla opt --list-passes`). `fp`: how far passes may
    change floating-point results, "strict", "default" or "fast".
    `args`: arrays whose shapes bind the dimensions of a dynamic StableHLO program; their values do not matter.
    Raises INVALID_ARGUMENT for a malformed program and UNIMPLEMENTED for what has no native form.
    """
    from xyla.compiler.driver import Compilation

    return Compilation(as_module(source, args), compiler_options(passes, fp, dump_to)).executable


def compiler_options(passes: str = "default", fp: str = "default", dump_to: str | None = None) -> CompileOptions:
    """The compiler's options from words. Raises INVALID_ARGUMENT for an unknown floating-point mode."""
    from xyla.compiler.driver import CompileOptions
    from xyla.passmgr.context import Fp

    modes = [mode.value for mode in Fp]
    if fp not in modes:
        raise invalid(f"unknown floating-point mode {fp!r}", hint=f"one of {', '.join(modes)}")
    return CompileOptions(passes, Fp(fp), Path(dump_to) if dump_to else None)


def run(
    source: Any,
    args: Sequence[npt.ArrayLike] = (),
    *,
    engine: str = "compiled",
    replicas: int | None = None,
    partitions: int | None = None,
    infeed: Sequence[Any] = (),
    outfeed: list[Any] | None = None,
) -> list[np.ndarray[Any, Any]]:
    """Loads, compiles and runs a program; returns one array an output leaf.

    Engines: "compiled" (default), "interpreted" (the same steps one by one from Python, bit-equal), "reference".
    replicas, partitions: override the program's own counts. With more than one device in all, each argument has a
    leading device dimension (or none: every device gets it) and so has each result. infeed: what each device's infeeds
    take, in order. outfeed: a list that receives what device 0 feeds out.
    Raises INVALID_ARGUMENT for an unknown engine, malformed input, or arguments of the wrong count, shape or dtype.
    """
    if engine not in ENGINES:
        raise invalid(f"unknown engine {engine!r}", hint=f"one of {', '.join(ENGINES)}")
    if engine == "reference":
        from xyla import interp

        return interp.run(source, args, replicas=replicas, partitions=partitions, infeed=infeed, outfeed=outfeed)
    arrays = [np.asarray(a) for a in args]
    module = as_module(source, arrays, bind_values=True)
    job = Job(module, replicas, partitions, infeed)
    executable = compile(module if job.plain else job.module)
    executable.use(Interpreter() if engine == "interpreted" else None)
    if job.plain:
        return executable(*arrays)
    results = job.run(executable, arrays)
    if outfeed is not None:
        outfeed.extend(job.feeds[0].outfeed)
    return results


def as_module(source: Any, args: Sequence[npt.ArrayLike] = (), *, bind_values: bool = False) -> Module:
    """The static module of a program; dynamic ones are refined by the arguments' shapes.

    bind_values: and by the values of dimension variables among them, for a module that is used with them only.
    """
    program = load(source) if isinstance(source, (str, bytes, os.PathLike)) else source
    if isinstance(program, Module):
        return program
    from xyla import interp

    return interp.to_module(program, args, bind_values=bind_values)


def load_executable(path: str | os.PathLike[str]) -> Executable:
    """An executable from a file that `Executable.save` wrote, without compiling anything.

    Raises NOT_FOUND for no file, INVALID_ARGUMENT for another kind of file, DATA_LOSS for a damaged one, and
    FAILED_PRECONDITION for one that another version of xyla wrote, or for another CPU.
    """
    from xyla.runtime import aot

    return aot.load(path, _know_calls)


def _know_calls(program: Program) -> None:
    """Registers what the compiler lets programs call, if this one calls it."""
    calls = [step.target for step in all_steps(program) if isinstance(step, CustomCallStep)]
    if any(find(target) is None for target in calls):
        importlib.import_module("xyla.compiler.handlers")
