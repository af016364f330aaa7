"""Damaged inputs of every format: each is read or refused with one XylaError, in bounded time and memory."""

from __future__ import annotations

import contextlib
import resource
import signal
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from xyla.formats import hlo_proto
from xyla.formats.detect import load_file
from xyla.hlo.module import Module
from xyla.hlo.verifier import verify
from xyla.support.status import Status, XylaError
from xyla.testing import data
from xyla.testing.mutate import mutations

SECONDS_EACH = 5
EXTRA_MEMORY = 4 << 30
CHUNKS = 8
PER_FILE = 5
MAX_BYTES = 32_000


class TooSlow(Exception):
    """An input took longer than SECONDS_EACH."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Raises TooSlow or MemoryError in the body when it takes too much of either."""

    def expire(signum: int, frame: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, expire)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + EXTRA_MEMORY, hard))
    signal.alarm(SECONDS_EACH)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def fault(damaged: bytes, name: str) -> str | None:
    """What went wrong while reading, or None: it was read, or refused as it should be."""
    try:
        with bounded():
            program = load_file(damaged, name)
            if isinstance(program, Module):
                verify(program)
    except XylaError as error:
        if error.status is Status.INTERNAL:
            return f"an internal error: {error.message}"
        return None if error.render() else "an empty message"
    except TooSlow:
        return f"took more than {SECONDS_EACH} s"
    except Exception as error:  # anything else is what this test is for
        return f"{type(error).__name__}: {error}"
    return None


def sample(paths: list[Path], count: int) -> list[Path]:
    """`count` small files, evenly spread over a listing."""
    small = [path for path in paths if path.stat().st_size < MAX_BYTES]
    return small[:: max(1, len(small) // max(count, 1))][:count]


def inputs(kind: str, count: int) -> Iterator[tuple[str, bytes]]:
    """Whole inputs of one format: (name, contents)."""
    if kind == "stablehlo":
        listing = data.stablehlo_files() + data.jax_exports() + data.stablehlo_files("testdata/quantized")
        yield from ((str(path), path.read_bytes()) for path in sample(listing, count))
        return
    for path in sample([case.path for case in data.hlo_modules() if case.loadable], count):
        if kind == "hlo":
            yield str(path), path.read_bytes()
            continue
        module = load_file(path)
        assert isinstance(module, Module)
        writer = hlo_proto.to_bytes if kind == "proto" else hlo_proto.to_text
        written = writer(module)
        yield f"{path} as {kind}", written if isinstance(written, bytes) else written.encode()


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("kind", ["hlo", "stablehlo", "proto", "text-proto"])
def test_damaged_inputs(kind: str, chunk: int, shared: Path, pytestconfig: pytest.Config) -> None:
    files = max(1, pytestconfig.getoption("--mutations") // (PER_FILE * 4))
    faults = []
    for index, (name, whole) in enumerate(inputs(kind, files)):
        if index % CHUNKS != chunk or not whole:
            continue
        seed = zlib.crc32(name.rsplit("/", 1)[-1].encode())
        for step, (how, damaged) in enumerate(islice(mutations(whole, seed), PER_FILE)):
            if problem := fault(damaged, name):
                faults.append(f"{name} seed {seed}+{step} ({how}): {problem}")
    assert not faults, "\n".join(faults)
