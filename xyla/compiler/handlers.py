"""Handlers: Python work for instructions that have no native code, injected into the runtime, which knows no HLO.

Each is a call of the target `xyla.evaluate`, whose attribute `hlo` is the text of a module that does the same: so a
program can be saved and printed. The evaluator is imported when the first handler runs: most programs need none, and
it costs 0.1 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xyla.analysis.manual_partitions import is_border
from xyla.hlo import ops
from xyla.hlo.module import Instruction, Module
from xyla.hlo.op_def import Trait
from xyla.hlo.shape import Shape
from xyla.lowering.outline import outline, with_callees
from xyla.lowering.units import HandlerUnit
from xyla.runtime.custom_calls import CallContext, Handler, register
from xyla.runtime.program import CustomCallStep, Deferred
from xyla.runtime.rendezvous import SINGLE
from xyla.support.status import internal

if TYPE_CHECKING:
    from xyla.interp import Evaluator

EVALUATE = "xyla.evaluate"
_OUTSIDE = frozenset({
    ops.INFEED, ops.OUTFEED, ops.SEND, ops.SEND_DONE, ops.RECV, ops.RECV_DONE, ops.REPLICA_ID, ops.PARTITION_ID,
})  # fmt: skip


def handler_for(inst: Instruction, reason: str) -> HandlerUnit:
    """A unit that evaluates `inst` with the reference evaluator's rule."""
    return HandlerUnit(EVALUATE, _evaluate(inst), reason, {"hlo": Deferred(lambda: str(outline(inst)))})


def _evaluate(inst: Instruction) -> Handler:
    from xyla.interp import Evaluator

    operand_shapes = [o.shape for o in inst.operands]
    kept = None if _needs_execution(inst) else Evaluator()

    def run(context: CallContext, arrays: Sequence[Any]) -> list[Any]:
        # What other devices and the host get to see must outlive this step: its memory is used again.
        rest = iter(arrays if kept else [a.copy() for a in arrays])
        operands = [_tree(shape, rest) for shape in operand_shapes]
        evaluator = kept or _of_execution(context)
        return _leaves(inst.shape, evaluator.evaluate_instruction(inst, operands))

    return run


def _needs_execution(inst: Instruction) -> bool:
    """Whether an instruction, or one that it calls, asks for more than its operands."""
    called = (i for comp in with_callees(inst.called) for i in comp.instructions)
    return any(_reaches_out(i) for i in (inst, *called))


def _reaches_out(inst: Instruction) -> bool:
    return inst.op in _OUTSIDE or inst.op.has(Trait.STATEFUL_RNG) or inst.op.has(Trait.COLLECTIVE) or is_border(inst)


def _of_execution(context: CallContext) -> Evaluator:
    """The evaluator that all handlers of an execution share."""
    from xyla.interp import Evaluator

    found = context.shared.get(Evaluator)
    if found is None:
        options = context.options
        found = Evaluator(host=options.feeds, world=options.world or SINGLE, device=options.participant)
        context.shared[Evaluator] = found
    assert isinstance(found, Evaluator)
    return found


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


def module_unit(module: Module, reason: str) -> HandlerUnit:
    """A unit that evaluates a whole module on its parameters' array leaves."""
    return HandlerUnit(EVALUATE, _evaluate_module(module), reason, {"hlo": Deferred(lambda: str(module))})


def as_one_call(module: Module) -> Module:
    """A module whose entry gives all its parameters to one custom call, which stands for `module`'s entry."""
    whole = Module(module.name)
    whole.config = replace(module.config, is_scheduled=False)
    entry = whole.add_computation("main")
    operands = [
        entry.add(ops.PARAMETER, [], ops.ParameterAttrs(i), shape=p.shape, name=p.name)
        for i, p in enumerate(module.entry.parameters)
    ]
    attrs = ops.CustomCallAttrs(custom_call_target=EVALUATE)
    entry.set_root(entry.add(ops.CUSTOM_CALL, operands, attrs, shape=module.entry.root.shape))
    whole.set_entry(entry)
    return whole


def _evaluate_module(module: Module) -> Handler:
    shapes = [p.shape for p in module.entry.parameters]
    result = module.entry.root.shape

    def run(context: CallContext, arrays: Sequence[Any]) -> list[Any]:
        rest = iter([a.copy() for a in arrays])
        args = [_tree(shape, rest) for shape in shapes]
        return _leaves(result, _of_execution(context).evaluate_computation(module.entry, args))

    return run


def _prepare(step: CustomCallStep) -> Handler:
    """The handler of a step that was loaded: its text is read when it first runs."""
    found: list[Handler] = []

    def run(context: CallContext, arrays: Sequence[Any]) -> Any:
        if not found:
            found.append(_evaluate_module(_module_of(step)))
        return found[0](context, arrays)

    return run


def _module_of(step: CustomCallStep) -> Module:
    from xyla.formats.hlo_text import parse

    hlo = step.attributes.get("hlo")
    text = hlo.text if isinstance(hlo, Deferred) else hlo
    if not isinstance(text, str):
        raise internal(f"{step.name}: a call of {EVALUATE} without the text of its module")
    return parse(text, step.name)


register(EVALUATE, _prepare)
