"""Handlers: Python work for instructions that have no native code, injected into the runtime, which knows no HLO.

The evaluator is imported when the first handler is made: most programs need none, and it costs 0.1 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xyla.hlo.module import Instruction, Module
from xyla.hlo.shape import Shape
from xyla.lowering.units import HandlerUnit
from xyla.runtime.program import Handler


def handler_for(inst: Instruction, reason: str) -> HandlerUnit:
    """A unit that evaluates `inst` with the reference evaluator's rule."""
    return HandlerUnit(_evaluate(inst), reason)


def _evaluate(inst: Instruction) -> Handler:
    from xyla.interp import Evaluator

    operand_shapes = [o.shape for o in inst.operands]
    evaluator = Evaluator()

    def run(arrays: Sequence[Any]) -> list[Any]:
        rest = iter(arrays)
        operands = [_tree(shape, rest) for shape in operand_shapes]
        return _leaves(inst.shape, evaluator.evaluate_instruction(inst, operands))

    return run


def _tree(shape: Shape, leaves: Any) -> Any:
    """Regroups array leaves into the (nested) tuples of a shape; tokens take no leaf."""
    from xyla.interp.table import TOKEN

    if shape.is_tuple:
        return tuple(_tree(s, leaves) for s in shape.tuple_shapes)
    return next(leaves) if shape.is_array else TOKEN


def _leaves(shape: Shape, value: Any) -> list[Any]:
    """The array leaves of a value, in order."""
    if shape.is_tuple:
        return [leaf for s, v in zip(shape.tuple_shapes, value, strict=True) for leaf in _leaves(s, v)]
    return [value] if shape.is_array else []


def module_handler(module: Module) -> Handler:
    """A handler that evaluates a whole module on its parameters' array leaves."""
    from xyla.interp import evaluate

    shapes = [p.shape for p in module.entry.parameters]
    result = module.entry.root.shape

    def run(arrays: Sequence[Any]) -> list[Any]:
        rest = iter(arrays)
        return _leaves(result, evaluate(module, [_tree(shape, rest) for shape in shapes]))

    return run
