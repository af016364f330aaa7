"""Chains: runs of element-wise steps on large arrays, evaluated block by block.

A step at a time, every intermediate array of many megabytes would be written to fresh memory and read back. In a chain
all steps run on one block of elements before the next block starts, so that intermediates stay in the cache. The values
are the same: element-wise kernels do not care how many elements they see.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.op_def import Trait
from xyla.interp.steps import Step
from xyla.interp.table import Array, Kernel, Value

# Arrays from this size on are worth it, in blocks of that size (elements).
_LARGE = 1 << 19
_BLOCK = 1 << 15


def chained(steps: list[Step], template: list[Value], root: int) -> list[Step]:
    """The same steps with every run of two or more large element-wise ones joined into one step.

    A step that does not depend on the open run moves before it; one that does closes it. New slots are appended to
    `template`.
    """
    if not any(_is_large(s.inst) for s in steps):
        return steps
    last_use = {i: n for n, s in enumerate(steps) for i in s.ins}
    last_use[root] = len(steps)
    out: list[Step] = []
    run: list[tuple[int, Step]] = []
    made: set[int] = set()
    for n, step in enumerate(steps):
        large = _is_large(step.inst)
        if large and (not run or step.inst.shape.dims == run[0][1].inst.shape.dims):
            run.append((n, step))
            made.add(step.out)
            continue
        if large or not made.isdisjoint(step.ins):
            out.extend(_joined(run, last_use, template))
            run, made = [], set()
        if large:  # of other dims: it starts a run of its own
            run, made = [(n, step)], {step.out}
        else:
            out.append(step)
    out.extend(_joined(run, last_use, template))
    return out


def _is_large(inst: Instruction) -> bool:
    """Whether the instruction works element by element on a large static array."""
    shape = inst.shape
    if not shape.is_array or shape.dynamic or shape.num_elements < _LARGE:
        return False
    if inst.op is ops.BITCAST_CONVERT:
        if inst.operands[0].shape.dims != shape.dims:
            return False
    elif not inst.op.has(Trait.ELEMENTWISE):
        return False
    return all(o.shape.is_scalar or (o.shape.dims == shape.dims and not o.shape.dynamic) for o in inst.operands)


def _joined(run: list[tuple[int, Step]], last_use: dict[int, int], template: list[Value]) -> list[Step]:
    """One step for the whole run and one for each value that outlives it."""
    steps = [s for _, s in run]
    if len(steps) < 2:
        return steps
    made = {s.out: i for i, s in enumerate(steps)}
    ins = tuple(dict.fromkeys(i for s in steps for i in s.ins if i not in made))
    # Whoever uses a value outside the run comes after it: an earlier user would have closed the run.
    kept = [s for s in steps if last_use.get(s.out, -1) > run[-1][0]]
    together = len(template)
    template.append(None)
    joint = Step(steps[-1].inst, _kernel(steps, ins, kept), ins, together)
    return [joint, *(Step(s.inst, itemgetter(i), (together,), s.out) for i, s in enumerate(kept))]


def _kernel(steps: Sequence[Step], ins: tuple[int, ...], kept: Sequence[Step]) -> Kernel:
    number = {slot: i for i, slot in enumerate(dict.fromkeys([*ins, *(s.out for s in steps)]))}
    program = [(s.kernel, tuple(number[i] for i in s.ins), number[s.out]) for s in steps]
    results = [(number[s.out], s.inst.shape.element_type.np) for s in kept]
    dims = steps[0].inst.shape.dims
    size = steps[0].inst.shape.num_elements

    def kernel(*values: Array) -> tuple[Array, ...]:
        flats = [_flat(v) for v in values]
        outs: list[Array] = [np.empty(size, dtype) for _, dtype in results]
        local: list[Any] = [None] * len(number)
        for start in range(0, size, _BLOCK):
            part = slice(start, start + _BLOCK)
            for i, x in enumerate(flats):
                local[i] = x[part] if x.ndim else x
            for fn, at, to in program:
                local[to] = fn(*[local[i] for i in at])
            for out, (i, _) in zip(outs, results, strict=True):
                out[part] = local[i]
        return tuple(out.reshape(dims) for out in outs)

    return kernel


def _flat(x: Array) -> Array:
    """The elements in a row; one element for an array that repeats it."""
    x = np.asarray(x)
    if x.ndim == 0 or not any(x.strides):
        return np.asarray(x[(0,) * x.ndim])
    return np.ascontiguousarray(x).reshape(-1)
