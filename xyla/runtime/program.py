"""The runtime program: steps over buffer slices. No HLO in it, so that it can be saved, printed and run anywhere.

A program is a list of allocations and a tree of steps. Every step names its memory by `Slice`; the executable resolves
the allocations to addresses once a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from xyla.runtime.custom_calls import Handler


class AllocationKind(Enum):
    """Who provides the memory."""

    TEMP = "temp"  # scratch of one run
    PARAMETER = "parameter"  # the caller's array
    CONSTANT = "constant"  # shared by all runs
    OUTPUT = "output"  # fresh for each run, handed to the caller


@dataclass(frozen=True, slots=True)
class ArrayType:
    """How an array lies in memory: NumPy dtype, logical dims, strides in bytes by logical dimension."""

    dtype: np.dtype[np.generic]
    dims: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Storage bytes."""
        return int(np.prod(self.dims, dtype=object)) * self.dtype.itemsize

    @property
    def minor_to_major(self) -> tuple[int, ...]:
        """Logical dimensions, fastest-varying first."""
        return tuple(sorted(range(len(self.dims)), key=lambda d: (self.strides[d], -d)))


@dataclass(frozen=True, slots=True)
class Allocation:
    """A piece of memory. `size` in bytes. `index`: parameter leaf or output leaf number. `data`: a constant's bytes.

    on_host: where host and device differ, the host's memory: scalars on its stack, constants that no argument carries.
    is_written: a parameter that a run writes to; the caller's array is copied unless it is donated.
    """

    kind: AllocationKind
    size: int
    index: int = -1
    data: npt.NDArray[np.uint8] | None = None
    on_host: bool = False
    is_written: bool = False


@dataclass(frozen=True, slots=True)
class Slice:
    """`size` bytes at `offset` of allocation number `allocation`."""

    allocation: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class KernelStep:
    """Calls kernel number `kernel` over its whole launch range.

    args: operands, then outputs, then constants and scratch. types: of the operands and outputs, `num_inputs` operands
    first. grain: launch units that make a part worth a thread of its own.
    """

    name: str
    kernel: int
    args: tuple[Slice, ...]
    launch_size: int
    types: tuple[ArrayType, ...] = ()
    num_inputs: int = 0
    grain: int = 1


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Copies bytes; source and target do not overlap."""

    name: str
    source: Slice
    target: Slice


@dataclass(frozen=True, slots=True)
class GemmCall:
    """A dot that is a plain (batched) matrix product for BLAS, in row-major terms: C[m,n] = A[m,k] B[k,n].

    A is operand 0 and B operand 1, or the other way round when `swap` is set. trans_a: A is stored as [k,m] (rows of
    length m); trans_b: B is stored as [n,k]. ld*: row strides of what is stored; stride_*: elements between batches.
    """

    m: int
    n: int
    k: int
    trans_a: bool
    trans_b: bool
    lda: int
    ldb: int
    ldc: int
    batch: int = 1
    stride_a: int = 0
    stride_b: int = 0
    stride_c: int = 0
    swap: bool = False


@dataclass(frozen=True, slots=True)
class GemmStep:
    """Does a matrix product by BLAS. `dtype`: f32 or f64; `a` and `b` are the slices of the call's A and B.

    `call_as`: the library call that this step stands for, as which it is printed and loaded.
    """

    name: str
    dtype: np.dtype[np.generic]
    call: GemmCall
    a: Slice
    b: Slice
    c: Slice
    call_as: CustomCallStep | None = None


class Deferred:
    """Text that is made when somebody reads it: saving and printing do, running need not. Equal to its text."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    @cached_property
    def text(self) -> str:
        """The text, made once."""
        return self._make()

    def __eq__(self, other: object) -> bool:
        return self is other or self.text == (other.text if isinstance(other, Deferred) else other)

    def __hash__(self) -> int:
        return hash(self.text)


# What a custom call's attributes hold; records are mappings, enums are strings.
Attribute = (
    bool | int | float | str | bytes | Deferred | tuple["Attribute", ...] | Mapping[str, "Attribute"] | ArrayType
)


@dataclass(frozen=True, slots=True)
class CustomCallStep:
    """Calls the registered function `target` (`xyla.runtime.custom_calls`) on typed slices.

    `reason`: why there is no native code, for work that a kernel should do; statistics count these. `location`: where
    the source states the call ("model.hlo:7:3"), for errors. `prepared`: the function itself where the compiler has it
    at hand; a program that was loaded asks the registry.
    """

    name: str
    target: str
    inputs: tuple[tuple[Slice, ArrayType], ...]
    outputs: tuple[tuple[Slice, ArrayType], ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    reason: str = ""
    prepared: Handler | None = field(default=None, compare=False, repr=False)
    location: str = ""


@dataclass(frozen=True, slots=True)
class CallStep:
    """Copies arguments (from, to) into the frame of a sequence that several places share, and runs it.

    `pure`: nothing but the arguments decides what it does. Its frame is its own, so when the arguments lie there
    already from its last run, so do the results, and it is not run again: a call DAG costs its nodes, not its paths.
    """

    name: str
    body: StepList
    arguments: tuple[tuple[Slice, Slice], ...] = ()
    pure: bool = False


@dataclass(frozen=True, slots=True)
class WhileStep:
    """Runs `condition`, then `body` for as long as the byte at `predicate` is not zero."""

    name: str
    condition: StepList
    predicate: Slice
    body: StepList


@dataclass(frozen=True, slots=True)
class SwitchStep:
    """Runs one branch. `is_predicate`: a byte, non-zero takes branch 0; else an s32, out of range takes the last."""

    name: str
    selector: Slice
    is_predicate: bool
    branches: tuple[StepList, ...]


Step = KernelStep | CopyStep | GemmStep | CustomCallStep | CallStep | WhileStep | SwitchStep


@dataclass(slots=True)
class StepList:
    """A sequence of steps; shared by identity between the places that call it."""

    name: str
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Argument:
    """One array the caller passes: the name used in errors and how it must lie in memory."""

    name: str
    type: ArrayType
    type_text: str


@dataclass(frozen=True, slots=True)
class Output:
    """One array a run returns, and where it lies: an OUTPUT allocation, or the PARAMETER one that it aliases.

    must_alias: the caller has to donate that parameter. Otherwise, when it is not donated, the run works on a copy.
    """

    type: ArrayType
    slice: Slice
    must_alias: bool = False


@dataclass(slots=True)
class Program:
    """Everything a run needs but the kernels' addresses.

    kernel_hlo: for each kernel the text of a module with one instruction from which a compiler makes it again; empty
    where the program was made without.
    """

    name: str
    allocations: list[Allocation]
    arguments: list[Argument]
    outputs: list[Output]
    body: StepList
    kernel_names: list[str] = field(default_factory=list)
    kernel_hlo: list[Deferred] = field(default_factory=list)


def all_steps(program: Program) -> list[Step]:
    """Every step once, shared sequences once, in first-visit order."""
    seen: set[int] = set()
    out: list[Step] = []
    stack: list[StepList] = [program.body]
    while stack:
        steps = stack.pop()
        if id(steps) in seen:
            continue
        seen.add(id(steps))
        for step in steps.steps:
            out.append(step)
            stack.extend(nested(step))
    return out


def nested(step: Step) -> tuple[StepList, ...]:
    """The sequences a control-flow step runs."""
    match step:
        case CallStep():
            return (step.body,)
        case WhileStep(_, condition, _, body):
            return (condition, body)
        case SwitchStep(_, _, _, branches):
            return branches
        case _:
            return ()


def slices_of(step: Step) -> tuple[Slice, ...]:
    """The slices a step reads or writes itself, in a fixed order."""
    match step:
        case KernelStep():
            return step.args
        case CopyStep(_, source, target):
            return (source, target)
        case GemmStep():
            return (step.a, step.b, step.c)
        case CustomCallStep():
            return (*(s for s, _ in step.inputs), *(s for s, _ in step.outputs))
        case WhileStep(_, _, predicate, _):
            return (predicate,)
        case SwitchStep(_, selector, _, _):
            return (selector,)
        case CallStep():
            return tuple(s for pair in step.arguments for s in pair)
