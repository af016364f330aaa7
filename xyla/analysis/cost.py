"""How much work evaluating an instruction is, roughly: scalar operations, with a charge for each instruction run."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from xyla.analysis.while_loops import find_induction
from xyla.hlo import ops
from xyla.hlo.module import Computation, Instruction
from xyla.hlo.op_def import OpDef

# What one instruction costs beside its elements (the evaluator's overhead, in scalar operations).
OVERHEAD = 500
# Stands for "too much to say, or not known".
UNBOUNDED_WORK = 10**18


class Work:
    """Estimates the work of instructions; remembers the sums of computations. Estimates saturate at UNBOUNDED_WORK."""

    def __init__(self) -> None:
        self._known: dict[Computation, tuple[int, int]] = {}

    def of(self, inst: Instruction) -> int:
        """The work of one execution of `inst`, callees included; UNBOUNDED_WORK for loops of unknown length."""
        for comp in inst.called:
            self.of_computation(comp)
        return self._alone(inst)

    def of_computation(self, comp: Computation) -> int:
        """The work of running `comp` once. Iterative over the call graph."""
        stack = [comp]
        while stack:
            top = stack[-1]
            if self._current(top):
                stack.pop()
                continue
            todo = [c for c in dict.fromkeys(c for i in top.instructions for c in i.called) if not self._current(c)]
            if todo:
                stack.extend(todo)
                continue
            stack.pop()
            total = sum(self._alone(i) for i in top.instructions)
            self._known[top] = (top.revision, min(total, UNBOUNDED_WORK))
        return self._known[comp][1]

    def _current(self, comp: Computation) -> bool:
        found = self._known.get(comp)
        return found is not None and found[0] == comp.revision

    def _alone(self, inst: Instruction) -> int:
        callees = sum(self._known[c][1] for c in inst.called)
        if inst.op is ops.WHILE:
            induction = find_induction(inst)
            return UNBOUNDED_WORK if induction is None else min(induction.trips * callees + OVERHEAD, UNBOUNDED_WORK)
        elements = sum(s.num_elements for _, s in inst.shape.leaves() if s.is_array)
        for operand in inst.operands:
            if operand.shape.is_array and operand.op is not ops.BROADCAST:
                elements += operand.shape.num_elements
        factor = _FACTORS.get(inst.op)
        work = elements * (factor(inst) if factor is not None else 1)
        if inst.op in _BY_ELEMENT:
            # Reducers of one op run as whole-array operations; others element by element.
            work += elements * (callees if len(inst.called[0].instructions) > 3 else 4)
        else:
            work += callees
        return min(work + OVERHEAD, UNBOUNDED_WORK)


_BY_ELEMENT = (ops.REDUCE, ops.REDUCE_WINDOW, ops.SCATTER, ops.SELECT_AND_SCATTER, ops.SORT, ops.SCAN)


def _contraction(inst: Instruction) -> int:
    lhs = inst.operands[0].shape
    return max(1, prod(lhs.dims[int(d)] for d in inst.attrs.lhs_contracting_dims))


def _kernel(inst: Instruction) -> int:
    return max(1, inst.operands[1].shape.num_elements)


def _window(inst: Instruction) -> int:
    return max(1, prod(int(d.size) for d in inst.attrs.window.dims))


def _sorting(inst: Instruction) -> int:
    return max(1, inst.operands[0].shape.num_elements.bit_length()) * 8


def _cubic(inst: Instruction) -> int:
    return max(inst.operands[0].shape.dims, default=1)


_FACTORS: dict[OpDef[Any], Callable[[Instruction], int]] = {
    ops.DOT: _contraction,
    ops.CONVOLUTION: _kernel,
    ops.REDUCE_WINDOW: _window,
    ops.SELECT_AND_SCATTER: _window,
    ops.SORT: _sorting,
    ops.CHOLESKY: _cubic,
    ops.TRIANGULAR_SOLVE: _cubic,
}
