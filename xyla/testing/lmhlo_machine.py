"""Runs LMHLO as it is written, one operation after the other, on NumPy memory: what a lowering is compared with.

Kernels are evaluated from their HLO; matrix products, copies and control flow are done here. One device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xyla.analysis.nesting import Nested, drive
from xyla.hlo import ops
from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.interp import Evaluator
from xyla.interp.table import TOKEN
from xyla.lowering import lmhlo
from xyla.lowering.arrays import array_type, physical_bytes
from xyla.support.status import unimplemented

Array = npt.NDArray[Any]


class Machine:
    """Memory for a module, and its execution. `steps` counts operations by name."""

    def __init__(self, module: lmhlo.Module, evaluator: Evaluator | None = None) -> None:
        self.module = module
        self.evaluator = evaluator or Evaluator()
        self.steps: dict[str, int] = {}
        self._globals = [physical_bytes(g.literal) for g in module.globals]
        self._memory: list[npt.NDArray[np.uint8]] = []
        self._host: dict[int, npt.NDArray[np.uint8]] = {}
        self._last: dict[str, list[bytes]] = {}

    def run(self, *args: npt.ArrayLike) -> list[Array]:
        """The results, a logical array a leaf. Memory is poisoned first; arguments are copied to where they belong."""
        entry = self.module.entry
        self._memory = [np.full(a.size, 0xA5, np.uint8) for a in entry.arguments]
        rest = iter(args)
        given = sorted(
            (a.params, a.param_shape_index, i) for i, a in enumerate(entry.arguments) if a.params is not None
        )
        for _, _, i in given:
            shape = entry.arguments[i].shape
            assert shape is not None
            self._at(i, 0, shape)[...] = next(rest)
        self._last = {}
        for a, memory in zip(entry.arguments, self._memory, strict=True):
            if a.constant_name is not None:
                number = next(n for n, g in enumerate(self.module.globals) if g.name == a.constant_name)
                memory[...] = self._globals[number]
        drive(self._block(entry.body))
        return [r.copy() for r in self._results()]

    def _results(self) -> Iterator[Array]:
        entry = self.module.entry
        assert entry.result_shape is not None
        for index, leaf in entry.result_shape.leaves():
            if leaf.is_array:
                number = next(i for i, a in enumerate(entry.arguments) if index in a.output_index)
                yield self._at(number, 0, leaf)

    def _at(self, number: int, offset: int, shape: Shape) -> Array:
        t = array_type(shape)
        return np.ndarray(t.dims, t.dtype, self._memory[number].data, offset, t.strides)

    def array(self, view: lmhlo.View) -> Array:
        """The memory that a view names, as an array that can be written to."""
        s, t = view.slice, view.type
        if view.space is lmhlo.Space.GLOBAL:
            memory = self._globals[s.allocation]
        elif view.space is lmhlo.Space.HOST:
            memory = self._host.setdefault(s.allocation, np.zeros(s.size, np.uint8))
        else:
            memory = self._memory[s.allocation]
        if s.offset + s.size > memory.size:
            raise IndexError(f"{s} is outside of {memory.size} bytes")
        return np.ndarray(t.dims, t.dtype, memory.data, s.offset, t.strides)

    # -- operations --------------------------------------------------------------------------------------------

    def _block(self, block: lmhlo.Block) -> Nested:
        for op in block.ops:
            self.steps[op.mnemonic] = self.steps.get(op.mnemonic, 0) + 1
            nested = self._control(op)
            if nested is not None:
                yield nested
            else:
                self._work(op)

    def _control(self, op: lmhlo.Op) -> Nested | None:
        match op:
            case lmhlo.While():
                return self._while(op)
            case lmhlo.Case():
                return self._block(op.branches[self._branch(op)])
            case lmhlo.Call():
                return self._call(op)
            case _:
                return None

    def _while(self, op: lmhlo.While) -> Nested:
        while True:
            yield self._block(op.condition)
            if not self.array(op.predicate):
                return
            yield self._block(op.body)

    def _branch(self, op: lmhlo.Case) -> int:
        index = self.array(op.index)
        if index.dtype == np.bool_:
            return 0 if index else 1
        last = len(op.branches) - 1
        return int(index) if 0 <= index <= last else last

    def _call(self, op: lmhlo.Call) -> Nested:
        arguments = [self.array(v).tobytes() for v in op.sources]
        at_hand = op.pure and self._last.get(op.callee) == arguments
        for source, target in zip(op.sources, op.targets, strict=True):
            self.array(target)[...] = self.array(source)
        self._last[op.callee] = arguments
        function = self.module.function(op.callee)
        assert function is not None
        if not at_hand:
            yield self._block(function.body)

    def _work(self, op: lmhlo.Op) -> None:
        match op:
            case lmhlo.Copy():
                self._store([op.target], [self.array(op.source)])
            case lmhlo.Memcpy():
                self._store([op.dst], [self.array(op.src)])
            case lmhlo.Launch():
                entry = op.hlo.module.entry
                operands = self._operands([p.shape for p in entry.parameters], op.inputs)
                self._store(op.outputs, _leaves(entry.root.shape, self.evaluator.evaluate_computation(entry, operands)))
            case lmhlo.Gemm():
                self._store([op.c], [_product(op, self.array(op.a), self.array(op.b))])
            case lmhlo.Done():
                pass
            case _ if op.instruction is not None:
                self._instruction(op, op.instruction)
            case _:
                raise unimplemented(f"{op.mnemonic} without its HLO instruction")

    def _instruction(self, op: lmhlo.Op, inst: Instruction) -> None:
        """Any other operation: what the evaluator says of the instruction that it comes from."""
        views = lmhlo.views_of(op)
        shapes = [o.shape for o in inst.operands]
        count = sum(1 for s in shapes for _, leaf in s.leaves() if leaf.is_array)
        if inst.op is ops.ASYNC_START:
            inst = inst.called[0].root
        found = _leaves(inst.shape, self.evaluator.evaluate_instruction(inst, self._operands(shapes, views[:count])))
        outputs = views[count:]
        starts = {ops.ALL_GATHER_START: count, ops.COLLECTIVE_PERMUTE_START: count}
        first = starts.get(inst.op, 0)
        self._store(outputs, found[first : first + len(outputs)])

    def _operands(self, shapes: Sequence[Shape], views: Sequence[lmhlo.View]) -> list[Any]:
        rest = iter([self.array(v).copy() for v in views])
        return [_tree(s, rest.__next__) for s in shapes]

    def _store(self, views: Sequence[lmhlo.View], values: Sequence[Array]) -> None:
        for view, value in zip(views, [np.array(v) for v in values], strict=True):
            self.array(view)[...] = value


def _tree(shape: Shape, leaf: Callable[[], Array]) -> Any:
    if shape.is_tuple:
        return tuple(_tree(s, leaf) for s in shape.tuple_shapes)
    return leaf() if shape.is_array else TOKEN


def _leaves(shape: Shape, value: Any) -> list[Array]:
    if shape.is_tuple:
        return [leaf for s, v in zip(shape.tuple_shapes, value, strict=True) for leaf in _leaves(s, v)]
    return [value] if shape.is_array else []


def _product(op: lmhlo.Gemm, a: Array, b: Array) -> Array:
    """The dot in plain NumPy terms: batch dimensions, then those of a, then those of b."""
    d = op.dot_dimension_numbers
    free_a = [i for i in range(a.ndim) if i not in d.lhs_batching_dimensions + d.lhs_contracting_dimensions]
    free_b = [i for i in range(b.ndim) if i not in d.rhs_batching_dimensions + d.rhs_contracting_dimensions]
    x = a.transpose([*d.lhs_batching_dimensions, *free_a, *d.lhs_contracting_dimensions])
    y = b.transpose([*d.rhs_batching_dimensions, *d.rhs_contracting_dimensions, *free_b])
    batch = len(d.lhs_batching_dimensions)
    k = int(np.prod(x.shape[batch + len(free_a) :], dtype=np.int64))
    lead = x.shape[:batch]
    product = x.reshape(*lead, -1, k) @ y.reshape(*lead, k, -1) if k else np.zeros(op.c.type.dims, a.dtype)
    return product.reshape(op.c.type.dims) * op.alpha_real
