"""The worker pool: many callers, more workers than cores, forks, the process's end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xyla.runtime import pool, pool_ir

COMMON = """
import os, sys, threading
import numpy as np
from tests.runtime.programs import sum_program
from xyla.runtime.pool import host_threads, shared_pool
assert host_threads() == 4
n = 1 << 18
run = sum_program(n).executable()
x = np.arange(n, dtype=np.int32)

def check(seed, times=40):
    for i in range(times):
        y = np.full(n, seed * 1000 + i, np.int32)
        (out,) = run(x, y)
        assert np.array_equal(out, x + 2 * (seed * 1000 + i)), seed
"""
MANY_CALLERS = """
wrong = []
def guarded(seed):
    try:
        check(seed)
    except BaseException as error:
        wrong.append(error)
threads = [threading.Thread(target=guarded, args=(i,)) for i in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
print("wrong", len(wrong))
"""
FORK = """
check(1)
children = []
for i in range(4):
    pid = os.fork()
    if pid == 0:
        check(i, 5)
        sys.exit(0)
    children.append(pid)
print([os.waitpid(pid, 0)[1] for pid in children])
check(2)
"""
SLOW_PARTS = """
from tests.runtime.programs import Maker, S32, of
from xyla.runtime import host_program
from xyla.runtime.llvm_compile import KernelSource
from xyla.runtime.program import CopyStep
host_program.SPLIT_BYTES = 0
slow = KernelSource('''define void @xyla_kernel(ptr %args, i64 %lo, i64 %hi) #0 {
entry:
  %counter = alloca i64
  store i64 0, ptr %counter
  br label %spin
spin:
  %n = load volatile i64, ptr %counter
  %n1 = add i64 %n, 1
  store volatile i64 %n1, ptr %counter
  %more = icmp slt i64 %n1, 1000000
  br i1 %more, label %spin, label %done
done:
  %out = load ptr, ptr %args
  %p = getelementptr i32, ptr %out, i64 %lo
  store i32 1, ptr %p
  ret void
}
''')
m = Maker()
out = m.output(of(S32, 16))
m.add(CopyStep("zero", m.constant(np.zeros(16, np.int32)), out), m.kernel(slow, out, size=16))
slowly = m.executable()
print(sum(int(slowly()[0].sum()) for _ in range(30)))
"""
KEPT_RESULT = """
(kept,) = run(x, x)
print(kept.nbytes)
"""
STOPPED = """
check(1)
shared_pool().stop()
check(2)
shared_pool().stop()
print("stopped")
"""
AT_EXIT = """
def forever():
    while True:
        check(3)
threading.Thread(target=forever, daemon=True).start()
check(1, 10)
print("end")
"""


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        (MANY_CALLERS, "wrong 0"),
        (FORK, "[0, 0, 0, 0]"),
        (SLOW_PARTS, "480"),
        (KEPT_RESULT, "1048576"),
        (STOPPED, "stopped"),
        (AT_EXIT, "end"),
    ],
    ids=["callers", "fork", "slow", "kept", "stop", "exit"],
)
def test_in_a_process_of_its_own(script: str, printed: str) -> None:
    root = Path(__file__).parents[2]
    env = os.environ | {"XYLA_THREADS": "4", "PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)])}
    command = [sys.executable, "-c", COMMON + script]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False, cwd=root)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, printed, "")


def test_threads_are_told_or_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    count = pool.host_threads.__wrapped__
    monkeypatch.setenv("XYLA_THREADS", "7")
    assert count() == 7
    monkeypatch.setenv("XYLA_THREADS", "0")
    assert count() == 1
    monkeypatch.setenv("XYLA_THREADS", "many")
    assert count() == len(os.sched_getaffinity(0))


def test_no_two_writers_share_a_cache_line() -> None:
    lines = [pool_ir.TICK, pool_ir.DONE, pool_ir.JOB, pool_ir.EPOCH, pool_ir.SLEEPERS, pool_ir.BUSY, pool_ir.STOP]
    assert len({offset // 64 for offset in lines}) == len(lines)
    assert max(pool_ir.WAITING, pool_ir.WORKERS) + 4 <= pool_ir.POOL_BYTES
