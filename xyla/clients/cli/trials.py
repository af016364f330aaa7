"""Trials of a pipeline in a process of their own: a pass that crashes or hangs takes only that process with it.

`Trials` starts a worker (`python -m xyla.clients.cli.trials`), sends it the job once and then one request a trial,
each a line of JSON. Where a trial stands (rewrites made, the running step) is written to a small shared file, so that
it is known even of a worker that had to be killed.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from xyla.support.status import Status, XylaError, internal

GOOD, WRONG, ILL_FORMED, ERROR, CRASH, HANG = "good", "wrong result", "ill-formed module", "error", "crash", "hang"
_PROGRESS_BYTES = 256
# Loading Python and a program, and evaluating it once, is given this long beside the trials' own limit.
START_SECONDS = 120.0
# How long a hanging trial is watched for rewrites that it still makes.
LOOK_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Job:
    """What every trial of a search shares. Paths are text; `args` is an .npz file or "" (arguments from `seed`)."""

    file: str
    source: str | None = None
    args: str = ""
    seed: int = 0
    passes: str | None = None
    pipeline: str | None = None
    load: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    fp: str = "default"
    tolerance: float | None = None
    engine: str = "reference"


@dataclass(frozen=True, slots=True)
class Request:
    """One trial: at most `limit` rewrites, at most `steps` executed steps (None: no limit).

    early: run no step after the limit is reached. dump: a file that receives the resulting module's text. log: reply
    with the last rewrite and counts by rule.
    """

    limit: int | None = None
    steps: int | None = None
    early: bool = False
    dump: str = ""
    log: bool = False


@dataclass(slots=True)
class Outcome:
    """How a trial ended. number: rewrites made; steps: executed steps; step: the last one begun.

    busy: of a hang, whether it was still making rewrites.
    """

    kind: str
    message: str = ""
    number: int = 0
    steps: int = 0
    step: str = ""
    seconds: float = 0.0
    busy: bool = False
    last: dict[str, Any] | None = None
    counts: list[tuple[str, str, int]] = field(default_factory=list)


class Progress:
    """The shared file: rewrites made (8 bytes), executed steps (8 bytes), the running step's name."""

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _PROGRESS_BYTES)

    def set_number(self, number: int) -> None:
        """Called before every rewrite."""
        self._map[0:8] = number.to_bytes(8, "little")

    def set_step(self, count: int, name: str) -> None:
        """Called before every step."""
        text = name.encode()[: _PROGRESS_BYTES - 17]
        self._map[8:16] = count.to_bytes(8, "little")
        self._map[16 : 17 + len(text)] = text + b"\0"

    def read(self) -> tuple[int, int, str]:
        """(rewrites, steps, name of the step)."""
        data = bytes(self._map)
        name = data[16:].split(b"\0", 1)[0].decode(errors="replace")
        return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:16], "little"), name


class Trials:
    """Runs trials of one job, starting the worker when there is none (the first time, and after a crash or hang)."""

    def __init__(self, job: Job, timeout: float) -> None:
        """timeout: seconds that one trial may take."""
        self.job = job
        self.timeout = timeout
        self.count = 0
        self._worker: subprocess.Popen[bytes] | None = None
        handle, self._path = tempfile.mkstemp(prefix="xyla-trial-")
        os.write(handle, bytes(_PROGRESS_BYTES))
        os.close(handle)
        self._progress = Progress(self._path)

    def __enter__(self) -> Trials:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stop()
        Path(self._path).unlink(missing_ok=True)

    def run(self, request: Request) -> Outcome:
        """One trial. Raises XylaError when the job itself is at fault: the program cannot be read or evaluated."""
        self.count += 1
        worker = self._worker or self._start()
        self._progress.set_number(0)
        self._progress.set_step(0, "")
        begin = time.perf_counter()
        reply = _ask(worker, asdict(request), self.timeout)
        seconds = time.perf_counter() - begin
        if isinstance(reply, dict):
            return Outcome(**{**reply, "seconds": seconds, "counts": [tuple(c) for c in reply["counts"]]})
        earlier = self._progress.read()[0]
        if reply is None:
            time.sleep(LOOK_SECONDS)
        status = self._stop()
        number, steps, step = self._progress.read()
        if reply is None:
            message = f"no end after {self.timeout:.0f} s"
            return Outcome(HANG, message, number, steps, step, seconds, busy=number > earlier)
        return Outcome(CRASH, f"the process died ({_cause(status)})", number, steps, step, seconds)

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        command = [sys.executable, "-m", "xyla.clients.cli.trials", self._path]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._worker = worker
        reply = _ask(worker, asdict(self.job), START_SECONDS + self.timeout)
        if isinstance(reply, dict) and "status" not in reply:
            return worker
        status = self._stop()
        if isinstance(reply, dict):
            raise XylaError(Status[reply["status"]], reply["message"])
        if reply is None:
            raise XylaError(Status.DEADLINE_EXCEEDED, f"{self.job.file}: loading and evaluating it takes too long")
        raise internal(f"the trial process died at its start ({_cause(status)})")

    def _stop(self) -> int:
        worker, self._worker = self._worker, None
        if worker is None:
            return 0
        worker.kill() if worker.poll() is None else None
        for stream in (worker.stdin, worker.stdout):
            if stream is not None:
                stream.close()
        return worker.wait()


def _cause(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit code {status}"


def _ask(worker: subprocess.Popen[bytes], message: dict[str, Any], timeout: float) -> dict[str, Any] | bool | None:
    """Sends a line and waits for one: the reply, None after `timeout` seconds, False when the worker died."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps(message).encode() + b"\n")
        worker.stdin.flush()
    except BrokenPipeError:
        return False
    deadline, data = time.monotonic() + timeout, b""
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([worker.stdout], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            return None
        piece = os.read(worker.stdout.fileno(), 1 << 16)
        if not piece:
            return False
        data += piece
    reply: dict[str, Any] = json.loads(data)
    return reply


def main(path: str) -> None:
    """The worker: reads a job, then requests until its input ends."""
    from xyla.clients.cli.trial_worker import Worker

    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a pass prints must not mix with the replies
    lines: IO[bytes] = sys.stdin.buffer
    try:
        worker = Worker(Job(**_tuples(json.loads(lines.readline()))), Progress(path))
        _reply(replies, {})
    except XylaError as error:
        _reply(replies, {"status": error.status.name, "message": _unlabelled(error)})
        return
    except Exception as error:  # loading a program or a pass went wrong in its own way: the searcher reports it
        _reply(replies, {"status": Status.INTERNAL.name, "message": f"{type(error).__name__}: {error}"})
        return
    for line in lines:
        _reply(replies, asdict(worker.trial(Request(**json.loads(line)))))


def _unlabelled(error: XylaError) -> str:
    """The rendered error without its status, which the reader puts back."""
    return error.render().removeprefix(f"{error.status.name}: ")


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}


def _reply(stream: IO[bytes], message: dict[str, Any]) -> None:
    stream.write(json.dumps(message).encode() + b"\n")
    stream.flush()


if __name__ == "__main__":
    main(sys.argv[1])
