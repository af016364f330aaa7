"""What running costs besides the kernels: a small program's call, host code against an LLVM function, threads.

The host code that the native engine interprets is compared with the same launches as one LLVM function at O0 (made
here), and with the interpreted engine: time to make, time to run, over the time that the kernels take alone.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import resource
import statistics
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import llvmlite.binding as llvm
import numpy as np

import xyla
from bench.tables import show
from xyla.runtime.engine_interpreted import Interpreter
from xyla.runtime.executable import Executable, Stats
from xyla.runtime.host_program import Encoder
from xyla.runtime.objects import KernelSource, compile_kernels, host
from xyla.runtime.program import (
    Allocation,
    AllocationKind,
    Argument,
    ArrayType,
    KernelStep,
    Output,
    Program,
    Slice,
    Step,
    StepList,
)

T = TypeVar("T")
LENGTH = 16
_TYPE = ArrayType(np.dtype(np.float32), (LENGTH,), (4,))
# Adds 1 to a vector: as cheap as a kernel gets.
_KERNEL = KernelSource(
    f"""define void @{KernelSource.SYMBOL}(ptr %args, i64 %lo, i64 %hi) #0 {{
entry:
  %q = getelementptr ptr, ptr %args, i64 1
  %a = load ptr, ptr %args
  %b = load ptr, ptr %q
  %x = load <{LENGTH} x float>, ptr %a, align 4
  %y = fadd <{LENGTH} x float> %x, splat (float 1.0)
  store <{LENGTH} x float> %y, ptr %b, align 4
  ret void
}}
"""
)


def chain(count: int) -> Program:
    """`count` launches, each on the result of the last."""
    size = 4 * LENGTH
    kinds = [AllocationKind.PARAMETER, AllocationKind.OUTPUT, AllocationKind.TEMP]
    allocations = [Allocation(kind, size, 0) for kind in kinds]
    p, out, temp = (Slice(i, 0, size) for i in range(3))
    steps: list[Step] = [
        KernelStep(f"k{i}", 0, (p if i == 0 else temp, out if i == count - 1 else temp), 1) for i in range(count)
    ]
    arguments, outputs = [Argument("p", _TYPE, "f32[16]")], [Output(_TYPE, out)]
    return Program("chain", allocations, arguments, outputs, StepList("main", steps), [_KERNEL.symbol])


def cheapest(make: Callable[[], T]) -> tuple[T, float]:
    """What `make` makes, and the least seconds of processor time in three tries."""
    seconds = math.inf
    for _ in range(3):
        start = time.process_time()
        made = make()
        seconds = min(seconds, time.process_time() - start)
    return made, seconds


def llvm_function(count: int, kernel: int) -> tuple[Callable[[int], None], object]:
    """(a function of the table's address that does `count` launches, what owns it)."""
    lines = [f'target triple = "{host().triple}"', "define void @host(ptr %table) {"]
    for i in range(count):
        lines.append(f"  %a{i} = getelementptr i64, ptr %table, i64 {2 * i}")
        lines.append(f"  call void inttoptr (i64 {kernel} to ptr)(ptr %a{i}, i64 0, i64 1)")
    lines += ["  ret void", "}"]
    module = llvm.parse_assembly("\n".join(lines), llvm.create_context())
    image = host().target_machine(opt=0).emit_object(module)
    jit = llvm.create_lljit_compiler(host().target_machine(), use_jit_link=True)
    library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
    library.export_symbol("host")
    tracker = library.link(jit, "host")
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(tracker["host"])
    return function, (tracker, jit)


def microseconds(call: Callable[[], object], repeat: int = 400) -> tuple[float, float]:
    """(least, median) of one call, of batches that outlast the clock's grain."""
    call()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(5):
            call()
        times.append((time.perf_counter() - start) * 2e5)
    return min(times), statistics.median(times)


def small_call() -> list[tuple[object, ...]]:
    """x + 1 over 8 numbers: a call from Python, whole."""
    text = "HloModule m\nENTRY e {\n x = f32[8] parameter(0)\n c = f32[] constant(1)\n"
    text += " b = f32[8] broadcast(c), dimensions={}\n ROOT r = f32[8] add(x, b)\n}\n"
    run, x = xyla.compile(text), np.ones(8, np.float32)
    rows: list[tuple[object, ...]] = [("x + 1, 8 elements: compiled", *microseconds(lambda: run(x), 2000))]
    run.use(Interpreter())
    rows.append(("x + 1, 8 elements: interpreted", *microseconds(lambda: run(x))))
    rows.append(("x + 1, 8 elements: NumPy", *microseconds(lambda: x + 1, 2000)))
    return rows


def launches(count: int) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """(rows of run times, rows of times to make) of a program of `count` launches."""
    kernels = compile_kernels([_KERNEL])
    program = chain(count)
    code, encoding = cheapest(lambda: Encoder(program, [kernels[0].address]).encode())
    run, making = cheapest(lambda: Executable(program, [kernels[0].address], Stats(), kernels))
    (function, owner), compiling = cheapest(lambda: llvm_function(count, kernels[0].address))
    x = np.ones(LENGTH, np.float32)
    memory = np.zeros((count + 1) * LENGTH, np.float32)
    table = np.array([[memory.ctypes.data] * 2] * count, np.int64)
    address = int(table.ctypes.data)
    empty = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(kernels[0].address)
    one = chain(1)
    single = Executable(one, [kernels[0].address], Stats(), kernels)
    rows: list[tuple[object, ...]] = [
        ("one kernel through ctypes", *microseconds(lambda: empty(address, 0, 1))),
        ("1 launch, host code", *microseconds(lambda: single(x))),
        (f"{count} launches, LLVM function at O0", *microseconds(lambda: function(address))),
        (f"{count} launches, host code", *microseconds(lambda: run(x))),
    ]
    np.testing.assert_array_equal(run(x)[0], x + count)
    run.use(Interpreter())
    rows.append((f"{count} launches, interpreted", *microseconds(lambda: run(x), 20)))
    del owner
    per_step = 1e6 / count
    return rows, [
        (f"{count} launches: host code", encoding * per_step, len(code.code)),
        (f"{count} launches: executable with all that belongs to it", making * per_step, len(code.code)),
        (f"{count} launches: LLVM function at O0", compiling * per_step, 0),
    ]


def threads(count: int, runs: int) -> tuple[object, ...]:
    """`count` threads run one executable `runs` times each: wrong results, time of one, growth of memory."""
    run = Executable(chain(20), [compile_kernels([_KERNEL])[0].address], Stats())
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = np.full(LENGTH, seed, np.float32)
        for _ in range(runs):
            if run(x)[0].tobytes() != (x + 20).tobytes():
                wrong.append(seed)

    def burst() -> None:
        pool = [threading.Thread(target=work, args=(i,)) for i in range(count)]
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()

    burst()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    burst()
    spent = time.perf_counter() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return f"{count} threads x {runs}", spent * 1e6 / (count * runs), len(wrong), grown


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, nargs="*", default=[200, 2000])
    parser.add_argument("--runs", type=int, default=10_000)
    options = parser.parse_args()
    rows, made = small_call(), []
    for count in options.launches:
        running, making = launches(count)
        rows += running
        made += making
    show("one execution, microseconds", ("program", "least", "median"), rows)
    show("making it, microseconds of processor time a step", ("form", "a step", "words"), made)
    columns = ("executions", "us each", "wrong", "KiB grown")
    show("threads that share an executable", columns, [threads(8, options.runs)])


if __name__ == "__main__":
    main()
