"""Worker processes that compile: llvmlite serialises calls behind one lock, so threads cannot share the work.

A worker is a fresh interpreter (`python -m xyla.runtime.compile_pool`; spawned, not forked, as the parent may have
threads) that reads modules from its standard input and writes objects to its standard output, each with its length
before it. It ends when its input does.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import IO

from xyla.runtime.llvm_compile import compile_ir
from xyla.support.status import XylaError, internal

_HEADER = struct.Struct("<BQ")
_OBJECT, _ERROR = 0, 1


def worker_count() -> int:
    """Workers besides this process: one a further core, or what XYLA_COMPILE_WORKERS says."""
    told = os.environ.get("XYLA_COMPILE_WORKERS")
    if told is not None and told.isdigit():
        return int(told)
    if not sys.executable:  # embedded: there is no interpreter to start
        return 0
    return min(15, len(os.sched_getaffinity(0)) - 1)


def compile_in_parallel(texts: Sequence[str]) -> list[bytes]:
    """Compiles modules on all cores; the objects are in the order of the texts.

    Raises INTERNAL when LLVM rejects one, or when a worker dies.
    """
    pending = deque(enumerate(texts))
    images: dict[int, bytes] = {}
    errors: list[XylaError] = []
    count = min(worker_count(), len(texts) - 1)
    threads = [threading.Thread(target=_feed_worker, args=(pending, images, errors)) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        while (job := _next(pending)) is not None and not errors:
            images[job[0]] = compile_ir(job[1])
    finally:
        pending.clear()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return [images[i] for i in range(len(texts))]


def _next(pending: deque[tuple[int, str]]) -> tuple[int, str] | None:
    try:
        return pending.popleft()
    except IndexError:
        return None


def _feed_worker(pending: deque[tuple[int, str]], images: dict[int, bytes], errors: list[XylaError]) -> None:
    """Starts a worker and keeps it busy until nothing is pending."""
    command = [sys.executable, "-m", "xyla.runtime.compile_pool"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        while (job := _next(pending)) is not None:
            try:
                _send(worker.stdin, _OBJECT, job[1].encode())
                kind, body = _receive(worker.stdout)
            except (BrokenPipeError, EOFError):
                errors.append(internal(f"a compile worker died with status {worker.wait()}"))
                return
            if kind == _ERROR:
                errors.append(internal(body.decode()))
                return
            images[job[0]] = body


def _send(stream: IO[bytes], kind: int, body: bytes) -> None:
    stream.write(_HEADER.pack(kind, len(body)))
    stream.write(body)
    stream.flush()


def _receive(stream: IO[bytes]) -> tuple[int, bytes]:
    head = stream.read(_HEADER.size)
    if len(head) < _HEADER.size:
        raise EOFError
    kind, size = _HEADER.unpack(head)
    body = stream.read(size)
    if len(body) < size:
        raise EOFError
    return kind, body


def main() -> None:
    """The worker's loop."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            _, text = _receive(source)
        except EOFError:
            return
        try:
            _send(sink, _OBJECT, compile_ir(text.decode()))
        except XylaError as error:
            _send(sink, _ERROR, error.message.encode())


if __name__ == "__main__":
    main()
