"""Custom calls of functions that users registered: the evaluator calls them as compiled programs do."""

from __future__ import annotations

import numpy as np

from xyla.hlo.module import Instruction
from xyla.hlo.shape import Shape
from xyla.interp.custom_calls.attributes import call_attributes
from xyla.interp.session import Session
from xyla.interp.table import TOKEN, Array, Kernel, Value
from xyla.runtime.custom_calls import OUTSIDE, CallContext, handler_of
from xyla.runtime.program import ArrayType, CustomCallStep, Slice
from xyla.runtime.run_options import RunOptions

_NOWHERE = Slice(0, 0, 0)


def registered(inst: Instruction, session: Session) -> Kernel:
    """The kernel of a custom-call whose target is registered."""
    inputs = tuple((_NOWHERE, t) for o in inst.operands for t in _types(o.shape))
    outputs = tuple((_NOWHERE, t) for t in _types(inst.shape))
    step = CustomCallStep(inst.name, OUTSIDE, inputs, outputs, call_attributes(inst))
    handler = handler_of(step)
    options = RunOptions(world=session.world, participant=session.device, feeds=session.host)

    def kernel(*operands: Value) -> Value:
        arrays = [np.asarray(x) for value in operands for x in _arrays(value)]
        results = iter(handler(CallContext(options, inst.name), arrays))
        leaves = [next(results) if leaf.is_array else TOKEN for _, leaf in inst.shape.leaves()]
        return _tree(inst.shape, leaves)

    return kernel


def _types(shape: Shape) -> list[ArrayType]:
    """The array leaves, row-major: values of the evaluator have no layout."""
    out = []
    for _, leaf in shape.leaves():
        if leaf.is_array:
            size, strides = leaf.element_type.itemsize, leaf.without_layout().strides()
            out.append(ArrayType(leaf.element_type.np, leaf.dims, tuple(s * size for s in strides)))
    return out


def _arrays(value: Value) -> list[Array]:
    """The arrays of a nested tuple, in order."""
    stack, out = [value], []
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            stack.extend(reversed(item))
        elif item is not TOKEN:
            out.append(item)
    return out


def _tree(shape: Shape, leaves: list[Value]) -> Value:
    """Leaves in order as the (nested) tuples of a shape. Shapes nest a few levels."""
    if not shape.is_tuple:
        return leaves.pop(0)
    return tuple(_tree(s, leaves) for s in shape.tuple_shapes)
