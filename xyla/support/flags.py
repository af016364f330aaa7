"""XLA_FLAGS and XYLA_FLAGS: XLA's flag names as one typed, frozen record.

A flag is a field of `Flags`; its type decides how its text is read, its `help` is what `docs/flags.md` says.
XYLA_FLAGS is read after XLA_FLAGS and wins. As in XLA, a value that does not start with `-` names a file
that holds the flags. Source: XLA's debug_options_flags.cc (names, defaults, value syntax).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from xyla.support.diagnostics import Source, Span, did_you_mean
from xyla.support.status import XylaError, invalid

VARIABLES = ("XLA_FLAGS", "XYLA_FLAGS")
MAX_FLAGS_FILE_BYTES = 1 << 20


def _flag(default: Any, help: str, pending: str = "") -> Any:
    return field(default=default, metadata={"help": help, "pending": pending})


@dataclass(frozen=True, slots=True)
class Flags:
    """Every flag that xyla reads, under XLA's name."""

    xla_dump_to: str = _flag("", "Folder that receives the modules that are compiled.")
    xla_dump_hlo_as_proto: bool = _flag(False, "Dump modules as binary HloProto too.")
    xla_dump_hlo_module_re: str = _flag(".*", "Dump only modules whose name matches this regular expression.")
    xla_dump_hlo_pass_re: str = _flag("", "Dump around passes whose name matches this expression.")
    xla_disable_hlo_passes: tuple[str, ...] = _flag((), "Names of passes to leave out, by commas.")
    xla_disable_all_hlo_passes: bool = _flag(False, "Run only passes that correctness needs.")
    xla_force_host_platform_device_count: int = _flag(1, "How many host devices to present.")
    xla_cpu_collective_call_terminate_timeout_seconds: int = _flag(
        40, "How long a device waits for the others at a collective before the launch fails."
    )
    xla_cpu_enable_fast_math: bool = _flag(
        False, "Allow code that assumes no NaN or infinity.", "code is always strict about NaN and infinity"
    )


# Flags that people set for other back ends or for XLA's own internals. They change nothing here, which is said
# once instead of refusing a whole environment: `Parsed.ignored` lists those that were given.
WITHOUT_EFFECT: dict[str, str] = {
    "xla_allow_excess_precision": "no conversion is ever removed",
    "xla_backend_optimization_level": "kernels have one optimisation level",
    "xla_cpu_multi_thread_eigen": "xyla has no Eigen thread pool",
    "xla_cpu_use_thunk_runtime": "programs always run as thunks",
    "xla_cpu_prefer_vector_width": "kernels always use the widest vectors that the host runs well",
    "xla_dump_hlo_as_text": "dumps always hold the text",
    "xla_dump_large_constants": "dumps always hold constants in full",
    "xla_gpu_autotune_level": "it tunes NVIDIA kernels",
    "xla_gpu_cuda_data_dir": "it names a CUDA installation",
    "xla_gpu_deterministic_ops": "results are always deterministic here",
    "xla_gpu_enable_latency_hiding_scheduler": "it schedules NVIDIA streams",
    "xla_gpu_enable_triton_gemm": "it selects an NVIDIA code generator",
    "xla_gpu_target_config_filename": "it describes an NVIDIA device",
}

Reader = Callable[[str], Any]


def _read_bool(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("", "true", "1", "yes"):
        return True
    if lowered in ("false", "0", "no"):
        return False
    raise ValueError("expected true or false")


def _read_int(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text):
        raise ValueError("expected an integer")
    return int(text)


def _read_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_READERS: dict[str, Reader] = {
    "str": str,
    "bool": _read_bool,
    "int": _read_int,
    "tuple[str, ...]": _read_names,
}
_FIELDS = {spec.name: spec for spec in fields(Flags)}
_TOKEN = re.compile(r"""\s*((?:[^\s'"]+|'[^']*'|"[^"]*")+)""")
_RANGES = {
    "xla_force_host_platform_device_count": (1, 4096),
    "xla_cpu_collective_call_terminate_timeout_seconds": (1, 1 << 31),
}


@dataclass(frozen=True, slots=True)
class Parsed:
    """The flags, and the names of those given that have no effect (yet); `why_ignored` says why."""

    flags: Flags
    ignored: tuple[str, ...] = ()


def parse(text: str, variable: str = "XLA_FLAGS", base: Flags | None = None) -> Parsed:
    """Reads `--name=value` words over `base` (defaults when None); a bool may drop `=value`.

    Raises INVALID_ARGUMENT, located in `variable`'s text: an unknown flag, a bad value, an unclosed quote.
    """
    source = Source(variable, text)
    changes: dict[str, Any] = {}
    ignored: list[str] = []
    for start, word in _words(source):
        span = Span(source, start, start + len(word))
        name, has_value, value = _unquoted(word).removeprefix("--").partition("=")
        if name in WITHOUT_EFFECT:
            ignored.append(name)
            continue
        changes[name] = _value(name, value if has_value else None, span)
        if _FIELDS[name].metadata["pending"]:
            ignored.append(name)
    kept = {name: getattr(base, name) for name in _FIELDS} if base is not None else {}
    return Parsed(Flags(**(kept | changes)), tuple(dict.fromkeys(ignored)))


def from_environment(environ: Mapping[str, str]) -> Parsed:
    """The flags that the variables of `environ` set: XLA_FLAGS first, XYLA_FLAGS over it."""
    return _parse_variables(tuple(environ.get(name, "") for name in VARIABLES))


def current() -> Flags:
    """The flags of this process's environment as it stands now (parsed once per distinct value)."""
    return from_environment(os.environ).flags


def why_ignored(name: str) -> str:
    """Why a flag of `Parsed.ignored` changes nothing."""
    return WITHOUT_EFFECT.get(name) or str(_FIELDS[name].metadata["pending"])


def describe() -> Iterator[tuple[str, str, str, str]]:
    """(name, type, default, help) of every flag, in declaration order; `docs/flags.md` is made from it."""
    for spec in _FIELDS.values():
        default = "" if spec.default is MISSING else _show(spec.default)
        yield spec.name, str(spec.type), default, spec.metadata["help"]


def _show(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


@lru_cache(maxsize=16)
def _parse_variables(texts: tuple[str, ...]) -> Parsed:
    flags = Flags()
    ignored: tuple[str, ...] = ()
    for variable, text in zip(VARIABLES, texts, strict=True):
        stripped = text.strip()
        if not stripped:
            continue
        if not stripped.startswith("-"):
            text, variable = _read_file(variable, stripped), stripped
        parsed = parse(text, variable, flags)
        flags, ignored = parsed.flags, ignored + parsed.ignored
    return Parsed(flags, tuple(dict.fromkeys(ignored)))


def _read_file(variable: str, path: str) -> str:
    try:
        with Path(path).open("rb") as stream:
            return stream.read(MAX_FLAGS_FILE_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise invalid(
            f"{variable} does not start with '-', so it names a file of flags, which cannot be read: {error}"
        ) from error


def _words(source: Source) -> Iterator[tuple[int, str]]:
    """(offset, word) of each blank-separated word; quotes protect blanks."""
    text, at = source.text, 0
    while match := _TOKEN.match(text, at):
        yield match.start(1), match.group(1)
        at = match.end()
    rest = text[at:].strip()
    if rest:
        start = text.index(rest, at)
        raise invalid(f"{source.name}: the quote is not closed", span=Span(source, start, start + 1))


def _unquoted(word: str) -> str:
    return re.sub(r"""'([^']*)'|"([^"]*)\"""", lambda m: m.group(1) or m.group(2) or "", word)


def _value(name: str, text: str | None, span: Span) -> Any:
    spec = _FIELDS.get(name)
    if spec is None:
        raise _unknown(name, span)
    kind = str(spec.type)
    if text is None and kind != "bool":
        raise invalid(f"flag --{name} needs a value: --{name}=...", span=span)
    try:
        value = _READERS[kind](text or "")
    except ValueError as error:
        raise invalid(f"flag --{name}: {error}, got {text!r}", span=span) from error
    low, high = _RANGES.get(name, (value, value))
    if not low <= value <= high:
        raise invalid(f"flag --{name} must be {low} to {high}, got {value}", span=span)
    if name.endswith("_re"):
        _check_regex(name, value, span)
    return value


def _check_regex(name: str, text: str, span: Span) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise invalid(f"flag --{name} is not a regular expression: {error}", span=span) from error


def _unknown(name: str, span: Span) -> XylaError:
    close = did_you_mean(name, list(_FIELDS) + list(WITHOUT_EFFECT))
    hint = f"did you mean --{close}?" if close else "docs/flags.md lists the flags"
    return invalid(f"unknown flag --{name}", span=span, hint=hint)
