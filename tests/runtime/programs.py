"""Programs made by hand for the engines' tests, with kernels of a few lines of IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.runtime.custom_calls import CallContext
from xyla.runtime.executable import Executable, Stats
from xyla.runtime.objects import KernelSource, compile_kernels
from xyla.runtime.program import (
    Allocation,
    AllocationKind,
    Argument,
    ArrayType,
    CustomCallStep,
    KernelStep,
    Output,
    Program,
    Slice,
    Step,
    StepList,
)

Array = np.ndarray[Any, np.dtype[Any]]
S32, F32, U8 = np.dtype(np.int32), np.dtype(np.float32), np.dtype(np.uint8)
PARAMETER, OUTPUT, TEMP, CONSTANT = (
    AllocationKind.PARAMETER,
    AllocationKind.OUTPUT,
    AllocationKind.TEMP,
    AllocationKind.CONSTANT,
)


def of(dtype: np.dtype[Any], *dims: int) -> ArrayType:
    """A row-major array's type."""
    strides = tuple(int(np.prod(dims[i + 1 :])) * dtype.itemsize for i in range(len(dims)))
    return ArrayType(dtype, dims, strides)


def loop(body: str) -> KernelSource:
    """A kernel over i32 arrays: `body` computes %r from %x (argument 0's element) and %y (argument 1's)."""
    return KernelSource(
        f"""define void @{KernelSource.SYMBOL}(ptr %args, i64 %lo, i64 %hi) #0 {{
entry:
  %q1 = getelementptr ptr, ptr %args, i64 1
  %q2 = getelementptr ptr, ptr %args, i64 2
  %a = load ptr, ptr %args
  %b = load ptr, ptr %q1
  %c = load ptr, ptr %q2
  br label %next
next:
  %i = phi i64 [%lo, %entry], [%i1, %next]
  %ap = getelementptr i32, ptr %a, i64 %i
  %bp = getelementptr i32, ptr %b, i64 %i
  %cp = getelementptr i32, ptr %c, i64 %i
  %x = load i32, ptr %ap
  %y = load i32, ptr %bp
  {body}
  store i32 %r, ptr %cp
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %hi
  br i1 %more, label %next, label %exit
exit:
  ret void
}}
"""
    )


ADD = loop("%r = add i32 %x, %y")
LESS = loop("%l = icmp slt i32 %x, %y\n  %r = zext i1 %l to i32")


class Maker:
    """Collects allocations, steps and kernels of one program."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.arguments: list[Argument] = []
        self.outputs: list[Output] = []
        self.body = StepList("main")
        self._sources: dict[str, KernelSource] = {}

    def parameter(self, t: ArrayType) -> Slice:
        n = len(self.arguments)
        self.arguments.append(Argument(f"parameter {n} (p{n})", t, f"{t.dtype}{list(t.dims)}"))
        return self._new(Allocation(PARAMETER, t.num_bytes, n))

    def temp(self, size: int) -> Slice:
        return self._new(Allocation(TEMP, size))

    def constant(self, value: npt.ArrayLike) -> Slice:
        raw = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return self._new(Allocation(CONSTANT, raw.size, data=raw))

    def output(self, t: ArrayType) -> Slice:
        where = self._new(Allocation(OUTPUT, t.num_bytes, len(self.outputs)))
        self.outputs.append(Output(t, where))
        return where

    def kernel(self, source: KernelSource, *args: Slice, size: int, name: str = "k") -> KernelStep:
        self._sources.setdefault(source.symbol, source)
        number = list(self._sources).index(source.symbol)
        types = tuple(of(S32, a.size // 4) for a in args)
        return KernelStep(name, number, args, size, types, len(args) - 1)

    def add(self, *steps: Step) -> Maker:
        self.body.steps.extend(steps)
        return self

    def program(self) -> Program:
        return Program("p", self.allocations, self.arguments, self.outputs, self.body, list(self._sources))

    def executable(self) -> Executable:
        sources = list(self._sources.values())
        kernels = compile_kernels(sources)
        return Executable(self.program(), [k.address for k in kernels], Stats(), kernels, sources)

    def _new(self, allocation: Allocation) -> Slice:
        self.allocations.append(allocation)
        return Slice(len(self.allocations) - 1, 0, allocation.size)


def python_call(
    work: Callable[[CallContext, Sequence[Array]], Sequence[Array]],
    inputs: Sequence[tuple[Slice, ArrayType]],
    outputs: Sequence[tuple[Slice, ArrayType]],
    name: str = "call",
) -> CustomCallStep:
    """A custom call of a function of this process."""
    return CustomCallStep(name, "test", tuple(inputs), tuple(outputs), {}, "test", work)


def sum_program(n: int = 16) -> Maker:
    """out = (p0 + p1) + p1, through a temporary."""
    m = Maker()
    p, q, t, out = m.parameter(of(S32, n)), m.parameter(of(S32, n)), m.temp(4 * n), m.output(of(S32, n))
    return m.add(m.kernel(ADD, p, q, t, size=n, name="first"), m.kernel(ADD, t, q, out, size=n, name="second"))
