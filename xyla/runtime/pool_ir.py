"""The work-sharing pool as LLVM IR: what runs a launch range on several threads, and what a worker does.

A job is a function over [0, total), cut into chunks of `grain`. The calling thread and the workers take chunks by
compare-and-swap on one word (epoch << 32 | chunks left), so a worker that the machine does not schedule costs nothing
but its help: the caller does the chunks itself. Workers spin a little, then sleep on a futex. One job at a time: a
caller that finds the pool busy does its own chunks in order, the same ones, so results never depend on who helped.
"""

from __future__ import annotations

import platform

from xyla.runtime.llvm_compile import KernelSource

# Byte offsets in the pool's memory; what different threads write lies on different cache lines.
TICK, DONE, JOB, EPOCH, SLEEPERS, BUSY, WAITING, STOP, WORKERS = 0, 64, 128, 192, 256, 320, 324, 384, 388
POOL_BYTES = 448
# A pause is about 70 ns here: workers wait 20 us for the next job before they sleep.
_WORKER_SPINS = 300
_CALLER_SPINS = 100
_FUTEX = {"x86_64": 202, "aarch64": 98}
_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}


def can_share() -> bool:
    """Whether this machine's system calls are known; elsewhere callers do all chunks themselves."""
    return platform.system() == "Linux" and platform.machine() in _FUTEX


def futex_number() -> int:
    """The number of the futex system call."""
    return _FUTEX.get(platform.machine(), 0)


def _pause() -> tuple[str, str]:
    return _PAUSE.get(platform.machine(), ("", "fence seq_cst"))


def declarations() -> tuple[str, ...]:
    """What the functions below call."""
    return ("declare i64 @syscall(i64, ...)", *(d for d in (_pause()[0],) if d))


def _drain() -> str:
    """Takes chunks and runs them until none is left.

    The job's words may be read while a later job is being written; the compare-and-swap fails then, by the epoch.
    """
    return f"""define internal void @pool_drain(ptr %pool) noinline nounwind {{
entry:
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  %job = getelementptr i8, ptr %pool, i64 {JOB}
  %job1 = getelementptr i8, ptr %job, i64 8
  %job2 = getelementptr i8, ptr %job, i64 16
  %job3 = getelementptr i8, ptr %job, i64 24
  %job4 = getelementptr i8, ptr %job, i64 32
  %waiting = getelementptr i8, ptr %pool, i64 {WAITING}
  br label %look
look:
  %tick = load atomic i64, ptr %pool acquire, align 8
  %left = and i64 %tick, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %exit, label %take
take:
  %fn = load atomic ptr, ptr %job monotonic, align 8
  %args = load atomic ptr, ptr %job1 monotonic, align 8
  %total = load atomic i64, ptr %job2 monotonic, align 8
  %grain = load atomic i64, ptr %job3 monotonic, align 8
  %count = load atomic i64, ptr %job4 monotonic, align 8
  %less = sub i64 %tick, 1
  %pair = cmpxchg ptr %pool, i64 %tick, i64 %less acq_rel acquire
  %mine = extractvalue {{i64, i1}} %pair, 1
  br i1 %mine, label %run, label %look
run:
  %index = sub i64 %count, %left
  %lo = mul i64 %index, %grain
  %end = add i64 %lo, %grain
  %short = icmp slt i64 %end, %total
  %hi = select i1 %short, i64 %end, i64 %total
  call void %fn(ptr %args, i64 %lo, i64 %hi)
  %before = atomicrmw add ptr %done, i32 1 seq_cst
  %after = add i32 %before, 1
  %count32 = trunc i64 %count to i32
  %last = icmp eq i32 %after, %count32
  br i1 %last, label %finished, label %look
finished:
  %sleeps = load atomic i32, ptr %waiting seq_cst, align 4
  %asleep = icmp ne i32 %sleeps, 0
  br i1 %asleep, label %wake, label %look
wake:
  %woken = call i64 (i64, ...) @syscall(i64 {futex_number()}, ptr %done, i32 129, i32 1, ptr null, ptr null, i32 0)
  br label %look
exit:
  ret void
}}
"""


def _serial() -> str:
    return """define internal void @pool_serial(ptr %fn, ptr %args, i64 %total, i64 %grain) noinline nounwind {
entry:
  br label %next
next:
  %lo = phi i64 [0, %entry], [%end, %next]
  %end = add i64 %lo, %grain
  %short = icmp slt i64 %end, %total
  %hi = select i1 %short, i64 %end, i64 %total
  call void %fn(ptr %args, i64 %lo, i64 %hi)
  br i1 %short, label %next, label %exit
exit:
  ret void
}
"""


def _publish() -> str:
    """Writes the job, makes its chunks takeable, wakes sleeping workers."""
    return f"""define internal void @pool_publish(ptr %pool, ptr %fn, ptr %args, i64 %total, i64 %grain, i64 %count) {{
entry:
  %job = getelementptr i8, ptr %pool, i64 {JOB}
  %job1 = getelementptr i8, ptr %job, i64 8
  %job2 = getelementptr i8, ptr %job, i64 16
  %job3 = getelementptr i8, ptr %job, i64 24
  %job4 = getelementptr i8, ptr %job, i64 32
  store atomic ptr %fn, ptr %job monotonic, align 8
  store atomic ptr %args, ptr %job1 monotonic, align 8
  store atomic i64 %total, ptr %job2 monotonic, align 8
  store atomic i64 %grain, ptr %job3 monotonic, align 8
  store atomic i64 %count, ptr %job4 monotonic, align 8
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  store atomic i32 0, ptr %done release, align 4
  %epoch = getelementptr i8, ptr %pool, i64 {EPOCH}
  %e = load atomic i32, ptr %epoch monotonic, align 4
  %e1 = add i32 %e, 1
  %e64 = zext i32 %e1 to i64
  %high = shl i64 %e64, 32
  %tick = or i64 %high, %count
  store atomic i64 %tick, ptr %pool seq_cst, align 8
  store atomic i32 %e1, ptr %epoch seq_cst, align 4
  %sleepers.p = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %sleepers = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %wake, label %exit
wake:
  %count32 = trunc i64 %count to i32
  %helpers = sub i32 %count32, 1
  %n = call i64 (i64, ...) @syscall(i64 {futex_number()}, ptr %epoch, i32 129, i32 %helpers, ptr null, ptr null, i32 0)
  br label %exit
exit:
  ret void
}}
"""


def _wait() -> str:
    """Waits until all chunks are done: spins a little, then sleeps until the last worker wakes it."""
    return f"""define internal void @pool_wait(ptr %pool, i32 %count) #0 {{
entry:
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  br label %wait
wait:
  %spin = phi i32 [0, %entry], [%spin1, %pause]
  %d = load atomic i32, ptr %done acquire, align 4
  %all = icmp eq i32 %d, %count
  br i1 %all, label %exit, label %again
again:
  %spin1 = add i32 %spin, 1
  %patient = icmp ult i32 %spin1, {_CALLER_SPINS}
  br i1 %patient, label %pause, label %sleep
pause:
  {_pause()[1]}
  br label %wait
sleep:
  %waiting = getelementptr i8, ptr %pool, i64 {WAITING}
  store atomic i32 1, ptr %waiting seq_cst, align 4
  br label %check
check:
  %seen = load atomic i32, ptr %done seq_cst, align 4
  %finished = icmp eq i32 %seen, %count
  br i1 %finished, label %awake, label %doze
doze:
  %slept = call i64 (i64, ...) @syscall(i64 {futex_number()}, ptr %done, i32 128, i32 %seen, ptr null, ptr null, i32 0)
  br label %check
awake:
  store atomic i32 0, ptr %waiting seq_cst, align 4
  br label %exit
exit:
  ret void
}}
"""


def _run() -> str:
    return f"""define internal void @pool_run(ptr %pool, ptr %fn, ptr %args, i64 %total, i64 %grain) #0 {{
entry:
  %one = icmp sle i64 %total, %grain
  br i1 %one, label %whole, label %several
whole:
  call void %fn(ptr %args, i64 0, i64 %total)
  ret void
several:
  %workers.p = getelementptr i8, ptr %pool, i64 {WORKERS}
  %workers = load atomic i32, ptr %workers.p monotonic, align 4
  %alone = icmp eq i32 %workers, 0
  br i1 %alone, label %serial, label %ask
ask:
  %busy = getelementptr i8, ptr %pool, i64 {BUSY}
  %pair = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %ours = extractvalue {{i32, i1}} %pair, 1
  br i1 %ours, label %share, label %serial
serial:
  call void @pool_serial(ptr %fn, ptr %args, i64 %total, i64 %grain)
  ret void
share:
  %total.up = add i64 %total, %grain
  %total.up1 = sub i64 %total.up, 1
  %count = udiv i64 %total.up1, %grain
  %count32 = trunc i64 %count to i32
  call void @pool_publish(ptr %pool, ptr %fn, ptr %args, i64 %total, i64 %grain, i64 %count)
  call void @pool_drain(ptr %pool)
  call void @pool_wait(ptr %pool, i32 %count32)
  store atomic i32 0, ptr %busy release, align 4
  ret void
}}
"""


def helpers() -> tuple[tuple[str, str], ...]:
    """`pool_run(pool, fn, args, total, grain)` calls fn(args, lo, hi) over every chunk and waits; and what it needs."""
    return (
        ("pool_drain", _drain()),
        ("pool_serial", _serial()),
        ("pool_publish", _publish()),
        ("pool_wait", _wait()),
        ("pool_run", _run()),
    )


def worker_source() -> KernelSource:
    """`ptr worker(ptr pool)`, the start routine of a thread: helps with jobs until it is told to stop."""
    body = f"""define ptr @{KernelSource.SYMBOL}(ptr %pool) nounwind {{
entry:
  %epoch = getelementptr i8, ptr %pool, i64 {EPOCH}
  %sleepers = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %stop = getelementptr i8, ptr %pool, i64 {STOP}
  br label %top
top:
  %e = load atomic i32, ptr %epoch acquire, align 4
  call void @pool_drain(ptr %pool)
  %told = load atomic i32, ptr %stop acquire, align 4
  %over = icmp ne i32 %told, 0
  br i1 %over, label %exit, label %spin
spin:
  %i = phi i32 [0, %top], [%i1, %more]
  %tick = load atomic i64, ptr %pool acquire, align 8
  %left = and i64 %tick, 4294967295
  %some = icmp ne i64 %left, 0
  br i1 %some, label %top, label %more
more:
  {_pause()[1]}
  %i1 = add i32 %i, 1
  %patient = icmp ult i32 %i1, {_WORKER_SPINS}
  br i1 %patient, label %spin, label %sleep
sleep:
  %s0 = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %slept = call i64 (i64, ...) @syscall(i64 {futex_number()}, ptr %epoch, i32 128, i32 %e, ptr null, ptr null, i32 0)
  %s1 = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %top
exit:
  ret ptr null
}}
"""
    return KernelSource(body, declarations(), (helpers()[0],))
