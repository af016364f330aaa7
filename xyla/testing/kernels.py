"""Runs the kernel of a one-instruction program and compares it with the reference evaluator."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from xyla import interp
from xyla.clients.compare import compare, reduction_length
from xyla.clients.random_args import random_args
from xyla.codegen.kernel import KernelSpec
from xyla.codegen.kernels import build_kernel
from xyla.formats.hlo_text import parse
from xyla.hlo.module import Instruction, Module
from xyla.hlo.shape import Shape
from xyla.runtime.objects import ObjectStore
from xyla.runtime.program import GemmCall

Array = np.ndarray[Any, np.dtype[Any]]
# What the padding of a result holds before a kernel runs: bytes that no test expects.
_FILLER = 0xA5


@cache
def _store() -> ObjectStore:
    return ObjectStore(None)


def array_leaves(shapes: Sequence[Shape]) -> list[Shape]:
    """The array leaves of several shapes, in order."""
    return [leaf for shape in shapes for _, leaf in shape.leaves() if leaf.is_array]


def to_physical(array: Array, shape: Shape) -> Array:
    """A logical array as a contiguous array in its shape's memory order."""
    return np.ascontiguousarray(np.asarray(array).transpose(_major_to_minor(shape)))


def to_logical(raw: Array, shape: Shape) -> Array:
    """The inverse of `to_physical`, from bytes."""
    order = _major_to_minor(shape)
    physical = raw.view(shape.element_type.np).reshape([shape.dims[d] for d in order])
    return physical.transpose(np.argsort(order)) if order else physical


def _major_to_minor(shape: Shape) -> list[int]:
    return list(reversed(shape.layout.minor_to_major)) if shape.layout else list(range(shape.rank))


class KernelCall:
    """A compiled kernel, called on its buffers in argument order."""

    def __init__(self, store: ObjectStore, spec: KernelSpec) -> None:
        self._store, self._count = store, spec.num_args
        (kernel,) = store.load([spec.source])
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(kernel.address)

    def __call__(self, buffers: Sequence[Array], lo: int, hi: int) -> None:
        """Runs launch units [lo, hi)."""
        assert len(buffers) == self._count
        self._call((ctypes.c_void_p * len(buffers))(*(a.ctypes.data for a in buffers)), lo, hi)


def run_kernel(spec: KernelSpec, inst: Instruction, arrays: Sequence[Array], parts: int = 1) -> list[Array]:
    """Calls a kernel on logical operand arrays (one a leaf), its launch range cut into `parts`."""
    outputs = array_leaves([inst.shape])
    inputs = array_leaves([o.shape for o in inst.operands])
    buffers = [to_physical(a, s) for a, s in zip(arrays, inputs, strict=True)]
    results = [np.full(max(s.num_bytes, 1), _FILLER, np.uint8)[: s.num_bytes] for s in outputs]
    constants = [np.ascontiguousarray(literal.array) for literal in spec.literals]
    scratch = [np.zeros(spec.scratch_bytes, np.uint8)] if spec.scratch_bytes else []
    every = [*buffers, *results, *constants, *scratch]
    call, n = KernelCall(_store(), spec), spec.launch_size
    for k in range(parts):
        call(every, n * k // parts, n * (k + 1) // parts)
    return [to_logical(r, s) for r, s in zip(results, outputs, strict=True)]


def program(*lines: str, computations: str = "") -> str:
    """HLO text of a module whose entry has these instruction lines."""
    return f"HloModule m\n\n{computations}\nENTRY e {{\n" + "\n".join("  " + line for line in lines) + "\n}\n"


def monoid(op: str, et: str, name: str = "f") -> str:
    """HLO text of a two-parameter scalar computation that applies one binary op."""
    return f"{name} {{\n  a = {et}[] parameter(0)\n  b = {et}[] parameter(1)\n  ROOT r = {et}[] {op}(a, b)\n}}\n"


def single(text: str) -> tuple[Module, Instruction]:
    """A module whose entry applies one instruction to parameters and constants, and that instruction."""
    module = parse(text)
    return module, module.entry.root


def kernel_of(text: str) -> tuple[Instruction, KernelSpec]:
    """The entry root of a program and its kernel, which must not be a library call."""
    _, inst = single(text)
    spec = build_kernel(inst)
    assert isinstance(spec, KernelSpec)
    return inst, spec


def check(text: str, *args: Any, tolerance: float | None = None, seed: int = 0) -> KernelSpec | GemmCall:
    """Builds the kernel of the entry root, runs it whole and in three parts, compares both with the evaluator.

    `args`: the program's arguments; random ones by default. A library call is returned unrun.
    """
    module, inst = single(text)
    spec = build_kernel(inst)
    if isinstance(spec, GemmCall):
        return spec
    arguments = list(args) or random_args(module.entry_parameter_shapes(), seed)
    values = dict(zip(module.entry.parameters, arguments, strict=True))
    operands = [values[o] if o in values else np.asarray(o.attrs.literal.array) for o in inst.operands]
    operands = [
        np.asarray(a, s.element_type.np)
        for a, s in zip(operands, array_leaves([o.shape for o in inst.operands]), strict=True)
    ]
    wanted = interp.run(module, arguments)
    length = reduction_length(module)
    for parts in (1, 3):
        got = run_kernel(spec, inst, operands, parts)
        for k, (g, w) in enumerate(zip(got, wanted, strict=True)):
            verdict = compare(g.copy(), np.asarray(w), length, tolerance)
            assert verdict.ok, f"output {k}, {parts} parts: {verdict}\n{text}\ngot {g}\nwant {w}"
    return spec
